//! Drives the dispatch machine: leases tasks when it says so and starts them.
//!
//! Also the node's slots, for tasks that were leased and for those that an append inserted already leased.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everhook_core::dispatch::{Command, Dispatch, DispatchConfig, Event};
use everhook_core::id::LaneId;
use everhook_store::error::StoreError;
use everhook_store::lease::LeaseStore;
use everhook_store::lease::{LeaseAsk, LeaseGrant};
use everhook_store::mutant::{self, Mutant};
use everhook_store::slots::{Slot, Slots};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

use crate::clock::Clock;
use crate::delivery::Deliverer;
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
    slots: usize,
    /// How many slots were given back so far.
    released: AtomicU64,
}

impl Room {
    pub(crate) fn new(config: DispatchConfig) -> Room {
        let slots = config.slots;
        Room { dispatch: Mutex::new(Dispatch::new(config)), wake: Notify::new(), slots, released: AtomicU64::new(0) }
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

    /// How many tasks run now.
    pub(crate) fn running(&self) -> usize {
        self.lock().running()
    }

    /// Waits for room for so many tasks, as long as slots are given back and not for long: what is accepted without room
    /// waits in the store, and comes back from there at a price.
    pub(crate) async fn wait_for(&self, tasks: usize) {
        let tasks = tasks.min(self.slots);
        let (mut released, mut idle) = (self.released.load(Ordering::Relaxed), 0);
        for _ in 0..ROOM_STEPS_MAX {
            if self.running() + tasks <= self.slots || idle >= IDLE_STEPS_MAX {
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

/// Leases tasks and starts them.
pub(crate) struct Dispatcher {
    pub(crate) store: Arc<dyn LeaseStore>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) deliverer: Arc<Deliverer>,
    pub(crate) room: Arc<Room>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) deliveries: TaskTracker,
}

/// What the loop waits for.
enum Happened {
    Stop,
    Wake,
    Leased(Arc<Tenure>, Result<LeaseGrant, StoreError>),
}

impl Dispatcher {
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
                () = tokio::time::sleep_until(wakeup), if !mutant::is(Mutant::WakeupsOnly) => Happened::Wake,
            };
            match happened {
                Happened::Stop => return,
                Happened::Wake => {}
                Happened::Leased(tenure, grant) => {
                    lease = None;
                    self.finish(tenure, grant);
                }
            }
        }
    }

    /// Starts a lease, if there is a session to lease under.
    fn begin(
        &self,
        command: Command,
    ) -> Option<impl Future<Output = (Arc<Tenure>, Result<LeaseGrant, StoreError>)> + use<>> {
        let Command::Lease { limit, rooms, per_lane } = command;
        let tenure = self.sessions.current()?;
        let (store, metrics) = (Arc::clone(&self.store), Arc::clone(&self.metrics));
        Some(async move {
            let begun = metrics.begin();
            let grant = store.lease(LeaseAsk { session: tenure.id, limit, rooms, per_lane }).await;
            metrics.leased(grant.as_ref().map_or(0, |grant| grant.tasks.len()), begun);
            (tenure, grant)
        })
    }

    fn finish(&self, tenure: Arc<Tenure>, grant: Result<LeaseGrant, StoreError>) {
        let grant = match grant {
            Ok(grant) => grant,
            Err(error) => {
                warn!(error = &error as &dyn std::error::Error, "could not lease tasks");
                if error.is_in_doubt() {
                    // It may have leased rows that we do not know of.
                    self.sessions.retire(&tenure);
                }
                self.room.lock().handle(Event::LeaseFailed, self.clock.elapsed());
                return;
            }
        };
        let slots: Arc<dyn Slots> = Arc::clone(&self.room) as Arc<dyn Slots>;
        let count = grant.tasks.len();
        for leased in grant.tasks {
            self.room.lock().occupy(leased.task.lane);
            let slot = Slot::held(&slots, leased.task.lane);
            let (deliverer, tenure) = (Arc::clone(&self.deliverer), Arc::clone(&tenure));
            self.deliveries.spawn(async move { deliverer.run(leased, slot, tenure).await });
        }
        let event = Event::Leased { count, next_ready: grant.next_ready };
        self.room.lock().handle(event, self.clock.elapsed());
    }

    /// Takes nothing any more.
    pub(crate) fn drain(&self) {
        self.room.lock().handle(Event::Drain, self.clock.elapsed());
        self.room.wake.notify_one();
    }
}
