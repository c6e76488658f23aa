//! Circuit breakers, over all replicas.

use std::sync::Arc;

use everhook_testkit::receiver::{Answer, Receiver};
use everhook_testkit::wait::until;
use serde_json::{Value, json};

use crate::binary::client::{Application, Endpoint};
use crate::binary::server::{Backend, Server, on_both_stores};

on_both_stores! {
    an_open_breaker_holds_deliveries_over_a_restart_until_it_is_switched_off,
    a_breaker_probes_an_endpoint_that_works_again_and_closes,
}

/// An endpoint that answers 500, with a breaker that opens after three failures.
fn failing(application: &Application, receiver: &Receiver, open_seconds: u64) -> Endpoint {
    receiver.answer("/failing", Answer::status(500));
    let breaker = json!({ "minAttempts": 3, "openSeconds": open_seconds, "maxOpenSeconds": open_seconds });
    let policy = json!({ "breaker": breaker, "retry": { "backoff": [1], "maxAttempts": 50 } });
    application.endpoint_with(json!({ "url": receiver.url("/failing"), "policy": policy }))
}

fn endpoint(application: &Application, endpoint: &Endpoint) -> Value {
    application.client.get(&application.path(&format!("/endpoint/{}", endpoint.id))).expect(200)
}

fn wait_until_open(application: &Application, guarded: &Endpoint) -> String {
    until("the breaker is open", || {
        let breaker = &endpoint(application, guarded)["breaker"];
        (breaker["state"] == "open").then(|| breaker["until"].as_str().unwrap().to_owned())
    })
}

fn an_open_breaker_holds_deliveries_over_a_restart_until_it_is_switched_off(backend: Arc<Backend>) {
    let (mut server, receiver) = (Server::start(&backend, &[]), Receiver::start());
    let application = server.client().application("Acme");
    let guarded = failing(&application, &receiver, 3600);
    let mut messages = application.send_many(3);
    let open_until = wait_until_open(&application, &guarded);
    let path = application.path(&format!("/delivery?endpoint_id={}", guarded.id));
    until("no attempt is under way", || {
        application.client.list(&path).iter().all(|delivery| delivery["state"] != "sending").then_some(())
    });
    let sent = receiver.seen("/failing").len();
    server.kill();
    server.start_again();
    let free = application.endpoint(&receiver.url("/free"));
    let more = application.send_many(10);
    receiver.wait_for_messages("/free", &more);
    messages.extend(more);
    until("all deliveries wait for the breaker", || {
        let deliveries = application.client.list(&path);
        let reason = json!({ "kind": "breakerOpen", "until": open_until });
        let waits = |delivery: &Value| {
            delivery["reason"] == reason && delivery["nextAttempt"].as_str() >= Some(open_until.as_str())
        };
        deliveries.iter().all(waits).then_some(())
    });
    assert_eq!(receiver.seen("/failing").len(), sent, "nothing is sent while the breaker is open");
    assert_eq!(endpoint(&application, &free)["breaker"], json!(null));
    receiver.answer("/failing", Answer::status(200));
    application.change(&guarded, &json!({ "policy": { "breaker": "none" } }));
    receiver.wait_for_messages("/failing", &messages);
    assert_eq!(endpoint(&application, &guarded)["breaker"], json!(null));
}

fn a_breaker_probes_an_endpoint_that_works_again_and_closes(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &[("LISTEN_OPS", "127.0.0.1:0")]), Receiver::start());
    let application = server.client().application("Acme");
    let guarded = failing(&application, &receiver, 1);
    let mut messages = application.send_many(3);
    wait_until_open(&application, &guarded);
    messages.extend(application.send_many(60));
    // A probe fails before the endpoint works again.
    let sent = receiver.seen("/failing").len();
    receiver.wait_for("/failing", sent + 1);
    receiver.answer("/failing", Answer::status(204));
    until("the breaker is closed", || {
        messages.push(application.send(&json!({})));
        endpoint(&application, &guarded)["breaker"].is_null().then_some(())
    });
    receiver.wait_for_messages("/failing", &messages);
    until("the change is counted", || {
        let metrics = server.ops().send_to("GET", "/metrics", &[], b"").unwrap();
        let closed = "everhook_breaker_changes_total{change=\"closed\"} 1";
        String::from_utf8_lossy(&metrics.body).lines().any(|line| line == closed).then_some(())
    });
}

#[test]
fn replicas_share_a_breaker_and_its_probe() {
    let server = Server::start(&Backend::postgres(), &[]);
    let second = server.start_another();
    let receiver = Receiver::start();
    let application = server.client().application("Acme");
    let guarded = failing(&application, &receiver, 1);
    let mut messages = application.send_many(3);
    wait_until_open(&application, &guarded);
    receiver.hang("/failing");
    messages.extend(application.send_many(20));
    let path = application.path(&format!("/delivery?endpoint_id={}", guarded.id));
    until("one delivery probes, and the others wait for it", || {
        let deliveries = second.client().list(&path);
        let count = |kind| deliveries.iter().filter(|delivery| delivery["reason"]["kind"] == kind).count();
        (count("sending") == 1 && count("breakerProbing") >= 20).then_some(())
    });
    receiver.release("/failing");
    receiver.answer("/failing", Answer::status(204));
    receiver.wait_for_messages("/failing", &messages);
}
