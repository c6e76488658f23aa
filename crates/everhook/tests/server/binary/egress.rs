//! Egress: non-public addresses are refused unless they are allowed.

use std::sync::Arc;

use serde_json::json;

use crate::binary::client::Application;
use crate::binary::scene::Scene;
use crate::binary::server::{Backend, Server, on_both_stores};

on_both_stores! {
    an_address_inside_is_refused_when_the_endpoint_is_created,
    an_address_that_is_no_longer_allowed_is_blocked_when_it_is_sent,
    with_https_only_plain_http_is_refused,
}

fn an_address_that_is_no_longer_allowed_is_blocked_when_it_is_sent(backend: Arc<Backend>) {
    let Scene { mut server, receiver, application, endpoint } = Scene::start(&backend, &[("RETRY_SCHEDULE", "0.05")]);
    server.terminate();
    assert!(server.wait().success());
    let mut server = server.another_with(&[("EGRESS_ALLOW", "")]);
    server.start_again();
    let application = Application { client: server.client(), id: application.id };
    let message = application.send(&json!({}));
    application.wait_for(&message, &endpoint, "fail");
    for attempt in application.attempts(&message) {
        assert_eq!(attempt["class"], "blocked");
        let error = attempt["response"].as_str().unwrap();
        assert!(error.contains("EVERHOOK_EGRESS_ALLOW"), "{error}");
    }
    assert_eq!(receiver.count(), 0);
}

fn an_address_inside_is_refused_when_the_endpoint_is_created(backend: Arc<Backend>) {
    let server = Server::start(&backend, &[("EGRESS_ALLOW", "")]);
    let application = server.client().application("Acme");
    for host in ["127.0.0.1", "localhost", "LOCALHOST", "shop.localhost", "localhost.", "10.1.2.3", "[::1]"] {
        let url = json!({ "url": format!("http://{host}:9/hook") });
        let refused = application.client.post(&application.path("/endpoint"), &url).expect(422).to_string();
        assert!(refused.contains("EVERHOOK_EGRESS_ALLOW"), "{host}: {refused}");
    }
}

fn with_https_only_plain_http_is_refused(backend: Arc<Backend>) {
    let server = Server::start(&backend, &[("HTTPS_ONLY", "true")]);
    let application = server.client().application("Acme");
    let create = |url: &str| application.client.post(&application.path("/endpoint"), &json!({ "url": url }));
    create("http://example.com/").expect(422);
    create("https://example.com/").expect(201);
}
