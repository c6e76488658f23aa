//! Retention: prunes old rows in bounded slices, and drops whole weeks of messages and jobs without open tasks.
//!
//! Dropping the partitions of a week needs an exclusive lock. The drop gives up at once if another transaction is in
//! the way: every later transaction would wait behind the drop.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use everhook_core::batch::Intake;
use everhook_core::id::{EnvironmentId, Id, LaneId};
use everhook_core::job;
use everhook_core::name::Name;
use everhook_core::time::Timestamp;
use everhook_core::traffic::Span;
use everhook_store::retention::Prunable;
use everhook_store::schedule::RUNS_KEPT;
use everhook_store::sql::shared::{PruneTokenKey, TASK_OF_LANE};
use everhook_store::statement;
use tokio_postgres::error::SqlState;
use tracing::warn;

use crate::columns::Keys;
use crate::error::Fault;
use crate::job::enqueue::{CreateLaneQueue, QueueLane, QueueLanes};
use crate::partition::{self, FindOrphanedTask, Week};
use crate::store::PostgresStore;
use crate::token::PruneTokenEnd;

statement! {
    PruneMessage = ["prune_message", "task_of_subject", "prune_attempt"] { floor: Id, limit: usize };
    PruneTaskDead = "prune_task_dead" { before: Timestamp, limit: usize };
    PrunePayload = "prune_payload" { now: Timestamp, limit: usize };
    PruneDedup = "prune_dedup" { low: String, high: String };
    PruneRequest = "prune_request" { now: Timestamp, limit: usize };
    PrunePolled = "prune_polled" { before: Timestamp, limit: usize };
    PrunePollConsumer = "prune_poll_consumer" { before: Timestamp, limit: usize };
    PruneJob = ["prune_job", "task_of_subject", "prune_attempt"] { floor: Id, before: Timestamp, limit: usize };
    PruneOnce = "prune_once" { before: Timestamp, limit: usize };
    PruneSession = "prune_session" { before: Timestamp, limit: usize };
    PruneBatch = "prune_batch" { before: Timestamp, intake: Intake, limit: usize };
    PruneScheduleRun = "prune_schedule_run" { before: Timestamp, kept: usize, limit: usize };
    ListExpiredLane = ["list_expired_lane", TASK_OF_LANE] { limit: usize } -> Vec<(EnvironmentId, LaneId, Name)>;
    LockLaneIdle = "lock_lane_idle" { idle: Keys } -> Vec<(EnvironmentId, Id)>;
    pub(crate) PruneLane = ["prune_lane", TASK_OF_LANE] { idle: Keys };
    PagesDedup = (
        "pages_dedup",
        "select pg_catalog.pg_relation_size('everhook.dedup') \
        / pg_catalog.current_setting('block_size')::bigint"
    ) {} -> Option<i64>;
    PruneQueueMinute = (
        "prune_queue_minute",
        "delete from everhook.queue_minute where ctid = any (array( \
        select ctid from everhook.queue_minute where minute < everhook.now_us() / 60000000 - :kept limit :limit))"
    ) { kept: i64, limit: usize };
    PruneJobOutput<'a> = (
        "prune_job_output",
        "delete from everhook.job_output where job >= :low and job < :high"
    ) { low: &'a [u8], high: &'a [u8] };
    FindSize = "find_size" {} -> Vec<(String, i64)>;
    FindJobAttemptSince<'a> = (
        "find_job_attempt_since",
        "select 1 from everhook.attempt \
        where kind = 1 and subject >= :low and subject < :high and started_at + duration_us >= :since limit 1"
    ) { low: &'a [u8], high: &'a [u8], since: Timestamp } -> Option<i32>;
}

/// The number of table pages that one statement prunes.
const KEY_PAGES: u32 = 256;
/// The number of minutes that the counts of queues are kept.
const MINUTES_KEPT: i64 = 60;

/// The pause after a week could not be dropped.
const DROP_PAUSE: Duration = Duration::from_secs(600);

/// No week is dropped until the retention limit passes this time.
#[derive(Debug, Default)]
pub(crate) struct DropPause(Mutex<Option<Timestamp>>);

type LaneKey = (EnvironmentId, LaneId);
/// Lanes to delete, with their queues, in key order.
type IdleLanes = BTreeMap<LaneKey, Name>;

/// The page where the search for expired keys continues.
#[derive(Debug, Default)]
pub(crate) struct KeyCursor(AtomicU32);

impl PostgresStore {
    pub(crate) async fn prune_once(&self, what: Prunable, before: Timestamp, limit: usize) -> Result<usize, Fault> {
        let (floor, database) = (Id::floor(before), &self.database);
        let pruned = match what {
            Prunable::Messages | Prunable::Jobs if self.may_drop_week(what, before).await? => return Ok(limit),
            Prunable::Messages => database.write(PruneMessage { floor, limit }).await?,
            Prunable::Jobs => database.write(PruneJob { floor, before, limit }).await?,
            Prunable::DeadDeliveries => database.write(PruneTaskDead { before, limit }).await?,
            Prunable::Payloads => {
                let now = self.read_clock().await?;
                database.write(PrunePayload { now, limit }).await?
            }
            Prunable::Answers => {
                let now = self.read_clock().await?;
                database.write(PruneRequest { now, limit }).await?
            }
            Prunable::Polled => database.write(PrunePolled { before, limit }).await?,
            Prunable::PollConsumers => database.write(PrunePollConsumer { before, limit }).await?,
            Prunable::Keys => self.prune_keys(limit).await?,
            Prunable::OnceSlots => database.write(PruneOnce { before, limit }).await?,
            Prunable::Sessions => self.prune_sessions(before, limit).await?,
            Prunable::Batches => database.write(PruneBatch { before, intake: Intake::Sealed, limit }).await?,
            Prunable::Runs => database.write(PruneScheduleRun { before, kept: RUNS_KEPT, limit }).await?,
            Prunable::Tokens => {
                database.write(PruneTokenKey { before }).await?;
                let now = self.read_clock().await?;
                database.write(PruneTokenEnd { now, limit }).await?
            }
            Prunable::TrafficMinutes => self.prune_traffic(&[Span::Minute, Span::Quarter], before, limit).await?,
            Prunable::TrafficHours => self.prune_traffic(&[Span::Hour], before, limit).await?,
        };
        Ok(usize::try_from(pruned).unwrap_or(usize::MAX))
    }

    /// Continues where the last call ended. Stops after `limit` keys, or after one pass over the table.
    async fn prune_keys(&self, limit: usize) -> Result<u64, Fault> {
        let pages = self.database.read(PagesDedup {}).await?.ok_or(Fault::Contended("the size returned no row"))?;
        let pages = u32::try_from(pages).unwrap_or(u32::MAX);
        let (mut pruned, mut seen) = (0, 0);
        while seen < pages && pruned < u64::try_from(limit).unwrap_or(u64::MAX) {
            let from = self.key_cursor.0.load(Ordering::Relaxed);
            let from = if from < pages { from } else { 0 };
            let to = from.saturating_add(KEY_PAGES);
            let (low, high) = (format!("({from},0)"), format!("({to},0)"));
            pruned += self.database.write(PruneDedup { low, high }).await?;
            self.key_cursor.0.store(to, Ordering::Relaxed);
            seen = seen.saturating_add(KEY_PAGES);
        }
        Ok(pruned)
    }

    /// Prunes sessions, and with them idle lanes of concurrency keys and old minutes of queues.
    async fn prune_sessions(&self, before: Timestamp, limit: usize) -> Result<u64, Fault> {
        let pruned = self.database.write(PruneSession { before, limit }).await?;
        self.database.write(PruneQueueMinute { kept: MINUTES_KEPT, limit }).await?;
        Ok(pruned + self.prune_lanes(limit).await?)
    }

    async fn prune_lanes(&self, limit: usize) -> Result<u64, Fault> {
        let idle = self.idle_lanes(limit).await?;
        if idle.is_empty() {
            return Ok(0);
        }
        self.keep_queues(&idle).await?;
        let tx = self.database.tx().await?;
        tx.begin(()).await?;
        let idle = Keys::of(idle.keys().map(|(environment, lane)| (*environment, lane.0)));
        // Two statements: the deletion needs a snapshot that is newer than the locks. It then sees a task that was
        // added just before the lock, and keeps the lane.
        let locked = tx.run(LockLaneIdle { idle }).await?;
        tx.finish(PruneLane { idle: Keys::of(locked) }).await
    }

    /// Finds up to `limit` lanes of concurrency keys without pending or dead tasks, with their queues.
    async fn idle_lanes(&self, limit: usize) -> Result<IdleLanes, Fault> {
        let found = self.database.read(ListExpiredLane { limit }).await?;
        Ok(found.into_iter().map(|(environment, lane, queue)| ((environment, lane), queue)).collect())
    }

    /// Creates the queue's own lane, without a key, where it is missing: a queue without configuration is known only by
    /// its lanes. This happens before any lock is taken, because a transaction that is adding the lane may wait for
    /// one.
    async fn keep_queues(&self, idle: &IdleLanes) -> Result<(), Fault> {
        let own =
            idle.iter().map(|((environment, _), queue)| ((*environment, job::lane(*environment, queue, None)), queue));
        let own: BTreeMap<LaneKey, &Name> = own.collect();
        let mut fresh = QueueLanes::default();
        for ((environment, id), queue) in own {
            fresh.push(QueueLane { environment, id, feed: id.0, queue: queue.as_str() });
        }
        self.database.write(CreateLaneQueue { fresh }).await.map(drop)
    }

    /// Returns the end of the newest week that no longer fits into `bytes_max`. The current week always stays.
    pub(crate) async fn find_size_cut_once(&self, bytes_max: u64) -> Result<Option<Timestamp>, Fault> {
        let mut weeks: BTreeMap<Week, u64> = BTreeMap::new();
        for (name, bytes) in self.database.read(FindSize {}).await? {
            if let Some(week) = Week::of_partition(&name) {
                *weeks.entry(week).or_default() += bytes.unsigned_abs();
            }
        }
        let current = Week::of(&Id::floor(self.read_clock().await?));
        let mut sum = 0;
        for (week, bytes) in weeks.into_iter().rev() {
            sum += bytes;
            if sum > bytes_max && week < current {
                return Ok(Some(week.end()));
            }
        }
        Ok(None)
    }

    /// Drops a week, unless a recent try failed: each try blocks traffic for a moment. Returns whether it did.
    async fn may_drop_week(&self, what: Prunable, before: Timestamp) -> Result<bool, Fault> {
        let until = *self.drop_pause.0.lock().expect("nothing panics while it holds this lock");
        // The retention limit advances with time, so that it can serve as the clock of the pause.
        if until.is_some_and(|until| before < until) {
            return Ok(false);
        }
        match self.drop_week(what, before).await {
            Err(Fault::Statement(error)) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {}
            Err(Fault::Statement(error)) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
                let error = &error as &dyn std::error::Error;
                warn!(
                    error,
                    "could not drop an old week, pruning it in slices: grant execute on function everhook.drop_week"
                );
            }
            // A week that is too large to check within the deadline is pruned in slices.
            Err(Fault::Slow) => {}
            dropped => return dropped,
        }
        *self.drop_pause.0.lock().expect("nothing panics while it holds this lock") = Some(before.plus(DROP_PAUSE));
        Ok(false)
    }

    /// Drops the oldest week of messages or jobs, if all of it is old and no task of it is open; returns whether it
    /// did.
    async fn drop_week(&self, what: Prunable, before: Timestamp) -> Result<bool, Fault> {
        let tables: [&str; 2] = match what {
            Prunable::Jobs => ["job", "attempt_job"],
            _ => ["message", "attempt_delivery"],
        };
        let Some(week) = partition::oldest(&self.database, tables[0]).await? else { return Ok(false) };
        if week >= Week::of(&Id::floor(before)) {
            return Ok(false);
        }
        let (low, high) = week.ids();
        let (low, high) = (low.as_slice(), high.as_slice());
        // Checked without a lock first, because the lock blocks all traffic. `drop_unused` checks again under the lock.
        if self.database.read(FindOrphanedTask { low, high }).await?.is_some() {
            return Ok(false);
        }
        if what == Prunable::Jobs {
            // No task of the week is open, so no further attempt can be added to it.
            if self.database.read(FindJobAttemptSince { low, high, since: before }).await?.is_some() {
                return Ok(false);
            }
            self.database.write(PruneJobOutput { low, high }).await?;
        }
        partition::drop_unused(&self.database, tables, week).await
    }
}
