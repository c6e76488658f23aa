//! The steps of a request, as the sender notes them.

use std::io::Write;
use std::net::TcpListener;

use everhook_core::exchange::{Exchange, ReplyHeader};
use everhook_core::outcome::Class;

use crate::receiver::{OK, Receiver, read_request};
use crate::{check_reply, post, sender};

/// The names of the noted steps.
fn steps(exchange: &Exchange) -> Vec<&'static str> {
    let Exchange { wait, dns, connect, tls, first_byte, body, .. } = exchange;
    let reply = [("first byte", first_byte), ("body", body)];
    let steps = [("wait", wait), ("dns", dns), ("connect", connect), ("tls", tls)].into_iter().chain(reply);
    steps.filter(|(_, span)| span.is_some()).map(|(name, _)| name).collect()
}

#[tokio::test]
async fn a_kept_connection_has_neither_connection_nor_handshake() {
    let receiver = Receiver::start(|listener| {
        let (mut stream, _) = listener.accept().unwrap();
        for _ in 0..2 {
            read_request(&mut stream);
            stream.write_all(OK.as_bytes()).unwrap();
        }
    });
    let (sender, mut first, mut second) = (sender(), Exchange::default(), Exchange::default());
    check_reply(sender.send_noting(post(receiver.url(), "{}"), &mut first).await, 200, "ok");
    check_reply(sender.send_noting(post(receiver.url(), "{}"), &mut second).await, 200, "ok");
    receiver.end();
    assert_eq!((first.reused, steps(&first)), (false, vec!["connect", "first byte", "body"]));
    assert_eq!((second.reused, steps(&second)), (true, vec!["first byte", "body"]));
    assert_eq!(second.headers, [ReplyHeader("content-length".into(), Some("2".to_owned()))]);
}

#[tokio::test]
async fn a_failed_request_shows_how_far_it_came() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut refused = Exchange::default();
    let sent = sender().send_noting(post(format!("http://127.0.0.1:{port}/"), "{}"), &mut refused).await;
    assert_eq!(sent.unwrap_err().class, Class::Connect);
    assert_eq!(steps(&refused), ["connect"]);

    let receiver = Receiver::start(|listener| drop(listener.accept().unwrap()));
    let mut broken = Exchange::default();
    let sent = sender().send_noting(post(receiver.url().replace("http://", "https://"), "{}"), &mut broken).await;
    assert_eq!(sent.unwrap_err().class, Class::Tls);
    assert_eq!(steps(&broken), ["connect", "tls"]);
    receiver.end();

    let mut blocked = Exchange::default();
    let sent = sender().send_noting(post("http://10.0.0.1/".to_owned(), "{}"), &mut blocked).await;
    assert_eq!(sent.unwrap_err().class, Class::Blocked);
    assert_eq!(blocked, Exchange::default());
}
