//! Starts the runs of due schedules, in the transaction that writes their next times.

use std::time::Duration;

use everhook_core::id::{EnvironmentId, Id, JobId, ScheduleId};
use everhook_core::name::Name;
use everhook_core::schedule::fire::{LastRun, ScheduleState, decide_fire};
use everhook_core::time::Timestamp;
use everhook_store::job::Enqueued;
use everhook_store::lease::{Append, Appended};
use everhook_store::made::{Made, WithMade};
use everhook_store::schedule::{Begun, FiredAll, Run, RunKind, ScheduleRecord, runs_of};
use everhook_store::sql::rows::{FiringRow, ResourceRow};
use everhook_store::sql::shared::NextLook;
use everhook_store::statement;

use crate::append;
use crate::error::Fault;
use crate::job::enqueue::enqueue;
use crate::resource;
use crate::sql::run as run_statement;
use crate::writer::Tx;

statement! {
    NextSchedule = "next_schedule" { now: Timestamp, limit: usize } -> Vec<(ResourceRow, FiringRow)>;
    MoveSchedule = "move_schedule" {
        environment: EnvironmentId, id: ScheduleId, next: Option<Timestamp>, queued: Option<Timestamp>,
        look_at: Timestamp, last_job: Option<JobId>,
    };
    FindTaskOpen = "find_task_open" { environment: EnvironmentId, job: JobId } -> Option<JobId>;
    AppendScheduleRun = "append_schedule_run" {
        environment: EnvironmentId, schedule: ScheduleId, id: Id, nominal: Timestamp, at: Timestamp, kind: RunKind,
        object: Option<Id>,
    };
}

/// The pause for a schedule that this binary cannot read.
const UNREADABLE_RECHECK: Duration = Duration::from_secs(3600);

/// Starts the runs of at most `schedules` due schedules.
pub(crate) fn fire_due(tx: &Tx<'_>, schedules: usize) -> Result<FiredAll, Fault> {
    let due = run_statement(tx.conn, NextSchedule { now: tx.now, limit: schedules })?;
    let mut fired = FiredAll::default();
    for (row, state) in &due {
        let (environment, id) = (row.environment, ScheduleId(row.id));
        match resource::readable(row, Some(state)) {
            Some(record) => fire(tx, environment, &record, state.last_job.map(JobId), &mut fired)?,
            // A later version may have written it, and another node may be able to read it.
            None => {
                let state = ScheduleState { look_at: tx.now.plus(UNREADABLE_RECHECK), ..state.state() };
                keep(tx, environment, id, &state, None)?;
            }
        }
    }
    let next_look = run_statement(tx.conn, NextLook {})?;
    Ok(FiredAll { next_look: next_look.map(|at| at.since(tx.now)), ..fired })
}

/// Starts a schedule now; its own times stay. Returns none if the schedule does not exist.
pub(crate) fn run(tx: &Tx<'_>, environment: EnvironmentId, name: &Name) -> Result<WithMade<Option<Run>>, Fault> {
    let Some(record) = resource::find_schedule(tx.conn, environment, name)? else { return Ok(WithMade::default()) };
    let mut made = Made::default();
    let (object, _) = start(tx, environment, &record, &mut made)?;
    let run = Run { nominal: tx.now, at: tx.now, kind: RunKind::Manual, object };
    log(tx, environment, record.schedule.id, &run)?;
    Ok(made.with(Some(run)))
}

/// Starts the due runs of one schedule, and adds them to `fired`.
fn fire(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    record: &ScheduleRecord,
    last_job: Option<JobId>,
    fired: &mut FiredAll,
) -> Result<(), Fault> {
    let (id, last_run) = (record.schedule.id, last_run(tx, environment, last_job)?);
    let firing = decide_fire(&record.schedule, &record.state, tx.now, last_run);
    let (mut last_job, messages) = (None, fired.made.messages);
    for (nominal, kind) in runs_of(&firing) {
        let mut object = None;
        if kind == RunKind::Fired {
            let job;
            (object, job) = start(tx, environment, record, &mut fired.made)?;
            last_job = job.or(last_job);
        }
        log(tx, environment, id, &Run { nominal, at: tx.now, kind, object })?;
    }
    keep(tx, environment, id, &firing.state, last_job)?;
    fired.started += firing.fires.len();
    fired.messages.extend(std::iter::repeat_n(environment, fired.made.messages - messages));
    fired.lateness.extend(firing.fires.first().map(|_| tx.now.since(record.state.look_at)));
    Ok(())
}

/// Whether the last job that the schedule started is still pending or leased.
fn last_run(tx: &Tx<'_>, environment: EnvironmentId, last_job: Option<JobId>) -> Result<LastRun, Fault> {
    let Some(job) = last_job else { return Ok(LastRun::Ended) };
    let open = run_statement(tx.conn, FindTaskOpen { environment, job })?;
    Ok(if open.is_some() { LastRun::Open } else { LastRun::Ended })
}

/// Starts one run; returns its object, and the job if it is one. Returns none if the application is gone.
fn start(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    record: &ScheduleRecord,
    made: &mut Made,
) -> Result<(Option<Id>, Option<JobId>), Fault> {
    let id = tx.ids.next(tx.now);
    match record.starts.begin(environment, record.schedule.id, id) {
        Begun::Job(job) => {
            let answers = enqueue(tx, std::slice::from_ref(&job))?;
            *made += Made::jobs(&answers);
            let started = match answers.first() {
                Some(Enqueued::Accepted { .. }) => Some(JobId(id)),
                // Another job has its unique key, and stands for it.
                Some(Enqueued::Existing(other)) => Some(*other),
                _ => None,
            };
            Ok((started.map(|job| job.0), started))
        }
        Begun::Message(message) => {
            let answers = append::append(tx, Append { fast: None, messages: vec![*message] })?;
            *made += Made::messages(&answers);
            let is_sent = matches!(answers.first(), Some(Appended::Accepted { .. }));
            Ok((is_sent.then_some(id), None))
        }
    }
}

fn log(tx: &Tx<'_>, environment: EnvironmentId, schedule: ScheduleId, run: &Run) -> Result<(), Fault> {
    let (id, Run { nominal, at, kind, object }) = (tx.ids.next(tx.now), *run);
    run_statement(tx.conn, AppendScheduleRun { environment, schedule, id, nominal, at, kind, object }).map(drop)
}

fn keep(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    id: ScheduleId,
    state: &ScheduleState,
    last_job: Option<JobId>,
) -> Result<(), Fault> {
    let ScheduleState { next, queued, look_at } = *state;
    run_statement(tx.conn, MoveSchedule { environment, id, next, queued, look_at, last_job }).map(drop)
}
