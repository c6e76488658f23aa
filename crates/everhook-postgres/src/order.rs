//! Positions in ordered lanes. Called wherever a delivery is added to a lane that may be ordered.
//!
//! Two statements, run one after the other in the transaction of the append: the first locks the lanes and moves their
//! last positions, the second writes the tasks with a snapshot that sees them.

use std::collections::BTreeMap;

use everhook_core::id::{EnvironmentId, Id, LaneId, TaskId};
use everhook_core::task::{Task, TaskKind, Trigger};
use everhook_core::time::Timestamp;
use everhook_store::append::TakesPosition;
use everhook_store::{columns, statement};

columns! {
    /// Lanes with the number of positions to take. Only ordered ones take them always.
    TakenPositions of TakenPosition { environment: EnvironmentId, id: LaneId, taken: usize, is_ordered: bool }

    /// New deliveries with the number of positions after their own.
    OrderedTasks of OrderedTask {
        environment: EnvironmentId, subject: Id, id: TaskId, lane: LaneId, kind: TaskKind, trigger: Trigger, priority: i16,
        due_at: Timestamp, back: usize,
    }
}

statement! {
    pub(crate) TakePosition = "take_position" { wanted: TakenPositions };
    pub(crate) AppendTaskOrdered = "append_task_ordered" { fresh: OrderedTasks };
}

/// Adds deliveries at the end of their lanes, in this order.
pub(crate) fn append_ordered(
    tasks: &[Task],
    takes: TakesPosition,
) -> (Option<TakePosition>, Option<AppendTaskOrdered>) {
    let mut taken: BTreeMap<(EnvironmentId, LaneId), usize> = BTreeMap::new();
    let mut fresh: Vec<OrderedTask> = tasks.iter().rev().map(|task| ordered(task, &mut taken)).collect();
    fresh.reverse();
    let position = |((environment, id), taken)| {
        let is_ordered = takes == TakesPosition::Always;
        TakenPosition { environment, id, taken, is_ordered }
    };
    let wanted: TakenPositions = taken.into_iter().map(position).collect();
    let fresh: OrderedTasks = fresh.into_iter().collect();
    (wanted.nonempty().map(|wanted| TakePosition { wanted }), fresh.nonempty().map(|fresh| AppendTaskOrdered { fresh }))
}

fn ordered(task: &Task, taken: &mut BTreeMap<(EnvironmentId, LaneId), usize>) -> OrderedTask {
    let after = taken.entry((task.key.environment, task.lane)).or_default();
    let back = *after;
    *after += 1;
    OrderedTask {
        environment: task.key.environment,
        subject: task.key.subject,
        id: task.key.id,
        lane: task.lane,
        kind: task.kind,
        trigger: task.trigger,
        priority: task.priority,
        due_at: task.due_at,
        back,
    }
}
