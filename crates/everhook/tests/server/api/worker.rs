//! Remote workers: they register, lease, say that they live, and end jobs.

use everhook_store::query;
use everhook_store::store::{Reads, Store};
use everhook_store::worker::Takes;
use http::Method;
use serde_json::{Value, json};

use crate::api::jobs::broken;
use crate::api::world::World;

#[tokio::test]
async fn a_worker_registers_and_is_listed() {
    let world = World::new().await;
    let body = json!({ "name": "mailer-1", "queues": ["email"], "kinds": ["email.send"], "leaseSeconds": 60 });
    let answer = world.post("/worker", &body.to_string()).await;
    assert_eq!((answer.status.as_u16(), answer.json()["leaseSeconds"].clone()), (201, json!(60)), "{answer}");
    let list = world.get("/worker").await;
    assert_eq!((list.each("id"), list.each("state")), (vec![answer.text("/id")], vec!["open".to_owned()]));
    assert_eq!(list.json()["data"][0]["queues"], json!(["email"]));
    assert_eq!(world.elsewhere(Method::GET, "/worker", &Value::Null).await.each("id"), [""; 0]);
    for (seconds, kept) in [(json!(1), 5), (json!(9999), 300), (Value::Null, 30)] {
        let body = json!({ "name": "w", "queues": ["q"], "leaseSeconds": seconds });
        assert_eq!(world.post("/worker", &body.to_string()).await.json()["leaseSeconds"], kept);
    }
}

#[tokio::test]
async fn nobody_speaks_for_a_program_with_handlers_of_its_own() {
    let world = World::new().await;
    let remote = world.worker(json!({})).await;
    let environments = world.store.read(query::Environments {}).await.unwrap();
    for environment in environments {
        let takes = Takes { environment: environment.id, queues: vec!["q".parse().unwrap()], kinds: Vec::new() };
        world.store.set_takes(world.session, takes.clone()).await.unwrap();
        for call in ["lease", "heartbeat"] {
            let answer = world.post(&format!("/worker/{}/{call}", world.session), r#"{"held": []}"#).await;
            assert_eq!(answer.status.as_u16(), 404, "{call}: {answer}");
        }
    }
    assert_eq!(world.post(&format!("/worker/{remote}/heartbeat"), "{}").await.status.as_u16(), 200);
}

#[tokio::test]
async fn bad_workers_are_refused_by_field() {
    let world = World::new().await;
    for (body, place) in [
        (json!({ "queues": ["q"] }), "body"),
        (json!({ "name": "", "queues": ["q"] }), "body.name"),
        (json!({ "name": "x".repeat(257), "queues": ["q"] }), "body.name"),
        (json!({ "name": "w", "queues": [] }), "body.queues"),
        (json!({ "name": "w", "queues": vec!["q"; 101] }), "body.queues"),
        (json!({ "name": "w", "queues": ["a b"] }), "body.queues.[0]"),
        (json!({ "name": "w", "queues": ["q", "everhook.maintenance"] }), "body.queues.[1]"),
        (json!({ "name": "w", "queues": ["q"], "kinds": [] }), "body.kinds"),
        (json!({ "name": "w", "queues": ["q"], "leaseSeconds": -1 }), "body.leaseSeconds"),
    ] {
        assert_eq!(broken(&world.post("/worker", &body.to_string()).await).0, place, "{body}");
    }
    let worker = world.worker(json!({})).await;
    for (body, place) in [
        (json!({ "limit": 0 }), "body.limit"),
        (json!({ "limit": 501 }), "body.limit"),
        (json!({ "waitSeconds": -1 }), "body.waitSeconds"),
        (json!({ "held": [{ "id": "job_", "epoch": 1 }] }), "body.held.[0].id"),
    ] {
        assert_eq!(broken(&world.post(&format!("/worker/{worker}/lease"), &body.to_string()).await).0, place);
    }
}

#[tokio::test]
async fn a_leased_job_brings_what_its_handler_needs() {
    let world = World::new().await;
    let body = r#"{"queue": "q", "kind": "k", "payload": {"n": 1.50}, "name": "n", "tags": ["t"], "metadata": {"a": "b"},
        "concurrencyKey": "c", "maxAttempts": 4}"#;
    let id = world.post("/job", body).await.created();
    let worker = world.worker(json!({})).await;
    let answer = world.post(&format!("/worker/{worker}/lease"), r#"{"limit": 5, "waitSeconds": 0}"#).await;
    assert!(answer.body.contains(r#""payload":{"n": 1.50}"#), "byte for byte: {answer}");
    let job = &answer.json()["data"][0];
    let want = json!({
        "id": id, "epoch": 1, "attempt": 1, "maxAttempts": 4, "queue": "q", "kind": "k", "name": "n", "priority": 5,
        "timeoutSeconds": 900, "concurrencyKey": "c", "tags": ["t"], "metadata": { "a": "b" }, "payload": { "n": 1.5 },
    });
    assert_eq!(*job, want);
    let shown = world.get(&format!("/job/{id}")).await.json();
    let since = &shown["heldBy"]["since"];
    assert_eq!(shown["heldBy"], json!({ "workerId": worker, "name": "w", "epoch": 1, "since": since }));
    assert!(since.as_str().is_some_and(|since| since >= shown["createdAt"].as_str().unwrap()), "{shown}");
    assert_eq!(world.get("/worker").await.each("held"), ["1"]);
}

#[tokio::test]
async fn a_worker_gets_only_its_queues_and_kinds() {
    let world = World::new().await;
    let worker = world.worker(json!({ "kinds": ["b"] })).await;
    world.job(json!({ "kind": "a" })).await;
    world.job(json!({ "queue": "other", "kind": "b" })).await;
    let b = world.job(json!({ "kind": "b" })).await;
    let answer = world.post(&format!("/worker/{worker}/lease"), r#"{"limit": 10}"#).await;
    assert_eq!(answer.each("id"), [b]);
}

#[tokio::test]
async fn a_job_is_completed_with_its_result_and_its_log() {
    let world = World::new().await;
    let id = world.job(json!({})).await;
    let held = world.take(&world.worker(json!({})).await).await;
    let progress = world.say(&held, "progress", json!({ "percent": 40, "text": "half way" })).await;
    assert_eq!((progress.status.as_u16(), progress.text("/state")), (200, "leased".to_owned()));
    let shown = world.get(&format!("/job/{id}")).await.json();
    assert_eq!(shown["progress"], json!({ "percent": 40, "text": "half way" }));
    let done = world.say(&held, "complete", json!({ "result": { "sent": [1] }, "log": ["one", "two"] })).await;
    assert_eq!((done.status.as_u16(), done.json()), (200, json!({ "id": id, "state": "succeeded" })));
    let shown = world.get(&format!("/job/{id}")).await.json();
    assert_eq!((&shown["state"], &shown["result"]), (&json!("succeeded"), &json!({ "sent": [1] })));
    let attempt = &shown["attempts"][0];
    assert_eq!((&attempt["class"], &attempt["state"]), (&json!("success"), &json!("succeeded")));
    assert_eq!((&attempt["log"], &attempt["workerId"]), (&json!(["one", "two"]), &json!(held.worker)));
    assert_eq!(shown["tries"], 1);
    assert!(shown["endedAt"].is_string() && shown.get("runAt").is_none() && shown.get("heldBy").is_none(), "{shown}");
    let again = world.say(&held, "complete", json!({})).await;
    assert_eq!(
        (again.status.as_u16(), again.text("/state")),
        (200, "succeeded".to_owned()),
        "saying it again is harmless"
    );
}

#[tokio::test]
async fn a_result_that_is_too_large_is_not_kept_and_the_job_is_done_all_the_same() {
    let world = World::new().await;
    let id = world.job(json!({})).await;
    let held = world.take(&world.worker(json!({})).await).await;
    let answer = world.say(&held, "complete", json!({ "result": "x".repeat(70_000) })).await;
    assert_eq!(answer.text("/state"), "succeeded");
    let shown = world.get(&format!("/job/{id}")).await.json();
    assert_eq!((shown.get("result"), &shown["resultTooLargeBytes"]), (None, &json!(70_002)));
}

#[tokio::test]
async fn a_failed_job_waits_and_one_that_is_snoozed_uses_no_attempt() {
    let world = World::new().await;
    let id = world.job(json!({ "maxAttempts": 2, "backoff": [0] })).await;
    let worker = world.worker(json!({})).await;
    let held = world.take(&worker).await;
    assert_eq!(world.say(&held, "snooze", json!({ "seconds": 0 })).await.text("/state"), "pending");
    let held = world.take(&worker).await;
    assert_eq!((&held.job["attempt"], &held.job["epoch"]), (&json!(1), &json!(2)));
    let failed =
        world.say(&held, "fail", json!({ "error": "no route", "log": ["tried"], "retryAfterSeconds": 600 })).await;
    assert_eq!(failed.text("/state"), "pending");
    let shown = world.get(&format!("/job/{id}")).await.json();
    assert_eq!((&shown["tries"], &shown["error"]), (&json!(1), &json!("no route")));
    let classes: Vec<_> =
        shown["attempts"].as_array().unwrap().iter().map(|attempt| attempt["class"].clone()).collect();
    assert_eq!(classes, ["failed", "snoozed"], "newest first");
    assert_eq!(world.post(&format!("/worker/{worker}/lease"), "").await.each("id"), [""; 0], "not before 600 s");
    world.post(&format!("/job/{id}/retry"), "").await;
    let held = world.take(&worker).await;
    assert_eq!(world.say(&held, "fail", json!({})).await.text("/state"), "dead");
    world.post(&format!("/job/{id}/retry"), "").await;
    let held = world.take(&worker).await;
    assert_eq!(world.say(&held, "complete", json!({})).await.text("/state"), "succeeded");
    assert_eq!(world.get(&format!("/job/{id}")).await.json()["tries"], 1, "of its fresh tries");
}

#[tokio::test]
async fn what_is_said_of_a_job_that_is_not_ones_own_is_a_conflict() {
    let world = World::new().await;
    let id = world.job(json!({ "backoff": [0] })).await;
    let (one, two) = (world.worker(json!({})).await, world.worker(json!({})).await);
    let everything = [
        ("complete", json!({})),
        ("fail", json!({})),
        ("snooze", json!({ "seconds": 1 })),
        ("progress", json!({ "percent": 1 })),
    ];
    let waiting = crate::api::jobs::Held { worker: one.clone(), id: id.clone(), job: json!({ "epoch": 1 }) };
    for (what, more) in &everything {
        let answer = world.say(&waiting, what, more.clone()).await;
        assert_eq!(answer.code(), (409, "not_running".to_owned()), "{what}");
        assert!(answer.text("/detail").contains("it is pending"), "{answer}");
    }
    let held = world.take(&one).await;
    for (worker, epoch) in [(&two, 1), (&one, 0), (&one, 2)] {
        let other = crate::api::jobs::Held { worker: worker.clone(), id: id.clone(), job: json!({ "epoch": epoch }) };
        for (what, more) in &everything {
            let answer = world.say(&other, what, more.clone()).await;
            assert_eq!(answer.code(), (409, "not_yours".to_owned()), "{what} {epoch}");
        }
    }
    assert_eq!(world.get(&format!("/job/{id}")).await.json()["attempts"], json!([]), "nothing was recorded");
    for (what, more) in &everything {
        let mut body = json!({ "workerId": one, "epoch": 1 });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let path = format!("/job/job_23rb8YdGqMT0qIzpgGwdXfHirMu/{what}");
        assert_eq!(world.post(&path, &body.to_string()).await.code().0, 404, "{what}");
        let foreign = world.elsewhere(Method::POST, &format!("/job/{id}/{what}"), &body).await;
        assert_eq!(foreign.code().0, 404, "{what} of another environment");
    }
    assert_eq!(world.say(&held, "complete", json!({})).await.text("/state"), "succeeded");
}

#[tokio::test]
async fn bad_words_of_a_worker_are_refused_by_field() {
    let world = World::new().await;
    world.job(json!({})).await;
    let held = world.take(&world.worker(json!({})).await).await;
    for (what, more, place) in [
        ("complete", json!({ "workerId": "me" }), "body.workerId"),
        ("complete", json!({ "epoch": -1 }), "body.epoch"),
        ("fail", json!({ "retryAfterSeconds": -1 }), "body.retryAfterSeconds"),
        ("fail", json!({ "log": "a line" }), "body.log"),
        ("snooze", json!({}), "body"),
        ("snooze", json!({ "seconds": 1e9 }), "body.seconds"),
        ("progress", json!({ "percent": 101 }), "body.percent"),
    ] {
        assert_eq!(broken(&world.say(&held, what, more.clone()).await).0, place, "{what} {more}");
    }
}

#[tokio::test]
async fn a_heartbeat_tells_what_is_lost_and_what_is_cancelled() {
    let world = World::new().await;
    let worker = world.worker(json!({})).await;
    let (a, b) = (world.job(json!({})).await, world.job(json!({})).await);
    world.take(&worker).await;
    world.take(&worker).await;
    world.post(&format!("/job/{b}/cancel"), "").await;
    let path = format!("/worker/{worker}/heartbeat");
    assert_eq!(world.post(&path, "").await.json(), json!({ "lost": [], "cancelled": [b] }));
    let held = json!({ "held": [{ "id": a, "epoch": 1 }, { "id": b, "epoch": 9 }] });
    assert_eq!(world.post(&path, &held.to_string()).await.json(), json!({ "lost": [b], "cancelled": [] }));
}

#[tokio::test]
async fn a_lease_whose_answer_was_lost_gives_its_jobs_back() {
    let world = World::new().await;
    let worker = world.worker(json!({})).await;
    let id = world.job(json!({})).await;
    assert_eq!(world.take(&worker).await.id, id);
    let again = world.post(&format!("/worker/{worker}/lease"), r#"{"held": []}"#).await;
    assert_eq!(again.each("id"), [id], "it holds nothing, so it was never told");
    assert_eq!(again.json()["data"][0]["attempt"], 1);
}

#[tokio::test]
async fn a_lease_waits_for_a_job() {
    let world = World::new().await;
    let worker = world.worker(json!({})).await;
    let path = format!("/worker/{worker}/lease");
    let (answer, id) = tokio::join!(world.post(&path, r#"{"waitSeconds": 20}"#), async { world.job(json!({})).await });
    assert_eq!(answer.each("id"), [id]);
}

#[tokio::test]
async fn a_worker_asks_in_one_request_at_a_time() {
    let world = World::new().await;
    let worker = world.worker(json!({})).await;
    let path = format!("/worker/{worker}/lease");
    let ask = || Box::pin(world.post(&path, r#"{"waitSeconds": 60}"#));
    let (mut one, mut two) = (ask(), ask());
    // There is no job yet: only a refusal can come back.
    let (refused, waiting) = tokio::select! {
        refused = &mut one => (refused, two),
        refused = &mut two => (refused, one),
    };
    assert_eq!(refused.code(), (409, "worker_busy".to_owned()));
    let id = world.job(json!({})).await;
    assert_eq!(waiting.await.each("id"), [id]);
}

#[tokio::test]
async fn a_worker_that_was_closed_registers_again() {
    use everhook_core::id::SessionId;

    let world = World::new().await;
    let worker = world.worker(json!({})).await;
    let id: SessionId = worker.parse().unwrap();
    world.store.close_session(id).await.unwrap();
    for path in [format!("/worker/{worker}/lease"), format!("/worker/{worker}/heartbeat")] {
        let answer = world.post(&path, "").await;
        assert_eq!(answer.code(), (409, "worker_closed".to_owned()));
        assert!(answer.text("/detail").ends_with("register again."), "{answer}");
        let foreign = world.elsewhere(Method::POST, &path, &json!({})).await;
        assert_eq!(foreign.code().0, 404);
    }
    assert_eq!(world.post("/worker/sess_/lease", "").await.code().0, 404);
}

#[tokio::test]
async fn a_worker_that_signs_off_gives_its_jobs_back_at_once() {
    let world = World::new().await;
    let (leaving, staying) = (world.worker(json!({})).await, world.worker(json!({})).await);
    let id = world.job(json!({})).await;
    let lease = async |worker: &str| world.post(&format!("/worker/{worker}/lease"), "").await;
    assert_eq!(lease(&leaving).await.each("id"), [id.as_str()]);
    assert_eq!(lease(&staying).await.each("id"), [""; 0]);
    assert_eq!(world.elsewhere(Method::DELETE, &format!("/worker/{leaving}"), &Value::Null).await.code().0, 404);

    assert_eq!(world.delete(&format!("/worker/{leaving}")).await.status.as_u16(), 204);
    assert_eq!(world.get("/worker").await.each("id"), [staying.as_str()]);
    assert_eq!(lease(&leaving).await.code(), (409, "worker_closed".to_owned()));
    let again = lease(&staying).await;
    assert_eq!(again.each("id"), [id]);
    assert_eq!(again.json()["data"][0]["attempt"], 1, "it used no try");
    assert_eq!(world.delete(&format!("/worker/{leaving}")).await.status.as_u16(), 204, "saying it again is harmless");
    let unknown = world.delete("/worker/sess_23rb8YdGqMT0qIzpgGwdXfHirMu").await;
    assert_eq!(unknown.text("/detail"), "worker sess_23rb8YdGqMT0qIzpgGwdXfHirMu not found");
}
