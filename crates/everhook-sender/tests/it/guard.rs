//! Requests to forbidden destinations are refused.

use std::io::ErrorKind;
use std::net::TcpListener;

use everhook_core::outcome::Class;
use everhook_sender::{Egress, Sender, SenderConfig};

use crate::receiver::{OK, answering};
use crate::{check_failure, check_reply, loopback, post, sender};

const BLOCKED: &str =
    "the receiver's address is private or reserved; have the operator add it to EVERHOOK_EGRESS_ALLOW";

#[tokio::test]
async fn a_forbidden_address_is_blocked_before_a_connection_is_made() {
    let canary = TcpListener::bind("127.0.0.1:0").unwrap();
    canary.set_nonblocking(true).unwrap();
    let port = canary.local_addr().unwrap().port();
    let sender = Sender::new(SenderConfig { egress: Egress::default(), ..loopback() }).unwrap();
    for host in
        ["127.0.0.1", "2130706433", "0x7f.1", "[::ffff:7f00:1]", "[::1]", "0.0.0.0", "localhost", "a.localhost."]
    {
        for scheme in ["http", "https"] {
            let sent = sender.send(post(format!("{scheme}://{host}:{port}/"), "{}")).await;
            check_failure(sent, Class::Blocked, BLOCKED);
        }
    }
    assert_eq!(canary.accept().expect_err("no connection").kind(), ErrorKind::WouldBlock);
}

#[tokio::test]
async fn localhost_works_where_either_loopback_is_allowed() {
    let receiver = answering(OK);
    let port = receiver.port;
    check_reply(sender().send(post(format!("http://localhost:{port}/"), "{}")).await, 200, "ok");
    assert!(receiver.end().head.contains(&format!("\r\nhost: localhost:{port}\r\n")));
}

#[tokio::test]
async fn an_unknown_name_is_a_dns_failure() {
    let sent = sender().send(post("http://nonexistent.invalid/".to_owned(), "{}")).await;
    check_failure(sent, Class::Dns, "the host name does not exist");
}

#[tokio::test]
async fn rules_that_became_stricter_block_old_urls() {
    let sender = Sender::new(SenderConfig { egress: Egress::new(Vec::new(), true), ..loopback() }).unwrap();
    let sent = sender.send(post("http://example.com/".to_owned(), "{}")).await;
    check_failure(
        sent,
        Class::Blocked,
        "url is not https; use https, or have the operator set EVERHOOK_HTTPS_ONLY=false",
    );
}

#[tokio::test]
async fn a_url_that_should_never_have_been_stored_is_our_fault() {
    let sent = sender().send(post("ftp://example.com/".to_owned(), "{}")).await;
    check_failure(sent, Class::Internal, "url scheme is not supported; use https or http");
}
