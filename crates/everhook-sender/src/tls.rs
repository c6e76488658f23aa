//! The TLS client: TLS 1.2 and 1.3, roots of the system and of the operator, only HTTP/1.1.
//!
//! Endpoints may have a client certificate, and authorities that replace the roots.

use std::sync::Arc;

use everhook_core::endpoint_auth::EndpointAuth;
use rustls::client::WantsClientCert;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};
use rustls_platform_verifier::Verifier;
use tokio_rustls::TlsConnector;
use tracing::warn;

/// Certificates in one list of authorities, and in one chain.
const CERTIFICATES_MAX: usize = 16;

/// Makes connectors that share the roots.
pub(crate) struct Tls {
    provider: Arc<CryptoProvider>,
    /// None on a system without roots.
    verifier: Option<Arc<Verifier>>,
    /// For requests without material of their own.
    pub(crate) shared: TlsConnector,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadMaterial {
    #[error("must be PEM with 1 to {CERTIFICATES_MAX} certificates")]
    Certificates,
    #[error("must have one private key without a password, in PEM (PKCS #8, PKCS #1 or SEC 1)")]
    Key,
    #[error("must have a private key that belongs to its first certificate")]
    Pair,
    #[error("must have certificates of authorities")]
    Authority,
}

/// Checks a client certificate with its chain and private key.
pub fn check_identity(pem: &str) -> Result<(), BadMaterial> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = builder(provider).map_err(|_| BadMaterial::Pair)?;
    with_identity(builder.with_root_certificates(RootCertStore::empty()), Some(pem)).map(drop)
}

/// Checks a list of authorities.
pub fn check_ca(pem: &str) -> Result<(), BadMaterial> {
    authorities(pem).map(drop)
}

impl Tls {
    /// Trusts the system's roots and `extra_roots` (DER).
    ///
    /// A system without roots is no error, because plain http still works. Every https handshake fails as untrusted.
    pub(crate) fn new(extra_roots: Vec<Vec<u8>>) -> Result<Tls, rustls::Error> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let extra: Vec<_> = extra_roots.into_iter().map(CertificateDer::from).collect();
        let has_extra = !extra.is_empty();
        let verifier = match Verifier::new_with_extra_roots(extra, provider.clone()) {
            Ok(verifier) => Some(Arc::new(verifier)),
            Err(error) if has_extra => return Err(error),
            Err(error) => {
                warn!(%error, "no root certificates found on this system: every https request will fail");
                None
            }
        };
        let config = trusting(builder(provider.clone())?, verifier.clone()).with_no_client_auth();
        Ok(Tls { provider, verifier, shared: connector(config) })
    }

    /// Returns a connector with the material of an endpoint.
    pub(crate) fn own(&self, auth: &EndpointAuth) -> Result<TlsConnector, BadMaterial> {
        let builder = builder(self.provider.clone()).map_err(|_| BadMaterial::Pair)?;
        let builder = match &auth.ca {
            Some(ca) => builder.with_root_certificates(authorities(ca)?),
            None => trusting(builder, self.verifier.clone()),
        };
        with_identity(builder, auth.identity.as_deref()).map(connector)
    }
}

fn builder(provider: Arc<CryptoProvider>) -> Result<ConfigBuilder<ClientConfig, rustls::WantsVerifier>, rustls::Error> {
    ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()
}

fn trusting(
    builder: ConfigBuilder<ClientConfig, rustls::WantsVerifier>,
    verifier: Option<Arc<Verifier>>,
) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    match verifier {
        Some(verifier) => builder.dangerous().with_custom_certificate_verifier(verifier),
        None => builder.with_root_certificates(RootCertStore::empty()),
    }
}

fn with_identity(
    builder: ConfigBuilder<ClientConfig, WantsClientCert>,
    pem: Option<&str>,
) -> Result<ClientConfig, BadMaterial> {
    let Some(pem) = pem else { return Ok(builder.with_no_client_auth()) };
    let chain = certificates(pem)?;
    let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| BadMaterial::Key)?;
    builder.with_client_auth_cert(chain, key).map_err(|_| BadMaterial::Pair)
}

fn authorities(pem: &str) -> Result<RootCertStore, BadMaterial> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        roots.add(certificate).map_err(|_| BadMaterial::Authority)?;
    }
    Ok(roots)
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, BadMaterial> {
    let read = CertificateDer::pem_slice_iter(pem.as_bytes()).take(CERTIFICATES_MAX + 1).collect::<Result<Vec<_>, _>>();
    let certificates = read.map_err(|_| BadMaterial::Certificates)?;
    if (1..=CERTIFICATES_MAX).contains(&certificates.len()) { Ok(certificates) } else { Err(BadMaterial::Certificates) }
}

fn connector(mut config: ClientConfig) -> TlsConnector {
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    TlsConnector::from(Arc::new(config))
}
