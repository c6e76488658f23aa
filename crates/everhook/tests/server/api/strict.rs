//! Routes of our own refuse what they do not know, at every depth; compatible routes accept it, because newer clients
//! send it.

use http::Method;
use serde_json::{Value, json};

use crate::api::world::{Call, World};

/// The tags of the compatible API.
const COMPATIBLE: [&str; 13] = [
    "Application",
    "Authentication",
    "Background Task",
    "Endpoint",
    "Environment",
    "Event Type",
    "Health",
    "Integration",
    "Message",
    "Message Attempt",
    "Operational Webhook",
    "Poller",
    "Statistics",
];

/// The ends of the paths of our own routes whose tag belongs to the compatible API. The route of batches is left out:
/// its body has compatible parts.
const OWN_ENDS: [&str; 6] =
    ["/redrive", "/bulk-redrive", "/bulk-cancel", "/webhook/test", "/background-task/{task_id}/cancel", "/basic-auth"];

struct Own {
    method: Method,
    path: String,
    /// The schema of the body, if there is one.
    body: Option<Value>,
}

/// Every operation of our own in the document.
fn own(document: &Value) -> Vec<Own> {
    let mut own = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let is_compatible = COMPATIBLE.iter().any(|tag| operation["tags"][0] == *tag);
            let is_own = OWN_ENDS.iter().any(|end| path.ends_with(end));
            if is_compatible && !is_own {
                continue;
            }
            let path = path.strip_prefix("/api/v1").unwrap().to_owned();
            let body = operation.pointer("/requestBody/content/application~1json/schema").cloned();
            own.push(Own { method: method.to_uppercase().parse().unwrap(), path, body });
        }
    }
    assert!(own.len() > 80, "the document lists them: {}", own.len());
    own
}

/// A path whose slots are filled with something that need not exist.
async fn filled(world: &World, path: &str) -> String {
    let id = |prefix: &str| format!("{prefix}_1srOrx2ZWZBpBUvZwXKQmoEYga2");
    let message = world.get("/app/acme/msg").await.text("/data/0/id");
    path.replace("{app_id}", "acme")
        .replace("{endpoint_id}", "main")
        .replace("{msg_id}", &message)
        .replace("{job_id}", &id("job"))
        .replace("{batch_id}", &id("batch"))
        .replace("{worker_id}", &id("sess"))
        .replace("{queue}", "q")
        .replace("{schedule}", "s")
        .replace("{key}", "k")
        .replace("{outbox}", "main")
        .replace("{row_id}", "1")
}

async fn world() -> World {
    let world = World::with_endpoint().await;
    world.message("acme", "a").await;
    world
}

fn document() -> Value {
    serde_json::from_str(&everhook_api::openapi()).unwrap()
}

#[tokio::test]
async fn every_route_of_our_own_refuses_unknown_parameters() {
    let world = world().await;
    for Own { method, path, .. } in own(&document()) {
        let path = filled(&world, &path).await;
        for slash in ["", "/"] {
            let call = Call::new(method.clone(), &format!("{path}{slash}?zzz=1")).bearer(&world.admin_key);
            let answer = world.call(call).await;
            assert_eq!(answer.status, 422, "{method} {path}{slash}: {answer}");
            assert_eq!(answer.json()["detail"][0]["loc"], json!(["query", "zzz"]), "{method} {path}: {answer}");
        }
        let anonymous = Call::new(method.clone(), &format!("{path}?zzz=1")).anonymous();
        assert_eq!(world.call(anonymous).await.status, 401, "{method} {path}: without a key nothing is told");
    }
}

#[tokio::test]
async fn every_route_of_our_own_refuses_unknown_fields() {
    let world = world().await;
    let document = document();
    for Own { method, path, body } in own(&document) {
        if let Some(schema) = &body {
            assert_closed(&document, schema, &path);
        }
        if method == Method::GET {
            continue;
        }
        let path = filled(&world, &path).await;
        let call = Call::new(method.clone(), &path).bearer(&world.admin_key).body(r#"{"zzz": 1}"#);
        let answer = world.call(call).await;
        // Some routes look the object of the path up before they read the body.
        let is_lookup = answer.status == 404 && ["/batch/", "/outbox/", "{"].iter().any(|part| path.contains(part));
        if !is_lookup || body.is_none() {
            assert_eq!(answer.status, 422, "{method} {path}: {answer}");
            assert_eq!(answer.json()["detail"][0]["loc"], json!(["body", "zzz"]), "{method} {path}: {answer}");
        }
    }
}

/// Every object of a schema that has named properties has no others.
fn assert_closed(document: &Value, schema: &Value, place: &str) {
    if let Some(reference) = schema["$ref"].as_str() {
        let schema = document.pointer(reference.trim_start_matches('#')).unwrap();
        return assert_closed(document, schema, reference);
    }
    if let Some(properties) = schema["properties"].as_object() {
        assert_eq!(schema["additionalProperties"], false, "{place} takes unknown fields");
        for (name, property) in properties {
            assert_closed(document, property, &format!("{place}/{name}"));
        }
    }
    for list in ["oneOf", "anyOf", "allOf"] {
        for part in schema[list].as_array().into_iter().flatten() {
            assert_closed(document, part, place);
        }
    }
    if schema["items"].is_object() {
        assert_closed(document, &schema["items"], place);
    }
}

#[tokio::test]
async fn a_misspelt_option_is_refused_with_the_one_that_was_meant() {
    let world = world().await;
    let job = async |body: Value| world.enqueue(&body).await;
    insta::assert_snapshot!(job(json!({ "queue": "q", "kind": "k", "delay_seconds": 60 })).await, @r#"422 {"detail":[{"loc":["body","delay_seconds"],"msg":"is not a known field: did you mean `delaySeconds`?","type":"value_error"}]}"#);
    insta::assert_snapshot!(job(json!({ "queue": "q", "kind": "k", "backoff": { "baseSecond": 5, "capSeconds": 60 } })).await, @r#"422 {"detail":[{"loc":["body","backoff","baseSecond"],"msg":"is not a known field: did you mean `baseSeconds`?","type":"value_error"}]}"#);
    insta::assert_snapshot!(world.post("/job/bulk", r#"{"jobs": [{"queue": "q", "kind": "k", "prio": 1}]}"#).await, @r#"422 {"detail":[{"loc":["body","jobs","[0]","prio"],"msg":"is not a known field: did you mean `priority`?","type":"value_error"}]}"#);
    let schedule = json!({ "name": "s", "cron": "@daily", "job": { "queue": "q", "kind": "k", "timeout": 5 } });
    insta::assert_snapshot!(world.post("/schedule", &schedule.to_string()).await, @r#"422 {"detail":[{"loc":["body","job","timeout"],"msg":"is not a known field: did you mean `timeoutSeconds`?","type":"value_error"}]}"#);
    insta::assert_snapshot!(world.get("/job?que=q").await, @r#"422 {"detail":[{"loc":["query","que"],"msg":"is not a known parameter: did you mean `queue`?","type":"value_error"}]}"#);
    insta::assert_snapshot!(world.get("/worker?limit=5").await, @r#"422 {"detail":[{"loc":["query","limit"],"msg":"is not a known parameter: this route has none","type":"value_error"}]}"#);
    insta::assert_snapshot!(world.post("/queue/q/pause", r#"{"until": "tomorrow"}"#).await, @r#"422 {"detail":[{"loc":["body","until"],"msg":"is not a known field: this route has none","type":"value_error"}]}"#);
    let message = r#"{"eventType": "a", "payload": {}, "once": {"key": "k", "phas": 2}}"#;
    insta::assert_snapshot!(world.post("/app/acme/msg", message).await, @r#"422 {"detail":[{"loc":["body","once","phas"],"msg":"is not a known field: did you mean `phase`?","type":"value_error"}]}"#);
    insta::assert_snapshot!(world.post("/app/acme/endpoint/main/redrive", r#"{"from": "2026-01-01T00:00:00Z"}"#).await, @r#"422 {"detail":[{"loc":["body","from"],"msg":"is not a known field: use one of since, until","type":"value_error"}]}"#);
    assert_eq!(world.get("/job").await.each("id"), [""; 0], "nothing was enqueued");
}

#[tokio::test]
async fn compatible_routes_accept_what_newer_clients_send() {
    let world = world().await;
    let created = world.post("/app?zzz=1", r#"{"name": "x", "zzz": {"a": 1}}"#).await;
    assert_eq!(created.status, 201, "{created}");
    let body = r#"{"url": "https://example.com/", "zzz": 1}"#;
    assert_eq!(world.post("/app/acme/endpoint?zzz=1", body).await.status, 201);
    let body = r#"{"eventType": "a", "payload": {}, "zzz": 1, "application": {"name": "x", "uid": "acme", "zzz": 1}}"#;
    assert_eq!(world.post("/app/acme/msg?zzz=1", body).await.status, 202);
    assert_eq!(world.get("/app/acme/msg?zzz=1").await.status, 200);
}
