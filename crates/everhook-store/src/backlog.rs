//! Figures for monitoring: waiting tasks and busy connections. No decision depends on them.

use std::time::Duration;

/// The number of waiting tasks. Counting stops at `BACKLOG_COUNTED_MAX`, so that the cost does not grow with the
/// backlog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Tasks that wait for a lease, whether they are due or not.
    pub pending: u64,
    /// Dead tasks, which wait for an operator.
    pub dead: u64,
    /// The waiting time of the oldest due task in the `BACKLOG_LANES_MAX` lanes that have waited longest for their
    /// turn; zero if no task is due. The time of a resting lane starts at the end of its rest.
    pub due_for: Duration,
    /// Endpoints whose circuit breaker is not closed.
    pub breakers: u64,
}

/// The open tasks of an environment. Counting stops at `OVERVIEW_TASKS_MAX` for each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenCounts {
    /// Tasks that wait for a lease, whether they are due or not.
    pub pending: u64,
    /// Pending tasks that are due, in lanes that are not held.
    pub due: u64,
    /// Pending tasks that were tried before.
    pub retrying: u64,
    pub leased: u64,
    pub dead: u64,
    /// The dead tasks that are jobs.
    pub dead_jobs: u64,
    /// The waiting time of the counted task that has been due longest.
    pub oldest_due: Option<Duration>,
}

/// The waiting and dead deliveries of one endpoint. Counting stops at `OVERVIEW_TASKS_MAX` for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneCounts {
    /// Pending tasks that are due, if the lane is not held.
    pub due: u64,
    pub dead: u64,
    /// The waiting time of the task that has been due longest.
    pub oldest_due: Option<Duration>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolUse {
    /// The size of the pool.
    pub max: usize,
    /// Connections in use.
    pub busy: usize,
    /// Callers that wait for a connection, as far as the store knows.
    pub waiting: usize,
}
