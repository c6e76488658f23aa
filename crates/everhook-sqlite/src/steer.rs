//! Changes of open tasks by operators, for deliveries and jobs alike. Called on the writer's thread.

use std::time::Duration;

use everhook_core::id::{AttemptId, Id, SessionId};
use everhook_core::lifecycle::EndState;
use everhook_core::outcome::Class;
use everhook_core::task::{Task, TaskKey, TaskKind};
use everhook_core::time::Timestamp;
use everhook_store::statement;

use crate::append::{Waits, lower_lane_due};
use crate::error::Fault;
use crate::settle::AppendAttempt;
use crate::sql::run;
use crate::writer::Tx;

statement! {
    FlagTask = (
        "flag_task",
        "update task set cancel = 1 where environment = :environment and subject = :subject and id = :id"
    ) { key: TaskKey };
    pub(crate) CancelTask = "cancel_task" { key: TaskKey };
    RescheduleTask = "reschedule_task" { key: TaskKey, due_at: Timestamp, is_fresh: bool };
}

/// Asks the holder of a task to stop.
pub(crate) fn request_cancel(tx: &Tx<'_>, key: &TaskKey) -> Result<(), Fault> {
    run(tx.conn, FlagTask { key: *key }).map(drop)
}

/// Whether a rescheduled task keeps its tries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tries {
    Kept,
    Fresh,
}

/// Reschedules a task, and lowers the due time of its lane.
pub(crate) fn wait(tx: &Tx<'_>, task: &Task, due_at: Timestamp, tries: Tries) -> Result<(), Fault> {
    run(tx.conn, RescheduleTask { key: task.key, due_at, is_fresh: tries == Tries::Fresh })?;
    lower_lane_due(tx, task.key.environment, task.lane, due_at, Waits::No)
}

/// Ends a task that no session holds.
pub(crate) fn cancel(tx: &Tx<'_>, task: &Task, note: &str) -> Result<(), Fault> {
    run(tx.conn, CancelTask { key: task.key })?;
    log_cancelled(tx, task, note)
}

/// Logs the cancellation of a task, under the epoch after the last one. The session of a job is empty, and a delivery
/// has none.
fn log_cancelled(tx: &Tx<'_>, task: &Task, note: &str) -> Result<(), Fault> {
    let (session, endpoint) = match task.kind {
        TaskKind::Job => (Some(SessionId(Id::MIN)), None),
        TaskKind::Delivery => (None, Some(task.lane)),
    };
    let TaskKey { environment, subject, id: task_id } = task.key;
    let append = AppendAttempt {
        kind: task.kind,
        environment,
        subject,
        task: task_id,
        epoch: task.epoch + 1,
        id: AttemptId(tx.ids.next(tx.now)),
        session,
        endpoint,
        class: Class::Cancelled,
        end_state: EndState::Cancelled,
        trigger: task.trigger,
        url: "",
        status: 0,
        reply: note.as_bytes(),
        started_at: tx.now,
        duration_us: Duration::ZERO,
        exchange: None,
    };
    run(tx.conn, append).map(drop)
}
