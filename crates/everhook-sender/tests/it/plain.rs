//! Requests on the wire, and interpretation of replies.

use std::io::Write;

use bytes::Bytes;
use everhook_core::limits::REPLY_BYTES_MAX;
use everhook_core::outcome::Class;
use everhook_sender::Request;
use http::{HeaderMap, HeaderValue, Method};

use crate::receiver::{OK, after_request, answering};
use crate::{check_failure, check_reply, post, sender};

#[tokio::test]
async fn body_and_headers_arrive_as_given() {
    let receiver = answering(OK);
    let body: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let mut headers = HeaderMap::new();
    headers.insert("webhook-id", HeaderValue::from_static("msg_1"));
    headers.append("x-twice", HeaderValue::from_static("a"));
    headers.append("x-twice", HeaderValue::from_static("b"));
    let sender = sender();
    check_reply(
        sender
            .send(Request {
                method: Method::POST,
                url: receiver.url(),
                headers,
                body: body.clone().into(),
                patience: None,
                auth: None,
            })
            .await,
        200,
        "ok",
    );
    drop(sender);
    let port = receiver.port;
    let seen = receiver.end();
    assert_eq!(seen.body, body);
    let mut lines: Vec<_> = seen.head.trim_end().lines().map(str::to_owned).collect();
    assert_eq!(lines.remove(0), "POST /hook?a=b HTTP/1.1");
    lines.sort();
    let host = format!("host: 127.0.0.1:{port}");
    let want =
        ["accept-encoding: identity", "content-length: 100000", &host, "webhook-id: msg_1", "x-twice: a", "x-twice: b"];
    assert_eq!(lines, want);
}

#[tokio::test]
async fn framing_and_host_are_not_the_callers_to_set() {
    let receiver = answering(OK);
    let mut headers = HeaderMap::new();
    for (name, value) in [("host", "other"), ("content-length", "1"), ("transfer-encoding", "chunked")] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    for (name, value) in [("connection", "upgrade"), ("expect", "100-continue"), ("accept-encoding", "gzip")] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let sender = sender();
    let request = Request {
        method: Method::POST,
        url: receiver.url(),
        headers,
        body: Bytes::from_static(b"{}"),
        patience: None,
        auth: None,
    };
    check_reply(sender.send(request).await, 200, "ok");
    drop(sender);
    let seen = receiver.end();
    assert_eq!(seen.body, b"{}");
    for word in ["other", "chunked", "upgrade", "100-continue", "gzip"] {
        assert!(!seen.head.contains(word), "{word} in {}", seen.head);
    }
}

#[tokio::test]
async fn an_empty_body_has_a_length_too() {
    let receiver = answering(OK);
    let sender = sender();
    check_reply(sender.send(post(receiver.url(), "")).await, 200, "ok");
    drop(sender);
    assert_eq!(receiver.end().body, b"");
}

#[tokio::test]
async fn a_reply_may_be_chunked_or_end_with_the_connection() {
    let chunked = "HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n";
    check_reply(sender().send(post(answering(chunked).url(), "{}")).await, 201, "abcde");
    let receiver = after_request(|mut stream| {
        stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nuntil the end").unwrap();
    });
    check_reply(sender().send(post(receiver.url(), "{}")).await, 200, "until the end");
}

#[tokio::test]
async fn a_redirect_is_a_reply_and_not_followed() {
    let reply = "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n";
    check_reply(sender().send(post(answering(reply).url(), "{}")).await, 302, "");
}

#[tokio::test]
async fn retry_after_is_passed_on_unread() {
    let reply = "HTTP/1.1 503 Busy\r\nretry-after: 120\r\ncontent-length: 0\r\n\r\n";
    let reply = sender().send(post(answering(reply).url(), "{}")).await.unwrap();
    assert_eq!((reply.status, reply.retry_after.as_deref()), (503, Some("120")));
}

#[tokio::test]
async fn interim_replies_are_skipped() {
    let reply = format!("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n{OK}");
    check_reply(sender().send(post(answering(reply).url(), "{}")).await, 200, "ok");
}

#[tokio::test]
async fn a_reply_may_have_some_interim_replies_and_a_large_body() {
    let interim = format!("HTTP/1.1 102 Processing\r\nx: {}\r\n\r\n", "y".repeat(1_000)).repeat(20);
    let body = "z".repeat(10_000_000);
    let reply = format!("{interim}HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let reply = sender().send(post(answering(reply).url(), "{}")).await.unwrap();
    assert_eq!((reply.status, reply.body.len()), (200, REPLY_BYTES_MAX));
}

#[tokio::test]
async fn a_compressed_reply_is_kept_as_it_came() {
    let mut reply = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\n".to_vec();
    reply.extend([0x1f, 0x8b, 8, 0]);
    let reply = sender().send(post(answering(reply).url(), "{}")).await.unwrap();
    assert_eq!(&reply.body[..], [0x1f, 0x8b, 8, 0]);
}

#[tokio::test]
async fn of_a_giant_reply_the_beginning_is_kept_and_the_rest_not_read() {
    let mut giant = b"HTTP/1.1 500 Oh\r\ncontent-length: 1000000000\r\n\r\n".to_vec();
    giant.resize(20_000_000, b'x');
    let receiver = answering(giant);
    let sender = sender();
    let reply = sender.send(post(receiver.url(), "{}")).await.unwrap();
    assert_eq!((reply.status, reply.body.len()), (500, REPLY_BYTES_MAX));
    // The script ends only when the sender has closed the connection, although the sender still exists.
    receiver.end();
    drop(sender);
}

#[tokio::test]
async fn a_giant_head_is_no_reply() {
    let too_large = "the reply is not HTTP/1.1, or its head is too large";
    let long = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(100_000));
    check_failure(sender().send(post(answering(long).url(), "{}")).await, Class::Reset, too_large);
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(1000));
    check_failure(sender().send(post(answering(many).url(), "{}")).await, Class::Reset, too_large);
    check_failure(sender().send(post(answering("SSH-2.0-x\r\n").url(), "{}")).await, Class::Reset, too_large);
}

#[tokio::test]
async fn a_connection_that_breaks_under_the_reply_is_a_reset() {
    for said in ["", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"] {
        let receiver = after_request(move |mut stream| {
            stream.write_all(said.as_bytes()).unwrap();
            // A linger time of zero turns the close into a reset.
            socket2::SockRef::from(&stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
        });
        let sent = sender().send(post(receiver.url(), "{}")).await;
        check_failure(sent, Class::Reset, "the connection broke before the reply was complete");
    }
}

#[tokio::test]
async fn nobody_listening_is_a_failure_to_connect() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    check_failure(sender().send(post(url, "{}")).await, Class::Connect, "the connection was refused");
}
