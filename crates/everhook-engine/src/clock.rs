//! The node's idea of time: monotonic for spans, the store's clock for instants.
//!
//! The only place of the engine that reads a clock. The wall clock of the machine is never asked: what the store said when
//! the session was last renewed, plus what has passed since, is the time that ids and signatures carry.

use std::sync::Mutex;
use std::time::Duration;

use everhook_core::time::Timestamp;
use tokio::time::Instant;

/// Monotonic time since the node started, and the store's time derived from it.
#[derive(Debug)]
pub struct Clock {
    started: Instant,
    synced: Mutex<(Duration, Timestamp)>,
}

impl Clock {
    /// A clock that was told the store's time just now.
    pub fn new(store_now: Timestamp) -> Clock {
        Clock { started: instant_now(), synced: Mutex::new((Duration::ZERO, store_now)) }
    }

    /// Time since the node started.
    pub fn elapsed(&self) -> Duration {
        instant_now().duration_since(self.started)
    }

    /// The store's time, as far as this node knows.
    pub fn now(&self) -> Timestamp {
        let (at, store_now) = *self.synced.lock().expect("nothing panics while it holds this lock");
        store_now.plus(self.elapsed().saturating_sub(at))
    }

    /// Takes over the store's time, which was asked for at `asked`. So the node is never behind the store: what it records of
    /// an attempt is not earlier than the message.
    pub fn sync(&self, store_now: Timestamp, asked: Duration) {
        *self.synced.lock().expect("nothing panics while it holds this lock") = (asked, store_now);
    }

    /// The instant to sleep until for a span since the start.
    pub fn instant(&self, elapsed: Duration) -> Instant {
        // Far enough for "never", near enough for the timer.
        const FAR: Duration = Duration::from_secs(3600);
        let now = self.elapsed();
        instant_now() + elapsed.saturating_sub(now).min(FAR)
    }
}

#[expect(clippy::disallowed_methods, reason = "the engine's one clock")]
fn instant_now() -> Instant {
    Instant::now()
}
