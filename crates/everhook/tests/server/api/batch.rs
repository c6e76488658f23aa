//! Batches: created, filled, sealed, and their dead jobs retried or skipped.

use http::Method;
use serde_json::{Value, json};

use crate::api::jobs::broken;
use crate::api::world::{Call, World};

/// A batch of the application `acme`.
async fn batch(world: &World) -> String {
    world.application("acme").await;
    let body = json!({ "name": "import", "application": "acme", "prefix": "import", "metadata": { "a": "b" } });
    world.post("/batch", &body.to_string()).await.created()
}

/// The announcements, oldest first.
async fn announced(world: &World) -> Vec<String> {
    let mut types = world.get("/app/acme/msg").await.each("eventType");
    types.reverse();
    types
}

/// Adds a job that dies at once.
async fn add_dead(world: &World, batch: &str) -> String {
    world.dead_job(json!({ "batchId": batch }), "broken").await
}

#[tokio::test]
async fn a_batch_is_shown_as_it_was_created() {
    let world = World::new().await;
    let id = batch(&world).await;
    let shown = world.get(&format!("/batch/{id}")).await.json();
    let counts = json!({ "pending": 0, "succeeded": 0, "dead": 0, "cancelled": 0, "skipped": 0 });
    for (key, value) in [
        ("name", json!("import")),
        ("prefix", json!("import")),
        ("metadata", json!({ "a": "b" })),
        ("state", json!("open")),
        ("phase", json!(1)),
        ("announced", Value::Null),
        ("counts", counts),
    ] {
        assert_eq!(shown[key], value, "{key}");
    }
    assert_eq!(world.get("/batch").await.each("id"), [id]);
    assert_eq!(world.get("/batch/batch_").await.code().0, 404);
}

#[tokio::test]
async fn the_end_of_a_job_by_an_operator_is_announced_and_counted() {
    let world = World::new().await;
    let id = batch(&world).await;
    let (first, second) = (world.job(json!({ "batchId": id })).await, world.job(json!({ "batchId": id })).await);
    world.post(&format!("/batch/{id}/seal"), "").await;
    assert_eq!(world.post(&format!("/job/{first}/cancel"), "").await.status, 200);
    assert_eq!(world.delete(&format!("/job/{second}")).await.status, 204);
    assert!(world.counts("everhook_messages_accepted_total 1"), "the announcement is counted");
    assert_eq!(announced(&world).await, ["import.completed"]);
}

#[tokio::test]
async fn bad_batches_are_refused_by_field() {
    let world = World::with_application().await;
    for (more, place) in [
        (json!({ "name": "" }), "body.name"),
        (json!({ "name": "x".repeat(257) }), "body.name"),
        (json!({ "prefix": "a b" }), "body.prefix"),
        (json!({ "prefix": "x".repeat(250) }), "body.prefix"),
        (json!({ "application": "nobody" }), "body.application"),
        (json!({ "application": "app_23rb8YdGqMT0qIzpgGwdXfHirMu" }), "body.application"),
        (json!({ "metadata": { "a": 1 } }), "body.metadata.a"),
    ] {
        let body = crate::api::jobs::with(json!({ "name": "n", "application": "acme", "prefix": "p" }), more.clone());
        assert_eq!(broken(&world.post("/batch", &body.to_string()).await).0, place, "{more}");
    }
    let body = json!({ "name": "n", "application": "acme", "prefix": "p" });
    assert_eq!(broken(&world.elsewhere(Method::POST, "/batch", &body).await).0, "body.application", "not theirs");
}

#[tokio::test]
async fn a_repeated_creation_answers_the_same_batch() {
    let world = World::with_application().await;
    let call = |name: &str| {
        let body = json!({ "name": name, "application": "acme", "prefix": "p" });
        world.call(Call::new(Method::POST, "/batch").header("idempotency-key", "1").body(body.to_string()))
    };
    let (first, again) = (call("a").await, call("a").await);
    assert_eq!((first.status.as_u16(), first.text("/id")), (again.status.as_u16(), again.text("/id")));
    assert_eq!(call("b").await.code(), (409, "idempotency_key_reused".to_owned()));
}

#[tokio::test]
async fn jobs_are_added_alone_or_many_at_once_until_the_seal() {
    let world = World::new().await;
    let id = batch(&world).await;
    let path = format!("/batch/{id}/job");
    let one = world.post(&path, r#"{"queue": "q", "kind": "k"}"#).await;
    assert_eq!((one.status.as_u16(), one.text("/batchId")), (202, id.clone()));
    let many = json!({ "jobs": [{ "queue": "q", "kind": "k" }, { "queue": "q", "kind": "k" }] });
    assert_eq!(world.post(&path, &many.to_string()).await.each("state"), ["pending"; 2]);
    assert_eq!(broken(&world.post(&path, r#"{"jobs": []}"#).await).0, "body.jobs");
    assert_eq!(broken(&world.post(&path, r#"{"jobs": [{"queue": "q"}]}"#).await).0, "body.jobs.[0]");
    assert_eq!(broken(&world.post(&path, r#"{"queue": "q", "kind": ""}"#).await).0, "body.kind");
    let other = r#"{"queue": "q", "kind": "k", "batchId": "batch_23rb8YdGqMT0qIzpgGwdXfHirMu"}"#;
    assert_eq!(broken(&world.post(&path, other).await).0, "body.batchId");
    assert_eq!(world.get(&format!("/batch/{id}")).await.json()["counts"]["pending"], 3);
    assert_eq!(world.get(&format!("/job?batch={id}")).await.each("id").len(), 3);
    for _ in 0..2 {
        assert_eq!(world.post(&format!("/batch/{id}/seal"), "").await.text("/state"), "sealed", "twice is harmless");
    }
    for body in [r#"{"queue": "q", "kind": "k"}"#, &many.to_string()] {
        assert_eq!(world.post(&path, body).await.code(), (409, "batch_sealed".to_owned()));
    }
    let late = world.enqueue(&json!({ "queue": "q", "kind": "k", "batchId": id })).await;
    assert_eq!(late.code(), (409, "batch_sealed".to_owned()));
}

#[tokio::test]
async fn the_outcome_is_announced_and_again_after_a_retry() {
    let world = World::new().await;
    let id = batch(&world).await;
    let dead = add_dead(&world, &id).await;
    assert_eq!(announced(&world).await, ["import.failed"], "before the seal");
    world.post(&format!("/batch/{id}/seal"), "").await;
    let resolve = async |what: &str, jobs: Value| {
        world.post(&format!("/batch/{id}/{what}"), &json!({ "jobs": jobs }).to_string()).await
    };
    let foreign = world.dead_job(json!({}), "no").await;
    for what in ["retry", "skip"] {
        for (jobs, place) in [
            (json!([]), "body.jobs"),
            (json!([foreign]), "body.jobs"),
            (json!([dead, foreign]), "body.jobs"),
            (json!(["job_"]), "body.jobs.[0]"),
            (json!(vec![dead.clone(); 1001]), "body.jobs"),
        ] {
            assert_eq!(broken(&resolve(what, jobs).await).0, place);
        }
    }
    let shown = world.get(&format!("/batch/{id}")).await.json();
    assert_eq!((&shown["phase"], &shown["announced"]), (&json!(1), &json!("failed")), "no phase was opened");

    let retried = resolve("retry", json!([dead])).await.json();
    assert_eq!((&retried["phase"], &retried["announced"]), (&json!(2), &Value::Null));
    assert!(broken(&resolve("retry", json!([dead])).await).1.contains("is not dead"));
    let held = world.take(&world.worker(json!({ "queues": ["graves"] })).await).await;
    world.say(&held, "fail", json!({ "error": "again" })).await;
    assert_eq!(announced(&world).await, ["import.failed"; 2]);
    let skipped = resolve("skip", json!([dead])).await.json();
    assert_eq!((&skipped["announced"], &skipped["counts"]["skipped"]), (&json!("completed"), &json!(1)), "{skipped}");
    assert_eq!(announced(&world).await, ["import.failed", "import.failed", "import.completed"]);
    let dead_ones = world.get(&format!("/job?batch={id}&state=dead")).await.each("id");
    assert_eq!(dead_ones, [""; 0], "a skipped job waits for nobody");
}

#[tokio::test]
async fn an_empty_batch_completes_when_it_is_sealed() {
    let world = World::new().await;
    let id = batch(&world).await;
    assert_eq!(world.post(&format!("/batch/{id}/seal"), "").await.text("/announced"), "completed");
    assert_eq!(announced(&world).await, ["import.completed"]);
    assert!(world.counts("everhook_messages_accepted_total 1"));
}
