//! Simulated clients. They send messages to any node, and repeat a message with the same key until it is acknowledged.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use everhook_core::id::{ApplicationId, EnvironmentId, Id, MessageId};
use everhook_core::message::{Message, Rest};
use everhook_core::time::Timestamp;
use everhook_store::dedup::DedupKey;
use everhook_store::lease::Appended;
use everhook_store::lease::NewMessage;

use crate::network::POISON;
use crate::world::{Nodes, Shared};

pub(crate) const ENVIRONMENT: EnvironmentId = EnvironmentId(1);
pub(crate) const APPLICATION: ApplicationId = ApplicationId(Id::MIN);

/// The longest wait of a client for an answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(12);
pub(crate) const TRIES: usize = 6;
/// The values of the member `k`, by which some endpoints order their deliveries.
const KEYS: usize = 3;

/// One client's message and the answers to it.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) body: Bytes,
    /// All ids under which the message may have been accepted, one per try.
    pub(crate) ids: Vec<MessageId>,
    /// The acknowledged id; none if the message was never acknowledged.
    pub(crate) acknowledged: Option<MessageId>,
    /// The virtual times of the first try, and of the acknowledgement.
    pub(crate) asked_at: Duration,
    pub(crate) told_at: Duration,
    /// The value of the member `k`; `KEYS` without it.
    pub(crate) key: usize,
}

/// Sends one message until it is acknowledged.
pub(crate) async fn send(shared: Arc<Shared>, nodes: Nodes, number: usize) -> Sent {
    let body = match number {
        0 if shared.poisoned => Bytes::from([b"{\"n\":", POISON].concat()),
        _ => Bytes::from(format!("{{\"n\":{number},\"k\":{}}}", number % KEYS)),
    };
    let key = DedupKey::request("POST", "/msg", &number.to_string(), &body);
    let asked_at = shared.trace.elapsed();
    let key_value = if number == 0 && shared.poisoned { KEYS } else { number % KEYS };
    let mut sent =
        Sent { body: body.clone(), ids: Vec::new(), acknowledged: None, asked_at, told_at: asked_at, key: key_value };
    for _ in 0..TRIES {
        let node = nodes.pick(&shared.rng);
        let engine = &node.engine;
        let id = MessageId(engine.new_id());
        sent.ids.push(id);
        let message = Message {
            id,
            application: APPLICATION,
            event_type: "sim.event".parse().expect("a name"),
            event_id: None,
            channels: Vec::new(),
            tags: Vec::new(),
            payload: Some(body.clone()),
            created_at: Timestamp::default(),
            rest: Rest::default(),
        };
        let new = NewMessage { keys: vec![key.clone()], ..NewMessage::new(ENVIRONMENT, message) };
        let answer = async {
            let answer = engine.accept(new).await;
            // The answer of a dead node reaches no client.
            node.gate.pass().await;
            answer
        };
        let told = match tokio::time::timeout(PATIENCE, answer).await {
            Ok(Ok(Appended::Accepted { message, .. })) => Some(message.id),
            Ok(Ok(Appended::Repeated(id))) => Some(id),
            Ok(Ok(other)) => panic!("message {number} was answered {other:?}"),
            Ok(Err(_)) | Err(_) => None,
        };
        shared.trace.event(format_args!("client {number} was told {told:?}"));
        if told.is_some() {
            (sent.acknowledged, sent.told_at) = (told, shared.trace.elapsed());
            break;
        }
        tokio::time::sleep(shared.rng.between(Duration::from_millis(50), Duration::from_secs(2))).await;
    }
    sent
}
