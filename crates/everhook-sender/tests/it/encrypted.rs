//! TLS with a certificate for `localhost` and its own test root, both valid for a hundred years.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use everhook_core::outcome::Class;
use everhook_sender::{Sender, SenderConfig, SenderError};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::receiver::{Closer, OK, Receiver, answering, read_request};
use crate::{check_failure, check_reply, loopback, post, sender};

const ROOT: &[u8] = include_bytes!("certificates/root.der");
const LOCALHOST: &[u8] = include_bytes!("certificates/localhost.der");
const LOCALHOST_KEY: &[u8] = include_bytes!("certificates/localhost.key.der");

fn trusting() -> Sender {
    Sender::new(SenderConfig { extra_roots: vec![ROOT.to_vec()], ..loopback() }).unwrap()
}

fn accept(listener: &TcpListener) -> StreamOwned<ServerConnection, TcpStream> {
    let key = PrivateKeyDer::try_from(LOCALHOST_KEY).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(LOCALHOST)], key.clone_key())
        .unwrap();
    let (stream, _) = listener.accept().unwrap();
    StreamOwned::new(ServerConnection::new(Arc::new(config)).unwrap(), stream)
}

fn answer(stream: &mut StreamOwned<ServerConnection, TcpStream>) {
    read_request(stream);
    stream.write_all(OK.as_bytes()).unwrap();
    stream.flush().unwrap();
}

/// A connection that closes with or without a TLS close notification.
struct Ending {
    stream: StreamOwned<ServerConnection, TcpStream>,
    polite: bool,
}

impl Drop for Ending {
    fn drop(&mut self) {
        if self.polite {
            self.stream.conn.send_close_notify();
            self.stream.flush().unwrap();
        }
    }
}

/// A receiver whose handshake fails.
fn distrusted() -> Receiver<()> {
    Receiver::start(|listener| {
        let mut stream = accept(&listener);
        stream.conn.complete_io(&mut stream.sock).expect_err("the sender does not trust us");
    })
}

#[tokio::test]
async fn a_trusted_receiver_gets_many_requests_over_one_connection() {
    let receiver = Receiver::start(|listener| {
        let mut stream = accept(&listener);
        (0..10).for_each(|_| answer(&mut stream));
        stream.conn.server_name().map(str::to_owned)
    });
    let sender = trusting();
    for _ in 0..10 {
        check_reply(sender.send(post(format!("https://localhost:{}/", receiver.port), "{}")).await, 200, "ok");
    }
    assert_eq!(receiver.end().as_deref(), Some("localhost"));
}

#[tokio::test]
async fn a_kept_connection_that_the_peer_has_closed_harms_nobody() {
    let (closer, told) = Closer::new();
    let receiver = Receiver::start(move |listener| {
        for polite in [true, false, true] {
            let mut stream = accept(&listener);
            answer(&mut stream);
            told.close(Ending { stream, polite });
        }
    });
    let sender = trusting();
    for _ in 0..3 {
        check_reply(sender.send(post(format!("https://localhost:{}/", receiver.port), "{}")).await, 200, "ok");
        closer.close();
    }
    receiver.end();
}

#[tokio::test]
async fn an_unknown_authority_is_refused() {
    let receiver = distrusted();
    receiver
        .check_tls_failure("localhost", &sender(), Class::Tls, "the certificate is from an unknown authority")
        .await;
}

#[tokio::test]
async fn a_certificate_for_another_host_is_refused() {
    let receiver = distrusted();
    receiver.check_tls_failure("127.0.0.1", &trusting(), Class::Tls, "the certificate is for another host").await;
}

#[tokio::test]
async fn a_plain_text_port_is_a_tls_failure() {
    let receiver = Receiver::start(|listener| {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        crate::receiver::wait_for_hang_up(&mut stream);
    });
    receiver
        .check_tls_failure("127.0.0.1", &trusting(), Class::Tls, "the receiver does not speak TLS on this port")
        .await;
}

#[tokio::test]
async fn a_connection_that_ends_in_the_handshake_is_a_tls_failure() {
    let receiver = Receiver::start(|listener| drop(listener.accept().unwrap()));
    receiver
        .check_tls_failure("127.0.0.1", &trusting(), Class::Tls, "the connection broke during the TLS handshake")
        .await;
}

#[tokio::test]
async fn https_never_falls_back_to_http() {
    // The receiver answers in plain text and must not see the request.
    let receiver = answering(OK);
    let config = SenderConfig { deadlines: crate::Deadlines { tls: crate::SOON, ..crate::PATIENT }, ..loopback() };
    let sent = Sender::new(config).unwrap().send(post(format!("https://localhost:{}/", receiver.port), "{}")).await;
    check_failure(sent, Class::Timeout, "timed out during the TLS handshake");
}

#[test]
fn an_unreadable_root_is_told_at_once() {
    let made = Sender::new(SenderConfig { extra_roots: vec![b"no certificate".to_vec()], ..loopback() });
    assert!(matches!(made, Err(SenderError::Tls(_))));
}
