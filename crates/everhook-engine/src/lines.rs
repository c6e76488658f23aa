//! Where deliveries that were leased ahead wait for one of their lane's slots.
//!
//! A target that answers fast gets more leased than it has slots, so that the next ones are at hand; never more at once than it has slots.
//! If it stops answering, or asks for a rest, what waits is handed back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use everhook_core::id::LaneId;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// How long a delivery waits for a slot.
const KEPT_WAITING: Duration = Duration::from_secs(2);

/// The lines of a node, one for each lane that has something under way, and the one of the node behind them.
pub(crate) struct Lines {
    node: Semaphore,
    per_lane: usize,
    lanes: Mutex<HashMap<LaneId, Arc<Line>>>,
}

struct Line {
    slots: Arc<Semaphore>,
    /// Told to those who wait: their target wants a rest.
    rests: Notify,
}

/// A slot in use; others are let in when it is dropped.
pub(crate) struct Turn<'a> {
    _in_node: SemaphorePermit<'a>,
    _in_lane: OwnedSemaphorePermit,
    // Last: the line is left when its slot is free.
    _place: Place<'a>,
}

/// A place in the line of a lane, which is there as long as someone has one.
struct Place<'a> {
    lines: &'a Lines,
    lane: LaneId,
    line: Arc<Line>,
}

impl Lines {
    pub(crate) fn new(slots: usize, per_lane: usize) -> Lines {
        Lines { node: Semaphore::new(slots), per_lane, lanes: Mutex::default() }
    }

    /// Waits for a slot of the lane, and then for one of the node; none if that takes too long, or the lane is to rest.
    pub(crate) async fn turn(&self, lane: LaneId) -> Option<Turn<'_>> {
        let line = Arc::clone(self.lock().entry(lane).or_insert_with(|| Arc::new(self.new_line())));
        let place = Place { lines: self, lane, line };
        let (in_lane, in_node) = match self.free_slot(&place.line) {
            Some(free) => free,
            None => tokio::select! {
                // First: a slot that comes free because its target wants a rest is not to be used.
                biased;
                () = place.line.rests.notified() => return None,
                slot = tokio::time::timeout(KEPT_WAITING, self.next_slot(&place.line)) => slot.ok()?,
            },
        };
        Some(Turn { _in_node: in_node, _in_lane: in_lane, _place: place })
    }

    fn free_slot(&self, line: &Line) -> Option<(OwnedSemaphorePermit, SemaphorePermit<'_>)> {
        let in_lane = Arc::clone(&line.slots).try_acquire_owned().ok()?;
        Some((in_lane, self.node.try_acquire().ok()?))
    }

    async fn next_slot(&self, line: &Line) -> (OwnedSemaphorePermit, SemaphorePermit<'_>) {
        let in_lane = Arc::clone(&line.slots).acquire_owned().await.expect("nobody closes it");
        (in_lane, self.node.acquire().await.expect("nobody closes it"))
    }

    /// The target of this lane wants a rest: nobody waits for it any longer.
    pub(crate) fn rest(&self, lane: LaneId) {
        if let Some(line) = self.lock().get(&lane) {
            line.rests.notify_waiters();
        }
    }

    fn new_line(&self) -> Line {
        Line { slots: Arc::new(Semaphore::new(self.per_lane)), rests: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<LaneId, Arc<Line>>> {
        self.lanes.lock().expect("nothing panics while it holds this lock")
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut lanes = self.lines.lock();
        // Whoever runs or waits has it, too; the map and this place are left.
        if Arc::strong_count(&self.line) == 2 {
            lanes.remove(&self.lane);
        }
    }
}

#[cfg(test)]
mod tests {
    use everhook_core::id::Id;
    use futures_util::FutureExt;

    use super::*;

    const LANE: LaneId = LaneId(Id::MIN);
    const OTHER: LaneId = LaneId(Id::MAX);

    #[tokio::test]
    async fn neither_a_lane_nor_the_node_has_more_under_way_than_its_slots() {
        let lines = Lines::new(3, 2);
        let (first, _second) = (lines.turn(LANE).await, lines.turn(LANE).await);
        assert!(lines.turn(LANE).now_or_never().is_none(), "the lane is full");
        let _other = lines.turn(OTHER).await;
        assert!(lines.turn(OTHER).now_or_never().is_none(), "the node is full");
        drop(first);
        assert!(lines.turn(OTHER).now_or_never().is_some());
        assert!(lines.turn(LANE).now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_for_a_target_that_wants_a_rest_goes() {
        let lines = Lines::new(3, 1);
        let first = lines.turn(LANE).await;
        let waiting = async { tokio::join!(lines.turn(LANE), async { lines.rest(LANE) }) };
        let (waited, ()) = tokio::time::timeout(KEPT_WAITING / 2, waiting).await.unwrap();
        assert!(waited.is_none());
        drop(first);
        assert!(lines.turn(LANE).await.is_some(), "the next one comes after the rest was written");
        lines.rest(LANE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lane_with_nothing_under_way_is_forgotten() {
        let lines = Lines::new(2, 2);
        let (first, second) = (lines.turn(LANE).await, lines.turn(LANE).await);
        drop(first);
        let _other = lines.turn(OTHER).await;
        assert_eq!(lines.lock().len(), 2);
        drop(second);
        assert_eq!(lines.lock().len(), 1);
        let _another = lines.turn(OTHER).await;
        assert!(lines.turn(LANE).await.is_none(), "the node stays full");
        assert_eq!(lines.lock().len(), 1);
    }
}
