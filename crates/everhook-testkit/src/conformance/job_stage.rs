//! The vocabulary of cases about jobs.

use std::sync::Arc;

use bytes::Bytes;
use everhook_core::id::{JobId, SessionId};
use everhook_core::job::{Job, JobAction, JobState, OperatorCommand, RunAt};
use everhook_core::lifecycle::{EndState, NextRow};
use everhook_core::name::Name;
use everhook_core::outcome::Class;
use everhook_core::queue::Queue;
use everhook_core::task::Task;
use everhook_store::catalog::Replaced;
use everhook_store::job::{Enqueued, JobRecord, NewJob};
use everhook_store::lease::{FeedAsk, LeaseAsk, LeaseGrant, Leased, Settled, Settlement};
use everhook_store::query;
use everhook_store::steer::Steer;
use everhook_store::store::Resources;

use crate::conformance::fixture::{Fixture, PLENTY, name};
use crate::conformance::stage::Stage;

/// The end of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// The job succeeds.
    Well,
    /// The attempt fails and is retried at once.
    Again,
    /// The attempt fails and the job is dead.
    Dead,
}

impl Fixture {
    /// Returns a job of the queue `q` and the kind `k`.
    pub fn job(&self) -> NewJob {
        self.job_on("q")
    }

    pub fn job_on(&self, queue: &str) -> NewJob {
        let payload = Bytes::from_static(b"{\"amount\": 1.10, \"to\":\"S\xc3\xb6hne\"}");
        let job = Job::new(JobId(self.id()), name(queue), name("k"), payload);
        NewJob { environment: self.here, job, run_at: RunAt::Now, key: None }
    }

    /// Enqueues a job here, and with the same ids and keys in the other environment, where no worker leases it.
    pub async fn enqueue(&self, new: &NewJob) -> Enqueued {
        let mut shadow = NewJob { environment: self.there, ..new.clone() };
        shadow.job.batch = None;
        self.store.enqueue([shadow].into()).await.unwrap();
        self.store.enqueue([new.clone()].into()).await.unwrap().remove(0)
    }

    /// Enqueues a job, which must be accepted.
    pub async fn accept(&self, new: NewJob) -> JobId {
        let answer = self.enqueue(&new).await;
        assert!(matches!(answer, Enqueued::Accepted { .. }), "{answer:?}");
        new.job.id
    }

    /// Enqueues a plain job.
    pub async fn work(&self) -> JobId {
        self.accept(self.job()).await
    }

    /// Returns a request for all jobs of the queue `q`.
    pub fn job_ask(&self, session: SessionId) -> LeaseAsk {
        self.job_ask_of(session, &["q"])
    }

    /// Returns a request for all jobs of these queues.
    pub fn job_ask_of(&self, session: SessionId, queues: &[&str]) -> LeaseAsk {
        let ask = |queue: &&str| FeedAsk::queue(self.here, name(queue), PLENTY);
        let queues = queues.iter().map(ask).collect();
        LeaseAsk::new(session, PLENTY, queues)
    }

    pub async fn lease_jobs_with(&self, ask: &LeaseAsk) -> LeaseGrant {
        let grant = self.store.lease(ask.clone()).await.unwrap();
        assert!(grant.tasks.iter().all(|leased| leased.task.key.environment == self.here), "{grant:?}");
        grant
    }

    /// Leases all jobs of the queue `q`.
    pub async fn lease_jobs(&self, session: SessionId) -> Vec<Leased> {
        self.lease_jobs_with(&self.job_ask(session)).await.tasks
    }

    /// Leases exactly one job of the queue `q`.
    pub async fn lease_job(&self, session: SessionId) -> Leased {
        let mut jobs = self.lease_jobs(session).await;
        assert_eq!(jobs.len(), 1, "{jobs:?}");
        jobs.remove(0)
    }

    /// Returns the settlement of an attempt.
    pub fn job_end(&self, task: &Task, session: SessionId, ends: Ends) -> Settlement {
        let (row, class, end) = match ends {
            Ends::Well => (NextRow::Gone, Class::Success, EndState::Succeeded),
            Ends::Again => (NextRow::Pending { due_in: std::time::Duration::ZERO }, Class::Failed, EndState::Open),
            Ends::Dead => (NextRow::Dead, Class::Failed, EndState::Dead),
        };
        let mut settlement = self.settlement(task, session, row);
        if let Some(attempt) = &mut settlement.attempt {
            (attempt.class, attempt.end, attempt.status) = (class, end, 0);
            attempt.url = String::new();
            attempt.reply = Bytes::from_static(b"{\"error\":\"No Paper\"}");
        }
        settlement
    }

    /// Settles an attempt, which must be recorded.
    pub async fn end_job(&self, task: &Task, session: SessionId, ends: Ends) {
        assert_eq!(self.settle(&self.job_end(task, session, ends)).await, Settled::Done);
    }

    /// Leases all jobs of the queue `q` and ends them this way. Returns their number.
    pub async fn end_jobs(&self, ends: Ends) -> usize {
        let session = self.session().await;
        let jobs = self.lease_jobs(session).await;
        for leased in &jobs {
            self.end_job(&leased.task, session, ends).await;
        }
        jobs.len()
    }

    /// Returns a job as the API shows it.
    pub async fn found(&self, id: JobId) -> JobRecord {
        self.read(query::FindJob { scope: self.scope(), id }).await.expect("the job is there")
    }

    /// Applies a command of an operator to a job.
    pub async fn steer_job(&self, id: JobId, command: OperatorCommand) -> Option<JobAction> {
        let steer = Steer::Jobs { ids: vec![id], command };
        self.other.steer(self.scope(), steer).await.unwrap().answer.plans[0]
    }

    pub async fn job_state(&self, id: JobId) -> JobState {
        self.found(id).await.state
    }

    pub async fn configure(&self, queue: &str, change: impl FnOnce(&mut Queue)) -> Queue {
        let known = self.read(query::FindQueue { scope: self.scope(), name: name(queue) }).await;
        let mut queue = known.unwrap_or_else(|| Queue::new(name(queue)));
        change(&mut queue);
        match self.other.replace(self.scope(), queue.clone()).await.unwrap() {
            Replaced::Done(queue) => queue,
            other => panic!("{other:?}"),
        }
    }
}

pub fn kinds(jobs: &[Leased]) -> Vec<Name> {
    jobs.iter().filter_map(|leased| leased.job()).map(|job| job.kind.clone()).collect()
}

pub fn ids(jobs: &[Leased]) -> Vec<JobId> {
    jobs.iter().map(|leased| JobId(leased.task.key.subject)).collect()
}

/// Returns both handles of a store in turn.
pub fn nodes(fx: &Fixture) -> impl Iterator<Item = Arc<dyn Stage>> + use<> {
    [Arc::clone(&fx.store), Arc::clone(&fx.other)].into_iter().cycle()
}
