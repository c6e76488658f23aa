//! The intake commits new messages and jobs in groups.

use everhook_store::error::StoreError;

use crate::quotas::OverQuota;

pub(crate) mod accept;
pub(crate) mod coalescer;
pub(crate) mod enqueue;

/// The reasons why new work was not accepted, or may not have been.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// The write failed, or its result is unknown.
    #[error("the store failed")]
    Store(#[source] StoreError),
    /// The queue of waiting requests stayed full until the deadline.
    #[error("too many requests are waiting to be written")]
    Overloaded,
    #[error("the node is stopping")]
    Stopping,
    /// The environment or the application has used up a quota.
    #[error("a quota is used up")]
    OverQuota(OverQuota),
}
