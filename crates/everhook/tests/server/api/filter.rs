//! Filters of endpoints, and their tester.

use serde_json::json;

use crate::api::world::{Answer, World};

const ENDPOINT: &str = "/app/acme/endpoint/main";

async fn world(endpoint: &str) -> World {
    let world = World::new().await;
    world.application("acme").await;
    world.endpoint("acme", "main").await;
    let changed = world.patch(ENDPOINT, endpoint).await;
    assert_eq!(changed.status, 200, "{changed}");
    world
}

async fn receivers(world: &World, event_type: &str, payload: serde_json::Value) -> usize {
    let body = json!({ "eventType": event_type, "payload": payload }).to_string();
    let sent = world.post("/app/acme/msg", &body).await;
    world.get(&format!("/app/acme/msg/{}/endpoint", sent.text("/id"))).await.each("url").len()
}

#[tokio::test]
async fn an_endpoint_gets_the_messages_that_pass_its_filters() {
    let world = world(r#"{"eventTypes": ["invoice.*"], "filter": "payload.amount > 100"}"#).await;
    assert_eq!(receivers(&world, "invoice.paid", json!({ "amount": 101 })).await, 1);
    assert_eq!(receivers(&world, "invoice.payment.failed", json!({ "amount": 101 })).await, 1);
    assert_eq!(receivers(&world, "invoice.paid", json!({ "amount": 100 })).await, 0);
    assert_eq!(receivers(&world, "invoice.paid", json!({ "total": 101 })).await, 0, "an error does not match");
    assert_eq!(receivers(&world, "invoices.paid", json!({ "amount": 101 })).await, 0);
    let put = world.put(ENDPOINT, r#"{"url": "https://example.com/"}"#).await;
    assert_eq!((put.status.as_u16(), put.text("/filter")), (200, "payload.amount > 100".to_owned()), "kept");
    let removed = world.patch(ENDPOINT, r#"{"filter": null}"#).await;
    assert_eq!((removed.status.as_u16(), removed.json().get("filter")), (200, None));
    assert_eq!(receivers(&world, "other", json!({})).await, 1);
}

#[tokio::test]
async fn bad_filters_are_refused_with_the_place_of_the_mistake() {
    let world = world("{}").await;
    let refused = async |body: &str| world.patch(ENDPOINT, body).await;
    insta::assert_snapshot!(refused(r#"{"filter": "payload.amount >"}"#).await, @"");
    insta::assert_snapshot!(refused(r#"{"filter": "eventType > 3"}"#).await, @"");
    insta::assert_snapshot!(refused(r#"{"filter": "payload.a + 1"}"#).await, @"");
    insta::assert_snapshot!(refused(r#"{"filter": 3}"#).await, @"");
    insta::assert_snapshot!(refused(r#"{"eventTypes": ["a", "inv*"]}"#).await, @"");
    insta::assert_snapshot!(refused(r#"{"eventTypes": ["*"]}"#).await, @"");
}

#[tokio::test]
async fn the_tester_tells_why() {
    let world = world(r#"{"eventTypes": ["invoice.*"], "channels": ["red"], "filter": "payload.amount > 100"}"#).await;
    let test = async |body: &str| -> Answer { world.post(&format!("{ENDPOINT}/filter/test"), body).await };
    insta::assert_snapshot!(test(r#"{"eventType": "invoice.paid", "channels": ["red"], "payload": {"amount": 101}}"#).await, @"");
    insta::assert_snapshot!(test(r#"{"eventType": "a.b", "payload": {"total": 1}}"#).await, @"");
    insta::assert_snapshot!(test(r#"{"eventType": "invoice.paid", "channels": ["red"], "filter": "eventType == 'x'"}"#).await, @"");
    let sent = world.post("/app/acme/msg", r#"{"eventType": "invoice.paid", "payload": {"amount": 7}}"#).await;
    let by_id = test(&json!({ "msgId": sent.text("/id") }).to_string()).await;
    assert_eq!((by_id.status.as_u16(), &by_id.json()["matches"]), (200, &json!(false)), "{by_id}");
    insta::assert_snapshot!(test("{}").await, @"");
    insta::assert_snapshot!(test(r#"{"msgId": "x", "payload": {}}"#).await, @"");
    insta::assert_snapshot!(test(r#"{"msgId": "x"}"#).await, @"");
    insta::assert_snapshot!(test(r#"{"eventType": "a", "filter": "1 +"}"#).await, @"");
    insta::assert_snapshot!(test(r#"{"eventType": "a", "paylod": {}}"#).await, @"");
}
