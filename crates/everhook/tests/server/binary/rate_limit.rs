//! Rate limits, over all replicas.

use std::sync::Arc;

use everhook_testkit::receiver::Receiver;
use everhook_testkit::wait::until;
use serde_json::{Value, json};

use crate::binary::client::{Application, Endpoint};
use crate::binary::server::{Backend, Server, on_both_stores};

on_both_stores! {
    deliveries_beyond_a_rate_wait_and_say_why_until_the_rate_is_raised,
    an_application_limits_each_of_its_endpoints,
}

const ONE_PER_HOUR: &str = r#"{"rate": {"count": 1, "seconds": 3600}}"#;

fn rate() -> Value {
    serde_json::from_str(ONE_PER_HOUR).unwrap()
}

/// Waits until all of these messages but one wait for the rate limit, and returns the time of the next permit.
fn wait_for_limit(application: &Application, endpoint: &Endpoint, messages: &[String]) -> String {
    let path = application.path(&format!("/delivery?endpoint_id={}", endpoint.id));
    until("all but one wait for the rate limit", || {
        let deliveries = application.client.list(&path);
        let waits = |delivery: &&Value| delivery["reason"]["kind"] == "rateLimit";
        let succeeded = deliveries.iter().filter(|delivery| delivery["state"] == "succeeded").count();
        let waiting: Vec<&Value> = deliveries.iter().filter(waits).collect();
        let is_so = succeeded == 1 && waiting.len() == messages.len() - 1;
        is_so.then(|| waiting[0]["reason"]["until"].as_str().unwrap().to_owned())
    })
}

fn deliveries_beyond_a_rate_wait_and_say_why_until_the_rate_is_raised(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &[]), Receiver::start());
    let application = server.client().application("Acme");
    let limited = application.endpoint_with(json!({ "url": receiver.url("/limited"), "policy": rate() }));
    application.endpoint(&receiver.url("/free"));
    let messages = application.send_many(20);
    receiver.wait_for_messages("/free", &messages);
    wait_for_limit(&application, &limited, &messages);
    assert_eq!(receiver.seen("/limited").len(), 1);
    application.change(&limited, &json!({ "policy": null, "throttleRate": 50 }));
    receiver.wait_for_messages("/limited", &messages);
}

fn an_application_limits_each_of_its_endpoints(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &[]), Receiver::start());
    let application = server.client().application("Acme");
    application.client.patch(&application.path(""), &json!({ "policy": rate() })).expect(200);
    let endpoints = ["/one", "/two"].map(|path| application.endpoint(&receiver.url(path)));
    let messages = application.send_many(5);
    for endpoint in &endpoints {
        wait_for_limit(&application, endpoint, &messages);
    }
    assert_eq!(receiver.count(), 2);
    application.client.patch(&application.path(""), &json!({ "policy": null })).expect(200);
    receiver.wait_for_messages("/one", &messages);
    receiver.wait_for_messages("/two", &messages);
}

#[test]
fn replicas_share_a_rate_limit() {
    let server = Server::start(&Backend::postgres(), &[]);
    let second = server.start_another();
    let receiver = Receiver::start();
    let application = server.client().application("Acme");
    let limited = application.endpoint_with(json!({ "url": receiver.url("/"), "policy": rate() }));
    let messages = application.send_in_turn([server.client(), second.client()], 20);
    wait_for_limit(&application, &limited, &messages);
    assert_eq!(receiver.count(), 1);
    // The change is made on one node and applies to both.
    second
        .client()
        .patch(&application.path(&format!("/endpoint/{}", limited.id)), &json!({ "policy": null }))
        .expect(200);
    receiver.wait_for_messages("/", &messages);
}
