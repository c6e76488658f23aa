//! Names to addresses.
//!
//! Reads the system's name servers and hosts file once. It judges no address; `connect` vets every one it returns.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{LookupIpStrategy, NameServerConfig, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use tracing::warn;

use crate::limits::{DNS_KEPT, DNS_REFUSAL_KEPT};

/// What `localhost` means, by RFC 6761, whatever a name server says.
pub(crate) const LOCALHOST: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// Asks the system's name servers.
pub(crate) struct Resolver {
    names: TokioResolver,
}

impl Resolver {
    /// Reads the system's configuration; without one, asks a name server on this machine, as the C library does.
    pub(crate) fn from_system() -> Result<Resolver, NetError> {
        let mut builder = TokioResolver::builder_tokio().unwrap_or_else(|error| {
            warn!(%error, "could not read the system's name servers; asking 127.0.0.1");
            let local = NameServerConfig::udp_and_tcp(Ipv4Addr::LOCALHOST.into());
            let config = ResolverConfig::from_parts(None, Vec::new(), vec![local]);
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        });
        let options = builder.options_mut();
        // Both kinds are always asked for: a forbidden address must not hide behind the kind we would not have used.
        options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        options.positive_max_ttl = Some(DNS_KEPT);
        options.negative_max_ttl = Some(DNS_REFUSAL_KEPT);
        Ok(Resolver { names: builder.build()? })
    }

    /// All addresses of `name`, which ends in a dot: search domains would make it mean different hosts on different
    /// machines.
    pub(crate) async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, NetError> {
        debug_assert!(name.ends_with('.'), "{name} is not fully qualified");
        Ok(self.names.lookup_ip(name).await?.iter().collect())
    }
}
