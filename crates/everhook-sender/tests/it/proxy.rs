//! Requests through an egress proxy.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use everhook_core::outcome::{Blame, Class, SendFailure};
use everhook_sender::{Egress, Proxy, Sender, SenderConfig};

use crate::receiver::{OK, Receiver, Seen, read_request};
use crate::{check_failure, check_reply, loopback, post};

/// Reads the head of a CONNECT request.
fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

/// A proxy that answers the first request with `answer`, then plays the receiver if the tunnel is open.
fn proxy(answer: &'static str) -> Receiver<(String, Option<Seen>)> {
    Receiver::start(move |listener: TcpListener| {
        let (mut stream, _) = listener.accept().unwrap();
        let head = read_head(&mut stream);
        stream.write_all(answer.as_bytes()).unwrap();
        if !answer.contains(" 200 ") {
            return (head, None);
        }
        let seen = read_request(&mut stream);
        stream.write_all(OK.as_bytes()).unwrap();
        (head, Some(seen))
    })
}

fn through(address: &str, resolves: bool, egress: Egress) -> Sender {
    let proxy = address.parse::<Proxy>().unwrap().resolving(resolves);
    Sender::new(SenderConfig { proxy: Some(proxy), egress, ..loopback() }).unwrap()
}

#[tokio::test]
async fn the_proxy_gets_the_checked_address_and_its_credentials() {
    let proxy = proxy("HTTP/1.1 200 Connection established\r\nvia: test\r\n\r\n");
    let sender = through(&format!("http://us%40er:pass@127.0.0.1:{}", proxy.port), false, Egress::default());
    check_reply(sender.send(post("http://8.8.8.8:8080/hook".to_owned(), "{}")).await, 200, "ok");
    let (head, seen) = proxy.end();
    assert_eq!(
        head,
        "CONNECT 8.8.8.8:8080 HTTP/1.1\r\nhost: 8.8.8.8:8080\r\nproxy-authorization: Basic dXNAZXI6cGFzcw==\r\n\r\n"
    );
    let seen = seen.unwrap();
    assert!(seen.head.starts_with("POST /hook HTTP/1.1\r\n"), "{}", seen.head);
    assert!(!seen.head.contains("proxy-authorization"), "{}", seen.head);
}

#[tokio::test]
async fn a_proxy_that_resolves_gets_the_name() {
    let proxy = proxy("HTTP/1.1 200 OK\r\n\r\n");
    let sender = through(&format!("http://localhost:{}", proxy.port), true, Egress::default());
    check_reply(sender.send(post("http://hooks.test./".to_owned(), "{}")).await, 200, "ok");
    assert!(proxy.end().0.starts_with("CONNECT hooks.test:80 HTTP/1.1\r\n"));
}

#[tokio::test]
async fn the_rules_hold_before_the_proxy_is_asked() {
    let canary = TcpListener::bind("127.0.0.1:0").unwrap();
    canary.set_nonblocking(true).unwrap();
    let address = format!("http://{}", canary.local_addr().unwrap());
    for resolves in [true, false] {
        let sender = through(&address, resolves, Egress::default());
        for url in ["http://127.0.0.1/", "http://169.254.169.254/", "http://localhost/", "http://8.8.8.8:25/"] {
            let failure = sender.send(post(url.to_owned(), "{}")).await.unwrap_err();
            assert_eq!(failure.class, Class::Blocked, "{url}");
        }
    }
    assert!(canary.accept().is_err(), "no connection");
}

#[tokio::test]
async fn answers_of_the_proxy_are_told_apart() {
    for (answer, class, detail) in [
        ("HTTP/1.1 403 Forbidden\r\n\r\n", Class::Blocked, "the egress proxy refuses connections to the receiver"),
        ("HTTP/1.1 407 No\r\n\r\n", Class::Connect, "the egress proxy refuses the credentials of this server"),
        ("HTTP/1.0 502 Bad\r\n\r\n", Class::Connect, "the egress proxy could not connect to the receiver"),
        ("SSH-2.0-x\r\n\r\n", Class::Connect, "the egress proxy does not answer in HTTP"),
    ] {
        let proxy = proxy(answer);
        let sender = through(&format!("http://127.0.0.1:{}", proxy.port), false, Egress::default());
        check_failure(sender.send(post("http://8.8.8.8/".to_owned(), "{}")).await, class, detail);
        proxy.end();
    }
}

#[tokio::test]
async fn a_proxy_that_is_down_is_not_the_receivers_fault() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let sender = through(&format!("http://127.0.0.1:{port}"), false, Egress::default());
    let failure = SendFailure::new(Class::Connect, "this node cannot reach the egress proxy");
    let want = Err(SendFailure { blame: Blame::Node, ..failure });
    assert_eq!(sender.send(post("http://8.8.8.8/".to_owned(), "{}")).await, want);
}

#[test]
fn other_forms_of_a_proxy_are_refused() {
    for text in ["", "proxy:1", "https://proxy:1", "socks5://proxy:1", "http://proxy/path", "http://proxy?x", "http://"]
    {
        assert!(text.parse::<Proxy>().is_err(), "{text}");
    }
    let shown = format!("{:?}", "http://user:secret@proxy:4750".parse::<Proxy>().unwrap());
    assert_eq!(shown, "Proxy(proxy:4750)");
}
