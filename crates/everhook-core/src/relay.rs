//! When a relay looks into its outbox again, and from when on the ids it makes may count.
//!
//! Pure: called by `engine::relay`, which looks.

use std::time::Duration;

use crate::id::Id;
use crate::time::Timestamp;

/// The first pause after an outbox was found empty; it doubles up to the poll interval.
const PAUSE_MIN: Duration = Duration::from_millis(5);
/// A look that takes longer than the poll interval is followed by a pause of this many times as long, up to the maximum: it walks over
/// what the database could not clean up yet, and more looks would only make that slower.
const SLOW_PAUSE_FACTOR: u32 = 10;
const SLOW_PAUSE_MAX: Duration = Duration::from_secs(1);
/// After a failure, the pause grows from the first to the second.
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(100);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(5);
/// A floor further ahead than this is nobody's: no two clocks of nodes differ by so much.
const FLOOR_AHEAD_MAX: Duration = Duration::from_secs(60);

/// What a look into an outbox brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Rows: there may be more.
    Rows,
    /// Nothing.
    Nothing,
    /// Someone else was relaying.
    Busy,
    /// It could not be told.
    Failed,
}

/// How often an outbox is looked into: at once while there are rows, seldom while there are none or someone else is at it,
/// more seldom where looking is slow, more and more seldom while it fails.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    poll_interval: Duration,
    idle: Duration,
    failing: Duration,
}

impl Pace {
    /// A pace that looks at least this often while nothing fails or is slow.
    pub const fn new(poll_interval: Duration) -> Pace {
        Pace { poll_interval, idle: Duration::ZERO, failing: Duration::ZERO }
    }

    /// How long to wait after a look that took so long.
    pub fn after(&mut self, look: Look, took: Duration) -> Duration {
        match look {
            Look::Rows => {
                *self = Pace::new(self.poll_interval);
                Duration::ZERO
            }
            Look::Nothing | Look::Busy => {
                let idle = if look == Look::Busy { self.poll_interval } else { self.idle * 2 };
                let idle = idle.max(PAUSE_MIN).min(self.poll_interval);
                *self = Pace { idle, ..Pace::new(self.poll_interval) };
                if took > self.poll_interval {
                    return idle.max((took * SLOW_PAUSE_FACTOR).min(SLOW_PAUSE_MAX));
                }
                idle
            }
            Look::Failed => {
                self.failing = (self.failing * 2).clamp(RETRY_PAUSE_MIN, RETRY_PAUSE_MAX);
                self.failing
            }
        }
    }
}

/// The time that ids have to be made at to come after `floor`, which another node with another clock may have made.
pub fn id_time(now: Timestamp, floor: Option<Id>) -> Timestamp {
    let above = floor.map(|floor| floor.timestamp().plus(Duration::from_millis(1)));
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
        let mut pace = Pace::new(Duration::from_millis(25));
        let mut pauses =
            |looks: &[Look]| looks.iter().map(|look| pace.after(*look, Duration::ZERO).as_millis()).collect::<Vec<_>>();
        use Look::{Busy, Failed, Nothing, Rows};
        assert_eq!(pauses(&[Nothing, Nothing, Nothing, Nothing]), [5, 10, 20, 25]);
        assert_eq!(pauses(&[Rows, Nothing, Busy, Rows]), [0, 5, 25, 0]);
        assert_eq!(pauses(&[Failed, Failed, Failed, Rows, Failed]), [100, 200, 400, 0, 100]);
        assert_eq!(pauses(&[Failed; 10]).last(), Some(&5000));
    }

    #[test]
    fn a_slow_look_is_followed_by_a_longer_pause() {
        let mut pace = Pace::new(Duration::from_millis(25));
        let mut pause = |look, took| pace.after(look, Duration::from_millis(took)).as_millis();
        assert_eq!([pause(Look::Nothing, 25), pause(Look::Nothing, 26), pause(Look::Nothing, 90)], [5, 260, 900]);
        assert_eq!(
            [pause(Look::Nothing, 5000), pause(Look::Nothing, 1)],
            [1000, 25],
            "it lasts no longer than it is slow"
        );
        assert_eq!(pause(Look::Rows, 5000), 0, "what is there is relayed, however slowly it is found");
    }

    #[test]
    fn ids_come_after_those_of_a_node_whose_clock_is_ahead() {
        let of_another = IdSequence::default().next(NOW.plus(Duration::from_millis(40)), [0xff; 12]);
        let next = IdSequence::default().next(id_time(NOW, Some(of_another)), [0; 12]);
        assert!(next > of_another);
        assert_eq!(id_time(NOW, None), NOW);
        assert_eq!(id_time(NOW, Some(Id::floor(Timestamp::from_millis(5)))), NOW);
        // Nothing that someone wrote into the table moves ids into next year.
        assert_eq!(id_time(NOW, Some(Id::MAX)), NOW);
    }
}
