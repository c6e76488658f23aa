//! What is kept of jobs, as one node sees it.

use async_trait::async_trait;
use everhook_core::batch::Resolution;
use everhook_core::id::{BatchId, EnvironmentId, JobId, ScheduleId, SessionId};
use everhook_core::job::report::Progress;
use everhook_core::job::{NotYours, Plan, Tenure, Wish};
use everhook_core::name::Name;
use everhook_core::queue::Queue;
use everhook_core::task::Task;
use everhook_core::time::Timestamp;
use everhook_store::batch::{BatchRecord, BatchStore, Resolved};
use everhook_store::catalog::{Created, Replaced, Slice};
use everhook_store::dedup::DedupKey;
use everhook_store::error::StoreError;
use everhook_store::job::{JobAttempt, JobFilter, JobRecord, JobStore};
use everhook_store::lease::NewSession;
use everhook_store::made::WithMade;
use everhook_store::piece::Piece;
use everhook_store::queue::{QueueCount, QueueDeleted, QueueStats, QueueStore};
use everhook_store::retention::{Prunable, Retention};
use everhook_store::schedule::{FiredAll, Run, ScheduleRecord, ScheduleStore};
use everhook_store::worker::{Takes, WorkerRecord, WorkerStore};

use crate::store::NodeStore;

#[async_trait]
impl JobStore for NodeStore {
    async fn find_job(&self, environment: EnvironmentId, id: JobId) -> Result<Option<JobRecord>, StoreError> {
        self.call("find job", self.shared.store.find_job(environment, id)).await
    }

    async fn list_jobs(
        &self,
        environment: EnvironmentId,
        filter: &JobFilter,
    ) -> Result<Piece<JobRecord, JobId>, StoreError> {
        self.call("list jobs", self.shared.store.list_jobs(environment, filter)).await
    }

    async fn list_job_attempts(
        &self,
        environment: EnvironmentId,
        id: JobId,
        limit: usize,
    ) -> Result<Vec<JobAttempt>, StoreError> {
        self.call("list job attempts", self.shared.store.list_job_attempts(environment, id, limit)).await
    }

    async fn change_jobs(
        &self,
        environment: EnvironmentId,
        ids: &[JobId],
        wish: Wish,
    ) -> Result<WithMade<Vec<Option<Plan>>>, StoreError> {
        self.call("change jobs", self.watched(self.shared.store.change_jobs(environment, ids, wish))).await
    }

    async fn report_progress(
        &self,
        environment: EnvironmentId,
        id: JobId,
        by: Tenure,
        progress: &Progress,
    ) -> Result<Result<(), NotYours>, StoreError> {
        self.call("progress", self.shared.store.report_progress(environment, id, by, progress)).await
    }

    async fn list_held(&self, session: SessionId) -> Result<Vec<Task>, StoreError> {
        self.call("list held", self.shared.store.list_held(session)).await
    }
}

#[async_trait]
impl QueueStore for NodeStore {
    async fn find_queue(&self, environment: EnvironmentId, name: &Name) -> Result<Option<Queue>, StoreError> {
        self.call("find queue", self.shared.store.find_queue(environment, name)).await
    }

    async fn list_queues(&self, environment: EnvironmentId, slice: &Slice<Name>) -> Result<Vec<Queue>, StoreError> {
        self.call("list queues", self.shared.store.list_queues(environment, slice)).await
    }

    async fn replace_queue(&self, environment: EnvironmentId, queue: &Queue) -> Result<Replaced<Queue>, StoreError> {
        self.call("replace queue", self.shared.store.replace_queue(environment, queue)).await
    }

    async fn delete_queue(&self, environment: EnvironmentId, name: &Name) -> Result<QueueDeleted, StoreError> {
        self.call("delete queue", self.shared.store.delete_queue(environment, name)).await
    }

    async fn list_targets(&self) -> Result<Vec<(EnvironmentId, Name)>, StoreError> {
        self.call("list targets", self.shared.store.list_targets()).await
    }

    async fn queue_stats(&self, environment: EnvironmentId, name: &Name) -> Result<QueueStats, StoreError> {
        self.call("queue stats", self.shared.store.queue_stats(environment, name)).await
    }

    async fn count_ended(&self, counts: &[QueueCount]) -> Result<(), StoreError> {
        self.call("count ended", self.shared.store.count_ended(counts)).await
    }
}

#[async_trait]
impl BatchStore for NodeStore {
    async fn create_batch(
        &self,
        environment: EnvironmentId,
        batch: &BatchRecord,
        key: Option<&DedupKey>,
    ) -> Result<Created<BatchRecord>, StoreError> {
        self.call("create batch", self.shared.store.create_batch(environment, batch, key)).await
    }

    async fn find_batch(&self, environment: EnvironmentId, id: BatchId) -> Result<Option<BatchRecord>, StoreError> {
        self.call("find batch", self.shared.store.find_batch(environment, id)).await
    }

    async fn list_batches(
        &self,
        environment: EnvironmentId,
        slice: &Slice<BatchId>,
    ) -> Result<Vec<BatchRecord>, StoreError> {
        self.call("list batches", self.shared.store.list_batches(environment, slice)).await
    }

    async fn seal_batch(
        &self,
        environment: EnvironmentId,
        id: BatchId,
    ) -> Result<WithMade<Option<BatchRecord>>, StoreError> {
        self.call("seal batch", self.watched(self.shared.store.seal_batch(environment, id))).await
    }

    async fn resolve_batch(
        &self,
        environment: EnvironmentId,
        id: BatchId,
        jobs: &[JobId],
        how: Resolution,
    ) -> Result<WithMade<Resolved>, StoreError> {
        self.call("resolve batch", self.watched(self.shared.store.resolve_batch(environment, id, jobs, how))).await
    }
}

#[async_trait]
impl ScheduleStore for NodeStore {
    async fn create_schedule(
        &self,
        environment: EnvironmentId,
        schedule: &ScheduleRecord,
        key: Option<&DedupKey>,
    ) -> Result<Created<ScheduleRecord>, StoreError> {
        self.call("create schedule", self.shared.store.create_schedule(environment, schedule, key)).await
    }

    async fn find_schedule(
        &self,
        environment: EnvironmentId,
        name: &Name,
    ) -> Result<Option<ScheduleRecord>, StoreError> {
        self.call("find schedule", self.shared.store.find_schedule(environment, name)).await
    }

    async fn list_schedules(
        &self,
        environment: EnvironmentId,
        slice: &Slice<Name>,
    ) -> Result<Piece<ScheduleRecord, Name>, StoreError> {
        self.call("list schedules", self.shared.store.list_schedules(environment, slice)).await
    }

    async fn replace_schedule(
        &self,
        environment: EnvironmentId,
        schedule: &ScheduleRecord,
    ) -> Result<Replaced<ScheduleRecord>, StoreError> {
        self.call("replace schedule", self.shared.store.replace_schedule(environment, schedule)).await
    }

    async fn delete_schedule(&self, environment: EnvironmentId, name: &Name) -> Result<bool, StoreError> {
        self.call("delete schedule", self.shared.store.delete_schedule(environment, name)).await
    }

    async fn fire_due(&self, limit: usize) -> Result<FiredAll, StoreError> {
        self.call("fire", self.shared.store.fire_due(limit)).await
    }

    async fn run_schedule(&self, environment: EnvironmentId, name: &Name) -> Result<WithMade<Option<Run>>, StoreError> {
        self.call("run schedule", self.shared.store.run_schedule(environment, name)).await
    }

    async fn list_runs(
        &self,
        environment: EnvironmentId,
        id: ScheduleId,
        limit: usize,
    ) -> Result<Vec<Run>, StoreError> {
        self.call("list runs", self.shared.store.list_runs(environment, id, limit)).await
    }
}

#[async_trait]
impl WorkerStore for NodeStore {
    async fn open_worker(&self, session: &NewSession, takes: &Takes) -> Result<(), StoreError> {
        self.call("open worker", self.shared.store.open_worker(session, takes)).await
    }

    async fn replace_takes(&self, session: SessionId, takes: &Takes) -> Result<(), StoreError> {
        self.call("replace takes", self.shared.store.replace_takes(session, takes)).await
    }

    async fn find_worker(&self, environment: EnvironmentId, id: SessionId) -> Result<Option<WorkerRecord>, StoreError> {
        self.call("find worker", self.shared.store.find_worker(environment, id)).await
    }

    async fn list_workers(&self, environment: EnvironmentId) -> Result<Vec<WorkerRecord>, StoreError> {
        self.call("list workers", self.shared.store.list_workers(environment)).await
    }
}

#[async_trait]
impl Retention for NodeStore {
    async fn prune(&self, what: Prunable, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.call("prune", self.shared.store.prune(what, before, limit)).await
    }
}
