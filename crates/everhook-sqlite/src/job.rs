//! Jobs: the trait is mapped to files of their own: accepting them, leasing them, finding them, steering them.
//!
//! Settling is the engine's, in [`crate::settle`]; a batch is told of every end in [`crate::batch`].

use async_trait::async_trait;
use everhook_core::id::{EnvironmentId, JobId, SessionId};
use everhook_core::job::report::Progress;
use everhook_core::job::{NotYours, Plan, Tenure, Wish};
use everhook_core::task::Task;
use everhook_store::error::StoreError;
use everhook_store::job::{JobAttempt, JobFilter, JobRecord, JobStore};
use everhook_store::made::WithMade;
use everhook_store::piece::Piece;

use crate::SqliteStore;
use crate::writer::{Ask, Class};

pub(crate) mod enqueue;
pub(crate) mod find;
pub(crate) mod lease;
pub(crate) mod row;
pub(crate) mod steer;

#[async_trait]
impl JobStore for SqliteStore {
    async fn find_job(&self, environment: EnvironmentId, id: JobId) -> Result<Option<JobRecord>, StoreError> {
        self.read("find_job", move |conn| find::find(conn, environment, id)).await
    }

    async fn list_jobs(
        &self,
        environment: EnvironmentId,
        filter: &JobFilter,
    ) -> Result<Piece<JobRecord, JobId>, StoreError> {
        let filter = filter.clone();
        self.search(environment, "list_jobs", move |conn| find::list(conn, environment, &filter)).await
    }

    async fn list_job_attempts(
        &self,
        environment: EnvironmentId,
        id: JobId,
        limit: usize,
    ) -> Result<Vec<JobAttempt>, StoreError> {
        self.search(environment, "list_job_attempts", move |conn| find::list_attempts(conn, environment, id, limit))
            .await
    }

    async fn change_jobs(
        &self,
        environment: EnvironmentId,
        ids: &[JobId],
        wish: Wish,
    ) -> Result<WithMade<Vec<Option<Plan>>>, StoreError> {
        let ids = ids.to_vec();
        let ask = Ask { op: "change_jobs", class: Class::Change, rows: ids.len() };
        self.write(ask, move |tx| steer::change(tx, environment, &ids, wish)).await
    }

    async fn report_progress(
        &self,
        environment: EnvironmentId,
        id: JobId,
        by: Tenure,
        progress: &Progress,
    ) -> Result<Result<(), NotYours>, StoreError> {
        let progress = progress.clone();
        self.change("report_progress", move |tx| steer::report_progress(tx, environment, id, by, &progress)).await
    }

    async fn list_held(&self, session: SessionId) -> Result<Vec<Task>, StoreError> {
        self.read("list_held", move |conn| find::list_held(conn, session)).await
    }
}
