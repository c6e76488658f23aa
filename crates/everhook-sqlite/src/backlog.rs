//! The number of waiting tasks.

use std::time::Duration;

use everhook_core::id::{EndpointId, EnvironmentId};
use everhook_core::limits::{BACKLOG_COUNTED_MAX, BACKLOG_LANES_MAX, OVERVIEW_TASKS_MAX};
use everhook_core::task::PRIORITY_DEFAULT;
use everhook_core::time::Timestamp;
use everhook_store::backlog::{Backlog, LaneCounts, OpenCounts};
use everhook_store::statement;
use rusqlite::params;

use crate::connection::Connection;
use crate::error::Fault;
use crate::rows::Reader;
use crate::sql::run;

const COUNT_BACKLOG: &str = include_str!("../queries/count_backlog.sql");

statement! {
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
    let (limit, lanes) = (BACKLOG_COUNTED_MAX as i64, BACKLOG_LANES_MAX as i64);
    let mut count = conn.prepare_cached(COUNT_BACKLOG)?;
    let mut rows = count.query_and_then(params![limit, now.as_micros(), lanes, PRIORITY_DEFAULT], |row| {
        let record = Reader::new(row, "task");
        let (pending, dead): (i64, i64) = (record.get(0, "pending")?, record.get(1, "dead")?);
        let (due_for, breakers): (i64, i64) = (record.get(2, "due_for")?, record.get(3, "breakers")?);
        Ok(Backlog {
            pending: pending.unsigned_abs(),
            dead: dead.unsigned_abs(),
            due_for: Duration::from_micros(due_for.max(0).unsigned_abs()),
            breakers: breakers.unsigned_abs(),
        })
    })?;
    rows.next().unwrap_or_else(|| Ok(Backlog::default()))
}
