//! Prechecks and example messages.

use serde_json::json;

use crate::api::world::{Answer, Call, World};
use http::Method;

async fn precheck(world: &World, body: serde_json::Value) -> String {
    world.post("/app/acme/msg/precheck/active", &body.to_string()).await.to_string()
}

#[tokio::test]
async fn a_precheck_tells_whether_any_endpoint_would_get_the_message() {
    let world = World::with_application().await;
    let plain = json!({ "eventType": "a" });
    insta::assert_snapshot!(precheck(&world, plain.clone()).await, @r#"200 {"active":false}"#);
    let endpoint = json!({ "url": "https://a.example", "uid": "main", "channels": ["red"] });
    assert_eq!(world.post("/app/acme/endpoint", &endpoint.to_string()).await.status, 201);
    insta::assert_snapshot!(precheck(&world, plain).await, @r#"200 {"active":false}"#);
    insta::assert_snapshot!(precheck(&world, json!({ "eventType": "a", "channels": ["red", "blue"] })).await, @r#"200 {"active":true}"#);
    insta::assert_snapshot!(precheck(&world, json!({ "eventType": "a b" })).await, @r#"422 {"detail":[{"loc":["body","eventType"],"msg":"may only contain letters, digits, '-', '_' and '.'","type":"value_error"}]}"#);
    insta::assert_snapshot!(precheck(&world, json!({ "eventType": "a", "channels": [] })).await, @r#"422 {"detail":[{"loc":["body","channels"],"msg":"must have 1 to 10 entries, or be null","type":"value_error"}]}"#);
    assert_eq!(world.get("/app/acme/msg").await.each("id").len(), 0);
}

async fn example(world: &World, body: serde_json::Value) -> Answer {
    world.post("/app/acme/endpoint/main/send-example", &body.to_string()).await
}

async fn with_types() -> World {
    let world = World::with_endpoint().await;
    world.endpoint("acme", "other").await;
    for (name, schemas) in [
        ("listed", json!({ "1": { "examples": [{ "n": 1 }, { "n": 2 }] } })),
        ("built", json!({ "1": { "type": "object", "properties": { "n": { "type": "integer" } } } })),
        ("bare", json!(null)),
    ] {
        let body = json!({ "name": name, "description": "", "schemas": schemas });
        assert_eq!(world.post("/event-type", &body.to_string()).await.status, 201);
    }
    world
}

#[tokio::test]
async fn an_example_goes_to_one_endpoint() {
    let world = with_types().await;
    let sent = example(&world, json!({ "eventType": "listed", "exampleIndex": 1 })).await;
    assert_eq!((sent.status.as_u16(), &sent.json()["payload"]), (202, &json!({ "n": 2 })));
    let seen = world.get(&format!("/app/acme/msg/{}/endpoint", sent.text("/id"))).await;
    assert_eq!(seen.each("uid"), ["main"]);
    for (body, payload) in [
        (json!({ "eventType": "built" }), json!({ "n": 0 })),
        (json!({ "eventType": "svix.ping" }), json!({ "success": true })),
        (json!({ "eventType": "bare", "payload": { "own": 1 } }), json!({ "own": 1 })),
    ] {
        assert_eq!(example(&world, body).await.json()["payload"], payload);
    }
}

#[tokio::test]
async fn an_example_that_cannot_be_made_is_refused() {
    let world = with_types().await;
    insta::assert_snapshot!(example(&world, json!({ "eventType": "bare" })).await, @r#"400 {"code":"invalid_scheme","detail":"There is no example: the event type has no schema of an object: add a schema with examples."}"#);
    insta::assert_snapshot!(example(&world, json!({ "eventType": "unknown" })).await, @r#"404 {"code":"not_found","detail":"event type \"unknown\" not found"}"#);
    insta::assert_snapshot!(example(&world, json!({ "eventType": "listed", "exampleIndex": 2 })).await, @r#"422 {"detail":[{"loc":["body","exampleIndex"],"msg":"must be below 2, the number of examples in the schema","type":"value_error"}]}"#);
    insta::assert_snapshot!(example(&world, json!({ "eventType": "listed", "payload": [1] })).await, @r#"422 {"detail":[{"loc":["body","payload"],"msg":"must be a JSON object","type":"value_error"}]}"#);
    assert_eq!(world.patch("/app/acme/endpoint/main", r#"{"disabled": true}"#).await.status, 200);
    insta::assert_snapshot!(example(&world, json!({ "eventType": "listed" })).await, @r#"400 {"code":"endpoint_disabled","detail":"The endpoint is disabled: enable it, then send the example again."}"#);
    assert_eq!(world.get("/app/acme/msg").await.each("id").len(), 0);
}

#[tokio::test]
async fn an_example_is_repeated_by_its_key() {
    let world = with_types().await;
    let path = "/app/acme/endpoint/main/send-example";
    let post = async || {
        let call = Call::new(Method::POST, path).header("idempotency-key", "key");
        world.call(call.body(r#"{"eventType": "listed"}"#)).await.text("/id")
    };
    assert_eq!(post().await, post().await);
}
