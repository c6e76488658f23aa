//! The dashboard as the server delivers it. The tests of its screens run in a browser.

use http::Method;

use crate::api::world::{Answer, Call, World};

async fn open(world: &World, path: &str) -> Answer {
    let browser = "text/html,application/xhtml+xml";
    world.call(Call::new(Method::GET, &format!("/!{path}")).anonymous().header("accept", browser)).await
}

#[tokio::test]
async fn every_screen_is_the_same_page_which_may_load_only_its_own_files() {
    let world = World::new().await;
    let page = open(&world, "/").await;
    assert_eq!((page.status.as_u16(), page.headers["content-type"].to_str().unwrap()), (200, "text/html"));
    for path in ["/overview", "/apps/acme/messages/msg_1", "/sign-in", "/portal/app_1/endpoints"] {
        let screen = open(&world, path).await;
        assert_eq!(screen.body, page.body, "{path}");
        let policy = screen.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.contains("default-src 'none'; script-src 'self'; style-src 'self';"), "{policy}");
        // Only portals may be framed, and only by the configured sites.
        let framed_by = if path.starts_with("/portal/") { "https://app.example.com" } else { "'none'" };
        assert!(policy.ends_with(&format!("frame-ancestors {framed_by}")), "{path}: {policy}");
        assert_eq!(screen.headers["x-content-type-options"], "nosniff");
        assert_eq!(screen.headers["referrer-policy"], "no-referrer");
        assert_eq!(screen.headers["cache-control"], "no-cache");
    }
    let script = page.body.split('"').find(|part| part.starts_with("/assets/") && part.ends_with(".js")).unwrap();
    let script = open(&world, script).await;
    assert_eq!(script.headers["content-type"], "text/javascript");
    assert!(script.headers["cache-control"].to_str().unwrap().contains("immutable"));
    assert!(!page.body.contains("<style") && !page.body.contains("http://") && !page.body.contains("https://"));
}

#[tokio::test]
async fn a_program_gets_an_error_for_an_unknown_path() {
    let world = World::new().await;
    for path in ["/overview", "/api/v1/nothing", "/assets/nothing.js"] {
        assert_eq!(world.get(&format!("/!{path}")).await.code(), (404, "not_found".to_owned()), "{path}");
    }
    assert_eq!(open(&world, "/api/v1/nothing").await.code(), (404, "not_found".to_owned()));
    assert_eq!(world.call(Call::new(Method::POST, "/!/overview")).await.code(), (404, "not_found".to_owned()));
}
