//! Real handshakes with a server that speaks the beginning of the protocol.

use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpListener;

use super::*;
use crate::connection::{Connector, Route, settings};

const SERVER: &str = include_str!("../../../everhook-sender/tests/it/certificates/server.pem");
const EXPIRED: &str = include_str!("../../../everhook-sender/tests/it/certificates/expired.pem");
const AUTHORITY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../everhook-sender/tests/it/certificates/ca.pem");
const STRANGER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../everhook-sender/tests/it/certificates/client.pem");

/// Starts a server that accepts TLS with the certificate in `pem` and then refuses the user. Returns its port.
fn server(pem: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap();
    let chain = vec![CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()];
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let config = Arc::new(config);
    std::thread::spawn(move || {
        while let Ok((mut tcp, _)) = listener.accept() {
            // The request for TLS has eight bytes; `S` agrees.
            if tcp.read_exact(&mut [0; 8]).is_err() || tcp.write_all(b"S").is_err() {
                continue;
            }
            let mut stream = StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), tcp);
            let mut start = [0; 4];
            if stream.read_exact(&mut start).is_err() {
                continue;
            }
            let message = b"SFATAL\0C28000\0Mrefused by the test\0\0";
            let mut reply = vec![b'E'];
            reply.extend(u32::try_from(message.len() + 4).unwrap().to_be_bytes());
            reply.extend(message);
            let _ = stream.write_all(&reply).and_then(|()| stream.flush());
        }
    });
    port
}

/// Returns `refused` if the handshake succeeded and the server answered, otherwise the error.
async fn connect(url: &str) -> String {
    let config = settings(url, Route::Direct).unwrap();
    let failed = match Connector::new(url, &config) {
        Ok(connector) => connector.open_now(&config).await.map(drop).unwrap_err(),
        Err(error) => error,
    };
    let causes = std::iter::successors(Some(&failed as &dyn std::error::Error), |cause| cause.source());
    let text = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
    if text.contains("refused by the test") { "refused".to_owned() } else { text }
}

#[tokio::test]
async fn the_certificate_of_the_server_is_verified_against_the_given_roots() {
    let port = server(SERVER);
    for mode in ["verify-full", "require"] {
        let url = |host: &str, roots: &str| format!("postgres://me@{host}:{port}/x?sslmode={mode}&sslrootcert={roots}");
        assert_eq!(connect(&url("localhost", AUTHORITY)).await, "refused");
        let other_host = connect(&url("127.0.0.1", AUTHORITY)).await;
        assert!(other_host.contains("certificate"), "{other_host}");
        let stranger = connect(&url("localhost", STRANGER)).await;
        assert!(stranger.contains("certificate"), "{stranger}");
        let system = connect(&format!("postgres://me@localhost:{port}/x?sslmode={mode}")).await;
        assert!(system.contains("certificate"), "{system}");
    }
    assert_eq!(connect(&format!("postgres://me@localhost:{port}/x")).await, "refused", "nothing is verified");
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    let port = server(EXPIRED);
    let url = format!("postgres://me@localhost:{port}/x?sslmode=verify-full&sslrootcert={AUTHORITY}");
    let error = connect(&url).await;
    assert!(error.contains("certificate expired") || error.contains("Expired"), "{error}");
}

#[tokio::test]
async fn roots_that_cannot_be_read_are_named() {
    let error = connect("postgres://db/x?sslmode=verify-full&sslrootcert=/nonexistent/ca.pem").await;
    assert!(error.starts_with("could not read certificates in PEM from /nonexistent/ca.pem"), "{error}");
    let error = connect("postgres://db/x?sslmode=verify-full&sslrootcert=/dev/null").await;
    assert!(error.contains("the file has no certificate"), "{error}");
}
