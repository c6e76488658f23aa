//! Takes over what dead sessions held.
//!
//! Closes sessions past their lease, where this node may, and settles the tasks of closed ones as abandoned, through the same
//! door as every other outcome.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use everhook_core::limits::RECLAIM_BATCH_MAX;
use everhook_core::outcome::{Class, Outcome};
use everhook_core::task::Task;
use everhook_store::error::StoreError;
use everhook_store::lease::LeaseStore;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::clock::Clock;
use crate::session::{Sessions, Tenure};
use crate::settle::{End, Ended, Held, Record, Settler};

/// Looks for dead sessions and their tasks.
pub(crate) struct Sweeper {
    pub(crate) store: Arc<dyn LeaseStore>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) settler: Arc<Settler>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) interval: Duration,
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
        if self.sessions.may_close_others() {
            for session in self.store.close_expired().await? {
                warn!(session.id = %session, "closed session {session}: its lease had expired");
            }
        }
        loop {
            let tasks = match self.store.reclaim(tenure.id, RECLAIM_BATCH_MAX).await {
                Err(error) if error.is_in_doubt() => {
                    self.sessions.retire(&tenure);
                    return Err(error);
                }
                tasks => tasks?,
            };
            let count = tasks.len();
            for task in tasks {
                // Nobody takes from the queue at the end of a stop; whoever lives reclaims what is left.
                if stop.run_until_cancelled(self.abandon(task, &tenure)).await.is_none() {
                    return Ok(());
                }
            }
            if count < RECLAIM_BATCH_MAX || stop.is_cancelled() {
                return Ok(());
            }
        }
    }

    async fn abandon(&self, task: Task, tenure: &Arc<Tenure>) {
        info!(task.id = %task.key.id, task.epoch = task.epoch, "reclaimed task {} from a closed session", task.key.id);
        let record = Record {
            outcome: Outcome::Abandoned,
            class: Class::Abandoned,
            url: String::new(),
            status: 0,
            reply: Bytes::from_static(b"the node that held it died; the request may or may not have been sent"),
            started_at: self.clock.now(),
            duration: Duration::ZERO,
        };
        let ended = Ended { task, tenure: Arc::clone(tenure), slot: Held::Nothing, end: End::Attempted(record) };
        self.settler.settle(ended).await;
    }
}
