//! Schedules: written down, shown, changed, paused and run.

use everhook_core::id::{EnvironmentId, Id, ScheduleId};
use everhook_core::job::Job;
use everhook_core::schedule::{Cadence, Schedule};
use everhook_core::scope::Scope;
use everhook_store::schedule::{ScheduleRecord, Starts};
use everhook_store::store::Resources;
use http::Method;
use serde_json::{Value, json};

use crate::api::jobs::{broken, with};
use crate::api::world::{Answer, Call, World};

fn nightly() -> Value {
    json!({ "name": "nightly", "cron": "0 3 * * *", "timezone": "Europe/Berlin", "job": { "queue": "q", "kind": "k", "payload": [1] } })
}

async fn create(world: &World, more: Value) -> Answer {
    world.post("/schedule", &with(nightly(), more).to_string()).await
}

#[tokio::test]
async fn a_schedule_is_shown_as_it_was_created_with_its_next_times() {
    let world = World::new().await;
    let answer = create(&world, json!({})).await;
    assert_eq!(answer.status, 201, "{answer}");
    let shown = world.get("/schedule/nightly").await.json();
    for (key, value) in [
        ("cron", json!("0 3 * * *")),
        ("timezone", json!("Europe/Berlin")),
        ("state", json!("active")),
        ("overlap", json!("allow")),
        ("missed", json!("runOnce")),
        ("history", json!([])),
    ] {
        assert_eq!(shown[key], value, "{key}: {shown}");
    }
    assert_eq!((&shown["job"]["queue"], &shown["job"]["payload"]), (&json!("q"), &json!([1])));
    assert_eq!(shown["upcoming"].as_array().unwrap().len(), 5);
    assert_eq!(shown["upcoming"][0], shown["nextRunAt"]);
    let list = world.get("/schedule").await;
    assert_eq!(list.each("name"), ["nightly"]);
    assert!(list.json()["data"][0].get("history").is_none(), "lists have none");
    assert_eq!(create(&world, json!({})).await.code(), (409, "conflict".to_owned()), "the name is taken");
    let elsewhere = world.elsewhere(Method::POST, "/schedule", &nightly()).await;
    assert_eq!(elsewhere.status, 201, "per environment");
}

#[tokio::test]
async fn bad_schedules_are_refused_by_field() {
    let world = World::with_application().await;
    let none = Value::Null;
    let message = json!({ "application": "acme", "eventType": "tick", "payload": {} });
    for (more, place, rule) in [
        (json!({ "name": none }), "name", "is required"),
        (json!({ "name": "a b" }), "name", "may only contain"),
        (json!({ "name": "everhook.mine" }), "name", "must not begin with"),
        (json!({ "cron": "61 * * * *" }), "cron", "field 1 (minute), column 1: 61 is out of range, 0 to 59"),
        (json!({ "cron": "0 0 * * FUN" }), "cron", "column 9: unknown name"),
        (json!({ "cron": "@often" }), "cron", "unknown nickname"),
        (json!({ "cron": "0 0 30 2 *" }), "cron", "never run"),
        (json!({ "cron": none }), "cron", "cron or everySeconds is required"),
        (json!({ "everySeconds": 60 }), "everySeconds", "cannot be combined with cron"),
        (json!({ "timezone": "Mars/Olympus" }), "timezone", "unknown time zone"),
        (json!({ "cron": none, "everySeconds": 60 }), "timezone", "can only be combined with cron"),
        (json!({ "cron": none, "everySeconds": 0, "timezone": none }), "everySeconds", "whole seconds"),
        (json!({ "jitterSeconds": 90_000 }), "jitterSeconds", "at most"),
        (json!({ "graceSeconds": 90_000 }), "graceSeconds", "at most"),
        (json!({ "missed": "catchUp" }), "catchUp", "is required if missed is catchUp"),
        (json!({ "missed": "skip", "catchUp": 3 }), "catchUp", "can only be combined with the policy catchUp"),
        (json!({ "catchUp": 101 }), "catchUp", "1 to 100"),
        (json!({ "missed": "never" }), "missed", "unknown variant"),
        (json!({ "overlap": "queue" }), "overlap", "unknown variant"),
        (
            json!({ "startsAt": "2030-01-02T00:00:00Z", "endsAt": "2030-01-01T00:00:00Z" }),
            "endsAt",
            "must be after startsAt",
        ),
        (json!({ "endsAt": "2001-01-01T00:00:00Z" }), "endsAt", "never run"),
        (json!({ "job": none }), "job", "job or message is required"),
        (json!({ "message": message }), "message", "cannot be combined with job"),
        (json!({ "job": { "queue": "q", "kind": "k", "priority": 10 } }), "job.priority", "0 to 9"),
        (json!({ "job": { "queue": "everhook.q", "kind": "k" } }), "job.queue", "must not begin with"),
        (
            json!({ "job": { "queue": "q", "kind": "k", "delaySeconds": 1 } }),
            "job.delaySeconds",
            "the schedule determines the time",
        ),
        (json!({ "job": { "queue": "q", "kind": "k", "batchId": "b" } }), "job.batchId", "no batch"),
        (
            json!({ "job": none, "message": with(message.clone(), json!({ "application": "x" })) }),
            "message.application",
            "no application",
        ),
        (
            json!({ "job": none, "message": with(message.clone(), json!({ "payload": [] })) }),
            "message.payload",
            "JSON object",
        ),
        (
            json!({ "job": none, "message": with(message.clone(), json!({ "tags": ["a b"] })) }),
            "message.tags.[0]",
            "may only",
        ),
        (
            json!({ "job": none, "message": message, "overlap": "skip" }),
            "overlap",
            "must be allow for a schedule of messages",
        ),
    ] {
        let answer = create(&world, more.clone()).await;
        let (at, said) = broken(&answer);
        assert!(at == format!("body.{place}") && said.contains(rule), "{more}: {answer}");
    }
    assert_eq!(world.get("/schedule").await.each("name"), [""; 0]);
}

#[tokio::test]
async fn a_schedule_is_changed_in_part() {
    let world = World::new().await;
    create(&world, json!({ "missed": "catchUp", "catchUp": 4, "endsAt": "2040-01-01T00:00:00Z" })).await;
    let patch = async |body: Value| world.patch("/schedule/nightly", &body.to_string()).await;
    let changed = patch(json!({ "cron": "30 4 * * *" })).await.json();
    assert_eq!(
        (&changed["cron"], &changed["timezone"], &changed["catchUp"], &changed["job"]["kind"]),
        (&json!("30 4 * * *"), &json!("Europe/Berlin"), &json!(4), &json!("k"))
    );
    assert_eq!(patch(json!({ "endsAt": null })).await.json().get("endsAt"), None);
    let changed = patch(json!({ "everySeconds": 60, "missed": "skip", "overlap": "skip" })).await.json();
    assert_eq!((changed.get("cron"), &changed["everySeconds"], changed.get("catchUp")), (None, &json!(60), None));
    assert_eq!(broken(&patch(json!({ "cron": "nonsense" })).await).0, "body.cron");
    assert_eq!(broken(&patch(json!({ "name": "other" })).await).0, "body.name");
    world.application("acme").await;
    let message = json!({ "message": { "application": "acme", "eventType": "tick", "payload": {} } });
    assert_eq!(broken(&patch(message.clone()).await).0, "body.overlap", "it was skip for the job");
    let changed = patch(with(message, json!({ "overlap": "allow" }))).await.json();
    assert_eq!((changed.get("job"), &changed["message"]["eventType"]), (None, &json!("tick")));
    assert_eq!(world.patch("/schedule/unknown", "{}").await.code().0, 404);
}

#[tokio::test]
async fn a_schedule_is_paused_resumed_run_and_deleted() {
    let world = World::new().await;
    create(&world, json!({})).await;
    let post = async |what: &str| world.post(&format!("/schedule/nightly/{what}"), "").await;
    let paused = post("pause").await.json();
    assert_eq!(
        (&paused["state"], &paused["nextRunAt"], &paused["upcoming"]),
        (&json!("paused"), &Value::Null, &json!([]))
    );
    let run = post("run").await;
    assert_eq!((run.status.as_u16(), run.text("/kind")), (202, "manual".to_owned()), "{run}");
    let job = world.get(&format!("/job/{}", run.text("/jobId"))).await.json();
    assert_eq!((&job["state"], &job["payload"]), (&json!("pending"), &json!([1])));
    assert!(world.counts("everhook_jobs_enqueued_total 1"));
    let resumed = post("resume").await.json();
    assert_eq!((&resumed["state"], resumed["nextRunAt"].is_string()), (&json!("active"), true));
    assert_eq!(resumed["history"][0]["jobId"], run.json()["jobId"]);
    assert_eq!(world.delete("/schedule/nightly").await.status, 204);
    for what in ["pause", "resume", "run"] {
        assert_eq!(post(what).await.code().0, 404);
    }
    assert_eq!(world.delete("/schedule/nightly").await.code().0, 404);
    assert_eq!(world.state(&run.text("/jobId")).await, "pending", "what it started stays");
}

#[tokio::test]
async fn a_schedule_sends_messages() {
    let world = World::with_application().await;
    let body = r#"{"name": "tick", "everySeconds": 60, "paused": true,
        "message": {"application": "acme", "eventType": "tick", "payload": {"a": 1.0}, "tags": ["t"]}}"#;
    let created = world.post("/schedule", body).await;
    assert_eq!((created.status.as_u16(), created.text("/state")), (201, "paused".to_owned()), "{created}");
    let run = world.post("/schedule/tick/run", "").await;
    assert!(world.counts("everhook_messages_accepted_total 1"));
    let message = world.get(&format!("/app/acme/msg/{}", run.text("/messageId"))).await;
    assert!(message.body.contains(r#""payload":{"a": 1.0}"#), "byte for byte: {message}");
}

#[tokio::test]
async fn a_repeated_creation_answers_the_same_schedule() {
    let world = World::new().await;
    let call = |body: Value| {
        world.call(Call::new(Method::POST, "/schedule").header("idempotency-key", "1").body(body.to_string()))
    };
    let (first, again) = (call(nightly()).await, call(nightly()).await);
    assert_eq!((again.status.as_u16(), first.text("/id")), (201, again.text("/id")));
    assert_eq!(call(with(nightly(), json!({ "name": "other" }))).await.code().1, "idempotency_key_reused");
}

#[tokio::test]
async fn the_servers_own_schedules_are_for_admin_keys() {
    let world = World::new().await;
    let (queue, kind) = ("everhook.maintenance".parse().unwrap(), "everhook.prune".parse().unwrap());
    let job = Job::new(everhook_core::id::JobId(Id::MIN), queue, kind, bytes::Bytes::from_static(b"{}"));
    let cadence = Cadence::Cron { cron: "@daily".parse().unwrap(), zone: "UTC".parse().unwrap() };
    let own = ScheduleRecord::new(
        "everhook.prune-jobs".parse().unwrap(),
        Schedule::new(ScheduleId(Id::MAX), cadence),
        Starts::Job(Box::new(job)),
    );
    world.store.create(Scope::of(EnvironmentId(0)), own.clone(), None).await.unwrap();
    let call = async |method: &str, path: &str, key: &str| {
        world.call(Call::new(method.parse().unwrap(), path).bearer(key).body("{}")).await
    };
    let path = "/schedule/everhook.prune-jobs";
    for (method, path) in
        [("GET", "/schedule?builtin=true"), ("GET", path), ("POST", &format!("{path}/pause")), ("DELETE", path)]
    {
        let answer = call(method, path, &world.key).await;
        assert_eq!(answer.code(), (403, "insufficient access".to_owned()), "{method} {path}");
    }
    let admin = &world.admin_key;
    assert_eq!(call("GET", "/schedule?builtin=true", admin).await.each("name"), ["everhook.prune-jobs"]);
    assert_eq!(call("GET", "/schedule", admin).await.each("name"), [""; 0], "not among the users'");
    assert_eq!(call("POST", &format!("{path}/pause"), admin).await.text("/state"), "paused");
    assert_eq!(call("POST", &format!("{path}/resume"), admin).await.text("/state"), "active");
    assert_eq!(call("POST", &format!("{path}/run"), admin).await.text("/kind"), "manual");
    assert_eq!(call("GET", path, admin).await.json()["history"][0]["kind"], "manual");
    for method in ["PATCH", "DELETE"] {
        assert_eq!(call(method, path, admin).await.code(), (409, "built_in".to_owned()), "{method}");
    }
}
