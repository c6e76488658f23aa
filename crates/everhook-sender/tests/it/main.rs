//! Tests of the sender against scripted receivers.
//!
//! The receivers are plain TCP servers on the loopback interface, because an HTTP server would refuse to misbehave.

#![allow(clippy::unwrap_used, reason = "a step of a script that fails is a test that fails")]

mod deadlines;
mod encrypted;
mod guard;
mod hostile;
mod material;
mod namespace;
mod plain;
mod proxy;
mod receiver;
mod reuse;
mod steps;

use std::time::Duration;

use bytes::Bytes;
use everhook_core::outcome::{Class, Reply, SendFailure};
use everhook_sender::{Deadlines, Egress, Request, Sender, SenderConfig};
use http::{HeaderMap, Method};

/// A deadline that never passes during a test.
const NEVER: Duration = Duration::from_secs(300);
/// A deadline for tests that wait for it.
const SOON: Duration = Duration::from_millis(200);

const PATIENT: Deadlines = Deadlines { connect: NEVER, tls: NEVER, write: NEVER, first_byte: NEVER, total: NEVER };

fn loopback() -> SenderConfig {
    let allow = vec!["127.0.0.0/8".parse().unwrap()];
    SenderConfig { egress: Egress::new(allow, false), deadlines: PATIENT, ..SenderConfig::default() }
}

fn sender() -> Sender {
    Sender::new(loopback()).unwrap()
}

fn hurried(deadlines: Deadlines) -> Sender {
    Sender::new(SenderConfig { deadlines, ..loopback() }).unwrap()
}

fn post(url: String, body: &'static str) -> Request {
    Request {
        method: Method::POST,
        url,
        headers: HeaderMap::new(),
        body: Bytes::from_static(body.as_bytes()),
        patience: None,
        auth: None,
    }
}

#[track_caller]
fn check_reply(sent: Result<Reply, SendFailure>, status: u16, body: &str) {
    let reply = sent.expect("a reply");
    assert_eq!((reply.status, &*String::from_utf8_lossy(&reply.body)), (status, body));
}

#[track_caller]
fn check_failure(sent: Result<Reply, SendFailure>, class: Class, detail: &str) {
    assert_eq!(sent, Err(SendFailure::new(class, detail)));
}
