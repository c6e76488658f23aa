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

    /// Compares with the store's time, which was asked for at `asked` and has just come. The store read its clock some time in
    /// between, so that by now it shows between that and that plus the round trip. Only a clock that is outside is moved, and
    /// only as far as is proven: a slow answer must not make a right clock wrong.
    pub fn sync(&self, store_now: Timestamp, asked: Duration) {
        let answered = self.elapsed();
        let latest = store_now.plus(answered.saturating_sub(asked));
        let right = self.now().clamp(store_now, latest);
        *self.synced.lock().expect("nothing panics while it holds this lock") = (answered, right);
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

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_750_000_000_000);
    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_slow_answer_does_not_make_a_right_clock_wrong() {
        let clock = Clock::new(NOW);
        tokio::time::advance(10 * SECOND).await;
        // Asked at 0, read by the store at 3, answered at 10.
        clock.sync(NOW.plus(3 * SECOND), Duration::ZERO);
        assert_eq!(clock.now(), NOW.plus(10 * SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wrong_clock_is_moved_as_far_as_is_proven() {
        let clock = Clock::new(NOW);
        clock.sync(NOW.plus(60 * SECOND), Duration::ZERO);
        assert_eq!(clock.now(), NOW.plus(60 * SECOND));
        tokio::time::advance(SECOND).await;
        clock.sync(NOW, Duration::ZERO);
        assert_eq!(clock.now(), NOW.plus(SECOND), "the store may have read its clock at once");
    }
}
