//! The number of waiting tasks.

use std::time::Duration;

use everhook_core::id::{EndpointId, EnvironmentId};
use everhook_core::limits::{BACKLOG_COUNTED_MAX, BACKLOG_LANES_MAX, OVERVIEW_TASKS_MAX};
use everhook_core::task::PRIORITY_DEFAULT;
use everhook_core::time::Timestamp;
use everhook_store::backlog::{Backlog, LaneCounts, OpenCounts};
use everhook_store::statement;

use crate::connection::Connection;
use crate::error::Fault;
use crate::sql::run;

statement! {
    // Returns pending tasks, dead tasks, the waiting time of the oldest due task in microseconds, and open breakers.
    CountBacklog = "count_backlog" { counted_max: usize, now: Timestamp, lanes_max: usize, priority: i16 }
        -> Option<(u64, u64, i64, u64)>;
    CountOpen = "count_open" { environment: EnvironmentId, now: Timestamp, counted_max: usize } -> Option<OpenCounts>;
    CountLane = "count_lane" { environment: EnvironmentId, lane: EndpointId, now: Timestamp, counted_max: usize }
        -> Option<LaneCounts>;
}

/// Counts the open tasks of an environment, up to the bound.
pub(crate) fn count_open(conn: &Connection, environment: EnvironmentId, now: Timestamp) -> Result<OpenCounts, Fault> {
    let counted = run(conn, CountOpen { environment, now, counted_max: OVERVIEW_TASKS_MAX })?;
    Ok(counted.unwrap_or_default())
}

/// Counts the due and dead deliveries of an endpoint, up to the bound.
pub(crate) fn count_lane(
    conn: &Connection,
    environment: EnvironmentId,
    lane: EndpointId,
    now: Timestamp,
) -> Result<LaneCounts, Fault> {
    let counted = run(conn, CountLane { environment, lane, now, counted_max: OVERVIEW_TASKS_MAX })?;
    Ok(counted.unwrap_or_default())
}

/// Counts waiting tasks, up to the bound.
pub(crate) fn count(conn: &Connection, now: Timestamp) -> Result<Backlog, Fault> {
    let (counted_max, lanes_max, priority) = (BACKLOG_COUNTED_MAX, BACKLOG_LANES_MAX, PRIORITY_DEFAULT);
    let counted = run(conn, CountBacklog { counted_max, now, lanes_max, priority })?;
    let (pending, dead, due_for, breakers) = counted.unwrap_or_default();
    Ok(Backlog { pending, dead, due_for: Duration::from_micros(due_for.max(0).unsigned_abs()), breakers })
}
