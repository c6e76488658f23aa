//! The decisions of an append that both stores share: the answer to used keys, and the plan of the deliveries.
//!
//! Pure except for the ids and slots that it takes. A store calls it after it has read the used keys and before it
//! writes new rows.

use std::sync::Arc;

use everhook_core::endpoint::Endpoint;
use everhook_core::fanout::Audience;
use everhook_core::filter::Facts;
use everhook_core::id::{EndpointId, EnvironmentId, Id, LaneId, MessageId, TaskId};
use everhook_core::message::Message;
use everhook_core::policy::breaker::Breaker;
use everhook_core::policy::order::KeyPlace;
use everhook_core::task::{Task, TaskKey, TaskKind, Trigger};
use everhook_core::time::Timestamp;

use crate::cache::EndpointSet;
use crate::capacity::Slot;
use crate::dedup::{DedupKey, DedupScope, HASH_BYTES};
use crate::ids::Ids;
use crate::lease::{Addressing, Appended, Leased, Work};

/// The object that was accepted earlier under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHolder {
    pub object: Id,
    /// The hash of the body that came with the key.
    pub body: [u8; HASH_BYTES],
}

/// Returns the answer to a message if one of its keys was used before. `taken` lists the used keys with their holders.
pub fn judge(taken: &[(&DedupKey, KeyHolder)]) -> Option<Appended> {
    let by_scope = |scope| taken.iter().find(|(key, _)| key.scope == scope);
    // The idempotency key goes first: a repeated request also repeats its event id, which is no conflict.
    if let Some((key, holder)) = by_scope(DedupScope::Idempotency) {
        let same = key.body == holder.body;
        return Some(if same { Appended::Repeated(MessageId(holder.object)) } else { Appended::KeyReused });
    }
    // A row that is relayed again also repeats its event id.
    if let Some((_, holder)) = by_scope(DedupScope::Outbox) {
        return Some(Appended::Repeated(MessageId(holder.object)));
    }
    by_scope(DedupScope::EventId).map(|_| Appended::EventIdTaken)
}

/// Returns the keys that a suppressed message keeps: only those of outbox rows.
///
/// A row may be relayed again after a crash. Its key then prevents the row from being counted twice, and from winning a
/// phase that was opened in the meantime. A caller of the API, in contrast, may try again with the same keys.
pub fn kept_by_suppressed(keys: &[DedupKey]) -> impl Iterator<Item = &DedupKey> {
    keys.iter().filter(|key| key.scope == DedupScope::Outbox)
}

#[derive(Debug)]
pub struct PlannedTask {
    /// The row: leased with epoch 1 if the node has a slot, otherwise pending with epoch 0.
    pub task: Task,
    pub endpoint: Arc<Endpoint>,
    /// The slot of a task that is inserted already leased to this node.
    pub slot: Option<Slot>,
    /// The place in the order of its key, if the endpoint has one.
    pub place: Option<KeyPlace>,
}

/// The condition under which a delivery takes a position at the end of its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakesPosition {
    /// Always: the lane is ordered.
    Always,
    /// Only if the lane's last position is ahead of the clock. The caller does not know whether the lane is ordered.
    Behind,
}

impl PlannedTask {
    /// Whether the delivery takes a position at the end of an ordered lane. A delivery with a later `deliver_at` does
    /// not: that time is its position.
    pub fn takes_position(&self, now: Timestamp) -> bool {
        let is_ordered = || self.place.is_some() || self.endpoint.limits().order.is_some();
        self.slot.is_none() && self.task.due_at <= now && is_ordered()
    }
}

/// Plans the deliveries of one message: one for each endpoint of its audience that is not polled, due now or at a later
/// `deliver_at`.
pub fn plan(
    environment: EnvironmentId,
    message: &Message,
    endpoints: &EndpointSet,
    ids: &Ids,
    now: Timestamp,
    Addressing { audience, deliver_at }: Addressing,
    mut take_slot: impl FnMut(&Endpoint) -> Option<Slot>,
) -> Vec<PlannedTask> {
    let due_at = deliver_at.map_or(now, |at| at.max(now));
    let facts = Facts::of(message);
    receivers(&facts, endpoints, audience)
        .filter(|endpoint| !endpoint.is_polled())
        .cloned()
        .map(|endpoint| {
            let lane = endpoint.id.lane();
            // A delivery that is not due yet waits like a retry: it takes no slot, and no other delivery waits behind
            // it.
            let slot = if due_at > now { None } else { take_slot(&endpoint) };
            let key = TaskKey { environment, subject: message.id.0, id: TaskId(ids.next(now)) };
            let rule = if slot.is_some() || due_at > now { None } else { endpoint.key_rule() };
            let place = rule.map(|rule| rule.place(facts.payload()));
            let task = Task {
                epoch: u32::from(slot.is_some()),
                order_key: place.map(|place| place.key),
                ..new_delivery(key, lane, Trigger::Scheduled, due_at)
            };
            PlannedTask { task, endpoint, slot, place }
        })
        .collect()
}

/// Returns the endpoints that a message is for.
fn receivers<'e>(
    facts: &'e Facts<'_>,
    endpoints: &'e EndpointSet,
    audience: Audience,
) -> impl Iterator<Item = &'e Arc<Endpoint>> {
    endpoints.endpoints.iter().filter(move |endpoint| audience.includes(endpoint, facts))
}

/// Returns the polled endpoints that a message is for, and the time from which readers see it.
pub fn plan_polled(
    message: &Message,
    endpoints: &EndpointSet,
    now: Timestamp,
    Addressing { audience, deliver_at }: Addressing,
) -> Vec<(EndpointId, Timestamp)> {
    if !endpoints.has_polled {
        return Vec::new();
    }
    let due_at = deliver_at.map_or(now, |at| at.max(now));
    let facts = Facts::of(message);
    let polled = receivers(&facts, endpoints, audience).filter(|endpoint| endpoint.is_polled());
    polled.map(|endpoint| (endpoint.id, due_at)).collect()
}

/// Returns the row of a delivery before its first lease.
pub fn new_delivery(key: TaskKey, lane: LaneId, trigger: Trigger, due_at: Timestamp) -> Task {
    Task { trigger, ..Task::new(key, lane, TaskKind::Delivery, due_at) }
}

/// Returns the answer to a message whose plan was written.
pub fn accepted(message: Arc<Message>, tasks: Vec<PlannedTask>) -> Appended {
    let mut leased = Vec::new();
    let mut pending = 0;
    for planned in tasks {
        match planned.slot {
            Some(slot) => {
                let (message, endpoint) = (Some(Arc::clone(&message)), Some(planned.endpoint));
                let work = Work::Delivery { message, endpoint };
                // Endpoints with a breaker do not use the fast path.
                leased.push((Leased { task: planned.task, work, breaker: Breaker::default() }, slot));
            }
            None => pending += 1,
        }
    }
    Appended::Accepted { message, leased, pending }
}
