//! Commands of operators, and progress reports of workers.

use everhook_core::id::{EnvironmentId, JobId};
use everhook_core::job::report::Progress;
use everhook_core::job::{JobAction, LeaseLost, OperatorCommand, check_lease_proof};
use everhook_core::time::Timestamp;
use everhook_store::batch::steered;
use everhook_store::job::{JobRecord, ProgressReport, due_at};
use everhook_store::made::{Made, WithMade};
use everhook_store::statement;

use crate::batch;
use crate::error::Fault;
use crate::job::query::find_bare;
use crate::sql::run;
use crate::steer::{CancelTask, Tries, cancel, request_cancel, wait};
use crate::writer::Tx;

statement! {
    PutJobProgress<'a> = "put_job_progress" {
        environment: EnvironmentId, job: JobId, progress: i16, text: &'a str, now: Timestamp,
    };
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
            task.map_or(Ok(0), |task| run(tx.conn, CancelTask { key: task.key }))?;
            erase(tx, environment, record.job.id)
        }
        (JobAction::Cancel, Some(task)) => cancel(tx, task, ""),
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
    ProgressReport { job, by, progress }: &ProgressReport,
) -> Result<Result<(), LeaseLost>, Fault> {
    let record = find_bare(tx.conn, environment, *job)?;
    let checked = check_lease_proof(record.as_ref().and_then(JobRecord::lease), *by);
    if checked.is_ok() {
        put_progress(tx, environment, *job, progress)?;
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
