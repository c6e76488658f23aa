//! Opens connections: resolve, check, dial, encrypt, each step under its deadline.
//!
//! The connector dials only socket addresses that `egress` has just permitted, never a name. One forbidden address
//! among the answers blocks the whole name: an honest receiver has no reason to mix public and private addresses.
//! With an egress proxy, the permitted address is given to the proxy, which dials it. Only if the operator leaves names
//! to the proxy, the proxy gets the name, and must check its addresses itself.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use everhook_core::exchange::Exchange;
use everhook_core::outcome::{Blame, SendFailure};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use crate::clock;
use crate::egress::{BadUrl, Egress};
use crate::failure;
use crate::host::{Host, Place};
use crate::limits::ADDRESSES_MAX;
use crate::link::Link;
use crate::proxy::Proxy;
use crate::resolve::{LOCALHOST, Resolver};
use crate::sender::Deadlines;
use crate::socket::{Socket, Stream};
use crate::tls::Tls;

/// The only code that opens outbound sockets.
pub(crate) struct Connector {
    pub(crate) egress: Egress,
    pub(crate) resolver: Resolver,
    pub(crate) tls: Tls,
    pub(crate) deadlines: Deadlines,
    pub(crate) proxy: Option<Proxy>,
}

impl Connector {
    /// Opens a new connection to `host` before `total_by`. Notes each step in `exchange`, also one that fails.
    pub(crate) async fn connect(
        &self,
        host: &Host,
        total_by: Instant,
        exchange: &mut Exchange,
    ) -> Result<Link, SendFailure> {
        let begun = clock::now();
        let connect_by = total_by.min(begun + self.deadlines.connect);
        let tcp = match (&self.proxy, &host.place) {
            (Some(proxy), Place::Name(name)) if proxy.resolves() => {
                let target = format!("{}:{}", name.trim_end_matches('.'), host.port);
                let tunnel = timeout_at(connect_by, proxy.tunnel(&target, &self.resolver)).await;
                exchange.connect = Some(clock::now() - begun);
                match tunnel {
                    Ok(tcp) => tcp?,
                    Err(_elapsed) => return Err(failure::timeout("timed out connecting to the receiver")),
                }
            }
            _ => self.connect_vetted(host, connect_by, exchange).await?,
        };
        let (socket, watch) = Socket::new(tcp);
        let stream = match &host.tls_name {
            None => Stream::Plain(socket),
            Some(name) => {
                let begun = clock::now();
                let encrypted = self.encrypt(host, name, socket, total_by).await;
                exchange.tls = Some(clock::now() - begun);
                encrypted?
            }
        };
        Link::open(stream, watch).await
    }

    async fn connect_vetted(
        &self,
        host: &Host,
        connect_by: Instant,
        exchange: &mut Exchange,
    ) -> Result<TcpStream, SendFailure> {
        let begun = clock::now();
        // The check and the dial use the same resolved addresses. A second look-up between them would let a receiver
        // answer with a public address for the check and a private one for the dial (DNS rebinding).
        let vetted = timeout_at(connect_by, self.vetted(&host.place)).await;
        let resolved = clock::now();
        exchange.dns = matches!(host.place, Place::Name(_)).then(|| resolved - begun);
        let addresses = match vetted {
            Ok(addresses) => addresses?,
            Err(_elapsed) => return Err(failure::dns_timeout()),
        };
        let dialled = self.dial_any(&addresses, host.port, connect_by).await;
        exchange.connect = Some(clock::now() - resolved);
        dialled
    }

    /// Resolves `place` and returns its addresses, all of them permitted.
    async fn vetted(&self, place: &Place) -> Result<Vec<IpAddr>, SendFailure> {
        let mut addresses = match place {
            Place::Address(ip) => vec![*ip],
            // `localhost` always means both loopback addresses, so that an operator who allows 127.0.0.1 need not allow
            // ::1, too.
            Place::Localhost => LOCALHOST.into_iter().filter(|ip| self.egress.permits(*ip)).collect(),
            Place::Name(name) => self.resolver.addresses(name).await.map_err(|error| failure::dns(&error))?,
        };
        if addresses.is_empty() && *place != Place::Localhost {
            return Err(failure::dns_no_address());
        }
        if addresses.is_empty() || !addresses.iter().all(|ip| self.egress.permits(*ip)) {
            return Err(failure::blocked());
        }
        // The list is cut only after every address has been checked: a forbidden one must not hide behind permitted
        // ones.
        addresses.truncate(ADDRESSES_MAX);
        Ok(addresses)
    }

    /// Dials the addresses in turn. Each gets an equal part of the remaining time, so that a dead address leaves time
    /// for the next.
    async fn dial_any(&self, addresses: &[IpAddr], port: u16, connect_by: Instant) -> Result<TcpStream, SendFailure> {
        let mut last = failure::timeout("timed out connecting to the receiver");
        for (tried, ip) in addresses.iter().enumerate() {
            let now = clock::now();
            let share = connect_by.saturating_duration_since(now) / (addresses.len() - tried) as u32;
            last = match timeout_at(now + share, self.dial(SocketAddr::new(*ip, port))).await {
                Ok(Ok(tcp)) => return Ok(tcp),
                // Other addresses need the same files, ports or memory.
                Ok(Err(failed)) if failed.blame == Blame::Node => return Err(failed),
                Ok(Err(failed)) => failed,
                Err(_elapsed) => failure::timeout("timed out connecting to the receiver"),
            };
        }
        Err(last)
    }

    async fn dial(&self, address: SocketAddr) -> Result<TcpStream, SendFailure> {
        // The URL was checked for the same ports. This check costs little, and no caller can forget it.
        if !self.egress.permits(address.ip()) || !self.egress.permits_port(address.port()) {
            return Err(failure::blocked());
        }
        if self.egress.is_own(address, is_local) {
            return Err(failure::bad_url(&BadUrl::Own));
        }
        if let Some(proxy) = &self.proxy {
            return proxy.tunnel(&address.to_string(), &self.resolver).await;
        }
        let refused = |error: io::Error| failure::connect(&error, address.ip());
        let tcp = TcpStream::connect(address).await.map_err(refused)?;
        // The kernel connects to the address it was given. A different peer would mean an attack, so the check costs
        // little and stays.
        if !self.egress.permits(tcp.peer_addr().map_err(refused)?.ip()) {
            return Err(failure::blocked());
        }
        tcp.set_nodelay(true).map_err(refused)?;
        Ok(tcp)
    }

    async fn encrypt(&self, host: &Host, name: &str, socket: Socket, total_by: Instant) -> Result<Stream, SendFailure> {
        let tls = host.tls.as_ref().unwrap_or(&self.tls.shared);
        let name = ServerName::try_from(name.to_owned()).map_err(|_| failure::tls_name())?;
        let tls_by = total_by.min(clock::now() + self.deadlines.tls);
        match timeout_at(tls_by, tls.connect(name, socket)).await {
            Ok(Ok(stream)) => Ok(Stream::Tls(Box::new(stream))),
            Ok(Err(error)) => Err(failure::tls(&error)),
            Err(_elapsed) => Err(failure::timeout("timed out during the TLS handshake")),
        }
    }
}

/// Whether `ip` is an address of this machine: then the kernel would use it as the source, too. Sends no packet.
fn is_local(ip: IpAddr) -> bool {
    let any: IpAddr = if ip.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let source = UdpSocket::bind((any, 0)).and_then(|socket| {
        // The port is irrelevant: nothing is sent.
        socket.connect((ip, 9))?;
        socket.local_addr()
    });
    source.is_ok_and(|source| source.ip() == ip)
}
