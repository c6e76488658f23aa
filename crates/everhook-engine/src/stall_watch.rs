//! Detects whether continuous work has stalled.
//!
//! Several workers start and finish pieces of work. The work makes progress as long as any worker finishes a piece from
//! time to time. Readiness uses this: a node whose settlements hang should get no more work. Times are spans since the
//! node started.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// The pieces in progress, and the time of the last finished one.
#[derive(Debug, Default)]
pub(crate) struct StallWatch(Mutex<StallState>);

#[derive(Debug, Default)]
struct StallState {
    under_way: usize,
    /// The time when the last piece ended, or when the first one started after a pause.
    last: Duration,
}

impl StallWatch {
    /// Records the start of a piece.
    pub(crate) fn begin(&self, now: Duration) {
        let mut state = self.lock();
        if state.under_way == 0 {
            state.last = now;
        }
        state.under_way += 1;
    }

    /// Records the end of a piece.
    pub(crate) fn end(&self, now: Duration) {
        let mut state = self.lock();
        state.under_way = state.under_way.saturating_sub(1);
        state.last = now;
    }

    /// Returns how long no piece has ended although some are in progress.
    pub(crate) fn stalled(&self, now: Duration) -> Duration {
        let state = self.lock();
        if state.under_way == 0 { Duration::ZERO } else { now.saturating_sub(state.last) }
    }

    fn lock(&self) -> MutexGuard<'_, StallState> {
        self.0.lock().expect("nothing panics while it holds this lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn work_that_ends_now_and_then_gets_on() {
        let progress = StallWatch::default();
        assert_eq!(progress.stalled(100 * SECOND), Duration::ZERO, "there is none");
        progress.begin(100 * SECOND);
        progress.begin(105 * SECOND);
        assert_eq!(progress.stalled(110 * SECOND), 10 * SECOND, "since the first began");
        progress.end(110 * SECOND);
        assert_eq!(progress.stalled(112 * SECOND), 2 * SECOND, "the other one is under way");
        progress.end(113 * SECOND);
        assert_eq!(progress.stalled(500 * SECOND), Duration::ZERO);
        progress.begin(500 * SECOND);
        assert_eq!(progress.stalled(500 * SECOND), Duration::ZERO, "the pause does not count");
    }
}
