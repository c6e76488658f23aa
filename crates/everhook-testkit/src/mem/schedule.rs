//! Schedules: due runs are decided and started at one instant. They are not recorded.

use everhook_core::id::{EnvironmentId, Id, JobId};
use everhook_core::name::Name;
use everhook_core::resource::ResourceKind;
use everhook_core::schedule::fire::{LastRun, decide_fire};
use everhook_core::time::Timestamp;
use everhook_store::ids::Ids;
use everhook_store::job::Enqueued;
use everhook_store::lease::Appended;
use everhook_store::made::{Made, WithMade};
use everhook_store::resource::{Resource, ResourcePlace};
use everhook_store::schedule::{Begun, FiredAll, Run, RunKind, ScheduleRecord};

use crate::mem::append::append_one;
use crate::mem::tables::{Tables, TaskPlace};
use crate::mem::{MemStore, job, resource};

/// Starts the due runs of one schedule and counts them in `fired`.
fn fire(
    tables: &mut Tables,
    ids: &Ids,
    now: Timestamp,
    environment: EnvironmentId,
    mut record: ScheduleRecord,
    fired: &mut FiredAll,
) {
    let key = (environment, record.schedule.id);
    let (last_job, messages) = (tables.last_jobs.get(&key).copied(), fired.made.messages);
    let firing = decide_fire(&record.schedule, &record.state, now, last_run(tables, environment, last_job));
    for _ in &firing.fires {
        let (_, job) = start(tables, ids, now, environment, &record, &mut fired.made);
        tables.last_jobs.extend(job.map(|job| (key, job)));
    }
    fired.messages.extend(std::iter::repeat_n(environment, fired.made.messages - messages));
    fired.lateness.extend(firing.fires.first().map(|_| now.since(record.state.look_at)));
    record.state = firing.state;
    resource::keep(tables, environment, record.into());
    fired.started += firing.fires.len();
}

/// Returns whether the last job of the schedule is still pending or running.
fn last_run(tables: &Tables, environment: EnvironmentId, last_job: Option<JobId>) -> LastRun {
    let is_open = |job: JobId| {
        let of = |row: &&crate::mem::TaskRow| {
            (row.task.key.environment, row.task.key.subject) == (environment, job.0) && row.place != TaskPlace::Dead
        };
        tables.tasks.values().any(|row| of(&row))
    };
    if last_job.is_some_and(is_open) { LastRun::Open } else { LastRun::Ended }
}

/// Starts the job or message of a schedule. Returns its id, and the job if it is one; none if the application was
/// deleted.
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
                // Another job has the unique key and counts as this run.
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

fn schedules(tables: &Tables) -> impl Iterator<Item = (EnvironmentId, &ScheduleRecord)> {
    tables.resources.iter().filter_map(|((environment, _, _), entry)| match &entry.resource {
        Resource::Schedule(record) => Some((*environment, record)),
        _ => None,
    })
}

impl MemStore {
    pub(super) fn fire_due_now(&self, limit: usize) -> FiredAll {
        let (mut tables, now) = self.lock();
        let mut due: Vec<_> = schedules(&tables).filter(|(_, record)| record.state.look_at <= now).collect();
        due.sort_by_key(|(environment, record)| (record.state.look_at, *environment, record.name.clone()));
        due.truncate(limit);
        let due: Vec<_> = due.into_iter().map(|(environment, record)| (environment, record.clone())).collect();
        let mut fired = FiredAll::default();
        for (environment, record) in due {
            fire(&mut tables, &self.ids, now, environment, record, &mut fired);
        }
        let next_look = schedules(&tables).map(|(_, record)| record.state.look_at).min();
        let next_look = next_look.filter(|at| *at < Timestamp::NEVER).map(|at| at.since(now));
        FiredAll { next_look, ..fired }
    }

    pub(super) fn run_schedule_now(&self, environment: EnvironmentId, name: &Name) -> WithMade<Option<Run>> {
        let (mut tables, now) = self.lock();
        let place = ResourcePlace::named(ResourceKind::Schedule, name);
        let Some(record) = resource::find::<ScheduleRecord>(&tables, environment, &place) else {
            return WithMade::default();
        };
        let mut made = Made::default();
        let (object, _) = start(&mut tables, &self.ids, now, environment, &record, &mut made);
        made.with(Some(Run { nominal: now, at: now, kind: RunKind::Manual, object }))
    }
}
