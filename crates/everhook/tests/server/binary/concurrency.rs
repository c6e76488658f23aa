//! Concurrency limits, over all replicas.

use std::sync::Arc;

use everhook_testkit::receiver::Receiver;
use everhook_testkit::wait::until;
use serde_json::{Value, json};

use crate::binary::client::{Application, Endpoint};
use crate::binary::server::{Backend, Server, on_both_stores};

on_both_stores! {
    deliveries_beyond_a_concurrency_limit_wait_and_say_why_until_it_is_raised,
    a_limited_endpoint_gets_all_its_messages,
}

/// Waits until so many deliveries are being sent and the others wait for the limit. A delivery is "sending" a moment
/// before its request arrives, so count requests only with [`Receiver::wait_for`].
fn wait_for_limit(application: &Application, endpoint: &Endpoint, sending: usize, waiting: usize) {
    let path = application.path(&format!("/delivery?endpoint_id={}", endpoint.id));
    until("all others wait for the concurrency limit", || {
        let deliveries = application.client.list(&path);
        let count = |is: &dyn Fn(&Value) -> bool| deliveries.iter().filter(|delivery| is(delivery)).count();
        let found = (
            count(&|delivery| delivery["state"] == "sending"),
            count(&|delivery| delivery["reason"]["kind"] == "concurrencyLimit"),
        );
        (found == (sending, waiting)).then_some(())
    });
}

fn deliveries_beyond_a_concurrency_limit_wait_and_say_why_until_it_is_raised(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &[]), Receiver::start());
    let application = server.client().application("Acme");
    let limited = application.endpoint_with(json!({ "url": receiver.url("/limited"), "policy": { "concurrency": 2 } }));
    application.endpoint(&receiver.url("/free"));
    receiver.hang("/limited");
    let messages = application.send_many(10);
    receiver.wait_for_messages("/free", &messages);
    wait_for_limit(&application, &limited, 2, 8);
    assert_eq!(receiver.wait_for("/limited", 2).len(), 2);
    application.change(&limited, &json!({ "policy": { "concurrency": 5 } }));
    wait_for_limit(&application, &limited, 5, 5);
    assert_eq!(receiver.wait_for("/limited", 5).len(), 5);
    receiver.release("/limited");
    receiver.wait_for_messages("/limited", &messages);
}

fn a_limited_endpoint_gets_all_its_messages(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &[]), Receiver::start());
    let application = server.client().application("Acme");
    application.client.patch(&application.path(""), &json!({ "policy": { "concurrency": 1 } })).expect(200);
    application.endpoint(&receiver.url("/"));
    let messages = application.send_many(50);
    receiver.wait_for_messages("/", &messages);
    assert_eq!(receiver.count(), 50);
}

#[test]
fn replicas_share_a_concurrency_limit() {
    let server = Server::start(&Backend::postgres(), &[]);
    let second = server.start_another();
    let receiver = Receiver::start();
    let application = server.client().application("Acme");
    let limited = application.endpoint_with(json!({ "url": receiver.url("/"), "policy": { "concurrency": 3 } }));
    receiver.hang("/");
    let messages = application.send_in_turn([server.client(), second.client()], 20);
    wait_for_limit(&application, &limited, 3, 17);
    assert_eq!(receiver.wait_for("/", 3).len(), 3);
    receiver.release("/");
    receiver.wait_for_messages("/", &messages);
}
