//! Starts the runs of due schedules.
//!
//! Every node polls. Due rows are locked, and rows that another node has locked are skipped. The node with the lock
//! decides, starts the runs and updates the row in one transaction. So no run starts twice, and no leader is needed.

use std::collections::{HashMap, HashSet};
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
use everhook_store::sql::rows::{FiringRow, ResourceRow};
use everhook_store::sql::shared::NextLook;
use everhook_store::{columns, statement};
use tracing::warn;

use crate::columns::{Keys, Subject, Subjects};
use crate::error::Fault;
use crate::resource;
use crate::store::PostgresStore;
use crate::tx::Tx;

columns! {
    /// New states of schedules; the last job is set only if there is a new one.
    MovedSchedules of MovedSchedule {
        environment: EnvironmentId,
        id: ScheduleId,
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
    NextSchedule = "next_schedule" { now: Timestamp, limit: usize } -> Vec<DueSchedule>;
    ListScheduleDue = ["list_schedule_due", "resource_by_id"] { wanted: Keys } -> Vec<ResourceRow>;
    LockSchedule = "lock_schedule" { environment: EnvironmentId, id: ScheduleId } -> Option<FiringRow>;
    FindTaskOpen = "find_task_open" { wanted: Subjects } -> Vec<(EnvironmentId, Id)>;
    MoveSchedule = "move_schedule" { moved: MovedSchedules };
    AppendScheduleRun = "append_schedule_run" { fresh: NewRuns, at: Timestamp };
}

/// The pause for a schedule that this binary cannot read.
const UNREADABLE_PAUSE: Duration = Duration::from_secs(3600);
/// The time until the next look at a schedule that another node has locked.
const HELD_BY_ANOTHER: Duration = Duration::from_millis(50);

/// A due schedule, and its state.
type DueSchedule = (EnvironmentId, ScheduleId, FiringRow);

/// A schedule after the decision.
struct FiredSchedule {
    environment: EnvironmentId,
    id: ScheduleId,
    state: ScheduleState,
    last_job: Option<Id>,
    runs: Vec<Run>,
}

impl PostgresStore {
    pub(crate) async fn fire_due_once(&self, limit: usize) -> Result<FiredAll, Fault> {
        let tx = self.database.tx().await?;
        let now = tx.begin_now().await?;
        let due = tx.run(NextSchedule { now, limit }).await?;
        let is_all = due.len() < limit;
        let (mut rows, open) = (rows_of(&tx, &due).await?, open_runs(&tx, &due).await?);
        let (mut fired, mut decided) = (Vec::with_capacity(due.len()), Vec::with_capacity(due.len()));
        for (environment, id, state) in due {
            let row = rows.remove(&(environment, id)).ok_or(Fault::Corrupt { table: "schedule", column: "id" });
            let record: ScheduleRecord = match row.and_then(|row| resource::record(&row, Some(&state))) {
                Ok(record) => record,
                Err(fault) => {
                    warn!(schedule.id = %id, "schedule {id} cannot be read and is skipped for an hour: {fault}");
                    fired.push(put_off(environment, id, &state, now));
                    continue;
                }
            };
            let is_open = state.last_job.is_some_and(|job| open.contains(&(environment, job)));
            let last_run = if is_open { LastRun::Open } else { LastRun::Ended };
            let firing = decide_fire(&record.schedule, &record.state, now, last_run);
            decided.push((environment, record, firing));
        }
        let starts = |(environment, record, firing): &(EnvironmentId, ScheduleRecord, Firing)| {
            let begin = |_| record.starts.begin(*environment, record.schedule.id, self.ids.next(now));
            firing.fires.iter().map(begin).collect()
        };
        let starts: Vec<Vec<Begun>> = decided.iter().map(starts).collect();
        let started = starts.iter().map(Vec::len).sum();
        let WithMade { answer: became, made } = self.start(&tx, starts, now).await?;
        let (mut messages, mut lateness) = (Vec::new(), Vec::new());
        for ((environment, record, firing), objects) in decided.iter().zip(&became) {
            let is_message = matches!(record.starts, Starts::Message { .. });
            messages.extend(objects.iter().flatten().filter(|_| is_message).map(|_| *environment));
            lateness.extend(firing.fires.first().map(|_| now.since(record.state.look_at)));
        }
        let looks = decided.into_iter().zip(became);
        fired.extend(
            looks.map(|((environment, record, firing), objects)| look(environment, &record, firing, objects, now)),
        );
        keep(self, &tx, &fired, now).await?;
        let next_look = tx.finish(NextLook {}).await?;
        let next_look = next_look.map(|at| match at.since(now) {
            wait if wait.is_zero() && is_all => HELD_BY_ANOTHER,
            wait => wait,
        });
        Ok(FiredAll { started, made, messages, lateness, next_look })
    }

    pub(crate) async fn run_schedule_once(
        &self,
        environment: EnvironmentId,
        name: &Name,
    ) -> Result<WithMade<Option<Run>>, Fault> {
        let tx = self.database.tx().await?;
        tx.begin(()).await?;
        let record = resource::find_schedule(&tx, environment, name).await?;
        let id = record.as_ref().map(|record| record.schedule.id);
        // The lock makes a concurrent deletion wait, so that it also deletes the run that is written here.
        let locked = tx.run(id.map(|id| LockSchedule { environment, id })).await?;
        let Some((record, _)) = record.zip(locked) else {
            tx.roll_back().await?;
            return Ok(WithMade::default());
        };
        let now = tx.now().await?;
        let begun = record.starts.begin(environment, record.schedule.id, self.ids.next(now));
        let WithMade { answer: became, made } = self.start(&tx, vec![vec![begun]], now).await?;
        let object = became.concat().pop().flatten();
        let run = Run { nominal: now, at: now, kind: RunKind::Manual, object };
        write_runs(self, &tx, &[(environment, record.schedule.id, run)], now).await?;
        tx.commit().await?;
        Ok(made.with(Some(run)))
    }

    /// Starts the runs of several schedules; returns the job or message of each run. All jobs and all messages are
    /// written at once, so that keys and lanes are locked in the same order as elsewhere.
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

/// Returns the new state and the runs of a schedule, after its jobs or messages were started.
fn look(
    environment: EnvironmentId,
    record: &ScheduleRecord,
    firing: Firing,
    objects: Vec<Option<Id>>,
    now: Timestamp,
) -> FiredSchedule {
    let is_job = matches!(record.starts, Starts::Job(_));
    let last_job = objects.iter().rev().flatten().next().copied().filter(|_| is_job);
    let mut objects = objects.into_iter();
    let run = |(nominal, kind): (Timestamp, RunKind)| {
        let object = if kind == RunKind::Fired { objects.next().flatten() } else { None };
        Run { nominal, at: now, kind, object }
    };
    let runs = runs_of(&firing).into_iter().map(run).collect();
    FiredSchedule { environment, id: record.schedule.id, state: firing.state, last_job, runs }
}

/// Finds the last jobs of schedules that are still pending or leased.
async fn open_runs(tx: &Tx<'_>, due: &[DueSchedule]) -> Result<HashSet<(EnvironmentId, Id)>, Fault> {
    let last =
        |(environment, _, state): &DueSchedule| Some(Subject { environment: *environment, subject: state.last_job? });
    let wanted: Subjects = due.iter().filter_map(last).collect();
    let open = tx.run(wanted.nonempty().map(|wanted| FindTaskOpen { wanted })).await?;
    Ok(open.into_iter().collect())
}

/// Reads the resources of locked schedules.
async fn rows_of(tx: &Tx<'_>, due: &[DueSchedule]) -> Result<HashMap<(EnvironmentId, ScheduleId), ResourceRow>, Fault> {
    let wanted = Keys::of(due.iter().map(|(environment, id, _)| (*environment, id.0)));
    let rows = tx.run(wanted.nonempty().map(|wanted| ListScheduleDue { wanted })).await?;
    Ok(rows.into_iter().map(|row| ((row.environment, ScheduleId(row.id)), row)).collect())
}

/// Changes only the time of the next look.
fn put_off(environment: EnvironmentId, id: ScheduleId, state: &FiringRow, now: Timestamp) -> FiredSchedule {
    let state = ScheduleState { look_at: now.plus(UNREADABLE_PAUSE), ..state.state() };
    FiredSchedule { environment, id, state, last_job: None, runs: Vec::new() }
}

/// Writes the new states of schedules, and their history.
async fn keep(store: &PostgresStore, tx: &Tx<'_>, fired: &[FiredSchedule], now: Timestamp) -> Result<(), Fault> {
    let mut moved = MovedSchedules::default();
    for FiredSchedule { environment, id, state, last_job, .. } in fired {
        let ScheduleState { next, queued, look_at } = *state;
        let (environment, id, last_job) = (*environment, *id, *last_job);
        moved.push(MovedSchedule { environment, id, next, queued, look_at, last_job });
    }
    tx.run(moved.nonempty().map(|moved| MoveSchedule { moved })).await?;
    let runs = |fired: &FiredSchedule| -> Vec<(EnvironmentId, ScheduleId, Run)> {
        fired.runs.iter().map(|run| (fired.environment, fired.id, *run)).collect()
    };
    let runs: Vec<(EnvironmentId, ScheduleId, Run)> = fired.iter().flat_map(runs).collect();
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
