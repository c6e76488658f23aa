//! The document, the pages and what surrounds the routes.

use http::Method;
use serde_json::Value;

use crate::api::world::{Call, World};

#[tokio::test]
async fn the_document_is_served() {
    assert_eq!(everhook_api::openapi(), everhook_api::openapi(), "the same every time");
    let world = World::new().await;
    let served = world.call(Call::new(Method::GET, "/openapi.json").anonymous()).await;
    assert_eq!(served.headers["content-type"], "application/json");
    assert_eq!(served.body, everhook_api::openapi());
}

/// The paths of the document with their methods.
fn routes() -> String {
    let document: Value = serde_json::from_str(&everhook_api::openapi()).unwrap();
    let mut routes = String::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let methods: Vec<_> = item.as_object().unwrap().keys().map(String::as_str).collect();
        routes += &format!("{path} {}\n", methods.join(" "));
    }
    routes
}

#[expect(clippy::too_many_lines, reason = "one line for each route")]
#[test]
fn the_document_lists_every_route() {
    insta::assert_snapshot!(routes(), @r"
/api/v1/alert get post
/api/v1/alert/{alert} delete get patch put
/api/v1/alert/{alert}/page get
/api/v1/alert/{alert}/test post
/api/v1/app get post
/api/v1/app/{app_id} delete get patch put
/api/v1/app/{app_id}/attempt/endpoint/{endpoint_id} get
/api/v1/app/{app_id}/attempt/msg/{msg_id} get
/api/v1/app/{app_id}/chat/preview post
/api/v1/app/{app_id}/chat/test post
/api/v1/app/{app_id}/delivery get
/api/v1/app/{app_id}/destination post
/api/v1/app/{app_id}/endpoint get post
/api/v1/app/{app_id}/endpoint/{endpoint_id} delete get patch put
/api/v1/app/{app_id}/endpoint/{endpoint_id}/attempt-stats get
/api/v1/app/{app_id}/endpoint/{endpoint_id}/basic-auth delete get put
/api/v1/app/{app_id}/endpoint/{endpoint_id}/bulk-cancel post
/api/v1/app/{app_id}/endpoint/{endpoint_id}/bulk-redrive post
/api/v1/app/{app_id}/endpoint/{endpoint_id}/bulk-replay post
/api/v1/app/{app_id}/endpoint/{endpoint_id}/ca get put
/api/v1/app/{app_id}/endpoint/{endpoint_id}/filter/test post
/api/v1/app/{app_id}/endpoint/{endpoint_id}/headers get patch put
/api/v1/app/{app_id}/endpoint/{endpoint_id}/msg get
/api/v1/app/{app_id}/endpoint/{endpoint_id}/mtls delete get put
/api/v1/app/{app_id}/endpoint/{endpoint_id}/mtls-config get
/api/v1/app/{app_id}/endpoint/{endpoint_id}/oauth delete get put
/api/v1/app/{app_id}/endpoint/{endpoint_id}/oauth-config get
/api/v1/app/{app_id}/endpoint/{endpoint_id}/policy get
/api/v1/app/{app_id}/endpoint/{endpoint_id}/recover post
/api/v1/app/{app_id}/endpoint/{endpoint_id}/redrive post
/api/v1/app/{app_id}/endpoint/{endpoint_id}/replay-missing post
/api/v1/app/{app_id}/endpoint/{endpoint_id}/secret get
/api/v1/app/{app_id}/endpoint/{endpoint_id}/secret/rotate post
/api/v1/app/{app_id}/endpoint/{endpoint_id}/send-example post
/api/v1/app/{app_id}/endpoint/{endpoint_id}/stats get
/api/v1/app/{app_id}/integration get post
/api/v1/app/{app_id}/integration/{integ_id} delete get put
/api/v1/app/{app_id}/integration/{integ_id}/key/rotate post
/api/v1/app/{app_id}/msg get post
/api/v1/app/{app_id}/msg/batch post
/api/v1/app/{app_id}/msg/bulk-expunge post
/api/v1/app/{app_id}/msg/expunge-all-contents post
/api/v1/app/{app_id}/msg/precheck/active post
/api/v1/app/{app_id}/msg/{msg_id} get
/api/v1/app/{app_id}/msg/{msg_id}/attempt get
/api/v1/app/{app_id}/msg/{msg_id}/attempt/{attempt_id} get
/api/v1/app/{app_id}/msg/{msg_id}/attempt/{attempt_id}/content delete
/api/v1/app/{app_id}/msg/{msg_id}/cancel post
/api/v1/app/{app_id}/msg/{msg_id}/content delete
/api/v1/app/{app_id}/msg/{msg_id}/endpoint get
/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id} get
/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/attempt get
/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/cancel post
/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/dismiss post
/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/redrive post
/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/resend post
/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/retry-now post
/api/v1/app/{app_id}/once get
/api/v1/app/{app_id}/once/{key} delete get
/api/v1/app/{app_id}/policy get
/api/v1/app/{app_id}/poller/{sink_id} get
/api/v1/app/{app_id}/poller/{sink_id}/consumer/{consumer_id} get
/api/v1/app/{app_id}/poller/{sink_id}/consumer/{consumer_id}/seek post
/api/v1/app/{app_id}/quota get put
/api/v1/app/{app_id}/usage get
/api/v1/app/{app_id}/webhook/test post
/api/v1/audit get
/api/v1/audit/verify get
/api/v1/auth/app-portal-access/{app_id} post
/api/v1/auth/app/{app_id}/expire-all post
/api/v1/auth/dashboard-access/{app_id} post
/api/v1/auth/logout post
/api/v1/background-task get
/api/v1/background-task/{task_id} get
/api/v1/background-task/{task_id}/cancel post
/api/v1/batch get post
/api/v1/batch/{batch_id} get
/api/v1/batch/{batch_id}/job post
/api/v1/batch/{batch_id}/retry post
/api/v1/batch/{batch_id}/seal post
/api/v1/batch/{batch_id}/skip post
/api/v1/chat-app get
/api/v1/chat-app/{kind} delete put
/api/v1/chat-app/{kind}/test post
/api/v1/config get
/api/v1/delivery get
/api/v1/endpoint get
/api/v1/environment/effective-policy get
/api/v1/environment/export post
/api/v1/environment/import post
/api/v1/environment/policy get put
/api/v1/environment/quota get put
/api/v1/environment/usage get
/api/v1/event-type get post
/api/v1/event-type/import/openapi post
/api/v1/event-type/{event_type_name} delete get patch put
/api/v1/failure-group get
/api/v1/failure-group/{group_id} get
/api/v1/failure-group/{group_id}/acknowledge post
/api/v1/failure-group/{group_id}/redrive post
/api/v1/failure-group/{group_id}/reopen post
/api/v1/failure-group/{group_id}/resolve post
/api/v1/health get
/api/v1/health/ping get
/api/v1/health/ready get
/api/v1/job get post
/api/v1/job/bulk post
/api/v1/job/redrive post
/api/v1/job/{job_id} delete get patch
/api/v1/job/{job_id}/cancel post
/api/v1/job/{job_id}/complete post
/api/v1/job/{job_id}/fail post
/api/v1/job/{job_id}/progress post
/api/v1/job/{job_id}/retry post
/api/v1/job/{job_id}/snooze post
/api/v1/key get post
/api/v1/key/{key_id} delete get
/api/v1/lookup/{id} get
/api/v1/message get
/api/v1/node get
/api/v1/operational-webhook/endpoint get post
/api/v1/operational-webhook/endpoint/{endpoint_id} delete get put
/api/v1/operational-webhook/endpoint/{endpoint_id}/headers get put
/api/v1/operational-webhook/endpoint/{endpoint_id}/secret get
/api/v1/operational-webhook/endpoint/{endpoint_id}/secret/rotate post
/api/v1/outbox get
/api/v1/outbox/{outbox}/aside get
/api/v1/outbox/{outbox}/aside/retry post
/api/v1/outbox/{outbox}/aside/{row_id} delete patch
/api/v1/outbox/{outbox}/aside/{row_id}/retry post
/api/v1/overview get
/api/v1/portal-settings get put
/api/v1/queue get
/api/v1/queue/{queue} delete get patch
/api/v1/queue/{queue}/pause post
/api/v1/queue/{queue}/resume post
/api/v1/queue/{queue}/secret get
/api/v1/schedule get post
/api/v1/schedule/{schedule} delete get patch
/api/v1/schedule/{schedule}/pause post
/api/v1/schedule/{schedule}/resume post
/api/v1/schedule/{schedule}/run post
/api/v1/stats/usage/app post
/api/v1/stats/usage/event-types put
/api/v1/worker get post
/api/v1/worker/{worker_id} delete
/api/v1/worker/{worker_id}/heartbeat post
/api/v1/worker/{worker_id}/lease post
");
}

/// Every reference of the document leads somewhere.
#[test]
fn the_document_is_complete() {
    let text = everhook_api::openapi();
    let document: Value = serde_json::from_str(&text).unwrap();
    let references = text.split("\"$ref\": \"#").skip(1).map(|rest| rest.split('"').next().unwrap());
    let mut count = 0;
    for reference in references {
        assert!(document.pointer(reference).is_some(), "{reference}");
        count += 1;
    }
    assert!(count > 100);
}

fn document() -> Value {
    serde_json::from_str(&everhook_api::openapi()).unwrap()
}

/// Every operation of the document: path, method and description.
fn operations(document: &Value) -> Vec<(&str, &str, &Value)> {
    let paths = document["paths"].as_object().unwrap().iter();
    let each = paths.flat_map(|(path, item)| {
        item.as_object().unwrap().iter().map(move |(method, operation)| (&**path, &**method, operation))
    });
    each.collect()
}

/// The value that a reference leads to.
fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(reference) => document.pointer(reference.trim_start_matches('#')).unwrap(),
        None => value,
    }
}

/// The server takes exactly the methods of the document at each of its paths.
#[tokio::test]
async fn the_document_and_the_routes_are_the_same() {
    let document = document();
    let world = World::new().await;
    let mut methods = std::collections::BTreeMap::<&str, Vec<&str>>::new();
    for (path, method, _) in operations(&document) {
        methods.entry(path).or_default().push(method);
    }
    assert!(methods.len() > 60);
    for (path, documented) in methods {
        let filled = path.strip_prefix("/api/v1").unwrap().replace(['{', '}'], "");
        for method in ["get", "post", "put", "patch", "delete"] {
            let call = Call::new(method.to_uppercase().parse().unwrap(), &filled).anonymous().body("{}");
            let answer = world.call(call).await;
            let wanted = documented.contains(&method);
            assert_eq!(answer.status != 405, wanted, "{method} {path}: {answer}");
            assert!(!answer.body.contains("route /"), "{method} {path}: {answer}");
        }
    }
}

#[test]
fn every_operation_and_field_has_a_description_and_an_example() {
    let document = document();
    assert_eq!(document["openapi"].as_str().unwrap().rsplit_once('.').unwrap().0, "3.1");
    assert_eq!(document["servers"][0]["url"], "/");
    let mut missing = Vec::new();
    let mut expect = |place: String, value: &Value, members: &[&str]| {
        for member in members.iter().filter(|member| value.get(**member).is_none_or(|text| text == "")) {
            missing.push(format!("{place} has no {member}"));
        }
    };
    let mut ids = std::collections::BTreeSet::new();
    for (path, method, operation) in operations(&document) {
        let place = format!("{method} {path}");
        expect(place.clone(), operation, &["summary", "operationId", "tags", "responses"]);
        assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{place} has the id of another operation");
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            expect(format!("{place}: {}", parameter["name"]), parameter, &["description", "example"]);
        }
        let bodies = operation["responses"].as_object().unwrap().iter();
        for (status, response) in bodies {
            let response = resolved(&document, response);
            expect(format!("{place}: {status}"), response, &["description"]);
            if let Some(content) = response.pointer("/content/application~1json") {
                expect(format!("{place}: {status}"), content, &["schema", "example"]);
            }
        }
        if let Some(body) = operation.get("requestBody") {
            expect(format!("{place}: body"), &body["content"]["application/json"], &["schema", "example"]);
        }
        let is_open = operation.get("security").is_some();
        for failure in ["400", "401", "404", "422", "500", "503"].iter().filter(|_| !is_open) {
            assert!(operation["responses"].get(*failure).is_some(), "{place} has no {failure}");
        }
    }
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        expect(name.clone(), schema, &["description"]);
        fields(schema, &mut |field, value| expect(format!("{name}.{field}"), value, &["description", "example"]));
    }
    assert!(missing.is_empty(), "document these at their fields:\n{}", missing.join("\n"));
}

/// Calls `visit` for every field of a schema and of its parts.
fn fields(schema: &Value, visit: &mut dyn FnMut(&str, &Value)) {
    for (field, value) in schema["properties"].as_object().into_iter().flatten() {
        visit(field, value);
        fields(value, visit);
    }
    for parts in ["allOf", "oneOf", "anyOf"] {
        schema[parts].as_array().into_iter().flatten().for_each(|part| fields(part, visit));
    }
}

#[test]
fn every_example_matches_its_schema() {
    let document = document();
    // Prepared once, because there are more than a thousand examples.
    let components = serde_json::json!({ "components": document["components"] });
    let registry = jsonschema::Registry::new().add("urn:components", &components).unwrap().prepare().unwrap();
    let check = |place: String, schema: &Value, example: &Value| {
        let schema = schema.to_string().replace("\"#/components/", "\"urn:components#/components/");
        let schema: Value = serde_json::from_str(&schema).unwrap();
        let options = jsonschema::draft202012::options().should_validate_formats(true).with_registry(&registry);
        let validator = options.build(&schema).unwrap();
        let errors = validator.iter_errors(example).map(|error| error.to_string()).collect::<Vec<_>>();
        assert!(errors.is_empty(), "{place}: {example}: {}", errors.join("; "));
    };
    let mut seen = 0;
    for (path, method, operation) in operations(&document) {
        let place = format!("{method} {path}");
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            check(format!("{place}: {}", parameter["name"]), &parameter["schema"], &parameter["example"]);
        }
        let responses = operation["responses"].as_object().unwrap().iter();
        let bodies = responses.map(|(status, response)| (&**status, resolved(&document, response)));
        for (name, body) in bodies.chain(operation.get("requestBody").map(|body| ("body", body))) {
            if let Some(content) = body.pointer("/content/application~1json") {
                check(format!("{place}: {name}"), &content["schema"], &content["example"]);
                seen += 1;
            }
        }
    }
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        fields(schema, &mut |field, value| check(format!("{name}.{field}"), value, &value["example"]));
    }
    assert!(seen > 500, "{seen}");
}

#[tokio::test]
async fn the_pages_load_nothing_from_elsewhere() {
    let world = World::new().await;
    for (path, kind) in [
        ("/!/docs", "text/html"),
        ("/!/docs/", "text/html"),
        ("/!/docs/viewer.css", "text/css"),
        ("/!/docs/viewer.js", "text/javascript"),
    ] {
        let file = world.call(Call::new(Method::GET, path).anonymous()).await;
        assert_eq!(file.status, 200, "{path}");
        assert!(file.headers["content-type"].to_str().unwrap().starts_with(kind), "{path}");
        let policy = file.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(file.headers["x-content-type-options"], "nosniff");
        assert!(!file.body.contains("http://") && !file.body.contains("https://"), "{path} names another server");
        assert!(!file.body.contains("innerHTML") && !file.body.contains(" style="), "{path}");
    }
}

#[tokio::test]
async fn health_and_readiness_need_no_key() {
    let world = World::new().await;
    let call = async |method: Method, path: &str| world.call(Call::new(method, path).anonymous()).await;
    insta::assert_snapshot!(call(Method::GET, "/health").await, @"204");
    insta::assert_snapshot!(call(Method::HEAD, "/health/").await, @"204");
    insta::assert_snapshot!(call(Method::GET, "/health/ping").await, @"204");
    insta::assert_snapshot!(call(Method::GET, "/health/ready").await, @r#"200 {"ready":true,"version":"1.2.3","role":"all","egress":"open"}"#);
    world.node.leave();
    insta::assert_snapshot!(call(Method::GET, "/health/ready").await, @r#"503 {"ready":false,"version":"1.2.3","role":"all","egress":"open","reason":"stopping: the node closes its listener soon"}"#);
}

#[tokio::test]
async fn the_documentation_shows_the_document() {
    let world = World::new().await;
    let page = world.call(Call::new(Method::GET, "/!/docs").anonymous()).await;
    assert!(page.body.contains("/api/v1/openapi.json"));
}

#[tokio::test]
async fn pages_may_call_the_routes_of_application_tokens_and_no_others() {
    let world = World::new().await;
    let preflight = |method: &str, path: &str| {
        Call::new(Method::OPTIONS, path)
            .anonymous()
            .header("origin", "https://example.com")
            .header("access-control-request-method", method)
            .header("access-control-request-headers", "authorization,idempotency-key")
    };
    let answer = world.call(preflight("POST", "/app/acme/endpoint")).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.headers["access-control-allow-origin"], "https://example.com");
    assert_eq!(answer.headers["access-control-allow-headers"], "authorization,idempotency-key");
    assert_eq!(answer.headers["access-control-max-age"], "600");
    assert!(!answer.headers.contains_key("access-control-allow-credentials"));
    for (method, path) in [("POST", "/app"), ("DELETE", "/app/acme"), ("GET", "/job"), ("POST", "/app/acme/msg")] {
        let answer = world.call(preflight(method, path)).await;
        assert!(!answer.headers.contains_key("access-control-allow-origin"), "{method} {path}");
    }
    let from_page = |path: &str| Call::new(Method::GET, path).header("origin", "https://example.com");
    let answer = world.call(from_page("/event-type")).await;
    assert_eq!(answer.headers["access-control-allow-origin"], "https://example.com");
    let answer = world.call(from_page("/app/none")).await;
    assert_eq!(answer.status, 404);
    assert_eq!(answer.headers["access-control-allow-origin"], "https://example.com", "failures too");
    assert!(!world.call(from_page("/app")).await.headers.contains_key("access-control-allow-origin"));
}
