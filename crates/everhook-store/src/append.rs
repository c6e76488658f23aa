//! What an append does, whatever the store: judge the keys, plan the tasks.
//!
//! Pure but for ids and slots. The stores call it between reading what is taken and writing what is new.

use std::sync::Arc;

use everhook_core::endpoint::Endpoint;
use everhook_core::fanout;
use everhook_core::id::{EnvironmentId, Id, LaneId, MessageId, TaskId};
use everhook_core::message::Message;
use everhook_core::task::{PRIORITY_DEFAULT, Task, TaskKey, TaskKind, Trigger};
use everhook_core::time::Timestamp;

use crate::cache::EndpointSet;
use crate::capacity::Slot;
use crate::dedup::{DedupKey, DedupScope, HASH_BYTES};
use crate::ids::Ids;
use crate::lease::{Appended, Leased, Work};

/// Who holds a key that could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHolder {
    /// The object that was accepted under it.
    pub object: Id,
    /// The hash of what came with it.
    pub body: [u8; HASH_BYTES],
}

/// What a message is told whose keys are not all its own; `taken` lists the ones that are not, with their holders.
pub fn judge(taken: &[(&DedupKey, KeyHolder)]) -> Option<Appended> {
    let by_scope = |scope| taken.iter().find(|(key, _)| key.scope == scope);
    // The idempotency key first: a repeated request also repeats its event id, and that is no conflict.
    if let Some((key, holder)) = by_scope(DedupScope::Idempotency) {
        let same = key.body == holder.body;
        return Some(if same { Appended::Repeated(MessageId(holder.object)) } else { Appended::KeyReused });
    }
    // So does a row that is relayed again.
    if let Some((_, holder)) = by_scope(DedupScope::Outbox) {
        return Some(Appended::Repeated(MessageId(holder.object)));
    }
    by_scope(DedupScope::EventId).map(|_| Appended::EventIdTaken)
}

/// The keys that a suppressed message keeps, for the one it was suppressed by: relayed again, an outbox's row must neither be counted
/// again nor win a phase that was opened since. A caller, in contrast, may try again.
pub fn kept_by_suppressed(keys: &[DedupKey]) -> impl Iterator<Item = &DedupKey> {
    keys.iter().filter(|key| key.scope == DedupScope::Outbox)
}

/// A delivery to write.
#[derive(Debug)]
pub struct PlannedTask {
    /// The row: leased with epoch 1 if there is a slot, else pending with epoch 0.
    pub task: Task,
    /// Where it goes.
    pub endpoint: Arc<Endpoint>,
    /// Held where the task is this node's already.
    pub slot: Option<Slot>,
}

/// Plans the deliveries of one message: one for each endpoint that wants it, due now or at a later `deliver_at`.
pub fn plan(
    environment: EnvironmentId,
    message: &Message,
    endpoints: &EndpointSet,
    ids: &Ids,
    now: Timestamp,
    deliver_at: Option<Timestamp>,
    mut take_slot: impl FnMut(LaneId) -> Option<Slot>,
) -> Vec<PlannedTask> {
    let due_at = deliver_at.map_or(now, |at| at.max(now));
    let wanting =
        endpoints.endpoints.iter().filter(|e| fanout::wants(e, &message.event_type, &message.channels)).cloned();
    wanting
        .map(|endpoint| {
            let lane = endpoint.id.lane();
            // What is not due yet waits like a retry: it takes no slot, and nothing waits behind it.
            let slot = if due_at > now { None } else { take_slot(lane) };
            let key = TaskKey { environment, subject: message.id.0, id: TaskId(ids.next(now)) };
            let task = Task { epoch: u32::from(slot.is_some()), ..new_delivery(key, lane, Trigger::Scheduled, due_at) };
            PlannedTask { task, endpoint, slot }
        })
        .collect()
}

/// The row of a delivery that nobody has touched.
pub fn new_delivery(key: TaskKey, lane: LaneId, trigger: Trigger, due_at: Timestamp) -> Task {
    Task {
        key,
        lane,
        kind: TaskKind::Delivery,
        trigger,
        priority: PRIORITY_DEFAULT,
        due_at,
        tries: 0,
        crashes: 0,
        epoch: 0,
        cancel: false,
        batch: None,
    }
}

/// The answer to a message whose plan was written.
pub fn accepted(message: Arc<Message>, tasks: Vec<PlannedTask>) -> Appended {
    let mut leased = Vec::new();
    let mut pending = 0;
    for planned in tasks {
        match planned.slot {
            Some(slot) => {
                let (message, endpoint) = (Some(Arc::clone(&message)), Some(planned.endpoint));
                leased.push((Leased { task: planned.task, work: Work::Delivery { message, endpoint } }, slot));
            }
            None => pending += 1,
        }
    }
    Appended::Accepted { message, leased, pending }
}
