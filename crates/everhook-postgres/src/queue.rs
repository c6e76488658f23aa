//! Queues as users see them. `feed` decides how many jobs they give.

use std::time::Duration;

use everhook_core::id::{EnvironmentId, Id, LaneId};
use everhook_core::limits::QUEUE_COUNTED_MAX;
use everhook_core::limits::QUEUE_LANES_DELETED_MAX;
use everhook_core::name::Name;
use everhook_core::queue::{Queue, queue_id};
use everhook_store::catalog::{Order, Slice};
use everhook_store::piece::names_beyond;
use everhook_store::queue::{QUEUE_KINDS_LOOKED_AT, QueueCount, QueueStats};
use everhook_store::resource::Deleted;
use everhook_store::sql::shared::TASK_OF_LANE;
use everhook_store::{columns, row, statement};

use crate::columns::Keys;
use crate::error::Fault;
use crate::resource;
use crate::retention::PruneLane;
use crate::store::PostgresStore;

/// The most lanes whose oldest jobs are read for statistics: those that have been ready longest.
const LANES_LOOKED_AT: usize = 100;

columns! {
    /// Numbers of ended attempts, by queue.
    EndedCounts of EndedCount<'a> { environment: EnvironmentId, queue: &'a str, ended: u64 }
}

row! {
    struct StatsRow in "queue" {
        pending: i64,
        due: i64,
        running: i64,
        dead: i64,
        oldest: Option<i64>,
        ended: i64,
    }
}

statement! {
    // The inner option is none for a queue without configuration.
    FindQueue<'a> = ["find_queue", "queue_by_name"] { environment: EnvironmentId, name: &'a str }
        -> Option<Option<Queue>>;
    ListQueue<'a> = ["list_queue", "queue_by_name"] {
        environment: EnvironmentId, above: &'a str, below: &'a str, limit: usize, order: Order,
    } -> Vec<(Name, Option<Queue>)>;
    LockLaneQueue<'a> = "lock_lane_queue" { environment: EnvironmentId, queue: &'a str, limit: usize } -> Vec<LaneId>;
    ListQueueTarget = ["list_queue_target", "resource_by_id"] {} -> Vec<(EnvironmentId, Name)>;
    CountQueue<'a> = ["count_queue", "due_task", TASK_OF_LANE, "ready_lane"] {
        environment: EnvironmentId, queue: &'a str, feed: Id, counted_max: usize, lanes_max: usize,
    } -> Option<StatsRow>;
    ListQueueKind = ["list_queue_kind", "due_task", "ready_lane"] {
        environment: EnvironmentId, feed: Id, lanes_max: usize, jobs_max: usize,
    } -> Vec<Name>;
    AddQueueMinute<'a> = "add_queue_minute" { told: EndedCounts<'a> };
}

impl PostgresStore {
    pub(crate) async fn find_queue_once(
        &self,
        environment: EnvironmentId,
        name: &Name,
    ) -> Result<Option<Queue>, Fault> {
        let found = self.database.read(FindQueue { environment, name: name.as_str() }).await?;
        Ok(found.map(|queue| queue.unwrap_or_else(|| Queue::new(name.clone()))))
    }

    pub(crate) async fn list_queues_once(
        &self,
        environment: EnvironmentId,
        slice: &Slice<Name>,
    ) -> Result<Vec<Queue>, Fault> {
        let (above, below) = names_beyond(slice);
        let (limit, order) = (slice.limit, slice.order);
        let found = self.database.read(ListQueue { environment, above, below, limit, order }).await?;
        Ok(found.into_iter().map(|(name, queue)| queue.unwrap_or_else(|| Queue::new(name))).collect())
    }

    pub(crate) async fn delete_queue_once(&self, environment: EnvironmentId, name: &Name) -> Result<Deleted, Fault> {
        let mut found = false;
        loop {
            let tx = self.database.tx().await?;
            tx.begin(()).await?;
            let (queue, limit) = (name.as_str(), QUEUE_LANES_DELETED_MAX);
            let lanes = tx.run(LockLaneQueue { environment, queue, limit }).await?;
            // `prune_lane` keeps lanes with a job. A transaction that adds a job later finds no lane, and creates it
            // again.
            let idle = Keys::of(lanes.iter().map(|lane| (environment, lane.0)));
            let removed = tx.run(PruneLane { idle }).await?;
            if removed < lanes.len() as u64 {
                tx.roll_back().await?;
                return Ok(Deleted::HasJobs);
            }
            found |= removed > 0;
            let is_all = lanes.len() < QUEUE_LANES_DELETED_MAX;
            if is_all {
                found |= resource::delete_queue(&tx, environment, name).await?;
            }
            tx.commit().await?;
            if is_all {
                return Ok(found.into());
            }
        }
    }

    pub(crate) async fn list_targets_once(&self) -> Result<Vec<(EnvironmentId, Name)>, Fault> {
        self.database.read(ListQueueTarget {}).await
    }

    pub(crate) async fn queue_stats_once(&self, environment: EnvironmentId, name: &Name) -> Result<QueueStats, Fault> {
        let (queue, counted_max, lanes_max) = (name.as_str(), QUEUE_COUNTED_MAX, LANES_LOOKED_AT);
        let feed = queue_id(environment, name);
        let count = CountQueue { environment, queue, feed, counted_max, lanes_max };
        let counted = self.database.read(count).await?.ok_or(Fault::Contended("the count returned no row"))?;
        let list = ListQueueKind { environment, feed, lanes_max, jobs_max: QUEUE_KINDS_LOOKED_AT };
        Ok(QueueStats {
            pending: counted.pending.unsigned_abs(),
            due: counted.due.unsigned_abs(),
            running: counted.running.unsigned_abs(),
            dead: counted.dead.unsigned_abs(),
            oldest_due: counted.oldest.map(|span| Duration::from_micros(span.max(0).unsigned_abs())),
            ended_last_minute: counted.ended.unsigned_abs(),
            due_kinds: self.database.read(list).await?,
        })
    }

    pub(crate) async fn count_ended_once(&self, counts: &[QueueCount]) -> Result<(), Fault> {
        if counts.is_empty() {
            return Ok(());
        }
        let mut told = EndedCounts::default();
        for QueueCount { environment, name, ended } in counts {
            told.push(EndedCount { environment: *environment, queue: name.as_str(), ended: *ended });
        }
        self.database.write(AddQueueMinute { told }).await.map(drop)
    }
}
