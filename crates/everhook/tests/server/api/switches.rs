//! Jobs and schedules can be switched off: their routes say so, and everything else works.

use everhook_core::signing::SignatureKind;
use serde_json::json;

use crate::api::world::{Switches, World};

#[tokio::test]
async fn without_jobs_their_routes_say_so() {
    let world = World::with_switches(Switches { jobs: false, ..Switches::default() }).await;
    for path in ["/job", "/queue", "/batch", "/worker", "/job/job_1", "/queue/q"] {
        let answer = world.get(path).await;
        assert_eq!(answer.code(), (503, "jobs_disabled".to_owned()), "{path}");
        assert!(answer.text("/detail").contains("`jobs = true`"), "it names the setting: {answer}");
    }
    assert_eq!(world.enqueue(&json!({ "queue": "q", "kind": "k" })).await.code().0, 503);
    world.application("acme").await;
    let starts = json!({ "name": "s", "cron": "@daily", "job": { "queue": "q", "kind": "k" } });
    assert_eq!(world.post("/schedule", &starts.to_string()).await.code().1, "jobs_disabled");
    let message = json!({ "application": "acme", "eventType": "a", "payload": {} });
    let sends = json!({ "name": "s", "cron": "@daily", "message": message });
    assert_eq!(world.post("/schedule", &sends.to_string()).await.status, 201);
}

#[tokio::test]
async fn new_endpoints_sign_as_the_server_is_told() {
    let world = World::with_switches(Switches { signature: SignatureKind::Ed25519, ..Switches::default() }).await;
    world.application("acme").await;
    world.endpoint("acme", "main").await;
    let key = world.get("/app/acme/endpoint/main/secret").await.text("/key");
    assert!(key.starts_with("whpk_"), "the public half: {key}");
    let rotated = world.post("/app/acme/endpoint/main/secret/rotate", "{}").await.text("/key");
    assert!(rotated.starts_with("whpk_") && rotated != key, "rotation keeps the kind: {rotated}");
    let given = r#"{"url": "https://example.com", "uid": "given", "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}"#;
    assert_eq!(world.post("/app/acme/endpoint", given).await.status, 201);
    let key = world.get("/app/acme/endpoint/given/secret").await.text("/key");
    assert!(key.starts_with("whsec_"), "a given secret is taken as it is: {key}");
}

#[tokio::test]
async fn without_schedules_their_routes_say_so() {
    let world = World::with_switches(Switches { schedules: false, ..Switches::default() }).await;
    for path in ["/schedule", "/schedule/nightly", "/schedule?builtin=true"] {
        let answer = world.get(path).await;
        assert_eq!(answer.code(), (503, "schedules_disabled".to_owned()), "{path}");
        assert!(answer.text("/detail").contains("`schedules = true`"), "it names the setting: {answer}");
    }
    assert_eq!(world.enqueue(&json!({ "queue": "q", "kind": "k" })).await.status, 202);
}
