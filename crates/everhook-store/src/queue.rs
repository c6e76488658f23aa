//! Queues: how they are configured, and how much is in them.

use std::time::Duration;

use async_trait::async_trait;
use everhook_core::id::EnvironmentId;
use everhook_core::name::Name;
use everhook_core::queue::Queue;

use crate::catalog::{Replaced, Slice};
use crate::error::StoreError;

/// Rows that are counted for statistics; more are told as this many.
pub const QUEUE_COUNTED_MAX: usize = 100_000;
/// Due jobs whose kinds are looked at.
pub const QUEUE_KINDS_LOOKED_AT: usize = 100;

/// How much is in a queue. Counts end at `QUEUE_COUNTED_MAX`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Waiting, due or not.
    pub pending: u64,
    /// Waiting although due.
    pub due: u64,
    /// With a worker.
    pub running: u64,
    /// Given up.
    pub dead: u64,
    /// How long the one has waited that has been due longest.
    pub oldest_due: Option<Duration>,
    /// Attempts that ended within the last whole minute.
    pub ended_last_minute: u64,
    /// The kinds of the jobs that have been due longest.
    pub due_kinds: Vec<Name>,
}

/// What became of the deletion of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueDeleted {
    /// It is gone, with its configuration.
    Done,
    /// There is none.
    NoQueue,
    /// It has jobs that wait, run or are dead; nothing was changed.
    HasJobs,
}

/// Attempts that ended on a queue since they were last told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueCount {
    /// The tenant.
    pub environment: EnvironmentId,
    /// The queue.
    pub name: Name,
    /// How many.
    pub ended: u64,
}

/// Queues.
#[async_trait]
pub trait QueueStore: Send + Sync {
    /// A queue that was configured, or that has or had a job; none if neither.
    async fn find_queue(&self, environment: EnvironmentId, name: &Name) -> Result<Option<Queue>, StoreError>;

    /// Lists queues by name: those that were configured, and those that have or had a job.
    async fn list_queues(&self, environment: EnvironmentId, slice: &Slice<Name>) -> Result<Vec<Queue>, StoreError>;

    /// Changes a queue that was read at `queue.revision`, or configures one (revision 0). Whoever leases next obeys.
    async fn replace_queue(&self, environment: EnvironmentId, queue: &Queue) -> Result<Replaced<Queue>, StoreError>;

    /// Deletes a queue that has no open job. Records of jobs that ended stay; the next job makes the queue anew, without limits.
    async fn delete_queue(&self, environment: EnvironmentId, name: &Name) -> Result<QueueDeleted, StoreError>;

    /// The open queues that have a target, of all environments.
    async fn list_targets(&self) -> Result<Vec<(EnvironmentId, Name)>, StoreError>;

    /// How much is in a queue.
    async fn queue_stats(&self, environment: EnvironmentId, name: &Name) -> Result<QueueStats, StoreError>;

    /// Adds to how many attempts ended this minute.
    async fn count_ended(&self, counts: &[QueueCount]) -> Result<(), StoreError>;
}
