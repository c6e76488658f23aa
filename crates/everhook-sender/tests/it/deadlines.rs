//! Slow receivers. Every script ends when the sender closes the connection.

use std::io::{ErrorKind, Write};

use bytes::Bytes;
use everhook_core::outcome::Class;
use everhook_sender::{Deadlines, Request, Sender, SenderConfig};
use http::{HeaderMap, Method};

use crate::receiver::{Receiver, after_request, answering, wait_for_hang_up};
use crate::{PATIENT, SOON, check_failure, check_reply, hurried, loopback, post};

#[tokio::test]
async fn a_receiver_that_never_answers_runs_into_the_first_byte_deadline() {
    let receiver = answering("");
    let sender = hurried(Deadlines { first_byte: SOON, ..PATIENT });
    receiver.check_failure(&sender, Class::Timeout, "timed out waiting for the reply").await;
}

#[tokio::test]
async fn a_request_may_have_more_patience_than_the_sender_or_less() {
    let receiver = after_request(|mut stream| {
        std::thread::sleep(SOON * 3);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").unwrap();
    });
    let sender = hurried(Deadlines { first_byte: SOON, total: SOON * 2, ..PATIENT });
    let patient = Request { patience: Some(PATIENT.total), ..post(receiver.url(), "{}") };
    check_reply(sender.send(patient).await, 200, "ok");
    receiver.end();
    let receiver = answering("");
    // The request is written within this time, too.
    let hasty = Request { patience: Some(SOON * 5), ..post(receiver.url(), "{}") };
    check_failure(hurried(PATIENT).send(hasty).await, Class::Timeout, "timed out waiting for the reply");
    receiver.end();
}

#[tokio::test]
async fn a_slow_reader_of_a_written_request_is_not_a_slow_write() {
    let receiver = answering("");
    let sender = hurried(Deadlines { write: SOON, first_byte: SOON * 2, ..PATIENT });
    receiver.check_failure(&sender, Class::Timeout, "timed out waiting for the reply").await;
}

#[tokio::test]
async fn a_receiver_that_takes_nothing_runs_into_the_write_deadline() {
    let receiver = Receiver::start(|listener| listener);
    let sender = hurried(Deadlines { write: SOON, ..PATIENT });
    let body = Bytes::from(vec![0; 64 * 1024 * 1024]);
    let sent = sender
        .send(Request {
            method: Method::POST,
            url: receiver.url(),
            headers: HeaderMap::new(),
            body,
            patience: None,
            auth: None,
        })
        .await;
    check_failure(sent, Class::Timeout, "timed out writing the request");
    receiver.end();
}

#[tokio::test]
async fn an_interim_reply_does_not_stop_the_first_byte_deadline() {
    let receiver = answering("HTTP/1.1 103 Early Hints\r\n\r\n");
    let sender = hurried(Deadlines { first_byte: SOON, ..PATIENT });
    receiver.check_failure(&sender, Class::Timeout, "timed out waiting for the reply").await;
}

#[tokio::test]
async fn a_flood_of_interim_replies_ends_long_before_any_deadline() {
    let small = b"HTTP/1.1 103 Early Hints\r\n\r\n".to_vec();
    let large = format!("HTTP/1.1 103 Early Hints\r\nlink: {}\r\n\r\n", "x".repeat(8_000)).into_bytes();
    for piece in [small, large] {
        let receiver = after_request(move |mut stream| {
            drip(&mut stream, &piece);
        });
        receiver
            .check_failure(
                &hurried(PATIENT),
                Class::Reset,
                "the receiver sent too many interim replies, or too large a head",
            )
            .await;
    }
}

#[tokio::test]
async fn a_body_that_stalls_runs_into_the_total_deadline() {
    let receiver = answering("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n");
    // The head of the reply arrives within this time, too.
    let sender = hurried(Deadlines { total: SOON * 5, ..PATIENT });
    receiver.check_failure(&sender, Class::Timeout, "timed out reading the reply").await;
}

#[tokio::test]
async fn a_body_that_drips_without_content_ends_as_well() {
    let receiver = after_request(|mut stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;").unwrap();
        // Chunk extensions are not content, so the limit on stored bytes would let them continue for ever.
        drip(&mut stream, b"x");
    });
    receiver.check_failure(&hurried(PATIENT), Class::Reset, "the connection broke before the reply was complete").await;
}

#[tokio::test]
async fn a_hang_in_the_handshake_runs_into_the_tls_deadline() {
    let receiver = Receiver::start(|listener| wait_for_hang_up(&mut listener.accept().unwrap().0));
    let sender = hurried(Deadlines { tls: SOON, ..PATIENT });
    receiver.check_tls_failure("127.0.0.1", &sender, Class::Timeout, "timed out during the TLS handshake").await;
}

#[tokio::test]
async fn the_wait_for_a_connection_counts_too() {
    let receiver = answering("");
    let deadlines = Deadlines { total: SOON, ..PATIENT };
    let sender = Sender::new(SenderConfig { connections_per_host: 1, deadlines, ..loopback() }).unwrap();
    // The first one keeps the only connection until well after the second has given up.
    let longer = Request { patience: Some(SOON * 10), ..post(receiver.url(), "{}") };
    let (first, second) = tokio::join!(sender.send(longer), sender.send(post(receiver.url(), "{}")));
    check_failure(first, Class::Timeout, "timed out waiting for the reply");
    check_failure(second, Class::Timeout, "timed out waiting for a free connection to the receiver");
    receiver.end();
}

#[tokio::test]
async fn a_caller_that_stops_waiting_closes_the_connection() {
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let receiver = after_request(move |mut stream| {
        begun.send(()).unwrap();
        wait_for_hang_up(&mut stream);
    });
    let sender = hurried(PATIENT);
    tokio::select! {
        sent = sender.send(post(receiver.url(), "{}")) => panic!("{sent:?}"),
        seen = has_begun => seen.unwrap(),
    }
    receiver.end();
}

/// Writes `piece` repeatedly until the sender closes the connection.
fn drip(stream: &mut impl Write, piece: &[u8]) {
    loop {
        match stream.write_all(piece) {
            Ok(()) => std::thread::yield_now(),
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{error}");
                return;
            }
        }
    }
}
