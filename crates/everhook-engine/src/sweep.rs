//! Takes over the tasks of crashed nodes and workers.
//!
//! The sweep closes sessions whose lease has expired, if this node is steady. It settles the tasks of closed sessions
//! as abandoned, through the same `settle` as every other outcome. It also ends jobs of remote workers that ran longer
//! than their timeout.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use everhook_core::job::report::{Note, Report};
use everhook_core::limits::RECLAIM_BATCH_MAX;
use everhook_core::outcome::{Class, Outcome};
use everhook_core::policy::limit::{LimitEnd, RetryPlace};
use everhook_core::task::{Task, TaskKind};
use everhook_store::error::StoreError;
use everhook_store::lease::{Holding, Reclaim, ReclaimAsk, Reclaimed};
use tracing::{info, warn};

use crate::node::Node;
use crate::session::Session;
use crate::settle::{AttemptEnd, AttemptHolder, AttemptRecord, FinishedAttempt, SlotHold};

/// The sweep runs every eighth of the lease, within these bounds.
const INTERVAL_MIN: Duration = Duration::from_millis(50);
const INTERVAL_MAX: Duration = Duration::from_secs(1);

pub(crate) struct Sweeper {
    pub(crate) node: Arc<Node>,
}

impl Sweeper {
    pub(crate) async fn run(&self) {
        let stop = &self.node.stop;
        let interval = (self.node.config.lease / 8).clamp(INTERVAL_MIN, INTERVAL_MAX);
        loop {
            if let Err(error) = self.sweep().await {
                warn!(error = &error as &dyn std::error::Error, "could not sweep expired sessions");
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(interval) => {}
            }
        }
    }

    async fn sweep(&self) -> Result<(), StoreError> {
        let Some(session) = self.node.sessions.current() else { return Ok(()) };
        // Only a node that has itself renewed without a gap may judge others: after an outage of the store, every
        // session looks expired.
        if let Some(steady) = self.node.sessions.steady() {
            for session in self.node.store.close_expired(steady).await? {
                warn!(session.id = %session, "closed session {session}: its lease had expired");
            }
        }
        self.take_over(Reclaim::Orphaned, &session).await?;
        if self.node.has_jobs() && !self.node.stop.is_cancelled() {
            self.take_over(Reclaim::Overdue, &session).await?;
        }
        Ok(())
    }

    async fn take_over(&self, what: Reclaim, session: &Arc<Session>) -> Result<(), StoreError> {
        let stop = &self.node.stop;
        loop {
            let ask = ReclaimAsk { session: session.id, limit: RECLAIM_BATCH_MAX, what };
            let tasks = self.taken(session, self.node.store.reclaim(ask).await)?;
            let count = tasks.len();
            self.node.metrics.reclaimed(count);
            for taken in tasks {
                // During a drain the settle queue may be full with no writer left. Other nodes reclaim the remaining
                // tasks.
                let ended = async {
                    match what {
                        Reclaim::Orphaned => self.abandon(taken, session).await,
                        Reclaim::Overdue => self.time_out(taken, session).await,
                    }
                };
                if stop.run_until_cancelled(ended).await.is_none() {
                    return Ok(());
                }
            }
            if count < RECLAIM_BATCH_MAX || stop.is_cancelled() {
                return Ok(());
            }
        }
    }

    /// Returns the reclaimed tasks. If the commit is in doubt, retires the session, because it may own tasks that this
    /// node does not know.
    fn taken<T>(&self, session: &Session, taken: Result<T, StoreError>) -> Result<T, StoreError> {
        if taken.as_ref().is_err_and(StoreError::is_in_doubt) {
            self.node.sessions.retire(session);
        }
        taken
    }

    async fn abandon(&self, taken: Reclaimed, session: &Arc<Session>) {
        let Reclaimed { task, from, .. } = taken;
        let (id, holder) = (task.key.id, from.session);
        info!(task.id = %id, task.epoch = task.epoch, session.id = %holder, "reclaimed task {id} from closed session {holder}");
        let why = match task.kind {
            TaskKind::Delivery => format!("node {holder} crashed; the request may or may not have been sent"),
            TaskKind::Job => {
                format!("worker {holder} crashed or sent no heartbeat; the job may or may not have been done")
            }
        };
        let record = self.ended((Class::Abandoned, Outcome::Abandoned), Bytes::from(why), from);
        self.settle(task, None, session, record).await;
    }

    async fn time_out(&self, taken: Reclaimed, session: &Arc<Session>) {
        let Reclaimed { task, from, job } = taken;
        let (report, why) = match &job {
            // A deleted job cannot be retried.
            None => (Report::Cancelled, "the job was deleted"),
            Some(_) => (Report::TimedOut, "the job exceeded its timeout"),
        };
        let record = self.ended(report.classify(), Note::new(why, []).to_bytes(), from);
        self.settle(task, job, session, record).await;
    }

    async fn settle(
        &self,
        task: Task,
        job: Option<Arc<everhook_core::job::Job>>,
        session: &Arc<Session>,
        record: AttemptRecord,
    ) {
        let by = AttemptHolder::Node(Arc::clone(session));
        let end = AttemptEnd::Attempted(record);
        // A delivery of an ordered lane returns to its place.
        let place = match task.kind {
            TaskKind::Delivery => RetryPlace::KeptIfCounted,
            TaskKind::Job => RetryPlace::Moves,
        };
        let limits = LimitEnd { place, ..LimitEnd::default() };
        let ended = FinishedAttempt { task, job, retry: None, limits, by, slot: SlotHold::Nothing, end };
        self.node.settler.settle(ended).await;
    }

    /// The record of an attempt by `from` that ends now; its real end is unknown.
    fn ended(&self, end: (Class, Outcome), reply: Bytes, from: Holding) -> AttemptRecord {
        let duration = self.node.clock.now().since(from.since);
        AttemptRecord { duration, holder: Some(from.session), ..AttemptRecord::new(end, reply, from.since) }
    }
}
