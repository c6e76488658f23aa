//! Integrations and their keys.

use std::time::Duration;

use everhook_core::limits::INTEGRATIONS_MAX;
use http::Method;
use serde_json::json;

use crate::api::world::{Answer, Call, World};

const PATH: &str = "/app/acme/integration";

async fn with_key(world: &World, key: &str, path: &str) -> Answer {
    world.call(Call::new(Method::GET, path).bearer(key)).await
}

async fn rotate(world: &World, id: &str) -> String {
    world.post(&format!("{PATH}/{id}/key/rotate"), "").await.text("/key")
}

#[tokio::test]
async fn an_integration_is_created_listed_replaced_and_deleted() {
    let world = World::with_application().await;
    let made = world.post(PATH, r#"{"name": "Tool", "featureFlags": ["beta"]}"#).await;
    insta::assert_snapshot!(made, @r#"201 {"id":"integ_#1","name":"Tool","featureFlags":["beta"],"createdAt":"<time>","updatedAt":"<time>"}"#);
    let id = made.text("/id");
    let second = world.post(PATH, r#"{"name": "Other"}"#).await.created();
    assert_eq!(world.get(PATH).await.each("name"), ["Other", "Tool"]);
    assert_eq!(world.get(&format!("{PATH}?order=ascending&limit=1")).await.each("id"), [id.as_str()]);
    let one = format!("{PATH}/{id}");
    insta::assert_snapshot!(world.put(&one, r#"{"name": "After"}"#).await, @r#"200 {"id":"integ_#1","name":"After","featureFlags":[],"createdAt":"<time>","updatedAt":"<time>"}"#);
    assert_eq!(world.get(&one).await.text("/name"), "After");
    assert_eq!(world.delete(&one).await.to_string(), "204");
    assert_eq!(world.get(PATH).await.each("id"), [second]);
    for (method, path, body) in [
        (Method::GET, one.clone(), ""),
        (Method::PUT, one.clone(), r#"{"name": "x"}"#),
        (Method::DELETE, one.clone(), ""),
        (Method::POST, format!("{one}/key/rotate"), ""),
        (Method::GET, format!("{PATH}/nonsense"), ""),
    ] {
        assert_eq!(world.call(Call::new(method, &path).body(body)).await.code(), (404, "not_found".to_owned()));
    }
    insta::assert_snapshot!(world.post(PATH, r#"{"name": ""}"#).await, @r#"422 {"detail":[{"loc":["body","name"],"msg":"must not be empty","type":"value_error"}]}"#);
    assert_eq!(world.post(PATH, "{}").await.status, 422);
    let flags: Vec<String> = (0..26).map(|n| format!("flag-{n}")).collect();
    assert_eq!(world.post(PATH, &json!({ "name": "x", "featureFlags": flags }).to_string()).await.status, 422);
}

#[tokio::test]
async fn a_creation_with_the_same_key_is_made_once_and_the_number_is_bounded() {
    let world = World::with_application().await;
    let create = async |key: &str| {
        world.call(Call::new(Method::POST, PATH).header("idempotency-key", key).body(r#"{"name": "Tool"}"#)).await
    };
    assert_eq!(create("a").await.created(), create("a").await.created());
    for n in 1..INTEGRATIONS_MAX {
        create(&format!("n{n}")).await.created();
    }
    insta::assert_snapshot!(create("z").await, @r#"400 {"code":"limit_reached","detail":"An application has at most 100 integrations: delete one first."}"#);
}

#[tokio::test]
async fn a_key_reaches_its_application_until_it_is_rotated_or_deleted() {
    let world = World::with_application().await;
    world.application("other").await;
    let id = world.post(PATH, r#"{"name": "Tool"}"#).await.created();
    let first = rotate(&world, &id).await;
    assert!(first.starts_with("integsk_"), "{first}");
    assert_eq!(with_key(&world, &first, "/app/acme/endpoint").await.status, 200);
    let create = Call::new(Method::POST, "/app/acme/endpoint").bearer(&first).body(r#"{"url": "https://a.example"}"#);
    assert_eq!(world.call(create).await.status, 201, "it has every capability");
    assert_eq!(with_key(&world, &first, "/app/other/endpoint").await.status, 404);
    for path in ["/app", PATH] {
        assert_eq!(with_key(&world, &first, path).await.status, 403, "{path}");
    }
    let logout = Call::new(Method::POST, "/auth/logout").bearer(&first);
    assert_eq!(world.call(logout).await.status, 403, "it is no token");
    world.post("/auth/app/acme/expire-all", "{}").await;
    assert_eq!(with_key(&world, &first, "/app/acme").await.status, 200, "it is no token");
    let second = rotate(&world, &id).await;
    assert_eq!(with_key(&world, &first, "/app/acme").await.status, 401, "at once");
    assert_eq!(with_key(&world, &second, "/app/acme").await.status, 200);
    world.put(&format!("{PATH}/{id}"), r#"{"name": "After"}"#).await;
    assert_eq!(with_key(&world, &second, "/app/acme").await.status, 200, "a change leaves the key");
    world.delete(&format!("{PATH}/{id}")).await;
    assert_eq!(with_key(&world, &second, "/app/acme").await.status, 401, "at once");
}

#[tokio::test]
async fn a_key_sees_event_types_behind_its_flags() {
    let world = World::with_application().await;
    world.post("/event-type", r#"{"name": "open", "description": ""}"#).await;
    world.post("/event-type", r#"{"name": "hidden", "description": "", "featureFlag": "beta"}"#).await;
    let id = world.post(PATH, r#"{"name": "Tool", "featureFlags": ["beta"]}"#).await.created();
    let key = rotate(&world, &id).await;
    assert_eq!(with_key(&world, &key, "/event-type").await.each("name"), ["hidden", "open"]);
    world.put(&format!("{PATH}/{id}"), r#"{"name": "Tool"}"#).await;
    assert_eq!(with_key(&world, &key, "/event-type").await.each("name"), ["open"]);
}

#[tokio::test]
async fn a_key_ends_with_its_application_within_seconds() {
    let world = World::with_application().await;
    let id = world.post(PATH, r#"{"name": "Tool"}"#).await.created();
    let key = rotate(&world, &id).await;
    assert_eq!(with_key(&world, &key, "/event-type").await.status, 200);
    assert_eq!(world.delete("/app/acme").await.status, 204);
    world.pass(Duration::from_secs(4)).await;
    assert_eq!(with_key(&world, &key, "/event-type").await.status, 401);
}
