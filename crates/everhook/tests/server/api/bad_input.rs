//! Bad requests: the answer is a 4xx with the JSON shape: never a 500, never a panic.

use http::Method;
use serde_json::json;

use crate::api::world::{Answer, Call, World};

#[track_caller]
fn assert_refused(answer: &Answer, what: &str) {
    assert!(answer.status.is_client_error(), "{what}: {answer}");
    assert!(!answer.json()["detail"].is_null(), "{what}: {answer}");
}

/// Checks that no query of this list, separated by spaces, is answered with a server error.
async fn check_queries(world: &World, path: &str, queries: &str) {
    for query in queries.split(' ') {
        let answer = world.get(&format!("{path}?{query}")).await;
        assert!(!answer.status.is_server_error(), "{query}: {answer}");
    }
}

fn corpus() -> Vec<Vec<u8>> {
    let mut corpus: Vec<Vec<u8>> = [
        "",
        " ",
        "{",
        "}",
        "[]",
        "null",
        "true",
        "0",
        "\"text\"",
        "{]",
        "{\"a\":}",
        "{} {}",
        "\u{feff}{}",
        "NaN",
        "{\"name\": 1}",
        "{\"name\": null}",
        "{\"name\": [\"a\"]}",
        "{\"eventType\": {}, \"payload\": {}}",
        "{\"eventType\": \"a\", \"payload\": \"{}\"}",
        "{\"eventType\": \"a\", \"payload\": {}, \"payload\": {}}",
        "{\"eventType\": \"a\\u0000\", \"payload\": {}}",
        "{\"eventType\": \"\", \"payload\": {}}",
        "{\"name\": \"\\ud800\"}",
        "{\"name\": \"a\\u0000\", \"url\": \"http://a\\u0000.example\"}",
        "{\"url\": \"https://example.com\", \"version\": 99999999999999999999}",
        "{\"url\": \"http://[::1\"}",
        "{\"url\": \"https://example.com\", \"metadata\": {\"a\": {}}}",
        "{\"headers\": {\"a\\r\\nb\": \"c\"}}",
        "{\"eventType\": \"a\", \"payload\": {}, \"transformationsParams\": []}",
        "{\"gracePeriodSeconds\": -1}",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect();
    corpus.push(b"{\"name\": \"\xff\xfe\"}".to_vec());
    corpus.push(b"{\"eventType\": \"a\", \"payload\": {\"a\": \"\xff\"}}".to_vec());
    corpus.push(vec![0; 64]);
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nested = format!("{}1{}", open.repeat(50_000), close.repeat(50_000));
        corpus.push(nested.clone().into_bytes());
        corpus.push(format!(r#"{{"eventType": "a", "payload": {{"a": {nested}}}}}"#).into_bytes());
        corpus.push(
            format!(r#"{{"name": "a", "uid": 1, "url": 1, "description": "", "schemas": {nested}}}"#).into_bytes(),
        );
        corpus.push(format!(r#"{{"name": "a", "metadata": {nested}, "url": 1}}"#).into_bytes());
    }
    corpus
}

#[tokio::test]
async fn bad_bodies_are_refused_everywhere() {
    let world = World::with_endpoint().await;
    world.post("/event-type", r#"{"name": "taken", "description": ""}"#).await;
    let routes = [
        (Method::POST, "/app"),
        (Method::PUT, "/app/acme"),
        (Method::POST, "/app/acme/msg"),
        (Method::POST, "/app/acme/endpoint"),
        (Method::PUT, "/app/acme/endpoint/main"),
        (Method::PUT, "/app/acme/endpoint/main/headers"),
        (Method::POST, "/event-type"),
        (Method::PUT, "/event-type/taken"),
    ];
    for (method, path) in routes {
        for body in corpus() {
            let what = format!("{method} {path} {:.80}", String::from_utf8_lossy(&body));
            assert_refused(&world.call(Call::new(method.clone(), path).body(body)).await, &what);
        }
    }
    for path in ["/app/acme", "/app/acme/endpoint/main", "/app/acme/endpoint/main/headers", "/event-type/taken"] {
        for body in corpus() {
            let answer = world.call(Call::new(Method::PATCH, path).body(body)).await;
            assert!(!answer.status.is_server_error(), "PATCH {path}: {answer}");
        }
    }
}

#[tokio::test]
async fn bad_bodies_are_refused_by_every_route_of_jobs() {
    let world = World::with_application().await;
    let (job, worker) = (world.job(json!({})).await, world.worker(json!({})).await);
    let batch = world.post("/batch", r#"{"name": "b", "application": "acme", "prefix": "p"}"#).await.created();
    let schedule = json!({ "name": "s", "everySeconds": 60, "job": { "queue": "q", "kind": "k" } });
    world.post("/schedule", &schedule.to_string()).await.created();
    let mut bodies = corpus();
    bodies.extend(
        [
            json!({ "queue": "q", "kind": "k", "payload": {}, "name": "\0" }),
            json!({ "queue": "q", "kind": "k", "concurrencyKey": "\0" }),
            json!({ "queue": "q", "kind": "k", "uniqueKey": "\0" }),
            json!({ "queue": "q", "kind": "k", "metadata": { "a": "\0" } }),
            json!({ "queue": "q", "kind": "k", "runAt": "+999999-01-01T00:00:00Z" }),
            json!({ "queue": "q", "kind": "k", "delaySeconds": -0.1 }),
            json!({ "queue": "q", "kind": "k", "timeoutSeconds": u64::MAX }),
            json!({ "queue": "q", "kind": "k", "backoff": [u64::MAX] }),
            json!({ "queue": "q", "kind": "k", "backoff": { "baseSeconds": u64::MAX, "capSeconds": u64::MAX } }),
            json!({ "jobs": [{ "queue": "q", "kind": "k", "uniqueKey": "k", "uniqueSeconds": u64::MAX }] }),
            json!({ "workerId": worker, "epoch": u64::MAX, "seconds": 1e300, "percent": -1 }),
            json!({ "name": "\0", "queues": ["q"] }),
            json!({ "name": "x", "cron": "* * * * *", "jitterSeconds": u64::MAX, "job": { "queue": "q", "kind": "k" } }),
            json!({ "name": "x", "everySeconds": u64::MAX, "job": { "queue": "q", "kind": "k" } }),
        ]
        .map(|body| body.to_string().into_bytes()),
    );
    let posts = ["/job", "/job/bulk", "/worker", "/batch", "/schedule"].map(str::to_owned);
    let said = ["complete", "fail", "snooze", "progress"].map(|what| format!("/job/{job}/{what}"));
    let others = [format!("/batch/{batch}/job"), format!("/batch/{batch}/retry"), format!("/batch/{batch}/skip")];
    for path in posts.iter().chain(&said).chain(&others) {
        for body in &bodies {
            let what = format!("{path} {:.80}", String::from_utf8_lossy(body));
            assert_refused(&world.call(Call::new(Method::POST, path).body(body.clone())).await, &what);
        }
    }
    // These read every field only if it is there.
    let lenient = [
        (Method::PATCH, "/queue/q".to_owned()),
        (Method::PATCH, "/schedule/s".to_owned()),
        (Method::PATCH, format!("/job/{job}")),
        (Method::POST, "/job/redrive".to_owned()),
        (Method::POST, format!("/worker/{worker}/lease")),
        (Method::POST, format!("/worker/{worker}/heartbeat")),
    ];
    for (method, path) in lenient {
        for body in &bodies {
            let answer = world.call(Call::new(method.clone(), &path).body(body.clone())).await;
            assert!(!answer.status.is_server_error(), "{method} {path}: {answer}");
        }
    }
    let times = "before=-009999-01-01T00:00:00Z after=9999-12-31T00:00:00Z";
    check_queries(&world, "/job", &format!("error=%00 error= queue=%00 iterator=- {times}")).await;
}

#[tokio::test]
async fn a_list_is_never_taken_for_an_object() {
    let world = World::with_endpoint().await;
    world.post("/event-type", r#"{"name": "a", "description": ""}"#).await;
    let nulls = serde_json::to_string(&vec![(); 20]).unwrap();
    let named = r#"["x", null, null, null, null, null, null, null, null, null, null, null]"#;
    for path in ["/app/acme", "/app/acme/endpoint/main", "/event-type/a", "/app/acme/endpoint/main/headers", "/queue/q"]
    {
        for body in ["[]", r#"["x"]"#, &nulls, named] {
            let answer = world.patch(path, body).await;
            assert_eq!(answer.status, 422, "{path} {body}: {answer}");
        }
    }
    insta::assert_snapshot!(world.patch("/app/acme", "[]").await, @r#"422 {"detail":[{"loc":["body"],"msg":"invalid type: sequence, expected a JSON object at line 1 column 0","type":"value_error.jsondecode"}]}"#);
    for part in
        [r#""once": ["k", 1]"#, r#""application": ["x", "acme", 1, 1, {}]"#, r#""transformationsParams": ["x"]"#]
    {
        let body = format!(r#"{{"eventType": "a", "payload": {{}}, {part}}}"#);
        let answer = world.post("/app/acme/msg", &body).await;
        assert_eq!(answer.status, 422, "{part}: {answer}");
    }
    let job = json!(["q", "k", {}, null, null, null, null, null, null, null, null, null, null, null, null, null]);
    let bulk = world.post("/job/bulk", &json!({ "jobs": [job] }).to_string()).await;
    assert_eq!(bulk.status, 422, "{bulk}");
}

#[tokio::test]
async fn times_at_the_ends_of_the_calendar_are_read_or_refused() {
    let world = World::new().await;
    for (name, at) in [("a", "-009999-01-02T00:00:00Z"), ("b", "9999-12-30T00:00:00Z")] {
        for cadence in [json!({ "everySeconds": 60 }), json!({ "cron": "0 0 29 2 *" })] {
            let schedule = json!({ "name": name, "startsAt": at, "job": { "queue": "q", "kind": "k" } });
            let answer = world.post("/schedule", &crate::api::jobs::with(schedule, cadence).to_string()).await;
            assert!(!answer.status.is_server_error(), "{at}: {answer}");
            world.delete(&format!("/schedule/{name}")).await;
        }
        let job = json!({ "queue": "q", "kind": "k", "runAt": at });
        assert!(!world.enqueue(&job).await.status.is_server_error(), "{at}");
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_is_told_so() {
    let world = World::with_application().await;
    let body = |bytes: usize| format!(r#"{{"eventType": "a", "payload": {{"a": "{}"}}}}"#, "x".repeat(bytes));
    insta::assert_snapshot!(world.post("/app/acme/msg", &body(10 * 1024 * 1024)).await, @r#"413 {"code":"payload_too_large","detail":"Request payload is too large."}"#);
    assert_eq!(world.post("/app/acme/msg", &body(1024 * 1024 - 100)).await.status, 202);
}

#[tokio::test]
async fn nesting_is_bounded() {
    let world = World::with_application().await;
    let nested = |levels: usize| {
        format!(r#"{{"eventType": "a", "payload": {{"a": {}{}}}}}"#, "[".repeat(levels), "]".repeat(levels))
    };
    assert_eq!(world.post("/app/acme/msg", &nested(127)).await.status, 202);
    insta::assert_snapshot!(world.post("/app/acme/msg", &nested(128)).await, @r#"422 {"detail":[{"loc":["body","payload"],"msg":"must not be nested deeper than 128 levels","type":"value_error"}]}"#);
}

#[tokio::test]
async fn paths_that_name_nothing_are_not_found() {
    let world = World::with_application().await;
    for path in ["/app/%00", "/app/%FF%FE", "/app/a%2Fb", "/app/%20", "/app/app_", "/app/app_zzz", "/app/ä"] {
        let path = path.replace('ä', "%C3%A4");
        assert_eq!(world.get(&path).await.code(), (404, "not_found".to_owned()), "{path}");
        assert_eq!(world.put(&path, r#"{"name": "a"}"#).await.code().0, 404, "{path}");
        assert_eq!(world.post(&format!("{path}/msg"), r#"{"eventType": "a", "payload": {}}"#).await.code().0, 404);
        assert_eq!(world.get(&format!("/app/acme/endpoint{}", &path[4..])).await.code().0, 404, "{path}");
        assert_eq!(world.get(&format!("/app/acme/msg{}", &path[4..])).await.code().0, 404, "{path}");
        assert_eq!(world.get(&format!("/event-type{}", &path[4..])).await.code().0, 404, "{path}");
    }
}

#[tokio::test]
async fn queries_of_any_kind_are_read_or_refused() {
    let world = World::with_application().await;
    let queries = "% %zz &&&= limit limit= a[b]c=1 event_types[=x before=9999999-01-01T00:00:00Z %00=%00";
    check_queries(&world, "/app/acme/msg", queries).await;
}

#[tokio::test]
async fn unknown_routes_and_methods_have_the_json_shape() {
    let world = World::new().await;
    insta::assert_snapshot!(world.get("/nothing").await, @r#"404 {"code":"not_found","detail":"route /api/v1/nothing not found"}"#);
    insta::assert_snapshot!(world.get("/!/nothing").await, @r#"404 {"code":"not_found","detail":"route /nothing not found"}"#);
    let answer = world.delete("/app").await;
    assert_eq!(answer.headers["allow"], "GET,HEAD,POST");
    insta::assert_snapshot!(answer, @r#"405 {"code":"method_not_allowed","detail":"The route does not take this method."}"#);
}
