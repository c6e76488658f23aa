//! Makes connections: resolve, vet, dial, encrypt, each under its deadline.
//!
//! The rule of the house: what is dialled is a socket address that `egress` has permitted a moment before, never a
//! name. One forbidden answer condemns the name, since a receiver with an honest reason for it is hard to imagine.

use std::io;
use std::net::{IpAddr, SocketAddr};

use everhook_core::outcome::{Blame, SendFailure};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use crate::clock;
use crate::egress::Egress;
use crate::failure;
use crate::host::{Host, Place};
use crate::limits::ADDRESSES_MAX;
use crate::link::Link;
use crate::resolve::{LOCALHOST, Resolver};
use crate::sender::Deadlines;
use crate::socket::{Socket, Stream};

/// Opens outbound sockets; nothing else in the product does.
pub(crate) struct Connector {
    pub(crate) egress: Egress,
    pub(crate) resolver: Resolver,
    pub(crate) tls: TlsConnector,
    pub(crate) deadlines: Deadlines,
}

impl Connector {
    /// A fresh connection to `host`, made before `total_by`.
    pub(crate) async fn connect(&self, host: &Host, total_by: Instant) -> Result<Link, SendFailure> {
        let connect_by = total_by.min(clock::now() + self.deadlines.connect);
        let addresses = match timeout_at(connect_by, self.vetted(&host.place)).await {
            Ok(addresses) => addresses?,
            Err(_elapsed) => return Err(failure::dns_timeout()),
        };
        let tcp = self.dial_any(&addresses, host.port, connect_by).await?;
        let (socket, watch) = Socket::new(tcp);
        let stream = match &host.tls_name {
            None => Stream::Plain(socket),
            Some(name) => self.encrypt(name, socket, total_by).await?,
        };
        Link::open(stream, watch).await
    }

    /// The addresses of `place`, all of them permitted.
    async fn vetted(&self, place: &Place) -> Result<Vec<IpAddr>, SendFailure> {
        let mut addresses = match place {
            Place::Address(ip) => vec![*ip],
            // The name always means both, and an operator who allows 127.0.0.1 need not think of ::1.
            Place::Localhost => LOCALHOST.into_iter().filter(|ip| self.egress.permits(*ip)).collect(),
            Place::Name(name) => self.resolver.addresses(name).await.map_err(|error| failure::dns(&error))?,
        };
        if addresses.is_empty() && *place != Place::Localhost {
            return Err(failure::dns_no_address());
        }
        if addresses.is_empty() || !addresses.iter().all(|ip| self.egress.permits(*ip)) {
            return Err(failure::blocked());
        }
        addresses.truncate(ADDRESSES_MAX);
        Ok(addresses)
    }

    /// Tries one address after the other; each gets its share of the time left, so that a dead one leaves some.
    async fn dial_any(&self, addresses: &[IpAddr], port: u16, connect_by: Instant) -> Result<TcpStream, SendFailure> {
        let mut last = failure::timeout("no connection was made in time");
        for (tried, ip) in addresses.iter().enumerate() {
            let now = clock::now();
            let share = connect_by.saturating_duration_since(now) / (addresses.len() - tried) as u32;
            last = match timeout_at(now + share, self.dial(SocketAddr::new(*ip, port))).await {
                Ok(Ok(tcp)) => return Ok(tcp),
                // The next address would fare no better.
                Ok(Err(failed)) if failed.blame == Blame::Node => return Err(failed),
                Ok(Err(failed)) => failed,
                Err(_elapsed) => failure::timeout("no connection was made in time"),
            };
        }
        Err(last)
    }

    async fn dial(&self, address: SocketAddr) -> Result<TcpStream, SendFailure> {
        let refused = |error: io::Error| failure::connect(&error, address.ip());
        let tcp = TcpStream::connect(address).await.map_err(refused)?;
        // Nothing we know of makes this differ from `address`; were there such a thing, it would be an attack.
        if !self.egress.permits(tcp.peer_addr().map_err(refused)?.ip()) {
            return Err(failure::blocked());
        }
        tcp.set_nodelay(true).map_err(refused)?;
        Ok(tcp)
    }

    async fn encrypt(&self, name: &str, socket: Socket, total_by: Instant) -> Result<Stream, SendFailure> {
        let name = ServerName::try_from(name.to_owned()).map_err(|_| failure::tls_name())?;
        let tls_by = total_by.min(clock::now() + self.deadlines.tls);
        match timeout_at(tls_by, self.tls.connect(name, socket)).await {
            Ok(Ok(stream)) => Ok(Stream::Tls(Box::new(stream))),
            Ok(Err(error)) => Err(failure::tls(&error)),
            Err(_elapsed) => Err(failure::timeout("the TLS handshake was not finished in time")),
        }
    }
}
