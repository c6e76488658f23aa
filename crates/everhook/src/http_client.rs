//! One HTTP request of a command: to the server that the operator chose, or to a program on this machine.
//!
//! Deliveries do not use this client. The sender restricts their addresses; here the operator chooses one address.

use std::sync::Arc;

use anyhow::Context;
use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Connects to the host of `url`, sends the request, and waits for the head of the reply. Callers set a deadline.
pub(crate) async fn send(url: &Uri, request: Request<Full<Bytes>>) -> anyhow::Result<Response<Incoming>> {
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_encrypted = url.scheme_str() == Some("https");
    let port = url.port_u16().unwrap_or(if is_encrypted { 443 } else { 80 });
    let stream = TcpStream::connect((host, port)).await?;
    if !is_encrypted {
        return exchange(stream, request).await;
    }
    let name = ServerName::try_from(host.to_owned())?;
    let stream = connector()?.connect(name, stream).await?;
    exchange(stream, request).await
}

fn connector() -> anyhow::Result<TlsConnector> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = builder.with_platform_verifier().context("could not read the system's certificates")?;
    Ok(TlsConnector::from(Arc::new(config.with_no_client_auth())))
}

/// Sends one request and waits for the reply, while the connection runs in its own task.
async fn exchange<S>(stream: S, request: Request<Full<Bytes>>) -> anyhow::Result<Response<Incoming>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    #[expect(clippy::disallowed_methods, reason = "the task ends with the command")]
    tokio::spawn(connection);
    Ok(sender.send_request(request).await?)
}
