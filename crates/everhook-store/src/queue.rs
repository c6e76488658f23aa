//! Queues: how they are configured, and how much is in them.

use std::time::Duration;

use everhook_core::id::EnvironmentId;
use everhook_core::name::Name;

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
