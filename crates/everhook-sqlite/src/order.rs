//! Positions in ordered lanes, and the order by a key. Called on the writer's thread, by all code that adds a delivery
//! to a lane that may be ordered, or ends a delivery with a key.

use everhook_core::id::{EnvironmentId, LaneId};
use everhook_core::policy::order::{KeyPlace, OrderKey};
use everhook_core::task::{Task, TaskKey, TaskKind, Trigger};
use everhook_core::time::Timestamp;
use everhook_store::append::TakesPosition;
use everhook_store::sql::shared::DELIVERY_AHEAD;
use everhook_store::statement;

use crate::append::{Waits, lower_lane_due};
use crate::error::Fault;
use crate::sql::run;
use crate::writer::Tx;

statement! {
    TakePosition = "take_position" { environment: EnvironmentId, lane: LaneId, now: Timestamp, is_always: bool }
        -> Option<Timestamp>;
    AppendTaskOrdered = "append_task_ordered" {
        key: TaskKey, lane: LaneId, kind: TaskKind, trigger: Trigger, priority: i16, position: Timestamp,
        order_key: Option<OrderKey>, blocks: Option<bool>,
    };
    PromoteTask = ["promote_task", DELIVERY_AHEAD] {
        environment: EnvironmentId, lane: LaneId, key: OrderKey, now: Timestamp,
    };
}

/// Writes a new delivery at the end of its ordered lane. The caller lowers the due time of the lane.
pub(crate) fn append(tx: &Tx<'_>, task: &Task, place: Option<KeyPlace>) -> Result<(), Fault> {
    let Task { key, lane, kind, trigger, priority, due_at: position, .. } = placed(tx, task, TakesPosition::Always)?;
    let (order_key, blocks) = (place.map(|place| place.key), place.map(|place| place.blocks));
    run(tx.conn, AppendTaskOrdered { key, lane, kind, trigger, priority, position, order_key, blocks })?;
    promote(tx, task)
}

/// Makes the next delivery with the key of a task due.
pub(crate) fn promote(tx: &Tx<'_>, task: &Task) -> Result<(), Fault> {
    task.order_key.map_or(Ok(()), |key| promote_key(tx, task.key.environment, task.lane, key))
}

/// Makes the next delivery with a key due.
pub(crate) fn promote_key(tx: &Tx<'_>, environment: EnvironmentId, lane: LaneId, key: OrderKey) -> Result<(), Fault> {
    if run(tx.conn, PromoteTask { environment, lane, key, now: tx.now })? > 0 {
        lower_lane_due(tx, environment, lane, tx.now, Waits::No)?;
    }
    Ok(())
}

/// Returns a new delivery at the end of its lane.
pub(crate) fn placed(tx: &Tx<'_>, task: &Task, takes: TakesPosition) -> Result<Task, Fault> {
    let (environment, is_always) = (task.key.environment, takes == TakesPosition::Always);
    let position = run(tx.conn, TakePosition { environment, lane: task.lane, now: tx.now, is_always })?;
    Ok(Task { due_at: position.unwrap_or(task.due_at), ..*task })
}
