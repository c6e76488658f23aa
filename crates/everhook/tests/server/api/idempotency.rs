//! The same request again gets the same answer; another request under the same key is a mistake.

use std::sync::Arc;
use std::time::Duration;

use everhook_core::id::{ApplicationId, EnvironmentId, MessageId};
use everhook_core::lifecycle::NextRow;
use everhook_core::limits::APPEND_QUEUE_MAX;
use everhook_core::message::{Message, Rest};
use everhook_core::scope::Scope;
use everhook_store::dedup::DedupKey;
use everhook_store::error::StoreError;
use everhook_store::lease::NewMessage;
use everhook_store::query::QueryName;
use everhook_store::request::{RequestAnswer, RequestClaim, RequestEnd};
use everhook_store::store::Op;
use http::Method;
use tokio::task::JoinSet;

use crate::api::world::{Answer, Call, World, unavailable};

async fn post(world: &World, path: &str, key: &str, body: &str) -> Answer {
    world.call(Call::new(Method::POST, path).header("idempotency-key", key).body(body)).await
}

#[tokio::test]
async fn creations_are_repeated_by_their_key() {
    let world = World::with_application().await;
    let cases = [
        ("/app", r#"{"name": "a"}"#, r#"{"name": "b"}"#),
        ("/app/acme/endpoint", r#"{"url": "https://a.example"}"#, r#"{"url": "https://b.example"}"#),
        ("/event-type", r#"{"name": "a", "description": ""}"#, r#"{"name": "b", "description": ""}"#),
        (
            "/app/acme/msg",
            r#"{"eventType": "a", "payload": {"a": [1]}, "eventId": "e"}"#,
            r#"{"eventType": "b", "payload": {}}"#,
        ),
    ];
    for (path, body, another) in cases {
        let first = post(&world, path, "key", body).await;
        assert!(first.status.is_success(), "{path}: {first}");
        let again = post(&world, path, "key", body).await;
        assert_eq!((again.status, &again.body), (first.status, &first.body), "{path}");
        let reused = post(&world, path, "key", another).await;
        assert_eq!(reused.code(), (409, "idempotency_key_reused".to_owned()), "{path}");
        assert!(post(&world, path, "key 2", another).await.status.is_success(), "{path}");
        let elsewhere = Call::new(Method::POST, "/app").bearer(&world.other_key).header("idempotency-key", "key");
        let elsewhere = world.call(elsewhere.body(r#"{"name": "c"}"#)).await;
        assert_eq!(elsewhere.status, 201, "keys of another environment are others");
    }
    assert_eq!(world.get("/app/acme/msg").await.each("id").len(), 2);
    assert_eq!(world.get("/app/acme/endpoint").await.each("id").len(), 2);
}

#[tokio::test]
async fn a_rotation_is_repeated_by_its_key() {
    let world = World::with_endpoint().await;
    let path = "/app/acme/endpoint/main/secret/rotate";
    let secret = async || world.get("/app/acme/endpoint/main/secret").await.text("/key");
    assert_eq!(post(&world, path, "key", "{}").await.status, 200);
    let rotated = secret().await;
    assert_eq!(post(&world, path, "key", "{}").await.text("/key"), rotated);
    assert_eq!(secret().await, rotated, "not rotated a second time");
    assert_eq!(post(&world, path, "key", "{ }").await.code().0, 409);
}

#[tokio::test]
async fn any_other_request_is_repeated_by_its_key() {
    let world = World::with_endpoint().await;
    world.message("acme", "a").await;
    world.deliver(500, b"no", NextRow::Dead).await;
    let path = "/app/acme/endpoint/main/redrive";
    let first = post(&world, path, "key", "{}").await;
    assert_eq!((first.status.as_u16(), &first.json()["redriven"]), (202, &serde_json::json!(1)));
    let again = post(&world, path, "key", "{}").await;
    assert_eq!((again.status, &again.body), (first.status, &first.body), "the first answer, not a second redrive");
    assert_eq!(post(&world, path, "key", r#"{"since": "2026-01-01T00:00:00Z"}"#).await.code().0, 409);
    assert_eq!(post(&world, path, "another", "{}").await.json()["redriven"], 0);
    assert_eq!(world.post(path, "{}").await.json()["redriven"], 0, "without a key it is done again");

    let refused = post(&world, path, "bad", r#"{"since": 1}"#).await;
    assert_eq!(refused.status, 422);
    assert_eq!(post(&world, path, "bad", "{}").await.status, 202, "a failed request leaves its key");
    let anonymous = Call::new(Method::POST, path).anonymous().header("idempotency-key", "key");
    assert_eq!(world.call(anonymous.body("{}")).await.status, 401);
}

#[tokio::test]
async fn a_request_waits_for_the_same_one_but_not_for_ever() {
    let world = World::with_endpoint().await;
    let path = "/app/acme/endpoint/main/redrive";
    let key = DedupKey::request("POST", &format!("/api/v1{path}"), "key", b"{}");
    let (scope, holder) = (Scope::of(EnvironmentId(1)), world.node.new_id());
    let claimed = world.node.claim_request(scope, key.clone(), holder).await.unwrap();
    assert_eq!(claimed, RequestClaim::Won);
    let running = post(&world, path, "key", "{}").await;
    assert_eq!(running.code(), (409, "request_in_progress".to_owned()));
    let answer = RequestAnswer { status: 202, body: Some("{\"of\":\"another replica\"}".into()) };
    let (first, ()) = tokio::join!(post(&world, path, "key", "{}"), async {
        world.node.finish_request(scope, RequestEnd { key, holder, answer: Some(answer) }).await.unwrap();
    });
    assert_eq!(first.to_string(), r#"202 {"of":"another replica"}"#);
}

#[tokio::test]
async fn keys_have_bounds() {
    let world = World::new().await;
    insta::assert_snapshot!(post(&world, "/app", &"k".repeat(257), r#"{"name": "a"}"#).await, @r#"422 {"detail":[{"loc":["header","idempotency-key"],"msg":"must have at most 256 ASCII characters","type":"value_error"}]}"#);
    assert_eq!(post(&world, "/app", &"k".repeat(256), r#"{"name": "a"}"#).await.status, 201);
    assert_eq!(post(&world, "/app", "ä", r#"{"name": "a"}"#).await.status, 422);
}

#[tokio::test]
async fn a_failed_request_may_be_repeated() {
    let world = World::with_application().await;
    let body = r#"{"eventType": "a", "payload": {}}"#;
    let fail = |error| world.script().answer_append(Err(error));
    fail(unavailable());
    let failed = post(&world, "/app/acme/msg", "key", body).await;
    assert_eq!(failed.headers["retry-after"], "1");
    insta::assert_snapshot!(failed, @r#"503 {"code":"unavailable","detail":"The storage is unavailable: try again."}"#);
    fail(StoreError::InDoubt { op: Op::Append, source: "the cable was pulled".into() });
    insta::assert_snapshot!(post(&world, "/app/acme/msg", "key", body).await, @r#"503 {"code":"in_doubt","detail":"It may or may not have been written: try again with the same idempotency key."}"#);
    fail(StoreError::Slow { op: Op::Read(QueryName::Messages), source: "interrupted".into() });
    insta::assert_snapshot!(post(&world, "/app/acme/msg", "key", body).await, @r#"503 {"code":"too_slow","detail":"The search took too long: narrow it, for example to a shorter period, or try again."}"#);
    fail(StoreError::Full { op: Op::Append, source: "no space left".into() });
    insta::assert_snapshot!(post(&world, "/app/acme/msg", "key", body).await, @r#"507 {"code":"storage_full","detail":"The storage is full."}"#);
    fail(StoreError::Refused { op: Op::Append, source: "a secret of ours".into() });
    insta::assert_snapshot!(post(&world, "/app/acme/msg", "key", body).await, @r#"500 {"code":"server_error","detail":"Internal Server Error"}"#);
    fail(StoreError::Corrupt { table: "message", column: "id" });
    insta::assert_snapshot!(post(&world, "/app/acme/msg", "key", body).await, @r#"500 {"code":"server_error","detail":"Internal Server Error"}"#);
    assert_eq!(post(&world, "/app/acme/msg", "key", body).await.status, 202);
}

/// A message that nobody waits for in vain: its append gets no answer.
fn message(world: &World) -> NewMessage {
    let message = Message {
        id: MessageId(world.node.new_id()),
        application: ApplicationId(world.node.new_id()),
        event_type: "a".parse().unwrap(),
        event_id: None,
        channels: Vec::new(),
        tags: Vec::new(),
        payload: None,
        created_at: world.node.now(),
        rest: Rest::default(),
    };
    NewMessage::new(EnvironmentId(1), message)
}

#[tokio::test]
async fn a_node_with_too_much_to_write_says_so() {
    let world = World::with_application().await;
    let body = r#"{"eventType": "a", "payload": {}}"#;
    assert_eq!(post(&world, "/app/acme/msg", "1", body).await.status, 202);
    world.script().hang();
    tokio::time::pause();
    let mut waiting = JoinSet::new();
    // Two more than the queue holds are with the writers. The second writer begins when the first one hangs.
    for n in 0..APPEND_QUEUE_MAX + 2 {
        let (node, message) = (Arc::clone(&world.node), message(&world));
        waiting.spawn(async move { node.accept(message).await });
        match n {
            0 | 1 => tokio::time::sleep(Duration::from_millis(100)).await,
            _ => tokio::task::yield_now().await,
        }
    }
    insta::assert_snapshot!(post(&world, "/app/acme/msg", "2", body).await, @r#"503 {"code":"overloaded","detail":"Too many messages are waiting to be written: try again."}"#);
}

#[tokio::test]
async fn a_node_that_has_stopped_accepts_nothing() {
    let world = World::with_application().await;
    world.node.drain(Duration::ZERO).await;
    let body = r#"{"eventType": "a", "payload": {}}"#;
    insta::assert_snapshot!(post(&world, "/app/acme/msg", "key", body).await, @r#"503 {"code":"stopping","detail":"The server is stopping: try again."}"#);
}
