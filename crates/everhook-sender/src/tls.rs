//! The TLS client: TLS 1.2 and 1.3, roots of the system and of the operator, only HTTP/1.1.

use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;
use tokio_rustls::TlsConnector;
use tracing::warn;

/// Returns a connector that trusts the system's roots and `extra_roots` (DER).
///
/// A system without roots is no error, because plain http still works. Every https handshake fails as untrusted.
pub(crate) fn connector(extra_roots: Vec<Vec<u8>>) -> Result<TlsConnector, rustls::Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let extra: Vec<_> = extra_roots.into_iter().map(CertificateDer::from).collect();
    let has_extra = !extra.is_empty();
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let builder = match Verifier::new_with_extra_roots(extra, provider) {
        Ok(verifier) => builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)),
        Err(error) if has_extra => return Err(error),
        Err(error) => {
            warn!(%error, "no root certificates found on this system: every https request will fail");
            builder.with_root_certificates(RootCertStore::empty())
        }
    };
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}
