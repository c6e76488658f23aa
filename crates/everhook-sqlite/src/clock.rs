//! The store's clock: the only wall clock of a node with this store.
//!
//! It advances with the monotonic clock and follows the wall clock. A small difference is followed at once. A step
//! forward is followed by the writer, which moves every lease and deadline in one transaction, so that none expires
//! because of it. A step back is never followed: the clock runs at half speed until the wall clock has caught up, so
//! that tasks still become due.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use everhook_core::time::{Timestamp, micros};
use tracing::warn;

/// A forward step up to this size expires no lease: leases last at least a second.
const FOLLOWED_MAX: Duration = Duration::from_millis(100);
/// The smallest step back that is logged.
const BACK_NOTED_MIN: Duration = Duration::from_secs(1);

/// The clocks of the machine; tests have their own.
pub trait TimeSource: Send + Sync {
    /// The wall clock, since 1970. It may jump.
    fn wall(&self) -> Duration;

    /// The time since an arbitrary moment, at a steady pace.
    fn monotonic(&self) -> Duration;
}

/// The clocks of this machine.
pub(crate) struct SystemSource(Instant);

impl SystemSource {
    #[expect(clippy::disallowed_methods, reason = "the store's clock")]
    pub(crate) fn new() -> SystemSource {
        SystemSource(Instant::now())
    }
}

impl TimeSource for SystemSource {
    #[expect(clippy::disallowed_methods, reason = "the store's clock")]
    fn wall(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

/// The clock of one open store.
pub(crate) struct StoreClock {
    /// Forward steps up to this size are followed at once.
    followed_max: Duration,
    source: Arc<dyn TimeSource>,
    last: Mutex<Reading>,
}

/// The last reading of the clock.
#[derive(Clone, Copy)]
struct Reading {
    monotonic: Duration,
    now: Duration,
    /// The lag of the wall clock, and whether it was logged.
    behind: Duration,
    said: bool,
}

impl StoreClock {
    /// The clock of the process that maintains the leases of a store.
    pub(crate) fn new(source: Arc<dyn TimeSource>) -> StoreClock {
        StoreClock::following(FOLLOWED_MAX, source)
    }

    /// The clock of another process on the same store, which does not change leases.
    pub(crate) fn beside(source: Arc<dyn TimeSource>) -> StoreClock {
        StoreClock::following(Duration::MAX, source)
    }

    fn following(followed_max: Duration, source: Arc<dyn TimeSource>) -> StoreClock {
        let (monotonic, now) = (source.monotonic(), source.wall());
        StoreClock {
            followed_max,
            source,
            last: Mutex::new(Reading { monotonic, now, behind: Duration::ZERO, said: false }),
        }
    }

    /// Returns the time. A time that is stored is read inside the writer's transaction.
    pub(crate) fn now(&self) -> Timestamp {
        timestamp(self.read(&mut self.lock()))
    }

    /// Returns the size of a forward step. The writer moves leases by it and then calls [`StoreClock::advance`].
    pub(crate) fn step(&self) -> Option<Duration> {
        let now = self.read(&mut self.lock());
        let step = self.source.wall().saturating_sub(now);
        (step > self.followed_max).then_some(step)
    }

    /// Follows a forward step.
    pub(crate) fn advance(&self, step: Duration) {
        let mut last = self.lock();
        self.read(&mut last);
        last.now += step;
    }

    /// Returns how far the clock is ahead of the wall clock, after that was set back.
    pub(crate) fn ahead(&self) -> Duration {
        let mut last = self.lock();
        self.read(&mut last);
        last.behind
    }

    fn read(&self, last: &mut Reading) -> Duration {
        let (wall, monotonic) = (self.source.wall(), self.source.monotonic());
        let passed = monotonic.saturating_sub(last.monotonic);
        let now = self.next(last.now, passed, wall);
        let behind = now.saturating_sub(wall);
        let back = behind >= BACK_NOTED_MIN;
        if back && !last.said {
            let seconds = behind.as_secs();
            warn!("the wall clock was set back by {seconds} s: time passes at half speed until it has caught up");
        }
        *last = Reading { monotonic, now, behind, said: back };
        now
    }

    /// Returns the time `passed` after `last`, while the wall clock shows `wall`.
    fn next(&self, last: Duration, passed: Duration, wall: Duration) -> Duration {
        let even = last + passed;
        match wall.checked_sub(even) {
            Some(step) if step > self.followed_max => even,
            Some(_) => wall,
            None => wall.max(last + passed / 2),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Reading> {
        self.last.lock().expect("nothing panics while it holds this lock")
    }
}

/// The wall clock of the machine, before a store is open.
pub(crate) fn wall() -> Timestamp {
    timestamp(SystemSource::new().wall())
}

fn timestamp(since_1970: Duration) -> Timestamp {
    Timestamp::from_micros(micros(since_1970))
}

/// The monotonic clock, for deadlines.
pub(crate) fn ticks() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "a deadline of the store's own")]
    let now = Instant::now();
    now
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const NOW: Duration = Duration::from_secs(1_750_000_000);

    #[test]
    fn the_clock_keeps_to_its_pace_whatever_the_wall_clock_does() {
        let clock = StoreClock::new(Arc::new(SystemSource::new()));
        let at = |wall| clock.next(NOW, 2 * SECOND, wall);
        assert_eq!(at(NOW + 2 * SECOND), NOW + 2 * SECOND);
        assert_eq!(at(NOW + 2 * SECOND + FOLLOWED_MAX), NOW + 2 * SECOND + FOLLOWED_MAX, "a little is followed");
        assert_eq!(at(NOW + 3600 * SECOND), NOW + 2 * SECOND, "a step waits for the writer");
        assert_eq!(at(NOW - 3600 * SECOND), NOW + SECOND, "it goes on, at half speed");
        assert_eq!(at(NOW + SECOND + SECOND / 2), NOW + SECOND + SECOND / 2, "until the wall clock has caught up");
    }
}
