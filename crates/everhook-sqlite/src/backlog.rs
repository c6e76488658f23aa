//! What waits, counted.

use std::time::Duration;

use everhook_core::limits::BACKLOG_COUNTED_MAX;
use everhook_core::time::Timestamp;
use everhook_store::backlog::Backlog;
use rusqlite::{Connection, params};

use crate::failure::Fault;
use crate::rows::Record;

const COUNT_BACKLOG: &str = include_str!("../queries/count_backlog.sql");

/// Counts what waits, up to the bound.
pub(crate) fn count(conn: &Connection, now: Timestamp) -> Result<Backlog, Fault> {
    let limit = i64::try_from(BACKLOG_COUNTED_MAX).unwrap_or(i64::MAX);
    let mut count = conn.prepare_cached(COUNT_BACKLOG)?;
    let mut rows = count.query_and_then(params![limit, now.as_micros()], |row| {
        let record = Record::new(row, "task");
        let (pending, dead): (i64, i64) = (record.get(0, "pending")?, record.get(1, "dead")?);
        let ready_for: i64 = record.get(2, "ready_at")?;
        Ok(Backlog {
            pending: pending.unsigned_abs(),
            dead: dead.unsigned_abs(),
            ready_for: Duration::from_micros(ready_for.max(0).unsigned_abs()),
        })
    })?;
    rows.next().unwrap_or_else(|| Ok(Backlog::default()))
}
