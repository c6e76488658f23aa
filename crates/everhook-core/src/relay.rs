//! The pace of a relay: when to read its outbox again, and the times of the ids it makes.
//!
//! Pure. `engine::outbox` calls it and does the reading.

use std::time::Duration;

use crate::id::Id;
use crate::time::Timestamp;

/// First pause after an empty outbox. The pause doubles up to the poll interval.
const PAUSE_MIN: Duration = Duration::from_millis(5);
/// A read slower than the poll interval is followed by a pause of this many times its duration. Such a read crosses
/// dead rows that the database could not remove yet, and more reads would delay the clean-up.
const SLOW_PAUSE_FACTOR: u32 = 10;
const SLOW_PAUSE_MAX: Duration = Duration::from_secs(1);
/// After a failure, the pause grows from the first to the second value.
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(100);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(5);
/// An id further ahead than this is ignored as a floor: no two nodes' clocks differ by so much.
const FLOOR_AHEAD_MAX: Duration = Duration::from_secs(60);

/// The result of one read of an outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollResult {
    /// Rows were read; more may exist.
    Rows,
    Nothing,
    /// Another node has the claim on the outbox.
    Busy,
    Failed,
}

/// Decides how long to wait between reads: not at all while rows arrive, longer while the outbox is empty or busy,
/// longer still where reads are slow, and with growing pauses while reads fail.
#[derive(Clone, Copy, Debug)]
pub struct RelayPace {
    poll_interval: Duration,
    idle: Duration,
    failing: Duration,
}

impl RelayPace {
    /// Starts with this interval as the upper bound between fast, successful reads.
    pub const fn new(poll_interval: Duration) -> RelayPace {
        RelayPace { poll_interval, idle: Duration::ZERO, failing: Duration::ZERO }
    }

    /// Returns the pause after a read that took `took`.
    pub fn after(&mut self, look: PollResult, took: Duration) -> Duration {
        match look {
            PollResult::Rows => {
                *self = RelayPace::new(self.poll_interval);
                Duration::ZERO
            }
            PollResult::Nothing | PollResult::Busy => {
                let idle = if look == PollResult::Busy { self.poll_interval } else { self.idle * 2 };
                let idle = idle.max(PAUSE_MIN).min(self.poll_interval);
                *self = RelayPace { idle, ..RelayPace::new(self.poll_interval) };
                if took > self.poll_interval {
                    return idle.max((took * SLOW_PAUSE_FACTOR).min(SLOW_PAUSE_MAX));
                }
                idle
            }
            PollResult::Failed => {
                self.failing = (self.failing * 2).clamp(RETRY_PAUSE_MIN, RETRY_PAUSE_MAX);
                self.failing
            }
        }
    }
}

/// Returns the time for new ids, so that they sort after `floor`. Another node with a faster clock may have made
/// `floor`.
pub fn id_time(now: Timestamp, floor: Option<Id>) -> Timestamp {
    let above = floor.map(|floor| floor.timestamp().plus(Duration::from_millis(1)));
    // A forged or corrupt id in the table must not move new ids far into the future.
    let above = above.filter(|above| *above <= now.plus(FLOOR_AHEAD_MAX));
    above.map_or(now, |above| above.max(now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::IdSequence;

    const NOW: Timestamp = Timestamp::from_millis(1_750_000_000_000);

    #[test]
    fn the_pace_follows_what_is_found() {
        let mut pace = RelayPace::new(Duration::from_millis(25));
        let mut pauses = |looks: &[PollResult]| {
            looks.iter().map(|look| pace.after(*look, Duration::ZERO).as_millis()).collect::<Vec<_>>()
        };
        use PollResult::{Busy, Failed, Nothing, Rows};
        assert_eq!(pauses(&[Nothing, Nothing, Nothing, Nothing]), [5, 10, 20, 25]);
        assert_eq!(pauses(&[Rows, Nothing, Busy, Rows]), [0, 5, 25, 0]);
        assert_eq!(pauses(&[Failed, Failed, Failed, Rows, Failed]), [100, 200, 400, 0, 100]);
        assert_eq!(pauses(&[Failed; 10]).last(), Some(&5000));
    }

    #[test]
    fn a_slow_look_is_followed_by_a_longer_pause() {
        let mut pace = RelayPace::new(Duration::from_millis(25));
        let mut pause = |look, took| pace.after(look, Duration::from_millis(took)).as_millis();
        assert_eq!(
            [pause(PollResult::Nothing, 25), pause(PollResult::Nothing, 26), pause(PollResult::Nothing, 90)],
            [5, 260, 900]
        );
        assert_eq!(
            [pause(PollResult::Nothing, 5000), pause(PollResult::Nothing, 1)],
            [1000, 25],
            "it lasts no longer than it is slow"
        );
        assert_eq!(pause(PollResult::Rows, 5000), 0, "what is there is relayed, however slowly it is found");
    }

    #[test]
    fn ids_come_after_those_of_a_node_whose_clock_is_ahead() {
        let of_another = IdSequence::default().next(NOW.plus(Duration::from_millis(40)), [0xff; 12]);
        let next = IdSequence::default().next(id_time(NOW, Some(of_another)), [0; 12]);
        assert!(next > of_another);
        assert_eq!(id_time(NOW, None), NOW);
        assert_eq!(id_time(NOW, Some(Id::floor(Timestamp::from_millis(5)))), NOW);
        // Rows of the table cannot move ids into next year.
        assert_eq!(id_time(NOW, Some(Id::MAX)), NOW);
    }
}
