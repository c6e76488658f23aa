//! Executes the commands of the dispatch machine: leases tasks, starts them, and hands them back.
//!
//! Deliveries and jobs have one machine each. A [`Source`] leases the tasks and a [`Run`] runs them. A component that
//! reports an event also executes the resulting commands itself, so that no task waits until the dispatcher loop is
//! scheduled. The loop only leases, and hands back tasks that have waited too long for a slot.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use everhook_core::dispatch::health::Sign;
use everhook_core::dispatch::{Command, Dispatch, Event, LeaseCommand, Ticket};
use everhook_core::fair::{GroupId, GroupedLane};
use everhook_core::id::{EnvironmentId, LaneId};
use everhook_core::lane::LanePosition;
use everhook_core::share::Tenants;
use everhook_store::capacity::{Capacity, Slot};
use everhook_store::error::StoreError;
use tokio::sync::Notify;
use tracing::warn;

use crate::node::Node;
use crate::policies::Pauses;
use crate::session::Session;

/// The interval of checks for free capacity.
const CAPACITY_STEP: Duration = Duration::from_millis(1);
/// The longest wait for free capacity, in steps.
const CAPACITY_STEPS_MAX: u32 = 50;
/// The longest wait without any released slot. Beyond that, the tasks that hold the slots probably hang.
const IDLE_STEPS_MAX: u32 = 5;

/// The dispatch machine that the dispatcher, the appends and the running tasks share.
pub(crate) struct NodeCapacity<T> {
    machine: Mutex<Machine<T>>,
    wake: Notify,
    /// No task of an append begins while this is true, because egress is paused.
    is_closed: AtomicBool,
    /// Applications and environments whose tasks wait.
    pauses: RwLock<Arc<Pauses>>,
    /// Most servers have no pause; their appends take no lock.
    has_pauses: AtomicBool,
    /// The number of slots released since the start.
    released: AtomicU64,
}

struct Machine<T> {
    dispatch: Dispatch<T>,
    /// The time until which the dispatcher sleeps; an earlier event must wake it. Zero while it is awake.
    sleeps_until: Duration,
}

impl<T> NodeCapacity<T> {
    pub(crate) fn new(dispatch: Dispatch<T>) -> NodeCapacity<T> {
        let machine = Machine { dispatch, sleeps_until: Duration::ZERO };
        NodeCapacity {
            machine: Mutex::new(machine),
            wake: Notify::new(),
            is_closed: AtomicBool::new(false),
            pauses: RwLock::default(),
            has_pauses: AtomicBool::new(false),
            released: AtomicU64::new(0),
        }
    }

    /// Closes the fast path, or opens it again.
    pub(crate) fn close(&self, is_closed: bool) {
        self.is_closed.store(is_closed, Ordering::Release);
    }

    /// Replaces the pauses. Returns whether they have changed.
    pub(crate) fn set_pauses(&self, pauses: Pauses) -> bool {
        let mut known = self.pauses.write().expect("nothing panics while it holds this lock");
        if **known == pauses {
            return false;
        }
        self.has_pauses.store(!pauses.is_empty(), Ordering::Release);
        *known = Arc::new(pauses);
        true
    }

    pub(crate) fn pauses(&self) -> Arc<Pauses> {
        Arc::clone(&self.pauses.read().expect("nothing panics while it holds this lock"))
    }

    fn is_paused(&self, group: GroupId) -> bool {
        self.has_pauses.load(Ordering::Acquire) && self.pauses().has(group)
    }

    /// Reports that new tasks may exist.
    pub(crate) fn hint(&self, now: Duration) {
        self.update(|dispatch| dispatch.handle(Event::Hint, now));
    }

    /// Reports that a task becomes due after this span.
    pub(crate) fn due_in(&self, span: Duration, now: Duration) {
        self.update(|dispatch| dispatch.handle(Event::DueIn(span), now));
    }

    /// Stops leasing and the fast path for a moment, because this node lacks a resource such as open files. Tasks that
    /// started before the pause and fail for the same reason are handed back, too.
    pub(crate) fn pause(&self, lack: &str, now: Duration) {
        let is_first = self.update(|dispatch| {
            let is_first = !dispatch.is_paused();
            dispatch.handle(Event::Exhausted, now);
            is_first
        });
        if is_first {
            warn!(
                "{lack}: sending is paused for a moment, without using up an attempt; raise the limit of open files \
                 (`ulimit -n`), or lower `slots`"
            );
        }
    }

    /// The number of tasks leased to this node: running, waiting for a slot, or not yet settled.
    pub(crate) fn leased(&self) -> usize {
        self.lock().dispatch.leased()
    }

    /// Gives the machine the current lanes. Returns how their environments share the node's capacity.
    pub(crate) fn share_between(&self, lanes: impl Iterator<Item = (EnvironmentId, LaneId)>) -> Tenants {
        self.lock().dispatch.share_between(lanes)
    }

    /// Waits a short time for capacity for this many tasks, as long as slots are being released. A task committed
    /// without capacity must later be leased from the store, which costs an extra transaction.
    pub(crate) async fn wait_for(&self, tasks: usize) {
        let (mut released, mut idle) = (self.released.load(Ordering::Relaxed), 0);
        for _ in 0..CAPACITY_STEPS_MAX {
            if self.lock().dispatch.has_places_for(tasks) || idle >= IDLE_STEPS_MAX {
                return;
            }
            tokio::time::sleep(CAPACITY_STEP).await;
            let now = self.released.load(Ordering::Relaxed);
            idle = if now == released { idle + 1 } else { 0 };
            released = now;
        }
    }

    /// Passes events to the machine and returns its first command.
    pub(crate) fn handle(&self, events: impl IntoIterator<Item = Event<T>>, now: Duration) -> Option<Command<T>> {
        self.update(|dispatch| {
            events.into_iter().for_each(|event| dispatch.handle(event, now));
            dispatch.poll(now)
        })
    }

    /// Passes the end of an attempt to the machine. `rest` says that the receiver asks for a delay. Returns how long
    /// the lane has to rest by the decision of the machine, and its first command.
    pub(crate) fn ended(
        &self,
        lane: LaneId,
        sign: Sign,
        rest: bool,
        now: Duration,
    ) -> (Option<Duration>, Option<Command<T>>) {
        self.update(|dispatch| {
            // The machine must know that the endpoint backs off before it sees the free slot. It would otherwise start
            // the next delivery of the same lane.
            let rests = dispatch.learn(lane, sign, now);
            if rest {
                dispatch.handle(Event::Rest(lane), now);
            }
            dispatch.handle(Event::Ended(lane), now);
            (rests, dispatch.poll(now))
        })
    }

    pub(crate) fn poll(&self, now: Duration) -> Option<Command<T>> {
        self.update(|dispatch| dispatch.poll(now))
    }

    /// Records that the dispatcher sleeps now, and returns the time at which it must wake up.
    fn fall_asleep(&self) -> Duration {
        let mut machine = self.lock();
        machine.sleeps_until = machine.dispatch.next_wakeup();
        machine.sleeps_until
    }

    fn stay_awake(&self) {
        self.lock().sleeps_until = Duration::ZERO;
    }

    /// Changes the machine, and wakes the dispatcher if its next wake-up is now earlier.
    fn update<R>(&self, change: impl FnOnce(&mut Dispatch<T>) -> R) -> R {
        let mut machine = self.lock();
        let result = change(&mut machine.dispatch);
        let oversleeps = machine.dispatch.next_wakeup() < machine.sleeps_until;
        if oversleeps {
            machine.sleeps_until = Duration::ZERO;
        }
        drop(machine);
        if oversleeps {
            self.wake.notify_one();
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, Machine<T>> {
        self.machine.lock().expect("nothing panics while it holds this lock")
    }
}

impl<T: Send + 'static> NodeCapacity<T> {
    /// The slot of a leased task. Dropping it releases the capacity.
    pub(crate) fn slot(self: &Arc<Self>, lane: LaneId) -> Slot {
        let slots: Arc<dyn Capacity> = Arc::<NodeCapacity<T>>::clone(self);
        Slot::held(&slots, lane)
    }
}

impl<T: Send> Capacity for NodeCapacity<T> {
    fn reserve(&self, lane: GroupedLane) -> bool {
        !self.is_closed.load(Ordering::Acquire) && !self.is_paused(lane.group) && self.lock().dispatch.reserve(lane)
    }

    fn plan_lease(&self, lanes: &[GroupedLane], most: usize) -> Vec<usize> {
        self.lock().dispatch.plan_lease(lanes, most)
    }

    fn release(&self, lane: LaneId) {
        self.released.fetch_add(1, Ordering::Relaxed);
        self.update(|dispatch| dispatch.release(lane));
    }
}

pub(crate) trait Run: Clone + Send + Sync + 'static {
    /// A leased task with everything needed to run it.
    type Task: Send + 'static;

    fn capacity(&self) -> &Arc<NodeCapacity<Self::Task>>;

    /// Starts a task in its slot. The runner reports the end to the machine.
    fn start(&self, ticket: Ticket<Self::Task>);

    fn hand_back(&self, tickets: Vec<Ticket<Self::Task>>);

    /// Passes events to the machine and executes the resulting commands.
    fn report(&self, events: impl IntoIterator<Item = Event<Self::Task>>, now: Duration) {
        self.carry_out(self.capacity().handle(events, now), now);
    }

    /// Executes `next` and all further commands of the machine.
    fn carry_out(&self, mut next: Option<Command<Self::Task>>, now: Duration) {
        let mut handed_back = Vec::new();
        while let Some(command) = next {
            match command {
                Command::Start(ticket) => self.start(ticket),
                Command::HandBack(ticket) => handed_back.push(ticket),
            }
            next = self.capacity().poll(now);
        }
        if !handed_back.is_empty() {
            self.hand_back(handed_back);
        }
    }
}

pub(crate) struct WorkGrant<T> {
    pub(crate) tickets: Vec<Ticket<T>>,
    /// The time until more tasks may be due.
    pub(crate) next_ready: Option<Duration>,
    /// The position at which the next lease continues.
    pub(crate) resume: Option<LanePosition>,
    /// True if due tasks may have been left because their slots are promised to other environments.
    pub(crate) held_back: bool,
    /// The error that ended the lease. The tickets leased before the error are valid.
    pub(crate) failed: Option<StoreError>,
}

impl<T> Default for WorkGrant<T> {
    /// The grant of a lease that brought nothing.
    fn default() -> WorkGrant<T> {
        WorkGrant { tickets: Vec::new(), next_ready: None, resume: None, held_back: false, failed: None }
    }
}

/// Leases tasks for one machine.
#[async_trait]
pub(crate) trait Source: Send + Sync {
    type Runner: Run;

    fn runner(&self) -> &Self::Runner;

    async fn lease(&self, session: &Arc<Session>, ask: LeaseCommand) -> WorkGrant<TaskOf<Self>>;
}

pub(crate) type TaskOf<S> = <<S as Source>::Runner as Run>::Task;

enum Happened<T> {
    Stop,
    Wake,
    Leased(Arc<Session>, WorkGrant<T>),
}

/// Leases and starts tasks until the node stops. A lease in progress is completed first, because its tasks belong to
/// this node.
pub(crate) async fn run<S: Source>(node: &Node, source: S) {
    let (runner, capacity) = (source.runner(), source.runner().capacity());
    let mut lease = None;
    loop {
        // Awake from here on: earlier events need no wake-up, because `fall_asleep` takes them into account.
        capacity.stay_awake();
        let now = node.clock.elapsed();
        runner.carry_out(capacity.poll(now), now);
        if let Some(ask) = capacity.update(|dispatch| dispatch.poll_lease(now)) {
            lease = begin(node, &source, ask).map(Box::pin);
            if lease.is_none() {
                runner.report([Event::LeaseFailed { tickets: Vec::new() }], now);
            }
        }
        let wakeup = node.clock.instant(capacity.fall_asleep());
        let happened = tokio::select! {
            biased;
            // A lease must not be dropped halfway: the store may have committed it, and its tasks would stay leased
            // until the session ends.
            () = node.stop.cancelled(), if lease.is_none() => Happened::Stop,
            (session, grant) = async { lease.as_mut().expect("guarded").await }, if lease.is_some() => {
                Happened::Leased(session, grant)
            }
            () = capacity.wake.notified() => Happened::Wake,
            () = tokio::time::sleep_until(wakeup) => Happened::Wake,
        };
        match happened {
            Happened::Stop => return,
            Happened::Wake => {}
            Happened::Leased(session, grant) => {
                lease = None;
                finish(node, runner, &session, grant);
            }
        }
    }
}

/// Starts a lease; returns none without a usable session.
fn begin<'a, S: Source>(
    node: &'a Node,
    source: &'a S,
    ask: LeaseCommand,
) -> Option<impl Future<Output = (Arc<Session>, WorkGrant<TaskOf<S>>)> + 'a> {
    let session = node.sessions.current()?;
    Some(async move {
        let begun = node.metrics.begin();
        let grant = source.lease(&session, ask).await;
        node.metrics.leased(grant.tickets.len(), begun);
        (session, grant)
    })
}

fn finish<R: Run>(node: &Node, runner: &R, session: &Arc<Session>, grant: WorkGrant<R::Task>) {
    let WorkGrant { tickets, next_ready, resume, held_back, failed } = grant;
    let leased = match failed {
        None => Event::Leased { tickets, next_ready, resume },
        Some(error) => {
            warn!(error = &error as &dyn std::error::Error, "could not lease tasks");
            if error.is_in_doubt() {
                // The store may have leased tasks to the session that this node does not know.
                node.sessions.retire(session);
            }
            Event::LeaseFailed { tickets }
        }
    };
    let events = [Some(leased), held_back.then_some(Event::HeldBack)];
    runner.report(events.into_iter().flatten(), node.clock.elapsed());
}

/// Takes no more tasks, and hands back the tasks that wait for a slot.
pub(crate) fn drain(node: &Node, runner: &impl Run) {
    runner.report([Event::Drain], node.clock.elapsed());
}
