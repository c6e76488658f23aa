//! The client behind reverse proxies that the operator trusts.
//!
//! Any client can send the header `X-Forwarded-For`, so it counts only if the connection comes from a trusted proxy.
//! Each proxy appends the address it saw. Therefore the last address that is no trusted proxy is the client.

use std::net::IpAddr;

use http::HeaderMap;
use ipnet::IpNet;

const FORWARDED_FOR: &str = "x-forwarded-for";

/// The networks of trusted proxies. Empty: the header has no effect.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies(pub Vec<IpNet>);

impl TrustedProxies {
    /// Returns the client of a request on a connection from `peer`.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer.to_canonical();
        if self.0.is_empty() || !self.trusts(client) {
            return client;
        }
        let lines: Vec<&str> = headers.get_all(FORWARDED_FOR).iter().filter_map(|line| line.to_str().ok()).collect();
        for text in lines.iter().rev().flat_map(|line| line.rsplit(',')) {
            // An address that cannot be read was not written by a trusted proxy.
            let Ok(address) = text.trim().parse::<IpAddr>() else { break };
            client = address.to_canonical();
            if !self.trusts(client) {
                break;
            }
        }
        client
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(peer: &str, lines: &[&str], want: &str) {
        let proxies = TrustedProxies(vec!["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()]);
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(FORWARDED_FOR, line.parse().unwrap());
        }
        assert_eq!(proxies.client(peer.parse().unwrap(), &headers).to_string(), want, "{peer} {lines:?}");
    }

    #[test]
    fn the_last_address_before_the_trusted_proxies_is_the_client() {
        check("10.0.0.1", &["192.0.2.7"], "192.0.2.7");
        check("10.0.0.1", &["203.0.113.9, 192.0.2.7"], "192.0.2.7");
        check("10.0.0.1", &["203.0.113.9, 192.0.2.7, 10.0.0.2"], "192.0.2.7");
        check("10.0.0.1", &["203.0.113.9", "192.0.2.7", "10.0.0.2, fd00::1"], "192.0.2.7");
        check("::ffff:10.0.0.1", &["::ffff:192.0.2.7"], "192.0.2.7");
        check("10.0.0.1", &[], "10.0.0.1");
        check("10.0.0.1", &["10.0.0.9, 10.0.0.2"], "10.0.0.9");
    }

    #[test]
    fn other_peers_and_unreadable_addresses_are_not_believed() {
        check("192.0.2.1", &["203.0.113.9"], "192.0.2.1");
        check("10.0.0.1", &["192.0.2.7, unknown"], "10.0.0.1");
        check("10.0.0.1", &["192.0.2.7, nonsense, 10.0.0.2"], "10.0.0.2");
        let nobody = TrustedProxies::default();
        let mut headers = HeaderMap::new();
        headers.insert(FORWARDED_FOR, "203.0.113.9".parse().unwrap());
        assert_eq!(nobody.client("10.0.0.1".parse().unwrap(), &headers).to_string(), "10.0.0.1");
    }
}
