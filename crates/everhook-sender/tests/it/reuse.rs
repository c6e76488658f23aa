//! Connections that carry several requests.

use std::io::Write;
use std::sync::mpsc;

use everhook_core::outcome::Class;
use everhook_sender::{Sender, SenderConfig};

use crate::receiver::{Closer, OK, Receiver, read_request, wait_for_hang_up};
use crate::{check_failure, check_reply, loopback, post, sender};

/// Answers the scripted number of requests on each connection, then closes it on request, or when the `Closer` is gone.
fn closing_after(requests: &'static [usize]) -> (Receiver<()>, Closer) {
    let (closer, told) = Closer::new();
    let receiver = Receiver::start(move |listener| {
        for count in requests {
            let (mut stream, _) = listener.accept().unwrap();
            for _ in 0..*count {
                read_request(&mut stream);
                stream.write_all(OK.as_bytes()).unwrap();
            }
            told.close(stream);
        }
    });
    (receiver, closer)
}

#[tokio::test]
async fn one_connection_carries_many_requests() {
    let (receiver, _) = closing_after(&[100]);
    let sender = sender();
    for _ in 0..100 {
        check_reply(sender.send(post(receiver.url(), "{}")).await, 200, "ok");
    }
    receiver.end();
}

#[tokio::test]
async fn other_paths_of_a_host_share_its_connection() {
    let (receiver, _) = closing_after(&[2]);
    let sender = sender();
    check_reply(sender.send(post(receiver.url(), "{}")).await, 200, "ok");
    check_reply(sender.clone().send(post(format!("{}&other", receiver.url()), "{}")).await, 200, "ok");
    receiver.end();
}

#[tokio::test]
async fn a_kept_connection_that_the_peer_has_closed_harms_nobody() {
    let (receiver, closer) = closing_after(&[1, 2, 1]);
    let sender = sender();
    check_reply(sender.send(post(receiver.url(), "{}")).await, 200, "ok");
    closer.close();
    check_reply(sender.send(post(receiver.url(), "{}")).await, 200, "ok");
    check_reply(sender.send(post(receiver.url(), "{}")).await, 200, "ok");
    closer.close();
    tokio::task::yield_now().await;
    check_reply(sender.send(post(receiver.url(), "{}")).await, 200, "ok");
    drop(closer);
    receiver.end();
}

#[tokio::test]
async fn a_connection_on_which_the_peer_speaks_out_of_turn_is_not_used_again() {
    let (ask, asked) = mpsc::channel();
    let (speak, spoken) = mpsc::channel();
    let receiver = Receiver::start(move |listener| {
        let (mut first, _) = listener.accept().unwrap();
        read_request(&mut first);
        first.write_all(OK.as_bytes()).unwrap();
        asked.recv().unwrap();
        // An unsolicited reply must not be taken for the reply to the next request.
        first.write_all(b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n").unwrap();
        speak.send(()).unwrap();
        let (mut second, _) = listener.accept().unwrap();
        read_request(&mut second);
        second.write_all(OK.as_bytes()).unwrap();
    });
    let sender = sender();
    check_reply(sender.send(post(receiver.url(), "{}")).await, 200, "ok");
    ask.send(()).unwrap();
    spoken.recv().unwrap();
    check_reply(sender.send(post(receiver.url(), "{}")).await, 200, "ok");
    receiver.end();
}

#[tokio::test]
async fn a_failure_to_replace_a_closed_connection_is_a_failure_to_connect() {
    let (receiver, closer) = closing_after(&[1]);
    let url = receiver.url();
    let sender = sender();
    check_reply(sender.send(post(url.clone(), "{}")).await, 200, "ok");
    closer.close();
    receiver.end();
    check_failure(sender.send(post(url, "{}")).await, Class::Connect, "the connection was refused");
}

#[tokio::test]
async fn a_request_that_was_read_is_sent_once_even_if_the_connection_is_an_old_one() {
    let receiver = Receiver::start(|listener| {
        let (mut stream, _) = listener.accept().unwrap();
        read_request(&mut stream);
        stream.write_all(OK.as_bytes()).unwrap();
        read_request(&mut stream);
        drop(stream);
        listener.set_nonblocking(true).unwrap();
        listener
    });
    let sender = sender();
    check_reply(sender.send(post(receiver.url(), "{}")).await, 200, "ok");
    let sent = sender.send(post(receiver.url(), "{}")).await;
    check_failure(sent, Class::Reset, "the connection broke before the reply was complete");
    let error = receiver.end().accept().expect_err("no second connection");
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
}

#[tokio::test]
async fn a_peer_that_says_it_closes_is_taken_at_its_word() {
    let replies = [
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nkeep-alive: timeout=0\r\ncontent-length: 2\r\n\r\nok",
    ];
    for reply in replies {
        let receiver = Receiver::start(move |listener| {
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().unwrap();
                read_request(&mut stream);
                stream.write_all(reply.as_bytes()).unwrap();
                wait_for_hang_up(&mut stream);
            }
        });
        let sender = sender();
        check_reply(sender.send(post(receiver.url(), "{}")).await, 200, "ok");
        check_reply(sender.send(post(receiver.url(), "{}")).await, 200, "ok");
        receiver.end();
    }
}

#[tokio::test]
async fn requests_wait_for_a_free_connection() {
    let (receiver, _) = closing_after(&[3]);
    let sender = Sender::new(SenderConfig { connections_per_host: 1, ..loopback() }).unwrap();
    let send = || sender.send(post(receiver.url(), "{}"));
    // Three concurrent requests share one accepted connection.
    let (one, two, three) = tokio::join!(send(), send(), send());
    for sent in [one, two, three] {
        check_reply(sent, 200, "ok");
    }
    receiver.end();
}

#[tokio::test]
async fn nothing_is_kept_where_nothing_may_be() {
    for config in [SenderConfig { idle_per_host: 0, ..loopback() }, SenderConfig { idle_total: 0, ..loopback() }] {
        let receiver = Receiver::start(|listener| {
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().unwrap();
                read_request(&mut stream);
                stream.write_all(OK.as_bytes()).unwrap();
                wait_for_hang_up(&mut stream);
            }
        });
        let sender = Sender::new(config).unwrap();
        check_reply(sender.send(post(receiver.url(), "{}")).await, 200, "ok");
        check_reply(sender.send(post(receiver.url(), "{}")).await, 200, "ok");
        receiver.end();
    }
}
