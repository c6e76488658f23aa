//! How far lanes were looked through, as this node remembers it.
//!
//! What is leased stays in the index `task_ready` as long as some snapshot may need it, and a look at a lane walks over it unless it
//! knows where to begin. `lane.floor` says that to everyone, but a lane that is written with each look is no better: its own former versions
//! stay, too, and everyone who reads the lane walks over those. So a busy lane is written every few seconds, and in between its node
//! remembers how far it got. It may be wrong: someone's commit may take longer than a moment, and bring something from before. So once a
//! second, and before it is said that nothing is due, a lane is looked through from its floor.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use everhook_core::id::{EnvironmentId, LaneId};
use everhook_core::time::Timestamp;

/// How often a busy lane's floor is written.
const WRITE_EVERY: Duration = Duration::from_secs(10);
/// How often a busy lane is looked through from its floor.
const WHOLE_EVERY: Duration = Duration::from_secs(1);
/// How long it commonly takes at most until others see what is due at once.
const MOMENT: Duration = Duration::from_millis(200);
/// Lanes that are remembered.
const LANES_MAX: usize = 1000;

type LaneKey = (EnvironmentId, LaneId);

/// The looks of one node.
#[derive(Default)]
pub(crate) struct ScanCursors(Mutex<HashMap<LaneKey, ScanCursor>>);

struct ScanCursor {
    /// Where the next one begins.
    from: Timestamp,
    /// When the lane was last looked through from its floor.
    whole_at: Timestamp,
    /// When that floor was last written, as far as this node knows.
    written_at: Timestamp,
}

impl ScanCursors {
    /// Where to begin in a lane with this floor.
    pub(crate) fn begin(&self, lane: LaneKey, floor: Timestamp, now: Timestamp) -> Timestamp {
        match self.lock().get(&lane) {
            Some(cursor) if now.since(cursor.whole_at) < WHOLE_EVERY => cursor.from.max(floor),
            _ => floor,
        }
    }

    /// Whether it is time to write the floor of a lane.
    pub(crate) fn is_old(&self, lane: LaneKey, now: Timestamp) -> bool {
        self.lock().get(&lane).is_some_and(|cursor| now.since(cursor.written_at) >= WRITE_EVERY)
    }

    /// Everything that was due in the lane until then is leased; `whole` if it was looked through from its floor.
    pub(crate) fn remember(&self, lane: LaneKey, until: Timestamp, whole: bool, now: Timestamp) {
        let mut cursors = self.lock();
        if cursors.len() >= LANES_MAX {
            cursors.retain(|_, cursor| now.since(cursor.whole_at) < WRITE_EVERY);
        }
        let cursor =
            cursors.entry(lane).or_insert(ScanCursor { from: Timestamp::default(), whole_at: now, written_at: now });
        cursor.from = cursor.from.max(until.min(now.minus(MOMENT)));
        if whole {
            cursor.whole_at = now;
        }
    }

    /// The lane's floor is written.
    pub(crate) fn forget(&self, lane: LaneKey) {
        self.lock().remove(&lane);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<LaneKey, ScanCursor>> {
        self.0.lock().expect("nothing panics while it holds this lock")
    }
}

#[cfg(test)]
mod tests {
    use everhook_core::id::Id;

    use super::*;

    const LANE: LaneKey = (EnvironmentId(1), LaneId(Id::MIN));
    const FLOOR: Timestamp = Timestamp::from_millis(1_000);
    const NOW: Timestamp = Timestamp::from_millis(100_000);

    #[test]
    fn a_look_begins_where_the_last_one_ended_less_a_moment() {
        let cursors = ScanCursors::default();
        assert_eq!(cursors.begin(LANE, FLOOR, NOW), FLOOR);
        cursors.remember(LANE, NOW, true, NOW);
        assert_eq!(cursors.begin(LANE, FLOOR, NOW), NOW.minus(MOMENT));
        assert_eq!(cursors.begin(LANE, NOW, NOW), NOW, "others got further");
        cursors.remember(LANE, FLOOR, false, NOW);
        assert_eq!(cursors.begin(LANE, FLOOR, NOW), NOW.minus(MOMENT), "it got less far from its floor");
        cursors.forget(LANE);
        assert_eq!(cursors.begin(LANE, FLOOR, NOW), FLOOR);
    }

    #[test]
    fn a_lane_is_looked_through_from_its_floor_every_second() {
        let cursors = ScanCursors::default();
        cursors.remember(LANE, NOW, true, NOW);
        let (soon, later) = (NOW.plus(WHOLE_EVERY / 2), NOW.plus(WHOLE_EVERY));
        cursors.remember(LANE, soon, false, soon);
        assert!(cursors.begin(LANE, FLOOR, soon) > FLOOR);
        assert_eq!(cursors.begin(LANE, FLOOR, later), FLOOR);
        cursors.remember(LANE, later, true, later);
        assert!(cursors.begin(LANE, FLOOR, later) > FLOOR);
    }

    #[test]
    fn a_floor_grows_old_until_it_is_written() {
        let cursors = ScanCursors::default();
        assert!(!cursors.is_old(LANE, NOW));
        cursors.remember(LANE, NOW, true, NOW);
        let later = NOW.plus(WRITE_EVERY);
        cursors.remember(LANE, NOW, true, later);
        assert!(cursors.is_old(LANE, later) && !cursors.is_old(LANE, NOW));
        cursors.forget(LANE);
        assert!(!cursors.is_old(LANE, later));
    }
}
