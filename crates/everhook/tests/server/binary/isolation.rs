//! A hanging endpoint delays no other endpoint.

use std::sync::Arc;

use everhook_testkit::receiver::Receiver;

use crate::binary::server::{Backend, Server, on_both_stores};

on_both_stores! {
    an_endpoint_that_hangs_does_not_delay_one_on_another_host,
    an_endpoint_that_hangs_does_not_delay_one_on_the_same_host,
}

/// More messages than one endpoint gets at once.
const MESSAGES: usize = 60;
const SETTINGS: [(&str, &str); 2] = [("SLOTS_PER_ENDPOINT", "10"), ("TIMEOUT_SECONDS", "300")];

fn an_endpoint_that_hangs_does_not_delay_one_on_another_host(backend: Arc<Backend>) {
    check(&backend, &Receiver::start(), &Receiver::start());
}

fn an_endpoint_that_hangs_does_not_delay_one_on_the_same_host(backend: Arc<Backend>) {
    let receiver = Receiver::start();
    check(&backend, &receiver, &receiver);
}

fn check(backend: &Arc<Backend>, slow: &Receiver, quick: &Receiver) {
    let server = Server::start(backend, &SETTINGS);
    let application = server.client().application("Acme");
    let hanging = application.endpoint(&slow.url("/hangs"));
    application.endpoint(&quick.url("/works"));
    slow.hang("/hangs");
    let messages = application.send_many(MESSAGES);
    quick.wait_for_messages("/works", &messages);
    // The hanging endpoint has answered none of them.
    for message in &messages {
        assert_ne!(application.destination(message, &hanging)["statusText"], "success");
    }
    assert!(slow.seen("/hangs").len() <= 10, "more than its share was sent to the endpoint that hangs");
    slow.release("/hangs");
    slow.wait_for_messages("/hangs", &messages);
    for message in &messages {
        application.wait_for(message, &hanging, "success");
        assert_eq!(application.wait_for_attempts(message, 2).len(), 2);
    }
}
