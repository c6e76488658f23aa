//! Ordered delivery.

use std::sync::Arc;

use everhook_testkit::receiver::{Answer, Receiver};
use everhook_testkit::wait::until;
use serde_json::{Value, json};

use crate::binary::client::{Application, Endpoint};
use crate::binary::server::{Backend, Server, on_both_stores};

on_both_stores! {
    an_ordered_endpoint_gets_messages_in_the_order_of_their_acceptance,
    a_dead_delivery_blocks_an_ordered_endpoint_until_it_is_redriven,
    a_failing_key_holds_only_its_own_messages_across_a_crash,
}

/// The messages of all requests, without repetitions in a row.
fn order(receiver: &Receiver) -> Vec<String> {
    let mut messages: Vec<String> = receiver.everything().iter().map(|seen| seen.message().to_owned()).collect();
    messages.dedup();
    messages
}

fn reasons(application: &Application, endpoint: &Endpoint, kind: &str) -> Vec<Value> {
    let path = application.path(&format!("/delivery?endpoint_id={}", endpoint.id));
    let deliveries = application.client.list(&path);
    deliveries.into_iter().map(|it| it["reason"].clone()).filter(|reason| reason["kind"] == kind).collect()
}

fn an_ordered_endpoint_gets_messages_in_the_order_of_their_acceptance(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &[]), Receiver::start());
    let application = server.client().application("Acme");
    let retry = json!({ "backoff": [1, 1, 1], "jitterPercent": 0 });
    let policy = json!({ "ordering": "endpoint", "retry": retry, "timeoutSeconds": 60 });
    let endpoint = application.endpoint_with(json!({ "url": receiver.url("/"), "policy": policy }));
    let failed = || Answer::status(500);
    receiver.answer_in_turn("/", [failed(), failed(), Answer::status(204), failed()], Answer::status(204));
    // The first attempt lasts until all messages are accepted.
    receiver.hang("/");
    let messages: Vec<String> = (0..20).map(|number| application.send(&json!({ "number": number }))).collect();
    until("the others wait behind the first", || {
        let behind = reasons(&application, &endpoint, "behind");
        (behind.len() == 19 && behind.iter().all(|reason| reason["msgId"] == messages[0])).then_some(())
    });
    receiver.release("/");
    receiver.wait_for_messages("/", &messages);
    assert_eq!(order(&receiver), messages);
    assert_eq!(receiver.count(), 23);
}

fn a_dead_delivery_blocks_an_ordered_endpoint_until_it_is_redriven(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &[]), Receiver::start());
    let application = server.client().application("Acme");
    let policy = json!({ "ordering": "endpoint", "onDead": "block", "retry": { "finalStatuses": ["4xx"] } });
    let endpoint = application.endpoint_with(json!({ "url": receiver.url("/"), "policy": policy }));
    receiver.answer_in_turn("/", [Answer::status(400)], Answer::status(204));
    let messages: Vec<String> = (0..5).map(|number| application.send(&json!({ "number": number }))).collect();
    until("the others are blocked", || {
        let blocked = reasons(&application, &endpoint, "blocked");
        (blocked.len() == 4 && blocked.iter().all(|reason| reason["msgId"] == messages[0])).then_some(())
    });
    assert_eq!(receiver.count(), 1);
    application.client.post(&application.path(&format!("/endpoint/{}/redrive", endpoint.id)), &json!({})).expect(202);
    receiver.wait_for_messages("/", &messages);
    assert_eq!(order(&receiver), messages);
}

fn a_failing_key_holds_only_its_own_messages_across_a_crash(backend: Arc<Backend>) {
    let (mut server, receiver) = (Server::start(&backend, &[]), Receiver::start());
    let application = server.client().application("Acme");
    let policy = json!({ "ordering": { "key": "/customer/id" }, "retry": { "backoff": [3600] } });
    let endpoint = application.endpoint_with(json!({ "url": receiver.url("/"), "policy": policy }));
    receiver.answer_in_turn("/", [Answer::status(500)], Answer::status(204));
    let send = |customer: &str| application.send(&json!({ "customer": { "id": customer } }));
    let mut of_a = vec![send("a")];
    until("the first message waits for its retry", || {
        (reasons(&application, &endpoint, "retry").len() == 1).then_some(())
    });
    of_a.extend((0..3).map(|_| send("a")));
    let beside: Vec<String> = ["b", "c", "b"].map(send).into();
    // A delivery that is not settled would be sent again after the crash.
    for message in &beside {
        application.wait_for(message, &endpoint, "success");
    }
    until("the others wait behind the first", || {
        let waiting = reasons(&application, &endpoint, "behind");
        (waiting.len() == 3 && waiting.iter().all(|reason| reason["msgId"] == of_a[0])).then_some(())
    });
    server.kill();
    server.start_again();
    let retry = application.path(&format!("/msg/{}/endpoint/{}/retry-now", of_a[0], endpoint.id));
    server.client().post(&retry, &json!({})).expect(200);
    receiver.wait_for_messages("/", &of_a);
    let came = order(&receiver);
    let among = |messages: &[&String]| came.iter().filter(|id| messages.contains(id)).cloned().collect::<Vec<_>>();
    let mut tries = vec![of_a[0].clone()];
    tries.extend(of_a.iter().cloned());
    assert_eq!(among(&of_a.iter().collect::<Vec<_>>()), tries);
    assert_eq!(among(&[&beside[0], &beside[2]]), [beside[0].clone(), beside[2].clone()]);
}
