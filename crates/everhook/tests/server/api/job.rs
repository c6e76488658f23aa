//! Jobs as producers and operators see them: enqueued, found, steered.

use everhook_core::time::Timestamp;
use http::Method;
use serde_json::{Value, json};

use crate::api::jobs::{broken, with};
use crate::api::world::{Call, World};

#[tokio::test]
async fn a_job_is_shown_as_it_was_asked_for() {
    let world = World::new().await;
    let body = r#"{"queue": "email", "kind": "email.send", "payload": {"b": 1.0, "a": [2e3]}, "name": "to Ada", "priority": 0,
        "maxAttempts": 3, "backoff": [1, 60], "timeoutSeconds": 7, "uniqueKey": "ada", "uniqueSeconds": 60,
        "concurrencyKey": "c", "tags": ["a", "b"], "metadata": {"m": "n"}, "delaySeconds": 90}"#;
    let answer = world.post("/job", body).await;
    assert_eq!((answer.status.as_u16(), answer.text("/state")), (202, "pending".to_owned()), "{answer}");
    let shown = world.get(&format!("/job/{}", answer.text("/id"))).await;
    assert!(shown.body.contains(r#""payload":{"b": 1.0, "a": [2e3]}"#), "byte for byte: {shown}");
    let job = shown.json();
    let want = json!({
        "queue": "email", "kind": "email.send", "name": "to Ada", "priority": 0, "maxAttempts": 3, "backoff": [1, 60],
        "timeoutSeconds": 7, "uniqueKey": "ada", "uniqueSeconds": 60, "concurrencyKey": "c", "tags": ["a", "b"],
        "metadata": {"m": "n"}, "state": "pending", "tries": 0, "cancelRequested": false, "attempts": [],
    });
    for (key, value) in want.as_object().unwrap() {
        assert_eq!(job[key], *value, "{key}: {shown}");
    }
    let [created, due] = ["createdAt", "runAt"].map(|key| job[key].as_str().unwrap().parse::<Timestamp>().unwrap());
    assert_eq!(due.since(created).as_secs(), 90);
}

#[tokio::test]
async fn a_job_that_says_little_has_the_defaults() {
    let world = World::new().await;
    let job = world.get(&format!("/job/{}", world.job(json!({})).await)).await.json();
    assert_eq!(
        (&job["payload"], &job["priority"], &job["maxAttempts"], &job["timeoutSeconds"]),
        (&Value::Null, &json!(5), &json!(10), &json!(900))
    );
    assert_eq!(job["backoff"], json!({ "baseSeconds": 5, "capSeconds": 3600 }));
}

#[tokio::test]
async fn bad_jobs_are_refused_by_field() {
    let world = World::new().await;
    let long = "x".repeat(257);
    for (more, place, rule) in [
        (json!({ "queue": "" }), "queue", "must not be empty"),
        (json!({ "queue": "everhook.mine" }), "queue", "must not begin with"),
        (json!({ "kind": "a b" }), "kind", "may only contain"),
        (json!({ "priority": 10 }), "priority", "must be 0 to 9"),
        (json!({ "priority": "high" }), "priority", "invalid type"),
        (json!({ "maxAttempts": 0 }), "maxAttempts", "must be 1 to 101"),
        (json!({ "backoff": [86401] }), "backoff", "at most 86400 seconds"),
        (json!({ "backoff": "fast" }), "backoff", "a list of seconds"),
        (json!({ "timeoutSeconds": 0 }), "timeoutSeconds", "must be 1 to 604800 seconds"),
        (json!({ "uniqueKey": "" }), "uniqueKey", "must have 1 to 256 bytes"),
        (json!({ "uniqueKey": "k", "uniqueSeconds": 0 }), "uniqueSeconds", "must be 1 to"),
        (json!({ "uniqueSeconds": 1 }), "uniqueSeconds", "requires uniqueKey"),
        (json!({ "concurrencyKey": long }), "concurrencyKey", "must have 1 to 256 bytes"),
        (json!({ "name": "\u{1}" }), "name", "no control characters"),
        (json!({ "tags": ["a", "b c"] }), "tags.[1]", "may only contain"),
        (json!({ "tags": vec!["a"; 9] }), "tags", "at most 8 entries"),
        (json!({ "metadata": { "a": "x".repeat(5000) } }), "metadata", "at most 4096 bytes"),
        (json!({ "runAt": "tomorrow" }), "runAt", "RFC 3339"),
        (json!({ "runAt": "2999-01-01T00:00:00Z" }), "runAt", "days ahead"),
        (json!({ "delaySeconds": -1 }), "delaySeconds", "at least 0"),
        (json!({ "delaySeconds": 1e300 }), "delaySeconds", "days ahead"),
        (
            json!({ "delaySeconds": 1, "runAt": "2026-01-01T00:00:00Z" }),
            "delaySeconds",
            "cannot be combined with runAt",
        ),
        (json!({ "batchId": "b" }), "batchId", "not a valid id"),
        (json!({ "batchId": "batch_23rb8YdGqMT0qIzpgGwdXfHirMu" }), "batchId", "no batch has this id"),
    ] {
        let answer = world.enqueue(&with(json!({ "queue": "q", "kind": "k" }), more.clone())).await;
        let (at, said) = broken(&answer);
        assert!(at == format!("body.{place}") && said.contains(rule), "{more}: {answer}");
    }
    let deep = format!(r#"{{"queue": "q", "kind": "k", "payload": {}{}}}"#, "[".repeat(129), "]".repeat(129));
    assert_eq!(broken(&world.post("/job", &deep).await).0, "body.payload");
    assert_eq!(world.get("/job").await.each("id"), [""; 0]);
}

#[tokio::test]
async fn a_unique_key_answers_the_job_that_has_it() {
    let world = World::new().await;
    let body = json!({ "queue": "q", "kind": "k", "uniqueKey": "u", "payload": 1 });
    let first = world.enqueue(&body).await;
    let second = world.enqueue(&with(body.clone(), json!({ "payload": 2 }))).await;
    assert_eq!((second.status.as_u16(), second.text("/id")), (200, first.text("/id")));
    assert_eq!(world.enqueue(&with(body.clone(), json!({ "queue": "r" }))).await.status, 202, "per queue");
    assert_eq!(world.elsewhere(Method::POST, "/job", &body).await.status, 202, "per environment");
    world.delete(&format!("/job/{}", first.text("/id"))).await;
    let gone = world.enqueue(&body).await;
    assert_eq!(
        (gone.status.as_u16(), gone.text("/id"), gone.text("/state")),
        (200, first.text("/id"), "deleted".into())
    );
}

#[tokio::test]
async fn a_repeated_request_answers_the_same_job_and_another_body_is_a_conflict() {
    let world = World::new().await;
    let call = |path: &str, body: &Value| {
        world.call(Call::new(Method::POST, path).header("idempotency-key", "1").body(body.to_string()))
    };
    let body = json!({ "queue": "q", "kind": "k" });
    let first = call("/job", &body).await;
    let again = call("/job", &body).await;
    assert_eq!((first.status.as_u16(), again.status.as_u16()), (202, 200));
    assert_eq!(first.text("/id"), again.text("/id"));
    let other = call("/job", &json!({ "queue": "q", "kind": "other" })).await;
    assert_eq!(other.code(), (409, "idempotency_key_reused".to_owned()));
    let list = json!({ "jobs": [body, body] });
    let (first, again) = (call("/job/bulk", &list).await, call("/job/bulk", &list).await);
    assert_eq!(first.each("id"), again.each("id"), "each of them has its own key: {first}");
    assert_eq!((first.each("existing"), again.each("existing")), (vec!["null".into(); 2], vec!["true".into(); 2]));
    assert_eq!(world.get("/job").await.each("id").len(), 3);
}

#[tokio::test]
async fn many_jobs_are_enqueued_at_once_and_each_is_answered() {
    let world = World::new().await;
    let job = |more| with(json!({ "queue": "q", "kind": "k" }), more);
    let taken = world.job(json!({ "uniqueKey": "u" })).await;
    let batch = "batch_23rb8YdGqMT0qIzpgGwdXfHirMu";
    let body = json!({ "jobs": [job(json!({})), job(json!({ "uniqueKey": "u" })), job(json!({ "batchId": batch }))] });
    let answer = world.post("/job/bulk", &body.to_string()).await;
    assert_eq!(answer.status, 202, "{answer}");
    let data = answer.json()["data"].clone();
    assert_eq!(data[0]["state"], "pending");
    assert_eq!(data[1], json!({ "id": taken, "state": "pending", "existing": true }));
    assert_eq!(data[2], json!({ "error": { "code": "not_found", "detail": "The batch was not found." } }));
    assert_eq!(world.get("/job").await.each("id").len(), 2);

    let bad = json!({ "jobs": [job(json!({})), job(json!({ "priority": 11 }))] });
    assert_eq!(broken(&world.post("/job/bulk", &bad.to_string()).await).0, "body.jobs.[1].priority");
    let bad = json!({ "jobs": [job(json!({ "tags": [1] }))] });
    assert_eq!(broken(&world.post("/job/bulk", &bad.to_string()).await).0, "body.jobs.[0].tags.[0]");
    for jobs in [Vec::new(), vec![job(json!({})); 1001]] {
        let answer = world.post("/job/bulk", &json!({ "jobs": jobs }).to_string()).await;
        assert_eq!(broken(&answer), ("body.jobs".into(), "must have 1 to 1000 entries".into()));
    }
    assert_eq!(world.get("/job").await.each("id").len(), 2, "one bad job refuses them all");
    let thousand = json!({ "jobs": vec![job(json!({})); 1000] });
    assert_eq!(world.post("/job/bulk", &thousand.to_string()).await.each("state"), vec!["pending"; 1000]);
}

#[tokio::test]
async fn jobs_are_found_by_every_filter() {
    let world = World::new().await;
    let plain = world.job(json!({ "tags": ["red"] })).await;
    let other = world.job(json!({ "queue": "r", "kind": "l", "tags": ["red", "blue"] })).await;
    let dead = world.dead_job(json!({}), "Connection REFUSED by peer").await;
    let found = async |query: &str| world.get(&format!("/job?{query}")).await.each("id");
    assert_eq!(found("").await, [dead.clone(), other.clone(), plain.clone()], "newest first");
    assert_eq!(found("queue=r").await, std::slice::from_ref(&other));
    assert_eq!(found("kind=l").await, std::slice::from_ref(&other));
    assert_eq!(found("tag=red").await, [other.clone(), plain.clone()]);
    assert_eq!(found("state=dead").await, std::slice::from_ref(&dead));
    assert_eq!(found("state=pending&tag=blue").await, std::slice::from_ref(&other));
    assert_eq!(found("error=connection%20refused").await, std::slice::from_ref(&dead));
    assert_eq!(found("error=timeout").await, [""; 0]);
    assert_eq!(found("before=2001-01-01T00:00:00Z").await, [""; 0]);
    assert_eq!(found("after=2001-01-01T00:00:00Z").await.len(), 3);
    assert_eq!(found("batch=batch_23rb8YdGqMT0qIzpgGwdXfHirMu").await, [""; 0]);
    let page = world.get("/job?limit=2").await;
    assert_eq!(page.json()["done"], false);
    assert_eq!(found(&format!("limit=2&iterator={}", page.text("/iterator"))).await, [plain]);
    for (query, place) in [("state=done", "query.state"), ("batch=b", "query.batch"), ("limit=251", "query.limit")] {
        assert_eq!(broken(&world.get(&format!("/job?{query}")).await).0, place);
    }
    let shown = world.get("/job?state=dead").await;
    assert_eq!(shown.text("/data/0/error"), "Connection REFUSED by peer");
    assert!(shown.json()["data"][0].get("payload").is_none(), "lists have none");
}

#[tokio::test]
async fn operators_steer_jobs() {
    let world = World::new().await;
    let id = world.job(json!({ "delaySeconds": 600 })).await;
    let path = format!("/job/{id}");
    let moved = world.patch(&path, r#"{"runAt": "2030-01-01T00:00:00Z"}"#).await;
    assert_eq!(moved.text("/runAt"), "2030-01-01T00:00:00.000000Z");
    assert_eq!(broken(&world.patch(&path, "{}").await).0, "body.runAt");
    assert_eq!(broken(&world.patch(&path, r#"{"delaySeconds": 1e12}"#).await).0, "body.delaySeconds");
    let worker = world.worker(json!({})).await;
    assert_eq!(world.post(&format!("/worker/{worker}/lease"), "").await.each("id"), [""; 0]);
    assert_eq!(world.post(&format!("{path}/retry"), "").await.text("/state"), "pending");
    let held = world.take(&worker).await;
    assert_eq!(held.id, id);

    // It runs: it can be flagged, but not moved or deleted.
    for (answer, detail) in [
        (world.patch(&path, r#"{"delaySeconds": 1}"#).await, "Only a job that is pending can be moved."),
        (world.delete(&path).await, "A job that runs cannot be deleted: cancel it first."),
    ] {
        assert_eq!((answer.code(), answer.text("/detail")), ((409, "job_state".to_owned()), detail.to_owned()));
    }
    assert_eq!(world.post(&format!("{path}/retry"), "").await.text("/state"), "leased", "it is being tried");
    let flagged = world.post(&format!("{path}/cancel"), "").await.json();
    assert_eq!((&flagged["state"], &flagged["cancelRequested"]), (&json!("leased"), &json!(true)));
    assert_eq!(world.say(&held, "fail", json!({ "error": "gave up" })).await.text("/state"), "cancelled");
    assert_eq!(world.post(&format!("{path}/cancel"), "").await.status, 200, "it is so already");
    assert_eq!(world.post(&format!("{path}/retry"), "").await.code().1, "job_state");
    assert_eq!(world.delete(&path).await.status, 204);
    for (method, what) in [("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("POST", "/retry"), ("PATCH", "")] {
        let body = if method == "PATCH" { r#"{"delaySeconds": 1}"# } else { "" };
        let call = Call::new(method.parse().unwrap(), &format!("{path}{what}")).body(body);
        assert_eq!(world.call(call).await.code(), (404, "not_found".to_owned()), "{method} {what}");
    }
}

#[tokio::test]
async fn a_succeeded_job_cannot_be_cancelled_and_a_dead_one_gets_fresh_tries() {
    let world = World::new().await;
    let worker = world.worker(json!({})).await;
    world.job(json!({})).await;
    let held = world.take(&worker).await;
    world.say(&held, "complete", json!({})).await;
    let refused = world.post(&format!("/job/{}/cancel", held.id), "").await;
    assert_eq!(refused.code(), (409, "job_state".to_owned()));
    let dead = world.dead_job(json!({}), "no").await;
    let retried = world.post(&format!("/job/{dead}/retry"), "").await.json();
    assert_eq!((&retried["state"], &retried["tries"]), (&json!("pending"), &json!(0)));
    let dead = world.dead_job(json!({ "queue": "other-graves" }), "no").await;
    assert_eq!(world.post(&format!("/job/{dead}/cancel"), "").await.text("/state"), "cancelled");
}

#[tokio::test]
async fn dead_jobs_are_put_back_by_filter() {
    let world = World::new().await;
    let refused = world.dead_job(json!({}), "connection refused").await;
    let slow = world.dead_job(json!({ "tags": ["slow"] }), "timed out").await;
    let redrive = async |body: &str| world.post("/job/redrive", body).await;
    let answer = redrive(r#"{"error": "REFUSED"}"#).await;
    assert_eq!((answer.status.as_u16(), answer.json()), (202, json!({ "redriven": 1, "done": true })));
    assert_eq!((world.state(&refused).await, world.state(&slow).await), ("pending".into(), "dead".into()));
    assert_eq!(redrive(r#"{"queue": "elsewhere"}"#).await.json()["redriven"], 0);
    assert_eq!(broken(&redrive(r#"{"queue": "a b"}"#).await).0, "body.queue");
    let other = world.elsewhere(Method::POST, "/job/redrive", &json!({})).await;
    assert_eq!(other.json()["redriven"], 0, "not theirs");
    assert_eq!(redrive("").await.json()["redriven"], 1, "all that is left");
    assert_eq!(world.state(&slow).await, "pending");
}
