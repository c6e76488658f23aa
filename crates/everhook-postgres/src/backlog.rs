//! The number of waiting tasks, and the use of the pool.

use std::time::Duration;

use everhook_core::id::{EndpointId, EnvironmentId};
use everhook_core::limits::{BACKLOG_COUNTED_MAX, BACKLOG_LANES_MAX, OVERVIEW_TASKS_MAX};
use everhook_core::task::PRIORITY_DEFAULT;
use everhook_store::backlog::{Backlog, LaneCounts, OpenCounts, PoolUse};
use everhook_store::sql::shared::TASK_OF_LANE;
use everhook_store::statement;

use crate::error::Fault;
use crate::store::PostgresStore;

statement! {
    // Returns pending tasks, dead tasks, and the waiting time of the oldest due task in microseconds, and open
    // breakers.
    CountBacklog = "count_backlog" { counted_max: usize, lanes_max: usize, priority: i16 } -> Option<(i64, i64, i64, u64)>;
    CountOpen = "count_open" { environment: EnvironmentId, counted_max: usize } -> Option<OpenCounts>;
    CountLane = ["count_lane", TASK_OF_LANE] { environment: EnvironmentId, lane: EndpointId, counted_max: usize }
        -> Option<LaneCounts>;
}

impl PostgresStore {
    /// Counts waiting tasks, up to the bound.
    pub(crate) async fn backlog_once(&self) -> Result<Backlog, Fault> {
        let (counted_max, lanes_max, priority) = (BACKLOG_COUNTED_MAX, BACKLOG_LANES_MAX, PRIORITY_DEFAULT);
        let counted = self.database.read(CountBacklog { counted_max, lanes_max, priority }).await?;
        let (pending, dead, due_for, breakers) = counted.ok_or(Fault::Contended("the count returned no row"))?;
        Ok(Backlog {
            pending: pending.unsigned_abs(),
            dead: dead.unsigned_abs(),
            due_for: Duration::from_micros(due_for.max(0).unsigned_abs()),
            breakers,
        })
    }

    /// Counts the open tasks of an environment, up to the bound.
    pub(crate) async fn count_open_once(&self, environment: EnvironmentId) -> Result<OpenCounts, Fault> {
        let counted = self.database.read(CountOpen { environment, counted_max: OVERVIEW_TASKS_MAX }).await?;
        counted.ok_or(Fault::Contended("the count returned no row"))
    }

    /// Counts the due and dead deliveries of an endpoint, up to the bound.
    pub(crate) async fn count_lane_once(
        &self,
        environment: EnvironmentId,
        lane: EndpointId,
    ) -> Result<LaneCounts, Fault> {
        let counted = self.database.read(CountLane { environment, lane, counted_max: OVERVIEW_TASKS_MAX }).await?;
        counted.ok_or(Fault::Contended("the count returned no row"))
    }

    /// Returns the use of the pool. A connection is in use if it is open and not idle.
    pub(crate) fn connections(&self) -> PoolUse {
        let status = self.database.pool.status();
        PoolUse { max: status.max_size, busy: status.size.saturating_sub(status.available), waiting: status.waiting }
    }
}
