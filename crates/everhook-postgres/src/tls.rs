//! TLS to the server. `sslmode=require` and `verify-full` verify the certificate and the host name, against the roots
//! of the system or those in the file `sslrootcert`. `prefer`, the default, encrypts if the server offers it and
//! verifies nothing, because it also accepts a connection without encryption.

use std::fmt;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use everhook_store::error::BoxError;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

use crate::error::PostgresOpenError;

/// Makes TLS connections, all with the same settings.
#[derive(Clone)]
pub(crate) struct MakeTls(Arc<ClientConfig>);

impl MakeTls {
    pub(crate) fn new(mode: SslMode, roots: Option<RootCertStore>) -> Result<MakeTls, Error> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder =
            ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
        let config = match (mode, roots) {
            (SslMode::Require, Some(roots)) => builder.with_root_certificates(roots).with_no_client_auth(),
            (SslMode::Require, None) => builder.with_platform_verifier()?.with_no_client_auth(),
            _ => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Unverified(provider)))
                .with_no_client_auth(),
        };
        Ok(MakeTls(Arc::new(config)))
    }
}

/// Reads the root certificates in a PEM file.
pub(crate) fn read_roots(path: &Path) -> Result<RootCertStore, PostgresOpenError> {
    let bad = |source: BoxError| PostgresOpenError::Roots { path: path.display().to_string(), source };
    let pem = std::fs::read(path).map_err(|error| bad(error.into()))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let added = roots.add(certificate.map_err(|error| bad(error.into()))?);
        added.map_err(|error| bad(error.into()))?;
    }
    if roots.is_empty() { Err(bad("the file has no certificate".into())) } else { Ok(roots) }
}

impl MakeTlsConnect<Socket> for MakeTls {
    type Stream = Stream;
    type TlsConnect = Tls;
    type Error = rustls::pki_types::InvalidDnsNameError;

    fn make_tls_connect(&mut self, host: &str) -> Result<Tls, Self::Error> {
        let host = ServerName::try_from(host.to_owned())?;
        Ok(Tls { connector: TlsConnector::from(Arc::clone(&self.0)), host })
    }
}

/// A handshake to perform.
pub(crate) struct Tls {
    connector: TlsConnector,
    host: ServerName<'static>,
}

impl TlsConnect<Socket> for Tls {
    type Stream = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move { self.connector.connect(self.host, socket).await.map(|stream| Stream(Box::new(stream))) })
    }
}

pub(crate) struct Stream(Box<tokio_rustls::client::TlsStream<Socket>>);

impl TlsStream for Stream {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Accepts every certificate, but still checks that the peer has its key.
struct Unverified(Arc<CryptoProvider>);

impl fmt::Debug for Unverified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unverified")
    }
}

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests;
