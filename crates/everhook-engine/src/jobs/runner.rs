//! Runs leased jobs: by a handler of this process, or as a signed request to the target of their queue.
//!
//! Jobs are leased ahead of what runs, so they wait here for a moment, by queue. A few runners take them, as many as may run at
//! once, one job after the other: a short job costs no task of its own. Decides nothing about a job: what it says or answers is classified
//! by the core and settled by `settle`. What was not begun is handed back: when the node stops, and when it waits for too long.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use everhook_core::id::{EnvironmentId, LaneId, SessionId, TaskId};
use everhook_core::job::Job;
use everhook_core::job::report::{Note, Report, keep_result};
use everhook_core::queue::Target;
use everhook_core::share::{Tenant, share_out};
use everhook_core::task::Task;
use everhook_core::time::Timestamp;
use everhook_store::query;
use everhook_store::slots::Slot;
use everhook_store::store::{Reads, Store};
use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

use crate::clock::Clock;
use crate::dispatcher::Room;
use crate::jobs::handler::{Context, Finish, Handler};
use crate::jobs::push::Pusher;
use crate::session::{Sessions, Tenure};
use crate::settle::{End, Ended, Held, Holder, Record, Settler};

/// How long a job that is not begun stays here: others may have room for it.
const KEPT_WAITING: Duration = Duration::from_secs(2);
/// Jobs that a runner runs before others of this node get their turn, those who lease and settle among them: a job that waits for nothing
/// lets nobody in.
const IN_A_ROW_MAX: usize = 8;

/// A job to run.
pub(crate) struct Work {
    pub(crate) lane: LaneId,
    pub(crate) task: Task,
    pub(crate) job: Option<Arc<Job>>,
    pub(crate) how: How,
}

/// Who runs it.
pub(crate) enum How {
    Handler(Arc<dyn Handler>),
    Push(Arc<Target>),
    /// Nobody here: it goes back.
    Nobody,
}

/// A job that waits for a runner.
struct Waiting {
    work: Work,
    slot: Slot,
    tenure: Arc<Tenure>,
    since: Duration,
}

/// What a runner stands on.
pub(crate) struct Runner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) settler: Arc<Settler>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) pusher: Pusher,
    pub(crate) room: Arc<Room>,
    /// Fires when the grace period of a stop is over.
    pub(crate) interrupt: CancellationToken,
    pub(crate) running: TaskTracker,
    pub(crate) slots: RunSlots,
    pub(crate) state: Mutex<State>,
    /// What handlers run now, to tell them of cancellations.
    pub(crate) handled: Mutex<HashMap<TaskId, Context>>,
}

/// How many jobs run at once.
#[derive(Clone, Debug)]
pub(crate) struct RunSlots {
    pub(crate) node: usize,
    pub(crate) per_queue: usize,
    pub(crate) own: BTreeMap<LaneId, usize>,
}

/// Who runs, and what waits.
#[derive(Default)]
pub(crate) struct State {
    lanes: BTreeMap<LaneId, Lane>,
    /// The environments that share the runners.
    tenants: BTreeMap<EnvironmentId, Tenant>,
    runners: usize,
    draining: bool,
}

#[derive(Default)]
struct Lane {
    waiting: VecDeque<Waiting>,
    runners: usize,
}

impl Lane {
    /// Whose job is next.
    fn environment(&self) -> Option<EnvironmentId> {
        self.waiting.front().map(|waiting| waiting.work.task.key.environment)
    }
}

/// Whose job a runner has just run, and of which lane.
#[derive(Clone, Copy)]
struct Ran {
    environment: EnvironmentId,
    lane: LaneId,
}

impl Runner {
    /// Takes jobs over that were leased just now.
    pub(crate) fn begin(self: &Arc<Self>, work: Vec<(Slot, Work)>, tenure: &Arc<Tenure>) {
        let since = self.clock.elapsed();
        let waiting = work.into_iter().map(|(slot, work)| Waiting { work, slot, tenure: Arc::clone(tenure), since });
        let mut begun = Vec::new();
        {
            let mut state = self.lock();
            if state.draining {
                drop(state);
                return self.hand_back(waiting.collect());
            }
            for waiting in waiting {
                state.lanes.entry(waiting.work.lane).or_default().waiting.push_back(waiting);
            }
            while let Some(first) = self.next(&mut state, None) {
                begun.push(first);
            }
        }
        for first in begun {
            let runner = Arc::clone(self);
            self.running.spawn(async move { runner.run(first).await });
        }
    }

    /// Tells which environments there are, and how many slots the queues of each could have.
    pub(crate) fn share_between(&self, environments: impl Iterator<Item = (EnvironmentId, usize)>) {
        let mut state = self.lock();
        // Those that are gone may have a runner still.
        state.tenants.retain(|_, tenant| tenant.running > 0);
        for tenant in state.tenants.values_mut() {
            tenant.most = 0;
        }
        for (environment, most) in environments {
            state.tenants.entry(environment).or_default().most = most;
        }
    }

    /// Begins nothing any more: what waits goes back.
    pub(crate) fn drain(self: &Arc<Self>) {
        let waiting = {
            let mut state = self.lock();
            state.draining = true;
            state.lanes.values_mut().flat_map(|lane| lane.waiting.drain(..)).collect()
        };
        self.hand_back(waiting);
    }

    /// Gives back what has waited for too long; for ever.
    pub(crate) async fn give_up_waiting_again_and_again(self: &Arc<Self>) {
        loop {
            tokio::time::sleep(KEPT_WAITING / 4).await;
            self.give_up_waiting();
        }
    }

    fn give_up_waiting(self: &Arc<Self>) {
        let now = self.clock.elapsed();
        let is_late = |waiting: &mut Waiting| now.saturating_sub(waiting.since) >= KEPT_WAITING;
        let late = {
            let mut state = self.lock();
            state.lanes.values_mut().flat_map(|lane| take_while(&mut lane.waiting, is_late)).collect::<Vec<_>>()
        };
        self.hand_back(late);
    }

    fn hand_back(self: &Arc<Self>, waiting: Vec<Waiting>) {
        if waiting.is_empty() {
            return;
        }
        let runner = Arc::clone(self);
        self.running.spawn(async move {
            for Waiting { work, slot, tenure, .. } in waiting {
                runner.settle(work.task, work.job, slot, tenure, End::HandedBack).await;
            }
        });
    }

    /// The next job for a runner, which had the job `last` or is a new one: lanes take turns, and environments have their shares.
    fn next(&self, state: &mut State, last: Option<Ran>) -> Option<Waiting> {
        if let Some(last) = last {
            self.leave(state, last);
        }
        if state.runners >= self.slots.node {
            return None;
        }
        let shares = share_out(self.slots.node, self.slots.node, &state.tenants);
        let last = last.map(|last| last.lane);
        let after = last.map_or(Bound::Unbounded, Bound::Excluded);
        let until = last.map_or(Bound::Unbounded, Bound::Included);
        let is_ready = |(lane, it): &(&LaneId, &Lane)| {
            let has_room = |environment| shares.has_room(environment);
            it.runners < self.slots.of(**lane) && it.environment().is_some_and(has_room)
        };
        let turn = state.lanes.range((after, Bound::Unbounded)).find(is_ready);
        let turn = turn.or_else(|| state.lanes.range((Bound::Unbounded, until)).find(is_ready));
        let lane = state.lanes.get_mut(&turn.map(|(lane, _)| *lane)?)?;
        let next = lane.waiting.pop_front()?;
        lane.runners += 1;
        state.runners += 1;
        state.tenants.entry(next.work.task.key.environment).or_default().running += 1;
        Some(next)
    }

    fn leave(&self, state: &mut State, last: Ran) {
        state.runners -= 1;
        if let Some(tenant) = state.tenants.get_mut(&last.environment) {
            tenant.running -= 1;
        }
        let Some(lane) = state.lanes.get_mut(&last.lane) else { return };
        lane.runners -= 1;
        if lane.runners == 0 && lane.waiting.is_empty() {
            state.lanes.remove(&last.lane);
        }
    }

    /// Runs jobs for as long as there are any.
    async fn run(&self, first: Waiting) {
        let mut next = Some(first);
        let mut in_a_row = 0;
        while let Some(Waiting { work, slot, tenure, .. }) = next {
            let ran = Ran { environment: work.task.key.environment, lane: work.lane };
            self.run_one(work, slot, tenure).await;
            in_a_row += 1;
            if in_a_row % IN_A_ROW_MAX == 0 {
                tokio::task::yield_now().await;
            }
            next = self.next(&mut self.lock(), Some(ran));
        }
    }

    async fn run_one(&self, work: Work, slot: Slot, tenure: Arc<Tenure>) {
        let Work { lane, mut task, job, how } = work;
        let started_at = self.clock.now();
        let end = match &job {
            // Nothing is left that could be tried again.
            None => Some(cancelled("the job was deleted", started_at)),
            Some(_) if task.cancel => Some(cancelled("it was cancelled", started_at)),
            Some(_) if tenure.is_closed() => None,
            Some(_) if !self.sessions.may_send(&tenure) => Some(End::HandedBack),
            Some(job) => match how {
                How::Nobody => Some(End::HandedBack),
                How::Push(target) => self.push(job, &target, &task, &tenure).await,
                How::Handler(handler) => self.handle(&*handler, job, &mut task, &tenure).await,
            },
        };
        self.room.ended(lane);
        let Some(end) = end else {
            // Fenced: another worker has the job. Nothing that happens here counts any more.
            warn!(task.id = %task.key.id, task.epoch = task.epoch, session.id = %tenure.id, "aborted {}", task.key.id);
            return;
        };
        self.settle(task, job, slot, tenure, end).await;
    }

    async fn settle(&self, task: Task, job: Option<Arc<Job>>, slot: Slot, tenure: Arc<Tenure>, end: End) {
        let (by, slot) = (Holder::Node(tenure), Held::Slot { _slot: slot });
        self.settler.settle(Ended { task, job, by, slot, end }).await;
    }

    async fn push(&self, job: &Arc<Job>, target: &Target, task: &Task, tenure: &Tenure) -> Option<End> {
        let started_at = self.clock.now();
        // One that panics must not stay leased for as long as this node lives.
        let pushed = AssertUnwindSafe(self.pusher.push(job, target, task, tenure)).catch_unwind().await;
        pushed.unwrap_or_else(|_| {
            let why = "the server failed while it made the request; its log says why";
            Some(End::Attempted(record(Report::Panicked, Note::new(why, []).to_bytes(), started_at)))
        })
    }

    async fn handle(
        &self,
        handler: &dyn Handler,
        job: &Arc<Job>,
        task: &mut Task,
        tenure: &Arc<Tenure>,
    ) -> Option<End> {
        let (started_at, begun) = (self.clock.now(), self.clock.elapsed());
        let context = Context::new(*task, Arc::clone(job), Arc::clone(tenure), Arc::clone(&self.sessions));
        self.handled().insert(task.key.id, context.clone());
        let run = AssertUnwindSafe(handler.run(context.clone())).catch_unwind();
        let finish = tokio::select! {
            // First, so that a handler that ends at once costs no timer.
            biased;
            run = run => Some(run.unwrap_or_else(|panic| Finish::other(Report::Panicked, message(&*panic)))),
            () = tenure.closed() => None,
            () = self.interrupt.cancelled() => {
                Some(Finish::other(Report::Interrupted, "the worker was stopped before the job had ended"))
            }
            () = tokio::time::sleep(job.timeout) => {
                Some(Finish::other(Report::TimedOut, "it took longer than it may"))
            }
            never = context.tell_progress(&*self.store) => match never {},
        };
        self.handled().remove(&task.key.id);
        let finish = finish?;
        context.tell_last_progress(&*self.store).await;
        // Whoever gave up because someone cancelled the job does not fail; whoever completed it did.
        task.cancel = context.is_cancelled();
        let record = Record {
            duration: self.clock.elapsed().saturating_sub(begun),
            result: finish.result.map(keep_result),
            ..record(finish.report, context.note(&finish.error), started_at)
        };
        Some(End::Attempted(record))
    }

    /// Tells handlers whose jobs were cancelled, again and again; asks the store only while something runs.
    pub(crate) async fn watch(&self, interval: Duration) {
        loop {
            tokio::time::sleep(interval).await;
            let mut sessions: Vec<SessionId> = self.handled().values().map(|context| context.tenure().id).collect();
            sessions.sort_unstable();
            sessions.dedup();
            for session in sessions {
                match self.store.read(query::HeldJobs { session }).await {
                    Ok(held) => self.cancel(&held),
                    Err(error) => {
                        warn!(error = &error as &dyn std::error::Error, "could not look for cancelled jobs");
                    }
                }
            }
        }
    }

    fn cancel(&self, held: &[Task]) {
        let handled = self.handled();
        for task in held.iter().filter(|task| task.cancel) {
            if let Some(context) = handled.get(&task.key.id).filter(|context| context.task().epoch == task.epoch) {
                context.cancel();
            }
        }
    }

    fn handled(&self) -> std::sync::MutexGuard<'_, HashMap<TaskId, Context>> {
        self.handled.lock().expect("nothing panics while it holds this lock")
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds this lock")
    }
}

impl RunSlots {
    pub(crate) fn of(&self, lane: LaneId) -> usize {
        self.own.get(&lane).copied().unwrap_or(self.per_queue)
    }
}

fn take_while(waiting: &mut VecDeque<Waiting>, is_late: impl Fn(&mut Waiting) -> bool) -> Vec<Waiting> {
    let mut taken = Vec::new();
    while waiting.front_mut().is_some_and(&is_late) {
        taken.extend(waiting.pop_front());
    }
    taken
}

/// The record of an attempt that took no time.
pub(crate) fn record(report: Report, note: Bytes, started_at: Timestamp) -> Record {
    let (class, outcome) = report.classify();
    Record {
        outcome,
        class,
        url: String::new(),
        status: 0,
        reply: note,
        started_at,
        duration: Duration::ZERO,
        result: None,
        holder: None,
    }
}

fn cancelled(why: &str, started_at: Timestamp) -> End {
    End::Attempted(record(Report::Cancelled, Note::new(why, []).to_bytes(), started_at))
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the handler panicked: {}", text.unwrap_or("without a message"))
}
