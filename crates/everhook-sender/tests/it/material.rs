//! Client certificates and authorities of endpoints. The test authority signed all certificates in
//! `certificates/*.pem`.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use everhook_core::endpoint_auth::EndpointAuth;
use everhook_core::outcome::Class;
use everhook_sender::{BadMaterial, Request, check_ca, check_identity};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use crate::receiver::{OK, Receiver, read_request};
use crate::{check_failure, check_reply, post, sender};

const CA: &str = include_str!("certificates/ca.pem");
const SERVER: &str = include_str!("certificates/server.pem");
const EXPIRED: &str = include_str!("certificates/expired.pem");
const CLIENT: &str = include_str!("certificates/client.pem");

fn roots() -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(CA.as_bytes()).unwrap()).unwrap();
    Arc::new(roots)
}

fn accept(listener: &TcpListener, pem: &str, demands: bool) -> StreamOwned<ServerConnection, TcpStream> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().unwrap();
    let builder = if demands {
        let verifier = WebPkiClientVerifier::builder_with_provider(roots(), provider).build().unwrap();
        builder.with_client_cert_verifier(verifier)
    } else {
        builder.with_no_client_auth()
    };
    let chain = vec![CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()];
    let config = builder.with_single_cert(chain, PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
    let (stream, _) = listener.accept().unwrap();
    StreamOwned::new(ServerConnection::new(Arc::new(config)).unwrap(), stream)
}

/// Answers one request on each of `connections` connections; returns how many clients had a certificate.
fn receiver(pem: &'static str, demands: bool, connections: usize) -> Receiver<usize> {
    Receiver::start(move |listener| {
        let answer = |_| {
            let mut stream = accept(&listener, pem, demands);
            read_request(&mut stream);
            stream.write_all(OK.as_bytes()).unwrap();
            stream.flush().unwrap();
            usize::from(stream.conn.peer_certificates().is_some())
        };
        (0..connections).map(answer).sum()
    })
}

fn with(url: String, identity: Option<&str>, ca: Option<&str>) -> Request {
    let [identity, ca] = [identity, ca].map(|text| text.map(str::to_owned));
    let auth = EndpointAuth { identity, ca, ..EndpointAuth::default() };
    Request { auth: Some(Arc::new(auth)), ..post(url, "{}") }
}

#[tokio::test]
async fn an_own_authority_replaces_those_of_the_system() {
    let receiver = receiver(SERVER, false, 1);
    let url = format!("https://localhost:{}/", receiver.port);
    check_reply(sender().send(with(url, None, Some(CA))).await, 200, "ok");
    assert_eq!(receiver.end(), 0);
}

#[tokio::test]
async fn a_receiver_that_demands_a_certificate_gets_it() {
    let receiver = receiver(SERVER, true, 1);
    let url = format!("https://localhost:{}/", receiver.port);
    check_reply(sender().send(with(url, Some(CLIENT), Some(CA))).await, 200, "ok");
    assert_eq!(receiver.end(), 1);
}

#[tokio::test]
async fn connections_with_other_material_are_not_shared() {
    let receiver = receiver(SERVER, false, 2);
    let (sender, url) = (sender(), format!("https://localhost:{}/", receiver.port));
    check_reply(sender.send(with(url.clone(), None, Some(CA))).await, 200, "ok");
    // The receiver answers each connection once: on a shared connection, this request would fail.
    check_reply(sender.send(with(url, Some(CLIENT), Some(CA))).await, 200, "ok");
    receiver.end();
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    let receiver = Receiver::start(|listener| {
        let mut stream = accept(&listener, EXPIRED, false);
        stream.conn.complete_io(&mut stream.sock).expect_err("the sender does not trust us");
    });
    let url = format!("https://localhost:{}/", receiver.port);
    check_failure(sender().send(with(url, None, Some(CA))).await, Class::Tls, "the certificate has expired");
    receiver.end();
}

#[tokio::test]
async fn material_is_never_left_out() {
    let sent = sender().send(with("http://127.0.0.1:9/".to_owned(), Some(CLIENT), None)).await;
    let detail = "the endpoint has a client certificate or an own CA, but its url is not https";
    check_failure(sent, Class::Tls, detail);
    let sent = sender().send(with("https://127.0.0.1:9/".to_owned(), Some("garbage"), None)).await;
    let detail = "the client certificate or the CA of the endpoint cannot be used; set it again";
    check_failure(sent, Class::Tls, detail);
}

#[test]
fn material_is_checked_before_it_is_stored() {
    assert_eq!(check_identity(CLIENT), Ok(()));
    assert_eq!(check_ca(CA), Ok(()));
    assert_eq!(check_identity(""), Err(BadMaterial::Certificates));
    assert_eq!(check_identity(CA), Err(BadMaterial::Key));
    let (_, key) = SERVER.split_at(SERVER.find("-----BEGIN PRIVATE").unwrap());
    assert_eq!(check_identity(&format!("{CA}{key}")), Err(BadMaterial::Pair));
    assert_eq!(
        check_ca("-----BEGIN CERTIFICATE-----\n%%%%\n-----END CERTIFICATE-----\n"),
        Err(BadMaterial::Certificates)
    );
    assert_eq!(check_ca("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), Err(BadMaterial::Authority));
    assert_eq!(check_ca(&CA.repeat(17)), Err(BadMaterial::Certificates));
}
