//! Invalid input gets the documented 4xx: never a 500 or a panic, and the server keeps running.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use everhook_testkit::http::Reply;
use serde_json::{Value, json};

use crate::binary::client::{Application, Client};
use crate::binary::scene::Scene;
use crate::binary::server::{Backend, Server, on_both_stores};

on_both_stores! {
    bad_bodies_are_refused,
    bad_jobs_are_refused,
    bad_endpoints_are_refused,
    bad_queries_are_refused,
    unknown_ids_and_routes_are_not_found,
    requests_without_a_valid_key_are_refused,
    a_body_that_is_too_large_is_refused,
    broken_requests_do_not_harm_the_server,
}

/// Asserts the status and the shape of an error reply.
#[track_caller]
fn check(reply: &Reply, status: u16, what: &str) {
    assert_eq!(reply.status, status, "{what:.200}: {}", String::from_utf8_lossy(&reply.body));
    let body = reply.json();
    if status == 422 {
        let first = &body["detail"][0];
        let is_shaped = first["loc"].is_array() && first["msg"].is_string() && first["type"].is_string();
        assert!(is_shaped && body.get("code").is_none(), "{what:.200}: {body}");
    } else {
        assert!(body["code"].is_string() && body["detail"].is_string(), "{what:.200}: {body}");
    }
}

/// Runs a test with a server, application and endpoint, then checks that a message still arrives.
fn with_server(backend: &Arc<Backend>, test: impl FnOnce(&Server, &Application)) {
    let Scene { server, receiver, application, endpoint } = Scene::start(backend, &[("EGRESS_ALLOW", "127.0.0.1/32")]);
    test(&server, &application);
    let message = application.send(&json!({ "still": "alive" }));
    application.wait_for(&message, &endpoint, "success");
    assert_eq!(receiver.count(), 1, "nothing that was refused was sent");
    let log = server.log();
    assert!(!log.contains("panicked"), "{log}");
}

/// Bodies of applications that are refused.
const APPLICATIONS: [&[u8]; 9] = [
    b"{}",
    br#"{"name":""}"#,
    br#"{"name":1}"#,
    br#"{"name":"a\u0000b"}"#,
    br#"{"name":"a","uid":"app_1"}"#,
    br#"{"name":"a","uid":"a b"}"#,
    br#"{"name":"a","metadata":{"a":1}}"#,
    br#"{"name":"a","throttleRate":0}"#,
    br#"{"name":"a","throttleRate":70000}"#,
];

fn bad_bodies_are_refused(backend: Arc<Backend>) {
    with_server(&backend, |server, application| {
        let client = server.client();
        let messages = application.path("/msg");
        let deep = format!(r#"{{"eventType":"a","payload":{{"a":{}{}}}}}"#, "[".repeat(50_000), "]".repeat(50_000));
        let unclosed = format!(r#"{{"eventType":"a","payload":{}"#, "{\"a\":".repeat(100_000));
        let long = "x".repeat(257);
        let bad: Vec<Vec<u8>> = vec![
            b"".to_vec(),
            b"{".to_vec(),
            b"nonsense".to_vec(),
            b"null".to_vec(),
            b"[]".to_vec(),
            b"\"text\"".to_vec(),
            b"\0\0\0\0".to_vec(),
            b"{\"eventType\":\"a\",\"payload\":{}}\0".to_vec(),
            b"{\"eventType\":\"a\",\"payload\":{\"a\":\"\0\"}}".to_vec(),
            b"{\"eventType\":\"\xff\xfe\",\"payload\":{}}".to_vec(),
            b"{\"eventType\":\"a\",\"payload\":{\"a\":\"\xc3\x28\"}}".to_vec(),
            br#"{"payload":{}}"#.to_vec(),
            br#"{"eventType":"a"}"#.to_vec(),
            br#"{"eventType":1,"payload":{}}"#.to_vec(),
            br#"{"eventType":null,"payload":{}}"#.to_vec(),
            br#"{"eventType":"","payload":{}}"#.to_vec(),
            br#"{"eventType":"a b","payload":{}}"#.to_vec(),
            br#"{"eventType":"a/b","payload":{}}"#.to_vec(),
            br#"{"eventType":"a\u0000b","payload":{}}"#.to_vec(),
            "{\"eventType\":\"\u{e4}\",\"payload\":{}}".as_bytes().to_vec(),
            format!(r#"{{"eventType":"{long}","payload":{{}}}}"#).into_bytes(),
            br#"{"eventType":"a","payload":[]}"#.to_vec(),
            br#"{"eventType":"a","payload":"text"}"#.to_vec(),
            br#"{"eventType":"a","payload":1}"#.to_vec(),
            br#"{"eventType":"a","payload":null}"#.to_vec(),
            br#"{"eventType":"a","payload":{},}"#.to_vec(),
            br#"{"eventType":"a","payload":{},"eventId":1}"#.to_vec(),
            br#"{"eventType":"a","payload":{},"eventId":""}"#.to_vec(),
            br#"{"eventType":"a","payload":{},"eventId":"msg_like"}"#.to_vec(),
            br#"{"eventType":"a","payload":{},"eventId":"a\u0000"}"#.to_vec(),
            format!(r#"{{"eventType":"a","payload":{{}},"eventId":"{long}"}}"#).into_bytes(),
            br#"{"eventType":"a","payload":{},"channels":[]}"#.to_vec(),
            br#"{"eventType":"a","payload":{},"channels":"a"}"#.to_vec(),
            br#"{"eventType":"a","payload":{},"channels":["a b"]}"#.to_vec(),
            br#"{"eventType":"a","payload":{},"channels":[null]}"#.to_vec(),
            br#"{"eventType":"a","payload":{},"channels":["1","2","3","4","5","6","7","8","9","10","11"]}"#.to_vec(),
            br#"{"eventType":"a","payload":{},"tags":[1]}"#.to_vec(),
            br#"{"eventType":"a","payload":{},"payloadRetentionPeriod":-1}"#.to_vec(),
            br#"{"eventType":"a","payload":{},"payloadRetentionPeriod":1}"#.to_vec(),
            deep.into_bytes(),
            unclosed.into_bytes(),
        ];
        for body in bad {
            let reply = client.send("POST", &messages, &[], &body).unwrap();
            check(&reply, 422, &String::from_utf8_lossy(&body));
        }
        for body in APPLICATIONS {
            let reply = client.send("POST", "/app", &[], body).unwrap();
            check(&reply, 422, &String::from_utf8_lossy(body));
        }
        assert_eq!(client.list(&messages).len(), 0);
        assert_eq!(client.list("/app").len(), 1);
    });
}

/// Texts that PostgreSQL cannot hold, and numbers that no column can hold.
fn bad_jobs_are_refused(backend: Arc<Backend>) {
    with_server(&backend, |server, application| {
        let client = server.client();
        let job = |more: &str| format!(r#"{{"queue": "q", "kind": "k", {more}}}"#);
        let id = client.post("/job", &json!({ "queue": "q", "kind": "k", "delaySeconds": 600 })).expect(202);
        let id = id["id"].as_str().unwrap();
        for (method, path, body) in [
            ("POST", "/job", job(r#""name": "\u0000""#)),
            ("POST", "/job", job(r#""uniqueKey": "\u0000""#)),
            ("POST", "/job", job(r#""concurrencyKey": "\u0000""#)),
            ("POST", "/job", job(r#""metadata": {"\u0000": ""}"#)),
            ("POST", "/job", job(r#""tags": ["\u0000"]"#)),
            ("POST", "/job", job(r#""timeoutSeconds": 18446744073709551615"#)),
            ("POST", "/job", job(r#""uniqueKey": "k", "uniqueSeconds": 18446744073709551615"#)),
            ("POST", "/job", job(r#""runAt": "9999-12-31T23:59:59Z""#)),
            ("POST", "/job/bulk", format!(r#"{{"jobs": [{}]}}"#, job(r#""priority": 99999"#))),
            ("POST", "/job/redrive", r#"{"error": "\u0000"}"#.to_owned()),
            ("PATCH", &format!("/job/{id}"), r#"{"delaySeconds": 1e300}"#.to_owned()),
            ("POST", "/worker", r#"{"name": "\u0000", "queues": ["q"]}"#.to_owned()),
            ("PATCH", "/queue/q", r#"{"limit": 4294967295}"#.to_owned()),
            ("PATCH", "/queue/q", r#"{"ratePerSecond": 1e-300}"#.to_owned()),
            ("PATCH", "/queue/q", r#"{"targetUrl": "http://10.0.0.1/"}"#.to_owned()),
            ("POST", "/batch", format!(r#"{{"name": "\u0000", "application": "{}", "prefix": "p"}}"#, application.id)),
            (
                "POST",
                "/schedule",
                r#"{"name": "s", "cron": "* * * * * * *", "job": {"queue": "q", "kind": "k"}}"#.to_owned(),
            ),
        ] {
            check(&client.send(method, path, &[], body.as_bytes()).unwrap(), 422, &body);
        }
        check(&client.get("/job?error=%00"), 422, "a filter");
        // Characters that cannot be stored are removed from workers' texts: the job has ended all the same.
        let worker = client.post("/worker", &json!({ "name": "w", "queues": ["q"] })).expect(201);
        client.post("/job", &json!({ "queue": "q", "kind": "k", "payload": "\0" })).expect(202);
        let lease = format!("/worker/{}/lease", worker["id"].as_str().unwrap());
        let job = &client.post(&lease, &json!({ "waitSeconds": 15 })).expect(200)["data"][0];
        assert_eq!(job["payload"], "\0");
        let said = json!({ "workerId": worker["id"], "epoch": job["epoch"], "percent": 1, "text": "a\0b" });
        client.post(&format!("/job/{}/progress", job["id"].as_str().unwrap()), &said).expect(200);
        let said = json!({ "workerId": worker["id"], "epoch": job["epoch"], "result": "\0", "log": ["a\0b"] });
        client.post(&format!("/job/{}/complete", job["id"].as_str().unwrap()), &said).expect(200);
        let shown = client.get(&format!("/job/{}", job["id"].as_str().unwrap())).expect(200);
        assert_eq!((&shown["result"], &shown["attempts"][0]["log"]), (&json!("\0"), &json!(["ab"])));
    });
}

fn bad_endpoints_are_refused(backend: Arc<Backend>) {
    with_server(&backend, |server, application| {
        let client = server.client();
        let long = format!("https://example.com/{}", "a".repeat(5000));
        let urls = [
            "",
            "nonsense",
            "/path",
            "example.com/hook",
            "ftp://example.com",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "http://",
            "https://user:password@example.com/",
            "https://exa mple.com/",
            "https://example.com:99999/",
            "https://[::1",
            "http://10.0.0.1/",
            "http://192.168.1.1/",
            "http://172.16.0.1:8080/",
            "http://169.254.169.254/latest/meta-data/",
            "http://127.0.0.2/",
            "http://0.0.0.0/",
            "http://[::1]/",
            "http://[fe80::1]/",
            "http://[fd00::1]/",
            "http://[::ffff:10.0.0.1]/",
            "http://2130706434/",
            "http://0x7f000002/",
            "http://0177.0.0.2/",
            "http://example.com/\0",
            &long,
        ];
        for url in urls {
            let reply = client.post(&application.path("/endpoint"), &json!({ "url": url }));
            check(&reply, 422, url);
            assert_eq!(reply.json()["detail"][0]["loc"], json!(["body", "url"]), "{url}");
        }
        let url = "https://example.com/";
        let bad = [
            json!({}),
            json!({ "url": 1 }),
            json!({ "url": url, "disabled": "yes" }),
            json!({ "url": url, "eventTypes": ["unknown.type"] }),
            json!({ "url": url, "eventTypes": ["a b"] }),
            json!({ "url": url, "eventTypes": "a" }),
            json!({ "url": url, "channels": [] }),
            json!({ "url": url, "channels": ["a b"] }),
            json!({ "url": url, "secret": "nonsense" }),
            json!({ "url": url, "secret": "whsec_" }),
            json!({ "url": url, "secret": "whsec_c2hvcnQ=" }),
            json!({ "url": url, "secret": "whsec_***" }),
            json!({ "url": url, "uid": "ep_1" }),
            json!({ "url": url, "uid": "a/b" }),
            json!({ "url": url, "throttleRate": 0 }),
            json!({ "url": url, "metadata": { "a": "x".repeat(5000) } }),
            json!({ "url": url, "description": "a\u{0}b" }),
            json!({ "url": url, "headers": { "content-length": "1" } }),
            json!({ "url": url, "headers": { "svix-id": "1" } }),
            json!({ "url": url, "headers": { "a b": "1" } }),
            json!({ "url": url, "headers": { "x": "a\r\nb: c" } }),
        ];
        for body in bad {
            check(&client.post(&application.path("/endpoint"), &body), 422, &body.to_string());
        }
        assert_eq!(client.list(&application.path("/endpoint")).len(), 1);
    });
}

fn bad_queries_are_refused(backend: Arc<Backend>) {
    with_server(&backend, |server, application| {
        let client = server.client();
        for query in [
            "limit=0",
            "limit=251",
            "limit=-1",
            "limit=many",
            "iterator=nonsense",
            "iterator=app_%00",
            "before=yesterday",
            "after=2020-99-99T00:00:00Z",
            "with_content=perhaps",
            "channel=a%20b",
            "event_types=a%00b",
        ] {
            let path = application.path(&format!("/msg?{query}"));
            let status = client.get(&path).status;
            assert!(status == 422 || status == 400, "{query}: {status}");
            check(&client.get(&path), status, query);
        }
        client.get(&application.path("/msg?unknown=1")).expect(200);
    });
}

fn unknown_ids_and_routes_are_not_found(backend: Arc<Backend>) {
    with_server(&backend, |server, application| {
        let client = server.client();
        let id = "1srOrx2ZWZBpBUvZwXKQmoEYga2";
        for path in [
            "/app/unknown".to_owned(),
            format!("/app/app_{id}"),
            format!("/app/app_{id}/msg"),
            "/app/app_short".to_owned(),
            "/app/%00".to_owned(),
            "/app/%ff%fe".to_owned(),
            format!("/app/{}", "x".repeat(300)),
            "/app/..%2f..%2fetc".to_owned(),
            application.path("/endpoint/unknown"),
            application.path(&format!("/endpoint/ep_{id}")),
            application.path(&format!("/endpoint/ep_{id}/secret")),
            application.path("/msg/unknown"),
            application.path(&format!("/msg/msg_{id}")),
            application.path(&format!("/msg/msg_{id}/endpoint")),
            application.path(&format!("/attempt/msg/msg_{id}")),
            application.path(&format!("/attempt/endpoint/ep_{id}")),
            "/event-type/unknown".to_owned(),
            "/nonsense".to_owned(),
            "/".to_owned(),
        ] {
            check(&client.get(&path), 404, &path);
        }
        check(&client.post("/app/unknown/msg", &json!({ "eventType": "a", "payload": {} })), 404, "no application");
        check(&client.post("/app/unknown/endpoint", &json!({ "url": "https://example.com" })), 404, "no application");
        check(&client.delete(&application.path("/endpoint/unknown")), 404, "no endpoint");
        check(&client.patch("/app/unknown", &json!({})), 404, "no application");
        check(&client.delete("/app"), 405, "no such method");
        check(&client.send_to("GET", "/favicon.ico", &[], b"").unwrap(), 404, "no such file");
    });
}

fn requests_without_a_valid_key_are_refused(backend: Arc<Backend>) {
    with_server(&backend, |server, _| {
        let mut wrong = server.key().to_owned();
        let last = if wrong.pop() == Some('0') { '1' } else { '0' };
        wrong.push(last);
        let keys = ["", "nonsense", "ehk_", &wrong, "eyJhbGciOiJub25lIn0.e30.", "\u{e4}"];
        for key in keys {
            check(&server.client_with(key).get("/app"), 401, key);
        }
        let open = server.client_with("");
        assert_eq!(open.get("/health").status, 204);
        assert_eq!(open.get("/openapi.json").expect(200)["openapi"].as_str().map(|version| &version[..2]), Some("3."));
        for headers in [[("authorization", "Basic abc")], [("authorization", "Bearer")], [("authorization", "")]] {
            check(&open.send("GET", "/app", &headers, b"").unwrap(), 401, headers[0].1);
        }
    });
}

fn a_body_that_is_too_large_is_refused(backend: Arc<Backend>) {
    with_server(&backend, |server, application| {
        let client = server.client();
        let path = application.path("/msg");
        for size in [1024 * 1024, 10 * 1024 * 1024] {
            let body = format!(r#"{{"eventType":"a","payload":{{"a":"{}"}}}}"#, "x".repeat(size));
            let reply = client.send("POST", &path, &[], body.as_bytes()).unwrap();
            check(&reply, 413, &format!("{size} bytes"));
            assert_eq!(reply.json()["code"], "payload_too_large");
        }
        assert_eq!(client.list(&path).len(), 0);
    });
}

/// Requests that no client library sends. The server may close the connection or reply with 4xx.
fn broken_requests_do_not_harm_the_server(backend: Arc<Backend>) {
    with_server(&backend, |server, _| {
        let address = server.url().replace("http://", "");
        let long_header = format!("GET /api/v1/app HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(1024 * 1024));
        let many_headers = format!("GET /api/v1/app HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(10_000));
        let requests: [&[u8]; 11] = [
            b"",
            b"\0\0\0\0",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"nonsense\r\n\r\n",
            b"GET\r\n\r\n",
            b"GET /api/v1/app HTTP/9.9\r\n\r\n",
            b"POST /api/v1/app HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n",
            b"POST /api/v1/app HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
            b"POST /api/v1/app HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
            long_header.as_bytes(),
            many_headers.as_bytes(),
        ];
        for request in requests {
            let mut connection = TcpStream::connect(&address).unwrap();
            // The server may close the connection before it has read everything.
            let _ = connection.write_all(request);
            let _ = connection.shutdown(std::net::Shutdown::Write);
            let mut reply = Vec::new();
            let _ = connection.read_to_end(&mut reply);
            let reply = String::from_utf8_lossy(&reply);
            assert!(reply.is_empty() || reply.starts_with("HTTP/1.1 4"), "{reply}");
        }
        half_a_request(&address, &server.client());
    });
}

/// A client that starts a body and disconnects.
fn half_a_request(address: &str, client: &Client) {
    let mut connection = TcpStream::connect(address).unwrap();
    connection.write_all(b"POST /api/v1/app HTTP/1.1\r\nhost: a\r\ncontent-length: 1000\r\n\r\n{\"name\":").unwrap();
    drop(connection);
    assert_eq!(client.get("/app").expect(200)["data"].as_array().map(Vec::len), Some(1), "{}", Value::Null);
}
