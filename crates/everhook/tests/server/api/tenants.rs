//! Tenants, generated from the document: every route with every id of another tenant answers 404 and changes nothing.
//!
//! A new route is covered as soon as the document has it: its path is filled with objects that exist, and its body is
//! the example of the document. Only a new kind of path parameter needs a line in `Tenant::create`.

use std::collections::BTreeMap;

use everhook_core::lifecycle::NextRow;
use http::Method;
use serde_json::{Value, json};

use crate::api::world::{Call, World};

/// Parameters of routes that only admin keys may use.
const OF_ADMINS: [&str; 2] = ["outbox", "row_id"];

/// Parameters that name a part of an application.
const OF_APPLICATIONS: [&str; 6] = ["endpoint_id", "msg_id", "attempt_id", "key", "integ_id", "sink_id"];

/// Parameters that are names of the caller's own, which come to be by their use, and names of chat platforms.
const OF_CALLERS: [&str; 2] = ["consumer_id", "kind"];

/// Routes that create an object under an unknown name: the caller's own, whoever else has one of this name.
const CREATE: [(&str, &str); 3] =
    [("PUT", "/event-type/{event_type_name}"), ("PATCH", "/queue/{queue}"), ("PUT", "/alert/{alert}")];

/// Operational endpoints are no endpoints of an application, though the parameter has the same name.
const OPERATIONAL_PATH: &str = "/operational-webhook/endpoint";
const OPERATIONAL: &str = "operational_endpoint_id";

/// Lists of sessions, which renew themselves, what contains the time of the answer, the last uses of keys, the log of
/// revealed secrets, and the configuration, which only admin keys see.
const RESTLESS: [&str; 8] =
    ["/config", "/worker", "/node", "/health/ready", "/overview", "/key", "/audit", "/audit/verify"];

/// An operation with a caller.
struct Operation {
    method: Method,
    /// Under `/api/v1`.
    path: String,
    /// The example of the document.
    body: Value,
}

impl Operation {
    fn parameters(&self) -> Vec<&str> {
        self.path.split('{').skip(1).map(|rest| rest.split('}').next().unwrap()).collect()
    }

    /// The parameters that name an object of a tenant.
    fn objects(&self) -> Vec<&str> {
        self.parameters().into_iter().filter(|name| !OF_CALLERS.contains(name)).collect()
    }

    fn is(&self, listed: &[(&str, &str)]) -> bool {
        listed.contains(&(self.method.as_str(), &*self.path))
    }
}

fn operations() -> Vec<Operation> {
    let document: Value = serde_json::from_str(&everhook_api::openapi()).unwrap();
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            if operation.get("security").is_none() {
                operations.push(Operation {
                    method: method.to_uppercase().parse().unwrap(),
                    path: path.strip_prefix("/api/v1").unwrap().to_owned(),
                    body: operation["requestBody"]["content"]["application/json"]["example"].clone(),
                });
            }
        }
    }
    operations
}

/// An application with one of everything, and the things of its environment.
struct Tenant {
    key: String,
    /// Ids by path parameter.
    ids: BTreeMap<&'static str, String>,
}

impl Tenant {
    async fn create(world: &World, key: &str, name: &str) -> Tenant {
        let post = async |path: String, body: Value| {
            let call = Call::new(Method::POST, &path).bearer(key).body(body.to_string());
            world.call(call).await
        };
        let queue = format!("{name}-queue");
        let job = json!({ "queue": queue, "kind": "k", "delaySeconds": 3600 });
        let app = post("/app".to_owned(), json!({ "name": name, "uid": name })).await.created();
        let endpoint = json!({ "url": "http://127.0.0.1:9/", "uid": format!("{name}-endpoint") });
        let endpoint = post(format!("/app/{app}/endpoint"), endpoint).await.created();
        let event_type = format!("{name}.type");
        post("/event-type".to_owned(), json!({ "name": event_type, "description": "" })).await;
        let slot = format!("{name}-slot");
        let message = json!({ "eventType": event_type, "payload": {}, "once": { "key": slot } });
        let message = post(format!("/app/{app}/msg"), message).await.created();
        world.deliver(200, b"", NextRow::Gone).await;
        let attempts = Call::new(Method::GET, &format!("/app/{app}/attempt/msg/{message}")).bearer(key);
        let attempt = world.call(attempts).await.text("/data/0/id");
        let doomed = json!({ "eventType": event_type, "payload": {} });
        post(format!("/app/{app}/msg"), doomed).await.created();
        world.deliver(500, b"", NextRow::Dead).await;
        let batch = json!({ "name": name, "application": app, "prefix": name });
        let schedule =
            json!({ "name": format!("{name}-schedule"), "cron": "@yearly", "job": { "queue": queue, "kind": "k" } });
        let integration = post(format!("/app/{app}/integration"), json!({ "name": name })).await.created();
        let since = json!({ "since": "2099-01-01T00:00:00Z" });
        let task = post(format!("/app/{app}/endpoint/{endpoint}/recover"), since).await.text("/id");
        let polled = post(format!("/app/{app}/endpoint"), json!({ "url": "poll:" })).await.created();
        // Disabled, so that it gets no messages about the other objects.
        let operational = json!({ "url": "http://127.0.0.1:9/", "disabled": true });
        let operational = post("/operational-webhook/endpoint".to_owned(), operational).await.created();
        let alert = json!({ "name": format!("{name}-alert"), "signal": "dead", "threshold": 100 });
        let worker = json!({ "name": name, "queues": [format!("{name}-idle")] });
        let ids = BTreeMap::from([
            ("app_id", app),
            ("endpoint_id", endpoint.clone()),
            ("msg_id", message.clone()),
            ("attempt_id", attempt),
            ("alert", post("/alert".to_owned(), alert).await.text("/name")),
            ("key", slot),
            ("event_type_name", event_type),
            ("batch_id", post("/batch".to_owned(), batch).await.created()),
            ("schedule", post("/schedule".to_owned(), schedule).await.text("/name")),
            ("worker_id", post("/worker".to_owned(), worker).await.created()),
            ("job_id", post("/job".to_owned(), job).await.created()),
            ("queue", queue),
            ("integ_id", integration),
            ("key_id", post("/key".to_owned(), json!({ "name": name, "scope": "read" })).await.created()),
            ("task_id", task),
            ("sink_id", polled),
            ("consumer_id", format!("{name}-consumer")),
            ("kind", "slack".to_owned()),
            (OPERATIONAL, operational),
            ("group_id", format!("{endpoint}.5xx")),
            ("id", message.clone()),
        ]);
        Tenant { key: key.to_owned(), ids }
    }

    /// Fills a path with the ids of this tenant, but with those of `other` for the parameters in `foreign`.
    fn fill(&self, path: &str, foreign: &[&str], other: &Tenant) -> String {
        let path = match path.strip_prefix(OPERATIONAL_PATH) {
            Some(rest) => format!("{OPERATIONAL_PATH}{}", rest.replace("endpoint_id", OPERATIONAL)),
            None => path.to_owned(),
        };
        self.ids.iter().fold(path, |path, (name, id)| {
            let is_foreign = foreign.contains(name) || *name == OPERATIONAL && foreign.contains(&"endpoint_id");
            let id = if is_foreign { &other.ids[name] } else { id };
            path.replace(&format!("{{{name}}}"), id)
        })
    }

    /// A body whose references are objects of this tenant, so that only the path names another one's.
    fn body(&self, operation: &Operation) -> String {
        let mut body = operation.body.clone();
        for (field, parameter) in [("workerId", "worker_id"), ("application", "app_id"), ("batchId", "batch_id")] {
            if body.get(field).is_some_and(Value::is_string) {
                body[field] = self.ids[parameter].clone().into();
            }
        }
        if body.is_null() { String::new() } else { body.to_string() }
    }

    /// Everything that the reading routes of the document show of this tenant.
    async fn state(&self, world: &World) -> BTreeMap<String, String> {
        let mut state = BTreeMap::new();
        for operation in operations() {
            let is_readable = operation.method == Method::GET
                && !operation.parameters().iter().any(|name| OF_ADMINS.contains(name))
                && !RESTLESS.contains(&&*operation.path);
            if is_readable {
                let path = self.fill(&operation.path, &[], self);
                let answer = world.call(Call::new(Method::GET, &path).bearer(&self.key)).await;
                let is_expected = answer.status.is_success() || answer.status == 403 && operation.path == "/outbox";
                // Credentials that an endpoint does not have are not found.
                let has_none = answer.status == 404
                    && ["/basic-auth", "/mtls", "/oauth"].iter().any(|end| operation.path.ends_with(end));
                assert!(is_expected || has_none || operation.path.contains("/secret"), "{path}: {answer}");
                state.insert(path, answer.body);
            }
        }
        state
    }
}

/// Calls every operation in the name of `caller`, with ids of `other` in turn. `foreign` returns the sets of parameters
/// to take from there.
async fn check(
    world: &World,
    caller: &Tenant,
    other: &Tenant,
    foreign: impl for<'a> Fn(&[&'a str]) -> Vec<Vec<&'a str>>,
) -> usize {
    let mut seen = 0;
    let mut wrong = Vec::new();
    for operation in operations() {
        let parameters = operation.objects();
        if parameters.iter().any(|name| OF_ADMINS.contains(name)) || operation.is(&CREATE) {
            continue;
        }
        for name in &parameters {
            assert!(caller.ids.contains_key(name), "create one for {{{name}}} of {} here", operation.path);
        }
        for set in foreign(&parameters) {
            let path = caller.fill(&operation.path, &set, other);
            let call = Call::new(operation.method.clone(), &path).bearer(&caller.key).body(caller.body(&operation));
            let answer = world.call(call).await;
            if answer.status != 404 || answer.text("/code") != "not_found" {
                wrong.push(format!("{} {} with {set:?}: {answer}", operation.method, operation.path));
            }
            seen += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    seen
}

#[tokio::test]
async fn every_id_of_another_environment_is_unknown_on_every_route() {
    let world = World::new().await;
    let ours = Tenant::create(&world, &world.key, "ours").await;
    let theirs = Tenant::create(&world, &world.other_key, "theirs").await;
    let before = (ours.state(&world).await, theirs.state(&world).await);
    // Each parameter alone, and all of them: a whole path of another environment.
    let seen = check(&world, &ours, &theirs, |parameters| {
        let each = parameters.iter().map(|name| vec![*name]);
        each.chain((parameters.len() > 1).then(|| parameters.to_vec())).collect()
    })
    .await;
    assert!(seen > 100, "the document has many routes: {seen}");
    let after = (ours.state(&world).await, theirs.state(&world).await);
    assert!(before.0.len() > 25, "{}", before.0.len());
    assert_eq!(before, after, "nothing changed");
}

#[tokio::test]
async fn every_id_of_another_application_is_unknown_on_every_route() {
    let world = World::new().await;
    let ours = Tenant::create(&world, &world.key, "ours").await;
    let sibling = Tenant::create(&world, &world.key, "sibling").await;
    let before = (ours.state(&world).await, sibling.state(&world).await);
    let seen = check(&world, &ours, &sibling, |parameters| {
        if !parameters.contains(&"app_id") {
            return Vec::new();
        }
        parameters.iter().filter(|name| OF_APPLICATIONS.contains(name)).map(|name| vec![*name]).collect()
    })
    .await;
    assert!(seen > 20, "the document has many routes: {seen}");
    assert_eq!(before, (ours.state(&world).await, sibling.state(&world).await), "nothing changed");
}

/// Names are the caller's own: a route that creates under an unknown name leaves the object of another environment
/// alone.
#[tokio::test]
async fn a_name_of_another_environment_can_be_taken_without_touching_it() {
    let world = World::new().await;
    let ours = Tenant::create(&world, &world.key, "ours").await;
    let theirs = Tenant::create(&world, &world.other_key, "theirs").await;
    let before = theirs.state(&world).await;
    let mut seen = 0;
    for operation in operations().iter().filter(|operation| operation.is(&CREATE)) {
        let path = ours.fill(&operation.path, &operation.parameters(), &theirs);
        let call = Call::new(operation.method.clone(), &path).bearer(&ours.key).body(ours.body(operation));
        let answer = world.call(call).await;
        assert!(answer.status.is_success(), "{} {path}: {answer}", operation.method);
        seen += 1;
    }
    assert_eq!(seen, CREATE.len(), "the document has them");
    assert_eq!(before, theirs.state(&world).await, "nothing changed");
}
