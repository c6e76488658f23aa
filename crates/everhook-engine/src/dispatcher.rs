//! Drives the dispatch machine: leases tasks when it says so and starts them.
//!
//! One for deliveries and one for jobs; where tasks come from and who runs them is their [`Source`]. Also the node's slots, for tasks
//! that were leased and for those that an append inserted already leased.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use everhook_core::dispatch::{Command, Dispatch, Event};
use everhook_core::id::LaneId;
use everhook_store::error::StoreError;
use everhook_store::slots::{Slot, Slots};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::session::{Sessions, Tenure};

/// How often to look for room.
const ROOM_STEP: Duration = Duration::from_millis(1);
/// How long to wait for room, in steps.
const ROOM_STEPS_MAX: u32 = 50;
/// How long to wait while no slot is given back: whoever has them all hangs.
const IDLE_STEPS_MAX: u32 = 5;

/// The dispatch machine, shared between the dispatcher and the appends.
pub(crate) struct Room {
    dispatch: Mutex<Dispatch>,
    wake: Notify,
    /// How many slots were given back so far.
    released: AtomicU64,
}

impl Room {
    pub(crate) fn new(dispatch: Dispatch) -> Room {
        Room { dispatch: Mutex::new(dispatch), wake: Notify::new(), released: AtomicU64::new(0) }
    }

    /// A task of this lane was run to its end.
    pub(crate) fn ended(&self, lane: LaneId) {
        self.lock().ended(lane);
    }

    /// There may be new work.
    pub(crate) fn hint(&self, now: Duration) {
        self.lock().handle(Event::Hint, now);
        self.wake.notify_one();
    }

    /// There will be work after this span.
    pub(crate) fn due_in(&self, span: Duration, now: Duration) {
        let earlier = {
            let mut dispatch = self.lock();
            let before = dispatch.next_wakeup();
            dispatch.handle(Event::DueIn(span), now);
            dispatch.next_wakeup() < before
        };
        if earlier {
            self.wake.notify_one();
        }
    }

    /// This node lacks what a task needs: nothing begins for a moment. What came too late for that comes back as well.
    pub(crate) fn pause(&self, lack: &str, now: Duration) {
        let is_first = {
            let mut dispatch = self.lock();
            let is_first = !dispatch.is_paused();
            dispatch.handle(Event::Exhausted, now);
            is_first
        };
        if is_first {
            warn!(
                "{lack}: nothing is sent for a moment, and no attempt is used; raise the limit of open files \
                 (`ulimit -n`), or lower `slots`"
            );
        }
        self.wake.notify_one();
    }

    /// How many tasks run now.
    pub(crate) fn running(&self) -> usize {
        self.lock().running()
    }

    /// How many tasks may be leased at once now, and how many of each of these lanes are.
    pub(crate) fn in_use<K: Ord>(&self, lanes: impl Iterator<Item = (K, LaneId)>) -> (usize, BTreeMap<K, usize>) {
        let dispatch = self.lock();
        let mut running = BTreeMap::new();
        for (key, lane) in lanes {
            *running.entry(key).or_default() += dispatch.running_in(lane);
        }
        (dispatch.places(), running)
    }

    /// Waits for room for so many tasks, as long as slots are given back and not for long: what is accepted without room
    /// waits in the store, and comes back from there at a price.
    pub(crate) async fn wait_for(&self, tasks: usize) {
        let (mut released, mut idle) = (self.released.load(Ordering::Relaxed), 0);
        for _ in 0..ROOM_STEPS_MAX {
            if self.lock().has_room_for(tasks) || idle >= IDLE_STEPS_MAX {
                return;
            }
            tokio::time::sleep(ROOM_STEP).await;
            let now = self.released.load(Ordering::Relaxed);
            idle = if now == released { idle + 1 } else { 0 };
            released = now;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Dispatch> {
        self.dispatch.lock().expect("nothing panics while it holds this lock")
    }
}

impl Slots for Room {
    fn reserve(&self, lane: LaneId) -> bool {
        self.lock().reserve(lane)
    }

    fn release(&self, lane: LaneId) {
        self.released.fetch_add(1, Ordering::Relaxed);
        let worth_it = self.lock().release(lane);
        if worth_it {
            self.wake.notify_one();
        }
    }
}

/// What the machine wants to be leased.
pub(crate) struct Ask {
    /// Tasks at most.
    pub(crate) limit: usize,
    /// What these lanes have room for.
    pub(crate) rooms: Vec<(LaneId, usize)>,
    /// Room of every other lane.
    pub(crate) per_lane: usize,
}

/// What a lease brought.
pub(crate) struct Grant<W> {
    /// Leased now, each with the lane whose slot it takes.
    pub(crate) work: Vec<(LaneId, W)>,
    /// When there may be more.
    pub(crate) next_ready: Option<Duration>,
    /// Something may be due that others have a claim to the slots of.
    pub(crate) held_back: bool,
    /// What went wrong; what came before that is there all the same.
    pub(crate) failed: Option<StoreError>,
}

/// Where tasks come from, and who runs them.
#[async_trait]
pub(crate) trait Source: Send + Sync {
    /// A leased task with what it takes to run it.
    type Work: Send;

    /// Leases tasks.
    async fn lease(&self, tenure: &Tenure, ask: Ask) -> Grant<Self::Work>;

    /// Starts them.
    fn begin(&self, work: Vec<(Slot, Self::Work)>, tenure: &Arc<Tenure>);
}

/// Leases tasks and starts them.
pub(crate) struct Dispatcher<S> {
    pub(crate) source: Arc<S>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) room: Arc<Room>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) metrics: Arc<Metrics>,
}

/// What the loop waits for.
enum Happened<W> {
    Stop,
    Wake,
    Leased(Arc<Tenure>, Grant<W>),
}

impl<S: Source> Dispatcher<S> {
    /// Runs until `stop`; a lease under way is finished first, because what it brings is ours.
    pub(crate) async fn run(&self, stop: CancellationToken) {
        let mut lease = None;
        loop {
            let now = self.clock.elapsed();
            let command = self.room.lock().poll_command(now);
            if let Some(command) = command {
                lease = self.begin(command).map(Box::pin);
                if lease.is_none() {
                    self.room.lock().handle(Event::LeaseFailed, now);
                }
            }
            let wakeup = self.clock.instant(self.room.lock().next_wakeup());
            let happened = tokio::select! {
                biased;
                () = stop.cancelled(), if lease.is_none() => Happened::Stop,
                (tenure, grant) = async { lease.as_mut().expect("guarded").await }, if lease.is_some() => {
                    Happened::Leased(tenure, grant)
                }
                () = self.room.wake.notified() => Happened::Wake,
                () = tokio::time::sleep_until(wakeup) => Happened::Wake,
            };
            match happened {
                Happened::Stop => return,
                Happened::Wake => {}
                Happened::Leased(tenure, grant) => {
                    lease = None;
                    self.finish(&tenure, grant);
                }
            }
        }
    }

    /// Starts a lease, if there is a session to lease under.
    fn begin(&self, command: Command) -> Option<impl Future<Output = (Arc<Tenure>, Grant<S::Work>)> + use<S>> {
        let Command::Lease { limit, rooms, per_lane } = command;
        let tenure = self.sessions.current()?;
        let (source, metrics) = (Arc::clone(&self.source), Arc::clone(&self.metrics));
        Some(async move {
            let begun = metrics.begin();
            let grant = source.lease(&tenure, Ask { limit, rooms, per_lane }).await;
            metrics.leased(grant.work.len(), begun);
            (tenure, grant)
        })
    }

    fn finish(&self, tenure: &Arc<Tenure>, grant: Grant<S::Work>) {
        let slots: Arc<dyn Slots> = Arc::clone(&self.room) as Arc<dyn Slots>;
        let count = grant.work.len();
        {
            let mut dispatch = self.room.lock();
            grant.work.iter().for_each(|(lane, _)| dispatch.occupy(*lane));
        }
        let work = grant.work.into_iter().map(|(lane, work)| (Slot::held(&slots, lane), work));
        self.source.begin(work.collect(), tenure);
        let event = match grant.failed {
            None => Event::Leased { count, next_ready: grant.next_ready },
            Some(error) => {
                warn!(error = &error as &dyn std::error::Error, "could not lease tasks");
                if error.is_in_doubt() {
                    // It may have leased rows that we do not know of.
                    self.sessions.retire(tenure);
                }
                Event::LeaseFailed
            }
        };
        let mut dispatch = self.room.lock();
        dispatch.handle(event, self.clock.elapsed());
        if grant.held_back {
            dispatch.handle(Event::HeldBack, self.clock.elapsed());
        }
    }

    /// Takes nothing any more.
    pub(crate) fn drain(&self) {
        self.room.lock().handle(Event::Drain, self.clock.elapsed());
        self.room.wake.notify_one();
    }
}
