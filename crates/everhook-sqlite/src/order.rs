//! Positions in ordered lanes, and the order by a key. Called on the writer's thread, by all code that adds a delivery
//! to a lane that may be ordered, or ends a delivery with a key.

use everhook_core::id::{EnvironmentId, LaneId};
use everhook_core::policy::order::{KeyPlace, OrderKey};
use everhook_core::task::Task;
use everhook_core::time::Timestamp;
use everhook_store::append::TakesPosition;
use rusqlite::{OptionalExtension, params};

use crate::append::{Waits, lower_lane_due};
use crate::error::Fault;
use crate::writer::Tx;

const TAKE_POSITION: &str = include_str!("../queries/take_position.sql");
const APPEND_TASK_ORDERED: &str = include_str!("../queries/append_task_ordered.sql");
const PROMOTE_TASK: &str = include_str!("../queries/promote_task.sql");

/// Writes a new delivery at the end of its ordered lane. The caller lowers the due time of the lane.
pub(crate) fn append(tx: &Tx<'_>, task: &Task, place: Option<KeyPlace>) -> Result<(), Fault> {
    let placed = placed(tx, task, TakesPosition::Always)?;
    tx.conn.prepare_cached(APPEND_TASK_ORDERED)?.execute(params![
        task.key.environment.0,
        task.key.subject.as_bytes(),
        task.key.id.as_bytes(),
        task.lane.as_bytes(),
        task.kind.to_db(),
        task.trigger.to_db(),
        task.priority,
        placed.due_at.as_micros(),
        place.map(|place| place.key.0),
        place.map(|place| place.blocks),
    ])?;
    promote(tx, task)
}

/// Makes the next delivery with the key of a task due.
pub(crate) fn promote(tx: &Tx<'_>, task: &Task) -> Result<(), Fault> {
    task.order_key.map_or(Ok(()), |key| promote_key(tx, task.key.environment, task.lane, key))
}

/// Makes the next delivery with a key due.
pub(crate) fn promote_key(tx: &Tx<'_>, environment: EnvironmentId, lane: LaneId, key: OrderKey) -> Result<(), Fault> {
    let params = params![environment.0, lane.as_bytes(), key.0, tx.now.as_micros()];
    if tx.conn.prepare_cached(PROMOTE_TASK)?.execute(params)? > 0 {
        lower_lane_due(tx, environment, lane, tx.now.as_micros(), Waits::No)?;
    }
    Ok(())
}

/// Returns a new delivery at the end of its lane.
pub(crate) fn placed(tx: &Tx<'_>, task: &Task, takes: TakesPosition) -> Result<Task, Fault> {
    let params =
        params![task.key.environment.0, task.lane.as_bytes(), tx.now.as_micros(), takes == TakesPosition::Always];
    let mut take = tx.conn.prepare_cached(TAKE_POSITION)?;
    let position: Option<i64> = take.query_row(params, |row| row.get(0)).optional()?;
    Ok(Task { due_at: position.map_or(task.due_at, Timestamp::from_micros), ..*task })
}
