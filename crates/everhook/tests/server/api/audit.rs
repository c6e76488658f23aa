//! The audit log of the API.

use http::Method;
use serde_json::json;

use crate::api::world::{Answer, Call, World};

/// The entries of an object, oldest first: phase, actor and status.
async fn entries(world: &World, object: &str) -> Vec<(String, String, u64)> {
    let list = world.get(&format!("/audit?order=ascending&object={object}")).await;
    let entry = |entry: &serde_json::Value| {
        let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        (text("phase"), text("actor"), entry["status"].as_u64().unwrap_or_default())
    };
    list.json()["data"].as_array().unwrap().iter().map(entry).collect()
}

fn logged(status: u64) -> Vec<(String, String, u64)> {
    let entry = |phase: &str, status| (phase.to_owned(), "test 1".to_owned(), status);
    vec![entry("begun", 0), entry("ended", status)]
}

async fn verify(world: &World) -> Answer {
    world.get("/audit/verify").await
}

#[tokio::test]
async fn operations_are_logged_before_and_after_with_actor_principal_and_reason() {
    let world = World::new().await;
    world.patch("/queue/mail", r#"{"limit": 3}"#).await;
    let pause = Call::new(Method::POST, "/queue/mail/pause")
        .header("everhook-principal", "ann@example.com")
        .header("everhook-reason", "the mailer is down");
    assert_eq!(world.call(pause).await.status, 200);
    let list = world.get("/audit?action=v1.queue.pause").await.json();
    let (ended, begun) = (&list["data"][0], &list["data"][1]);
    assert_eq!((&begun["phase"], &ended["phase"]), (&json!("begun"), &json!("ended")));
    assert_eq!(begun["operation"], ended["operation"]);
    for entry in [begun, ended] {
        assert_eq!(entry["principal"], "ann@example.com");
        assert_eq!(entry["reason"], "the mailer is down");
        assert_eq!(entry["object"], "/queue/mail/pause");
        assert!(entry["keyId"].as_str().unwrap().starts_with("key_"));
    }
    assert!(ended["beforeHash"].is_string() && ended["beforeHash"] != ended["afterHash"], "{ended}");
    assert_eq!(verify(&world).await.json()["valid"], true);
}

#[tokio::test]
async fn the_entry_of_a_deletion_has_the_hash_of_what_was_deleted() {
    let world = World::with_application().await;
    world.patch("/queue/mail", r#"{"limit": 3}"#).await;
    world.post("/event-type", r#"{"name": "paid", "description": "Paid"}"#).await;
    world.post("/alert", r#"{"name": "many", "signal": "dead", "threshold": 100}"#).await;
    let schedule = r#"{"name": "nightly", "everySeconds": 60, "job": {"kind": "a", "queue": "b", "payload": {}}}"#;
    world.post("/schedule", schedule).await;
    let hook = r#"{"url": "https://example.com/hook", "uid": "hook"}"#;
    world.post("/operational-webhook/endpoint", hook).await;
    let integration = world.post("/app/acme/integration", r#"{"name": "shop"}"#).await.json();
    let integration = format!("/app/acme/integration/{}", integration["id"].as_str().unwrap());
    let rest = ["/queue/mail", "/event-type/paid?expunge=true", "/alert/many", "/schedule/nightly"];
    for object in rest.into_iter().chain(["/operational-webhook/endpoint/hook", &integration, "/app/acme"]) {
        assert_eq!(world.delete(object).await.status, 204, "{object}");
        let ended = &world.get("/audit?limit=1").await.json()["data"][0];
        assert!(ended["beforeHash"].is_string() && ended["afterHash"].is_null(), "{object}: {ended}");
    }
}

#[tokio::test]
async fn each_kind_of_operation_leaves_its_entries() {
    let world = World::new().await;
    let application = world.application("acme").await;
    world.endpoint("acme", "e").await;
    world.get("/app/acme/endpoint/e/secret").await;
    assert_eq!(entries(&world, "/app/acme/endpoint/e/secret").await, logged(200), "a revealed secret");
    world.patch("/app/acme/endpoint/e", r#"{"url": "http://127.0.0.1:9/other"}"#).await;
    assert_eq!(entries(&world, "/app/acme/endpoint/e").await.len(), 4, "a changed URL");
    world.post("/app/acme/endpoint/e/redrive", "{}").await;
    assert_eq!(entries(&world, "/app/acme/endpoint/e/redrive").await.len(), 2);
    world.delete("/app/acme/once/none").await;
    assert_eq!(entries(&world, "/app/acme/once/none").await, logged(404), "also without effect");
    world.post("/job/job_none/cancel", "").await;
    world.post("/batch/none/skip", "{}").await;
    world.post("/schedule/none/pause", "").await;
    world.put("/environment/policy", "{}").await;
    let made = world.post("/key", r#"{"name": "new", "scope": "read"}"#).await;
    for (object, status) in [("/key", 201), ("/job/job_none/cancel", 404), ("/schedule/none/pause", 404)] {
        assert_eq!(entries(&world, object).await, logged(status), "{object}");
    }
    assert_eq!(entries(&world, "/batch/none/skip").await.len(), 2);
    assert_eq!(entries(&world, "/environment/policy").await.len(), 2);
    let list = world.get("/audit?limit=250").await;
    assert!(!list.body.contains(&made.text("/key")) && !list.body.contains("whsec_"), "{list}");
    assert!(!application.is_empty());
}

#[tokio::test]
async fn the_work_of_producers_and_refused_callers_leave_no_entries() {
    let world = World::with_application().await;
    let before = verify(&world).await.json()["seq"].clone();
    world.message("acme", "a").await;
    world.post("/job", r#"{"queue": "q", "kind": "k", "payload": {}}"#).await;
    world.get("/app").await;
    let reader = world.post("/key", r#"{"name": "reader", "scope": "read"}"#).await.text("/key");
    let refused = Call::new(Method::POST, "/queue/mail/pause").bearer(&reader);
    assert_eq!(world.call(refused).await.status, 403);
    let anonymous = Call::new(Method::POST, "/queue/mail/pause").anonymous();
    assert_eq!(world.call(anonymous).await.status, 401);
    let after = verify(&world).await.json()["seq"].clone();
    assert_eq!(after.as_i64().unwrap() - before.as_i64().unwrap(), 2, "only the new key");
}

#[tokio::test]
async fn a_bad_reason_is_refused_before_the_operation() {
    let world = World::new().await;
    let long = "x".repeat(2000);
    let call =
        Call::new(Method::POST, "/key").header("everhook-reason", &long).body(r#"{"name": "a", "scope": "read"}"#);
    insta::assert_snapshot!(world.call(call).await, @r#"422 {"detail":[{"loc":["header","everhook-reason"],"msg":"must be UTF-8 text of at most 1000 bytes","type":"value_error"}]}"#);
    assert!(entries(&world, "/key").await.is_empty());
    insta::assert_snapshot!(world.get("/audit/verify?after=99").await, @r#"404 {"code":"not_found","detail":"entry 99 of the audit log not found"}"#);
    insta::assert_snapshot!(world.get("/audit?since=yesterday").await, @r#"422 {"detail":[{"loc":["query","since"],"msg":"not an RFC 3339 date and time, such as 2026-01-31T12:00:00Z","type":"value_error"}]}"#);
}
