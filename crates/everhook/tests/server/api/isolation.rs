//! Isolation: an object of another environment or application is not found, on every route of the document.

use everhook_core::id::DEFAULT_ORG;
use everhook_core::lifecycle::NextRow;
use http::Method;
use serde_json::{Value, json};

use crate::api::world::{Call, World};

/// Members of which every route reads those that it knows.
const BODY: &str = r#"{"name": "x", "url": "https://example.com/", "eventType": "a", "payload": {}, "description": "d",
    "headers": {}, "since": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z", "after": "2026-01-01T00:00:00Z",
    "messages": [{"eventType": "a", "payload": {}}], "type": "pollingEndpoint", "scope": "read",
    "spec": {"webhooks": {"b": {}}}}"#;

/// An operation of the document.
struct Operation {
    method: Method,
    /// Under `/api/v1`.
    path: String,
    needs_caller: bool,
    /// The one that the token of an application needs.
    capability: Option<String>,
    /// The fields of its body.
    fields: Vec<String>,
}

impl Operation {
    /// The members of `all` that its body knows. Many routes refuse others.
    fn body(&self, all: &Value) -> String {
        let mut body = all.clone();
        body.as_object_mut().unwrap().retain(|name, _| self.fields.contains(name));
        body.to_string()
    }
}

/// The names of the properties of a schema and of all its parts.
fn properties(document: &Value, schema: &Value) -> Vec<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        return properties(document, document.pointer(reference.trim_start_matches('#')).unwrap());
    }
    let parts = ["oneOf", "allOf"].into_iter().flat_map(|parts| schema[parts].as_array().into_iter().flatten());
    let of_parts = parts.flat_map(|part| properties(document, part));
    let own = schema["properties"].as_object().into_iter().flat_map(|properties| properties.keys().cloned());
    own.chain(of_parts).collect()
}

/// Every operation of the document.
fn described() -> Vec<Operation> {
    let document: Value = serde_json::from_str(&everhook_api::openapi()).unwrap();
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            operations.push(Operation {
                method: method.to_uppercase().parse().unwrap(),
                path: path.strip_prefix("/api/v1").unwrap().to_owned(),
                needs_caller: operation.get("security").is_none(),
                capability: operation["x-capability"].as_str().map(str::to_owned),
                fields: properties(&document, &operation["requestBody"]["content"]["application/json"]["schema"]),
            });
        }
    }
    operations
}

/// Every operation of the document that is about an application: method, path under `/api/v1`, a body that it reads.
fn of_applications() -> Vec<(Method, String, String)> {
    let all: Value = serde_json::from_str(BODY).unwrap();
    let with_body = |one: Operation| {
        let body = one.body(&all);
        (one.method, one.path, body)
    };
    described().into_iter().filter(|one| one.path.contains("{app_id}")).map(with_body).collect()
}

/// Routes of jobs, whose bodies are their own; their own tests go through them.
fn is_of_jobs(path: &str) -> bool {
    ["/job", "/worker", "/queue", "/batch", "/schedule"].iter().any(|prefix| path.starts_with(prefix))
}

/// An application with one of everything.
struct Everything {
    slots: [(&'static str, String); 12],
}

impl Everything {
    async fn create(world: &World) -> Everything {
        let application = world.application("acme").await;
        let endpoint = world.endpoint("acme", "main").await;
        let poller = world.post("/app/acme/endpoint", r#"{"url": "poll:", "uid": "poll"}"#).await.created();
        world.post("/event-type", r#"{"name": "a", "description": ""}"#).await;
        let body = r#"{"eventType": "a", "payload": {}, "eventId": "e-1", "once": {"key": "k"}}"#;
        let message = world.post("/app/acme/msg", body).await.created();
        world.deliver(200, b"", NextRow::Gone).await;
        let attempt = world.get("/app/acme/attempt/msg/e-1").await.text("/data/0/id");
        let integration = world.post("/app/acme/integration", r#"{"name": "Tool"}"#).await.created();
        let operational = r#"{"url": "https://example.com/", "disabled": true}"#;
        let operational = world.post("/operational-webhook/endpoint", operational).await.created();
        let task = world.post("/app/acme/msg/expunge-all-contents", "").await.created();
        let slots = [
            ("{task_id}", task),
            ("/operational-webhook/endpoint/{endpoint_id}", format!("/operational-webhook/endpoint/{operational}")),
            ("{app_id}", application),
            ("{integ_id}", integration),
            ("{key_id}", world.post("/key", r#"{"name": "k", "scope": "read"}"#).await.created()),
            ("{endpoint_id}", endpoint),
            ("{msg_id}", message),
            ("{attempt_id}", attempt),
            ("{event_type_name}", "a".to_owned()),
            ("{key}", "k".to_owned()),
            ("{sink_id}", poller),
            ("{consumer_id}", "c".to_owned()),
        ];
        Everything { slots }
    }

    fn fill(&self, path: &str) -> String {
        self.slots.iter().fold(path.to_owned(), |path, (slot, value)| path.replace(slot, value))
    }
}

#[tokio::test]
async fn every_route_needs_a_caller() {
    let world = World::new().await;
    for Operation { method, path, needs_caller, .. } in described() {
        let call = Call::new(method.clone(), &path).anonymous().body(BODY);
        let answer = world.call(call).await;
        assert_eq!(answer.status == 401, needs_caller, "{method} {path}: {answer}");
    }
}

#[tokio::test]
async fn every_route_hides_another_environment() {
    let world = World::new().await;
    let ours = Everything::create(&world).await;
    // Equal names over there never touch ours.
    for (path, body) in
        [("/app", r#"{"name": "x", "uid": "acme"}"#), ("/event-type", r#"{"name": "a", "description": ""}"#)]
    {
        let call = Call::new(Method::POST, path).bearer(&world.other_key).body(body);
        assert_eq!(world.call(call).await.status, 201);
    }
    let ids = |path: &str| ours.fill(path);
    let uids = |path: &str| {
        let path = path.replace("{endpoint_id}", "main").replace("{msg_id}", "e-1").replace("{app_id}", "acme");
        let path = path.replace("{sink_id}", "poll");
        ours.fill(&path)
    };
    let mut seen = 0;
    for (method, path, body) in of_applications() {
        let call = Call::new(method.clone(), &ids(&path)).bearer(&world.other_key).body(&*body);
        let answer = world.call(call).await;
        assert_eq!(answer.status, 404, "{method} {path}: {answer}");
        assert_eq!(answer.text("/code"), "not_found");
        seen += 1;
        let creates = method == Method::PUT && path.ends_with("/{endpoint_id}");
        if !creates && ["{endpoint_id}", "{msg_id}", "{sink_id}"].iter().any(|slot| path.contains(slot)) {
            let call = Call::new(method.clone(), &uids(&path)).bearer(&world.other_key).body(&*body);
            let answer = world.call(call).await;
            assert_eq!(answer.status, 404, "{method} {path} by uid: {answer}");
        }
    }
    assert!(seen > 25, "the document lists them: {seen}");
    assert_eq!(world.get("/app/acme/msg/e-1").await.status, 200, "ours are untouched");
    assert_eq!(world.get("/app/acme/endpoint").await.each("id").len(), 2);
}

#[tokio::test]
async fn every_route_hides_another_application_from_a_token() {
    let world = World::new().await;
    let ours = Everything::create(&world).await;
    world.application("other").await;
    let token = world.post("/auth/app-portal-access/other", "{}").await.text("/token");
    for (method, path, body) in of_applications() {
        let answer = world.call(Call::new(method.clone(), &ours.fill(&path)).bearer(&token).body(&*body)).await;
        let refused = answer.status == 404 || answer.status == 403;
        assert!(refused, "{method} {path}: {answer}");
        let own = ours.fill(&path.replace("{app_id}", "other"));
        let answer = world.call(Call::new(method.clone(), &own).bearer(&token).body(&*body)).await;
        let foreign_child = ["{endpoint_id}", "{msg_id}", "{sink_id}"].iter().any(|slot| path.contains(slot));
        assert!(!foreign_child || answer.status == 404 || answer.status == 403, "{method} {own}: {answer}");
    }
    for (method, path) in
        [("POST", "/event-type"), ("PUT", "/event-type/a"), ("DELETE", "/event-type/a"), ("GET", "/app")]
    {
        let call = Call::new(method.parse().unwrap(), path).bearer(&token).body(BODY);
        assert_eq!(world.call(call).await.code(), (403, "insufficient access".to_owned()), "{method} {path}");
    }
}

/// Every route that needs a caller refuses a token without the capability that the document names, and every route
/// without one refuses tokens of applications whatever they may do.
#[tokio::test]
async fn every_route_asks_a_token_for_its_capability() {
    let world = World::new().await;
    let ours = Everything::create(&world).await;
    let all =
        ["ViewEndpointSecret", "ManageEndpointSecret", "ManageTransformations", "CreateAttempts", "ManageEndpoint"];
    let id = world.get("/app/acme").await.text("/id");
    let token = |capabilities: &[&str]| {
        let claims = json!({ "sub": id, "org": DEFAULT_ORG, "exp": 9_000_000_000_i64, "capabilities": capabilities });
        World::token(&claims)
    };
    let (mut open, mut closed) = (0, 0);
    for Operation { method, path, needs_caller, capability, .. } in described() {
        if !needs_caller {
            continue;
        }
        let filled = ours.fill(&path);
        let call = async |token: &str| world.call(Call::new(method.clone(), &filled).bearer(token).body(BODY)).await;
        match capability.as_deref() {
            None => {
                let answer = call(&token(&["ViewBase"])).await;
                assert_eq!(answer.code(), (403, "insufficient access".to_owned()), "{method} {path}: {answer}");
                let answer = call(&token(&[&["ViewBase"], &all[..]].concat())).await;
                assert_eq!(answer.code(), (403, "insufficient access".to_owned()), "{method} {path}: {answer}");
                closed += 1;
            }
            Some(needed) => {
                let without: Vec<&str> = match needed {
                    "ViewBase" => all.to_vec(),
                    "ViewEndpointSecret" => vec!["ViewBase", "CreateAttempts"],
                    "ManageEndpointSecret" => vec!["ViewBase", "ViewEndpointSecret", "CreateAttempts"],
                    needed => all.into_iter().chain(["ViewBase"]).filter(|one| *one != needed).collect(),
                };
                let answer = call(&token(&without)).await;
                assert_eq!(answer.code(), (403, "insufficient access".to_owned()), "{method} {path}: {answer}");
                assert!(answer.text("/detail").contains(needed), "{method} {path}: {answer}");
                // Every token may end itself.
                let ends = path == "/auth/logout";
                let reads = method == Method::GET || ends || path.ends_with("/filter/test");
                assert_eq!(reads && needed != "ViewEndpointSecret", needed == "ViewBase", "{method} {path}: {needed}");
                if method != Method::DELETE && !ends {
                    let answer = call(&token(&["ViewBase", needed])).await;
                    assert_ne!(answer.status, 403, "{method} {path}: {answer}");
                }
                open += 1;
            }
        }
    }
    assert!(open > 20 && closed > 40, "the document lists them: {open} and {closed}");
}

#[tokio::test]
async fn every_route_works_on_what_is_the_callers() {
    let world = World::new().await;
    let ours = Everything::create(&world).await;
    let all: Value = serde_json::from_str(BODY).unwrap();
    let mut operations = described();
    // Deletions go last, the children first: later operations still need the objects.
    operations.sort_by_key(|one| (one.method == Method::DELETE, std::cmp::Reverse(one.path.len())));
    for operation in operations {
        let body = operation.body(&all);
        let Operation { method, path, .. } = operation;
        // Only a token can log out. No delivery is dead here, so that there is no failure group; `tenants` has one.
        if path == "/auth/logout"
            || path.starts_with("/failure-group/")
            || path.starts_with("/lookup/")
            || path.ends_with("/resend")
            // The tests of `chat` try a chat endpoint.
            || path.contains("/chat/")
            || path.ends_with("/webhook/test")
            // So do the tests of `alert`, whose rules need members of their own.
            || path.starts_with("/alert")
            || path.starts_with("/chat-app/")
            // `endpoint_auth` sets the credentials that these routes show.
            || ["/basic-auth", "/ca", "/mtls", "/oauth"].iter().any(|end| path.ends_with(end))
            || path == "/event-type" && method == Method::POST
            || is_of_jobs(&path)
        {
            continue;
        }
        // The only delivery has succeeded, which no command can change.
        let commands = ["cancel", "dismiss", "redrive", "retry-now"];
        if commands.iter().any(|command| path.ends_with(&format!("{{msg_id}}/endpoint/{{endpoint_id}}/{command}"))) {
            let call = Call::new(method.clone(), &ours.fill(&path)).bearer(&world.key).body(&*body);
            assert_eq!(world.call(call).await.code(), (409, "conflict".to_owned()), "{method} {path}");
            continue;
        }
        // An outbox may hold rows of any environment: an admin's, and here there is none.
        if path.starts_with("/outbox/") {
            let answer = world.call(Call::new(method.clone(), &path).bearer(&world.key).body(&*body)).await;
            assert_eq!(answer.code(), (403, "insufficient access".to_owned()), "{method} {path}");
            continue;
        }
        for slash in ["", "/"] {
            let is_second_delete = method == Method::DELETE && !slash.is_empty();
            // Routes that span environments are for admin keys.
            let key =
                if ["/config", "/node", "/outbox"].contains(&path.as_str()) { &world.admin_key } else { &world.key };
            let call = Call::new(method.clone(), &format!("{}{slash}", ours.fill(&path))).bearer(key).body(&*body);
            let answer = world.call(call).await;
            let deleted_before = is_second_delete && answer.status == 404;
            // A background task is cancelled once.
            let ended_before = path.ends_with("/cancel") && !slash.is_empty() && answer.status == 409;
            assert!(answer.status.is_success() || deleted_before || ended_before, "{method} {path}{slash}: {answer}");
        }
    }
}

#[tokio::test]
async fn every_route_of_jobs_hides_another_environment_and_refuses_application_tokens() {
    let world = World::with_application().await;
    let token = world.post("/auth/app-portal-access/acme", "{}").await.text("/token");
    let batch = r#"{"name": "b", "application": "acme", "prefix": "p"}"#;
    let batch = world.post("/batch", batch).await.created();
    let schedule = json!({ "name": "nightly", "cron": "@daily", "job": { "queue": "q", "kind": "k" } });
    world.post("/schedule", &schedule.to_string()).await.created();
    let worker = world.worker(json!({})).await;
    let job = world.job(json!({ "delaySeconds": 60 })).await;
    let all = json!({ "queue": "q", "kind": "k", "jobs": [job], "workerId": worker, "epoch": 1, "seconds": 1, "percent": 1,
        "delaySeconds": 1, "name": "nightly", "prefix": "p", "application": "acme", "limit": 1 });
    let add = json!({ "queue": "q", "kind": "k" });
    let mut seen = 0;
    for operation in described().into_iter().filter(|one| is_of_jobs(&one.path)) {
        let body: Value = serde_json::from_str(&operation.body(&all)).unwrap();
        let Operation { method, path, .. } = operation;
        let filled = path
            .replace("{job_id}", &job)
            .replace("{batch_id}", &batch)
            .replace("{worker_id}", &worker)
            .replace("{schedule}", "nightly")
            .replace("{queue}", "q");
        let body = if path.ends_with("/job") { &add } else { &body };
        let portal = world.call(Call::new(method.clone(), &filled).bearer(&token).body(body.to_string())).await;
        assert_eq!(portal.code(), (403, "insufficient access".to_owned()), "{method} {path}");
        // A queue may be configured ahead of its first job; it is another one than ours.
        let is_new = path.starts_with("/queue") && method == Method::PATCH;
        if !path.contains('{') || is_new {
            continue;
        }
        let answer = world.elsewhere(method.clone(), &filled, body).await;
        assert_eq!(answer.code(), (404, "not_found".to_owned()), "{method} {path}");
        seen += 1;
    }
    assert!(seen > 20, "the document lists them: {seen}");
    let ours = world.get(&format!("/job/{job}")).await;
    assert_eq!(ours.text("/state"), "pending", "untouched: {ours}");
    assert_eq!(world.get("/schedule").await.each("name"), ["nightly"]);
    for path in ["/job", "/queue", "/batch", "/schedule", "/worker"] {
        let theirs = world.elsewhere(Method::GET, path, &json!(null)).await;
        assert_eq!(theirs.each("name"), [""; 0], "{path}");
    }
}
