//! Background tasks: started, listed, hidden from others, cancelled. The node of these tests runs none of them.

use everhook_core::id::SERVER_ENVIRONMENT;
use everhook_core::job::OperatorCommand;
use everhook_core::scope::Scope;
use everhook_store::steer::Steer;
use everhook_store::store::Store as _;
use http::Method;
use serde_json::json;

use crate::api::world::{Answer, Call, Switches, World};

const SINCE: &str = r#"{"since": "2099-01-01T00:00:00Z"}"#;

#[tokio::test]
async fn every_bulk_operation_starts_a_background_task() {
    let world = World::with_endpoint().await;
    let recover = world.post("/app/acme/endpoint/main/recover", SINCE).await;
    insta::assert_snapshot!(recover, @r#"202 {"id":"qtask_#1","status":"running","task":"endpoint.recover","updatedAt":"<time>"}"#);
    let missing = world.post("/app/acme/endpoint/main/replay-missing", SINCE).await;
    insta::assert_snapshot!(missing, @r#"202 {"id":"qtask_#1","status":"running","task":"endpoint.replay","updatedAt":"<time>"}"#);
    let bulk = world.post("/app/acme/endpoint/main/bulk-replay", SINCE).await;
    insta::assert_snapshot!(bulk, @r#"202 {"id":"qtask_#1","status":"running","task":"endpoint.bulk-replay","updatedAt":"<time>"}"#);
    let purge = world.post("/app/acme/msg/expunge-all-contents", "").await;
    insta::assert_snapshot!(purge, @r#"202 {"id":"qtask_#1","status":"running","task":"application.purge_content","updatedAt":"<time>"}"#);
    let window =
        json!({ "since": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z", "appIds": ["acme", "x", "!"] });
    let stats = world.post("/stats/usage/app", &window.to_string()).await;
    insta::assert_snapshot!(stats, @r#"202 {"id":"qtask_#1","status":"running","task":"application.stats","updatedAt":"<time>","unresolvedAppIds":["x","!"]}"#);
    let types = world.put("/stats/usage/event-types", "").await;
    insta::assert_snapshot!(types, @r#"202 {"id":"qtask_#1","status":"running","task":"event-type.aggregate","updatedAt":"<time>"}"#);
    let started = [&types, &stats, &purge, &bulk, &missing, &recover].map(|answer| answer.text("/id"));
    assert_eq!(world.get("/background-task").await.each("id"), started, "newest first");
    assert_eq!(world.get("/job").await.each("id"), [""; 0], "they are no jobs of the customer");
    let one = world.get(&format!("/background-task/{}", started[5])).await;
    insta::assert_snapshot!(one, @r#"200 {"id":"qtask_#1","status":"running","task":"endpoint.recover","updatedAt":"<time>","data":{}}"#);
}

#[tokio::test]
async fn background_tasks_are_filtered_and_paged() {
    let world = World::with_endpoint().await;
    let mut started = Vec::new();
    for route in ["recover", "replay-missing", "recover"] {
        started.push(world.post(&format!("/app/acme/endpoint/main/{route}"), SINCE).await.text("/id"));
    }
    let list = async |query: &str| world.get(&format!("/background-task?{query}")).await;
    assert_eq!(list("order=ascending").await.each("id"), started);
    assert_eq!(list("task=endpoint.replay").await.each("id"), [&*started[1]]);
    assert_eq!(list("task=message.broadcast").await.each("id"), [""; 0]);
    assert_eq!(list("status=running").await.each("id").len(), 3);
    assert_eq!(list("status=finished").await.each("id"), [""; 0]);
    assert_eq!(list("status=cancelled").await.status, 422);
    let page = list("limit=2&order=ascending").await;
    assert_eq!((page.each("id"), page.text("/iterator")), (started[..2].to_vec(), started[1].clone()));
    let rest = list(&format!("limit=2&order=ascending&iterator={}", started[1])).await;
    assert_eq!((rest.each("id"), rest.json()["done"].as_bool()), (started[2..].to_vec(), Some(true)));
}

#[tokio::test]
async fn a_background_task_belongs_to_its_environment_and_application() {
    let world = World::with_endpoint().await;
    world.application("other").await;
    let token = async |application: &str| {
        world.post(&format!("/auth/app-portal-access/{application}"), "{}").await.text("/token")
    };
    let (own, other) = (token("acme").await, token("other").await);
    let recover = Call::new(Method::POST, "/app/acme/endpoint/main/recover").bearer(&own).body(SINCE);
    let task = world.call(recover).await.text("/id");
    world.put("/stats/usage/event-types", "").await;
    let as_caller = async |method: Method, path: &str, key: &str| -> Answer {
        world.call(Call::new(method, path).bearer(key)).await
    };
    let path = format!("/background-task/{task}");
    assert_eq!(as_caller(Method::GET, &path, &own).await.status, 200);
    assert_eq!(as_caller(Method::GET, "/background-task", &own).await.each("id"), [&*task]);
    for stranger in [&other, &world.other_key] {
        assert_eq!(as_caller(Method::GET, &path, stranger).await.code(), (404, "not_found".to_owned()));
        assert_eq!(as_caller(Method::POST, &format!("{path}/cancel"), stranger).await.status, 404);
        assert_eq!(as_caller(Method::GET, "/background-task", stranger).await.each("id"), [""; 0]);
    }
    let job = task.replace("qtask_", "job_");
    assert_eq!(world.get(&format!("/job/{job}")).await.status, 404);
    assert_eq!(world.get("/background-task/nonsense").await.status, 404);
    assert_eq!(world.get(&path).await.text("/status"), "running", "nobody else cancelled it");
}

#[tokio::test]
async fn a_background_task_is_cancelled_once() {
    let world = World::with_endpoint().await;
    let task = world.post("/app/acme/endpoint/main/recover", SINCE).await.text("/id");
    let cancelled = world.post(&format!("/background-task/{task}/cancel"), "").await;
    insta::assert_snapshot!(cancelled, @r#"200 {"id":"qtask_#1","status":"failed","task":"endpoint.recover","updatedAt":"<time>","data":{"error":"the background task was cancelled"}}"#);
    let again = world.post(&format!("/background-task/{task}/cancel"), "").await;
    insta::assert_snapshot!(again, @r#"409 {"code":"conflict","detail":"The background task has ended, so it cannot be cancelled."}"#);
    assert_eq!(world.get("/background-task?status=failed").await.each("id"), [&*task]);
    let deleted = world.post("/app/acme/endpoint/main/recover", SINCE).await.text("/id");
    let id = deleted.replace("qtask_", "job_").parse().unwrap();
    let steer = Steer::Jobs { ids: vec![id], command: OperatorCommand::Delete };
    world.store.steer(Scope::of(SERVER_ENVIRONMENT), steer).await.unwrap();
    assert_eq!(world.post(&format!("/background-task/{deleted}/cancel"), "").await.status, 404);
}

#[tokio::test]
async fn a_repeated_request_starts_one_background_task() {
    let world = World::with_endpoint().await;
    let ask = async |key: &str, bearer: &str, body: &str| {
        let call = Call::new(Method::POST, "/app/acme/endpoint/main/recover").header("idempotency-key", key);
        world.call(call.bearer(bearer).body(body)).await
    };
    let first = ask("k", &world.key, SINCE).await;
    assert_eq!(ask("k", &world.key, SINCE).await.text("/id"), first.text("/id"));
    assert_ne!(ask("l", &world.key, SINCE).await.text("/id"), first.text("/id"));
    let other = ask("k", &world.key, r#"{"since": "2099-01-02T00:00:00Z"}"#).await;
    assert_eq!(other.code(), (409, "idempotency_key_reused".to_owned()));
    for (path, body) in [
        ("/app", r#"{"name": "x", "uid": "acme"}"#),
        ("/app/acme/endpoint", r#"{"url": "http://127.0.0.1:9/", "uid": "main"}"#),
    ] {
        assert_eq!(world.call(Call::new(Method::POST, path).bearer(&world.other_key).body(body)).await.status, 201);
    }
    let elsewhere = ask("k", &world.other_key, SINCE).await;
    assert_ne!(elsewhere.text("/id"), first.text("/id"), "the key of another environment");
}

#[tokio::test]
async fn windows_and_filters_are_checked() {
    let world = World::with_endpoint().await;
    let at = async |route: &str, body: &str| world.post(&format!("/app/acme/endpoint/main/{route}"), body).await;
    insta::assert_snapshot!(at("recover", r#"{"since": "2020-01-01T00:00:00Z"}"#).await, @r#"422 {"detail":[{"loc":["body","since"],"msg":"must be at most 14 days before until","type":"value_error"}]}"#);
    let backwards = r#"{"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"}"#;
    insta::assert_snapshot!(at("replay-missing", backwards).await, @r#"422 {"detail":[{"loc":["body","until"],"msg":"must not be before since","type":"value_error"}]}"#);
    assert_eq!(at("recover", "{}").await.status, 422);
    let bulk =
        async |filter: &str| at("bulk-replay", &format!(r#"{{"since": "2026-01-01T00:00:00Z", {filter}}}"#)).await;
    insta::assert_snapshot!(bulk(r#""status": 5"#).await, @r#"422 {"detail":[{"loc":["body","status"],"msg":"must be from 0 to 4","type":"value_error"}]}"#);
    insta::assert_snapshot!(bulk(r#""statusCodeClass": 250"#).await, @r#"422 {"detail":[{"loc":["body","statusCodeClass"],"msg":"must be 0, 100, 200, 300, 400 or 500","type":"value_error"}]}"#);
    insta::assert_snapshot!(bulk(r#""tag": "a b""#).await, @r#"422 {"detail":[{"loc":["body","tag"],"msg":"may only contain letters, digits, '-', '_' and '.'","type":"value_error"}]}"#);
    insta::assert_snapshot!(bulk(r#""ratePerSecond": 10001"#).await, @r#"422 {"detail":[{"loc":["body","ratePerSecond"],"msg":"must be from 1 to 10000","type":"value_error"}]}"#);
    assert_eq!(bulk(r#""dryRun": true"#).await.text("/task"), "bulk.dry-run");
    for (route, want) in [("bulk-cancel", "endpoint.bulk-cancel"), ("bulk-redrive", "endpoint.bulk-redrive")] {
        assert_eq!(at(route, SINCE).await.text("/task"), want);
        let fast = at(route, r#"{"since": "2099-01-01T00:00:00Z", "ratePerSecond": 0}"#).await;
        assert!(fast.status == 422 && fast.to_string().contains("ratePerSecond"), "{fast}");
        let unknown = at(route, r#"{"since": "2099-01-01T00:00:00Z", "status": 2}"#).await;
        assert!(unknown.status == 422 && unknown.to_string().contains("status"), "{unknown}");
    }
    let fast = world.post("/app/acme/msg/expunge-all-contents", r#"{"ratePerSecond": 0}"#).await;
    assert!(fast.status == 422 && fast.to_string().contains("ratePerSecond"), "{fast}");
    assert_eq!(
        bulk(r#""eventTypes": ["a"], "channel": "c", "tag": "t", "status": 0, "statusCodeClass": 0"#).await.status,
        202
    );
    assert_eq!(world.post("/app/acme/endpoint/nobody/recover", SINCE).await.status, 404);
    let nobody = r#"{"since": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z", "appIds": ["nobody"]}"#;
    insta::assert_snapshot!(world.post("/stats/usage/app", nobody).await, @r#"422 {"detail":[{"loc":["body","appIds"],"msg":"must name at least one application of the environment","type":"value_error"}]}"#);
}

#[tokio::test]
async fn named_payloads_are_removed_at_once() {
    let world = World::with_endpoint().await;
    let first = world.message("acme", "a").await;
    let event = r#"{"eventType": "a", "payload": {"n": 1}, "eventId": "e-1"}"#;
    world.post("/app/acme/msg", event).await.created();
    let kept = world.message("acme", "a").await;
    world.application("other").await;
    let elsewhere = world.message("other", "a").await;
    let ids = json!({ "ids": [first, "e-1", elsewhere, "no such message"] });
    let answer = world.post("/app/acme/msg/bulk-expunge", &ids.to_string()).await;
    let results = json!({ first.as_str(): "expunged", "e-1": "expunged", elsewhere.as_str(): "not-found", "no such message": "not-found" });
    assert_eq!((answer.status.as_u16(), answer.json()), (200, json!({ "results": results })));
    let payload = async |id: &str| world.get(&format!("/app/acme/msg/{id}")).await.json()["payload"].clone();
    assert_eq!(payload(&first).await, json!({ "expired": true }));
    assert_eq!(payload("e-1").await, json!({ "expired": true }));
    assert_eq!(payload(&kept).await, json!({ "n": 1 }));
    assert_eq!(world.post("/app/acme/msg/bulk-expunge", "{}").await.json(), json!({ "results": {} }));
    let many = json!({ "ids": vec!["x"; 251] });
    insta::assert_snapshot!(world.post("/app/acme/msg/bulk-expunge", &many.to_string()).await, @r#"422 {"detail":[{"loc":["body","ids"],"msg":"must have at most 250 entries","type":"value_error"}]}"#);
}

#[tokio::test]
async fn without_jobs_there_are_no_background_tasks() {
    let world = World::with_switches(Switches { jobs: false, ..Switches::default() }).await;
    world.application("acme").await;
    world.endpoint("acme", "main").await;
    let answer = world.post("/app/acme/endpoint/main/recover", SINCE).await;
    assert_eq!(answer.code().1, "jobs_disabled");
}
