//! Messages with a URL of their own.

use serde_json::json;

use crate::api::world::{Answer, World};

const URL: &str = "https://callback.example/done";

async fn send(world: &World, body: serde_json::Value) -> Answer {
    world.post("/app/acme/msg", &body.to_string()).await
}

async fn receivers(world: &World, sent: &Answer) -> Vec<String> {
    world.get(&format!("/app/acme/msg/{}/endpoint", sent.text("/id"))).await.each("url")
}

#[tokio::test]
async fn a_message_with_a_url_goes_there_and_to_no_subscriber() {
    let world = World::with_endpoint().await;
    let direct = json!({ "eventType": "a", "payload": {}, "url": URL });
    let first = send(&world, direct.clone()).await;
    assert_eq!(first.status, 202, "{first}");
    assert_eq!(receivers(&world, &first).await, [URL]);
    // A second message shares the endpoint, and a plain one does not reach it.
    let second = send(&world, direct.clone()).await;
    assert_eq!(receivers(&world, &second).await, [URL]);
    assert_eq!(world.get("/app/acme/endpoint").await.each("url").len(), 2);
    let plain = send(&world, json!({ "eventType": "a", "payload": {} })).await;
    assert!(!receivers(&world, &plain).await.contains(&URL.to_owned()));
    let batch = json!({ "messages": [direct, { "eventType": "a", "payload": {}, "url": "https://b.example/" }] });
    let batch = world.post("/app/acme/msg/batch", &batch.to_string()).await;
    assert_eq!(batch.status, 202, "{batch}");
    assert_eq!(world.get("/app/acme/endpoint").await.each("url").len(), 3);
}

#[tokio::test]
async fn a_change_of_the_endpoint_does_not_subscribe_it() {
    let world = World::with_endpoint().await;
    let sent = send(&world, json!({ "eventType": "a", "payload": {}, "url": URL })).await;
    let id = world.get(&format!("/app/acme/msg/{}/endpoint", sent.text("/id"))).await.each("id").remove(0);
    let path = format!("/app/acme/endpoint/{id}");
    let changed = world.patch(&path, r#"{"description": "mine"}"#).await;
    assert_eq!((changed.status.as_u16(), &changed.json()["eventTypes"]), (200, &json!([])));
    let plain = send(&world, json!({ "eventType": "a", "payload": {} })).await;
    assert!(!receivers(&world, &plain).await.contains(&URL.to_owned()));
}

#[tokio::test]
async fn a_url_that_cannot_be_used_is_refused_and_creates_nothing() {
    let world = World::with_endpoint().await;
    let with_url = |url: &str| json!({ "eventType": "a", "payload": {}, "url": url });
    insta::assert_snapshot!(send(&world, with_url("http://10.0.0.1/")).await, @r#"422 {"detail":[{"loc":["body","url"],"msg":"url has a private or reserved address; use a public one, or have the operator add it to EVERHOOK_EGRESS_ALLOW","type":"value_error"}]}"#);
    insta::assert_snapshot!(send(&world, with_url("poll:")).await, @r#"422 {"detail":[{"loc":["body","url"],"msg":"url scheme is not supported; use https or http","type":"value_error"}]}"#);
    insta::assert_snapshot!(send(&world, json!({ "eventType": "a b", "payload": {}, "url": URL })).await, @r#"422 {"detail":[{"loc":["body","eventType"],"msg":"may only contain letters, digits, '-', '_' and '.'","type":"value_error"}]}"#);
    assert_eq!(world.get("/app/acme/endpoint").await.each("url").len(), 1);
    let sent = send(&world, with_url(URL)).await;
    let id = world.get(&format!("/app/acme/msg/{}/endpoint", sent.text("/id"))).await.each("id").remove(0);
    assert_eq!(world.patch(&format!("/app/acme/endpoint/{id}"), r#"{"disabled": true}"#).await.status, 200);
    let refused = send(&world, with_url(URL)).await;
    assert_eq!((refused.status.as_u16(), refused.text("/code")), (400, "endpoint_disabled".to_owned()));
}
