//! Egress rules: the hosts, addresses and ports that Everhook may send to.
//!
//! Pure: no look-up, no socket. The API checks an endpoint's URL here, and the connector checks every address before it
//! dials. Both use the same code, so that no second check is weaker.
//!
//! All special addresses are denied: IPv4 by a list, IPv6 by allowing only global unicast minus some blocks. Networks
//! in the operator's `allow` override the denial, and networks in `deny` override everything. An IPv4-mapped IPv6
//! address is permitted only if `allow` has the IPv4 address inside it. By default all mapped addresses are denied,
//! because legitimate receivers do not use them.

mod host_pattern;
mod ports;

pub use host_pattern::{BadHostPattern, HostPattern};

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use everhook_core::limits::URL_BYTES_MAX;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use url::{Host, Url};

use crate::resolve::LOCALHOST;

#[cfg(test)]
mod tests;

/// Longest part of a host name between two dots.
const LABEL_BYTES_MAX: usize = 63;
const NAME_BYTES_MAX: usize = 253;

/// The rules of the operator. The default denies every special address and every port of a well-known service.
#[derive(Clone, Debug, Default)]
pub struct Egress {
    /// Special addresses that are permitted.
    pub allow: Vec<IpNet>,
    /// Addresses that are denied, even if `allow` has them.
    pub deny: Vec<IpNet>,
    /// The only permitted ports. Empty: all except those of well-known services.
    pub ports: Vec<u16>,
    /// The only permitted hosts. Empty: all.
    pub hosts: Vec<HostPattern>,
    /// Permits plain http only to loopback addresses, which `allow` must have anyway.
    pub https_only: bool,
    /// Whether addresses of 64:ff9b::/96 are judged by the IPv4 address inside, for networks that reach IPv4 by NAT64.
    pub nat64: bool,
    /// Addresses that this server listens on. A request to one of them could loop.
    pub own: Vec<SocketAddr>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadUrl {
    /// Longer than the limit, as written or after percent-encoding.
    #[error("url is too long; use at most {URL_BYTES_MAX} bytes")]
    TooLong,
    /// Contains characters that parsers interpret differently.
    #[error("url has a space, a backslash or a control character; percent-encode it")]
    Ambiguous,
    #[error("url is not valid; use the form https://host/path")]
    Unparsable(#[source] url::ParseError),
    #[error("url scheme is not supported; use https or http")]
    Scheme,
    /// Plain http, but the operator requires https.
    #[error("url is not https; use https, or have the operator set EVERHOOK_HTTPS_ONLY=false")]
    HttpsOnly,
    #[error("url has a user name or password; send credentials in a header")]
    Userinfo,
    /// Contains a fragment, which HTTP never sends.
    #[error("url has a fragment; remove the part from \"#\" on")]
    Fragment,
    /// The host is empty or a single dot.
    #[error("url has no host; use the form https://host/path")]
    NoHost,
    /// DNS cannot resolve such a name.
    #[error(
        "url has a host name that cannot be resolved; use letters, digits, hyphens and underscores, at most \
         {LABEL_BYTES_MAX} between two dots"
    )]
    Name,
    #[error("url has port 0; use the port the receiver listens on")]
    Port,
    /// The port of a well-known service, or a port outside the operator's list.
    #[error("url has a port that is not allowed; use 443, or have the operator add it to EVERHOOK_EGRESS_PORTS")]
    PortForbidden,
    /// The operator's list does not have the host.
    #[error("url has a host that is not allowed; have the operator add it to EVERHOOK_EGRESS_HOSTS")]
    HostForbidden,
    /// An address that this server itself listens on.
    #[error("url is an address of this server; use the receiver's address")]
    Own,
    /// A forbidden literal address, or `localhost` without a permitted loopback address.
    #[error(
        "url has a private or reserved address; use a public one, or have the operator add it to EVERHOOK_EGRESS_ALLOW"
    )]
    Forbidden,
}

impl Egress {
    /// Denies every special address except those in `allow`.
    pub fn new(allow: Vec<IpNet>, https_only: bool) -> Egress {
        Egress { allow, https_only, ..Egress::default() }
    }

    /// Whether the rules permit connections to `ip`.
    pub fn permits(&self, ip: IpAddr) -> bool {
        // Without the conversion, `::ffff:127.0.0.1` would not match an allowed 127.0.0.0/8. The public check sees the
        // original address, which keeps mapped addresses denied.
        let canonical = ip.to_canonical();
        let inside = nat64_inside(ip);
        // Every form of a denied address is denied, whether or not this network translates it.
        let is_denied = |net: &IpNet| [Some(ip), Some(canonical), inside].iter().flatten().any(|ip| net.contains(ip));
        if self.deny.iter().any(is_denied) {
            return false;
        }
        match inside {
            Some(inside) if self.nat64 => self.permits(inside),
            _ => self.allow.iter().any(|net| net.contains(&canonical)) || is_public(ip),
        }
    }

    /// Whether the rules permit connections to `port`.
    pub fn permits_port(&self, port: u16) -> bool {
        ports::permits(&self.ports, port)
    }

    /// Whether this server listens on `address`. `is_local` tells whether an address belongs to this machine; it is
    /// called only if a listener of that port is open on all addresses.
    pub(crate) fn is_own(&self, address: SocketAddr, is_local: impl Fn(IpAddr) -> bool) -> bool {
        let ip = address.ip().to_canonical();
        self.own.iter().filter(|own| own.port() == address.port()).any(|own| match own.ip().to_canonical() {
            own if own.is_unspecified() => ip.is_loopback() || ip.is_unspecified() || is_local(ip),
            // The kernel connects a request for 0.0.0.0 to a loopback address.
            own => own == ip || own.is_loopback() && ip.is_unspecified(),
        })
    }

    /// Parses a URL and applies every rule that needs no look-up.
    ///
    /// The API calls it when an endpoint is saved. The sender calls it again, because rules may have changed since.
    pub fn check_url(&self, text: &str) -> Result<Url, BadUrl> {
        if text.len() > URL_BYTES_MAX {
            return Err(BadUrl::TooLong);
        }
        // The URL standard drops tabs and newlines and reads `\` as `/`; other parsers do not. A URL that two parsers
        // read differently can hide its real host.
        if text.chars().any(|c| c.is_ascii_control() || c == ' ' || c == '\\') {
            return Err(BadUrl::Ambiguous);
        }
        let url = Url::parse(text).map_err(|error| match error {
            url::ParseError::EmptyHost => BadUrl::NoHost,
            other => BadUrl::Unparsable(other),
        })?;
        match url.scheme() {
            "https" | "http" => {}
            _ => return Err(BadUrl::Scheme),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(BadUrl::Userinfo);
        }
        if url.fragment().is_some() {
            return Err(BadUrl::Fragment);
        }
        self.check_host(&url)?;
        if url.scheme() == "http" && self.https_only && !is_loopback(&url) {
            return Err(BadUrl::HttpsOnly);
        }
        self.check_port(&url)?;
        // Percent-encoding may have lengthened the URL.
        if url.as_str().len() > URL_BYTES_MAX {
            return Err(BadUrl::TooLong);
        }
        Ok(url)
    }

    fn check_host(&self, url: &Url) -> Result<(), BadUrl> {
        match url.host() {
            None | Some(Host::Domain("." | "")) => return Err(BadUrl::NoHost),
            Some(Host::Ipv4(ip)) if !self.permits(ip.into()) => return Err(BadUrl::Forbidden),
            Some(Host::Ipv6(ip)) if !self.permits(ip.into()) => return Err(BadUrl::Forbidden),
            Some(Host::Domain(name)) if is_localhost(name) && !LOCALHOST.iter().any(|ip| self.permits(*ip)) => {
                return Err(BadUrl::Forbidden);
            }
            Some(Host::Domain(name)) if !can_be_resolved(name) => return Err(BadUrl::Name),
            Some(_) => {}
        }
        let host = url.host_str().unwrap_or_default();
        if !self.hosts.is_empty() && !self.hosts.iter().any(|pattern| pattern.matches(host)) {
            return Err(BadUrl::HostForbidden);
        }
        Ok(())
    }

    fn check_port(&self, url: &Url) -> Result<(), BadUrl> {
        let port = match url.port_or_known_default() {
            None | Some(0) => return Err(BadUrl::Port),
            Some(port) => port,
        };
        if !self.permits_port(port) {
            return Err(BadUrl::PortForbidden);
        }
        let addresses = match url.host() {
            Some(Host::Ipv4(ip)) => vec![IpAddr::V4(ip)],
            Some(Host::Ipv6(ip)) => vec![IpAddr::V6(ip)],
            Some(Host::Domain(name)) if is_localhost(name) => LOCALHOST.to_vec(),
            _ => Vec::new(),
        };
        // The connector also knows the other addresses of this machine.
        if addresses.iter().any(|ip| self.is_own(SocketAddr::new(*ip, port), |_| false)) {
            return Err(BadUrl::Own);
        }
        Ok(())
    }
}

/// Whether the URL names a loopback address. A name that resolves to one is not enough: its owner can change it.
fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.to_canonical().is_loopback(),
        Some(Host::Domain(name)) => is_localhost(name),
        None => false,
    }
}

/// Returns the IPv4 address inside an address of the well-known NAT64 network.
fn nat64_inside(ip: IpAddr) -> Option<IpAddr> {
    match ip {
        IpAddr::V6(ip) if NAT64.contains(&ip) => Some(Ipv4Addr::from_bits(ip.to_bits() as u32).into()),
        _ => None,
    }
}

/// Whether DNS can resolve the name. The URL standard allows more characters, and has already converted the name to
/// ASCII.
fn can_be_resolved(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_label = |label: &str| {
        let is_in_names = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_');
        (1..=LABEL_BYTES_MAX).contains(&label.len()) && !label.starts_with('-') && label.bytes().all(is_in_names)
    };
    name.len() <= NAME_BYTES_MAX && name.split('.').all(is_label)
}

/// Whether the name means this machine. Such names are never looked up.
pub(crate) fn is_localhost(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    name == "localhost" || name.ends_with(".localhost")
}

fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !IPV4_DENIED.iter().any(|net| net.contains(&ip)),
        IpAddr::V6(ip) => IPV6_GLOBAL.contains(&ip) && !IPV6_DENIED.iter().any(|net| net.contains(&ip)),
    }
}

/// The IANA special-purpose registry, multicast, reserved ranges, and one public address with a special meaning.
const IPV4_DENIED: [Ipv4Net; 20] = [
    v4([0, 0, 0, 0], 8),
    v4([10, 0, 0, 0], 8),
    v4([100, 64, 0, 0], 10),
    v4([127, 0, 0, 0], 8),
    // Azure serves instance metadata at this address, which is in no special range.
    v4([168, 63, 129, 16], 32),
    v4([169, 254, 0, 0], 16),
    v4([172, 16, 0, 0], 12),
    v4([192, 0, 0, 0], 24),
    v4([192, 0, 2, 0], 24),
    v4([192, 31, 196, 0], 24),
    v4([192, 52, 193, 0], 24),
    v4([192, 88, 99, 0], 24),
    v4([192, 168, 0, 0], 16),
    v4([192, 175, 48, 0], 24),
    v4([198, 18, 0, 0], 15),
    v4([198, 51, 100, 0], 24),
    v4([203, 0, 113, 0], 24),
    v4([224, 0, 0, 0], 4),
    v4([240, 0, 0, 0], 4),
    v4([255, 255, 255, 255], 32),
];

/// Global unicast. Every other address is loopback, private, link-local or multicast, or embeds an IPv4 address.
const IPV6_GLOBAL: Ipv6Net = v6([0x2000, 0, 0], 3);

/// NAT64 (RFC 6052). The network with local use, 64:ff9b:1::/48, stays denied.
const NAT64: Ipv6Net = v6([0x64, 0xff9b, 0], 96);

const IPV6_DENIED: [Ipv6Net; 5] = [
    // Protocol assignments, including Teredo, which embeds an IPv4 address.
    v6([0x2001, 0, 0], 23),
    v6([0x2001, 0xdb8, 0], 32),
    // 6to4 embeds an IPv4 address.
    v6([0x2002, 0, 0], 16),
    v6([0x2620, 0x4f, 0x8000], 48),
    v6([0x3fff, 0, 0], 20),
];

const fn v4([a, b, c, d]: [u8; 4], prefix_len: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix_len)
}

const fn v6([a, b, c]: [u16; 3], prefix_len: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0), prefix_len)
}
