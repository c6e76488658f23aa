//! Many messages in one request: accepted together, each with a result of its own.

use http::Method;
use serde_json::{Value, json};

use crate::api::world::{Answer, Call, World};

const PATH: &str = "/app/acme/msg/batch";

async fn send(world: &World, messages: Value) -> Answer {
    world.post(PATH, &json!({ "messages": messages }).to_string()).await
}

fn message(number: usize) -> Value {
    json!({ "eventType": "a", "payload": { "n": number } })
}

#[tokio::test]
async fn a_batch_is_accepted_in_order() {
    let world = World::with_application().await;
    let sent = send(&world, (0..3).map(message).collect()).await;
    assert_eq!(sent.status, 202);
    let ids = sent.each("id");
    let mut listed = world.get("/app/acme/msg").await.each("id");
    listed.reverse();
    assert_eq!(listed, ids);
    assert_eq!(world.get(&format!("/app/acme/msg/{}", ids[2])).await.json()["payload"], json!({ "n": 2 }));
}

#[tokio::test]
async fn each_message_of_a_batch_has_its_own_result() {
    let world = World::with_application().await;
    let taken = json!({ "eventType": "a", "payload": {}, "eventId": "e" });
    let first = send(&world, json!([taken])).await.each("id");
    let once = json!({ "eventType": "a", "payload": {}, "once": { "key": "k" } });
    let sent = send(&world, json!([message(1), taken, once, once])).await;
    assert_eq!(sent.status, 202);
    let data = &sent.json()["data"];
    let conflict = json!({ "error": { "code": "conflict", "detail": "A message with this eventId exists already." } });
    assert_eq!(data[1], conflict);
    assert_eq!(data[3], json!({ "id": data[2]["id"], "suppressed": true }));
    assert_eq!(world.get("/app/acme/msg").await.each("id").len(), first.len() + 2);
}

#[tokio::test]
async fn a_message_that_breaks_a_rule_refuses_the_batch() {
    let world = World::with_application().await;
    let bad = send(&world, json!([message(1), { "eventType": "not a name", "payload": {} }])).await;
    insta::assert_snapshot!(bad, @r#"422 {"detail":[{"loc":["body","messages","[1]","eventType"],"msg":"may only contain letters, digits, '-', '_' and '.'","type":"value_error"}]}"#);
    let bad =
        send(&world, json!([message(1), { "eventType": "a", "payload": {}, "application": { "name": "x" } }])).await;
    insta::assert_snapshot!(bad, @r#"422 {"detail":[{"loc":["body","messages","[1]","application"],"msg":"cannot be set here: set it beside the list of messages","type":"value_error"}]}"#);
    insta::assert_snapshot!(send(&world, json!([])).await, @r#"422 {"detail":[{"loc":["body","messages"],"msg":"must have 1 to 1000 entries","type":"value_error"}]}"#);
    assert_eq!(send(&world, (0..1001).map(message).collect()).await.status, 422);
    assert_eq!(world.get("/app/acme/msg").await.each("id").len(), 0, "all or none");
    assert_eq!(send(&world, (0..1000).map(message).collect()).await.status, 202);
}

#[tokio::test]
async fn a_batch_may_create_its_application() {
    let world = World::new().await;
    assert_eq!(send(&world, json!([message(1)])).await.status, 404);
    let body = json!({ "messages": [message(1)], "application": { "name": "Acme", "uid": "acme" } });
    assert_eq!(world.post(PATH, &body.to_string()).await.status, 202);
    assert_eq!(world.get("/app/acme/msg").await.each("id").len(), 1);
    assert_eq!(world.post("/app/app_1srOrx2ZWZBpBUvZwXKQmoEYga2/msg/batch", &body.to_string()).await.status, 404);
}

#[tokio::test]
async fn a_batch_is_repeated_by_its_key() {
    let world = World::with_application().await;
    let post = async |body: Value| {
        world.call(Call::new(Method::POST, PATH).header("idempotency-key", "key").body(body.to_string())).await
    };
    let body = json!({ "messages": [message(1), message(2)] });
    let ids = post(body.clone()).await.each("id");
    assert_eq!(post(body).await.each("id"), ids);
    assert_eq!(world.get("/app/acme/msg").await.each("id").len(), 2);
}
