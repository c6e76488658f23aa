//! Commands of operators: cancel, retry, reschedule and delete, for many jobs in one transaction.
//!
//! Tasks are locked first. Then a second statement reads the ends of jobs without a task: it sees a settlement that the
//! lock waited for.

use std::collections::{BTreeSet, HashMap};

use everhook_core::batch::{BatchChange, Resolution, check_selection};
use everhook_core::id::{BatchId, EnvironmentId, Id, JobId, SessionId};
use everhook_core::job::{JobAction, JobState, LeaseLost, LeaseProof, OperatorCommand, check_lease_proof};
use everhook_core::lifecycle::EndState;
use everhook_core::task::{Task, TaskState};
use everhook_core::time::Timestamp;
use everhook_store::batch::{Resolved, steered};
use everhook_store::job::{ProgressReport, due_at, state_of};
use everhook_store::made::{Made, WithMade};
use everhook_store::statement;

use crate::append::lower_lanes_due;
use crate::batch::FindBatch;
use crate::batch::{self, Changes};
use crate::columns::{Key, Keys, Subject, Subjects};
use crate::error::Fault;
use crate::steer::{Moved, TaskChanges};
use crate::store::PostgresStore;
use crate::tx::{NO_TIME, Now, Tx};

statement! {
    LockTaskJob = ["lock_task_job", "lock_task"] { wanted: Subjects } -> Vec<(Task, TaskState)>;
    FindJobEnd = "find_job_end" { wanted: Keys } -> Vec<(JobId, Option<BatchId>, Option<EndState>)>;
    DeleteJob = "delete_job" { environment: EnvironmentId, ids: Vec<JobId> };
    pub(crate) PutJobProgress<'a> = "put_job_progress" {
        environment: EnvironmentId, job: JobId, owner: SessionId, epoch: u32, progress: i16, text: &'a str,
    } -> Option<(SessionId, u32)>;
}

/// The state of a job whose task is locked.
struct KnownJob {
    open: Option<(Task, TaskState)>,
    last: Option<EndState>,
    batch: Option<BatchId>,
}

impl KnownJob {
    fn state(&self) -> JobState {
        state_of(self.open.map(|(_, state)| state), self.last)
    }
}

/// The writes of a command, by kind.
#[derive(Default)]
struct Steps {
    changes: TaskChanges,
    erased: Vec<JobId>,
}

impl PostgresStore {
    pub(crate) async fn change_jobs_once(
        &self,
        environment: EnvironmentId,
        ids: &[JobId],
        command: OperatorCommand,
    ) -> Result<WithMade<Vec<Option<JobAction>>>, Fault> {
        let tx = self.database.tx().await?;
        tx.begin(()).await?;
        let (mut known, now) = lock(&tx, environment, ids).await?;
        let (mut steps, mut changes) = (Steps::default(), Changes::new());
        let mut plans = Vec::with_capacity(ids.len());
        for id in ids {
            let Some(job) = known.get_mut(id) else {
                plans.push(None);
                continue;
            };
            let was = job.state();
            let plan = was.on(command);
            if let (Some(batch), Some(change)) = (job.batch, steered(was, plan)) {
                batch::add(&mut changes, (environment, batch), change);
            }
            steps.add(*id, job, plan, now);
            if plan == JobAction::Delete {
                known.remove(id);
            }
            plans.push(Some(plan));
        }
        if steps.is_empty() {
            tx.roll_back().await?;
            return Ok(Made::default().with(plans));
        }
        self.carry_out(&tx, environment, &steps, now).await?;
        let told = self.tell_batches(&tx, &changes, now).await?;
        tx.commit().await?;
        Ok(told.made.with(plans))
    }

    pub(crate) async fn resolve_batch_once(
        &self,
        environment: EnvironmentId,
        id: BatchId,
        jobs: &[JobId],
        how: Resolution,
    ) -> Result<WithMade<Resolved>, Fault> {
        let tx = self.database.tx().await?;
        tx.begin(()).await?;
        let (mut known, now) = lock(&tx, environment, jobs).await?;
        // The batch is not locked yet, because lanes are locked before batches, as in an enqueue. It cannot be pruned
        // while one of its jobs is dead.
        if tx.run(FindBatch { environment, id }).await?.is_none() {
            tx.roll_back().await?;
            return Ok(Made::default().with(Resolved::NoBatch));
        }
        let found: Vec<(JobId, JobState)> =
            known.iter().filter(|(_, job)| job.batch == Some(id)).map(|(id, job)| (*id, job.state())).collect();
        let selected = match check_selection(jobs, &found) {
            Ok(selected) => selected,
            Err(bad) => {
                tx.roll_back().await?;
                return Ok(Made::default().with(Resolved::Bad(bad)));
            }
        };
        let plan = if how == Resolution::Retried { JobAction::Redrive } else { JobAction::Cancel };
        let mut steps = Steps::default();
        for job in &selected {
            if let Some(known) = known.get_mut(job) {
                steps.add(*job, known, plan, now);
            }
        }
        let count = u32::try_from(selected.len()).unwrap_or(u32::MAX);
        let key = (environment, id);
        let changes = Changes::from([(key, vec![BatchChange::Resolved { jobs: count, how }])]);
        self.carry_out(&tx, environment, &steps, now).await?;
        let WithMade { answer: mut told, made } = self.tell_batches(&tx, &changes, now).await?;
        tx.commit().await?;
        Ok(made.with(told.remove(&key).map_or(Resolved::NoBatch, Resolved::Done)))
    }

    async fn carry_out(
        &self,
        tx: &Tx<'_>,
        environment: EnvironmentId,
        steps: &Steps,
        now: Timestamp,
    ) -> Result<(), Fault> {
        let (flag, cancel, reschedule, lanes) = steps.changes.statements(self, b"", now);
        let (lock_lane, lower_lane) = lanes.nonempty().map(lower_lanes_due).unzip();
        let erase = (!steps.erased.is_empty()).then(|| DeleteJob { environment, ids: steps.erased.clone() });
        tx.run((flag, cancel, reschedule, lock_lane, lower_lane, erase)).await.map(drop)
    }

    pub(crate) async fn report_progress_once(
        &self,
        environment: EnvironmentId,
        ProgressReport { job, by, progress }: &ProgressReport,
    ) -> Result<Result<(), LeaseLost>, Fault> {
        let put = PutJobProgress {
            environment,
            job: *job,
            owner: by.session,
            epoch: by.epoch,
            progress: i16::from(progress.percent()),
            text: progress.text(),
        };
        let held = self.database.write(put).await?;
        Ok(check_lease_proof(held.map(|(session, epoch)| LeaseProof { session, epoch }), *by))
    }
}

impl Steps {
    fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.erased.is_empty()
    }

    /// Adds the writes of an action, and updates the state of the job for a later command of the same request.
    fn add(&mut self, id: JobId, job: &mut KnownJob, plan: JobAction, now: Timestamp) {
        if plan == JobAction::Delete {
            self.erased.push(id);
            return;
        }
        let Some((task, state)) = &mut job.open else { return };
        let (due_at, fresh) = match plan {
            JobAction::RunNow => (now, false),
            JobAction::Redrive => (now, true),
            JobAction::Reschedule(run_at) => (due_at(run_at, now), false),
            JobAction::RequestCancel => return self.changes.flagged.push(*task),
            JobAction::Cancel => {
                self.changes.ended.push(*task);
                (job.open, job.last) = (None, Some(EndState::Cancelled));
                return;
            }
            JobAction::Delete | JobAction::Nothing | JobAction::Refuse => return,
        };
        *state = TaskState::Pending;
        // A job that is named twice keeps the fresh tries of the first command.
        let was_fresh = self.changes.moved.get(&task.key).is_some_and(|moved| moved.fresh);
        let moved = Moved { due_at, fresh: fresh || was_fresh, lane: task.lane, lane_due_at: due_at };
        self.changes.moved.insert(task.key, moved);
    }
}

/// Locks the tasks of jobs, and reads the state of each job. Jobs that do not exist are missing from the result.
async fn lock(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    ids: &[JobId],
) -> Result<(HashMap<JobId, KnownJob>, Timestamp), Fault> {
    let ids: BTreeSet<Id> = ids.iter().map(|id| id.0).collect();
    let subjects: Subjects = ids.iter().map(|id| Subject { environment, subject: *id }).collect();
    let keys: Keys = ids.iter().map(|id| Key { environment, id: *id }).collect();
    let tasks = tx.run(LockTaskJob { wanted: subjects }).await?;
    let (jobs, now) = tx.run((FindJobEnd { wanted: keys }, Now {})).await?;
    let now = now.ok_or(NO_TIME)?;
    let known = |(id, batch, last)| (id, KnownJob { open: None, last, batch });
    let mut known: HashMap<JobId, KnownJob> = jobs.into_iter().map(known).collect();
    for (task, state) in tasks {
        if let Some(job) = known.get_mut(&JobId(task.key.subject)) {
            job.open = Some((task, state));
        }
    }
    Ok((known, now))
}
