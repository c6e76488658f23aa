//! Drives the dispatch machine: leases tasks when it says so, and has them started and handed back.
//!
//! One machine for deliveries and one for jobs; tasks come from a [`Source`] and are run by a [`Run`]. A component that
//! reports an event also carries out the commands that follow, so that no task waits until the dispatcher is scheduled.
//! The dispatcher itself leases, and hands back tasks that have waited for too long.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use everhook_core::dispatch::{Command, Dispatch, Event, LeaseCommand, Ticket};
use everhook_core::id::{EnvironmentId, LaneId};
use everhook_core::share::Tenants;
use everhook_store::capacity::{Capacity, Slot};
use everhook_store::error::StoreError;
use tokio::sync::Notify;
use tracing::warn;

use crate::node::Node;
use crate::session::Session;

/// How often to look for room.
const CAPACITY_STEP: Duration = Duration::from_millis(1);
/// How long to wait for room, in steps.
const CAPACITY_STEPS_MAX: u32 = 50;
/// How long to wait while no slot is given back: whoever has them all hangs.
const IDLE_STEPS_MAX: u32 = 5;

/// The dispatch machine, shared between the dispatcher, the appends and the running tasks.
pub(crate) struct NodeCapacity<T> {
    machine: Mutex<Machine<T>>,
    wake: Notify,
    /// How many places were given back so far.
    released: AtomicU64,
}

struct Machine<T> {
    dispatch: Dispatch<T>,
    /// Until when the dispatcher sleeps: it is woken for what comes before that. Zero while it is awake.
    sleeps_until: Duration,
}

impl<T> NodeCapacity<T> {
    pub(crate) fn new(dispatch: Dispatch<T>) -> NodeCapacity<T> {
        let machine = Machine { dispatch, sleeps_until: Duration::ZERO };
        NodeCapacity { machine: Mutex::new(machine), wake: Notify::new(), released: AtomicU64::new(0) }
    }

    /// There may be new work.
    pub(crate) fn hint(&self, now: Duration) {
        self.update(|dispatch| dispatch.handle(Event::Hint, now));
    }

    /// There will be work after this span.
    pub(crate) fn due_in(&self, span: Duration, now: Duration) {
        self.update(|dispatch| dispatch.handle(Event::DueIn(span), now));
    }

    /// This node lacks what a task needs: nothing begins for a moment. What came too late for that comes back as well.
    pub(crate) fn pause(&self, lack: &str, now: Duration) {
        let is_first = self.update(|dispatch| {
            let is_first = !dispatch.is_paused();
            dispatch.handle(Event::Exhausted, now);
            is_first
        });
        if is_first {
            warn!(
                "{lack}: nothing is sent for a moment, and no attempt is used; raise the limit of open files \
                 (`ulimit -n`), or lower `slots`"
            );
        }
    }

    /// How many tasks are leased to this node: those that run, wait, or are not settled.
    pub(crate) fn leased(&self) -> usize {
        self.lock().dispatch.leased()
    }

    /// Tells the machine whose lanes there are. Returns how their environments share the places for leased tasks.
    pub(crate) fn share_between(&self, lanes: impl Iterator<Item = (EnvironmentId, LaneId)>) -> Tenants {
        self.lock().dispatch.share_between(lanes)
    }

    /// Waits for room for so many tasks, as long as slots are given back and not for long: what is accepted without room
    /// waits in the store, and comes back from there at a price.
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

    /// Tells the machine what happened, and takes its first command.
    pub(crate) fn handle(&self, events: impl IntoIterator<Item = Event<T>>, now: Duration) -> Option<Command<T>> {
        self.update(|dispatch| {
            events.into_iter().for_each(|event| dispatch.handle(event, now));
            dispatch.poll(now)
        })
    }

    pub(crate) fn poll(&self, now: Duration) -> Option<Command<T>> {
        self.update(|dispatch| dispatch.poll(now))
    }

    /// The dispatcher goes to sleep; returns until when, if it is not woken.
    fn fall_asleep(&self) -> Duration {
        let mut machine = self.lock();
        machine.sleeps_until = machine.dispatch.next_wakeup();
        machine.sleeps_until
    }

    fn stay_awake(&self) {
        self.lock().sleeps_until = Duration::ZERO;
    }

    /// Changes the machine, and wakes the dispatcher if it would oversleep now.
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
    /// The place of a leased task, which is given back when it is dropped.
    pub(crate) fn slot(self: &Arc<Self>, lane: LaneId) -> Slot {
        let slots: Arc<dyn Capacity> = Arc::<NodeCapacity<T>>::clone(self);
        Slot::held(&slots, lane)
    }
}

impl<T: Send> Capacity for NodeCapacity<T> {
    fn reserve(&self, lane: LaneId) -> bool {
        self.lock().dispatch.reserve(lane)
    }

    fn release(&self, lane: LaneId) {
        self.released.fetch_add(1, Ordering::Relaxed);
        self.update(|dispatch| dispatch.release(lane));
    }
}

/// Runs leased tasks.
pub(crate) trait Run: Clone + Send + Sync + 'static {
    /// A leased task with whatever it takes to run it.
    type Task: Send + 'static;

    fn capacity(&self) -> &Arc<NodeCapacity<Self::Task>>;

    /// Starts a task, which has a slot; its end is reported to the machine.
    fn start(&self, ticket: Ticket<Self::Task>);

    /// Hands tasks back to the store.
    fn hand_back(&self, tickets: Vec<Ticket<Self::Task>>);

    /// Tells the machine what happened, and does what it says.
    fn report(&self, events: impl IntoIterator<Item = Event<Self::Task>>, now: Duration) {
        self.carry_out(self.capacity().handle(events, now), now);
    }

    /// Does what the machine says, from this command on.
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

/// The result of a lease.
pub(crate) struct WorkGrant<T> {
    pub(crate) tickets: Vec<Ticket<T>>,
    /// When there may be more.
    pub(crate) next_ready: Option<Duration>,
    /// A task may be due for whose slots others have a claim.
    pub(crate) held_back: bool,
    /// The error that ended the lease; the tickets that came before it are there all the same.
    pub(crate) failed: Option<StoreError>,
}

/// Where tasks come from, and who runs them.
#[async_trait]
pub(crate) trait Source: Send + Sync {
    type Runner: Run;

    fn runner(&self) -> &Self::Runner;

    /// Leases tasks.
    async fn lease(&self, session: &Arc<Session>, ask: LeaseCommand) -> WorkGrant<TaskOf<Self>>;
}

pub(crate) type TaskOf<S> = <<S as Source>::Runner as Run>::Task;

/// An event that the loop waits for.
enum Happened<T> {
    Stop,
    Wake,
    Leased(Arc<Session>, WorkGrant<T>),
}

/// Leases tasks and starts them until the node stops; a lease under way is finished first, because its tasks are this
/// node's.
pub(crate) async fn run<S: Source>(node: &Node, source: S) {
    let (runner, capacity) = (source.runner(), source.runner().capacity());
    let mut lease = None;
    loop {
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

/// Starts a lease, if there is a session to lease under.
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
    let WorkGrant { tickets, next_ready, held_back, failed } = grant;
    let leased = match failed {
        None => Event::Leased { tickets, next_ready },
        Some(error) => {
            warn!(error = &error as &dyn std::error::Error, "could not lease tasks");
            if error.is_in_doubt() {
                // It may have leased rows that this node does not know of.
                node.sessions.retire(session);
            }
            Event::LeaseFailed { tickets }
        }
    };
    let events = [Some(leased), held_back.then_some(Event::HeldBack)];
    runner.report(events.into_iter().flatten(), node.clock.elapsed());
}

/// Takes no more tasks, and has waiting ones handed back.
pub(crate) fn drain(node: &Node, runner: &impl Run) {
    runner.report([Event::Drain], node.clock.elapsed());
}
