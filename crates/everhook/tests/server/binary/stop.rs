//! SIGTERM: tasks in flight are finished or returned, nothing is lost, and the process exits.

use std::sync::Arc;

use everhook_testkit::receiver::Receiver;
use everhook_testkit::rng;
use everhook_testkit::wait::{until, until_true};
use serde_json::json;

use crate::binary::checker::{Load, Run};
use crate::binary::scene::Scene;
use crate::binary::server::{Backend, Server, on_both_stores};

on_both_stores! {
    a_stopping_server_finishes_what_is_in_flight,
    what_outlasts_the_grace_period_is_handed_back,
    a_second_signal_ends_the_server_at_once,
    a_server_that_was_told_to_stop_says_so_and_still_serves,
    no_acknowledged_message_is_lost_when_the_server_is_stopped_under_load,
}

/// The log text after the first signal.
const STOPPING: &str = "stopping";

fn a_stopping_server_finishes_what_is_in_flight(backend: Arc<Backend>) {
    let Scene { mut server, receiver, application, endpoint } = Scene::start(&backend, &[("GRACE_SECONDS", "60")]);
    receiver.hang("/");
    let messages = application.send_many(3);
    receiver.wait_for_messages("/", &messages);
    server.terminate();
    until_true("the server has heard the signal", || server.log().contains(STOPPING));
    receiver.release("/");
    assert_eq!(server.wait().code(), Some(0));

    server.start_again();
    for message in &messages {
        application.wait_for(message, &endpoint, "success");
        assert_eq!(application.attempts(message).len(), 1);
    }
    assert_eq!(receiver.count(), messages.len());
}

fn what_outlasts_the_grace_period_is_handed_back(backend: Arc<Backend>) {
    // The lease is long: returned tasks do not wait for it.
    let settings = [("GRACE_SECONDS", "1"), ("TIMEOUT_SECONDS", "60"), ("LEASE_SECONDS", "600")];
    let Scene { mut server, receiver, application, endpoint } = Scene::start(&backend, &settings);
    receiver.hang("/");
    let messages = application.send_many(3);
    receiver.wait_for_messages("/", &messages);
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));

    receiver.release("/");
    server.start_again();
    for message in &messages {
        application.wait_for(message, &endpoint, "success");
        let attempts = application.attempts(message);
        let classes = attempts.iter().map(|attempt| &attempt["class"]).collect::<Vec<_>>();
        assert_eq!(classes, ["interrupted", "success"]);
    }
    let seen = receiver.seen("/");
    assert_eq!(seen.len(), 2 * messages.len());
    assert!(seen.iter().all(|seen| seen.header("everhook-attempt") == "1"), "a stop uses no try");
}

fn a_second_signal_ends_the_server_at_once(backend: Arc<Backend>) {
    let settings = [("GRACE_SECONDS", "600"), ("TIMEOUT_SECONDS", "60"), ("LEASE_SECONDS", "1")];
    let Scene { mut server, receiver, application, endpoint } = Scene::start(&backend, &settings);
    receiver.hang("/");
    let message = application.send(&json!({}));
    receiver.wait_for("/", 1);
    server.terminate();
    until_true("the server has heard the signal", || server.log().contains(STOPPING));
    server.terminate();
    // The exit does not wait for the receiver, which still hangs.
    assert_eq!(server.wait().code(), Some(1));

    receiver.release("/");
    server.start_again();
    application.wait_for(&message, &endpoint, "success");
}

fn a_server_that_was_told_to_stop_says_so_and_still_serves(backend: Arc<Backend>) {
    let settings = [("STOP_DELAY_SECONDS", "600"), ("LISTEN_OPS", "127.0.0.1:0")];
    let Scene { mut server, receiver: _receiver, application, endpoint } = Scene::start(&backend, &settings);
    server.client().get("/health/ready").expect(200);
    server.terminate();
    for client in [server.client(), server.ops()] {
        let told = until("it says so", || Some(client.get("/health/ready")).filter(|told| told.status == 503));
        assert!(told.json()["reason"].as_str().unwrap().starts_with("stopping"), "{told:?}");
        client.get("/health").expect(204);
    }
    let message = application.send(&json!({}));
    application.wait_for(&message, &endpoint, "success");
    server.terminate();
    assert_eq!(server.wait().code(), Some(1), "a second signal does not wait for the delay");
}

fn no_acknowledged_message_is_lost_when_the_server_is_stopped_under_load(backend: Arc<Backend>) {
    const STOPS: usize = 5;
    let seed = rng::seed();
    // On a busy machine a short lease would be a reason for duplicates, and a short grace period for interruptions.
    let settings = [("LEASE_SECONDS", "10"), ("GRACE_SECONDS", "30")];
    let (mut server, receiver) = (Server::start(&backend, &settings), Receiver::start());
    let application = server.client().application("Acme");
    let endpoints = [("/", application.endpoint(&receiver.url("/")))];
    let load = Load::start(&application, 4, seed);
    for _ in 0..STOPS {
        let acknowledged = load.acknowledged();
        until_true("the load goes on", || load.acknowledged() > acknowledged + 50);
        server.terminate();
        assert_eq!(server.wait().code(), Some(0));
        server.start_again();
    }
    let operations = load.stop();
    let run = Run { application: &application, receiver: &receiver, endpoints: &endpoints, operations };
    let report = run.check();
    eprintln!("{STOPS} stops: {report:?}");
    assert_eq!(report.duplicates, 0, "an orderly stop is no reason for a duplicate: {report:?}");
}
