//! Every string, list and map of every request, generated from the OpenAPI document, so that new fields are tested
//! automatically.
//!
//! A NUL, which PostgreSQL text cannot hold, never causes a 5xx. Every field has a limit, and one more than the limit
//! is refused.

use std::sync::Arc;

use everhook_testkit::http::Reply;
use serde_json::{Map, Value, json};

use crate::binary::client::{Client, text};
use crate::binary::server::{Backend, Server, on_both_stores};

on_both_stores! {
    no_text_of_a_request_with_a_nul_breaks_the_store,
    no_field_of_a_request_is_longer_than_the_document_says,
}

const NUL: &str = "a\0b";

/// Texts of a worker about an ended job: they are cut to a limit and never refused.
const CUT: [&str; 3] = ["log", "error", "text"];

/// The defect of a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flaw {
    Nul,
    TooLong,
}

fn no_text_of_a_request_with_a_nul_breaks_the_store(backend: Arc<Backend>) {
    let (stage, server) = Stage::new(&backend);
    let mut bodies = 0;
    // Deletions run last: the other operations need existing objects.
    let (rest, deletes): (Vec<_>, Vec<_>) = operations(&stage.document).partition(|(_, method, _)| *method != "delete");
    for (path, method, operation) in rest.into_iter().chain(deletes) {
        let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        let named = |place: &str| {
            parameters.iter().filter(|found| found["in"] == place).map(|found| text(&found["name"])).collect::<Vec<_>>()
        };
        let schema = body_of(operation);
        let usual = if schema.is_null() { Value::Null } else { stage.sample(schema) };
        for name in named("path") {
            stage.check(method, &stage.fill(path, &name), &usual);
        }
        let path = stage.fill(path, "");
        for name in named("query") {
            stage.check(method, &format!("{path}?{name}=a%00b"), &usual);
        }
        for body in stage.flawed(schema, Flaw::Nul, "") {
            stage.check(method, &path, &body);
            bodies += 1;
        }
    }
    assert!(bodies > 100, "the document describes more texts than {bodies}");
    let log = server.log();
    assert!(!log.contains("panicked"), "{log}");
}

fn no_field_of_a_request_is_longer_than_the_document_says(backend: Arc<Backend>) {
    let (stage, _server) = Stage::new(&backend);
    for (path, method, operation) in operations(&stage.document) {
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            stage.flawed(&parameter["schema"], Flaw::TooLong, &format!("{path} {}", parameter["name"]));
        }
        for body in stage.flawed(body_of(operation), Flaw::TooLong, path) {
            // An application in the body counts only if the path's uid does not exist.
            let path =
                if body["application"].is_object() { path.replace("{app_id}", "fresh") } else { path.to_owned() };
            let reply = stage.send(method, &stage.fill(&path, ""), &body);
            let told = String::from_utf8_lossy(&reply.body);
            assert!((400..500).contains(&reply.status), "{method} {path} {body:.200}: {} {told:.200}", reply.status);
        }
    }
}

fn body_of(operation: &Value) -> &Value {
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    // The schema of an optional field is "this or null".
    schema["oneOf"]
        .as_array()
        .and_then(|choices| choices.iter().find(|choice| !choice["$ref"].is_null()))
        .unwrap_or(schema)
}

fn operations(document: &Value) -> impl Iterator<Item = (&str, &str, &Value)> {
    let paths = document["paths"].as_object().expect("paths").iter();
    paths.flat_map(|(path, item)| {
        let methods = item.as_object().expect("methods").iter();
        methods.map(move |(method, operation)| (path.as_str(), method.as_str(), operation))
    })
}

/// One object of every kind that a path can name.
struct Stage {
    client: Client,
    admin: Client,
    document: Value,
    slots: Map<String, Value>,
}

impl Stage {
    fn new(backend: &Arc<Backend>) -> (Stage, Server) {
        let settings = [("EGRESS_ALLOW", "127.0.0.1/32"), ("JWT_SECRET", "a secret of at least thirty-two bytes")];
        let server = Server::start(backend, &settings);
        let client = server.client();
        let admin = server.client_with(backend.run(&["key", "create", "--admin"]).trim());
        let application = client.application("Acme");
        let endpoint = application.endpoint("http://127.0.0.1:9/").id;
        let operational = json!({ "url": "http://127.0.0.1:9/", "disabled": true });
        let operational = client.post("/operational-webhook/endpoint", &operational).expect(201);
        let integration = format!("/app/{}/integration", application.id);
        let integration = client.post(&integration, &json!({ "name": "i" })).expect(201);
        let polled = application.endpoint("poll:").id;
        let message = application.send(&json!({ "number": 1 }));
        client.post("/event-type", &json!({ "name": "a", "description": "" })).expect(201);
        let job = client.post("/job", &json!({ "queue": "q", "kind": "k", "delaySeconds": 600 })).expect(202);
        let batch = json!({ "name": "b", "application": application.id, "prefix": "p" });
        let batch = client.post("/batch", &batch).expect(201);
        let every = json!({ "name": "s", "everySeconds": 3600, "job": { "queue": "q", "kind": "k" } });
        client.post("/schedule", &every).expect(201);
        let worker = client.post("/worker", &json!({ "name": "w", "queues": ["q"] })).expect(201);
        let key = admin.post("/key", &json!({ "name": "k", "scope": "read" })).expect(201);
        client.post("/alert", &json!({ "name": "d", "signal": "dead", "threshold": 100 })).expect(201);
        let slots = json!({
            "app_id": application.id, "endpoint_id": endpoint, "msg_id": message, "attempt_id": "atmpt_1",
            "event_type_name": "a", "job_id": job["id"], "batch_id": batch["id"], "queue": "q", "schedule": "s",
            "alert": "d", "kind": "slack",
            "worker_id": worker["id"], "outbox": "main", "row_id": "1", "key": "k", "operational": operational["id"],
            "task_id": "qtask_1", "integ_id": integration["id"], "sink_id": polled, "consumer_id": "c",
            "key_id": key["id"], "group_id": format!("{endpoint}.5xx"), "id": message,
        });
        let document = client.get("/openapi.json").expect(200);
        let Value::Object(slots) = slots else { unreachable!("it is one") };
        (Stage { client, admin, document, slots }, server)
    }

    /// Fills the path with existing ids, and puts a NUL into the parameter of this name.
    fn fill(&self, path: &str, bad: &str) -> String {
        let mut filled = path.strip_prefix("/api/v1").expect("every route has it").to_owned();
        if filled.starts_with("/operational-webhook/") && bad != "endpoint_id" {
            filled = filled.replace("{endpoint_id}", "{operational}");
        }
        for (name, value) in &self.slots {
            let value = if name == bad { "a%00b" } else { value.as_str().expect("a text") };
            filled = filled.replace(&format!("{{{name}}}"), value);
        }
        assert!(!filled.contains('{'), "{path} has a slot that is not known here");
        filled
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Reply {
        let client = if path.starts_with("/outbox") { &self.admin } else { &self.client };
        let body = if body.is_null() { String::new() } else { body.to_string() };
        client.send(&method.to_uppercase(), path, &[], body.as_bytes()).expect("an answer")
    }

    #[track_caller]
    fn check(&self, method: &str, path: &str, body: &Value) {
        let (reply, body) = (self.send(method, path, body), body.to_string());
        let told = String::from_utf8_lossy(&reply.body);
        assert!(reply.status < 500, "{method} {path} {body}: {} {told}", reply.status);
        if path.starts_with("/outbox/main/aside/1") && body.contains("\\u0000") {
            assert_eq!(reply.status, 422, "{body}: {told}");
        }
    }

    fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        match schema["$ref"].as_str() {
            Some(reference) => self.document.pointer(&reference[1..]).expect("references lead somewhere"),
            None => schema,
        }
    }

    /// Returns the alternatives or parts of a schema.
    fn parts<'a>(&'a self, schema: &'a Value) -> Vec<&'a Value> {
        let parts = ["allOf", "oneOf", "anyOf"].iter().find_map(|key| schema[*key].as_array());
        parts.map(|parts| parts.iter().map(|part| self.resolve(part)).collect()).unwrap_or_default()
    }

    /// Returns a valid value with only the required fields.
    fn sample(&self, schema: &Value) -> Value {
        let schema = self.resolve(schema);
        let mut parts = self.parts(schema);
        parts.push(schema);
        let is = |kind: &str| schema["type"] == kind || schema["type"][0] == kind;
        match () {
            () if schema["enum"].is_array() => schema["enum"][0].clone(),
            () if schema["format"] == "uri" => json!("http://127.0.0.1:9/"),
            () if schema["format"] == "date-time" => json!("2026-01-01T00:00:00Z"),
            () if is("string") => json!("a"),
            () if is("integer") || is("number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
            () if is("boolean") => json!(false),
            () if is("array") => json!([self.sample(&schema["items"])]),
            () => {
                let mut object = Map::new();
                for part in parts {
                    for name in part["required"].as_array().into_iter().flatten() {
                        let name = name.as_str().expect("a name");
                        object.insert(name.to_owned(), self.named(name, &part["properties"][name]));
                    }
                }
                // A schedule requires one field of two pairs, which the schema does not express.
                if !schema["properties"]["everySeconds"].is_null() {
                    object.insert("everySeconds".to_owned(), json!(3600));
                    object.insert("job".to_owned(), json!({ "queue": "q", "kind": "k" }));
                }
                Value::Object(object)
            }
        }
    }

    fn named(&self, name: &str, schema: &Value) -> Value {
        let slot = match name {
            "application" if self.resolve(schema)["type"] == "string" => "app_id",
            "workerId" => "worker_id",
            _ => return self.sample(schema),
        };
        self.slots[slot].clone()
    }

    /// Returns valid values with a defect in one field at a time. `place` names the field in messages.
    #[track_caller]
    fn flawed(&self, schema: &Value, flaw: Flaw, place: &str) -> Vec<Value> {
        let schema = self.resolve(schema);
        let parts = self.parts(schema);
        if !parts.is_empty() && schema["allOf"].is_null() {
            return parts.into_iter().flat_map(|part| self.flawed(part, flaw, place)).collect();
        }
        let is = |kind: &str| schema["type"] == kind || schema["type"][0] == kind;
        let max = |of: &Value, key: &str| match of[key].as_u64() {
            Some(max) => usize::try_from(max).unwrap(),
            None => panic!("{place} has no {key}"),
        };
        let long = |of: &Value| "a".repeat(max(of, "maxLength") + 1);
        let mut found = Vec::new();
        if is("string") {
            found.extend(match flaw {
                Flaw::Nul => Some(json!(NUL)),
                Flaw::TooLong if schema["enum"].is_array() || schema["format"] == "date-time" => None,
                Flaw::TooLong if schema["format"] == "uri" => {
                    Some(json!(format!("http://127.0.0.1:9/{}", long(schema))))
                }
                Flaw::TooLong => Some(json!(long(schema))),
            });
        } else if is("array") {
            found.extend(self.flawed(&schema["items"], flaw, place).into_iter().map(|item| json!([item])));
            if flaw == Flaw::TooLong {
                found.push(Value::Array(vec![self.sample(&schema["items"]); max(schema, "maxItems") + 1]));
            }
        } else if !self.resolve(&schema["additionalProperties"])["properties"].is_null() {
            let values = self.flawed(&schema["additionalProperties"], flaw, place);
            found.extend(values.into_iter().map(|value| json!({ "a": value })));
            let usual = self.sample(&schema["additionalProperties"]);
            match flaw {
                Flaw::Nul => found.push(json!({ NUL: usual })),
                Flaw::TooLong => {
                    found.push(json!({ long(&schema["propertyNames"]): usual }));
                    let entries = (0..=max(schema, "maxProperties")).map(|entry| (format!("x{entry}"), usual.clone()));
                    found.push(Value::Object(entries.collect()));
                }
            }
        } else if schema["additionalProperties"].is_object() {
            match flaw {
                Flaw::Nul => found.extend([json!({ NUL: "a" }), json!({ "a": NUL })]),
                Flaw::TooLong => {
                    found.push(json!({ long(&schema["propertyNames"]): "a" }));
                    found.push(json!({ "a": long(&schema["additionalProperties"]) }));
                    let entries = (0..=max(schema, "maxProperties")).map(|entry| (format!("x{entry}"), json!("")));
                    found.push(Value::Object(entries.collect()));
                }
            }
        } else if is("object") && schema["properties"].is_null() && flaw == Flaw::Nul {
            found.push(json!({ NUL: NUL }));
        }
        let usual = self.sample(schema);
        for part in parts.into_iter().chain([schema]) {
            for (name, property) in part["properties"].as_object().into_iter().flatten() {
                let is_cut = CUT.contains(&name.as_str()) && self.resolve(property)["maxLength"].is_null();
                if flaw == Flaw::TooLong && is_cut {
                    continue;
                }
                let values = self.flawed(property, flaw, &format!("{place} {name}"));
                found.extend(values.into_iter().map(|value| {
                    let mut body = usual.clone();
                    body[name] = value;
                    body
                }));
            }
        }
        found
    }
}
