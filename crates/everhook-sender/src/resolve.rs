//! DNS look-ups.
//!
//! The resolver reads the system's name servers and hosts file, and reads them again after a change. It does not check
//! addresses; `connect` checks every one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{LookupIpStrategy, NameServerConfig, ResolverConfig, ResolverOpts};
use hickory_resolver::lookup_ip::LookupIp;
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::Name;
use hickory_resolver::system_conf::read_system_conf;
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use crate::clock;
use crate::limits::{DNS_KEPT, DNS_OTHER_KIND_AWAITED, DNS_REFUSAL_KEPT, DNS_SETTINGS_CHECKED_EVERY};

/// The addresses of `localhost` by RFC 6761, whatever a name server says.
pub(crate) const LOCALHOST: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

const SYSTEM_FILES: [&str; 2] = ["/etc/resolv.conf", "/etc/hosts"];

pub(crate) struct Resolver {
    settings: Settings,
    current: Mutex<Current>,
}

type Read = Result<(ResolverConfig, ResolverOpts), NetError>;

/// Source of the name servers.
struct Settings {
    files: Vec<String>,
    read: fn(&[String]) -> Read,
    checked_every: Duration,
}

/// The settings as last read.
struct Current {
    names: Arc<Names>,
    stamps: Vec<Stamp>,
    checked_at: Instant,
}

/// Identifies a version of a file: inode, size and modification time. `None` if the file is missing.
type Stamp = Option<(u64, u64, i64, i64)>;

/// One resolver per address family, so that one answer need not wait for the other.
struct Names {
    v4: TokioResolver,
    v6: TokioResolver,
}

impl Resolver {
    /// Reads the system configuration. Without one, asks a name server on this machine, as the C library does.
    pub(crate) fn from_system() -> Result<Resolver, NetError> {
        Resolver::new(Settings {
            files: SYSTEM_FILES.map(str::to_owned).to_vec(),
            read: |_| read_system_conf(),
            checked_every: DNS_SETTINGS_CHECKED_EVERY,
        })
    }

    fn new(settings: Settings) -> Result<Resolver, NetError> {
        let stamps = settings.stamps();
        let (config, options) = (settings.read)(&settings.files).unwrap_or_else(|error| {
            warn!(%error, "could not read the system's name servers; asking 127.0.0.1");
            let local = NameServerConfig::udp_and_tcp(Ipv4Addr::LOCALHOST.into());
            (ResolverConfig::from_parts(None, Vec::new(), vec![local]), ResolverOpts::default())
        });
        let names = Arc::new(Names::new(&config, &options)?);
        Ok(Resolver { settings, current: Mutex::new(Current { names, stamps, checked_at: clock::now() }) })
    }

    /// Returns the addresses of `name`, which ends in a dot: search domains would make the name mean different hosts on
    /// different machines.
    ///
    /// Both families are queried at once. After the first answer, the second gets a short time: a name server that
    /// never answers for a missing family must not make the host unreachable.
    pub(crate) async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, NetError> {
        debug_assert!(name.ends_with('.'), "{name} is not fully qualified");
        // The URL parser has already converted the name to ASCII. `Name::from_str` would refuse underscores.
        let name = Name::from_ascii(name)?;
        let names = self.names();
        let (mut v4, mut v6) = (pin!(names.v4.lookup_ip(name.clone())), pin!(names.v6.lookup_ip(name)));
        let (v4, v6) = tokio::select! {
            first = &mut v4 => {
                let second = second(&first, v6).await;
                (Some(first), second)
            }
            first = &mut v6 => {
                let second = second(&first, v4).await;
                (second, Some(first))
            }
        };
        combine(v4, v6).map_err(explain)
    }

    /// Returns the resolvers, after a check for changed settings at most every `checked_every`.
    fn names(&self) -> Arc<Names> {
        let mut current = self.lock();
        let now = clock::now();
        if now.duration_since(current.checked_at) >= self.settings.checked_every {
            current.checked_at = now;
            self.settings.update(&mut current);
        }
        Arc::clone(&current.names)
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().expect("nothing panics while it holds this lock")
    }
}

impl Settings {
    fn stamps(&self) -> Vec<Stamp> {
        self.files.iter().map(|path| stamp(Path::new(path))).collect()
    }

    /// Reads changed files. On failure the old settings stay, because the file may be half written.
    fn update(&self, current: &mut Current) {
        let stamps = self.stamps();
        if stamps == current.stamps {
            return;
        }
        match (self.read)(&self.files).and_then(|(config, options)| Names::new(&config, &options)) {
            Ok(names) => {
                info!("read the system's name servers again: {} has changed", self.files.join(" or "));
                current.names = Arc::new(names);
                current.stamps = stamps;
            }
            Err(error) => warn!(%error, "could not read the system's changed name servers; asking those from before"),
        }
    }
}

impl Names {
    fn new(config: &ResolverConfig, options: &ResolverOpts) -> Result<Names, NetError> {
        let of = |strategy| {
            let provider = TokioRuntimeProvider::default();
            let mut builder =
                TokioResolver::builder_with_config(config.clone(), provider).with_options(options.clone());
            let options = builder.options_mut();
            options.ip_strategy = strategy;
            options.positive_max_ttl = Some(DNS_KEPT);
            options.negative_max_ttl = Some(DNS_REFUSAL_KEPT);
            builder.build()
        };
        Ok(Names { v4: of(LookupIpStrategy::Ipv4Only)?, v6: of(LookupIpStrategy::Ipv6Only)? })
    }
}

type Answer = Result<LookupIp, NetError>;

/// Awaits the other family: without a time limit if the first answer has no address, otherwise for a short time.
async fn second(first: &Answer, other: impl Future<Output = Answer>) -> Option<Answer> {
    if first.is_ok() { timeout(DNS_OTHER_KIND_AWAITED, other).await.ok() } else { Some(other.await) }
}

/// Collects all addresses. Without any, returns the more specific of the two errors.
fn combine(v4: Option<Answer>, v6: Option<Answer>) -> Result<Vec<IpAddr>, NetError> {
    let (mut addresses, mut failure) = (Vec::new(), None);
    for answer in [v4, v6].into_iter().flatten() {
        match answer {
            Ok(found) => addresses.extend(found.iter()),
            Err(error) if failure.as_ref().is_none_or(NetError::is_no_records_found) => failure = Some(error),
            Err(_) => {}
        }
    }
    match failure {
        Some(error) if addresses.is_empty() => Err(error),
        _ => Ok(addresses),
    }
}

/// Recovers the cause of a failed query: the library drops it, and this node may have run out of files.
fn explain(error: NetError) -> NetError {
    match error {
        NetError::NoConnections => match UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)) {
            Ok(_) => NetError::NoConnections,
            Err(error) => NetError::from(error),
        },
        error => error,
    }
}

fn stamp(path: &Path) -> Stamp {
    let file = std::fs::metadata(path).ok()?;
    Some((file.ino(), file.len(), file.mtime(), file.mtime_nsec()))
}

#[cfg(test)]
mod tests;
