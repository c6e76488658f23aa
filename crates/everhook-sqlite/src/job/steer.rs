//! Commands of operators, and progress reports of workers.

use everhook_core::id::{AttemptId, EndpointId, EnvironmentId, Id, JobId, SessionId};
use everhook_core::job::report::Progress;
use everhook_core::job::{JobAction, LeaseLost, LeaseProof, OperatorCommand, check_lease_proof};
use everhook_core::lifecycle::EndState;
use everhook_core::outcome::Class;
use everhook_core::task::{Task, TaskKey, TaskKind};
use everhook_core::time::Timestamp;
use everhook_store::batch::steered;
use everhook_store::job::{JobRecord, due_at};
use everhook_store::made::{Made, WithMade};
use everhook_store::statement;
use rusqlite::params;

use crate::append::{Waits, lower_lane_due};
use crate::batch;
use crate::error::Fault;
use crate::job::query::find_bare;
use crate::sql::run;
use crate::writer::Tx;

const APPEND_ATTEMPT: &str = include_str!("../../queries/append_attempt.sql");

statement! {
    PutJobProgress<'a> = "put_job_progress" {
        environment: EnvironmentId, job: JobId, progress: i16, text: &'a str, now: Timestamp,
    };
    FlagTask = (
        "flag_task",
        "update task set cancel = 1 where environment = :environment and subject = :subject and id = :id"
    ) { key: TaskKey };
    CancelPendingJob = "cancel_pending_job" { key: TaskKey };
    RescheduleJobTask = "reschedule_job_task" { key: TaskKey, due_at: Timestamp, is_fresh: bool };
    DeleteJob = "delete_job" { environment: EnvironmentId, id: JobId };
    pub(crate) DeleteJobAttempt = "delete_job_attempt" { environment: EnvironmentId, job: JobId };
    pub(crate) DeleteJobOutput = "delete_job_output" { environment: EnvironmentId, job: JobId };
}

/// Applies an operator's command to each job in turn; none if the job does not exist.
pub(crate) fn change(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    ids: &[JobId],
    command: OperatorCommand,
) -> Result<WithMade<Vec<Option<JobAction>>>, Fault> {
    let mut made = Made::default();
    let steer = |id: &JobId| steer(tx, environment, *id, command, &mut made);
    let plans = ids.iter().map(steer).collect::<Result<_, Fault>>()?;
    Ok(made.with(plans))
}

fn steer(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    id: JobId,
    command: OperatorCommand,
    made: &mut Made,
) -> Result<Option<JobAction>, Fault> {
    let Some(record) = find_bare(tx.conn, environment, id)? else { return Ok(None) };
    let plan = record.state.on(command);
    let told = record.job.batch.zip(steered(record.state, plan));
    let tell = || told.map_or(Ok(Made::default()), |(batch, change)| batch::tell(tx, environment, batch, change));
    // A retry opens the new phase first. A cancelled job is counted afterwards, so that it is not listed as failed.
    if plan == JobAction::Redrive {
        *made += tell()?;
        carry_out(tx, environment, &record, plan)?;
    } else {
        carry_out(tx, environment, &record, plan)?;
        *made += tell()?;
    }
    Ok(Some(plan))
}

/// Applies an action to a job, but not to its batch.
pub(crate) fn carry_out(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    record: &JobRecord,
    plan: JobAction,
) -> Result<(), Fault> {
    let task = record.open.as_ref().map(|open| &open.task);
    match (plan, task) {
        (JobAction::Nothing | JobAction::Refuse, _) => Ok(()),
        (JobAction::Delete, task) => {
            task.map_or(Ok(0), |task| run(tx.conn, CancelPendingJob { key: task.key }))?;
            erase(tx, environment, record.job.id)
        }
        (JobAction::Cancel, Some(task)) => {
            run(tx.conn, CancelPendingJob { key: task.key })?;
            log_cancelled(tx, task, CancelNote::default())
        }
        (JobAction::RequestCancel, Some(task)) => request_cancel(tx, &task.key),
        (JobAction::RunNow, Some(task)) => wait(tx, task, tx.now, Tries::Kept),
        (JobAction::Reschedule(run_at), Some(task)) => wait(tx, task, due_at(run_at, tx.now), Tries::Kept),
        (JobAction::Redrive, Some(task)) => wait(tx, task, tx.now, Tries::Fresh),
        // A job without a task has ended, and there is nothing to change.
        (
            JobAction::Cancel
            | JobAction::RequestCancel
            | JobAction::RunNow
            | JobAction::Reschedule(_)
            | JobAction::Redrive,
            None,
        ) => Ok(()),
    }
}

/// Stores the progress of a job, if the caller still holds it.
pub(crate) fn report_progress(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    id: JobId,
    by: LeaseProof,
    progress: &Progress,
) -> Result<Result<(), LeaseLost>, Fault> {
    let record = find_bare(tx.conn, environment, id)?;
    let checked = check_lease_proof(record.as_ref().and_then(JobRecord::lease), by);
    if checked.is_ok() {
        put_progress(tx, environment, id, progress)?;
    }
    Ok(checked)
}

/// Stores the progress of a job whose holder was checked.
pub(crate) fn put_progress(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    id: JobId,
    progress: &Progress,
) -> Result<(), Fault> {
    let (progress, text) = (progress.percent().into(), progress.text());
    run(tx.conn, PutJobProgress { environment, job: id, progress, text, now: tx.now }).map(drop)
}

/// Deletes a job with its attempts and output.
pub(crate) fn erase(tx: &Tx<'_>, environment: EnvironmentId, id: JobId) -> Result<(), Fault> {
    run(tx.conn, DeleteJobAttempt { environment, job: id })?;
    run(tx.conn, DeleteJobOutput { environment, job: id })?;
    run(tx.conn, DeleteJob { environment, id }).map(drop)
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
    run(tx.conn, RescheduleJobTask { key: task.key, due_at, is_fresh: tries == Tries::Fresh })?;
    lower_lane_due(tx, task.key.environment, task.lane, due_at.as_micros(), Waits::No)
}

/// The parts of a logged cancellation that depend on the kind of the task.
#[derive(Clone, Copy, Default)]
pub(crate) struct CancelNote<'a> {
    /// The endpoint of a delivery.
    pub(crate) endpoint: Option<EndpointId>,
    pub(crate) text: &'a str,
}

/// Logs the cancellation of a task, under the epoch after the last one. The session of a job is empty, and a delivery has
/// none.
pub(crate) fn log_cancelled(tx: &Tx<'_>, task: &Task, note: CancelNote<'_>) -> Result<(), Fault> {
    let session = (task.kind == TaskKind::Job).then_some(SessionId(Id::MIN));
    tx.conn.prepare_cached(APPEND_ATTEMPT)?.execute(params![
        task.kind.to_db(),
        task.key.environment.0,
        task.key.subject.as_bytes(),
        task.key.id.as_bytes(),
        task.epoch + 1,
        AttemptId(tx.ids.next(tx.now)).as_bytes(),
        session.as_ref().map(SessionId::as_bytes),
        note.endpoint.as_ref().map(EndpointId::as_bytes),
        Class::Cancelled.to_db(),
        EndState::Cancelled.to_db(),
        task.trigger.to_db(),
        "",
        0,
        note.text.as_bytes(),
        tx.now.as_micros(),
        0,
        None::<&str>,
    ])?;
    Ok(())
}
