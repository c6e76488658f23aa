//! Connections to one host: free slots, and idle connections for reuse.
//!
//! No background task is involved. An idle connection is checked when it is taken, and `sweep` runs with the traffic of
//! any host. Without traffic, at most `idle_total` idle connections stay open until their peers close them.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use http::HeaderValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use crate::limits::{LINK_AGE_MAX, LINK_IDLE_MAX};
use crate::link::Link;

/// A scheme, host and port with its connections.
pub(crate) struct Host {
    pub(crate) place: Place,
    pub(crate) port: u16,
    /// The server name for SNI and certificate verification; `None` for plain http.
    pub(crate) tls_name: Option<String>,
    /// The client certificate and authorities of an endpoint; `None` for those of the sender.
    pub(crate) tls: Option<TlsConnector>,
    pub(crate) header: HeaderValue,
    /// One permit per running request.
    pub(crate) slots: Semaphore,
    kept: Mutex<Vec<Kept>>,
    kept_max: usize,
}

/// The parts of a host that follow from its URL.
pub(crate) struct Address {
    pub(crate) place: Place,
    pub(crate) port: u16,
    pub(crate) tls_name: Option<String>,
    pub(crate) header: HeaderValue,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Address(IpAddr),
    /// This machine, by a name that is never looked up.
    Localhost,
    /// A fully qualified name with its final dot.
    Name(String),
}

/// Connection limits of a host.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    pub(crate) connections: usize,
    pub(crate) idle: usize,
}

/// An idle connection. The permit is its part of `idle_total`.
struct Kept {
    link: Box<Link>,
    until: Instant,
    _permit: OwnedSemaphorePermit,
}

impl Host {
    pub(crate) fn new(address: Address, tls: Option<TlsConnector>, room: Room) -> Host {
        let Address { place, port, tls_name, header } = address;
        Host {
            place,
            port,
            tls_name,
            tls,
            header,
            slots: Semaphore::new(room.connections),
            kept: Mutex::new(Vec::new()),
            kept_max: room.idle,
        }
    }

    /// Takes the most recently used idle connection, so that the others can expire.
    pub(crate) fn take(&self, now: Instant) -> Option<Box<Link>> {
        // The lock is released on each turn: a refused connection is closed outside the lock, which `while let` on the
        // guard would prevent.
        loop {
            let kept = self.kept().pop()?;
            let mut link = kept.link;
            if now < kept.until && link.is_reusable() {
                return Some(link);
            }
        }
    }

    /// Keeps `link` for the next request, at most for as long as the peer promised, if the limits allow.
    pub(crate) fn keep(&self, link: Box<Link>, promised: Option<Duration>, now: Instant, idle_total: &Arc<Semaphore>) {
        // The peer started its timer when it sent the reply. The margin keeps a request from arriving just as the peer
        // closes.
        let idle = promised.map_or(LINK_IDLE_MAX, |stay| stay.mul_f32(0.8).min(LINK_IDLE_MAX));
        let until = (now + idle).min(link.born() + LINK_AGE_MAX);
        if until <= now {
            return;
        }
        let Ok(permit) = idle_total.clone().try_acquire_owned() else {
            return;
        };
        let mut kept = self.kept();
        if kept.len() < self.kept_max {
            kept.push(Kept { link, until, _permit: permit });
        }
    }

    pub(crate) fn sweep(&self, now: Instant) {
        self.kept().retain(|kept| now < kept.until);
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.kept.lock().expect("nothing panics while it holds this lock")
    }
}
