//! Open deliveries of endpoints that are disabled, enabled or deleted.

use std::sync::Arc;

use everhook_testkit::receiver::{Answer, Receiver};
use serde_json::{Value, json};

use crate::binary::client::{Application, Endpoint};
use crate::binary::scene::Scene;
use crate::binary::server::{Backend, Server, on_both_stores};

on_both_stores! {
    gone_disables_the_endpoint,
    a_receiver_disables_its_endpoint_and_aborts_a_message_by_a_header,
    a_disabled_endpoint_holds_its_deliveries_over_a_restart_until_it_is_enabled,
    an_endpoint_with_nothing_but_failures_is_disabled_after_a_warning,
    the_open_deliveries_of_a_deleted_endpoint_end_as_canceled,
    the_open_deliveries_of_a_deleted_application_never_arrive,
}

/// Soon retries, for longer than any test takes.
const SETTINGS: [(&str, &str); 1] = [("RETRY_SCHEDULE", "0.5,0.5,0.5,0.5,0.5,0.5,5,5,5,5,5,5,5,5,5,5,5,5,5,5")];

fn gone_disables_the_endpoint(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &SETTINGS), Receiver::start());
    let application = server.client().application("Acme");
    let endpoint = application.endpoint(&receiver.url("/gone"));
    application.endpoint(&receiver.url("/other"));
    receiver.answer("/gone", Answer::status(410));
    let message = application.send(&json!({}));
    let destination = application.wait_for(&message, &endpoint, "fail");
    assert_eq!(destination["disabled"], true);
    let path = application.path(&format!("/endpoint/{}", endpoint.id));
    assert_eq!(application.client.get(&path).expect(200)["disabled"], true);
    // The disabled endpoint gets no new messages.
    let later = application.send_many(3);
    receiver.wait_for_messages("/other", &later);
    assert_eq!(receiver.seen("/gone").len(), 1);
}

fn a_receiver_disables_its_endpoint_and_aborts_a_message_by_a_header(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &SETTINGS), Receiver::start());
    let application = server.client().application("Acme");
    let aborting = application.endpoint(&receiver.url("/aborts"));
    let disabling = application.endpoint(&receiver.url("/disables"));
    receiver.answer("/aborts", Answer::status(500).header("webhook-delivery", "abort-message"));
    receiver.answer("/disables", Answer::status(200).header("webhook-delivery", "disable"));
    let message = application.send(&json!({}));
    assert_eq!(application.wait_for(&message, &aborting, "fail")["disabled"], false);
    application.wait_for(&message, &disabling, "success");
    let path = application.path(&format!("/endpoint/{}", disabling.id));
    assert_eq!(application.client.get(&path).expect(200)["disabled"], true);
    assert_eq!(receiver.seen("/aborts").len(), 1, "the message is not retried");
    let later = application.send(&json!({}));
    application.wait_for(&later, &aborting, "fail");
    assert_eq!(receiver.seen("/disables").len(), 1);
}

fn a_disabled_endpoint_holds_its_deliveries_over_a_restart_until_it_is_enabled(backend: Arc<Backend>) {
    let Scene { mut server, receiver, application, endpoint } = Scene::start(&backend, &SETTINGS);
    application.endpoint(&receiver.url("/other"));
    receiver.answer("/", Answer::status(500));
    let messages = application.send_many(3);
    receiver.wait_for_messages("/", &messages);
    application.change(&endpoint, &json!({ "disabled": true }));
    for message in &messages {
        everhook_testkit::wait::until_true("the attempts under way have ended", || {
            application.destination(message, &endpoint)["statusText"] != "sending"
        });
        check_held(&application, message, &endpoint);
    }
    receiver.answer("/", Answer::status(200));
    let before = receiver.seen("/").len();

    server.terminate();
    assert!(server.wait().success());
    server.start_again();
    // A message delivered elsewhere shows that the restarted server works on due tasks.
    let other = application.send(&json!({}));
    receiver.wait_for_messages("/other", &[other]);
    for message in &messages {
        check_held(&application, message, &endpoint);
    }
    assert_eq!(receiver.seen("/").len(), before);

    application.change(&endpoint, &json!({ "disabled": false }));
    for message in &messages {
        application.wait_for(message, &endpoint, "success");
    }
}

#[track_caller]
fn check_held(application: &Application, message: &str, endpoint: &Endpoint) {
    let destination = application.destination(message, endpoint);
    assert_eq!((&destination["statusText"], &destination["held"]), (&json!("pending"), &json!(true)));
}

fn an_endpoint_with_nothing_but_failures_is_disabled_after_a_warning(backend: Arc<Backend>) {
    let server = Server::start(&backend, &SETTINGS);
    // Both replicas see failures of the endpoint, and must not report them twice.
    let mut replica = matches!(*backend, Backend::Postgres(_)).then(|| server.another());
    replica.iter_mut().for_each(Server::start_again);
    let (receiver, client) = (Receiver::start(), server.client());
    let types = ["endpoint.failing", "endpoint.disabled", "endpoint.enabled"];
    let listener = json!({ "url": receiver.url("/news"), "eventTypes": types });
    client.post("/operational-webhook/endpoint", &listener).expect(201);
    let application = client.application("Acme");
    let retry = json!({ "backoff": [1], "maxAttempts": 100 });
    let policy = json!({ "disableAfterSeconds": 5, "retry": retry });
    let endpoint = application.endpoint_with(json!({ "url": receiver.url("/"), "policy": policy }));
    receiver.answer("/", Answer::status(500));
    let messages = application.send_many(3);
    let told = |count| -> Vec<Value> {
        let news = receiver.wait_for("/news", count);
        news.iter().map(|seen| serde_json::from_slice(&seen.body).unwrap()).collect()
    };
    let news = told(2);
    assert_eq!((&news[0]["type"], &news[1]["type"]), (&json!(types[0]), &json!(types[1])));
    assert_eq!(news[1]["data"]["trigger"], "automatic");
    let path = application.path(&format!("/endpoint/{}", endpoint.id));
    let seen = client.get(&path).expect(200);
    assert_eq!((&seen["disabled"], &seen["failingSince"]), (&json!(true), &news[1]["data"]["failingSince"]));
    let listed = client.list("/endpoint");
    assert_eq!((&listed[0]["state"], &listed[0]["reason"]), (&json!("disabled"), &json!("failures")));
    for message in &messages {
        everhook_testkit::wait::until_true("the attempts under way have ended", || {
            application.destination(message, &endpoint)["statusText"] != "sending"
        });
        check_held(&application, message, &endpoint);
    }
    receiver.answer("/", Answer::status(200));
    application.change(&endpoint, &json!({ "disabled": false }));
    for message in &messages {
        application.wait_for(message, &endpoint, "success");
    }
    everhook_testkit::wait::until_true("the mark is gone", || {
        client.get(&path).expect(200).get("failingSince").is_none()
    });
    assert_eq!(told(3)[2]["type"], types[2]);
    assert_eq!(receiver.seen("/news").len(), 3, "each event is reported once");
}

fn the_open_deliveries_of_a_deleted_endpoint_end_as_canceled(backend: Arc<Backend>) {
    let Scene { server: _server, receiver, application, endpoint } =
        Scene::start(&backend, &[("RETRY_SCHEDULE", "3600")]);
    receiver.answer("/", Answer::status(500));
    let waiting = application.send(&json!({ "waits": true }));
    application.wait_for_attempts(&waiting, 1);
    receiver.hang("/");
    let in_flight = application.send(&json!({ "waits": false }));
    receiver.wait_for_messages("/", &[&in_flight]);

    application.client.delete(&application.path(&format!("/endpoint/{}", endpoint.id))).expect(204);
    assert_eq!(application.wait_for(&waiting, &endpoint, "canceled")["status"], 4);
    receiver.release("/");
    application.wait_for(&in_flight, &endpoint, "canceled");
    assert_eq!(receiver.count(), 2);
    let path = application.path(&format!("/endpoint/{}", endpoint.id));
    application.client.get(&path).expect(404);
    // The attempt under way is settled a moment after its reply.
    let deliveries = application.path("/delivery");
    everhook_testkit::wait::until_true("no delivery is open", || {
        application.client.list(&deliveries).iter().all(|delivery| delivery["state"] == "cancelled")
    });
    for delivery in application.client.list(&deliveries) {
        assert_eq!((&delivery["nextAttempt"], &delivery["reason"]["kind"]), (&Value::Null, &json!("endpointDeleted")));
    }
}

fn the_open_deliveries_of_a_deleted_application_never_arrive(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &SETTINGS), Receiver::start());
    let client = server.client();
    let doomed = client.application("Doomed");
    doomed.endpoint(&receiver.url("/doomed"));
    receiver.answer("/doomed", Answer::status(500));
    doomed.send(&json!({}));
    receiver.wait_for("/doomed", 1);
    client.delete(&doomed.path("")).expect(204);
    client.get(&doomed.path("")).expect(404);
    let before = receiver.seen("/doomed").len();
    // A delivery of another application, first refused and then retried, shows that time has passed.
    let living = client.application("Living");
    let endpoint = living.endpoint(&receiver.url("/living"));
    receiver.answer_in_turn("/living", vec![Answer::status(500); 3], Answer::status(200));
    let message = living.send(&json!({}));
    living.wait_for(&message, &endpoint, "success");
    // One attempt may have been in flight when the application was deleted.
    assert!(receiver.seen("/doomed").len() <= before + 1);
}
