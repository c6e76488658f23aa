//! One message per slot and phase, as the API tells it.

use everhook_core::id::MessageId;
use everhook_store::lease::Appended;
use http::Method;
use serde_json::{Value, json};

use crate::api::world::{Answer, Call, World};

async fn send(world: &World, event_type: &str, once: &Value) -> Answer {
    let body = json!({ "eventType": event_type, "payload": { "type": event_type }, "once": once });
    world.post("/app/acme/msg", &body.to_string()).await
}

async fn slot(world: &World, key: &str) -> Value {
    let mut found = world.get(&format!("/app/acme/once/{key}")).await.json();
    for time in ["createdAt", "claimedAt", "updatedAt"] {
        assert!(found[time].take().is_string(), "{found}");
    }
    found
}

#[tokio::test]
async fn the_first_message_wins_and_the_others_get_it() {
    let world = World::with_application().await;
    let first = send(&world, "run.failed", &json!({ "key": "run-1" })).await;
    assert_eq!(first.status, 202);
    assert!(first.json().get("suppressed").is_none(), "clients see what they always saw: {first}");
    let late = send(&world, "run.completed", &json!({ "key": "run-1" })).await;
    assert_eq!(late.status, 200);
    let mut want = first.json();
    want["suppressed"] = json!(true);
    assert_eq!(late.json(), want, "the winner's message, whatever the type of the call");
    assert_eq!(world.get("/app/acme/msg").await.each("id"), [first.text("/id")]);
    assert!(world.get("/app/acme/msg").await.json()["data"][0].get("suppressed").is_none());

    let winner = first.text("/id");
    let want = json!({
        "key": "run-1", "phase": 0, "open": false, "winner": winner, "winnerPhase": 0, "suppressedCount": 1,
        "createdAt": null, "claimedAt": null, "updatedAt": null,
    });
    assert_eq!(slot(&world, "run-1").await, want);
}

#[tokio::test]
async fn phases_and_resets_open_a_slot_again() {
    let world = World::with_application().await;
    let status = async |once: Value| send(&world, "a", &once).await.status.as_u16();
    assert_eq!(status(json!({ "key": "k", "phase": 1 })).await, 202);
    assert_eq!(status(json!({ "key": "k", "phase": 1 })).await, 200);
    assert_eq!(status(json!({ "key": "k", "phase": 0 })).await, 200);
    assert_eq!(status(json!({ "key": "k", "phase": 2 })).await, 202);
    assert_eq!(status(json!({ "key": "k", "phase": null })).await, 200);
    assert_eq!(world.delete("/app/acme/once/k").await.status, 204);
    let open = slot(&world, "k").await;
    assert_eq!((&open["phase"], &open["open"], &open["winnerPhase"]), (&json!(3), &json!(true), &json!(2)));
    assert_eq!(status(json!({ "key": "k" })).await, 202);
    assert_eq!(slot(&world, "k").await["suppressedCount"], 3);
    let largest = json!({ "key": "k", "phase": 9_007_199_254_740_991_i64 });
    assert_eq!(status(largest.clone()).await, 202);
    assert_eq!(status(largest).await, 200);
    assert_eq!(world.delete("/app/acme/once/k/").await.status, 204);
    assert_eq!(status(json!({ "key": "k" })).await, 202, "there is always a next phase");
}

#[tokio::test]
async fn the_winners_request_again_is_answered_like_the_first_time() {
    let world = World::with_application().await;
    let body = r#"{"eventType": "a", "payload": {}, "once": {"key": "k"}}"#;
    let call = |key: &str| Call::new(Method::POST, "/app/acme/msg").header("idempotency-key", key).body(body);
    let first = world.call(call("1")).await;
    let again = world.call(call("1")).await;
    assert_eq!((again.status.as_u16(), again.body), (202, first.body));
    assert_eq!(world.call(call("2")).await.status, 200);
    world.delete("/app/acme/once/k").await;
    assert_eq!(world.call(call("2")).await.status, 202, "a suppressed call has used up no key");
}

#[tokio::test]
async fn a_removed_payload_is_told_and_a_removed_message_too() {
    let world = World::with_application().await;
    let winner = send(&world, "a", &json!({ "key": "k" })).await.text("/id");
    world.delete(&format!("/app/acme/msg/{winner}/content")).await;
    let late = send(&world, "a", &json!({ "key": "k" })).await;
    assert_eq!((late.status.as_u16(), &late.json()["payload"]), (200, &json!({ "expired": true })));

    let id = MessageId(world.node.new_id());
    world.script().answer_append(Ok(Appended::Suppressed(id)));
    let late = send(&world, "a", &json!({ "key": "k" })).await;
    let want = json!({ "id": id, "suppressed": true, "payload": { "expired": true }, "timestamp": id.0.timestamp() });
    assert_eq!((late.status.as_u16(), late.json()), (200, want));
}

#[tokio::test]
async fn bad_claims_are_refused_by_field() {
    let world = World::with_application().await;
    let with = async |once: Value| send(&world, "a", &once).await;
    insta::assert_snapshot!(with(json!({})).await, @r#"422 {"detail":[{"loc":["body","once"],"msg":"missing field `key` at line 1 column 26","type":"value_error.jsondecode"}]}"#);
    insta::assert_snapshot!(with(json!("k")).await, @r#"422 {"detail":[{"loc":["body","once"],"msg":"invalid type: string \"k\", expected a JSON object at line 1 column 27","type":"value_error.jsondecode"}]}"#);
    insta::assert_snapshot!(with(json!({ "key": "" })).await, @r#"422 {"detail":[{"loc":["body","once","key"],"msg":"must not be empty","type":"value_error"}]}"#);
    insta::assert_snapshot!(with(json!({ "key": "a/b" })).await, @r#"422 {"detail":[{"loc":["body","once","key"],"msg":"may only contain letters, digits, '-', '_' and '.'","type":"value_error"}]}"#);
    insta::assert_snapshot!(with(json!({ "key": "k".repeat(257) })).await, @r#"422 {"detail":[{"loc":["body","once","key"],"msg":"must have at most 256 characters","type":"value_error"}]}"#);
    insta::assert_snapshot!(with(json!({ "key": "k", "phase": -1 })).await, @r#"422 {"detail":[{"loc":["body","once","phase"],"msg":"must be from 0 to 9007199254740991","type":"value_error"}]}"#);
    insta::assert_snapshot!(with(json!({ "key": "k", "phase": 9_007_199_254_740_992_i64 })).await, @r#"422 {"detail":[{"loc":["body","once","phase"],"msg":"must be from 0 to 9007199254740991","type":"value_error"}]}"#);
    insta::assert_snapshot!(with(json!({ "key": "k", "phase": 1.5 })).await, @r#"422 {"detail":[{"loc":["body","once","phase"],"msg":"invalid type: floating point `1.5`, expected i64 at line 1 column 46","type":"value_error.jsondecode"}]}"#);
    insta::assert_snapshot!(with(json!({ "key": "k", "phase": "1" })).await, @r#"422 {"detail":[{"loc":["body","once","phase"],"msg":"invalid type: string \"1\", expected i64 at line 1 column 46","type":"value_error.jsondecode"}]}"#);
    assert_eq!(world.get("/app/acme/once").await.each("key"), [""; 0]);
}

#[tokio::test]
async fn slots_are_listed_by_key() {
    let world = World::with_application().await;
    for key in ["b", "-a", "c"] {
        send(&world, "a", &json!({ "key": key })).await;
    }
    assert_eq!(world.get("/app/acme/once").await.each("key"), ["-a", "b", "c"]);
    assert_eq!(world.get("/app/acme/once?order=descending&limit=2").await.each("key"), ["c", "b"]);
    let page = world.get("/app/acme/once?limit=1").await;
    assert_eq!(page.json()["done"], false);
    let next = world.get(&format!("/app/acme/once?limit=9&iterator={}", page.text("/iterator"))).await;
    assert_eq!(next.each("key"), ["b", "c"]);
}

#[tokio::test]
async fn a_slot_belongs_to_its_application_and_goes_with_it() {
    let world = World::with_application().await;
    world.application("other").await;
    send(&world, "a", &json!({ "key": "k" })).await;
    let body = r#"{"eventType": "a", "payload": {}, "once": {"key": "k"}}"#;
    assert_eq!(world.post("/app/other/msg", body).await.status, 202);
    for (method, path) in [(Method::GET, "/app/acme/once/unknown"), (Method::DELETE, "/app/acme/once/unknown")] {
        assert_eq!(world.call(Call::new(method, path)).await.status, 404, "{path}");
    }
    for path in ["/app/acme/once", "/app/acme/once/k"] {
        let elsewhere = world.call(Call::new(Method::GET, path).bearer(&world.other_key)).await;
        assert_eq!(elsewhere.status, 404, "{path}");
    }
    world.delete("/app/acme").await;
    for (method, path) in [(Method::GET, "/app/acme/once/k"), (Method::DELETE, "/app/acme/once/k")] {
        assert_eq!(world.call(Call::new(method, path)).await.status, 404, "{path}");
    }
    world.application("acme").await;
    assert_eq!(send(&world, "a", &json!({ "key": "k" })).await.status, 202, "another application of the same uid");
}
