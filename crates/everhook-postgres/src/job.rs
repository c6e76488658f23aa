//! Jobs: found, listed, steered. Enqueue, lease and batches have files of their own; they settle with deliveries, in `settle`.

pub(crate) mod batch;
pub(crate) mod change;
pub(crate) mod enqueue;
pub(crate) mod gate;
pub(crate) mod lease;
pub(crate) mod list;
pub(crate) mod output;

use async_trait::async_trait;
use everhook_core::id::{EnvironmentId, JobId, SessionId};
use everhook_core::job::report::Progress;
use everhook_core::job::{NotYours, Plan, Tenure, Wish};
use everhook_core::task::Task;
use everhook_store::error::StoreError;
use everhook_store::job::{JobAttempt, JobFilter, JobRecord, JobStore};
use everhook_store::piece::Piece;

use crate::partition::Week;
use crate::store::PostgresStore;

#[async_trait]
impl JobStore for PostgresStore {
    async fn find_job(&self, environment: EnvironmentId, id: JobId) -> Result<Option<JobRecord>, StoreError> {
        self.run_plain("find a job", || self.find_job_once(environment, id)).await
    }

    async fn list_jobs(
        &self,
        environment: EnvironmentId,
        filter: &JobFilter,
    ) -> Result<Piece<JobRecord, JobId>, StoreError> {
        self.run_search(environment, "list jobs", || self.list_jobs_once(environment, filter)).await
    }

    async fn list_job_attempts(
        &self,
        environment: EnvironmentId,
        id: JobId,
        limit: usize,
    ) -> Result<Vec<JobAttempt>, StoreError> {
        self.run_search(environment, "list attempts of a job", || self.list_job_attempts_once(environment, id, limit))
            .await
    }

    async fn change_jobs(
        &self,
        environment: EnvironmentId,
        ids: &[JobId],
        wish: Wish,
    ) -> Result<Vec<Option<Plan>>, StoreError> {
        self.run(
            "change jobs",
            || ids.iter().map(|id| Week::of(&id.0)).collect(),
            || self.change_jobs_once(environment, ids, wish),
        )
        .await
    }

    async fn report_progress(
        &self,
        environment: EnvironmentId,
        id: JobId,
        by: Tenure,
        progress: &Progress,
    ) -> Result<Result<(), NotYours>, StoreError> {
        self.run_plain("report progress", || self.report_progress_once(environment, id, by, progress)).await
    }

    async fn list_held(&self, session: SessionId) -> Result<Vec<Task>, StoreError> {
        self.run_plain("list held jobs", || self.list_held_once(session)).await
    }
}
