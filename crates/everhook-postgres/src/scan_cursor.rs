//! Scan positions of lanes, as this node remembers them.
//!
//! Leased tasks stay in the index `task_ready` while any snapshot may need them, and a scan reads past them unless it
//! starts behind them. `lane.floor` gives every node that start. But writing the lane on each lease is no better: old
//! versions of the lane row stay as well, and every reader of the lane visits them. A busy lane is therefore written
//! every few seconds. In between, its node remembers the scan position.
//!
//! The position can be too far ahead: a transaction that takes long to commit may insert a task behind it. Each lane is
//! therefore scanned from its floor once a second, and before a lease reports that no task is due.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use everhook_core::id::{EnvironmentId, LaneId};
use everhook_core::time::Timestamp;

/// The interval at which the floor of a busy lane is written.
const WRITE_EVERY: Duration = Duration::from_secs(10);
/// The interval at which a busy lane is scanned from its floor.
const WHOLE_EVERY: Duration = Duration::from_secs(1);
/// The usual upper bound of the time until other nodes see a new task that is due at once.
const MOMENT: Duration = Duration::from_millis(200);
/// The limit of remembered lanes. Other lanes are scanned from their floor.
const LANES_MAX: usize = 10_000;

type LaneKey = (EnvironmentId, LaneId);

/// The scan positions of one node.
#[derive(Default)]
pub(crate) struct ScanCursors(Mutex<Remembered>);

#[derive(Default)]
struct Remembered {
    lanes: HashMap<LaneKey, ScanCursor>,
    /// The time at which idle lanes were last forgotten.
    pruned_at: Timestamp,
}

struct ScanCursor {
    /// The start of the next scan.
    from: Timestamp,
    /// The time of the last scan from the floor.
    whole_at: Timestamp,
    /// The time of the last write of the floor, as far as this node knows.
    written_at: Timestamp,
}

impl ScanCursors {
    /// Returns the start of a scan of a lane with this floor.
    pub(crate) fn begin(&self, lane: LaneKey, floor: Timestamp, now: Timestamp) -> Timestamp {
        match self.lock().lanes.get(&lane) {
            Some(cursor) if now.since(cursor.whole_at) < WHOLE_EVERY => cursor.from.max(floor),
            _ => floor,
        }
    }

    /// Whether the floor of a lane should be written.
    pub(crate) fn is_old(&self, lane: LaneKey, now: Timestamp) -> bool {
        self.lock().lanes.get(&lane).is_some_and(|cursor| now.since(cursor.written_at) >= WRITE_EVERY)
    }

    /// Records that all tasks due up to `until` are leased; `whole` if the scan started at the floor.
    pub(crate) fn remember(&self, lane: LaneKey, until: Timestamp, whole: bool, now: Timestamp) {
        let Remembered { lanes, pruned_at } = &mut *self.lock();
        if lanes.len() >= LANES_MAX && now.since(*pruned_at) >= WHOLE_EVERY {
            lanes.retain(|_, cursor| now.since(cursor.whole_at) < WRITE_EVERY);
            *pruned_at = now;
        }
        if lanes.len() >= LANES_MAX && !lanes.contains_key(&lane) {
            return;
        }
        let cursor =
            lanes.entry(lane).or_insert(ScanCursor { from: Timestamp::default(), whole_at: now, written_at: now });
        cursor.from = cursor.from.max(until.min(now.minus(MOMENT)));
        if whole {
            cursor.whole_at = now;
        }
    }

    /// Forgets a lane whose floor was written.
    pub(crate) fn forget(&self, lane: LaneKey) {
        self.lock().lanes.remove(&lane);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Remembered> {
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
    #[test]
    fn no_more_lanes_are_remembered_than_may_be() {
        let cursors = ScanCursors::default();
        let lane = |n: usize| (EnvironmentId(i32::try_from(n).unwrap()), LANE.1);
        for n in 0..=LANES_MAX {
            cursors.remember(lane(n), NOW, true, NOW);
        }
        assert_eq!(cursors.lock().lanes.len(), LANES_MAX);
        assert_eq!(cursors.begin(lane(LANES_MAX), FLOOR, NOW), FLOOR);
        let later = NOW.plus(WRITE_EVERY);
        cursors.remember(lane(LANES_MAX), later, true, later);
        assert_eq!(cursors.lock().lanes.len(), 1, "idle lanes make room");
    }
}
