//! Live updates of the dashboard.

use std::time::Duration;

use axum::body::Body;
use http::header::{CONTENT_TYPE, COOKIE};
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use tower::ServiceExt;

use crate::api::session::sign_in;
use crate::api::world::{Call, World};

/// Opens a stream with a cookie.
async fn open(world: &World, cookie: &str) -> Result<Body, StatusCode> {
    let request = Request::get("/auth/stream").header(COOKIE, cookie).body(Body::empty()).unwrap();
    let answer = world.router.clone().oneshot(request).await.unwrap();
    if answer.status() != StatusCode::OK {
        return Err(answer.status());
    }
    assert_eq!(answer.headers()[CONTENT_TYPE], "text/event-stream");
    Ok(answer.into_body())
}

/// The name of the next event; none at the end of the stream.
async fn next(stream: &mut Body) -> Option<String> {
    loop {
        let frame = stream.frame().await?.unwrap();
        let block = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
        if let Some(name) = block.lines().find_map(|line| line.strip_prefix("event: ")) {
            return Some(name.to_owned());
        }
    }
}

#[tokio::test]
async fn a_change_of_the_environment_is_told() {
    let world = World::new().await;
    let (cookie, _) = sign_in(&world, &world.key).await;
    let mut stream = open(&world, &cookie).await.unwrap();
    assert_eq!(next(&mut stream).await.as_deref(), Some("ready"));
    world.application("acme").await;
    assert_eq!(next(&mut stream).await.as_deref(), Some("change"), "a resource");
    world.message("acme", "a.b").await;
    assert_eq!(next(&mut stream).await.as_deref(), Some("change"), "a message");
}

#[tokio::test]
async fn a_stream_ends_with_its_session() {
    let world = World::new().await;
    let (cookie, csrf) = sign_in(&world, &world.key).await;
    let mut stream = open(&world, &cookie).await.unwrap();
    assert_eq!(next(&mut stream).await.as_deref(), Some("ready"));
    let out = Call::new(Method::DELETE, "/!/auth/session").anonymous().header(COOKIE.as_str(), &cookie);
    assert_eq!(world.call(out.header("x-csrf-token", &csrf)).await.status, 204);
    world.pass(Duration::from_secs(6)).await;
    assert_eq!(next(&mut stream).await.as_deref(), Some("end"));
    assert_eq!(next(&mut stream).await, None);
    assert_eq!(open(&world, &cookie).await.unwrap_err(), 401);
}

#[tokio::test]
async fn a_stream_needs_a_session() {
    let world = World::new().await;
    assert_eq!(open(&world, "a=b").await.unwrap_err(), 401);
    assert_eq!(open(&world, "everhook_session=nonsense").await.unwrap_err(), 401);
    let with_key = Request::get("/auth/stream").header("authorization", format!("Bearer {}", world.key));
    let answer = world.router.clone().oneshot(with_key.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(answer.status(), 401, "it is for the dashboard");
}
