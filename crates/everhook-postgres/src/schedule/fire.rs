//! Starting what schedules are to start.
//!
//! Every node looks. Due rows are locked, and those that another node has are skipped: whoever has a row decides by it, starts what the decision
//! says and moves the row on, all in one transaction. So nothing is started twice, and nobody has to be the leader.

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
use tokio_postgres::Row;
use tracing::warn;

use super::{Head, StateColumns, head, read};
use crate::catalog::count;
use crate::error::Fault;
use crate::job::rows::now;
use crate::rows::Reader;
use crate::sql;
use crate::statement::{Ending, Params, Transaction};
use crate::store::PostgresStore;

/// When a schedule is looked at again that this binary cannot read.
const UNREADABLE_AGAIN: Duration = Duration::from_secs(3600);
/// When to look again for a schedule that another node looks at just now.
const HELD_BY_ANOTHER: Duration = Duration::from_millis(50);

/// A schedule that was looked at.
struct Looked {
    head: Head,
    state: ScheduleState,
    last_job: Option<Id>,
    runs: Vec<Run>,
}

impl PostgresStore {
    pub(crate) async fn fire_due_once(&self, limit: usize) -> Result<FiredAll, Fault> {
        let transaction = self.database.transaction().await?;
        let read_clock = transaction.prepare(&sql::NOW).await?;
        let now = now(&transaction.begin_with(transaction.query(&read_clock, &[])).await?)?;
        let due = transaction.rows(&sql::NEXT_SCHEDULE, &[&now.as_micros(), &count(limit)]).await?;
        let open = open_runs(&transaction, &due).await?;
        let (mut looked, mut decided) = (Vec::with_capacity(due.len()), Vec::with_capacity(due.len()));
        for row in &due {
            let head = head(row)?;
            let Some(record) = readable(row, &head)? else {
                looked.push(put_off(row, head, now)?);
                continue;
            };
            let is_open = head.last_job.is_some_and(|job| open.contains(&(head.environment, job)));
            let last_run = if is_open { LastRun::Open } else { LastRun::Ended };
            let firing = decide_fire(&record.schedule, &record.state, now, last_run);
            decided.push((head, record, firing));
        }
        let starts = |(head, record, firing): &(Head, ScheduleRecord, Firing)| {
            let begin = |_| record.starts.begin(head.environment, record.schedule.id, self.ids.next(now));
            firing.fires.iter().map(begin).collect()
        };
        let starts: Vec<Vec<Begun>> = decided.iter().map(starts).collect();
        let started = starts.iter().map(Vec::len).sum();
        let WithMade { answer: became, made } = self.start(&transaction, starts, now).await?;
        let looks = decided.into_iter().zip(became);
        looked.extend(looks.map(|((head, record, firing), objects)| look(head, &record, firing, objects, now)));
        keep(self, &transaction, &looked, now).await?;
        let next = transaction.rows(&sql::NEXT_LOOK, &[]).await?;
        let next_look = next.first().map(|row| Reader::new(row, "schedule").time("look_at")).transpose()?;
        transaction.commit().await?;
        let is_all = due.len() < limit;
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
        let transaction = self.database.transaction().await?;
        transaction.begin().await?;
        let found = transaction.rows(&sql::LOCK_SCHEDULE, &[&environment.0, &name.as_str()]).await?;
        let Some(row) = found.first() else {
            transaction.roll_back().await?;
            return Ok(WithMade::default());
        };
        let (head, record) = (head(row)?, read(row)?);
        let now = now(&transaction.rows(&sql::NOW, &[]).await?)?;
        let begun = record.starts.begin(environment, record.schedule.id, self.ids.next(now));
        let WithMade { answer: became, made } = self.start(&transaction, vec![vec![begun]], now).await?;
        let object = became.concat().pop().flatten();
        let run = Run { nominal: now, at: now, kind: RunKind::Manual, object };
        write_runs(self, &transaction, &[(environment, head.id, run)], now).await?;
        transaction.commit().await?;
        Ok(made.with(Some(run)))
    }

    /// Starts what each of several schedules is to start; answers what each became. All jobs at once, and all messages: so keys and lanes are
    /// locked in the one order in which everyone locks them.
    async fn start(
        &self,
        transaction: &Transaction,
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
        let WithMade { answer: jobs, mut made } = self.start_jobs(transaction, &jobs, now).await?;
        let messages = self.start_messages(transaction, messages).await?;
        made += messages.made;
        let objects = |(of_jobs, of_messages): (Range<usize>, Range<usize>)| {
            [&jobs[of_jobs], &messages.answer[of_messages]].concat()
        };
        Ok(made.with(places.into_iter().map(objects).collect()))
    }

    async fn start_jobs(
        &self,
        transaction: &Transaction,
        jobs: &[NewJob],
        now: Timestamp,
    ) -> Result<WithMade<Vec<Option<Id>>>, Fault> {
        if jobs.is_empty() {
            return Ok(WithMade::default());
        }
        let answers = self.enqueue_within(transaction, jobs, now, Ending::Open).await?;
        let made = Made::jobs(&answers);
        let object = |(answer, new): (Enqueued, &NewJob)| match answer {
            Enqueued::Accepted { .. } => Some(new.job.id.0),
            Enqueued::Existing(job) => Some(job.0),
            Enqueued::KeyReused | Enqueued::NoBatch | Enqueued::BatchSealed => None,
        };
        Ok(made.with(answers.into_iter().zip(jobs).map(object).collect()))
    }

    async fn start_messages(
        &self,
        transaction: &Transaction,
        messages: Vec<NewMessage>,
    ) -> Result<WithMade<Vec<Option<Id>>>, Fault> {
        if messages.is_empty() {
            return Ok(WithMade::default());
        }
        let ids: Vec<Id> = messages.iter().map(|new| new.message.id.0).collect();
        let answers = self.append_within(transaction, messages).await?;
        let made = Made::messages(&answers);
        let object = |(answer, id): (Appended, Id)| matches!(answer, Appended::Accepted { .. }).then_some(id);
        Ok(made.with(answers.into_iter().zip(ids).map(object).collect()))
    }
}

/// What a look at a schedule came to, after what it decided was started.
fn look(head: Head, record: &ScheduleRecord, firing: Firing, objects: Vec<Option<Id>>, now: Timestamp) -> Looked {
    let is_job = matches!(record.starts, Starts::Job(_));
    let last_job = objects.iter().rev().flatten().next().copied().filter(|_| is_job);
    let mut objects = objects.into_iter();
    let run = |(nominal, kind): (Timestamp, RunKind)| {
        let object = if kind == RunKind::Fired { objects.next().flatten() } else { None };
        Run { nominal, at: now, kind, object }
    };
    let runs = runs_of(&firing).into_iter().map(run).collect();
    Looked { head, state: firing.state, last_job, runs }
}

/// The last jobs of schedules that wait or run.
async fn open_runs(transaction: &Transaction, due: &[Row]) -> Result<HashSet<(EnvironmentId, Id)>, Fault> {
    let mut last: Vec<(i32, Id)> = Vec::new();
    for row in due {
        let Head { environment, last_job, .. } = head(row)?;
        last.extend(last_job.map(|job| (environment.0, job)));
    }
    if last.is_empty() {
        return Ok(HashSet::new());
    }
    let environments: Vec<i32> = last.iter().map(|(environment, _)| *environment).collect();
    let jobs: Vec<&[u8]> = last.iter().map(|(_, job)| job.as_bytes().as_slice()).collect();
    let open = transaction.rows(&sql::FIND_TASK_OPEN, &[&environments, &jobs]).await?;
    let read = |row: &Row| {
        let mut row = Reader::new(row, "task");
        Ok((EnvironmentId(row.get("environment")?), row.id("subject")?))
    };
    open.iter().map(read).collect()
}

fn readable(row: &Row, head: &Head) -> Result<Option<ScheduleRecord>, Fault> {
    match read(row) {
        Ok(record) => Ok(Some(record)),
        Err(fault @ Fault::Corrupt { .. }) => {
            warn!(schedule.name = %head.name, "schedule {} cannot be read and is put off: {fault}", head.name);
            Ok(None)
        }
        Err(fault) => Err(fault),
    }
}

/// Leaves a schedule as it is, but for when it is looked at.
fn put_off(row: &Row, head: Head, now: Timestamp) -> Result<Looked, Fault> {
    /// Where the columns of the state begin.
    const NEXT: usize = 6;
    let mut row = Reader::from(row, "schedule", NEXT);
    let (next, queued): (Option<i64>, Option<i64>) = (row.get("next")?, row.get("queued")?);
    let state = ScheduleState {
        next: next.map(Timestamp::from_micros),
        queued: queued.map(Timestamp::from_micros),
        look_at: now.plus(UNREADABLE_AGAIN),
    };
    Ok(Looked { head, state, last_job: None, runs: Vec::new() })
}

/// Moves schedules on, and writes their history.
async fn keep(
    store: &PostgresStore,
    transaction: &Transaction,
    looked: &[Looked],
    now: Timestamp,
) -> Result<(), Fault> {
    if looked.is_empty() {
        return Ok(());
    }
    let environments: Vec<i32> = looked.iter().map(|looked| looked.head.environment.0).collect();
    let names: Vec<&str> = looked.iter().map(|looked| looked.head.name.as_str()).collect();
    let states: Vec<StateColumns> = looked.iter().map(|looked| StateColumns::new(&looked.state)).collect();
    let next: Vec<Option<i64>> = states.iter().map(|state| state.next).collect();
    let queued: Vec<Option<i64>> = states.iter().map(|state| state.queued).collect();
    let look_at: Vec<i64> = states.iter().map(|state| state.look_at).collect();
    let last: Vec<Option<&[u8]>> =
        looked.iter().map(|looked| looked.last_job.as_ref().map(|job| job.as_bytes().as_slice())).collect();
    let params: Params<'_> = &[&environments, &names, &next, &queued, &look_at, &last];
    transaction.change(&sql::MOVE_SCHEDULE, params).await?;
    let runs: Vec<(EnvironmentId, ScheduleId, Run)> = looked
        .iter()
        .flat_map(|looked| looked.runs.iter().map(|run| (looked.head.environment, looked.head.id, *run)))
        .collect();
    write_runs(store, transaction, &runs, now).await
}

async fn write_runs(
    store: &PostgresStore,
    transaction: &Transaction,
    runs: &[(EnvironmentId, ScheduleId, Run)],
    now: Timestamp,
) -> Result<(), Fault> {
    if runs.is_empty() {
        return Ok(());
    }
    let drawn: Vec<Id> = runs.iter().map(|_| store.ids.next(now)).collect();
    let environments: Vec<i32> = runs.iter().map(|(environment, _, _)| environment.0).collect();
    let schedules: Vec<&[u8]> = runs.iter().map(|(_, schedule, _)| schedule.as_bytes().as_slice()).collect();
    let ids: Vec<&[u8]> = drawn.iter().map(|id| id.as_bytes().as_slice()).collect();
    let nominal: Vec<i64> = runs.iter().map(|(_, _, run)| run.nominal.as_micros()).collect();
    let kinds: Vec<i16> = runs.iter().map(|(_, _, run)| run.kind.to_db()).collect();
    let objects: Vec<Option<&[u8]>> =
        runs.iter().map(|(_, _, run)| run.object.as_ref().map(|object| object.as_bytes().as_slice())).collect();
    let params: Params<'_> = &[&environments, &schedules, &ids, &nominal, &kinds, &objects, &now.as_micros()];
    transaction.change(&sql::APPEND_SCHEDULE_RUN, params).await.map(drop)
}
