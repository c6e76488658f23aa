//! Changes of open tasks by operators, for deliveries and jobs alike. The callers have locked the tasks.

use everhook_core::id::{AttemptId, EnvironmentId, Id, TaskId};
use everhook_core::lifecycle::EndState;
use everhook_core::outcome::Class;
use everhook_core::task::{Task, TaskKey};
use everhook_core::time::Timestamp;
use everhook_store::{columns, statement};

use crate::columns::TaskKeys;
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
