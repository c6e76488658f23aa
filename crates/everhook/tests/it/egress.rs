//! What is inside stays inside: addresses that are not public are refused unless they were allowed.

use std::sync::Arc;

use serde_json::json;

use crate::receiver::Receiver;
use crate::server::{Backend, Server, on_both_stores};

on_both_stores! {
    a_name_that_leads_inside_is_blocked_when_it_is_sent,
    with_https_only_plain_http_is_refused,
}

fn a_name_that_leads_inside_is_blocked_when_it_is_sent(backend: Arc<Backend>) {
    let settings = [("EGRESS_ALLOW", ""), ("RETRY_SCHEDULE", "")];
    let (server, receiver) = (Server::start(&backend, &settings), Receiver::start());
    let application = server.client().application("Acme");
    let endpoint = application.endpoint(&receiver.url("/").replace("127.0.0.1", "localhost"));
    let message = application.send(&json!({}));
    application.wait_for(&message, &endpoint, "fail");
    let attempts = application.attempts(&message);
    assert_eq!(attempts.iter().map(|attempt| &attempt["class"]).collect::<Vec<_>>(), ["blocked"]);
    assert_eq!(receiver.count(), 0);
}

fn with_https_only_plain_http_is_refused(backend: Arc<Backend>) {
    let server = Server::start(&backend, &[("HTTPS_ONLY", "true")]);
    let application = server.client().application("Acme");
    let create = |url: &str| application.client.post(&application.path("/endpoint"), &json!({ "url": url }));
    create("http://example.com/").expect(422);
    create("https://example.com/").expect(201);
}
