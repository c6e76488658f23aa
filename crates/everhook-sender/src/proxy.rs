//! The egress proxy of the operator: opens tunnels with the HTTP method CONNECT.
//!
//! The address of the proxy comes from the operator and is not subject to the egress rules. `connect` has checked the
//! target before it asks for a tunnel, unless the proxy resolves names.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use everhook_core::outcome::SendFailure;
use http::HeaderValue;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use url::{Host, Url};

use crate::failure;
use crate::limits::PROXY_HEAD_BYTES_MAX;
use crate::resolve::{LOCALHOST, Resolver};

/// An HTTP proxy for all outbound connections. Its `Debug` form has no credentials.
#[derive(Clone)]
pub struct Proxy {
    host: Host,
    port: u16,
    /// The value of `Proxy-Authorization`.
    authorization: Option<HeaderValue>,
    resolves: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("use the form http://host:port or http://user:password@host:port")]
pub struct BadProxy;

impl Proxy {
    /// Gives the proxy names instead of addresses. Then it must refuse forbidden addresses itself.
    pub fn resolving(self, resolves: bool) -> Proxy {
        Proxy { resolves, ..self }
    }

    pub fn resolves(&self) -> bool {
        self.resolves
    }

    /// Opens a tunnel to `target`, an address or a name with a port.
    pub(crate) async fn tunnel(&self, target: &str, resolver: &Resolver) -> Result<TcpStream, SendFailure> {
        let mut tcp = self.dial(resolver).await?;
        let mut request = format!("CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n").into_bytes();
        if let Some(authorization) = &self.authorization {
            request.extend_from_slice(b"proxy-authorization: ");
            request.extend_from_slice(authorization.as_bytes());
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"\r\n");
        tcp.write_all(&request).await.map_err(|_| failure::proxy_unreachable())?;
        match answer(&mut tcp).await {
            Some(200..=299) => Ok(tcp),
            status => Err(failure::proxy_answer(status)),
        }
    }

    async fn dial(&self, resolver: &Resolver) -> Result<TcpStream, SendFailure> {
        let addresses: Vec<IpAddr> = match &self.host {
            Host::Ipv4(ip) => vec![(*ip).into()],
            Host::Ipv6(ip) => vec![(*ip).into()],
            Host::Domain(name) if crate::egress::is_localhost(name) => LOCALHOST.to_vec(),
            Host::Domain(name) => {
                let name = format!("{}.", name.trim_end_matches('.'));
                resolver.addresses(&name).await.map_err(|_| failure::proxy_unreachable())?
            }
        };
        let addresses: Vec<_> = addresses.into_iter().map(|ip| SocketAddr::new(ip, self.port)).collect();
        let tcp = TcpStream::connect(&*addresses).await.map_err(|_| failure::proxy_unreachable())?;
        tcp.set_nodelay(true).map_err(|_| failure::proxy_unreachable())?;
        Ok(tcp)
    }
}

/// Reads the answer's head and returns its status; none if it is not HTTP.
async fn answer(tcp: &mut TcpStream) -> Option<u16> {
    let mut head = Vec::new();
    // One byte at a time: the bytes after the head belong to the receiver.
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == PROXY_HEAD_BYTES_MAX {
            return None;
        }
        head.push(tcp.read_u8().await.ok()?);
    }
    let line = std::str::from_utf8(&head).ok()?.lines().next()?;
    let mut words = line.split(' ');
    words.next().filter(|version| version.starts_with("HTTP/1."))?;
    words.next()?.parse().ok()
}

impl FromStr for Proxy {
    type Err = BadProxy;

    /// Parses the form `http://user:password@host:port`.
    fn from_str(text: &str) -> Result<Proxy, BadProxy> {
        let url = Url::parse(text).map_err(|_| BadProxy)?;
        let is_plain = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        if url.scheme() != "http" || !is_plain {
            return Err(BadProxy);
        }
        let decode = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
        let authorization = (!url.username().is_empty() || url.password().is_some()).then(|| {
            let credentials = format!("{}:{}", decode(url.username()), decode(url.password().unwrap_or_default()));
            HeaderValue::try_from(format!("Basic {}", BASE64.encode(credentials)))
        });
        let mut authorization = authorization.transpose().map_err(|_| BadProxy)?;
        authorization.iter_mut().for_each(|value| value.set_sensitive(true));
        let host = url.host().ok_or(BadProxy)?.to_owned();
        let port = url.port_or_known_default().filter(|port| *port != 0).ok_or(BadProxy)?;
        Ok(Proxy { host, port, authorization, resolves: false })
    }
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Proxy({}:{})", self.host, self.port)
    }
}
