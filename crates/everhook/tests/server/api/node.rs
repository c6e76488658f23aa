//! The nodes of a store, and a node that only delivers.

use everhook_core::role::Role;
use everhook_store::store::Store;
use http::Method;

use crate::api::world::{Call, World};

#[tokio::test]
async fn an_admin_key_sees_the_nodes() {
    let world = World::new().await;
    let list = async |key: &str| world.call(Call::new(Method::GET, "/node").bearer(key)).await;
    insta::assert_snapshot!(list(&world.admin_key).await, @r##"200 {"data":[{"id":"sess_#1","node":"test","role":"all","version":"0","state":"open","since":"<time>","heartbeatAt":"<time>","leaseSeconds":20,"held":0},{"id":"sess_#2","node":"node","role":"all","version":"0","state":"open","since":"<time>","heartbeatAt":"<time>","leaseSeconds":20,"held":0}]}"##);
    world.application("acme").await;
    world.endpoint("acme", "ep").await;
    world.message("acme", "a.b").await;
    world.lease().await;
    assert_eq!(list(&world.admin_key).await.json()["data"][0]["held"], 1);
    world.store.close_session(world.session).await.unwrap();
    let closed = list(&world.admin_key).await.json()["data"][0].clone();
    assert_eq!((&closed["state"], closed["closedAt"].is_string()), (&"closed".into(), true), "{closed}");
}

#[tokio::test]
async fn an_admin_key_sees_the_configuration() {
    let world = World::new().await;
    let call = Call::new(Method::GET, "/config").bearer(&world.admin_key);
    insta::assert_snapshot!(world.call(call).await, @r#"200 {"data":[{"name":"slots","value":2000,"source":"default"}]}"#);
    assert_eq!(world.get("/config").await.status, 403);
}

#[tokio::test]
async fn without_an_admin_key_nodes_are_not_shown() {
    let world = World::new().await;
    insta::assert_snapshot!(world.get("/node").await, @r#"403 {"code":"insufficient access","detail":"Insufficient access for the given operation: use an admin key (`everhook key create --admin`)."}"#);
    assert_eq!(world.call(Call::new(Method::GET, "/node").anonymous()).await.status, 401);
    let token = World::token(&serde_json::json!({"sub": everhook_core::id::DEFAULT_ORG, "exp": 9_000_000_000_i64}));
    assert_eq!(world.call(Call::new(Method::GET, "/node").bearer(&token)).await.status, 403);
}

#[tokio::test]
async fn a_worker_serves_health_and_metrics_and_nothing_else() {
    let world = World::with_role(Role::Worker).await;
    insta::assert_snapshot!(world.get("/health").await, @"204");
    insta::assert_snapshot!(world.get("/health/ready").await, @r#"200 {"ready":true,"version":"1.2.3","role":"worker","egress":"open"}"#);
    insta::assert_snapshot!(world.get("/app").await, @r#"404 {"code":"worker","detail":"This node is a worker: it serves /api/v1/health and /metrics only. Send this to a node with the role api or all."}"#);
    for path in ["/node", "/openapi.json", "/!/docs", "/!/"] {
        assert_eq!(world.get(path).await.code(), (404, "worker".to_owned()), "{path}");
    }
    assert_eq!(world.post("/app", "{}").await.status, 404);
    assert_eq!(world.call(Call::new(Method::GET, "/!/metrics").bearer(&world.admin_key)).await.status, 200);
}

#[tokio::test]
async fn metrics_are_for_those_with_an_admin_key() {
    let world = World::new().await;
    let page = world.call(Call::new(Method::GET, "/!/metrics").bearer(&world.admin_key)).await;
    assert_eq!(page.status, 200);
    assert!(page.body.contains("everhook_tasks_running 0\n"), "{page}");
    assert_eq!(world.get("/!/metrics").await.status, 403);
    assert_eq!(world.call(Call::new(Method::GET, "/!/metrics").anonymous()).await.status, 401);
}
