//! The simulated receivers and the network to them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use everhook_core::exchange::Exchange;
use everhook_core::outcome::{Class, Reply, SendFailure};
use everhook_engine::transport::Transport;
use everhook_sender::Request;

use crate::crowd;
use crate::gate::{Gate, Health};
use crate::world::Shared;

/// The total time limit of an attempt, which the real sender enforces itself.
const SEND_DEADLINE: Duration = Duration::from_secs(15);

/// The endpoint number that stands for the target of a queue.
pub(crate) const JOBS: usize = usize::MAX;

/// A payload with this suffix crashes the node every time it sends the message to the first endpoint.
pub(crate) const POISON: &[u8] = b"\"poison\"}";

/// A request that reached a receiver.
#[derive(Clone, Debug)]
pub(crate) struct Receipt {
    pub(crate) message: String,
    pub(crate) endpoint: usize,
    pub(crate) body: Bytes,
    /// True if the receiver answered 2xx.
    pub(crate) taken: bool,
    /// The virtual time at which the node began the request.
    pub(crate) begun: Duration,
    /// The virtual time of the request's arrival.
    pub(crate) at: Duration,
    /// The virtual time of the reply's arrival at the node; none if the node died before.
    pub(crate) ended: Option<Duration>,
}

/// The network as seen by one node.
pub(crate) struct NodeNetwork {
    pub(crate) shared: Arc<Shared>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) node: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behaviour {
    Answer(u16),
    /// The receiver takes the request and answers 200, but the reply is lost.
    ReplyLost,
    Hang,
    Refuse,
}

#[async_trait]
impl Transport for NodeNetwork {
    async fn send(&self, request: Request, _: &mut Exchange) -> Result<Reply, SendFailure> {
        let begun = self.shared.trace.elapsed();
        self.gate.pass().await;
        self.latency(Duration::from_millis(20)).await;
        self.gate.pass().await;
        let endpoint: usize = request.url.rsplit('/').next().and_then(|number| number.parse().ok()).unwrap_or(JOBS);
        if crowd::has(endpoint) {
            let hangs = self.shared.crowd_hangs();
            return self.answer(if hangs { Behaviour::Hang } else { Behaviour::Answer(200) }).await;
        }
        let behaviour = self.behave();
        if behaviour == Behaviour::Refuse {
            return Err(failure(Class::Connect));
        }
        let message = request.headers.get("webhook-id").and_then(|id| id.to_str().ok()).unwrap_or_default().to_owned();
        let taken = matches!(behaviour, Behaviour::Answer(200) | Behaviour::ReplyLost);
        self.shared.trace.event(format_args!("node {} sends {message} to {endpoint}: {behaviour:?}", self.node));
        let (at, poison) = (self.shared.trace.elapsed(), endpoint == 0 && request.body.ends_with(POISON));
        let taken = taken && !poison;
        let receipt = Receipt { message, endpoint, body: request.body, taken, begun, at, ended: None };
        let number = self.shared.receive(receipt);
        if poison {
            self.gate.set(Health::Dead);
        }
        let answer = self.answer(behaviour).await;
        self.gate.pass().await;
        self.shared.answered(number);
        answer
    }
}

impl NodeNetwork {
    fn behave(&self) -> Behaviour {
        let rng = &self.shared.rng;
        if self.shared.is_throttling() && !rng.once_in(4) {
            return Behaviour::Answer(429);
        }
        if !rng.once_in(self.shared.network_fault_odds()) {
            return Behaviour::Answer(200);
        }
        let faults = [
            Behaviour::Answer(500),
            Behaviour::Answer(429),
            Behaviour::Answer(503),
            Behaviour::ReplyLost,
            Behaviour::Hang,
            Behaviour::Refuse,
        ];
        *rng.pick(&faults)
    }

    async fn answer(&self, behaviour: Behaviour) -> Result<Reply, SendFailure> {
        match behaviour {
            Behaviour::Answer(status) => {
                // A send sometimes takes far longer than the lease. A node that is alive must keep its tasks during
                // that time.
                let longest = if self.shared.crowd == 0 && self.shared.rng.once_in(20) {
                    SEND_DEADLINE
                } else {
                    Duration::from_millis(50)
                };
                self.latency(longest).await;
                let retry_after = (status == 429).then(|| self.shared.rng.below(4).to_string());
                Ok(Reply { status, retry_after, wish: None, body: Bytes::new() })
            }
            Behaviour::ReplyLost => {
                self.latency(Duration::from_millis(50)).await;
                Err(failure(Class::Reset))
            }
            Behaviour::Hang => {
                tokio::time::sleep(SEND_DEADLINE).await;
                Err(failure(Class::Timeout))
            }
            Behaviour::Refuse => Err(failure(Class::Connect)),
        }
    }

    async fn latency(&self, longest: Duration) {
        tokio::time::sleep(self.shared.rng.between(Duration::from_micros(100), longest)).await;
    }
}

fn failure(class: Class) -> SendFailure {
    SendFailure::new(class, format!("simulated {class}"))
}
