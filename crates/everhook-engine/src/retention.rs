//! Prunes old rows in small transactions.
//!
//! Pruning runs as jobs of schedules, which operators can see and pause. Where schedules are disabled, a timer runs it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use everhook_core::id::{Id, JobId, SERVER_ENVIRONMENT, ScheduleId};
use everhook_core::job::Job;
use everhook_core::job::report::Report;
use everhook_core::limits::{MESSAGES_KEPT, TOKEN_LIFE_MAX, TOKEN_MARGIN, TRAFFIC_HOURS_KEPT, TRAFFIC_MINUTES_KEPT};
use everhook_core::name::Name;
use everhook_core::schedule::{Cadence, Overlap, Schedule};
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_store::catalog::Created;
use everhook_store::error::StoreError;
use everhook_store::query;
use everhook_store::retention::{Prunable, Prune};
use everhook_store::schedule::{ScheduleRecord, Starts};
use everhook_store::store::{Reads, Resources, Store};
use serde::{Deserialize, Serialize};
use tracing::{debug, info, warn};

use crate::clock::Clock;
use crate::node::Node;
use crate::run::handler::{Context, Finish, Handler};

/// The queue of the server's own jobs.
pub const MAINTENANCE_QUEUE: &str = "everhook.maintenance";
/// The kind of pruning jobs.
pub const PRUNE_KIND: &str = "everhook.prune";

/// Rows removed in one transaction.
const SLICE: usize = 200;
/// The pause after a transaction, as a multiple of its duration. It leaves time for other writes.
const PAUSE_SHARE: u32 = 9;
/// The shortest pause after a transaction.
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// After this time pruning cannot keep up, and the pauses get shorter: a slower store is better than a full disk.
const HURRY_AFTER: Duration = Duration::from_secs(3600);
/// The interval between two runs for each kind of row.
const INTERVAL: Duration = Duration::from_secs(3600);
/// The jitter that keeps the schedules from starting at the same time.
const JITTER: Duration = Duration::from_secs(1800);
/// The time limit of one run. The next run continues with the remaining rows.
const TIMEOUT: Duration = Duration::from_secs(6 * 3600);
/// The pause before another attempt to create the schedules after a store error.
const RETRY_PAUSE: Duration = Duration::from_secs(5);
/// Younger messages stay, whatever the size of the store.
const YOUNGEST: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// The time to keep each kind of row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ages {
    /// Messages without open deliveries, with their attempts.
    pub messages: Duration,
    pub dead_deliveries: Duration,
    /// Once-slots without a new claim.
    pub once_slots: Duration,
    /// Jobs that succeeded or were cancelled.
    pub jobs: Duration,
    pub batches: Duration,
    pub runs: Duration,
    pub sessions: Duration,
    /// Bytes of messages and attempts. Beyond them the oldest messages go earlier.
    pub bytes_max: Option<u64>,
}

impl Default for Ages {
    fn default() -> Ages {
        Ages {
            messages: MESSAGES_KEPT,
            dead_deliveries: 90 * DAY,
            once_slots: 90 * DAY,
            jobs: 7 * DAY,
            batches: 90 * DAY,
            runs: 90 * DAY,
            sessions: DAY,
            bytes_max: None,
        }
    }
}

impl Ages {
    fn of(&self, what: Prunable) -> Duration {
        match what {
            // An entry is of no use without its message, and a consumer not without entries.
            Prunable::Messages | Prunable::Polled | Prunable::PollConsumers => self.messages,
            Prunable::DeadDeliveries => self.dead_deliveries,
            // These rows contain their own expiry time.
            Prunable::Payloads | Prunable::Keys | Prunable::Answers => Duration::ZERO,
            Prunable::Jobs => self.jobs,
            Prunable::OnceSlots => self.once_slots,
            Prunable::Sessions => self.sessions,
            Prunable::Batches => self.batches,
            Prunable::Runs => self.runs,
            // A token of a superseded key lives at most this long.
            Prunable::Tokens => TOKEN_LIFE_MAX + TOKEN_MARGIN,
            Prunable::TrafficMinutes => TRAFFIC_MINUTES_KEPT,
            Prunable::TrafficHours => TRAFFIC_HOURS_KEPT,
        }
    }
}

pub(crate) struct Pruner {
    store: Arc<dyn Store>,
    clock: Arc<Clock>,
    ages: Ages,
}

#[derive(Serialize, Deserialize)]
struct Payload {
    what: String,
}

#[async_trait]
impl Handler for Pruner {
    async fn run(&self, context: Context) -> Finish {
        let payload = context.job().payload.as_deref().and_then(|json| serde_json::from_slice::<Payload>(json).ok());
        let what = payload.and_then(|payload| Prunable::ALL.into_iter().find(|what| what.as_str() == payload.what));
        let Some(what) = what else {
            return Finish::other(Report::Failed { retry_after: None }, "unknown kind of row to prune");
        };
        match self.prune(what, Some(&context)).await {
            Ok(_) if context.is_cancelled() => Finish::other(Report::Cancelled, "the job was cancelled"),
            // Another server, or this one after its restart, removes the remaining rows.
            Ok(_) if context.is_stopping() => {
                Finish::other(Report::Interrupted, "the server stopped before the job ended")
            }
            Ok(removed) => Finish::completed(Some(Bytes::from(format!("{{\"removed\": {removed}}}")))),
            Err(error) => Finish::other(Report::Failed { retry_after: None }, error.to_string()),
        }
    }
}

impl Pruner {
    pub(crate) fn new(store: &Arc<dyn Store>, clock: &Arc<Clock>, ages: Ages) -> Pruner {
        Pruner { store: Arc::clone(store), clock: Arc::clone(clock), ages }
    }

    /// Removes expired rows, and messages for which there is no room, until the job has to end early. Without a job, a
    /// timer calls. Returns the number of removed rows.
    async fn prune(&self, what: Prunable, job: Option<&Context>) -> Result<usize, StoreError> {
        let mut removed = self.prune_before(what, self.clock.now().minus(self.ages.of(what)), job).await?;
        let Some(bytes_max) = self.ages.bytes_max.filter(|_| what == Prunable::Messages) else { return Ok(removed) };
        while !is_over(job)
            && let Some(cut) = self.store.read(query::FindSizeCut { bytes_max }).await?
        {
            let before = cut.min(self.clock.now().minus(YOUNGEST));
            let gone = self.prune_before(what, before, job).await?;
            removed += gone;
            if gone == 0 {
                warn!(
                    "the store is larger than `keep_bytes_max`, but its messages are younger than an hour or not yet \
                     delivered: raise it, or redrive or dismiss dead deliveries"
                );
                break;
            }
            info!("pruned messages before {before}, because the store is larger than `keep_bytes_max`");
        }
        Ok(removed)
    }

    /// Removes rows that are older than `before`, one small transaction at a time.
    async fn prune_before(
        &self,
        what: Prunable,
        before: Timestamp,
        job: Option<&Context>,
    ) -> Result<usize, StoreError> {
        let began = self.clock.elapsed();
        let mut removed = 0;
        while !is_over(job) {
            let slice_began = self.clock.elapsed();
            let slice = self.store.prune(Prune { what, before, limit: SLICE }).await?;
            let now = self.clock.elapsed();
            removed += slice;
            if slice < SLICE {
                break;
            }
            let wait = pause(now.saturating_sub(slice_began), now.saturating_sub(began));
            match job {
                Some(job) => job.pause(wait).await,
                None => tokio::time::sleep(wait).await,
            }
        }
        if removed > 0 {
            info!(removed, "pruned {removed} rows of {}", what.as_str());
        }
        Ok(removed)
    }

    /// Prunes by a timer, where no schedules do it.
    pub(crate) async fn run_by_timer(&self) {
        loop {
            for what in Prunable::ALL {
                if let Err(error) = self.prune(what, None).await {
                    warn!(error = &error as &dyn std::error::Error, "could not prune {}", what.as_str());
                }
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }
}

fn is_over(job: Option<&Context>) -> bool {
    job.is_some_and(|job| job.is_cancelled() || job.is_stopping())
}

/// The pause after a transaction that took `took`, in a run that has lasted for `going_on`.
fn pause(took: Duration, going_on: Duration) -> Duration {
    let share = if going_on < HURRY_AFTER { PAUSE_SHARE } else { 1 };
    (took * share).max(PAUSE_MIN)
}

/// Creates the missing schedules. Existing ones stay unchanged, because an operator may have paused or changed them.
pub(crate) async fn create_schedules(node: &Node) {
    for what in Prunable::ALL {
        let record = schedule(what, ScheduleId(node.new_id()));
        while let Err(error) = create(&*node.store, &record).await {
            warn!(error = &error as &dyn std::error::Error, "could not create schedule {}", record.name);
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }
}

async fn create(store: &dyn Store, record: &ScheduleRecord) -> Result<(), StoreError> {
    match store.create(Scope::of(SERVER_ENVIRONMENT), record.clone(), None).await? {
        Created::New(_) => info!("created schedule {}", record.name),
        Created::Repeated(_) | Created::Taken(_) => {}
        Created::KeyReused | Created::NoParent | Created::Full => {
            debug!("the store did not create schedule {}", record.name)
        }
    }
    Ok(())
}

fn schedule(what: Prunable, id: ScheduleId) -> ScheduleRecord {
    let cadence = Cadence::Every { every: INTERVAL, anchor: Timestamp::default() };
    let payload = serde_json::to_vec(&Payload { what: what.as_str().to_owned() }).unwrap_or_default();
    let job = Job {
        timeout: TIMEOUT,
        name: Some(format!("prune {}", what.as_str())),
        concurrency_key: Some(what.as_str().to_owned()),
        ..Job::new(JobId(Id::MIN), name(MAINTENANCE_QUEUE), name(PRUNE_KIND), Bytes::from(payload))
    };
    ScheduleRecord::new(
        name(&format!("everhook.prune-{}", what.as_str())),
        Schedule { jitter: JITTER, overlap: Overlap::Skip, ..Schedule::new(id, cadence) },
        Starts::Job(Box::new(job)),
    )
}

pub(crate) fn name(text: &str) -> Name {
    text.parse().expect("the names of the server's own things are names")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pruning_leaves_the_time_to_others_until_it_cannot_keep_up() {
        let (slice, hour) = (Duration::from_millis(10), HURRY_AFTER);
        assert_eq!(pause(slice, Duration::ZERO), Duration::from_millis(90));
        assert_eq!(pause(Duration::ZERO, Duration::ZERO), PAUSE_MIN);
        assert_eq!(pause(10 * slice, hour), 10 * slice);
    }
}
