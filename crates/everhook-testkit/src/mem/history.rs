//! The history of messages, resends and redrives, as far as the model test compares them.

use std::collections::BTreeMap;
use std::sync::Arc;

use everhook_core::delivery::{DeliveryTrace, EndpointPresence, state};
use everhook_core::exchange::StoredExchange;
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, Id, LaneId, MessageId, TaskId};
use everhook_core::lane::HoldKind;
use everhook_core::lifecycle::EndState;
use everhook_core::message::Message;
use everhook_core::task::{Task, TaskKey, Trigger};
use everhook_core::time::Timestamp;
use everhook_store::append::new_delivery;
use everhook_store::history::{Attempt, Destination, Redrive, Resend, Resent};

use crate::mem::MemStore;
use crate::mem::append::{holder, keep_key};
use crate::mem::tables::{AttemptRow, Tables, TaskPlace};

impl MemStore {
    /// Returns the attempts of a message by id.
    pub fn attempts(&self, environment: EnvironmentId, message: MessageId) -> Vec<Attempt> {
        let (tables, _) = self.lock();
        let of =
            |((key, _), _): &(&(TaskKey, u32), &AttemptRow)| key.environment == environment && key.subject == message.0;
        let mut attempts: Vec<_> =
            tables.attempts.iter().filter(of).map(|((_, epoch), row)| shown(message, *epoch, row)).collect();
        attempts.sort_by_key(|attempt| attempt.id);
        attempts
    }

    /// Returns the state of a message for each of its endpoints, by endpoint id.
    pub fn destinations(&self, environment: EnvironmentId, message: MessageId) -> Vec<Destination> {
        let (tables, _) = self.lock();
        let lives = last_lives(&tables, environment, message.0);
        let shown = |(lane, life): (LaneId, Life)| {
            let (endpoint, deleted) = tables.endpoint(environment, EndpointId(lane.0))?;
            let presence = EndpointPresence::of(endpoint, deleted);
            let next_attempt = life.due_at.filter(|_| presence == EndpointPresence::Enabled);
            let endpoint = endpoint.clone();
            Some(Destination { endpoint, state: state(life.trace, presence), next_attempt })
        };
        lives.into_iter().filter_map(shown).collect()
    }

    /// Adds a task for one manual attempt.
    pub(super) fn resend_now(&self, environment: EnvironmentId, resend: &Resend) -> Resent {
        let (mut tables, now) = self.lock();
        let taken = resend.key.as_ref().and_then(|key| Some((key, holder(&tables, environment, key, now)?)));
        if let Some((key, holder)) = taken {
            return if key.body == holder.body { Resent::Repeated } else { Resent::KeyReused };
        }
        let message = tables.messages.get(&(environment, resend.application, resend.message));
        let endpoint = tables.endpoint(environment, resend.endpoint);
        let known = endpoint.is_some_and(|(known, deleted)| !deleted && known.application == resend.application);
        let Some(message) = message.filter(|_| known) else { return Resent::NotFound };
        if message.payload.is_none() {
            return Resent::NoPayload;
        }
        let key = TaskKey { environment, subject: resend.message.0, id: TaskId(self.ids.next(now)) };
        let task = new_delivery(key, resend.endpoint.lane(), Trigger::Manual, now);
        tables.add_last(task, now);
        if let Some(key) = &resend.key {
            keep_key(&mut tables, environment, key, resend.message.0, now);
        }
        Resent::Pending
    }

    /// Makes dead deliveries pending and due now, with no tries counted. Returns their number.
    pub(super) fn redrive_now(&self, environment: EnvironmentId, redrive: &Redrive) -> usize {
        let (mut tables, now) = self.lock();
        let lane = redrive.endpoint.lane();
        let mut dead: Vec<_> = tables
            .tasks
            .values()
            .filter(|row| row.place == TaskPlace::Dead && row.task.lane == lane)
            .map(|row| row.task.key)
            .filter(|key| key.environment == environment && is_asked_for(redrive, key.subject))
            .collect();
        dead.sort_by_key(|key| key.id);
        dead.truncate(redrive.limit);
        for key in &dead {
            if let Some(row) = tables.tasks.get_mut(key) {
                row.place = TaskPlace::Pending;
                let due_at = row.redriven_at(now);
                row.task = Task { due_at, tries: 0, crashes: 0, cancel: false, ..row.task };
            }
            if let Some(lane) = tables.lane(environment, lane) {
                lane.touch(now);
            }
        }
        for key in &dead {
            if let Some(row) = tables.tasks.get(key).copied() {
                tables.promote(&row.task, now);
            }
        }
        if !dead.is_empty() {
            unblock(&mut tables, environment, lane);
        }
        dead.len()
    }

    /// Removes a message's payload for good. Returns false if the message does not exist.
    pub(super) fn expunge_message_now(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        id: MessageId,
    ) -> bool {
        let (mut tables, _) = self.lock();
        let Some(message) = tables.messages.get_mut(&(environment, application, id)) else { return false };
        *message = Arc::new(Message { payload: None, ..Message::clone(message) });
        true
    }
}

/// Ends the hold of a lane that a dead delivery has blocked.
fn unblock(tables: &mut Tables, environment: EnvironmentId, lane: LaneId) {
    if let Some(lane) = tables.lane(environment, lane)
        && lane.hold_kind == HoldKind::Blocked
    {
        (lane.hold_until, lane.hold_kind) = (Timestamp::default(), HoldKind::BackOff);
    }
}

/// The state of one task of a delivery.
#[derive(Clone, Copy)]
struct Life {
    task: TaskId,
    trace: DeliveryTrace,
    due_at: Option<Timestamp>,
}

/// Returns the newest task of each lane. An open row is more precise than the attempts.
fn last_lives(tables: &Tables, environment: EnvironmentId, subject: Id) -> BTreeMap<LaneId, Life> {
    let mut lives: BTreeMap<LaneId, Life> = BTreeMap::new();
    let mut put = |lane, life: Life| {
        let known = lives.entry(lane).or_insert(life);
        if life.task >= known.task {
            *known = life;
        }
    };
    for ((key, _), row) in &tables.attempts {
        let end = row.attempt.end;
        if key.environment == environment && key.subject == subject && end != EndState::Open {
            let lane = row.endpoint.lane();
            put(lane, Life { task: key.id, trace: DeliveryTrace::Ended(end), due_at: None });
        }
    }
    for row in tables.tasks.values() {
        let task = row.task;
        if task.key.environment == environment && task.key.subject == subject {
            let trace = DeliveryTrace::Open(row.state());
            let due_at = (row.place == TaskPlace::Pending && !task.is_behind()).then_some(task.due_at);
            put(task.lane, Life { task: task.key.id, trace, due_at });
        }
    }
    lives
}

fn is_asked_for(redrive: &Redrive, subject: Id) -> bool {
    redrive.message.is_none_or(|message| message.0 == subject)
        && redrive.since.is_none_or(|since| subject >= Id::floor(since))
        && redrive.until.is_none_or(|until| subject < Id::floor(until))
}

fn shown(message: MessageId, epoch: u32, row: &AttemptRow) -> Attempt {
    let attempt = row.attempt.clone();
    Attempt {
        id: attempt.id,
        message,
        endpoint: row.endpoint,
        epoch,
        class: attempt.class,
        end: attempt.end,
        trigger: attempt.trigger,
        url: attempt.url,
        status: attempt.status,
        reply: attempt.reply,
        started_at: attempt.started_at,
        duration: attempt.duration,
        exchange: attempt.exchange.as_ref().map(StoredExchange::read),
    }
}
