//! Batches: sets of jobs whose outcome is announced, once per phase. The rules are in `core::batch`.

use async_trait::async_trait;
use everhook_core::batch::{BadSelection, Batch, Resolution};
use everhook_core::id::{ApplicationId, BatchId, EnvironmentId, JobId};
use everhook_core::name::{Metadata, Name};
use everhook_core::time::Timestamp;

use crate::catalog::{Created, Slice};
use crate::dedup::DedupKey;
use crate::error::StoreError;

/// A batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchRecord {
    /// Its id.
    pub id: BatchId,
    /// Whose messages its announcements are.
    pub application: ApplicationId,
    /// A text for people.
    pub name: String,
    /// What the types of its announcements begin with.
    pub prefix: Name,
    /// Never interpreted.
    pub metadata: Metadata,
    /// When it was created.
    pub created_at: Timestamp,
    /// Where it stands.
    pub batch: Batch,
}

/// What became of a wish to retry or to skip jobs of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// The batch, in its new phase.
    Done(BatchRecord),
    /// Nothing was changed.
    Bad(BadSelection),
    /// There is no such batch.
    NoBatch,
}

/// Batches.
#[async_trait]
pub trait BatchStore: Send + Sync {
    /// Creates a batch without jobs. `created_at` and `batch` are the store's to set.
    async fn create_batch(
        &self,
        environment: EnvironmentId,
        batch: &BatchRecord,
        key: Option<&DedupKey>,
    ) -> Result<Created<BatchRecord>, StoreError>;

    /// Finds a batch.
    async fn find_batch(&self, environment: EnvironmentId, id: BatchId) -> Result<Option<BatchRecord>, StoreError>;

    /// Lists batches by id.
    async fn list_batches(
        &self,
        environment: EnvironmentId,
        slice: &Slice<BatchId>,
    ) -> Result<Vec<BatchRecord>, StoreError>;

    /// Takes no more jobs; announces that all have ended, if they have. Repeating it is harmless.
    async fn seal_batch(&self, environment: EnvironmentId, id: BatchId) -> Result<Option<BatchRecord>, StoreError>;

    /// Retries or skips dead jobs of a batch, all of them or none: the new phase is opened first.
    async fn resolve_batch(
        &self,
        environment: EnvironmentId,
        id: BatchId,
        jobs: &[JobId],
        how: Resolution,
    ) -> Result<Resolved, StoreError>;
}
