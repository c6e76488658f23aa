//! Enqueues, ends, finds and changes jobs.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use everhook_core::batch::{BadChange, BatchChange};
use everhook_core::exchange::StoredExchange;
use everhook_core::id::{ApplicationId, AttemptId, EndpointId, EnvironmentId, Id, JobId, SessionId, TaskId};
use everhook_core::job::{Job, JobAction, LeaseLost, OperatorCommand, check_lease_proof};
use everhook_core::lifecycle::EndState;
use everhook_core::outcome::Class;
use everhook_core::scope::Scope;
use everhook_core::task::{Task, TaskKey, TaskKind, Trigger};
use everhook_core::time::Timestamp;
use everhook_store::catalog::Slice;
use everhook_store::ids::Ids;
use everhook_store::job::{
    Enqueued, JobAttempt, JobRecord, NewJob, OpenTask, ProgressReport, due_at, judge, keys_of, new_task, state_of,
};
use everhook_store::lease::{NewAttempt, Settlement};
use everhook_store::made::{Made, WithMade};

use crate::mem::append::{holder, keep_key};
use crate::mem::resource::cut;
use crate::mem::tables::{AttemptRow, JobRow, LaneRow, LaneState, Tables, TaskPlace, TaskRow};
use crate::mem::{MemStore, batch};

pub(super) fn enqueue(tables: &mut Tables, ids: &Ids, now: Timestamp, new: &NewJob) -> Enqueued {
    let environment = new.environment;
    let keys = keys_of(new);
    let taken: Vec<_> = keys.iter().filter_map(|key| Some((key, holder(tables, environment, key, now)?))).collect();
    if let Some(told) = judge(&taken) {
        return told;
    }
    if let Some(id) = new.job.batch {
        if !tables.batches.contains_key(&(environment, id)) {
            return Enqueued::NoBatch;
        }
        match batch::tell(tables, ids, now, (environment, id), BatchChange::Added(1)) {
            Err(BadChange::Sealed) => return Enqueued::BatchSealed,
            // A batch only announces ends of jobs, so adding a job creates no announcement.
            told => drop(told.expect("one more is not too many")),
        }
    }
    for key in &keys {
        keep_key(tables, environment, key, new.job.id.0, now);
    }
    let due_at = due_at(new.run_at, now);
    let task = new_task(environment, &new.job, TaskId(ids.next(now)), due_at);
    let row = JobRow { job: Arc::new(new.job.clone()), created_at: now, progress: None, result: None };
    tables.jobs.insert((environment, new.job.id), row);
    tables.tasks.insert(task.key, TaskRow::new(task, TaskPlace::Pending));
    let lane = (environment, task.lane);
    tables.queue_lanes.insert(lane, new.job.queue.clone());
    let fresh = LaneRow::new(ApplicationId(Id::MIN), LaneState::Open);
    tables.lanes.entry(lane).or_insert(fresh).touch(due_at);
    Enqueued::Accepted { created_at: now, due_at }
}

/// Stores the result of a settlement.
pub(super) fn keep_result(tables: &mut Tables, settlement: &Settlement) {
    let id = (settlement.key.environment, JobId(settlement.key.subject));
    if let (Some(result), Some(row)) = (&settlement.result, tables.jobs.get_mut(&id)) {
        row.result = Some(result.clone());
    }
}

/// Returns a job as the API shows it.
pub(super) fn record(tables: &Tables, environment: EnvironmentId, id: JobId) -> Option<JobRecord> {
    let row = tables.jobs.get(&(environment, id))?;
    let open = task_of(tables, environment, id).map(|row| OpenTask {
        task: row.task,
        state: row.state(),
        holder: row.holder(),
    });
    let last = attempts(tables, environment, id).into_iter().next();
    Some(JobRecord {
        job: Job::clone(&row.job),
        created_at: row.created_at,
        state: state_of(open.map(|open| open.state), last.as_ref().map(|last| last.end)),
        open,
        progress: row.progress.clone(),
        result: row.result.clone(),
        last,
    })
}

fn task_of(tables: &Tables, environment: EnvironmentId, id: JobId) -> Option<&TaskRow> {
    tables.tasks.values().find(|row| row.task.key.environment == environment && row.task.key.subject == id.0)
}

/// Returns the attempts of a job, newest first.
fn attempts(tables: &Tables, environment: EnvironmentId, id: JobId) -> Vec<JobAttempt> {
    let of_job = |((key, _), _): &(&(TaskKey, u32), &AttemptRow)| key.environment == environment && key.subject == id.0;
    let shown = |((key, epoch), row): (&(TaskKey, u32), &AttemptRow)| {
        let NewAttempt { id, class, end, status, reply, started_at, duration, exchange, .. } = row.attempt.clone();
        let (task, epoch, session) = (key.id, *epoch, row.session);
        let (note, exchange) = (reply, exchange.as_ref().map(StoredExchange::read));
        JobAttempt { id, task, epoch, session, class, end, status, note, started_at, duration, exchange }
    };
    let mut attempts: Vec<_> = tables.attempts.iter().filter(of_job).map(shown).collect();
    attempts.reverse();
    attempts
}

/// Applies a planned action to a job, without its batch.
pub(super) fn carry_out(
    tables: &mut Tables,
    ids: &Ids,
    now: Timestamp,
    environment: EnvironmentId,
    id: JobId,
    plan: JobAction,
) {
    let Some(row) = task_of(tables, environment, id).copied() else {
        if plan == JobAction::Delete {
            erase(tables, environment, id);
        }
        return;
    };
    let mut task = row.task;
    match plan {
        JobAction::Cancel => {
            tables.tasks.remove(&task.key);
            let attempt = cancelled(ids, now);
            let row = AttemptRow { endpoint: EndpointId(task.lane.0), session: SessionId(Id::MIN), attempt };
            tables.attempts.insert((task.key, task.epoch + 1), row);
        }
        JobAction::Delete => {
            tables.tasks.remove(&task.key);
            erase(tables, environment, id);
        }
        JobAction::RequestCancel => put(tables, TaskRow { task: Task { cancel: true, ..task }, ..row }),
        JobAction::RunNow => task.due_at = now,
        JobAction::Reschedule(run_at) => task.due_at = due_at(run_at, now),
        JobAction::Redrive => task = Task { due_at: now, tries: 0, crashes: 0, cancel: false, ..task },
        JobAction::Nothing | JobAction::Refuse => {}
    }
    if matches!(plan, JobAction::RunNow | JobAction::Reschedule(_) | JobAction::Redrive) {
        put(tables, TaskRow::new(task, TaskPlace::Pending));
        if let Some(lane) = tables.lane(environment, task.lane) {
            lane.touch(task.due_at);
        }
    }
}

fn put(tables: &mut Tables, row: TaskRow) {
    tables.tasks.insert(row.task.key, row);
}

fn erase(tables: &mut Tables, environment: EnvironmentId, id: JobId) {
    tables.jobs.remove(&(environment, id));
    tables.attempts.retain(|(key, _), _| key.environment != environment || key.subject != id.0);
}

fn cancelled(ids: &Ids, now: Timestamp) -> NewAttempt {
    NewAttempt {
        id: AttemptId(ids.next(now)),
        holder: None,
        class: Class::Cancelled,
        end: EndState::Cancelled,
        trigger: Trigger::Scheduled,
        url: String::new(),
        status: 0,
        reply: Bytes::new(),
        started_at: now,
        duration: Duration::ZERO,
        exchange: None,
    }
}

impl MemStore {
    pub(super) fn find_job(&self, scope: Scope, id: JobId) -> Option<JobRecord> {
        record(&self.lock().0, scope.environment, id)
    }

    pub(super) fn list_jobs(&self, environment: EnvironmentId, slice: &Slice<JobId>) -> Vec<JobRecord> {
        let (tables, _) = self.lock();
        let ids = tables.jobs.keys().filter(|(env, _)| *env == environment).map(|(_, id)| *id);
        let mut records: Vec<_> = ids.filter_map(|id| record(&tables, environment, id)).collect();
        for record in &mut records {
            record.job.payload = None;
        }
        cut(records, |record: &JobRecord| record.job.id, slice)
    }

    pub(super) fn list_job_attempts(&self, scope: Scope, id: JobId, limit: usize) -> Vec<JobAttempt> {
        attempts(&self.lock().0, scope.environment, id).into_iter().take(limit).collect()
    }

    pub(super) fn change_jobs(
        &self,
        environment: EnvironmentId,
        ids: &[JobId],
        command: OperatorCommand,
    ) -> WithMade<Vec<Option<JobAction>>> {
        let (mut tables, now) = self.lock();
        let mut made = Made::default();
        let steer = |id: &JobId| batch::steer(&mut tables, &self.ids, now, environment, *id, command, &mut made);
        let plans = ids.iter().map(steer).collect();
        made.with(plans)
    }

    pub(super) fn report_progress_now(
        &self,
        environment: EnvironmentId,
        ProgressReport { job, by, progress }: ProgressReport,
    ) -> Result<(), LeaseLost> {
        let (mut tables, _) = self.lock();
        let checked = check_lease_proof(record(&tables, environment, job).and_then(|record| record.lease()), by);
        if let (Ok(()), Some(row)) = (checked, tables.jobs.get_mut(&(environment, job))) {
            row.progress = Some(progress);
        }
        checked
    }

    pub(super) fn list_held(&self, session: SessionId) -> Vec<Task> {
        let (tables, _) = self.lock();
        let held = |row: &&TaskRow| row.place == TaskPlace::Leased(session) && row.task.kind == TaskKind::Job;
        tables.tasks.values().filter(held).map(|row| row.task).collect()
    }
}
