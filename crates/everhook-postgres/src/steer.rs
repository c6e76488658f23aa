//! Changes of open tasks by operators, for deliveries and jobs alike. The callers have locked the tasks.

use std::collections::BTreeMap;

use everhook_core::id::{AttemptId, EnvironmentId, Id, LaneId, TaskId};
use everhook_core::lifecycle::EndState;
use everhook_core::outcome::Class;
use everhook_core::task::{Task, TaskKey};
use everhook_core::time::Timestamp;
use everhook_store::{columns, statement};

use crate::columns::{DueLanes, TaskKeys};
use crate::store::PostgresStore;

columns! {
    /// Tasks to delete, each with the id of the attempt that logs it.
    pub(crate) EndedTasks of EndedTask { environment: EnvironmentId, subject: Id, id: TaskId, attempt: AttemptId }

    /// Tasks with a new due time, some with fresh tries.
    pub(crate) MovedTasks of MovedTask { environment: EnvironmentId, subject: Id, id: TaskId, due_at: Timestamp, fresh: bool }
}

statement! {
    pub(crate) FlagTask = (
        "flag_task",
        "update everhook.task set cancel = true \
        from unnest(:flagged) \
        where task.environment = any (array[flagged.environment]) and task.subject = flagged.subject \
        and task.id = flagged.id"
    ) { flagged: TaskKeys };
    pub(crate) CancelTask<'a> = "cancel_task" {
        ended: EndedTasks, session: Id, class: Class, end_state: EndState, note: &'a [u8], started_at: Timestamp,
    };
    pub(crate) RescheduleTask = "reschedule_task" { moved: MovedTasks };
}

/// Changes of tasks, by kind.
#[derive(Default)]
pub(crate) struct TaskChanges {
    /// Tasks whose holders are asked to stop.
    pub(crate) flagged: Vec<Task>,
    /// Tasks that end, which no session holds.
    pub(crate) ended: Vec<Task>,
    pub(crate) moved: BTreeMap<TaskKey, Moved>,
}

/// The new due time of a task.
pub(crate) struct Moved {
    pub(crate) due_at: Timestamp,
    /// Whether the task gets fresh tries.
    pub(crate) fresh: bool,
    pub(crate) lane: LaneId,
    /// The time from which its lane is due.
    pub(crate) lane_due_at: Timestamp,
}

/// The statements that write changes. The due times of the lanes are lowered after the tasks have changed.
pub(crate) type ChangeStatements<'a> = (Option<FlagTask>, Option<CancelTask<'a>>, Option<RescheduleTask>, DueLanes);

impl TaskChanges {
    pub(crate) fn is_empty(&self) -> bool {
        self.flagged.is_empty() && self.ended.is_empty() && self.moved.is_empty()
    }

    /// Returns the statements; `note` is logged with each task that ends.
    pub(crate) fn statements<'a>(&self, store: &PostgresStore, note: &'a [u8], now: Timestamp) -> ChangeStatements<'a> {
        let flagged = TaskKeys::of(self.flagged.iter().map(|task| &task.key));
        let moved = |(key, moved): (&TaskKey, &Moved)| {
            let TaskKey { environment, subject, id } = *key;
            MovedTask { environment, subject, id, due_at: moved.due_at, fresh: moved.fresh }
        };
        let due = |(key, moved): (&TaskKey, &Moved)| ((key.environment, moved.lane), moved.lane_due_at);
        let moved_tasks: MovedTasks = self.moved.iter().map(moved).collect();
        (
            flagged.nonempty().map(|flagged| FlagTask { flagged }),
            store.cancel_tasks(self.ended.iter(), note, now),
            moved_tasks.nonempty().map(|moved| RescheduleTask { moved }),
            DueLanes::earliest(self.moved.iter().map(due)),
        )
    }
}

impl PostgresStore {
    /// Ends tasks that no session holds. The session of a job is empty.
    pub(crate) fn cancel_tasks<'t, 'a>(
        &self,
        tasks: impl Iterator<Item = &'t Task>,
        note: &'a [u8],
        now: Timestamp,
    ) -> Option<CancelTask<'a>> {
        let ended = |task: &Task| {
            let TaskKey { environment, subject, id } = task.key;
            EndedTask { environment, subject, id, attempt: AttemptId(self.ids.next(now)) }
        };
        let ended: EndedTasks = tasks.map(ended).collect();
        let (class, end_state) = (Class::Cancelled, EndState::Cancelled);
        let cancel = |ended| CancelTask { ended, session: Id::MIN, class, end_state, note, started_at: now };
        ended.nonempty().map(cancel)
    }
}
