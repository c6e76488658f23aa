//! The way of a request out of the node: the sender, or the network of the simulator.

use async_trait::async_trait;
use everhook_core::exchange::Exchange;
use everhook_core::outcome::{Reply, SendFailure};
use everhook_sender::{Request, Sender};

/// Sends a request to its receiver and returns the reply.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Sends the request exactly once; retries are decided elsewhere. Notes each step in `exchange` when it ends.
    async fn send(&self, request: Request, exchange: &mut Exchange) -> Result<Reply, SendFailure>;
}

#[async_trait]
impl Transport for Sender {
    async fn send(&self, request: Request, exchange: &mut Exchange) -> Result<Reply, SendFailure> {
        self.send_noting(request, exchange).await
    }
}
