//! Lists deliveries, and carries out the commands of operators for them.

use std::collections::BTreeMap;

use bytes::Bytes;
use everhook_core::delivery::{DeliveryAction, DeliveryCommand, DeliveryKey};
use everhook_core::id::{EndpointId, EnvironmentId, Id, MessageId, SessionId, TaskId};
use everhook_core::message::Message;
use everhook_core::outcome::Class;
use everhook_core::task::{Task, TaskKey, TaskKind, TaskState, Trigger};
use everhook_core::time::Timestamp;
use everhook_store::append::new_delivery;
use everhook_store::delivery::{DeliveryFilter, DeliveryRecord, DeliveryRow, LastAttempt, Listing};
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
        listing.add(0, None, found);
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
        let rows = open_rows(&tables, environment, message, endpoint);
        let carry_out = |row: TaskRow| {
            let action = command.on(state(&row));
            carry_out(&mut tables, &self.ids, now, row, (action, command.note()));
            action
        };
        rows.into_iter().map(carry_out).collect()
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
        let key = TaskKey { environment, subject: message.id.0, id: TaskId(self.ids.next(now)) };
        let task = new_delivery(key, dead.endpoint.lane(), Trigger::Scheduled, now);
        tables.messages.insert((environment, message.application, message.id), message.clone().into());
        put_pending(&mut tables, task);
        Some(message)
    }
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
        DeliveryAction::RunNow => put_pending(tables, Task { due_at: now, ..task }),
        DeliveryAction::Redrive => {
            put_pending(tables, Task { due_at: now, tries: 0, crashes: 0, cancel: false, ..task });
        }
        DeliveryAction::Nothing | DeliveryAction::Refuse => {}
    }
}

fn put_pending(tables: &mut Tables, task: Task) {
    tables.tasks.insert(task.key, TaskRow::new(task, TaskPlace::Pending));
    if let Some(lane) = tables.lane(task.key.environment, task.lane) {
        lane.touch(task.due_at);
    }
}

fn state(row: &TaskRow) -> TaskState {
    match row.place {
        TaskPlace::Pending => TaskState::Pending,
        TaskPlace::Leased(_) => TaskState::Leased,
        TaskPlace::Dead => TaskState::Dead,
    }
}

/// Returns the newest life of each delivery of a message.
fn records(tables: &Tables, environment: EnvironmentId, message: &Message) -> Vec<DeliveryRecord> {
    let mut newest: BTreeMap<EndpointId, (Option<OpenTask>, Option<LastAttempt>)> = BTreeMap::new();
    // Tasks and attempts are sorted by key, so that later ones are newer.
    for row in open_rows(tables, environment, message.id, None) {
        let open = OpenTask { task: row.task, state: state(&row), holder: row.holder() };
        newest.entry(EndpointId(row.task.lane.0)).or_default().0 = Some(open);
    }
    for ((key, epoch), row) in &tables.attempts {
        if (key.environment, key.subject) == (environment, message.id.0) {
            newest.entry(row.endpoint).or_default().1 = Some(last_attempt(key.id, *epoch, row));
        }
    }
    let record = |(id, (open, last))| {
        let (endpoint, deleted) = tables.endpoint(environment, id)?;
        let lane = tables.lanes.get(&(environment, id.lane()));
        let (hold_until, hold_kind) = (lane.map(|lane| lane.hold_until), lane.map(|lane| lane.hold_kind));
        let deleted_at = deleted.then_some(endpoint.updated_at);
        let (message, endpoint) = (message.clone(), endpoint.clone());
        DeliveryRecord::new(DeliveryRow { message, endpoint, deleted_at, hold_until, hold_kind, open, last })
    };
    newest.into_iter().filter_map(record).collect()
}

fn last_attempt(task: TaskId, epoch: u32, row: &AttemptRow) -> LastAttempt {
    let NewAttempt { id, class, end, status, reply, started_at, duration, .. } = row.attempt.clone();
    let note = if class == Class::Cancelled { reply } else { Bytes::new() };
    LastAttempt { id, task, epoch, class, end, status, note, started_at, duration }
}
