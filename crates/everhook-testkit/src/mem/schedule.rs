//! Schedules: what is due is decided, started and moved on at one instant.

use everhook_core::id::{EnvironmentId, Id, JobId, ScheduleId};
use everhook_core::name::Name;
use everhook_core::schedule::fire::{LastRun, ScheduleState, decide_fire};
use everhook_core::time::Timestamp;
use everhook_store::catalog::{Created, Order, Replaced, Slice};
use everhook_store::dedup::DedupKey;
use everhook_store::error::StoreError;
use everhook_store::ids::Ids;
use everhook_store::job::Enqueued;
use everhook_store::lease::Appended;
use everhook_store::made::{Made, WithMade};
use everhook_store::piece::Piece;
use everhook_store::schedule::{Begun, FiredAll, Run, RunKind, ScheduleRecord, runs_of, schedule_bytes};

use crate::mem::append::{append_one, holder, keep_key};
use crate::mem::tables::{ScheduleRow, Tables, TaskPlace};
use crate::mem::{MemStore, job};

/// Where a schedule stands that was just created or changed.
fn begin(schedule: &ScheduleRecord, now: Timestamp) -> ScheduleState {
    if schedule.paused { ScheduleState::paused() } else { ScheduleState::begin(&schedule.schedule, now) }
}

/// Starts what is due of one schedule, and counts that in `fired`.
fn fire(
    tables: &mut Tables,
    ids: &Ids,
    now: Timestamp,
    environment: EnvironmentId,
    row: ScheduleRow,
    fired: &mut FiredAll,
) {
    let ScheduleRow { mut record, mut last_job } = row;
    let firing = decide_fire(&record.schedule, &record.state, now, last_run(tables, environment, last_job));
    for (nominal, kind) in runs_of(&firing) {
        let mut object = None;
        if kind == RunKind::Fired {
            let job;
            (object, job) = start(tables, ids, now, environment, &record, &mut fired.made);
            last_job = job.or(last_job);
        }
        let run = Run { nominal, at: now, kind, object };
        tables.runs.insert((environment, record.schedule.id, ids.next(now)), run);
    }
    record.state = firing.state;
    tables.schedules.insert((environment, record.name.clone()), ScheduleRow { record, last_job });
    fired.started += firing.fires.len();
}

/// Whether the job that the schedule started last still waits or runs.
fn last_run(tables: &Tables, environment: EnvironmentId, last_job: Option<JobId>) -> LastRun {
    let is_open = |job: JobId| {
        let of = |row: &&crate::mem::TaskRow| {
            (row.task.key.environment, row.task.key.subject) == (environment, job.0) && row.place != TaskPlace::Dead
        };
        tables.tasks.values().any(|row| of(&row))
    };
    if last_job.is_some_and(is_open) { LastRun::Open } else { LastRun::Ended }
}

/// Starts what the schedule is to start: what that is, and the job if it is one. Nothing where its application is gone.
fn start(
    tables: &mut Tables,
    ids: &Ids,
    now: Timestamp,
    environment: EnvironmentId,
    record: &ScheduleRecord,
    made: &mut Made,
) -> (Option<Id>, Option<JobId>) {
    let id = ids.next(now);
    match record.starts.begin(environment, record.schedule.id, id) {
        Begun::Job(new) => {
            let enqueued = job::enqueue(tables, ids, now, &new);
            *made += Made::jobs(std::slice::from_ref(&enqueued));
            let started = match enqueued {
                Enqueued::Accepted { .. } => Some(JobId(id)),
                // Its unique key is another's, which stands for it.
                Enqueued::Existing(other) => Some(other),
                Enqueued::KeyReused | Enqueued::NoBatch | Enqueued::BatchSealed => None,
            };
            (started.map(|job| job.0), started)
        }
        Begun::Message(message) => {
            let answer = append_one(tables, ids, now, None, *message);
            *made += Made::messages(std::slice::from_ref(&answer));
            (matches!(answer, Appended::Accepted { .. }).then_some(id), None)
        }
    }
}

impl MemStore {
    pub(super) fn create_schedule(
        &self,
        environment: EnvironmentId,
        schedule: &ScheduleRecord,
        key: Option<&DedupKey>,
    ) -> Result<Created<ScheduleRecord>, StoreError> {
        let (mut tables, now) = self.lock();
        let id = schedule.schedule.id;
        let known = tables.schedules.get(&(environment, schedule.name.clone())).map(|row| row.record.clone());
        if let Some((key, holder)) = key.and_then(|key| Some((key, holder(&tables, environment, key, now)?))) {
            // One that was deleted since is as good as another request.
            let same = known.filter(|known| known.schedule.id.0 == holder.object && key.body == holder.body);
            return Ok(same.map_or(Created::KeyReused, Created::Repeated));
        }
        if let Some(known) = known {
            return Ok(Created::Taken(known));
        }
        if let Some(key) = key {
            keep_key(&mut tables, environment, key, id.0, now);
        }
        let state = begin(schedule, now);
        let record = ScheduleRecord { state, created_at: now, updated_at: now, revision: 1, ..schedule.clone() };
        let row = ScheduleRow { record: record.clone(), last_job: None };
        tables.schedules.insert((environment, record.name.clone()), row);
        Ok(Created::New(record))
    }

    pub(super) fn find_schedule(
        &self,
        environment: EnvironmentId,
        name: &Name,
    ) -> Result<Option<ScheduleRecord>, StoreError> {
        Ok(self.lock().0.schedules.get(&(environment, name.clone())).map(|row| row.record.clone()))
    }

    pub(super) fn list_schedules(
        &self,
        environment: EnvironmentId,
        slice: &Slice<Name>,
    ) -> Result<Piece<ScheduleRecord, Name>, StoreError> {
        let (tables, _) = self.lock();
        let of = tables.schedules.iter().filter(|(key, _)| key.0 == environment);
        let mut records: Vec<_> = of.map(|(_, row)| row.record.clone()).collect();
        if slice.order == Order::Descending {
            records.reverse();
        }
        records.retain(|record| match (&slice.after, slice.order) {
            (None, _) => true,
            (Some(after), Order::Ascending) => record.name > *after,
            (Some(after), Order::Descending) => record.name < *after,
        });
        Piece::gather(records.into_iter().map(Ok), slice.limit, schedule_bytes, |record| record.name.clone(), None)
    }

    pub(super) fn replace_schedule(
        &self,
        environment: EnvironmentId,
        schedule: &ScheduleRecord,
    ) -> Result<Replaced<ScheduleRecord>, StoreError> {
        let (mut tables, now) = self.lock();
        let known = tables.schedules.get_mut(&(environment, schedule.name.clone()));
        let Some(row) = known.filter(|row| row.record.revision == schedule.revision) else {
            return Ok(Replaced::Stale);
        };
        let (state, created_at, revision) = (begin(schedule, now), row.record.created_at, schedule.revision + 1);
        row.record = ScheduleRecord { state, created_at, updated_at: now, revision, ..schedule.clone() };
        Ok(Replaced::Done(row.record.clone()))
    }

    pub(super) fn delete_schedule(&self, environment: EnvironmentId, name: &Name) -> Result<bool, StoreError> {
        let (mut tables, _) = self.lock();
        let Some(row) = tables.schedules.remove(&(environment, name.clone())) else { return Ok(false) };
        let id = row.record.schedule.id;
        tables.runs.retain(|(env, schedule, _), _| (*env, *schedule) != (environment, id));
        Ok(true)
    }

    pub(super) fn fire_due_now(&self, limit: usize) -> Result<FiredAll, StoreError> {
        let (mut tables, now) = self.lock();
        let due = tables.schedules.iter().filter(|(_, row)| row.record.state.look_at <= now);
        let mut due: Vec<_> = due.map(|(key, row)| (row.record.state.look_at, key.clone())).collect();
        due.sort();
        due.truncate(limit);
        let mut fired = FiredAll::default();
        for (_, key) in due {
            if let Some(row) = tables.schedules.get(&key).cloned() {
                fire(&mut tables, &self.ids, now, key.0, row, &mut fired);
            }
        }
        let next_look = tables.schedules.values().map(|row| row.record.state.look_at).min();
        let next_look = next_look.filter(|at| *at < Timestamp::NEVER).map(|at| at.since(now));
        Ok(FiredAll { next_look, ..fired })
    }

    pub(super) fn run_schedule_now(
        &self,
        environment: EnvironmentId,
        name: &Name,
    ) -> Result<WithMade<Option<Run>>, StoreError> {
        let (mut tables, now) = self.lock();
        let known = tables.schedules.get(&(environment, name.clone())).map(|row| row.record.clone());
        let Some(record) = known else { return Ok(WithMade::default()) };
        let mut made = Made::default();
        let (object, _) = start(&mut tables, &self.ids, now, environment, &record, &mut made);
        let run = Run { nominal: now, at: now, kind: RunKind::Manual, object };
        tables.runs.insert((environment, record.schedule.id, self.ids.next(now)), run);
        Ok(made.with(Some(run)))
    }

    pub(super) fn list_runs(
        &self,
        environment: EnvironmentId,
        id: ScheduleId,
        limit: usize,
    ) -> Result<Vec<Run>, StoreError> {
        let (tables, _) = self.lock();
        let of = tables.runs.iter().rev().filter(|((env, schedule, _), _)| (*env, *schedule) == (environment, id));
        Ok(of.take(limit).map(|(_, run)| *run).collect())
    }
}
