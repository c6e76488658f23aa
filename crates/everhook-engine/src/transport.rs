//! How a request leaves the node: through the sender, or through the simulator's network.

use async_trait::async_trait;
use everhook_core::outcome::{Reply, SendFailure};
use everhook_sender::{Request, Sender};

/// Carries one request to its receiver and brings back what came of it.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Sends once; never by itself a second time.
    async fn send(&self, request: Request) -> Result<Reply, SendFailure>;
}

#[async_trait]
impl Transport for Sender {
    async fn send(&self, request: Request) -> Result<Reply, SendFailure> {
        Sender::send(self, request).await
    }
}
