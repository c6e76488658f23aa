//! What operators ask for: cancel, retry, another time, delete; many jobs in one transaction.
//!
//! Tasks are locked first, then read is how those without one ended: whoever was settling is waited for, and its word is seen.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use everhook_core::batch::{Change, Resolution, check_selection};
use everhook_core::id::{AttemptId, BatchId, EnvironmentId, Id, JobId, LaneId};
use everhook_core::job::report::Progress;
use everhook_core::job::{JobState, NotYours, Plan, Tenure, Wish, check_tenure};
use everhook_core::lifecycle::EndState;
use everhook_core::outcome::Class;
use everhook_core::task::{Task, TaskKey, TaskState};
use everhook_core::time::Timestamp;
use everhook_store::batch::{Resolved, steered};
use everhook_store::job::{due_at, state_of};
use everhook_store::made::{Made, WithMade};
use tokio_postgres::Row;

use crate::error::Fault;
use crate::job::batch::{self, Changes};
use crate::job::rows::now;
use crate::rows::{self, Reader, TASK_COLUMNS};
use crate::sql;
use crate::statement::{Params, Statements, Transaction, within};
use crate::store::PostgresStore;

/// What is known of a job whose task is locked.
struct Known {
    open: Option<(Task, TaskState)>,
    last: Option<EndState>,
    batch: Option<BatchId>,
}

impl Known {
    fn state(&self) -> JobState {
        state_of(self.open.map(|(_, state)| state), self.last)
    }
}

/// What is to be done to jobs.
#[derive(Default)]
struct Steps {
    ended: Vec<Task>,
    flagged: Vec<Task>,
    /// Those that wait for another time, and whether with fresh tries.
    moved: BTreeMap<TaskKey, (LaneId, Timestamp, bool)>,
    erased: Vec<JobId>,
}

impl PostgresStore {
    pub(crate) async fn change_jobs_once(
        &self,
        environment: EnvironmentId,
        ids: &[JobId],
        wish: Wish,
    ) -> Result<WithMade<Vec<Option<Plan>>>, Fault> {
        let transaction = self.database.transaction().await?;
        transaction.begin().await?;
        let (mut known, now) = lock(&transaction, environment, ids).await?;
        let (mut steps, mut changes) = (Steps::default(), Changes::new());
        let mut plans = Vec::with_capacity(ids.len());
        for id in ids {
            let Some(job) = known.get_mut(id) else {
                plans.push(None);
                continue;
            };
            let was = job.state();
            let plan = was.on(wish);
            if let (Some(batch), Some(change)) = (job.batch, steered(was, plan)) {
                batch::add(&mut changes, (environment, batch), change);
            }
            steps.add(*id, job, plan, now);
            if plan == Plan::Erase {
                known.remove(id);
            }
            plans.push(Some(plan));
        }
        if steps.is_empty() {
            transaction.roll_back().await?;
            return Ok(Made::default().with(plans));
        }
        self.carry_out(&transaction, environment, &steps, now).await?;
        let told = self.tell_batches(&transaction, &changes, now).await?;
        transaction.commit().await?;
        Ok(told.made.with(plans))
    }

    pub(crate) async fn resolve_batch_once(
        &self,
        environment: EnvironmentId,
        id: BatchId,
        jobs: &[JobId],
        how: Resolution,
    ) -> Result<WithMade<Resolved>, Fault> {
        let transaction = self.database.transaction().await?;
        transaction.begin().await?;
        let (mut known, now) = lock(&transaction, environment, jobs).await?;
        // Not locked yet: lanes come before batches, as they do in an enqueue. While a job of it is dead, nobody can remove it.
        if transaction.rows(&sql::FIND_BATCH, &[&environment.0, &id.as_bytes().as_slice()]).await?.is_empty() {
            transaction.roll_back().await?;
            return Ok(Made::default().with(Resolved::NoBatch));
        }
        let found: Vec<(JobId, JobState)> =
            known.iter().filter(|(_, job)| job.batch == Some(id)).map(|(id, job)| (*id, job.state())).collect();
        let selected = match check_selection(jobs, &found) {
            Ok(selected) => selected,
            Err(bad) => {
                transaction.roll_back().await?;
                return Ok(Made::default().with(Resolved::Bad(bad)));
            }
        };
        let plan = if how == Resolution::Retried { Plan::Redrive } else { Plan::End };
        let mut steps = Steps::default();
        for job in &selected {
            if let Some(known) = known.get_mut(job) {
                steps.add(*job, known, plan, now);
            }
        }
        let count = u32::try_from(selected.len()).unwrap_or(u32::MAX);
        let key = (environment, id);
        let changes = Changes::from([(key, vec![Change::Resolved { jobs: count, how }])]);
        self.carry_out(&transaction, environment, &steps, now).await?;
        let WithMade { answer: mut told, made } = self.tell_batches(&transaction, &changes, now).await?;
        transaction.commit().await?;
        Ok(made.with(told.remove(&key).map_or(Resolved::NoBatch, Resolved::Done)))
    }

    async fn carry_out(
        &self,
        transaction: &Transaction,
        environment: EnvironmentId,
        steps: &Steps,
        now: Timestamp,
    ) -> Result<(), Fault> {
        if !steps.flagged.is_empty() {
            let (environments, subjects, ids) = columns(&steps.flagged);
            transaction.change(&sql::FLAG_TASK, &[&environments, &subjects, &ids]).await?;
        }
        if !steps.ended.is_empty() {
            let (environments, subjects, ids) = columns(&steps.ended);
            let drawn: Vec<AttemptId> = steps.ended.iter().map(|_| AttemptId(self.ids.next(now))).collect();
            let attempts: Vec<&[u8]> = drawn.iter().map(|id| id.as_bytes().as_slice()).collect();
            let (nobody, class, end) =
                (Id::MIN.as_bytes().as_slice(), Class::Cancelled.to_db(), EndState::Cancelled.to_db());
            let params: Params<'_> =
                &[&environments, &subjects, &ids, &attempts, &nobody, &class, &end, &now.as_micros()];
            transaction.change(&sql::END_JOB, params).await?;
        }
        if !steps.moved.is_empty() {
            wait(transaction, environment, steps).await?;
        }
        if !steps.erased.is_empty() {
            let ids: Vec<&[u8]> = steps.erased.iter().map(|id| id.as_bytes().as_slice()).collect();
            transaction.change(&sql::ERASE_JOB, &[&environment.0, &ids]).await?;
        }
        Ok(())
    }

    pub(crate) async fn report_progress_once(
        &self,
        environment: EnvironmentId,
        id: JobId,
        by: Tenure,
        progress: &Progress,
    ) -> Result<Result<(), NotYours>, Fault> {
        let (job, session) = (id.as_bytes().as_slice(), by.session.as_bytes().as_slice());
        let (epoch, percent) = (i32::try_from(by.epoch).unwrap_or(i32::MAX), i16::from(progress.percent()));
        let params: Params<'_> = &[&environment.0, &job, &session, &epoch, &percent, &progress.text()];
        let rows = self.database.write(&sql::PUT_JOB_PROGRESS, params).await?;
        let read = |row: &Row| -> Result<Tenure, Fault> {
            let mut row = Reader::new(row, "task");
            let session = everhook_core::id::SessionId(row.id("owner")?);
            Ok(Tenure { session, epoch: row.unsigned("epoch")? })
        };
        Ok(check_tenure(rows.first().map(read).transpose()?, by))
    }
}

impl Steps {
    fn is_empty(&self) -> bool {
        self.ended.is_empty() && self.flagged.is_empty() && self.moved.is_empty() && self.erased.is_empty()
    }

    /// Notes what a plan takes, and what is known of the job afterwards.
    fn add(&mut self, id: JobId, job: &mut Known, plan: Plan, now: Timestamp) {
        if plan == Plan::Erase {
            self.erased.push(id);
            return;
        }
        let Some((task, state)) = &mut job.open else { return };
        let (due_at, fresh) = match plan {
            Plan::Hasten => (now, false),
            Plan::Redrive => (now, true),
            Plan::Move(run_at) => (due_at(run_at, now), false),
            Plan::Flag => return self.flagged.push(*task),
            Plan::End => {
                self.ended.push(*task);
                (job.open, job.last) = (None, Some(EndState::Cancelled));
                return;
            }
            Plan::Erase | Plan::Nothing | Plan::Refuse => return,
        };
        *state = TaskState::Pending;
        // A job that is named again has its fresh tries from the first time.
        let was_fresh = self.moved.get(&task.key).is_some_and(|(_, _, fresh)| *fresh);
        self.moved.insert(task.key, (task.lane, due_at, fresh || was_fresh));
    }
}

/// Locks the tasks of jobs, and reads where each job stands; those that do not exist are not there.
async fn lock(
    transaction: &Transaction,
    environment: EnvironmentId,
    ids: &[JobId],
) -> Result<(HashMap<JobId, Known>, Timestamp), Fault> {
    let ids: BTreeSet<&[u8]> = ids.iter().map(|id| id.as_bytes().as_slice()).collect();
    let ids: Vec<&[u8]> = ids.into_iter().collect();
    let environments = vec![environment.0; ids.len()];
    let tasks = transaction.rows(&sql::LOCK_TASK_JOB, &[&environments, &ids]).await?;
    let jobs = transaction.rows(&sql::FIND_JOB_END, &[&environments, &ids]).await?;
    let now = now(&transaction.rows(&sql::NOW, &[]).await?)?;
    let mut known = HashMap::with_capacity(jobs.len());
    for row in &jobs {
        let mut row = Reader::new(row, "job");
        let (id, batch) = (JobId(row.id("id")?), row.id_opt("batch")?.map(BatchId));
        let end: Option<i16> = row.get("end_state")?;
        let end = end.map(|end| EndState::from_db(end).ok_or_else(|| row.corrupt("end_state"))).transpose()?;
        known.insert(id, Known { open: None, last: end, batch });
    }
    for row in &tasks {
        let task = rows::task(row)?;
        let state = Reader::from(row, "task", TASK_COLUMNS).coded("state", TaskState::from_db)?;
        if let Some(job) = known.get_mut(&JobId(task.key.subject)) {
            job.open = Some((task, state));
        }
    }
    Ok((known, now))
}

/// Has jobs wait, and tells their lanes.
async fn wait(transaction: &Transaction, environment: EnvironmentId, steps: &Steps) -> Result<(), Fault> {
    let subjects: Vec<&[u8]> = steps.moved.keys().map(|key| key.subject.as_bytes().as_slice()).collect();
    let ids: Vec<&[u8]> = steps.moved.keys().map(|key| key.id.as_bytes().as_slice()).collect();
    let due: Vec<i64> = steps.moved.values().map(|(_, due_at, _)| due_at.as_micros()).collect();
    let fresh: Vec<bool> = steps.moved.values().map(|(_, _, fresh)| *fresh).collect();
    let environments = vec![environment.0; ids.len()];
    transaction.change(&sql::MOVE_TASK_JOB, &[&environments, &subjects, &ids, &due, &fresh]).await?;
    let mut lanes: BTreeMap<LaneId, Timestamp> = BTreeMap::new();
    for (lane, due_at, _) in steps.moved.values() {
        let first = lanes.entry(*lane).or_insert(*due_at);
        *first = (*due_at).min(*first);
    }
    let environments = vec![environment.0; lanes.len()];
    let ids: Vec<&[u8]> = lanes.keys().map(|lane| lane.as_bytes().as_slice()).collect();
    let due: Vec<i64> = lanes.values().map(|due_at| due_at.as_micros()).collect();
    let waits = vec![false; lanes.len()];
    let touch_lane = transaction.prepare_touch(&sql::TOUCH_LANE).await?;
    within(transaction.touch(&touch_lane, &[&environments, &ids, &due, &waits])).await.map(drop)
}

fn columns(tasks: &[Task]) -> (Vec<i32>, Vec<&[u8]>, Vec<&[u8]>) {
    let environments = tasks.iter().map(|task| task.key.environment.0).collect();
    let subjects = tasks.iter().map(|task| task.key.subject.as_bytes().as_slice()).collect();
    (environments, subjects, tasks.iter().map(|task| task.key.id.as_bytes().as_slice()).collect())
}
