//! The history of schedules. Schedules are resources, and `schedule::fire` starts their runs.

use everhook_core::id::{EnvironmentId, ScheduleId};
use everhook_store::schedule::{Run, RunKind};
use rusqlite::{Row, params};

use crate::connection::Connection;
use crate::error::Fault;
use crate::rows::Reader;
use crate::sql::limit;

pub(crate) mod fire;

const LIST_SCHEDULE_RUN: &str = include_str!("../queries/list_schedule_run.sql");

pub(crate) fn list_runs(
    conn: &Connection,
    environment: EnvironmentId,
    id: ScheduleId,
    runs: usize,
) -> Result<Vec<Run>, Fault> {
    let mut list = conn.prepare_cached(LIST_SCHEDULE_RUN)?;
    let read = |row: &Row<'_>| {
        let record = Reader::new(row, "schedule_run");
        Ok(Run {
            nominal: record.time(0, "nominal")?,
            at: record.time(1, "at")?,
            kind: record.variant(2, "kind", RunKind::from_db)?,
            object: record.optional_id(3, "object")?,
        })
    };
    list.query_and_then(params![environment.0, id.as_bytes(), limit(runs)], read)?.collect()
}
