//! Positions in ordered lanes. Called wherever a delivery is added to a lane that may be ordered, on the writer's thread.

use everhook_core::task::Task;
use everhook_core::time::Timestamp;
use everhook_store::append::TakesPosition;
use rusqlite::{OptionalExtension, params};

use crate::error::Fault;
use crate::writer::Tx;

const TAKE_POSITION: &str = include_str!("../queries/take_position.sql");

/// Returns a new delivery at the end of its lane.
pub(crate) fn placed(tx: &Tx<'_>, task: &Task, takes: TakesPosition) -> Result<Task, Fault> {
    let params =
        params![task.key.environment.0, task.lane.as_bytes(), tx.now.as_micros(), takes == TakesPosition::Always];
    let mut take = tx.conn.prepare_cached(TAKE_POSITION)?;
    let position: Option<i64> = take.query_row(params, |row| row.get(0)).optional()?;
    Ok(Task { due_at: position.map_or(task.due_at, Timestamp::from_micros), ..*task })
}
