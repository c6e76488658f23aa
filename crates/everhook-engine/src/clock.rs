//! The node's clock: monotonic for spans, the store's clock for timestamps.
//!
//! Only this module of the engine reads a clock, and it never reads the machine's wall clock. Ids and signatures use
//! the store's time at the last session renewal plus the monotonic time since then.

use std::sync::Mutex;
use std::time::Duration;

use everhook_core::time::Timestamp;
use tokio::time::Instant;

#[derive(Debug)]
pub struct Clock {
    started: Instant,
    synced: Mutex<(Duration, Timestamp)>,
}

impl Clock {
    /// Creates a clock from the store's current time.
    pub fn new(store_now: Timestamp) -> Clock {
        Clock { started: instant_now(), synced: Mutex::new((Duration::ZERO, store_now)) }
    }

    /// Returns the time since the node started.
    pub fn elapsed(&self) -> Duration {
        instant_now().duration_since(self.started)
    }

    /// Returns the store's time as estimated by this node.
    pub fn now(&self) -> Timestamp {
        let (at, store_now) = *self.synced.lock().expect("nothing panics while it holds this lock");
        store_now.plus(self.elapsed().saturating_sub(at))
    }

    /// Corrects the clock with the store's time `store_now`, which was requested at `asked` and has just arrived. The
    /// store read its clock at some point in between. Its time is now at least `store_now` and at most `store_now` plus
    /// the round trip. A clock outside this range moves to the nearest bound; a clock inside it stays, so that a slow
    /// reply does not make a correct clock wrong.
    pub fn sync(&self, store_now: Timestamp, asked: Duration) {
        let answered = self.elapsed();
        let latest = store_now.plus(answered.saturating_sub(asked));
        let right = self.now().clamp(store_now, latest);
        *self.synced.lock().expect("nothing panics while it holds this lock") = (answered, right);
    }

    /// Returns the instant to sleep until, for a time since the node's start.
    pub fn instant(&self, elapsed: Duration) -> Instant {
        // The runtime's timer cannot represent "never". A loop that wakes up after an hour just sleeps again.
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
        // The request is sent at 0, the store reads its clock at 3, and the reply arrives at 10.
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
