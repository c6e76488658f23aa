//! What the API needs of the node it runs in. Implemented by the engine's glue, and by tests.

use std::sync::Arc;

use async_trait::async_trait;
use everhook_core::id::{Id, MessageId};
use everhook_core::message::Message;
use everhook_core::time::Timestamp;
use everhook_store::error::StoreError;
use everhook_store::lease::NewMessage;

/// The only way messages enter, and what a node knows that handlers must not find out for themselves.
#[async_trait]
pub trait Accept: Send + Sync {
    /// Commits a message with every delivery it causes; returns when that is durable.
    async fn accept(&self, message: NewMessage) -> Result<Accepted, AcceptError>;

    /// Tells that there may be pending work: after a resend, a redrive, the enabling of an endpoint.
    fn hint(&self);

    /// The store's time as the node knows it.
    fn now(&self) -> Timestamp;

    /// The next id.
    fn new_id(&self) -> Id;

    /// Whether the node can do its work; if not, why.
    fn ready(&self) -> Result<(), String>;
}

/// What became of a message.
#[derive(Clone, Debug)]
pub enum Accepted {
    /// Committed.
    New(Arc<Message>),
    /// The same request was accepted before, as this message.
    Repeated(MessageId),
    /// The idempotency key was used with another body.
    KeyReused,
    /// The event id was used before.
    EventIdTaken,
    /// There is no such application.
    NoApplication,
}

/// Why a message was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// The store could not tell.
    #[error("the store failed")]
    Store(#[source] StoreError),
    /// Too much is waiting already.
    #[error("too many messages are waiting to be written")]
    Overloaded,
    /// The node is on its way out.
    #[error("the server is stopping")]
    Stopping,
}
