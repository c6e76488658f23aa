//! An application whose endpoints all hang, beside the application of the clients.

use std::sync::Arc;

use bytes::Bytes;
use everhook_core::id::{ApplicationId, Id, MessageId};
use everhook_core::message::{Message, Rest};
use everhook_core::time::Timestamp;
use everhook_store::lease::NewMessage;

use crate::client::ENVIRONMENT;
use crate::world::{Nodes, Shared};

pub(crate) const NEIGHBOUR: ApplicationId = ApplicationId(Id::MAX);
/// The number of its first endpoint.
pub(crate) const FIRST: usize = 100;
/// Messages to each of its endpoints.
const MESSAGES: usize = 5;

/// Whether an endpoint belongs to the crowd.
pub(crate) fn has(endpoint: usize) -> bool {
    (FIRST..usize::from(u8::MAX)).contains(&endpoint)
}

/// Sends messages to the crowd. Nothing fails in a world with a crowd, so that each is accepted.
pub(crate) async fn send(shared: &Arc<Shared>, nodes: &Nodes) {
    for number in 0..MESSAGES {
        let engine = Arc::clone(&nodes.pick(&shared.rng).engine);
        let message = Message {
            id: MessageId(engine.new_id()),
            application: NEIGHBOUR,
            event_type: "sim.event".parse().expect("a name"),
            event_id: None,
            channels: Vec::new(),
            tags: Vec::new(),
            payload: Some(Bytes::from(format!("{{\"crowd\":{number}}}"))),
            created_at: Timestamp::default(),
            rest: Rest::default(),
        };
        engine.accept(NewMessage::new(ENVIRONMENT, message)).await.expect("a store without faults");
    }
}
