//! Where leased deliveries wait for one of their lane's slots.
//!
//! A target that answers fast gets more leased than it has slots, so that the next ones are at hand; never more at once than it has slots.
//! If it stops answering, or asks for a rest, what waits is handed back. Deliveries of one lane that a lease brought start in its order,
//! whichever thread runs them first: the runtime runs the task that was spawned last before those that were spawned before it. That costs
//! what several threads could do at once, so that deliveries of the fast path, before which nothing waited, start as they come.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;
use std::time::Duration;

use everhook_core::id::LaneId;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, SemaphorePermit, oneshot};

/// How long a delivery waits for a slot.
const KEPT_WAITING: Duration = Duration::from_secs(2);

/// The lines of a node, one for each lane that has something under way, and the one of the node behind them.
pub(crate) struct Lines {
    node: Semaphore,
    per_lane: usize,
    lanes: Mutex<HashMap<LaneId, Lane>>,
}

struct Lane {
    line: Arc<Line>,
    /// Closed as soon as the last delivery has started that others start behind.
    last: Option<oneshot::Receiver<()>>,
}

struct Line {
    slots: Arc<Semaphore>,
    /// Told to those who wait: their target wants a rest.
    rests: Notify,
}

/// When a delivery starts that has a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Behind those of its lane that a lease brought before it.
    AsLeased,
    /// At once.
    Free,
}

/// A place in the line of a lane, which is there as long as someone has one.
pub(crate) struct Place {
    lines: Arc<Lines>,
    lane: LaneId,
    line: Arc<Line>,
    /// Closed as soon as the delivery before has started.
    before: Option<oneshot::Receiver<()>>,
    start: Option<Start>,
}

/// What the next delivery waits for, if there is one behind: that this is dropped.
pub(crate) struct Start {
    _start: Option<oneshot::Sender<()>>,
}

/// A delivery's turn.
pub(crate) struct Turn<'a> {
    pub(crate) start: Start,
    pub(crate) in_use: InUse<'a>,
}

/// A slot in use; others are let in when it is dropped.
pub(crate) struct InUse<'a> {
    _in_node: SemaphorePermit<'a>,
    _in_lane: OwnedSemaphorePermit,
}

impl Lines {
    pub(crate) fn new(slots: usize, per_lane: usize) -> Lines {
        Lines { node: Semaphore::new(slots), per_lane, lanes: Mutex::default() }
    }

    /// The next place in the line of a lane.
    pub(crate) fn place(self: &Arc<Self>, lane: LaneId, order: Order) -> Place {
        let mut lanes = self.lock();
        let known = lanes.entry(lane).or_insert_with(|| Lane { line: Arc::new(self.new_line()), last: None });
        let (before, start) = match order {
            Order::Free => (None, None),
            Order::AsLeased => {
                let (start, started) = oneshot::channel();
                (known.last.replace(started), Some(start))
            }
        };
        let line = Arc::clone(&known.line);
        Place { lines: Arc::clone(self), lane, line, before, start: Some(Start { _start: start }) }
    }

    /// The target of this lane wants a rest: nobody waits for it any longer.
    pub(crate) fn rest(&self, lane: LaneId) {
        if let Some(lane) = self.lock().get(&lane) {
            lane.line.rests.notify_waiters();
        }
    }

    fn new_line(&self) -> Line {
        Line { slots: Arc::new(Semaphore::new(self.per_lane)), rests: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<LaneId, Lane>> {
        self.lanes.lock().expect("nothing panics while it holds this lock")
    }
}

impl Place {
    /// Waits until the delivery before has started, for a slot of the lane, and then for one of the node; none if that takes too long, if
    /// the lane is to rest, or if this place had its turn.
    pub(crate) async fn turn(&mut self) -> Option<Turn<'_>> {
        let start = self.start.take()?;
        let before = self.before.take().and_then(|mut before| (!is_over(&mut before)).then_some(before));
        let free = if before.is_none() { self.free_slot() } else { None };
        let in_use = match free {
            Some(free) => free,
            None => tokio::select! {
                // First: a slot that comes free because its target wants a rest is not to be used.
                biased;
                () = self.line.rests.notified() => return None,
                slot = tokio::time::timeout(KEPT_WAITING, self.next_slot(before)) => slot.ok()?,
            },
        };
        Some(Turn { start, in_use })
    }

    fn free_slot(&self) -> Option<InUse<'_>> {
        let in_lane = Arc::clone(&self.line.slots).try_acquire_owned().ok()?;
        Some(InUse { _in_lane: in_lane, _in_node: self.lines.node.try_acquire().ok()? })
    }

    async fn next_slot(&self, before: Option<oneshot::Receiver<()>>) -> InUse<'_> {
        if let Some(before) = before {
            // Nothing is ever sent: it is closed.
            let _ = before.await;
        }
        let in_lane = Arc::clone(&self.line.slots).acquire_owned().await.expect("nobody closes it");
        InUse { _in_lane: in_lane, _in_node: self.lines.node.acquire().await.expect("nobody closes it") }
    }
}

fn is_over(before: &mut oneshot::Receiver<()>) -> bool {
    before.try_recv() == Err(TryRecvError::Closed)
}

impl Start {
    /// Runs `work`; the next delivery of the lane may start as soon as `work` was polled once.
    pub(crate) async fn with<T>(self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let first = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await;
        drop(self);
        match first {
            Poll::Ready(done) => done,
            Poll::Pending => work.await,
        }
    }
}

impl Drop for Place {
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

    fn lines(slots: usize, per_lane: usize) -> Arc<Lines> {
        Arc::new(Lines::new(slots, per_lane))
    }

    /// The slot of a delivery that has started, if there is one for it now.
    fn start(place: &mut Place) -> Option<InUse<'_>> {
        Some(place.turn().now_or_never().flatten()?.in_use)
    }

    #[tokio::test]
    async fn neither_a_lane_nor_the_node_has_more_under_way_than_its_slots() {
        let lines = lines(3, 2);
        let (mut first, mut second) = (lines.place(LANE, Order::AsLeased), lines.place(LANE, Order::AsLeased));
        let (first, _second) = (start(&mut first).unwrap(), start(&mut second).unwrap());
        assert!(start(&mut lines.place(LANE, Order::AsLeased)).is_none(), "the lane is full");
        let mut other = lines.place(OTHER, Order::AsLeased);
        let _other = start(&mut other).unwrap();
        assert!(start(&mut lines.place(OTHER, Order::AsLeased)).is_none(), "the node is full");
        drop(first);
        assert!(start(&mut lines.place(OTHER, Order::AsLeased)).is_some());
        assert!(start(&mut lines.place(LANE, Order::AsLeased)).is_some());
    }

    #[tokio::test]
    async fn deliveries_of_a_lane_start_in_the_order_of_their_places() {
        let lines = lines(9, 9);
        let (mut first, mut second, mut third) = (
            lines.place(LANE, Order::AsLeased),
            lines.place(LANE, Order::AsLeased),
            lines.place(LANE, Order::AsLeased),
        );
        let mut waiting = Box::pin(second.turn());
        assert!(waiting.as_mut().now_or_never().is_none(), "the first one has not started");
        assert!(start(&mut lines.place(OTHER, Order::AsLeased)).is_some(), "that is nothing to another lane");
        assert!(start(&mut lines.place(LANE, Order::Free)).is_some(), "it waits for nobody");
        let turn = first.turn().now_or_never().flatten().unwrap();
        assert!(waiting.as_mut().now_or_never().is_none(), "it has a slot, and has not started");
        let mut sending = Box::pin(turn.start.with(std::future::pending::<()>()));
        assert!(sending.as_mut().now_or_never().is_none());
        drop(waiting.now_or_never().flatten().unwrap());
        assert!(start(&mut third).is_some(), "the second one gave up");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_for_a_target_that_wants_a_rest_goes() {
        let lines = lines(3, 1);
        let (mut first, mut second, mut third) = (
            lines.place(LANE, Order::AsLeased),
            lines.place(LANE, Order::AsLeased),
            lines.place(LANE, Order::AsLeased),
        );
        let first = start(&mut first).unwrap();
        let waiting = async { tokio::join!(second.turn(), third.turn(), async { lines.rest(LANE) }) };
        let (second, third, ()) = tokio::time::timeout(KEPT_WAITING / 2, waiting).await.unwrap();
        assert!(second.is_none() && third.is_none());
        drop(first);
        assert!(
            start(&mut lines.place(LANE, Order::AsLeased)).is_some(),
            "the next one comes after the rest was written"
        );
        lines.rest(LANE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lane_with_nothing_under_way_is_forgotten() {
        let lines = lines(2, 2);
        let (mut first, mut second) = (lines.place(LANE, Order::AsLeased), lines.place(LANE, Order::AsLeased));
        start(&mut first).unwrap();
        drop(first);
        let mut other = lines.place(OTHER, Order::AsLeased);
        let _other = start(&mut other).unwrap();
        assert_eq!(lines.lock().len(), 2);
        start(&mut second).unwrap();
        drop(second);
        assert_eq!(lines.lock().len(), 1);
        let mut another = lines.place(OTHER, Order::AsLeased);
        let _another = start(&mut another).unwrap();
        assert!(lines.place(LANE, Order::AsLeased).turn().await.is_none(), "the node stays full");
        assert_eq!(lines.lock().len(), 1);
    }
}
