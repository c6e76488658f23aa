//! Canaries in every secret, token, URL and payload: none of them reaches a log, a metric, a span, the audit log or the
//! text of an error.

use std::sync::Arc;

use everhook_core::chat::ChatKind;
use everhook_testkit::chat_room;
use everhook_testkit::receiver::{Answer, Receiver};
use serde_json::{Value, json};

use crate::binary::client::{Application, Client, Endpoint};
use crate::binary::server::{Backend, Server, on_both_stores};

on_both_stores! {
    no_canary_is_in_the_text_log_or_elsewhere,
    no_canary_is_in_the_json_log_or_elsewhere,
}

/// A signing key whose bytes are a canary, and the form of the same bytes in Basic and bearer headers.
const KEY: &str = "whsec_Y2FuYXJ5LWtleS1jYW5hcnkta2V5LWNhbmFyeS0=";
const FORMS: [&str; 4] = ["canary", "CANARY", "Y2FuYXJ5", "Y2FuYXJ5LWtleS1jYW5hcnkta2V5LWNhbmFyeS0="];

fn no_canary_is_in_the_text_log_or_elsewhere(backend: Arc<Backend>) {
    search(&backend, "text");
}

fn no_canary_is_in_the_json_log_or_elsewhere(backend: Arc<Backend>) {
    search(&backend, "json");
}

fn search(backend: &Arc<Backend>, format: &str) {
    let (collector, receiver) = (Receiver::start(), Receiver::start());
    let settings = [
        ("LOG_FORMAT", format),
        ("LOG_LEVEL", "trace"),
        ("RETRY_SCHEDULE", "0.05"),
        ("LISTEN_OPS", "127.0.0.1:0"),
        ("CHAT_HOSTS", "127.0.0.1"),
        ("JWT_SECRET", "canary-jwt-secret-canary-jwt-secret"),
        ("OTLP_URL", &*collector.url("")),
        ("TRACE_SHARE", "1"),
    ];
    let mut server = Server::start(backend, &settings);
    let application = server.client().application("Acme");
    let endpoints = plant(&application, &receiver);
    run_traffic(&application, &receiver, &endpoints);
    let errors = provoke(&server, &application);
    let audit = server.client().get("/audit?limit=250").expect(200).to_string();
    let metrics = server.ops().send_to("GET", "/metrics", &[], b"").unwrap().body;
    server.terminate();
    server.wait();
    let spans: Vec<u8> = collector.everything().into_iter().flat_map(|seen| seen.body).collect();
    assert!(!spans.is_empty() && audit.contains("endpoint"), "there is something to search");
    for (place, text) in [
        ("the log", server.log()),
        ("the metrics", String::from_utf8(metrics).unwrap()),
        ("the spans", String::from_utf8(spans).unwrap()),
        ("the audit log", audit),
        ("the errors", errors),
    ] {
        for form in FORMS {
            let found = text.lines().find(|line| line.contains(form));
            assert_eq!(found, None, "{form} is in {place}");
        }
    }
}

/// Creates endpoints of every kind, each with canaries in all of its secrets.
fn plant(application: &Application, receiver: &Receiver) -> Vec<Endpoint> {
    let client = &application.client;
    let url = |name: &str| receiver.url(&format!("/{name}/canary-path?token=canary-query"));
    let endpoint = |name: &str| {
        application.endpoint_with(json!({
            "url": url(name), "secret": KEY, "headers": { "x-credential": "canary-header" },
        }))
    };
    let (plain, basic, oauth) = (endpoint("plain"), endpoint("basic"), endpoint("oauth"));
    let at = |endpoint: &Endpoint, part: &str| application.path(&format!("/endpoint/{}/{part}", endpoint.id));
    let credentials = json!({ "username": "canary-user", "password": "canary-password" });
    client.put(&at(&basic, "basic-auth"), &credentials).expect(204);
    let grant = json!({
        "grantType": "clientCredentials", "authMethod": "clientSecretBasic", "clientId": "canary-client",
        "clientSecret": "canary-client-secret", "tokenUrl": url("token"),
    });
    client.put(&at(&oauth, "oauth"), &grant).expect(204);
    let slack = json!({ "kind": ChatKind::Slack, "url": receiver.url("/chat/canary-room") });
    let chat = application.endpoint_with(slack);
    let operational = json!({ "url": url("operational"), "secret": KEY });
    client.post("/operational-webhook/endpoint", &operational).expect(201);
    client.patch("/queue/mail", &json!({ "targetUrl": url("push") })).expect(200);
    vec![plain, basic, oauth, chat]
}

/// Sends messages and jobs that fail, die and succeed.
fn run_traffic(application: &Application, receiver: &Receiver, endpoints: &[Endpoint]) {
    let path = |name: &str| format!("/{name}/canary-path?token=canary-query");
    let payload = json!({ "text": "canary-payload" });
    let failed = || Answer::status(500).header("x-reply", "canary-reply-header").body("canary-reply");
    for name in ["plain", "basic", "oauth", "push", "operational"] {
        receiver.answer(&path(name), failed());
    }
    receiver.answer(&path("token"), Answer::status(403).body("canary-token-error"));
    receiver.answer("/chat/canary-room", chat_room::failed(ChatKind::Slack));
    let job = json!({ "queue": "mail", "kind": "welcome", "payload": payload, "maxAttempts": 1 });
    application.client.post("/job", &job).expect(202);
    let message = application.send(&payload);
    for endpoint in endpoints {
        application.wait_for(&message, endpoint, "fail");
    }
    receiver.wait_for(&path("push"), 1);
    let issued = json!({ "access_token": "canary-access-token", "token_type": "Bearer", "expires_in": 3600 });
    receiver.answer(&path("token"), Answer::status(200).body(issued.to_string()));
    for name in ["plain", "basic", "oauth", "push", "operational"] {
        receiver.answer(&path(name), Answer::status(200).body("canary-reply"));
    }
    receiver.answer("/chat/canary-room", chat_room::posted(ChatKind::Slack));
    let message = application.send(&payload);
    for endpoint in endpoints {
        application.wait_for(&message, endpoint, "success");
    }
    let sent = receiver.everything();
    let header =
        |name: &str, value: &str| sent.iter().any(|seen| seen.headers.iter().any(|(n, v)| n == name && v == value));
    assert!(header("x-credential", "canary-header") && header("authorization", "Bearer canary-access-token"));
}

/// Calls with bad credentials and bad bodies. Returns the bodies of all errors.
fn provoke(server: &Server, application: &Application) -> String {
    let client = server.client();
    let mut errors = String::new();
    let mut refuse = |client: &Client, method: &str, path: &str, body: &str| {
        let headers = [("content-type", "application/json")];
        let reply = client.send(method, path, &headers, body.as_bytes()).unwrap();
        assert!((400..500).contains(&reply.status), "{method} {path}: {}", reply.status);
        errors.push_str(&String::from_utf8_lossy(&reply.body));
        errors.push('\n');
    };
    for key in ["canary-key", "ehk_canary", "eyJhbGciOiJIUzI1NiJ9.canary.canary"] {
        refuse(&server.client_with(key), "GET", "/app", "");
    }
    refuse(&server.client_with(""), "GET", "/app?token=canary-token", "");
    let (endpoint, message) = (application.path("/endpoint"), application.path("/msg"));
    let valid = "https://example.com/canary";
    for body in [
        json!({ "url": valid, "secret": "whsec_canary-but-not-base64" }),
        json!({ "url": valid, "secret": "canary-without-a-prefix" }),
        json!({ "url": valid, "headers": { "x-credential": "canary\nheader" } }),
        json!({ "url": "https://me:canary-password@example.com/" }),
    ] {
        refuse(&client, "POST", &endpoint, &body.to_string());
    }
    refuse(&client, "POST", &endpoint, "{\"url\": \"https://example.com/canary");
    refuse(&client, "POST", &message, "{\"eventType\": \"a\", \"payload\": \"canary-payload");
    let typed: Value = json!({ "eventType": 7, "payload": { "text": "canary-payload" } });
    refuse(&client, "POST", &message, &typed.to_string());
    let portal = format!("/auth/app-portal-access/{}", application.id);
    let token = client.post(&portal, &json!({})).expect(200)["token"].as_str().unwrap().to_owned();
    refuse(&server.client_with(&token), "GET", "/key", "");
    assert!(!server.log().contains(&token), "the token of a portal is in the log");
    errors
}
