//! Filters of endpoints, and their tester.

use serde_json::json;

use crate::api::world::{Answer, World};

const ENDPOINT: &str = "/app/acme/endpoint/main";

async fn world(endpoint: &str) -> World {
    let world = World::with_endpoint().await;
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
    insta::assert_snapshot!(refused(r#"{"filter": "payload.amount >"}"#).await, @r#"422 {"detail":[{"loc":["body","filter"],"msg":"ends too early, at character 17","type":"value_error"}]}"#);
    insta::assert_snapshot!(refused(r#"{"filter": "eventType > 3"}"#).await, @r#"422 {"detail":[{"loc":["body","filter"],"msg":"compares a number with a text, at character 13","type":"value_error"}]}"#);
    insta::assert_snapshot!(refused(r#"{"filter": "payload.a + 1"}"#).await, @r#"422 {"detail":[{"loc":["body","filter"],"msg":"must be true or false as a whole, at character 11","type":"value_error"}]}"#);
    insta::assert_snapshot!(refused(r#"{"filter": 3}"#).await, @r#"422 {"detail":[{"loc":["body","filter"],"msg":"invalid type: integer `3`, expected a string at line 1 column 12","type":"value_error.jsondecode"}]}"#);
    insta::assert_snapshot!(refused(r#"{"eventTypes": ["a", "inv*"]}"#).await, @r#"422 {"detail":[{"loc":["body","eventTypes","[1]"],"msg":"may have '*' only as a whole segment, such as \"invoice.*\"","type":"value_error"}]}"#);
    insta::assert_snapshot!(refused(r#"{"eventTypes": ["*"]}"#).await, @r#"422 {"detail":[{"loc":["body","eventTypes","[0]"],"msg":"must not be '*' alone: leave the list out for all event types","type":"value_error"}]}"#);
}

#[tokio::test]
async fn the_tester_tells_why() {
    let world = world(r#"{"eventTypes": ["invoice.*"], "channels": ["red"], "filter": "payload.amount > 100"}"#).await;
    let test = async |body: &str| -> Answer { world.post(&format!("{ENDPOINT}/filter/test"), body).await };
    insta::assert_snapshot!(test(r#"{"eventType": "invoice.paid", "channels": ["red"], "payload": {"amount": 101}}"#).await, @r#"200 {"matches":true,"checks":[{"check":"eventTypes","passes":true,"reason":"invoice.paid matches invoice.*"},{"check":"channels","passes":true,"reason":"the endpoint listens to red"},{"check":"filter","passes":true,"reason":"the expression is true"}]}"#);
    insta::assert_snapshot!(test(r#"{"eventType": "a.b", "payload": {"total": 1}}"#).await, @r#"200 {"matches":false,"checks":[{"check":"eventTypes","passes":false,"reason":"a.b matches none of the endpoint's event types"},{"check":"channels","passes":false,"reason":"the endpoint listens to none of the message's channels"},{"check":"filter","passes":false,"reason":"the expression fails, which counts as false: the member \"amount\" does not exist"}]}"#);
    insta::assert_snapshot!(test(r#"{"eventType": "invoice.paid", "channels": ["red"], "filter": "eventType == 'x'"}"#).await, @r#"200 {"matches":false,"checks":[{"check":"eventTypes","passes":true,"reason":"invoice.paid matches invoice.*"},{"check":"channels","passes":true,"reason":"the endpoint listens to red"},{"check":"filter","passes":false,"reason":"the expression is false"}]}"#);
    let sent = world.post("/app/acme/msg", r#"{"eventType": "invoice.paid", "payload": {"amount": 7}}"#).await;
    let by_id = test(&json!({ "msgId": sent.text("/id") }).to_string()).await;
    assert_eq!((by_id.status.as_u16(), &by_id.json()["matches"]), (200, &json!(false)), "{by_id}");
    insta::assert_snapshot!(test("{}").await, @r#"422 {"detail":[{"loc":["body","eventType"],"msg":"is required, or msgId","type":"value_error"}]}"#);
    insta::assert_snapshot!(test(r#"{"msgId": "x", "payload": {}}"#).await, @r#"422 {"detail":[{"loc":["body","payload"],"msg":"cannot be combined with msgId","type":"value_error"}]}"#);
    insta::assert_snapshot!(test(r#"{"msgId": "x"}"#).await, @r#"404 {"code":"not_found","detail":"message \"x\" not found"}"#);
    insta::assert_snapshot!(test(r#"{"eventType": "a", "filter": "1 +"}"#).await, @r#"422 {"detail":[{"loc":["body","filter"],"msg":"ends too early, at character 4","type":"value_error"}]}"#);
    insta::assert_snapshot!(test(r#"{"eventType": "a", "paylod": {}}"#).await, @r#"422 {"detail":[{"loc":["body","paylod"],"msg":"is not a known field: did you mean `payload`?","type":"value_error"}]}"#);
}
