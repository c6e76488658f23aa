//! TLS of the listener. The certificate and the key are files, which are read again after a change.
//!
//! A renewed certificate needs no restart: new connections use it within seconds, and open connections keep the old
//! one. Files that do not fit together, because one of them is not renewed yet, leave the old certificate in use.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};

use crate::limits::TLS_FILES_CHECKED_EVERY;

/// The files of a server's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate and its chain, in PEM.
    pub certificate: PathBuf,
    /// The private key, in PEM.
    pub key: PathBuf,
}

/// The certificate in use. Clones share it.
#[derive(Clone, Debug)]
pub struct ServerTls {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    files: TlsFiles,
    checked_every: Duration,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    config: Arc<ServerConfig>,
    stamps: [Stamp; 2],
    checked_at: Instant,
}

/// Identifies a version of a file: inode, size and modification time. `None` if the file is missing.
type Stamp = Option<(u64, u64, i64, i64)>;

/// A certificate that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadServerTls {
    /// The file cannot be read.
    #[error("could not read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The file has no certificate.
    #[error("{0} has no certificate in PEM")]
    Certificate(PathBuf),
    /// The file has no usable key.
    #[error("{0} has no private key in PEM; a key with a password cannot be used")]
    Key(PathBuf),
    /// The key does not belong to the certificate.
    #[error("the key in {key} does not belong to the first certificate in {certificate}")]
    Pair {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// The error of the library.
        #[source]
        source: rustls::Error,
    },
}

impl ServerTls {
    /// Reads the files.
    pub fn load(files: TlsFiles) -> Result<ServerTls, BadServerTls> {
        ServerTls::checked_every(files, TLS_FILES_CHECKED_EVERY)
    }

    fn checked_every(files: TlsFiles, checked_every: Duration) -> Result<ServerTls, BadServerTls> {
        let current = Current { stamps: files.stamps(), config: files.read()?, checked_at: now() };
        Ok(ServerTls { shared: Arc::new(Shared { files, checked_every, current: Mutex::new(current) }) })
    }

    /// Returns an acceptor with the current certificate, after a check for changed files every few seconds.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let Shared { files, checked_every, .. } = &*self.shared;
        let mut current = self.lock();
        let now = now();
        if now.duration_since(current.checked_at) >= *checked_every {
            current.checked_at = now;
            files.update(&mut current);
        }
        TlsAcceptor::from(Arc::clone(&current.config))
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.shared.current.lock().expect("nothing panics while it holds this lock")
    }
}

impl TlsFiles {
    fn stamps(&self) -> [Stamp; 2] {
        [stamp(&self.certificate), stamp(&self.key)]
    }

    /// Reads changed files. A failure keeps the old certificate and is tried again at the next check.
    fn update(&self, current: &mut Current) {
        let stamps = self.stamps();
        if stamps == current.stamps {
            return;
        }
        match self.read() {
            Ok(config) => {
                info!("read the changed certificate in {}", self.certificate.display());
                (current.config, current.stamps) = (config, stamps);
            }
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                warn!(error, "could not read the changed certificate; the previous one stays in use");
            }
        }
    }

    fn read(&self) -> Result<Arc<ServerConfig>, BadServerTls> {
        let TlsFiles { certificate, key } = self;
        let read =
            |path: &Path| std::fs::read(path).map_err(|source| BadServerTls::Read { path: path.to_owned(), source });
        let chain = CertificateDer::pem_slice_iter(&read(certificate)?).collect::<Result<Vec<_>, _>>();
        let chain = chain.ok().filter(|chain| !chain.is_empty());
        let chain = chain.ok_or_else(|| BadServerTls::Certificate(certificate.clone()))?;
        let private = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|_| BadServerTls::Key(key.clone()))?;
        let pair = |source| BadServerTls::Pair { certificate: certificate.clone(), key: key.clone(), source };
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config = builder.map_err(pair)?.with_no_client_auth().with_single_cert(chain, private).map_err(pair)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

fn stamp(path: &Path) -> Stamp {
    let file = std::fs::metadata(path).ok()?;
    Some((file.ino(), file.len(), file.mtime(), file.mtime_nsec()))
}

#[expect(clippy::disallowed_methods, reason = "files are checked in real time, and no decision depends on it")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: &str = include_str!("../../everhook-sender/tests/it/certificates/server.pem");
    const CLIENT: &str = include_str!("../../everhook-sender/tests/it/certificates/client.pem");

    struct Folder {
        folder: tempfile::TempDir,
        files: TlsFiles,
    }

    impl Folder {
        fn new(certificate: &str, key: &str) -> Folder {
            let folder = tempfile::tempdir().unwrap();
            let files = TlsFiles { certificate: folder.path().join("cert.pem"), key: folder.path().join("key.pem") };
            let new = Folder { folder, files };
            new.write("cert.pem", certificate);
            new.write("key.pem", key);
            new
        }

        fn write(&self, name: &str, text: &str) {
            // Renewal tools replace files in the same way.
            let new = self.folder.path().join("new");
            std::fs::write(&new, text).unwrap();
            std::fs::rename(new, self.folder.path().join(name)).unwrap();
        }

        fn load(&self) -> Result<ServerTls, BadServerTls> {
            ServerTls::checked_every(self.files.clone(), Duration::ZERO)
        }
    }

    #[test]
    fn files_that_cannot_be_used_are_named() {
        let error = |certificate: &str, key: &str| Folder::new(certificate, key).load().map(drop).unwrap_err();
        assert!(matches!(error("", SERVER), BadServerTls::Certificate(_)));
        assert!(matches!(error(SERVER, ""), BadServerTls::Key(_)));
        assert!(matches!(error(SERVER, CLIENT), BadServerTls::Pair { .. }));
        let missing = TlsFiles { certificate: "/nonexistent/a".into(), key: "/nonexistent/b".into() };
        assert_eq!(ServerTls::load(missing).unwrap_err().to_string(), "could not read /nonexistent/a");
    }

    #[test]
    fn a_renewed_certificate_is_used_once_both_files_fit() {
        let folder = Folder::new(SERVER, SERVER);
        let tls = folder.load().unwrap();
        let config = || Arc::clone(tls.acceptor().config());
        let old = config();
        assert!(Arc::ptr_eq(&old, &config()), "unchanged files are not read again");
        folder.write("cert.pem", CLIENT);
        assert!(Arc::ptr_eq(&old, &config()), "the key still belongs to the old certificate");
        folder.write("key.pem", CLIENT);
        assert!(!Arc::ptr_eq(&old, &config()));
    }
}
