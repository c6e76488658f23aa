//! What waits in a store, and how busy its connections are: for those who watch, never for those who decide.

use std::time::Duration;

/// How much waits. Counted up to `BACKLOG_COUNTED_MAX`, so that looking costs the same however much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Tasks that wait for a lease, due or not.
    pub pending: u64,
    /// Tasks that wait for an operator.
    pub dead: u64,
    /// How long the oldest task that is due has waited, in the `BACKLOG_LANES_MAX` lanes whose turn it has been longest; zero where
    /// none is. A lane that rests is counted from the end of its rest.
    pub due_for: Duration,
}

/// The connections of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolUse {
    /// There may be so many.
    pub max: usize,
    /// Someone uses so many of them.
    pub busy: usize,
    /// So many callers wait for one, as far as the store knows.
    pub waiting: usize,
}
