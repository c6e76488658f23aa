//! Row types that several statements take as arrays.

use std::collections::BTreeMap;
use std::time::Duration;

use everhook_core::id::{ApplicationId, EnvironmentId, Id, LaneId, MessageId, SessionId, TaskId};
use everhook_core::message::Message;
use everhook_core::task::{Task, TaskKey, TaskKind, TaskState, Trigger};
use everhook_core::time::Timestamp;
use everhook_store::columns;
use everhook_store::sql::rows::names;

columns! {
    /// Objects by environment and id: lanes, applications, jobs, batches.
    pub(crate) Keys of Key { environment: EnvironmentId, id: Id }

    /// Jobs whose tasks are wanted.
    pub(crate) Subjects of Subject { environment: EnvironmentId, subject: Id }

    pub(crate) TaskKeys of TaskKeyRow { environment: EnvironmentId, subject: Id, id: TaskId }

    pub(crate) Messages of MessageRow<'a> {
        environment: EnvironmentId,
        application: ApplicationId,
        id: MessageId,
        event_type: &'a str,
        event_id: Option<&'a str>,
        channels: Option<String>,
        tags: Option<String>,
        payload: Option<&'a [u8]>,
        rest: Option<String>,
    }

    /// Payloads with a shorter retention period than their messages, with the time to erase them.
    pub(crate) Expiries of ExpiryRow {
        due_at: Timestamp,
        environment: EnvironmentId,
        application: ApplicationId,
        message: MessageId,
    }

    pub(crate) Tasks of TaskRow {
        environment: EnvironmentId,
        subject: Id,
        id: TaskId,
        lane: LaneId,
        kind: TaskKind,
        trigger: Trigger,
        priority: i16,
        due_at: Timestamp,
        epoch: u32,
        owner: Option<SessionId>,
        state: TaskState,
    }

    /// Lanes with the due time of their next task, whether new deliveries wait in them, and the time to hold them back.
    pub(crate) DueLanes of DueLane {
        environment: EnvironmentId, id: LaneId, due_at: Timestamp, waits: bool, hold_us: Duration,
    }
}

impl Keys {
    pub(crate) fn of(keys: impl IntoIterator<Item = (EnvironmentId, Id)>) -> Keys {
        keys.into_iter().map(|(environment, id)| Key { environment, id }).collect()
    }

    pub(crate) fn of_lanes(lanes: impl IntoIterator<Item = (EnvironmentId, LaneId)>) -> Keys {
        Keys::of(lanes.into_iter().map(|(environment, lane)| (environment, lane.0)))
    }
}

impl DueLane {
    /// A lane with a task that is due at `due_at`.
    pub(crate) fn new(environment: EnvironmentId, id: LaneId, due_at: Timestamp) -> DueLane {
        DueLane { environment, id, due_at, waits: false, hold_us: Duration::ZERO }
    }
}

impl DueLanes {
    /// The lanes of tasks, each with the earliest of their due times.
    pub(crate) fn earliest(tasks: impl Iterator<Item = ((EnvironmentId, LaneId), Timestamp)>) -> DueLanes {
        earliest(tasks).into_iter().map(|((environment, id), due_at)| DueLane::new(environment, id, due_at)).collect()
    }

    /// The keys of the lanes.
    pub(crate) fn keys(&self) -> Keys {
        let id = self.id.iter().map(|lane| lane.0).collect();
        Keys { environment: self.environment.clone(), id }
    }
}

impl TaskKeys {
    pub(crate) fn of<'k>(keys: impl Iterator<Item = &'k TaskKey>) -> TaskKeys {
        keys.map(|key| TaskKeyRow { environment: key.environment, subject: key.subject, id: key.id }).collect()
    }
}

impl<'a> MessageRow<'a> {
    pub(crate) fn new(environment: EnvironmentId, message: &'a Message) -> MessageRow<'a> {
        MessageRow {
            environment,
            application: message.application,
            id: message.id,
            event_type: message.event_type.as_str(),
            event_id: message.event_id.as_ref().map(|id| id.as_str()),
            channels: names(&message.channels),
            tags: names(&message.tags),
            payload: message.payload.as_deref(),
            rest: message.rest.to_json(),
        }
    }
}

impl ExpiryRow {
    /// Returns the expiry of a payload, if its message has one.
    pub(crate) fn new(environment: EnvironmentId, message: &Message) -> Option<ExpiryRow> {
        let due_at = message.rest.payload_until?;
        Some(ExpiryRow { due_at, environment, application: message.application, message: message.id })
    }
}

impl TaskRow {
    /// A task that is leased by `holder`, or pending.
    pub(crate) fn new(task: &Task, holder: Option<SessionId>) -> TaskRow {
        let Task { key: TaskKey { environment, subject, id }, lane, kind, trigger, priority, due_at, epoch, .. } =
            *task;
        let state = if holder.is_some() { TaskState::Leased } else { TaskState::Pending };
        TaskRow { environment, subject, id, lane, kind, trigger, priority, due_at, epoch, owner: holder, state }
    }
}

/// Returns the lanes of tasks, each with the earliest of their due times. They are in key order, so that two batches
/// cannot deadlock.
pub(crate) fn earliest(
    tasks: impl Iterator<Item = ((EnvironmentId, LaneId), Timestamp)>,
) -> BTreeMap<(EnvironmentId, LaneId), Timestamp> {
    let mut lanes: BTreeMap<(EnvironmentId, LaneId), Timestamp> = BTreeMap::new();
    for (lane, due_at) in tasks {
        let first = lanes.entry(lane).or_insert(due_at);
        *first = due_at.min(*first);
    }
    lanes
}
