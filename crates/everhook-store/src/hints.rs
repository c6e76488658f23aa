//! Wake-ups between the nodes that share a store.
//!
//! Wake-ups are hints: each may get lost, arrive late, arrive twice or arrive for no reason. A node that waits for one
//! also polls at an interval. Not every store offers wake-ups, see [`Store::hints`](crate::store::Store::hints).

use async_trait::async_trait;

use crate::error::StoreError;

/// A channel to the other nodes. A failure costs only latency; the caller tries again later.
#[async_trait]
pub trait Hints: Send + Sync {
    /// Tells the other nodes that there may be work. Called after the commit of that work, never inside a transaction.
    async fn notify(&self) -> Result<(), StoreError>;

    /// Waits for a wake-up of another node. Also returns when the connection was lost and is back, because a wake-up
    /// may have been missed.
    async fn next(&self) -> Result<(), StoreError>;
}
