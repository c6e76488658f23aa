//! Lists deliveries, and carries out the commands of operators for them.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use everhook_core::delivery::{DeliveryAction, DeliveryCommand, DeliveryKey};
use everhook_core::id::{EndpointId, EnvironmentId, Id, LaneId, MessageId, SessionId, TaskId};
use everhook_core::lane::HoldKind;
use everhook_core::message::Message;
use everhook_core::outcome::Class;
use everhook_core::task::{Task, TaskKey, TaskKind, Trigger};
use everhook_core::time::Timestamp;
use everhook_store::append::new_delivery;
use everhook_store::delivery::{DeliveryFilter, DeliveryRecord, DeliveryRow, LastAttempt, Listing, Visit};
use everhook_store::ids::Ids;
use everhook_store::job::OpenTask;
use everhook_store::lease::NewAttempt;
use everhook_store::piece::Piece;

use crate::mem::MemStore;
use crate::mem::job::cancelled;
use crate::mem::tables::{AttemptRow, Tables, TaskPlace, TaskRow};

impl MemStore {
    pub(super) fn list_deliveries(
        &self,
        environment: EnvironmentId,
        filter: &DeliveryFilter,
    ) -> Piece<DeliveryRecord, DeliveryKey> {
        let (tables, _) = self.lock();
        let messages = tables.messages.iter().filter(|((at, _, _), _)| *at == environment).map(|(_, message)| message);
        let found = messages.flat_map(|message| records(&tables, environment, message)).collect();
        let mut listing = Listing::new(filter);
        // One step visits everything.
        listing.add(&Visit::default(), found, Duration::ZERO);
        listing.finish(Vec::new())
    }

    pub(super) fn steer_deliveries(
        &self,
        environment: EnvironmentId,
        message: MessageId,
        endpoint: Option<EndpointId>,
        command: DeliveryCommand,
    ) -> Vec<DeliveryAction> {
        let (mut tables, now) = self.lock();
        steer(&mut tables, &self.ids, now, (environment, message, endpoint), command)
    }

    pub(super) fn correct(&self, environment: EnvironmentId, dead: DeliveryKey, message: Message) -> Option<Message> {
        let (mut tables, now) = self.lock();
        let rows = open_rows(&tables, environment, dead.message, Some(dead.endpoint));
        let rows: Vec<_> = rows.into_iter().filter(|row| row.place == TaskPlace::Dead).collect();
        if rows.is_empty() {
            return None;
        }
        let message = Message { created_at: now, ..message };
        let note = format!("the dead delivery was replaced by {}", message.id);
        for row in rows {
            carry_out(&mut tables, &self.ids, now, row, (DeliveryAction::End, &note));
        }
        free_lane(&mut tables, environment, dead.endpoint.lane(), HoldKind::Blocked);
        let key = TaskKey { environment, subject: message.id.0, id: TaskId(self.ids.next(now)) };
        let task = new_delivery(key, dead.endpoint.lane(), Trigger::Scheduled, now);
        tables.messages.insert((environment, message.application, message.id), message.clone().into());
        tables.add_last(task, now);
        Some(message)
    }
}

/// Applies a command to the open tasks of a message; one action for each.
pub(super) fn steer(
    tables: &mut Tables,
    ids: &Ids,
    now: Timestamp,
    (environment, message, endpoint): (EnvironmentId, MessageId, Option<EndpointId>),
    command: DeliveryCommand,
) -> Vec<DeliveryAction> {
    let rows = open_rows(tables, environment, message, endpoint);
    let carry_out = |row: TaskRow| {
        let action = command.on(&row.task, row.state());
        if let Some(kind) = command.ends_hold(&row.task, row.state()) {
            free_lane(tables, environment, row.task.lane, kind);
        }
        carry_out(tables, ids, now, row, (action, command.note()));
        action
    };
    rows.into_iter().map(carry_out).collect()
}

fn open_rows(
    tables: &Tables,
    environment: EnvironmentId,
    message: MessageId,
    endpoint: Option<EndpointId>,
) -> Vec<TaskRow> {
    let is_wanted = |row: &&TaskRow| {
        let Task { key, lane, kind, .. } = row.task;
        (key.environment, key.subject, kind) == (environment, message.0, TaskKind::Delivery)
            && endpoint.is_none_or(|endpoint| endpoint.lane() == lane)
    };
    tables.tasks.values().filter(is_wanted).copied().collect()
}

fn carry_out(tables: &mut Tables, ids: &Ids, now: Timestamp, row: TaskRow, (action, note): (DeliveryAction, &str)) {
    let task = row.task;
    match action {
        DeliveryAction::End => {
            tables.tasks.remove(&task.key);
            let reply = Bytes::copy_from_slice(note.as_bytes());
            let attempt = NewAttempt { trigger: task.trigger, reply, ..cancelled(ids, now) };
            let row = AttemptRow { endpoint: EndpointId(task.lane.0), session: SessionId(Id::MIN), attempt };
            tables.attempts.insert((task.key, task.epoch + 1), row);
        }
        DeliveryAction::RequestCancel => {
            tables.tasks.insert(task.key, TaskRow { task: Task { cancel: true, ..task }, ..row });
        }
        DeliveryAction::RunNow => put_back(tables, row, Task { due_at: task.due_at.min(now), ..task }),
        DeliveryAction::Redrive => {
            let due_at = row.redriven_at(now);
            put_back(tables, row, Task { due_at, tries: 0, crashes: 0, cancel: false, ..task });
        }
        DeliveryAction::Nothing | DeliveryAction::Refuse => {}
    }
    tables.promote(&task, now);
}

/// Ends the hold of a lane if it is of this kind.
pub(super) fn free_lane(tables: &mut Tables, environment: EnvironmentId, lane: LaneId, kind: HoldKind) {
    if let Some(lane) = tables.lane(environment, lane)
        && lane.hold_kind == kind
    {
        (lane.hold_until, lane.hold_kind) = (Timestamp::default(), HoldKind::BackOff);
    }
}

/// Makes a task pending that keeps its limit group.
fn put_back(tables: &mut Tables, row: TaskRow, task: Task) {
    put_pending(tables, task);
    if let Some(put) = tables.tasks.get_mut(&task.key) {
        put.limit_group = row.limit_group;
    }
}

fn put_pending(tables: &mut Tables, task: Task) {
    tables.tasks.insert(task.key, TaskRow::new(task, TaskPlace::Pending));
    if let Some(lane) = tables.lane(task.key.environment, task.lane) {
        lane.touch(task.due_at);
    }
}

/// Returns the newest life of each delivery of a message.
fn records(tables: &Tables, environment: EnvironmentId, message: &Message) -> Vec<DeliveryRecord> {
    let mut newest: BTreeMap<EndpointId, (Option<OpenTask>, Option<LastAttempt>)> = BTreeMap::new();
    // Tasks and attempts are sorted by key, so that later ones are newer.
    for row in open_rows(tables, environment, message.id, None) {
        let open = OpenTask { task: row.task, state: row.state(), holder: row.holder() };
        newest.entry(EndpointId(row.task.lane.0)).or_default().0 = Some(open);
    }
    for ((key, epoch), row) in &tables.attempts {
        if (key.environment, key.subject) == (environment, message.id.0) {
            newest.entry(row.endpoint).or_default().1 = Some(last_attempt(key.id, *epoch, row));
        }
    }
    let record = |(id, (open, last)): (EndpointId, (Option<OpenTask>, Option<LastAttempt>))| {
        let (endpoint, deleted) = tables.endpoint(environment, id)?;
        let lane = tables.lanes.get(&(environment, id.lane()));
        let (hold_until, hold_kind) = (lane.map(|lane| lane.hold_until), lane.map(|lane| lane.hold_kind));
        let breaker = lane.map(|lane| lane.breaker);
        let deleted_at = deleted.then_some(endpoint.updated_at);
        let (message, endpoint) = (message.clone(), endpoint.clone());
        let ahead = open.filter(|open| open.task.is_behind()).map(|open| ahead(tables, &open.task));
        let (hold_kind, head) = match ahead {
            Some((kind, head)) => (Some(kind), head),
            None => (hold_kind, hold_kind.and_then(|kind| head(tables, environment, id.lane(), kind))),
        };
        let row = DeliveryRow { message, endpoint, deleted_at, hold_until, hold_kind, breaker, head, open, last };
        DeliveryRecord::new(row)
    };
    newest.into_iter().filter_map(record).collect()
}

/// Returns the message that a delivery with the same key waits for, and whether it is dead and blocks.
fn ahead(tables: &Tables, task: &Task) -> (HoldKind, Option<MessageId>) {
    let place = |row: &TaskRow| tables.key_places.get(&row.task.key).map(|(position, _)| *position);
    let position = tables.key_places.get(&task.key).map(|(position, _)| *position).unwrap_or_default();
    let is_of_key = |row: &&TaskRow| {
        let Task { key, lane, order_key, .. } = row.task;
        (key.environment, lane, order_key) == (task.key.environment, task.lane, task.order_key)
            && !(row.place == TaskPlace::Pending && row.task.is_behind())
            && tables.is_ahead(row, position)
    };
    let first = tables.tasks.values().filter(is_of_key).min_by_key(|row| place(row));
    let is_dead = first.is_some_and(|row| row.place == TaskPlace::Dead);
    let kind = if is_dead { HoldKind::Blocked } else { HoldKind::Order };
    (kind, first.map(|row| MessageId(row.task.key.subject)))
}

/// Returns the message that comes first in an ordered lane that holds.
fn head(tables: &Tables, environment: EnvironmentId, lane: LaneId, kind: HoldKind) -> Option<MessageId> {
    if ![HoldKind::Order, HoldKind::Retry, HoldKind::Blocked].contains(&kind) {
        return None;
    }
    let rows = || tables.tasks.values().filter(|row| (row.task.key.environment, row.task.lane) == (environment, lane));
    let first = |is: &dyn Fn(&TaskRow) -> bool| {
        let first = rows().filter(|row| is(row)).min_by_key(|row| (row.task.due_at, row.task.key.id));
        first.map(|row| MessageId(row.task.key.subject))
    };
    let leased = first(&|row| matches!(row.place, TaskPlace::Leased(_)) && row.limit_group.is_some());
    let dead = || first(&|row| kind == HoldKind::Blocked && row.place == TaskPlace::Dead);
    leased.or_else(dead).or_else(|| first(&|row| row.place == TaskPlace::Pending))
}

fn last_attempt(task: TaskId, epoch: u32, row: &AttemptRow) -> LastAttempt {
    let NewAttempt { id, class, end, status, reply, started_at, duration, .. } = row.attempt.clone();
    let note = if class == Class::Cancelled { reply } else { Bytes::new() };
    LastAttempt { id, task, epoch, class, end, status, note, started_at, duration }
}
