//! Wake-ups between nodes that share a store.
//!
//! Hints and no more: every one of them may be lost, come late, come twice or come for nothing. Whoever waits for one
//! also looks by itself at the poll interval. A store offers them where it can, see
//! [`Store::hints`](crate::store::Store::hints).

use async_trait::async_trait;

use crate::error::StoreError;

/// A line to the other nodes. Failures cost latency only; the caller tries again later.
#[async_trait]
pub trait Hints: Send + Sync {
    /// Tells the other nodes that there may be work. Never part of a transaction: what it is about is committed
    /// already.
    async fn notify(&self) -> Result<(), StoreError>;

    /// Waits until another node told of work, or may have: it also returns when the line was down and is up again.
    async fn next(&self) -> Result<(), StoreError>;
}
