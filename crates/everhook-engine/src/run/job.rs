//! Runs leased jobs: by a handler of this process, or as a signed request to the target of their queue.
//!
//! A runner that has ended a job asks the dispatch machine for the next one itself, so that a short job costs no task of
//! its own. Decides nothing about a job: its report or answer is classified by the core and settled by `settle`.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use everhook_core::dispatch::{Command, Event, Ticket};
use everhook_core::id::LaneId;
use everhook_core::job::Job;
use everhook_core::job::report::{Note, Report, keep_result};
use everhook_core::queue::Target;
use everhook_core::task::Task;
use everhook_core::time::Timestamp;
use everhook_store::capacity::Slot;
use everhook_store::query;
use everhook_store::store::Reads;
use futures_util::FutureExt;
use tracing::warn;

use crate::dispatcher::{NodeCapacity, Run};
use crate::node::Node;
use crate::run::handler::{Context, Finish, Handler};
use crate::run::push;
use crate::session::Session;
use crate::settle::{AttemptEnd, AttemptHolder, AttemptRecord, FinishedAttempt, SlotHold};

/// Jobs that a runner runs before others of this node get their turn, those who lease and settle among them: a job that waits for nothing
/// lets nobody in.
const IN_A_ROW_MAX: usize = 8;

/// A job that is leased to this node.
pub(crate) struct Work {
    pub(crate) task: Task,
    pub(crate) job: Option<Arc<Job>>,
    pub(crate) how: How,
    pub(crate) session: Arc<Session>,
}

/// The way to run a job.
pub(crate) enum How {
    Handler(Arc<dyn Handler>),
    Push(Arc<Target>),
    /// Nobody here: it goes back.
    Nobody,
}

/// Runs jobs.
#[derive(Clone)]
pub(crate) struct Runner {
    node: Arc<Node>,
}

impl Run for Runner {
    type Task = Work;

    fn capacity(&self) -> &Arc<NodeCapacity<Work>> {
        &self.node.jobs
    }

    fn start(&self, ticket: Ticket<Work>) {
        let runner = self.clone();
        self.node.running.spawn(async move { runner.run(ticket).await });
    }

    fn hand_back(&self, tickets: Vec<Ticket<Work>>) {
        let runner = self.clone();
        self.node.running.spawn(async move {
            for Ticket { lane, task: Work { task, job, session, .. }, .. } in tickets {
                runner.settle(task, job, runner.capacity().slot(lane), session, AttemptEnd::HandedBack).await;
            }
        });
    }
}

impl Runner {
    pub(crate) fn new(node: &Arc<Node>) -> Runner {
        Runner { node: Arc::clone(node) }
    }

    /// Runs jobs for as long as there are any.
    async fn run(&self, first: Ticket<Work>) {
        let mut next = Some(first);
        let mut in_a_row = 0;
        while let Some(Ticket { lane, task: work, .. }) = next {
            self.run_one(work, self.node.jobs.slot(lane)).await;
            in_a_row += 1;
            if in_a_row % IN_A_ROW_MAX == 0 {
                tokio::task::yield_now().await;
            }
            next = self.next(lane);
        }
    }

    /// The next job for a runner that has ended one of `lane`.
    fn next(&self, lane: LaneId) -> Option<Ticket<Work>> {
        let now = self.node.clock.elapsed();
        let (next, command) = match self.node.jobs.handle([Event::Ended(lane)], now) {
            Some(Command::Start(next)) => (Some(next), self.node.jobs.poll(now)),
            command => (None, command),
        };
        // One freed slot may let two jobs start: one from the pool, and one that its environment is promised.
        self.carry_out(command, now);
        next
    }

    async fn run_one(&self, work: Work, place: Slot) {
        let Work { mut task, job, how, session } = work;
        let started_at = self.node.clock.now();
        let end = match &job {
            // Nothing is left that could be tried again.
            None => Some(cancelled("the job was deleted", started_at)),
            Some(_) if task.cancel => Some(cancelled("it was cancelled", started_at)),
            Some(_) if session.is_closed() => None,
            Some(_) if !self.node.sessions.may_send(&session) => Some(AttemptEnd::HandedBack),
            Some(job) => match how {
                How::Nobody => Some(AttemptEnd::HandedBack),
                How::Push(target) => self.push(job, &target, &task, &session).await,
                How::Handler(handler) => self.handle(&*handler, job, &mut task, &session).await,
            },
        };
        let Some(end) = end else {
            // Fenced: another worker has the job. Nothing that happens here counts any more.
            warn!(task.id = %task.key.id, task.epoch = task.epoch, session.id = %session.id, "aborted {}", task.key.id);
            return;
        };
        self.settle(task, job, place, session, end).await;
    }

    async fn settle(&self, task: Task, job: Option<Arc<Job>>, place: Slot, session: Arc<Session>, end: AttemptEnd) {
        let (by, slot) = (AttemptHolder::Node(session), SlotHold::Slot { _slot: place });
        self.node.settler.settle(FinishedAttempt { task, job, by, slot, end }).await;
    }

    async fn push(&self, job: &Arc<Job>, target: &Target, task: &Task, session: &Session) -> Option<AttemptEnd> {
        let started_at = self.node.clock.now();
        // One that panics must not stay leased for as long as this node lives.
        let pushed = AssertUnwindSafe(push::push(&self.node, job, target, task, session)).catch_unwind().await;
        pushed.unwrap_or_else(|_| {
            let why = "the server failed while it made the request; its log says why";
            Some(AttemptEnd::Attempted(record(Report::Panicked, Note::new(why, []).to_bytes(), started_at)))
        })
    }

    async fn handle(
        &self,
        handler: &dyn Handler,
        job: &Arc<Job>,
        task: &mut Task,
        session: &Arc<Session>,
    ) -> Option<AttemptEnd> {
        let (started_at, begun) = (self.node.clock.now(), self.node.clock.elapsed());
        let context = Context::new(*task, Arc::clone(job), Arc::clone(session), Arc::clone(&self.node));
        self.node.handled.insert(context.clone());
        let run = AssertUnwindSafe(handler.run(context.clone())).catch_unwind();
        let finish = tokio::select! {
            // First, so that a handler that ends at once costs no timer.
            biased;
            run = run => Some(run.unwrap_or_else(|panic| Finish::other(Report::Panicked, message(&*panic)))),
            () = session.closed() => None,
            () = self.node.interrupt.cancelled() => {
                Some(Finish::other(Report::Interrupted, "the worker was stopped before the job had ended"))
            }
            () = tokio::time::sleep(job.timeout) => {
                Some(Finish::other(Report::TimedOut, "it took longer than it may"))
            }
            never = context.tell_progress() => match never {},
        };
        self.node.handled.remove(task.key.id);
        let finish = finish?;
        context.tell_last_progress().await;
        // A handler that gave up because the job was cancelled does not fail; one that completed the job did complete it.
        task.cancel = context.is_cancelled();
        let record = AttemptRecord {
            duration: self.node.clock.elapsed().saturating_sub(begun),
            result: finish.result.map(keep_result),
            ..record(finish.report, context.note(&finish.error), started_at)
        };
        Some(AttemptEnd::Attempted(record))
    }

    /// Tells handlers of cancelled jobs, again and again; asks the store only while handlers run.
    pub(crate) async fn watch(&self) {
        let interval = self.node.config.lease / 4;
        loop {
            tokio::time::sleep(interval).await;
            for session in self.node.handled.sessions() {
                match self.node.store.read(query::HeldJobs { session }).await {
                    Ok(held) => self.node.handled.cancel(&held),
                    Err(error) => {
                        warn!(error = &error as &dyn std::error::Error, "could not look for cancelled jobs");
                    }
                }
            }
        }
    }
}

/// The record of an attempt that took no time.
pub(crate) fn record(report: Report, note: Bytes, started_at: Timestamp) -> AttemptRecord {
    let (class, outcome) = report.classify();
    AttemptRecord {
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

fn cancelled(why: &str, started_at: Timestamp) -> AttemptEnd {
    AttemptEnd::Attempted(record(Report::Cancelled, Note::new(why, []).to_bytes(), started_at))
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the handler panicked: {}", text.unwrap_or("without a message"))
}
