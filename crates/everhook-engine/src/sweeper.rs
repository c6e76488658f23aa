//! Takes over what dead sessions held.
//!
//! Closes sessions past their lease, where this node may, and settles the tasks of closed ones as abandoned, through the same
//! door as every other outcome. Jobs of remote workers whose time is over end there, too, as timed out.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use everhook_core::job::report::{Note, Report};
use everhook_core::limits::RECLAIM_BATCH_MAX;
use everhook_core::outcome::{Class, Outcome};
use everhook_core::task::{Task, TaskKind};
use everhook_store::error::StoreError;
use everhook_store::job::LeasedJob;
use everhook_store::lease::LeaseStore;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::clock::Clock;
use crate::session::{Sessions, Tenure};
use crate::settle::{End, Ended, Held, Holder, Record, Settler};

/// Looks for dead sessions and their tasks.
pub(crate) struct Sweeper {
    pub(crate) store: Arc<dyn LeaseStore>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) settler: Arc<Settler>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) interval: Duration,
    /// Whether there are jobs.
    pub(crate) jobs: bool,
}

impl Sweeper {
    /// Sweeps until `stop`.
    pub(crate) async fn run(&self, stop: CancellationToken) {
        loop {
            if let Err(error) = self.sweep(&stop).await {
                warn!(error = &error as &dyn std::error::Error, "could not sweep");
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(self.interval) => {}
            }
        }
    }

    async fn sweep(&self, stop: &CancellationToken) -> Result<(), StoreError> {
        let Some(tenure) = self.sessions.current() else { return Ok(()) };
        if let Some(steady) = self.sessions.steady() {
            for session in self.store.close_expired(steady).await? {
                warn!(session.id = %session, "closed session {session}: its lease had expired");
            }
        }
        self.sweep_abandoned(&tenure, stop).await?;
        if self.jobs && !stop.is_cancelled() {
            self.sweep_overdue(&tenure, stop).await?;
        }
        Ok(())
    }

    async fn sweep_abandoned(&self, tenure: &Arc<Tenure>, stop: &CancellationToken) -> Result<(), StoreError> {
        loop {
            let tasks = self.taken(tenure, self.store.reclaim(tenure.id, RECLAIM_BATCH_MAX).await)?;
            let count = tasks.len();
            for task in tasks {
                // Nobody takes from the queue at the end of a stop; whoever lives reclaims what is left.
                if stop.run_until_cancelled(self.abandon(task, tenure)).await.is_none() {
                    return Ok(());
                }
            }
            if count < RECLAIM_BATCH_MAX || stop.is_cancelled() {
                return Ok(());
            }
        }
    }

    async fn sweep_overdue(&self, tenure: &Arc<Tenure>, stop: &CancellationToken) -> Result<(), StoreError> {
        loop {
            let jobs = self.taken(tenure, self.store.reclaim_overdue(tenure.id, RECLAIM_BATCH_MAX).await)?;
            let count = jobs.len();
            for leased in jobs {
                if stop.run_until_cancelled(self.time_out(leased, tenure)).await.is_none() {
                    return Ok(());
                }
            }
            if count < RECLAIM_BATCH_MAX || stop.is_cancelled() {
                return Ok(());
            }
        }
    }

    /// What was taken over; on doubt the session is retired, because it may own what nobody knows of.
    fn taken<T>(&self, tenure: &Tenure, taken: Result<T, StoreError>) -> Result<T, StoreError> {
        if taken.as_ref().is_err_and(StoreError::is_in_doubt) {
            self.sessions.retire(tenure);
        }
        taken
    }

    async fn abandon(&self, task: Task, tenure: &Arc<Tenure>) {
        info!(task.id = %task.key.id, task.epoch = task.epoch, "reclaimed task {} from a closed session", task.key.id);
        let reply: &[u8] = match task.kind {
            TaskKind::Delivery => b"the node that held it died; the request may or may not have been sent",
            TaskKind::Job => {
                b"the worker that held it died or was silent for too long; it may or may not have been done"
            }
        };
        let record = Record {
            outcome: Outcome::Abandoned,
            class: Class::Abandoned,
            url: String::new(),
            status: 0,
            reply: Bytes::from_static(reply),
            started_at: self.clock.now(),
            duration: Duration::ZERO,
            result: None,
        };
        self.settle(task, None, tenure, record).await;
    }

    async fn time_out(&self, leased: LeasedJob, tenure: &Arc<Tenure>) {
        let LeasedJob { task, job, .. } = leased;
        let Some(job) = job else {
            // Nothing is left that could be tried again.
            return self.settle(task, None, tenure, ended(Report::Cancelled, "the job was deleted", &self.clock)).await;
        };
        let duration = job.timeout;
        let record = ended(Report::TimedOut, "it took longer than it may", &self.clock);
        let record = Record { started_at: self.clock.now().minus(duration), duration, ..record };
        self.settle(task, Some(job), tenure, record).await;
    }

    async fn settle(
        &self,
        task: Task,
        job: Option<Arc<everhook_core::job::Job>>,
        tenure: &Arc<Tenure>,
        record: Record,
    ) {
        let by = Holder::Node(Arc::clone(tenure));
        self.settler.settle(Ended { task, job, by, slot: Held::Nothing, end: End::Attempted(record) }).await;
    }
}

fn ended(report: Report, why: &str, clock: &Clock) -> Record {
    let (class, outcome) = report.classify();
    Record {
        outcome,
        class,
        url: String::new(),
        status: 0,
        reply: Note::new(why, []).to_bytes(),
        started_at: clock.now(),
        duration: Duration::ZERO,
        result: None,
    }
}
