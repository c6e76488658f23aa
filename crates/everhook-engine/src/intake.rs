//! The way in for new work: messages and jobs, committed in groups.

use everhook_store::error::StoreError;

pub(crate) mod accept;
pub(crate) mod coalescer;
pub(crate) mod enqueue;

/// Why new work was not accepted, or perhaps not.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// The store could not tell.
    #[error("the store failed")]
    Store(#[source] StoreError),
    /// Too many requests are waiting already.
    #[error("too many messages are waiting to be written")]
    Overloaded,
    /// The node is on its way out.
    #[error("the node is stopping")]
    Stopping,
}
