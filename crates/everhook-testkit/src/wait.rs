//! Waits for conditions, with a deadline that only failing tests reach.

use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// Longer than any successful step takes, even on a slow, busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Interval between checks of a condition.
const POLL: Duration = Duration::from_millis(20);

/// Repeats `look` until it returns a value; fails the test at the deadline.
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let give_up = Deadline::new(PATIENCE);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(!give_up.is_over(), "waited in vain until {what}");
        thread::sleep(POLL);
    }
}

/// Waits for a condition without a value.
#[track_caller]
pub fn until_true(what: &str, mut look: impl FnMut() -> bool) {
    until(what, || look().then_some(()));
}

/// The time at which a test gives up.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Instant);

impl Deadline {
    /// Creates a deadline after `patience`.
    pub fn new(patience: Duration) -> Deadline {
        Deadline(now() + patience)
    }

    pub fn left(self) -> Duration {
        self.0.saturating_duration_since(now())
    }

    /// Returns whether the deadline has passed.
    pub fn is_over(self) -> bool {
        self.left().is_zero()
    }
}

#[expect(clippy::disallowed_methods, reason = "a test with real processes gives up by the real clock")]
fn now() -> Instant {
    Instant::now()
}

/// Returns the wall clock in seconds, which a receiver compares with `webhook-timestamp`.
#[expect(clippy::disallowed_methods, reason = "a receiver has a clock of its own")]
pub fn unix_seconds() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is after 1970");
    i64::try_from(since.as_secs()).expect("it is before the end of time")
}
