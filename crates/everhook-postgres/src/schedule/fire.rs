//! Starting what schedules are to start.
//!
//! Every node looks. Due rows are locked, and those that another node has are skipped: whoever has a row decides by it, starts what the decision
//! says and moves the row on, all in one tx. So nothing is started twice, and nobody has to be the leader.

use std::collections::HashSet;
use std::ops::Range;
use std::time::Duration;

use everhook_core::id::{EnvironmentId, Id, ScheduleId};
use everhook_core::name::Name;
use everhook_core::schedule::fire::{Firing, LastRun, ScheduleState, decide_fire};
use everhook_core::time::Timestamp;
use everhook_store::job::{Enqueued, NewJob};
use everhook_store::lease::{Appended, NewMessage};
use everhook_store::made::{Made, WithMade};
use everhook_store::schedule::{Begun, FiredAll, Run, RunKind, ScheduleRecord, Starts, runs_of};
use everhook_store::sql::rows::ScheduleRow;
use everhook_store::{columns, statement};
use tracing::warn;

use super::read;
use crate::columns::{Subject, Subjects};
use crate::error::Fault;
use crate::store::PostgresStore;
use crate::tx::{Now, Tx};

columns! {
    /// Where schedules go on; the last job only if there is a new one.
    MovedSchedules of MovedSchedule<'a> {
        environment: EnvironmentId,
        name: &'a str,
        next: Option<Timestamp>,
        queued: Option<Timestamp>,
        look_at: Timestamp,
        last_job: Option<Id>,
    }

    /// Runs for the history.
    NewRuns of NewRun {
        environment: EnvironmentId,
        schedule: ScheduleId,
        id: Id,
        nominal: Timestamp,
        kind: RunKind,
        object: Option<Id>,
    }
}

statement! {
    NextSchedule = "next_schedule" { now: Timestamp, limit: usize } -> Vec<ScheduleRow>;
    LockSchedule<'a> = "lock_schedule" { environment: EnvironmentId, name: &'a str } -> Option<ScheduleRow>;
    FindTaskOpen = "find_task_open" { wanted: Subjects } -> Vec<(EnvironmentId, Id)>;
    MoveSchedule<'a> = "move_schedule" { moved: MovedSchedules<'a> };
    AppendScheduleRun = "append_schedule_run" { fresh: NewRuns, at: Timestamp };
    NextLook = (
        "next_look",
        "select look_at from everhook.schedule where look_at < 9223372036854775807 order by look_at limit 1"
    ) {} -> Option<Timestamp>;
}

/// When a schedule is looked at again that this binary cannot read.
const UNREADABLE_AGAIN: Duration = Duration::from_secs(3600);
/// When to look again for a schedule that another node looks at just now.
const HELD_BY_ANOTHER: Duration = Duration::from_millis(50);

/// A schedule that was looked at.
struct Looked {
    environment: EnvironmentId,
    id: ScheduleId,
    name: Name,
    state: ScheduleState,
    last_job: Option<Id>,
    runs: Vec<Run>,
}

impl PostgresStore {
    pub(crate) async fn fire_due_once(&self, limit: usize) -> Result<FiredAll, Fault> {
        let tx = self.database.tx().await?;
        let now = tx.begin(Now {}).await?.ok_or(Fault::Contended("the clock gave no answer"))?;
        let due = tx.run(NextSchedule { now, limit }).await?;
        let is_all = due.len() < limit;
        let open = open_runs(&tx, &due).await?;
        let (mut looked, mut decided) = (Vec::with_capacity(due.len()), Vec::with_capacity(due.len()));
        for row in due {
            let record = match read(&row) {
                Ok(record) => record,
                Err(fault) => {
                    warn!(schedule.name = %row.name, "schedule {} cannot be read and is put off: {fault}", row.name);
                    looked.push(put_off(row, now));
                    continue;
                }
            };
            let is_open = row.last_job.is_some_and(|job| open.contains(&(row.environment, job)));
            let last_run = if is_open { LastRun::Open } else { LastRun::Ended };
            let firing = decide_fire(&record.schedule, &record.state, now, last_run);
            decided.push((row.environment, record, firing));
        }
        let starts = |(environment, record, firing): &(EnvironmentId, ScheduleRecord, Firing)| {
            let begin = |_| record.starts.begin(*environment, record.schedule.id, self.ids.next(now));
            firing.fires.iter().map(begin).collect()
        };
        let starts: Vec<Vec<Begun>> = decided.iter().map(starts).collect();
        let started = starts.iter().map(Vec::len).sum();
        let WithMade { answer: became, made } = self.start(&tx, starts, now).await?;
        let looks = decided.into_iter().zip(became);
        looked.extend(
            looks.map(|((environment, record, firing), objects)| look(environment, &record, firing, objects, now)),
        );
        keep(self, &tx, &looked, now).await?;
        let next_look = tx.finish(NextLook {}).await?;
        let next_look = next_look.map(|at| match at.since(now) {
            wait if wait.is_zero() && is_all => HELD_BY_ANOTHER,
            wait => wait,
        });
        Ok(FiredAll { started, made, next_look })
    }

    pub(crate) async fn run_schedule_once(
        &self,
        environment: EnvironmentId,
        name: &Name,
    ) -> Result<WithMade<Option<Run>>, Fault> {
        let tx = self.database.tx().await?;
        tx.begin(()).await?;
        let Some(row) = tx.run(LockSchedule { environment, name: name.as_str() }).await? else {
            tx.roll_back().await?;
            return Ok(WithMade::default());
        };
        let record = read(&row)?;
        let now = tx.now().await?;
        let begun = record.starts.begin(environment, record.schedule.id, self.ids.next(now));
        let WithMade { answer: became, made } = self.start(&tx, vec![vec![begun]], now).await?;
        let object = became.concat().pop().flatten();
        let run = Run { nominal: now, at: now, kind: RunKind::Manual, object };
        write_runs(self, &tx, &[(environment, row.id, run)], now).await?;
        tx.commit().await?;
        Ok(made.with(Some(run)))
    }

    /// Starts what each of several schedules is to start; answers what each became. All jobs at once, and all messages: so keys and lanes are
    /// locked in the one order in which everyone locks them.
    async fn start(
        &self,
        tx: &Tx<'_>,
        starts: Vec<Vec<Begun>>,
        now: Timestamp,
    ) -> Result<WithMade<Vec<Vec<Option<Id>>>>, Fault> {
        let (mut jobs, mut messages): (Vec<NewJob>, Vec<NewMessage>) = (Vec::new(), Vec::new());
        let mut places = Vec::with_capacity(starts.len());
        for begun in starts {
            let (job, message) = (jobs.len(), messages.len());
            for begun in begun {
                match begun {
                    Begun::Job(job) => jobs.push(*job),
                    Begun::Message(message) => messages.push(*message),
                }
            }
            places.push((job..jobs.len(), message..messages.len()));
        }
        let WithMade { answer: jobs, mut made } = self.start_jobs(tx, &jobs, now).await?;
        let messages = self.start_messages(tx, messages).await?;
        made += messages.made;
        let objects = |(of_jobs, of_messages): (Range<usize>, Range<usize>)| {
            [&jobs[of_jobs], &messages.answer[of_messages]].concat()
        };
        Ok(made.with(places.into_iter().map(objects).collect()))
    }

    async fn start_jobs(
        &self,
        tx: &Tx<'_>,
        jobs: &[NewJob],
        now: Timestamp,
    ) -> Result<WithMade<Vec<Option<Id>>>, Fault> {
        if jobs.is_empty() {
            return Ok(WithMade::default());
        }
        let answers = self.enqueue_within(&tx.part(), jobs, now).await?;
        let made = Made::jobs(&answers);
        let object = |(answer, new): (Enqueued, &NewJob)| match answer {
            Enqueued::Accepted { .. } => Some(new.job.id.0),
            Enqueued::Existing(job) => Some(job.0),
            Enqueued::KeyReused | Enqueued::NoBatch | Enqueued::BatchSealed => None,
        };
        Ok(made.with(answers.into_iter().zip(jobs).map(object).collect()))
    }

    async fn start_messages(&self, tx: &Tx<'_>, messages: Vec<NewMessage>) -> Result<WithMade<Vec<Option<Id>>>, Fault> {
        if messages.is_empty() {
            return Ok(WithMade::default());
        }
        let ids: Vec<Id> = messages.iter().map(|new| new.message.id.0).collect();
        let answers = self.append_within(tx, messages).await?;
        let made = Made::messages(&answers);
        let object = |(answer, id): (Appended, Id)| matches!(answer, Appended::Accepted { .. }).then_some(id);
        Ok(made.with(answers.into_iter().zip(ids).map(object).collect()))
    }
}

/// What a look at a schedule came to, after what it decided was started.
fn look(
    environment: EnvironmentId,
    record: &ScheduleRecord,
    firing: Firing,
    objects: Vec<Option<Id>>,
    now: Timestamp,
) -> Looked {
    let is_job = matches!(record.starts, Starts::Job(_));
    let last_job = objects.iter().rev().flatten().next().copied().filter(|_| is_job);
    let mut objects = objects.into_iter();
    let run = |(nominal, kind): (Timestamp, RunKind)| {
        let object = if kind == RunKind::Fired { objects.next().flatten() } else { None };
        Run { nominal, at: now, kind, object }
    };
    let runs = runs_of(&firing).into_iter().map(run).collect();
    Looked { environment, id: record.schedule.id, name: record.name.clone(), state: firing.state, last_job, runs }
}

/// The last jobs of schedules that wait or run.
async fn open_runs(tx: &Tx<'_>, due: &[ScheduleRow]) -> Result<HashSet<(EnvironmentId, Id)>, Fault> {
    let last = |row: &ScheduleRow| Some(Subject { environment: row.environment, subject: row.last_job? });
    let wanted: Subjects = due.iter().filter_map(last).collect();
    let open = tx.run(wanted.nonempty().map(|wanted| FindTaskOpen { wanted })).await?;
    Ok(open.into_iter().collect())
}

/// Leaves a schedule as it is, but for when it is looked at.
fn put_off(row: ScheduleRow, now: Timestamp) -> Looked {
    let state = ScheduleState { next: row.next, queued: row.queued, look_at: now.plus(UNREADABLE_AGAIN) };
    let (environment, id, name) = (row.environment, row.id, row.name);
    Looked { environment, id, name, state, last_job: None, runs: Vec::new() }
}

/// Moves schedules on, and writes their history.
async fn keep(store: &PostgresStore, tx: &Tx<'_>, looked: &[Looked], now: Timestamp) -> Result<(), Fault> {
    let mut moved = MovedSchedules::default();
    for Looked { environment, name, state, last_job, .. } in looked {
        let ScheduleState { next, queued, look_at } = *state;
        let (environment, last_job) = (*environment, *last_job);
        moved.push(MovedSchedule { environment, name: name.as_str(), next, queued, look_at, last_job });
    }
    tx.run(moved.nonempty().map(|moved| MoveSchedule { moved })).await?;
    let runs = |looked: &Looked| -> Vec<(EnvironmentId, ScheduleId, Run)> {
        looked.runs.iter().map(|run| (looked.environment, looked.id, *run)).collect()
    };
    let runs: Vec<(EnvironmentId, ScheduleId, Run)> = looked.iter().flat_map(runs).collect();
    write_runs(store, tx, &runs, now).await
}

async fn write_runs(
    store: &PostgresStore,
    tx: &Tx<'_>,
    runs: &[(EnvironmentId, ScheduleId, Run)],
    now: Timestamp,
) -> Result<(), Fault> {
    let new_run = |(environment, schedule, run): &(EnvironmentId, ScheduleId, Run)| NewRun {
        environment: *environment,
        schedule: *schedule,
        id: store.ids.next(now),
        nominal: run.nominal,
        kind: run.kind,
        object: run.object,
    };
    let fresh: NewRuns = runs.iter().map(new_run).collect();
    tx.run(fresh.nonempty().map(|fresh| AppendScheduleRun { fresh, at: now })).await.map(drop)
}
