//! Forgetting: in bounded slices, whole weeks of messages and jobs where nothing of them is open.
//!
//! A week's partitions are dropped under a lock that is given up at once where someone is in the way: what waits for such a lock keeps everyone
//! else waiting behind it.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use everhook_core::batch::Intake;
use everhook_core::id::{EnvironmentId, Id, LaneId};
use everhook_core::job;
use everhook_core::name::Name;
use everhook_core::time::Timestamp;
use everhook_store::retention::Prunable;
use everhook_store::schedule::RUNS_KEPT;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tracing::warn;

use crate::catalog::count;
use crate::error::Fault;
use crate::partition::{self, Week};
use crate::rows::Reader;
use crate::sql;
use crate::store::PostgresStore;

/// Pages of keys that one statement looks at.
const KEY_PAGES: u32 = 256;
/// How long a queue's minutes are kept.
const MINUTES_KEPT: i64 = 60;

/// How long to leave weeks alone after one could not be dropped.
const DROP_PAUSE: Duration = Duration::from_secs(600);

/// Until what age no week is dropped.
#[derive(Debug, Default)]
pub(crate) struct DropPause(Mutex<Option<Timestamp>>);

type LaneKey = (EnvironmentId, LaneId);
/// Lanes to forget, with their queues, in key order.
type IdleLanes = BTreeMap<LaneKey, Name>;

/// Where the search for expired keys goes on.
#[derive(Debug, Default)]
pub(crate) struct KeyCursor(AtomicU32);

impl PostgresStore {
    pub(crate) async fn prune_once(&self, what: Prunable, before: Timestamp, limit: usize) -> Result<usize, Fault> {
        let (at, most, floor) = (before.as_micros(), count(limit), Id::floor(before));
        let floor = floor.as_bytes().as_slice();
        let pruned = match what {
            Prunable::Messages | Prunable::Jobs if self.may_drop_week(what, before).await? => return Ok(limit),
            Prunable::Messages => self.database.change(&sql::PRUNE_MESSAGE, &[&floor, &most]).await?,
            Prunable::Jobs => self.database.change(&sql::PRUNE_JOB, &[&floor, &at, &most]).await?,
            Prunable::DeadDeliveries => self.database.change(&sql::PRUNE_TASK_DEAD, &[&at, &most]).await?,
            Prunable::Payloads => {
                let now = self.read_clock().await?.as_micros();
                self.database.change(&sql::PRUNE_PAYLOAD, &[&now, &most]).await?
            }
            Prunable::Keys => self.prune_keys(limit).await?,
            Prunable::OnceSlots => self.database.change(&sql::PRUNE_ONCE, &[&at, &most]).await?,
            Prunable::Sessions => self.prune_sessions(at, limit).await?,
            Prunable::Batches => {
                let sealed = Intake::Sealed.to_db();
                self.database.change(&sql::PRUNE_BATCH, &[&at, &sealed, &most]).await?
            }
            Prunable::Runs => self.database.change(&sql::PRUNE_SCHEDULE_RUN, &[&at, &count(RUNS_KEPT), &most]).await?,
        };
        Ok(usize::try_from(pruned).unwrap_or(usize::MAX))
    }

    /// Goes on where it last ended; ends when enough were found, or when it has seen the whole table.
    async fn prune_keys(&self, limit: usize) -> Result<u64, Fault> {
        let rows = self.database.read(&sql::PAGES_DEDUP, &[]).await?;
        let row = rows.first().ok_or(Fault::Contended("the size gave no answer"))?;
        let pages: i64 = Reader::new(row, "dedup").get("pages")?;
        let pages = u32::try_from(pages).unwrap_or(u32::MAX);
        let (mut pruned, mut seen) = (0, 0);
        while seen < pages && pruned < u64::try_from(limit).unwrap_or(u64::MAX) {
            let from = self.key_cursor.0.load(Ordering::Relaxed);
            let from = if from < pages { from } else { 0 };
            let to = from.saturating_add(KEY_PAGES);
            let (low, high) = (format!("({from},0)"), format!("({to},0)"));
            pruned += self.database.change(&sql::PRUNE_DEDUP, &[&low, &high]).await?;
            self.key_cursor.0.store(to, Ordering::Relaxed);
            seen = seen.saturating_add(KEY_PAGES);
        }
        Ok(pruned)
    }

    /// Forgets sessions, and with them lanes of concurrency keys in which nothing is, and minutes that nobody asks for any more.
    async fn prune_sessions(&self, before: i64, limit: usize) -> Result<u64, Fault> {
        let pruned = self.database.change(&sql::PRUNE_SESSION, &[&before, &count(limit)]).await?;
        self.database.change(&sql::PRUNE_QUEUE_MINUTE, &[&MINUTES_KEPT, &count(limit)]).await?;
        Ok(pruned + self.prune_lanes(limit).await?)
    }

    async fn prune_lanes(&self, limit: usize) -> Result<u64, Fault> {
        let idle = self.idle_lanes(limit).await?;
        if idle.is_empty() {
            return Ok(0);
        }
        self.keep_queues(&idle).await?;
        let (environments, ids) = lane_columns(idle.keys());
        let transaction = self.database.transaction().await?;
        transaction.begin().await?;
        let locked = transaction.rows(&sql::LOCK_LANE_IDLE, &[&environments, &ids]).await?;
        let (mut environments, mut ids) = (Vec::<i32>::new(), Vec::<&[u8]>::new());
        for row in &locked {
            let mut row = Reader::new(row, "lane");
            environments.push(row.get("environment")?);
            ids.push(row.get("id")?);
        }
        let lanes = transaction.change(&sql::PRUNE_LANE, &[&environments, &ids]).await?;
        transaction.commit().await?;
        Ok(lanes)
    }

    /// Lanes of concurrency keys in which nothing waits and nothing is dead, at most so many, with their queues.
    async fn idle_lanes(&self, limit: usize) -> Result<IdleLanes, Fault> {
        let read = |row: &Row| {
            let mut row = Reader::new(row, "lane");
            let lane = (EnvironmentId(row.get("environment")?), LaneId(row.id("id")?));
            Ok((lane, row.name("queue")?))
        };
        self.database.read(&sql::LIST_OLD_LANE, &[&count(limit)]).await?.iter().map(read).collect()
    }

    /// Gives queues the lane without a key that had none: it is how a queue is known that nobody configured. Before any lock is had: whoever
    /// is just adding it may wait for one.
    async fn keep_queues(&self, idle: &IdleLanes) -> Result<(), Fault> {
        let own =
            idle.iter().map(|((environment, _), queue)| ((*environment, job::lane(*environment, queue, None)), queue));
        let own: BTreeMap<LaneKey, &Name> = own.collect();
        let (environments, ids) = lane_columns(own.keys());
        let queues: Vec<&str> = own.values().map(|queue| queue.as_str()).collect();
        self.database.change(&sql::CREATE_LANE_QUEUE, &[&environments, &ids, &queues]).await.map(drop)
    }

    /// Drops a week, unless someone was in the way of that lately: each try holds up traffic for a moment.
    async fn may_drop_week(&self, what: Prunable, before: Timestamp) -> Result<bool, Fault> {
        let until = *self.drop_pause.0.lock().expect("nothing panics while it holds this lock");
        // What is old grows with the time that passes: no other clock is needed.
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
            // A week that is too large to be looked at is pruned in slices.
            Err(Fault::Slow) => {}
            dropped => return dropped,
        }
        *self.drop_pause.0.lock().expect("nothing panics while it holds this lock") = Some(before.plus(DROP_PAUSE));
        Ok(false)
    }

    /// Drops the oldest week of messages or jobs, if it is old as a whole and nothing of it is open; says whether it did.
    async fn drop_week(&self, what: Prunable, before: Timestamp) -> Result<bool, Fault> {
        let tables: [&str; 2] = match what {
            Prunable::Jobs => ["job", "job_attempt"],
            _ => ["message", "attempt"],
        };
        let Some(week) = partition::oldest(&self.database, tables[0]).await? else { return Ok(false) };
        if week >= Week::of(&Id::floor(before)) {
            return Ok(false);
        }
        let (low, high) = week.ids();
        let (low, high) = (low.as_slice(), high.as_slice());
        if !self.database.read(&sql::FIND_TASK_BETWEEN, &[&low, &high]).await?.is_empty() {
            return Ok(false);
        }
        if what == Prunable::Jobs {
            // Nothing of it is open, so that no attempt comes to those that are there.
            let at = before.as_micros();
            if !self.database.read(&sql::FIND_JOB_ATTEMPT_SINCE, &[&low, &high, &at]).await?.is_empty() {
                return Ok(false);
            }
            self.database.change(&sql::PRUNE_JOB_OUTPUT, &[&low, &high]).await?;
        }
        partition::drop_unused(&self.database, tables, week).await
    }
}

fn lane_columns<'a>(lanes: impl Iterator<Item = &'a LaneKey>) -> (Vec<i32>, Vec<&'a [u8]>) {
    lanes.map(|(environment, lane)| (environment.0, lane.as_bytes().as_slice())).unzip()
}
