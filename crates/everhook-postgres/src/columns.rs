//! What an append writes, as the columns that its statements take.

use everhook_core::id::{EnvironmentId, SessionId};
use everhook_core::message::Message;
use everhook_core::task::{Task, TaskState};
use everhook_core::time::micros;
use tokio_postgres::types::ToSql;

use crate::keys::{self, Claims};
use crate::rows;

/// Messages as columns.
pub(crate) struct MessageColumns<'a> {
    environments: Vec<i32>,
    applications: Vec<&'a [u8]>,
    ids: Vec<&'a [u8]>,
    event_types: Vec<&'a str>,
    event_ids: Vec<Option<&'a str>>,
    channels: Vec<Option<String>>,
    tags: Vec<Option<String>>,
    payloads: Vec<Option<&'a [u8]>>,
    rests: Vec<Option<String>>,
}

impl<'a> MessageColumns<'a> {
    pub(crate) fn new(written: &[(EnvironmentId, &'a Message)]) -> MessageColumns<'a> {
        let each = || written.iter().map(|(_, message)| *message);
        MessageColumns {
            environments: written.iter().map(|(environment, _)| environment.0).collect(),
            applications: each().map(|message| message.application.as_bytes().as_slice()).collect(),
            ids: each().map(|message| message.id.as_bytes().as_slice()).collect(),
            event_types: each().map(|message| message.event_type.as_str()).collect(),
            event_ids: each().map(|message| message.event_id.as_ref().map(|id| id.as_str())).collect(),
            channels: each().map(|message| rows::names(&message.channels)).collect(),
            tags: each().map(|message| rows::names(&message.tags)).collect(),
            payloads: each().map(|message| message.payload.as_deref()).collect(),
            rests: each().map(|message| message.rest.to_json()).collect(),
        }
    }

    pub(crate) fn params(&self) -> [&(dyn ToSql + Sync); 8] {
        [
            &self.environments,
            &self.applications,
            &self.ids,
            &self.event_types,
            &self.event_ids,
            &self.channels,
            &self.tags,
            &self.payloads,
        ]
    }

    /// What few messages have.
    pub(crate) fn rests(&self) -> &(dyn ToSql + Sync) {
        &self.rests
    }
}

/// When to erase payloads, as columns; only of messages that name a time.
#[derive(Default)]
pub(crate) struct ExpiryColumns<'a> {
    due: Vec<i64>,
    environments: Vec<i32>,
    applications: Vec<&'a [u8]>,
    messages: Vec<&'a [u8]>,
}

impl<'a> ExpiryColumns<'a> {
    pub(crate) fn new(written: &[(EnvironmentId, &'a Message)]) -> ExpiryColumns<'a> {
        let mut columns = ExpiryColumns::default();
        for (environment, message) in written {
            let Some(due_at) = message.rest.payload_until else { continue };
            columns.due.push(due_at.as_micros());
            columns.environments.push(environment.0);
            columns.applications.push(message.application.as_bytes().as_slice());
            columns.messages.push(message.id.as_bytes().as_slice());
        }
        columns
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(crate) fn params(&self) -> [&(dyn ToSql + Sync); 4] {
        [&self.due, &self.environments, &self.applications, &self.messages]
    }
}

/// New tasks as columns.
#[derive(Default)]
pub(crate) struct TaskColumns<'a> {
    environments: Vec<i32>,
    subjects: Vec<&'a [u8]>,
    ids: Vec<&'a [u8]>,
    lanes: Vec<&'a [u8]>,
    kinds: Vec<i16>,
    triggers: Vec<i16>,
    priorities: Vec<i16>,
    due: Vec<i64>,
    epochs: Vec<i32>,
    owners: Vec<Option<&'a [u8]>>,
    states: Vec<i16>,
}

impl<'a> TaskColumns<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Adds a task, leased by `holder` or pending.
    pub(crate) fn push(&mut self, task: &'a Task, holder: Option<&'a SessionId>) {
        let state = if holder.is_some() { TaskState::Leased } else { TaskState::Pending };
        self.environments.push(task.key.environment.0);
        self.subjects.push(task.key.subject.as_bytes());
        self.ids.push(task.key.id.as_bytes());
        self.lanes.push(task.lane.as_bytes());
        self.kinds.push(task.kind.to_db());
        self.triggers.push(task.trigger.to_db());
        self.priorities.push(task.priority);
        self.due.push(task.due_at.as_micros());
        self.epochs.push(i32::try_from(task.epoch).unwrap_or(i32::MAX));
        self.owners.push(holder.map(|session| session.as_bytes().as_slice()));
        self.states.push(state.to_db());
    }

    pub(crate) fn params(&self) -> [&(dyn ToSql + Sync); 11] {
        let [environments, subjects, ids, lanes, kinds, triggers, priorities, epochs, owners, states] =
            self.params_due_now();
        [environments, subjects, ids, lanes, kinds, triggers, priorities, &self.due, epochs, owners, states]
    }

    /// For a statement that knows by itself when they are due.
    pub(crate) fn params_due_now(&self) -> [&(dyn ToSql + Sync); 10] {
        [
            &self.environments,
            &self.subjects,
            &self.ids,
            &self.lanes,
            &self.kinds,
            &self.triggers,
            &self.priorities,
            &self.epochs,
            &self.owners,
            &self.states,
        ]
    }
}

/// Keys as columns, in their order.
pub(crate) struct KeyColumns<'a> {
    environments: Vec<i32>,
    scopes: Vec<i16>,
    hashes: Vec<&'a [u8]>,
    objects: Vec<&'a [u8]>,
    bodies: Vec<&'a [u8]>,
    kept: Vec<i64>,
}

impl<'a> KeyColumns<'a> {
    pub(crate) fn new(claims: &'a Claims<'_>) -> KeyColumns<'a> {
        let (environments, scopes, hashes) = keys::columns(claims.keys());
        KeyColumns {
            environments,
            scopes,
            hashes,
            objects: claims.values().map(|(_, object)| object.as_bytes().as_slice()).collect(),
            bodies: claims.values().map(|(key, _)| key.body.as_slice()).collect(),
            kept: claims.values().map(|(key, _)| micros(key.kept)).collect(),
        }
    }

    pub(crate) fn params(&self) -> [&(dyn ToSql + Sync); 6] {
        [&self.environments, &self.scopes, &self.hashes, &self.objects, &self.bodies, &self.kept]
    }
}
