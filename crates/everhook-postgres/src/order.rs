//! Positions in ordered lanes, and the order by a key. Called by all code that adds deliveries to a lane that may be
//! ordered, or ends deliveries with a key.
//!
//! The statements of an append run one after the other: the first locks the lanes and moves their last positions, the
//! second writes the tasks with a snapshot that sees them, and the third makes the first task of each key due.

use crate::columns::TaskRow;
use std::collections::{BTreeMap, BTreeSet};

use everhook_core::id::{EnvironmentId, Id, LaneId, TaskId};
use everhook_core::policy::order::{KeyPlace, OrderKey};
use everhook_core::task::{Task, TaskKind, Trigger};
use everhook_core::time::Timestamp;
use everhook_store::append::TakesPosition;
use everhook_store::sql::shared::DELIVERY_AHEAD;
use everhook_store::{columns, statement};

columns! {
    /// Lanes with the number of positions to take. Ordered lanes always take them, other lanes only if their last
    /// position is ahead of the clock.
    TakenPositions of TakenPosition { environment: EnvironmentId, id: LaneId, taken: usize, is_ordered: bool }

    /// New deliveries with the number of positions after their own.
    OrderedTasks of OrderedTask {
        environment: EnvironmentId, subject: Id, id: TaskId, lane: LaneId, kind: TaskKind, trigger: Trigger, priority: i16,
        due_at: Timestamp, back: usize, order_key: Option<OrderKey>, order_blocks: Option<bool>,
    }

    LaneKeys of LaneKey { environment: EnvironmentId, lane: LaneId, order_key: OrderKey }
}

statement! {
    pub(crate) TakePosition = ["take_position", "locked_lane"] { wanted: TakenPositions };
    pub(crate) AppendTaskOrdered = "append_task_ordered" { fresh: OrderedTasks };
    pub(crate) PromoteTask = ["promote_task", DELIVERY_AHEAD] { wanted: LaneKeys };
}

/// The statements that add deliveries to ordered lanes.
pub(crate) type AppendOrdered = (Option<TakePosition>, Option<AppendTaskOrdered>, Option<PromoteTask>);

/// Adds deliveries at the end of their lanes, in this order.
pub(crate) fn append_ordered(tasks: &[(Task, Option<KeyPlace>)], takes: TakesPosition) -> AppendOrdered {
    let mut taken: BTreeMap<(EnvironmentId, LaneId), usize> = BTreeMap::new();
    let mut fresh = Vec::with_capacity(tasks.len());
    // The statement that writes the tasks knows only the last position of each lane. A task's own position is computed
    // back from it, so each task needs the number of tasks after it.
    for (task, place) in tasks.iter().rev() {
        let after = taken.entry((task.key.environment, task.lane)).or_default();
        fresh.push(OrderedTask::new(task, *place, *after));
        *after += 1;
    }
    let position = |((environment, id), taken)| {
        let is_ordered = takes == TakesPosition::Always;
        TakenPosition { environment, id, taken, is_ordered }
    };
    let wanted: TakenPositions = taken.into_iter().map(position).collect();
    let fresh: OrderedTasks = fresh.into_iter().collect();
    let keys = tasks.iter().filter_map(|(task, _)| key_of(task));
    (
        wanted.nonempty().map(|wanted| TakePosition { wanted }),
        fresh.nonempty().map(|fresh| AppendTaskOrdered { fresh }),
        promote(keys),
    )
}

/// Makes the next deliveries with these keys due. An earlier statement must have locked their lanes.
pub(crate) fn promote(keys: impl Iterator<Item = (EnvironmentId, LaneId, OrderKey)>) -> Option<PromoteTask> {
    let keys: BTreeSet<_> = keys.collect();
    let row = |(environment, lane, order_key)| LaneKey { environment, lane, order_key };
    let wanted: LaneKeys = keys.into_iter().map(row).collect();
    wanted.nonempty().map(|wanted| PromoteTask { wanted })
}

/// Returns the lane and key of a delivery that is ordered by a key.
pub(crate) fn key_of(task: &Task) -> Option<(EnvironmentId, LaneId, OrderKey)> {
    Some((task.key.environment, task.lane, task.order_key?))
}

impl OrderedTask {
    fn new(task: &Task, place: Option<KeyPlace>, back: usize) -> OrderedTask {
        let TaskRow { environment, subject, id, lane, kind, trigger, priority, due_at, .. } = TaskRow::new(task, None);
        let (order_key, order_blocks) = place.map(|place| (place.key, place.blocks)).unzip();
        OrderedTask { environment, subject, id, lane, kind, trigger, priority, due_at, back, order_key, order_blocks }
    }
}
