//! Receivers that attack the sender: each ends with the right class, in bounded time and memory. `plain`, `deadlines`
//! and `encrypted` have more of them: giant heads and bodies, floods of interim replies, hanging handshakes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use everhook_core::limits::REPLY_BYTES_MAX;
use everhook_core::outcome::Class;

use crate::receiver::{Receiver, after_request, answering, wait_for_hang_up};
use crate::{Deadlines, PATIENT, SOON, hurried, post, sender};

const BROKE: &str = "the connection broke before the reply was complete";

fn reset(stream: &TcpStream) {
    // A linger time of zero turns the close into a reset.
    socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO)).unwrap();
}

#[tokio::test]
async fn a_head_that_drips_runs_into_the_deadline_however_steadily_it_drips() {
    let receiver = after_request(|mut stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nx: ").unwrap();
        // Each byte comes long before any deadline of its own.
        stream.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        while !matches!(stream.read(&mut [0]), Ok(0)) {
            if stream.write_all(b"y").is_err() {
                break;
            }
        }
    });
    let sender = hurried(Deadlines { first_byte: SOON, ..PATIENT });
    receiver.check_failure(&sender, Class::Timeout, "timed out waiting for the reply").await;
}

#[tokio::test]
async fn replies_with_contradictory_framing_are_refused() {
    // A reply that is taken for an incomplete one fails the test within a second.
    let impatient = hurried(Deadlines { total: SOON * 5, ..PATIENT });
    for head in [
        "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\ncontent-length: 1, 2\r\n\r\nab",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/2 200\r\n\r\n",
        "HTTP/1.1 200 OK\r\nbad header: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx: a\0b\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let receiver = answering(head);
        let failure = impatient.send(post(receiver.url(), "{}")).await.expect_err(head);
        assert_eq!(failure.class, Class::Reset, "{head:?}: {}", failure.detail);
        receiver.end();
    }
}

#[tokio::test]
async fn chunks_that_lie_about_their_length_end_the_reply() {
    for chunks in ["zz\r\nabc", "ffffffffffffffffff\r\nabc", "-1\r\n", "1\r\nabc"] {
        let receiver = answering(format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunks}"));
        receiver.check_failure(&sender(), Class::Reset, BROKE).await;
    }
}

#[tokio::test]
async fn a_flood_of_trailers_ends_long_before_any_deadline() {
    let receiver = after_request(|mut stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n").unwrap();
        while stream.write_all(b"x: y\r\n").is_ok() {}
    });
    receiver.check_failure(&hurried(PATIENT), Class::Reset, BROKE).await;
}

#[tokio::test]
async fn an_endless_body_of_tiny_chunks_is_cut() {
    let receiver = after_request(|mut stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").unwrap();
        while stream.write_all(b"1\r\nx\r\n").is_ok() {}
    });
    let reply = sender().send(post(receiver.url(), "{}")).await.unwrap();
    assert_eq!((reply.status, reply.body.len()), (200, REPLY_BYTES_MAX));
    receiver.end();
}

#[tokio::test]
async fn a_compressed_bomb_is_not_unpacked() {
    // A stored copy of the first bytes is all that a bomb costs.
    let mut bomb =
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 1000000\r\n\r\n\x1f\x8b\x08\x00".to_vec();
    bomb.resize(1_000_000, 0);
    let reply = sender().send(post(answering(bomb).url(), "{}")).await.unwrap();
    assert_eq!((reply.body.len(), &reply.body[..2]), (REPLY_BYTES_MAX, &[0x1f, 0x8b][..]));
}

#[tokio::test]
async fn a_reset_at_each_step_before_the_reply_is_a_failure_of_the_connection() {
    for bytes in [0, 1, 20] {
        let receiver = Receiver::start(move |listener| {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut vec![0; bytes]).unwrap();
            reset(&stream);
        });
        let failure = sender().send(post(receiver.url(), "{}")).await.unwrap_err();
        assert!(matches!(failure.class, Class::Reset | Class::Connect), "{bytes}: {failure:?}");
        receiver.end();
    }
}

#[tokio::test]
async fn a_reset_or_garbage_in_the_handshake_is_a_tls_failure() {
    for garbage in
        [&b""[..], b"\x16\x03\x03\x00\x02\x02\x28", b"\x15\x03\x03\x00\x02\x02\x28", &[0xff; 64], &[0x16; 64]]
    {
        let receiver = Receiver::start(move |listener| {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; 5]).unwrap();
            stream.write_all(garbage).unwrap();
            if garbage.is_empty() {
                reset(&stream);
            } else {
                let _ = stream.shutdown(std::net::Shutdown::Write);
                wait_for_hang_up(&mut stream);
            }
        });
        let failure = sender().send(post(format!("https://127.0.0.1:{}/", receiver.port), "{}")).await.unwrap_err();
        assert_eq!(failure.class, Class::Tls, "{garbage:?}: {}", failure.detail);
        receiver.end();
    }
}

#[tokio::test]
async fn a_reply_before_the_request_is_not_taken_for_an_answer() {
    let receiver = Receiver::start(|listener| {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n").unwrap();
        wait_for_hang_up(&mut stream);
    });
    let failure = sender().send(post(receiver.url(), "{}")).await.unwrap_err();
    assert!(matches!(failure.class, Class::Reset | Class::Connect), "{failure:?}");
    receiver.end();
}
