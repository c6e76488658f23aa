//! Egress rules: the addresses that Everhook may send to.
//!
//! Pure: no look-up, no socket. The API checks an endpoint's URL here, and the connector checks every address before it
//! dials. Both use the same code, so that no second check is weaker.
//!
//! All special addresses are denied: IPv4 by a list, IPv6 by allowing only global unicast minus some blocks. Networks
//! in the operator's list override the denial. An IPv4-mapped IPv6 address is permitted only if the operator's list
//! contains the IPv4 address inside it. By default all mapped addresses are denied, because legitimate receivers do not
//! use them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use everhook_core::limits::URL_BYTES_MAX;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use url::{Host, Url};

use crate::resolve::LOCALHOST;

#[cfg(test)]
mod tests;

/// Longest part of a host name between two dots.
const LABEL_BYTES_MAX: usize = 63;
const NAME_BYTES_MAX: usize = 253;

#[derive(Clone, Debug)]
pub struct Egress {
    allow: Vec<IpNet>,
    https_only: bool,
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
    #[error("url is not https; this server sends over https only")]
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
    /// A forbidden literal address, or `localhost` without a permitted loopback address.
    #[error(
        "url has a private or reserved address; use a public one, or have the operator add it to EVERHOOK_EGRESS_ALLOW"
    )]
    Forbidden,
}

impl Egress {
    /// Denies every special address except those in `allow`.
    pub fn new(allow: Vec<IpNet>, https_only: bool) -> Egress {
        Egress { allow, https_only }
    }

    /// Whether the rules permit connections to `ip`.
    pub fn permits(&self, ip: IpAddr) -> bool {
        // Without the conversion, `::ffff:127.0.0.1` would not match an allowed 127.0.0.0/8. The public check sees the
        // original address, which keeps mapped addresses denied.
        let canonical = ip.to_canonical();
        self.allow.iter().any(|net| net.contains(&canonical)) || is_public(ip)
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
            "https" => {}
            "http" if self.https_only => return Err(BadUrl::HttpsOnly),
            "http" => {}
            _ => return Err(BadUrl::Scheme),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(BadUrl::Userinfo);
        }
        if url.fragment().is_some() {
            return Err(BadUrl::Fragment);
        }
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
        if url.port() == Some(0) {
            return Err(BadUrl::Port);
        }
        // Percent-encoding may have lengthened the URL.
        if url.as_str().len() > URL_BYTES_MAX {
            return Err(BadUrl::TooLong);
        }
        Ok(url)
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

impl Default for Egress {
    /// The strict rules, without exceptions.
    fn default() -> Egress {
        Egress::new(Vec::new(), false)
    }
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
