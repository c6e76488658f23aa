//! The door for reads and writes: what the API and other callers of a node ask for.
//!
//! Callers hold the node and no store. A write whose reply says that work is ready wakes the machine that the work is
//! for, and counts the work that it created. Messages enter through `accept`, jobs through `enqueue`.

use std::time::Duration;

use everhook_core::application::Environment;
use everhook_core::batch::Resolution;
use everhook_core::endpoint::EndpointState;
use everhook_core::id::{BatchId, EnvironmentId, JobId, OrgId, SessionId};
use everhook_core::job::report::Progress;
use everhook_core::job::{JobAction, JobState, LeaseLost, LeaseProof};
use everhook_core::name::Name;
use everhook_core::scope::{AppScope, Scope};
use everhook_store::batch::{BatchRecord, NewBatch, Resolve, Resolved};
use everhook_store::catalog::{Created, Replaced};
use everhook_store::dedup::DedupKey;
use everhook_store::error::StoreError;
use everhook_store::history::{Expunge, Resend, Resent};
use everhook_store::job::{Enqueued, LeasedJob, NewJob};
use everhook_store::lease::NewMessage;
use everhook_store::made::WithMade;
use everhook_store::query::Read;
use everhook_store::resource::{Change, ChangedResource, Create, Deleted, Resource, ResourceKey};
use everhook_store::schedule::Run;
use everhook_store::steer::{Steer, Steered};
use everhook_store::store::{Op, Reads, Resources, of_kind};
use everhook_store::worker::{Takes, WorkerRecord};

use crate::accept::{AcceptError, Accepted};
use crate::jobs::{Ending, Heartbeat, HeldJob, WorkerRefused};
use crate::node::Node;

/// Reads, and new work.
impl Node {
    /// Answers a read of the store.
    pub async fn read<Q: Read>(&self, query: Q) -> Result<Q::Answer, StoreError> {
        self.store.read(query).await
    }

    /// Commits a message with every delivery it causes; returns when that is durable.
    pub async fn accept(&self, message: NewMessage) -> Result<Accepted, AcceptError> {
        self.acceptor.accept(message).await
    }

    /// Commits jobs, all in one transaction, each judged by itself; returns when that is durable.
    pub async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, AcceptError> {
        self.jobs(Op::Enqueue).map_err(AcceptError::Store)?.enqueuer.enqueue(jobs).await
    }
}

/// Resources and environments.
impl Node {
    /// Creates a resource.
    pub async fn create<R: Create>(
        &self,
        scope: Scope,
        new: R,
        key: Option<DedupKey>,
    ) -> Result<Created<R::Record>, StoreError> {
        self.store.create(scope, new, key).await
    }

    /// Replaces a resource whose revision is still the given one.
    pub async fn replace<R: Change>(&self, scope: Scope, changed: R) -> Result<Replaced<R::Record>, StoreError> {
        let changed: ChangedResource = changed.into();
        let (is_queue, enables) = match &changed.resource {
            Resource::Queue(_) => (true, false),
            Resource::Endpoint(endpoint) => (false, endpoint.state == EndpointState::Enabled),
            Resource::Application(_) | Resource::EventType(_) | Resource::Schedule(_) => (false, false),
        };
        let replaced = self.store.replace_resource(scope, changed).await?.map(of_kind);
        let is_done = matches!(replaced, Replaced::Done(_));
        if is_done && is_queue {
            self.queue_changed();
        }
        if is_done && enables {
            self.wakeups.hint_deliveries();
        }
        Ok(replaced)
    }

    /// Deletes a resource, as its key says.
    pub async fn delete(&self, scope: Scope, key: ResourceKey) -> Result<Deleted, StoreError> {
        let is_queue = matches!(key, ResourceKey::Queue(_));
        let deleted = self.store.delete_resource(scope, key).await?;
        if is_queue {
            self.queue_changed();
        }
        Ok(deleted)
    }

    /// The environment with this public id; created with `name` if it does not exist.
    pub async fn ensure_environment(&self, org: OrgId, name: String) -> Result<Environment, StoreError> {
        self.store.ensure_environment(org, name).await
    }

    /// The queue may have a target now, or room for jobs.
    fn queue_changed(&self) {
        if let Some(jobs) = &self.jobs {
            jobs.refresh_targets();
            self.wakeups.hint_jobs();
        }
    }
}

/// Wishes of operators.
impl Node {
    /// Adds a task for one manual attempt.
    pub async fn resend(&self, scope: Scope, resend: Resend) -> Result<Resent, StoreError> {
        let resent = self.store.resend(scope, resend).await?;
        if matches!(resent, Resent::Pending) {
            self.wakeups.hint_deliveries();
        }
        Ok(resent)
    }

    /// Changes tasks as an operator asks, in one transaction.
    pub async fn steer(&self, scope: Scope, steer: Steer) -> Result<Steered, StoreError> {
        let steered = self.counted(self.store.steer(scope, steer).await?);
        if steered.redriven > 0 {
            self.wakeups.hint_deliveries();
        }
        if steered.plans.iter().flatten().any(|plan| is_ready_after(*plan)) {
            self.wakeups.hint_jobs();
        }
        Ok(steered)
    }

    /// Removes content for good. Returns false if the object does not exist.
    pub async fn expunge(&self, scope: AppScope, what: Expunge) -> Result<bool, StoreError> {
        self.store.expunge(scope, what).await
    }

    /// Opens the next phase of a once-slot. Returns false if the slot does not exist.
    pub async fn reset_once(&self, scope: AppScope, key: Name) -> Result<bool, StoreError> {
        self.store.reset_once(scope, key).await
    }
}

/// Batches and schedules.
impl Node {
    /// Creates a batch without jobs.
    pub async fn create_batch(&self, scope: Scope, new: NewBatch) -> Result<Created<BatchRecord>, StoreError> {
        self.store.create_batch(scope, new).await
    }

    /// Closes a batch for further jobs. Returns none if the batch does not exist.
    pub async fn seal_batch(&self, scope: Scope, id: BatchId) -> Result<Option<BatchRecord>, StoreError> {
        Ok(self.counted(self.store.seal_batch(scope, id).await?))
    }

    /// Retries or skips dead jobs of a batch, all of them or none.
    pub async fn resolve_batch(&self, scope: Scope, id: BatchId, resolve: Resolve) -> Result<Resolved, StoreError> {
        let retries = resolve.how == Resolution::Retried;
        let resolved = self.counted(self.store.resolve_batch(scope, id, resolve).await?);
        if retries && matches!(resolved, Resolved::Done(_)) {
            self.wakeups.hint_jobs();
        }
        Ok(resolved)
    }

    /// Starts a schedule now, whatever its state. Returns none if the schedule does not exist.
    pub async fn run_schedule(&self, scope: Scope, name: Name) -> Result<Option<Run>, StoreError> {
        Ok(self.counted(self.store.run_schedule(scope, name).await?))
    }

    /// Counts the work that a write created, and wakes the machines that it is for.
    fn counted<T>(&self, answer: WithMade<T>) -> T {
        self.metrics.made(answer.made);
        self.wakeups.hint_made(answer.made);
        answer.answer
    }
}

/// Remote workers and their jobs.
impl Node {
    /// Begins the session of a remote worker.
    pub async fn open_worker(&self, name: String, takes: Takes, lease: Duration) -> Result<WorkerRecord, StoreError> {
        self.jobs(Op::OpenSession)?.remote.open(name, takes, lease).await
    }

    /// Renews the worker and leases jobs to it; waits up to `wait` for the first. Where `held` is given, jobs of it
    /// that are not listed go back: their answer was lost on the way.
    pub async fn lease_for(
        &self,
        worker: &WorkerRecord,
        limit: usize,
        wait: Duration,
        held: Option<&[HeldJob]>,
    ) -> Result<Result<Vec<LeasedJob>, WorkerRefused>, StoreError> {
        self.jobs(Op::Lease)?.remote.lease(worker, limit, wait, held).await
    }

    /// Renews the worker; tells what it lost and what is cancelled. Never hands back.
    pub async fn heartbeat(
        &self,
        worker: SessionId,
        held: Option<&[HeldJob]>,
    ) -> Result<Result<Heartbeat, WorkerRefused>, StoreError> {
        self.jobs(Op::RenewSession)?.remote.heartbeat(worker, held).await
    }

    /// Ends the session of a worker that signs off; what it still holds goes back at once, and uses no try.
    pub async fn close_worker(&self, worker: SessionId) -> Result<(), StoreError> {
        self.jobs(Op::CloseSession)?.remote.close(worker).await?;
        self.wakeups.hint_jobs();
        Ok(())
    }

    /// Ends an attempt; answers where the job stands now. Saying it again is harmless.
    pub async fn end_job(
        &self,
        environment: EnvironmentId,
        id: JobId,
        by: LeaseProof,
        ending: Ending,
    ) -> Result<Result<JobState, LeaseLost>, StoreError> {
        self.jobs(Op::Settle)?.remote.end(environment, id, by, ending).await
    }

    /// Keeps the progress of a job, if `by` still holds it.
    pub async fn report_progress(
        &self,
        scope: Scope,
        job: JobId,
        by: LeaseProof,
        progress: Progress,
    ) -> Result<Result<(), LeaseLost>, StoreError> {
        self.store.report_progress(scope, job, by, progress).await
    }
}

/// Whether a job may be leased after this.
fn is_ready_after(plan: JobAction) -> bool {
    match plan {
        JobAction::RunNow | JobAction::Redrive | JobAction::Reschedule(_) => true,
        JobAction::Cancel | JobAction::Delete | JobAction::RequestCancel | JobAction::Nothing | JobAction::Refuse => {
            false
        }
    }
}
