//! One receiver's host: its free slots and the connections kept for reuse.
//!
//! There is no task behind it. A kept connection is looked at when it is taken, and `sweep` rides on the traffic of
//! all hosts; without any traffic the kept ones stay open, at most `idle_total` of them, until the peers close them.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use http::HeaderValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::limits::{LINK_AGE_MAX, LINK_IDLE_MAX};
use crate::link::Link;

/// A scheme, a host and a port, with the connections to them.
pub(crate) struct Host {
    pub(crate) place: Place,
    pub(crate) port: u16,
    /// The name to ask for and to verify; `None` for plain http.
    pub(crate) tls_name: Option<String>,
    /// The `Host` header.
    pub(crate) header: HeaderValue,
    /// One for each request under way.
    pub(crate) slots: Semaphore,
    kept: Mutex<Vec<Kept>>,
    kept_max: usize,
}

/// Where a host is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A literal address.
    Address(IpAddr),
    /// This machine, by a name that needs no resolving.
    Localhost,
    /// A fully qualified name, with its dot.
    Name(String),
}

/// How many connections a host may have.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    pub(crate) connections: usize,
    pub(crate) idle: usize,
}

/// A connection without a request. The permit is its part of `idle_total`.
struct Kept {
    link: Box<Link>,
    until: Instant,
    _permit: OwnedSemaphorePermit,
}

impl Host {
    pub(crate) fn new(place: Place, port: u16, tls_name: Option<String>, header: HeaderValue, room: Room) -> Host {
        Host {
            place,
            port,
            tls_name,
            header,
            slots: Semaphore::new(room.connections),
            kept: Mutex::new(Vec::new()),
            kept_max: room.idle,
        }
    }

    /// A kept connection on which a request may be begun: the one used last, so that the others may age and go.
    pub(crate) fn take(&self, now: Instant) -> Option<Box<Link>> {
        // Not a `while let` on the guard: a refused link is closed outside the lock.
        loop {
            let kept = self.kept().pop()?;
            let mut link = kept.link;
            if now < kept.until && link.is_reusable() {
                return Some(link);
            }
        }
    }

    /// Keeps `link` for the next request, for as long as it has been promised to stay open, if there is room.
    pub(crate) fn keep(&self, link: Box<Link>, promised: Option<Duration>, now: Instant, idle_total: &Arc<Semaphore>) {
        // The peer's clock started when it sent the reply; a request must not arrive just as it hangs up.
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

    /// Closes what has been kept for too long.
    pub(crate) fn sweep(&self, now: Instant) {
        self.kept().retain(|kept| now < kept.until);
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.kept.lock().expect("nothing panics while it holds this lock")
    }
}
