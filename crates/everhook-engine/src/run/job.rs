//! Runs leased jobs: with a handler of this process, or as a signed request to the target of their queue.
//!
//! A runner that has ended a job takes the next one from the dispatch machine itself, so that short jobs need no new
//! Tokio task. The core classifies a report or reply and `settle` records it; this module makes no decision about a
//! job.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::Bytes;
use everhook_core::dispatch::{Command, Event, Ticket};
use everhook_core::id::LaneId;
use everhook_core::job::Job;
use everhook_core::job::report::{Note, Report, keep_result};
use everhook_core::policy::limit::LimitEnd;
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

/// Jobs that a runner runs before it yields. A job that never waits would otherwise keep the lease and settle loops of
/// this thread from running.
const IN_A_ROW_MAX: usize = 8;

/// A job leased to this node.
pub(crate) struct Work {
    pub(crate) task: Task,
    pub(crate) job: Option<Arc<Job>>,
    pub(crate) how: How,
    pub(crate) session: Arc<Session>,
}

pub(crate) enum How {
    Handler(Arc<dyn Handler>),
    Push(Arc<Target>),
    /// This node has no handler or target for the job, which is handed back.
    Nobody,
}

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

    /// Runs jobs until the machine has no more.
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

    /// Returns the next job after one of `lane` has ended.
    fn next(&self, lane: LaneId) -> Option<Ticket<Work>> {
        let now = self.node.clock.elapsed();
        let (next, command) = match self.node.jobs.handle([Event::Ended(lane)], now) {
            Some(Command::Start(next)) => (Some(next), self.node.jobs.poll(now)),
            command => (None, command),
        };
        // One freed slot may let two jobs start: one from the shared pool, and one from the capacity promised to its
        // environment. This runner takes the first.
        self.carry_out(command, now);
        next
    }

    async fn run_one(&self, work: Work, place: Slot) {
        let Work { mut task, job, how, session } = work;
        let started_at = self.node.clock.now();
        let end = match &job {
            // A deleted job cannot be retried.
            None => Some(cancelled("the job was deleted", started_at)),
            Some(_) if task.cancel => Some(cancelled("the job was cancelled", started_at)),
            Some(_) if session.is_closed() => None,
            Some(_) if !self.node.sessions.may_send(&session) => Some(AttemptEnd::HandedBack),
            Some(job) => match how {
                How::Nobody => Some(AttemptEnd::HandedBack),
                How::Push(target) => self.push(job, &target, &task, &session).await,
                How::Handler(handler) => self.handle(&*handler, job, &mut task, &session).await,
            },
        };
        let Some(end) = end else {
            // Another node has taken over the job, so this attempt must not be recorded.
            warn!(task.id = %task.key.id, task.epoch = task.epoch, session.id = %session.id, "aborted {}", task.key.id);
            return;
        };
        self.settle(task, job, place, session, end).await;
    }

    async fn settle(&self, task: Task, job: Option<Arc<Job>>, place: Slot, session: Arc<Session>, end: AttemptEnd) {
        let (by, slot) = (AttemptHolder::Node(session), SlotHold::Slot { _slot: place });
        let limits = LimitEnd::default();
        self.node.settler.settle(FinishedAttempt { task, job, retry: None, limits, by, slot, end }).await;
    }

    async fn push(&self, job: &Arc<Job>, target: &Target, task: &Task, session: &Session) -> Option<AttemptEnd> {
        let started_at = self.node.clock.now();
        // A panic must not leave the task leased for the rest of the session.
        let pushed = AssertUnwindSafe(push::push(&self.node, job, target, task, session)).catch_unwind().await;
        pushed.unwrap_or_else(|_| {
            let why = "the server failed while sending the request; see its log";
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
            // The handler is polled first, so that a handler that returns at once needs no timer.
            biased;
            run = run => Some(run.unwrap_or_else(|panic| Finish::other(Report::Panicked, message(&*panic)))),
            () = session.closed() => None,
            () = self.node.interrupt.cancelled() => {
                Some(Finish::other(Report::Interrupted, "the worker stopped before the job ended"))
            }
            () = tokio::time::sleep(job.timeout) => {
                Some(Finish::other(Report::TimedOut, "the job exceeded its timeout"))
            }
            never = context.tell_progress() => match never {},
        };
        self.node.handled.remove(task.key.id);
        let finish = finish?;
        context.tell_last_progress().await;
        // A handler that stopped because of a cancellation did not fail. The core ends its job as cancelled, unless the
        // handler completed it.
        task.cancel = context.is_cancelled();
        if context.has_advanced() {
            task.crashes = 0;
        }
        let record = AttemptRecord {
            id: None,
            duration: self.node.clock.elapsed().saturating_sub(begun),
            result: finish.result.map(|result| keep_result(task.key.environment, result)),
            ..record(finish.report, context.note(&finish.error), started_at)
        };
        Some(AttemptEnd::Attempted(record))
    }

    /// Notifies handlers of cancelled jobs. Reads the store only while handlers run.
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

/// The record of an attempt with a duration of zero.
pub(crate) fn record(report: Report, note: Bytes, started_at: Timestamp) -> AttemptRecord {
    AttemptRecord::new(report.classify(), note, started_at)
}

fn cancelled(why: &str, started_at: Timestamp) -> AttemptEnd {
    AttemptEnd::Attempted(record(Report::Cancelled, Note::new(why, []).to_bytes(), started_at))
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the handler panicked: {}", text.unwrap_or("no message"))
}
