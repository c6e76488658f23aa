//! Serves remote workers, which renew sessions, lease jobs and report results over the API.
//!
//! A node keeps no state about a worker except the lease calls in progress, so any node can serve any call. Results of
//! jobs go through `settle`.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use everhook_core::id::{EnvironmentId, JobId, SessionId};
use everhook_core::job::report::{Note, Report, keep_result};
use everhook_core::job::{JobState, LeaseLost, LeaseProof, check_lease_proof};
use everhook_core::limits::{JOB_ATTEMPTS_SHOWN, WORKER_LEASE_MAX};
use everhook_core::role::Role;
use everhook_core::scope::Scope;
use everhook_core::task::{Task, TaskState};
use everhook_core::time::Timestamp;
use everhook_store::error::StoreError;
use everhook_store::job::JobRecord;
use everhook_store::lease::{FeedAsk, LeaseAsk, Leased, NewSession, Renewed, SessionRecord};
use everhook_store::query;
use everhook_store::store::{Op, Reads};
use everhook_store::worker::{REMOTE, Takes, WorkerRecord};
use tracing::info;

use crate::node::Node;
use crate::run::job::record;
use crate::settle::{AttemptEnd, AttemptRecord, SettleReply};

/// The longest time between two polls for a waiting worker. Hints report new jobs, but not jobs that become due by
/// time.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// The shortest time between two polls, because many hints can arrive at once.
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// A job that a worker claims to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldJob {
    pub id: JobId,
    /// The epoch of the lease.
    pub epoch: u32,
}

/// The answer to a worker's heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// Jobs that the worker no longer holds; their results will not be recorded.
    pub lost: Vec<JobId>,
    /// Jobs that were cancelled and that the worker should stop.
    pub cancelled: Vec<JobId>,
}

/// The reasons why a worker gets no jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkerRefused {
    /// Its session was closed because its lease expired. Other workers may hold its jobs now.
    #[error("the worker's lease has expired and its jobs were given to others: register again")]
    Closed,
    /// Another lease call of the same worker is in progress.
    #[error("another lease call of this worker is in progress")]
    Busy,
}

/// A worker's report at the end of an attempt.
#[derive(Clone, Debug)]
pub struct Ending {
    pub report: Report,
    /// The error and the log lines.
    pub note: Note,
    /// The result as JSON.
    pub result: Option<Bytes>,
}

/// Remote workers with a lease call in progress on this node.
#[derive(Default)]
pub(crate) struct Asking(Mutex<HashSet<SessionId>>);

/// A lease call in progress; ends when it is dropped.
struct AskingNow<'a> {
    asking: &'a Asking,
    worker: SessionId,
}

impl Asking {
    /// Starts a lease call; returns none if the worker already has one in progress.
    fn begin(&self, worker: SessionId) -> Option<AskingNow<'_>> {
        self.lock().insert(worker).then(|| AskingNow { asking: self, worker })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<SessionId>> {
        self.0.lock().expect("nothing panics while it holds this lock")
    }
}

impl Drop for AskingNow<'_> {
    fn drop(&mut self) {
        self.asking.lock().remove(&self.worker);
    }
}

impl Node {
    /// Opens the session of a remote worker.
    pub async fn open_worker(&self, name: String, takes: Takes, lease: Duration) -> Result<WorkerRecord, StoreError> {
        self.check_jobs(Op::OpenSession)?;
        let id = SessionId(self.new_id());
        let (role, version, new_takes) = (Role::Worker, REMOTE.to_owned(), Some(takes.clone()));
        let new = NewSession { id, node: name, role, version, lease, takes: new_takes };
        self.store.open_session(new.clone()).await?;
        info!(session.id = %id, "opened worker {id}");
        let NewSession { node, version, .. } = new;
        let now = self.clock.now();
        let (started_at, renewed_at, closed_at, held) = (now, now, None, 0);
        let session = SessionRecord { id, node, role, version, lease, started_at, renewed_at, closed_at, held };
        Ok(WorkerRecord { session, takes })
    }

    /// Renews the worker's session and leases jobs to it; waits up to `wait` for the first job. If `held` is given, the
    /// worker's other jobs are handed back: the reply that contained them was lost.
    pub async fn lease_for(
        &self,
        worker: &WorkerRecord,
        limit: usize,
        wait: Duration,
        held: Option<&[HeldJob]>,
    ) -> Result<Result<Vec<Leased>, WorkerRefused>, StoreError> {
        self.check_jobs(Op::Lease)?;
        let id = worker.session.id;
        let Some(_asking) = self.asking.begin(id) else { return Ok(Err(WorkerRefused::Busy)) };
        let mut renewed = self.clock.elapsed();
        let until = renewed.saturating_add(wait);
        if !self.renew_worker(id).await? {
            return Ok(Err(WorkerRefused::Closed));
        }
        if let Some(held) = held {
            self.hand_back_unheard(id, held).await?;
        }
        loop {
            // Listen before reading the store. A job committed between the read and the wait would otherwise be missed
            // until the next poll.
            let mut hint = std::pin::pin!(self.wakeups.next_hint());
            hint.as_mut().enable();
            let (jobs, next_ready) = self.take_for(worker, limit).await?;
            let now = self.clock.elapsed();
            if !jobs.is_empty() || now >= until || self.stop.is_cancelled() {
                return Ok(Ok(jobs));
            }
            let look = next_ready.unwrap_or(LOOK_INTERVAL).clamp(LOOK_PAUSE, LOOK_INTERVAL).min(until - now);
            tokio::select! {
                biased;
                () = self.stop.cancelled() => {}
                () = hint => tokio::time::sleep(LOOK_PAUSE.min(until - now)).await,
                () = tokio::time::sleep(look) => {}
            }
            // The open request shows that the worker is alive, so the node renews the session on its behalf.
            if self.clock.elapsed().saturating_sub(renewed) >= worker.session.lease / 4 {
                renewed = self.clock.elapsed();
                if !self.renew_worker(id).await? {
                    return Ok(Err(WorkerRefused::Closed));
                }
            }
        }
    }

    async fn take_for(
        &self,
        worker: &WorkerRecord,
        limit: usize,
    ) -> Result<(Vec<Leased>, Option<Duration>), StoreError> {
        let Takes { environment, queues, kinds } = &worker.takes;
        let limit = limit.min(WORKER_LEASE_MAX);
        let feeds = queues.iter().cloned().map(|name| FeedAsk::queue(*environment, name, limit)).collect();
        let (session, kinds) = (worker.session.id, kinds.clone());
        let ask = LeaseAsk { kinds, watched: true, ..LeaseAsk::new(session, limit, feeds) };
        let grant = self.store.lease(ask).await?;
        let mut jobs = Vec::with_capacity(grant.tasks.len());
        for leased in grant.tasks {
            if leased.task.cancel || leased.job().is_none() {
                self.end_cancelled(session, leased).await;
            } else {
                jobs.push(leased);
            }
        }
        Ok((jobs, grant.next_ready))
    }

    /// Ends a job that no worker should run. If that fails, the job stays with the worker until its session or the
    /// job's timeout ends.
    async fn end_cancelled(&self, session: SessionId, leased: Leased) {
        let why = if leased.job().is_none() { "the job was deleted" } else { "the job was cancelled" };
        let end = AttemptEnd::Attempted(record(Report::Cancelled, Note::new(why, []).to_bytes(), self.clock.now()));
        self.settler.settle_for(session, leased.task, leased.job().cloned(), end).await;
    }

    /// Renews the worker's session. Returns the jobs that it has lost and the jobs that were cancelled. Never hands
    /// jobs back: the heartbeat may overtake the reply of a lease call.
    pub async fn heartbeat(
        &self,
        worker: SessionId,
        held: Option<&[HeldJob]>,
    ) -> Result<Result<Heartbeat, WorkerRefused>, StoreError> {
        self.check_jobs(Op::RenewSession)?;
        if !self.renew_worker(worker).await? {
            return Ok(Err(WorkerRefused::Closed));
        }
        let owned = by_job(self.store.read(query::HeldJobs { session: worker }).await?);
        let Some(held) = held else {
            let cancelled = owned.into_values().filter(|task| task.cancel).map(|task| JobId(task.key.subject));
            return Ok(Ok(Heartbeat { lost: Vec::new(), cancelled: cancelled.collect() }));
        };
        let mut heartbeat = Heartbeat::default();
        for HeldJob { id, epoch } in held {
            match owned.get(id).filter(|task| task.epoch == *epoch) {
                None => heartbeat.lost.push(*id),
                Some(task) if task.cancel => heartbeat.cancelled.push(*id),
                Some(_) => {}
            }
        }
        Ok(Ok(heartbeat))
    }

    /// Closes the session of a worker that signs off. Its jobs are handed back at once, and no try is counted.
    pub async fn close_worker(&self, worker: SessionId) -> Result<(), StoreError> {
        self.check_jobs(Op::CloseSession)?;
        // The session is closed first, so that it gets no more jobs. If this node crashes before it hands the jobs
        // back, the sweep reclaims them.
        self.store.close_session(worker).await?;
        info!(session.id = %worker, "closed worker {worker}: it signed off");
        self.hand_back_unheard(worker, &[]).await?;
        self.wakeups.hint_jobs();
        Ok(())
    }

    /// Ends an attempt and returns the new state of the job. Repeating the call is harmless.
    pub async fn end_job(
        &self,
        environment: EnvironmentId,
        id: JobId,
        by: LeaseProof,
        ending: Ending,
    ) -> Result<Result<JobState, LeaseLost>, StoreError> {
        self.check_jobs(Op::Settle)?;
        let Some(found) = self.store.read(query::FindJob { scope: Scope::of(environment), id }).await? else {
            return Ok(Err(LeaseLost::NotRunning));
        };
        let (task, started_at) = match held_by(&found, by) {
            Ok(held) => held,
            Err(why) => return self.said_before(environment, id, by, found.state, why).await,
        };
        let now = self.clock.now();
        let reply = if ending.note == Note::default() { Default::default() } else { ending.note.to_bytes() };
        let record = AttemptRecord {
            id: None,
            duration: now.since(started_at),
            result: ending.result.map(|result| keep_result(environment, result)),
            ..record(ending.report, reply, started_at)
        };
        let job = Some(Arc::new(found.job));
        match self.settler.settle_for(by.session, task, job, AttemptEnd::Attempted(record)).await {
            Some(SettleReply::Done(end)) => Ok(Ok(end.map_or(JobState::Pending, JobState::from))),
            Some(SettleReply::Rejected) => self.said_before(environment, id, by, found.state, LeaseLost::Lost).await,
            None => Err(StoreError::InDoubt { op: Op::Settle, source: "the settlement did not finish in time".into() }),
        }
    }

    /// Returns the job's state if this worker's attempt is already recorded: then the call is a repetition. Fails with
    /// `why` otherwise.
    async fn said_before(
        &self,
        environment: EnvironmentId,
        id: JobId,
        by: LeaseProof,
        state: JobState,
        why: LeaseLost,
    ) -> Result<Result<JobState, LeaseLost>, StoreError> {
        let attempts = self
            .store
            .read(query::JobAttempts { scope: Scope::of(environment), id, limit: JOB_ATTEMPTS_SHOWN })
            .await?;
        let own = attempts.iter().any(|attempt| attempt.epoch == by.epoch && attempt.session == by.session);
        Ok(if own { Ok(state) } else { Err(why) })
    }

    async fn renew_worker(&self, worker: SessionId) -> Result<bool, StoreError> {
        Ok(!matches!(self.store.renew_session(worker).await?, Renewed::Closed))
    }

    /// Hands back the jobs that the worker holds but does not list. The reply of the lease call that contained them was
    /// lost.
    async fn hand_back_unheard(&self, worker: SessionId, held: &[HeldJob]) -> Result<(), StoreError> {
        for task in self.store.read(query::HeldJobs { session: worker }).await? {
            let is_it = |it: &HeldJob| it.id.0 == task.key.subject && it.epoch == task.epoch;
            if !held.iter().any(is_it) {
                self.settler.settle_for(worker, task, None, AttemptEnd::HandedBack).await;
            }
        }
        Ok(())
    }
}

/// The task that the worker's proof refers to, with the time of its lease.
fn held_by(found: &JobRecord, by: LeaseProof) -> Result<(Task, Timestamp), LeaseLost> {
    let open = found.open.filter(|open| open.state == TaskState::Leased);
    let held = open.and_then(|open| Some((open.task, open.holder?)));
    check_lease_proof(held.map(|(task, holder)| LeaseProof { session: holder.session, epoch: task.epoch }), by)?;
    held.map(|(task, holder)| (task, holder.since)).ok_or(LeaseLost::NotRunning)
}

fn by_job(held: Vec<Task>) -> BTreeMap<JobId, Task> {
    held.into_iter().map(|task| (JobId(task.key.subject), task)).collect()
}
