//! Sessions of the dashboard.

use std::time::Duration;

use http::Method;
use http::header::{COOKIE, SET_COOKIE};
use serde_json::json;

use crate::api::world::{Answer, Call, World};

async fn post(world: &World, body: serde_json::Value) -> Answer {
    world.call(Call::new(Method::POST, "/!/auth/session").anonymous().body(body.to_string())).await
}

/// Returns the cookie and the `csrf` value of a new session.
pub(crate) async fn sign_in(world: &World, key: &str) -> (String, String) {
    let answer = post(world, json!({ "key": key })).await;
    assert_eq!(answer.status, 200, "{answer}");
    (cookie(&answer), answer.text("/csrf"))
}

fn cookie(answer: &Answer) -> String {
    let whole = answer.headers[SET_COOKIE].to_str().unwrap();
    assert!(whole.contains("; HttpOnly; SameSite=Strict"), "{whole}");
    whole.split(';').next().unwrap().to_owned()
}

fn with(cookie: &str, method: Method, path: &str) -> Call {
    Call::new(method, path).anonymous().header(COOKIE.as_str(), cookie)
}

#[tokio::test]
async fn a_session_reads_and_changes_what_its_key_may() {
    let world = World::new().await;
    let (cookie, csrf) = sign_in(&world, &world.key).await;
    let make = || with(&cookie, Method::POST, "/app").body(r#"{"name": "a", "uid": "a"}"#);
    assert_eq!(world.call(make()).await.code(), (403, "csrf".to_owned()), "a page of another site cannot do this");
    assert_eq!(world.call(make().header("x-csrf-token", "wrong")).await.status, 403);
    assert_eq!(world.call(make().header("x-csrf-token", &csrf)).await.status, 201);
    assert_eq!(world.call(with(&cookie, Method::GET, "/app/a")).await.status, 200);
    let (other, _) = sign_in(&world, &world.other_key).await;
    assert_eq!(world.call(with(&other, Method::GET, "/app/a")).await.status, 404, "another environment");
    assert_eq!(world.call(with("everhook_session=nonsense", Method::GET, "/app/a")).await.status, 401);
    // The cookie is no token.
    let token = cookie.split_once('=').unwrap().1;
    assert!(world.call(Call::new(Method::GET, "/app").bearer(token)).await.status.is_client_error());
}

#[tokio::test]
async fn a_session_ends_by_sign_out_and_by_its_age() {
    let world = World::new().await;
    let (cookie, csrf) = sign_in(&world, &world.key).await;
    let own = |method| Call::new(method, "/!/auth/session").anonymous().header(COOKIE.as_str(), &cookie);
    assert_eq!(world.call(own(Method::GET)).await.text("/role"), "operate");
    assert_eq!(world.call(own(Method::DELETE)).await.status, 403);
    assert_eq!(world.call(own(Method::DELETE).header("x-csrf-token", &csrf)).await.status, 204);
    assert_eq!(world.call(own(Method::GET)).await.status, 401);
    assert_eq!(world.call(with(&cookie, Method::GET, "/app")).await.status, 401);
    let (aged, _) = sign_in(&world, &world.key).await;
    world.pass(Duration::from_secs(12 * 3600)).await;
    assert_eq!(world.call(with(&aged, Method::GET, "/app")).await.status, 401);
}

#[tokio::test]
async fn a_link_signs_in_once() {
    let world = World::new().await;
    let path = everhook_api::sign_in_path(&world.node, &world.admin_key.parse().unwrap()).await.unwrap();
    let code = path.strip_prefix("/sign-in#code=").unwrap();
    let session = post(&world, json!({ "code": code })).await;
    assert_eq!((session.status.as_u16(), session.text("/role")), (200, "admin".to_owned()));
    assert_eq!(session.json()["environments"].as_array().unwrap().len(), 2);
    assert_eq!(post(&world, json!({ "code": code })).await.status, 401, "the code was used");
    let late = everhook_api::sign_in_path(&world.node, &world.key.parse().unwrap()).await.unwrap();
    world.pass(Duration::from_secs(601)).await;
    assert_eq!(post(&world, json!({ "code": late.strip_prefix("/sign-in#code=").unwrap() })).await.status, 401);
}

#[tokio::test]
async fn a_bad_sign_in_is_refused() {
    let world = World::new().await;
    for body in [json!({ "key": "nonsense" }), json!({ "code": "nonsense" })] {
        assert_eq!(post(&world, body).await.status, 401);
    }
    for body in [json!({}), json!({ "key": world.key, "code": "x" })] {
        assert_eq!(post(&world, body).await.status, 400);
    }
    assert_eq!(post(&world, json!({ "password": "x" })).await.status, 422);
}
