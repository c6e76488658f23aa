//! The rows of the in-memory store: the tables of the SQL stores as collections.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use everhook_core::egress::EgressPause;
use everhook_core::endpoint::Endpoint;
use everhook_core::id::{
    ApplicationId, BatchId, EndpointId, EnvironmentId, Id, JobId, LaneId, MessageId, ScheduleId, SessionId,
};
use everhook_core::job::Job;
use everhook_core::job::report::{KeptResult, Progress};
use everhook_core::lane::HoldKind;
pub use everhook_core::lane::LaneState;
use everhook_core::message::Message;
use everhook_core::name::Name;
use everhook_core::once::OnceSlot;
use everhook_core::policy::breaker::Breaker;
use everhook_core::policy::limit::RetryPlace;
use everhook_core::resource::ResourceKind;
use everhook_core::role::Role;
use everhook_core::task::{Task, TaskKey, TaskState};
use everhook_core::time::Timestamp;
use everhook_store::append::TakesPosition;
use everhook_store::batch::BatchRecord;
use everhook_store::cache::EndpointSet;
use everhook_store::dedup::{DedupScope, HASH_BYTES};
use everhook_store::lease::{Holding, NewAttempt, Reclaimed};
use everhook_store::queue::LaneGroup;
use everhook_store::resource::{Parent, Resource};

#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// Resources, including deleted applications and endpoints.
    pub resources: BTreeMap<(EnvironmentId, ResourceKind, Id), ResourceEntry>,
    /// The endpoints of applications with their effective settings, forgotten when any resource changes.
    pub endpoint_sets: BTreeMap<(EnvironmentId, ApplicationId), Arc<EndpointSet>>,
    /// The lane groups of applications and configured queues.
    pub groups: BTreeMap<(EnvironmentId, Id), LaneGroup>,
    /// The last job that each schedule started by itself.
    pub last_jobs: BTreeMap<(EnvironmentId, ScheduleId), JobId>,
    /// One lane for each endpoint, including deleted ones, and one for each queue and concurrency key.
    pub lanes: BTreeMap<(EnvironmentId, LaneId), LaneRow>,
    pub messages: BTreeMap<(EnvironmentId, ApplicationId, MessageId), Arc<Message>>,
    pub tasks: BTreeMap<TaskKey, TaskRow>,
    /// The positions of deliveries with a key, and whether later ones wait while they are dead. Never removed.
    pub key_places: BTreeMap<TaskKey, (Timestamp, bool)>,
    /// All sessions, open and closed.
    pub sessions: BTreeMap<SessionId, SessionRow>,
    /// The attempt log, with one entry for each task and epoch.
    pub attempts: BTreeMap<(TaskKey, u32), AttemptRow>,
    pub egress_pause: Option<EgressPause>,
    pub once: BTreeMap<(EnvironmentId, ApplicationId, Name), OnceRow>,
    pub jobs: BTreeMap<(EnvironmentId, JobId), JobRow>,
    /// The queues of the lanes of jobs.
    pub queue_lanes: BTreeMap<(EnvironmentId, LaneId), Name>,
    pub batches: BTreeMap<(EnvironmentId, BatchId), BatchRecord>,
    pub keys: BTreeMap<(EnvironmentId, DedupScope, [u8; HASH_BYTES]), KeyRow>,
}

#[derive(Clone, Debug)]
pub struct ResourceEntry {
    /// The application that it belongs to.
    pub parent: Parent,
    pub name: Option<Name>,
    /// The record; of a deleted resource, the last one.
    pub resource: Resource,
    pub deleted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneRow {
    /// The application whose messages are delivered.
    pub application: ApplicationId,
    /// Whether its tasks may be leased.
    pub state: LaneState,
    /// A lower bound for the due time of all pending tasks. Usually exact, never too late.
    pub next_due: Timestamp,
    /// The time before which no task may start.
    pub hold_until: Timestamp,
    pub hold_kind: HoldKind,
    pub breaker: Breaker,
    /// True if new tasks wait because there was no capacity for them.
    pub waiting: bool,
    /// The last position of an ordered lane.
    pub last_position: Timestamp,
}

impl LaneRow {
    /// A lane without tasks.
    pub fn new(application: ApplicationId, state: LaneState) -> LaneRow {
        LaneRow {
            application,
            state,
            next_due: Timestamp::NEVER,
            hold_until: Timestamp::default(),
            hold_kind: HoldKind::default(),
            breaker: Breaker::default(),
            waiting: false,
            last_position: Timestamp::default(),
        }
    }

    /// The time at which a lease considers this lane.
    pub fn ready_at(&self) -> Timestamp {
        match self.state {
            LaneState::Held => Timestamp::NEVER,
            LaneState::Closing => self.next_due,
            LaneState::Open => self.next_due.max(self.hold_until),
        }
    }

    /// Returns whether a new task may be leased by its own append: no earlier new task waits, and the lane is not held.
    /// A due retry does not matter: where deliveries fail, one is nearly always due.
    pub fn is_free(&self, now: Timestamp) -> bool {
        self.state == LaneState::Open && !self.waiting && self.hold_until <= now
    }

    /// Returns the due time of a new delivery: behind all positions of the lane.
    pub(super) fn place(&mut self, now: Timestamp, takes: TakesPosition) -> Timestamp {
        if takes == TakesPosition::Behind && self.last_position < now {
            return now;
        }
        self.last_position = now.max(self.last_position.plus(Duration::from_micros(1)));
        self.last_position
    }

    /// Records that a pending task is due at `due`.
    pub(super) fn touch(&mut self, due: Timestamp) {
        self.next_due = self.next_due.min(due);
    }
}

/// The state of an open task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskPlace {
    Pending,
    /// Leased to this session.
    Leased(SessionId),
    /// Dead, waiting for an operator.
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskRow {
    pub task: Task,
    pub place: TaskPlace,
    /// The limit group that counts the task while it is leased.
    pub limit_group: Option<Id>,
    /// The time limit of the attempt, if the store enforces it.
    pub deadline: Option<Timestamp>,
    /// The time of the lease; none if the task was inserted as leased.
    pub leased_at: Option<Timestamp>,
}

impl TaskRow {
    pub(super) fn state(&self) -> TaskState {
        match self.place {
            TaskPlace::Pending => TaskState::Pending,
            TaskPlace::Leased(_) => TaskState::Leased,
            TaskPlace::Dead => TaskState::Dead,
        }
    }

    /// Creates a row with default values.
    pub(super) fn new(task: Task, place: TaskPlace) -> TaskRow {
        TaskRow { task, place, limit_group: None, deadline: None, leased_at: None }
    }

    /// Returns the holder. A task inserted as leased is held since its due time.
    pub(super) fn holder(&self) -> Option<Holding> {
        let TaskPlace::Leased(session) = self.place else { return None };
        Some(Holding { session, since: self.leased_at.unwrap_or(self.task.due_at) })
    }

    /// Moves the task to another holder.
    pub(super) fn hand_over(&mut self, session: SessionId, now: Timestamp) -> Option<Reclaimed> {
        let from = self.holder()?;
        self.task.epoch += 1;
        self.deadline = None;
        (self.place, self.leased_at) = (TaskPlace::Leased(session), Some(now));
        Some(Reclaimed { task: self.task, from, job: None })
    }

    /// Returns the due time of a dead task that is redriven. One with a key waits until it is promoted.
    pub(super) fn redriven_at(&self, now: Timestamp) -> Timestamp {
        match self.task.order_key {
            Some(_) => Timestamp::NEVER,
            None if self.limit_group.is_some() => self.task.due_at,
            None => now,
        }
    }

    /// Ends the lease. A task that keeps its place in the lane keeps its limit group.
    pub(super) fn let_go_in(&mut self, place: TaskPlace, kept: RetryPlace) {
        let limit_group = self.limit_group.filter(|_| kept != RetryPlace::Moves);
        *self = TaskRow { limit_group, ..TaskRow::new(self.task, place) };
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    /// The name of the node, for operators.
    pub node: String,
    pub role: Role,
    pub version: String,
    /// The duration of one renewal.
    pub lease: Duration,
    pub started_at: Timestamp,
    /// The time after which other nodes may close the session.
    pub lease_until: Timestamp,
    /// The time at which it was closed for good.
    pub closed_at: Option<Timestamp>,
}

/// An entry of the attempt log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptRow {
    /// The endpoint; for a job, its lane.
    pub endpoint: EndpointId,
    /// The holder that made the attempt.
    pub session: SessionId,
    pub attempt: NewAttempt,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRow {
    pub job: Arc<Job>,
    pub created_at: Timestamp,
    /// The last progress that the worker reported.
    pub progress: Option<Progress>,
    pub result: Option<KeptResult>,
}

/// The owner of a deduplication key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRow {
    /// The object that was accepted under the key.
    pub object: Id,
    /// The hash of the request body.
    pub body: [u8; HASH_BYTES],
    pub expires_at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnceRow {
    /// The state that the core decided.
    pub slot: OnceSlot,
    /// The number of suppressed calls.
    pub suppressed: u64,
    /// The time of the first claim.
    pub created_at: Timestamp,
    /// The time at which the current winner was accepted.
    pub claimed_at: Timestamp,
    /// The time of the last claim or reset.
    pub updated_at: Timestamp,
}

impl Tables {
    /// Returns an endpoint and whether it was deleted.
    pub(super) fn endpoint(&self, environment: EnvironmentId, id: EndpointId) -> Option<(&Endpoint, bool)> {
        let entry = self.resources.get(&(environment, ResourceKind::Endpoint, id.0))?;
        let Resource::Endpoint(endpoint) = &entry.resource else { return None };
        Some((endpoint, entry.deleted))
    }

    /// Returns whether an application exists and is not deleted.
    pub(super) fn has_application(&self, environment: EnvironmentId, id: ApplicationId) -> bool {
        self.groups.contains_key(&(environment, id.0))
    }

    /// Returns a lane; every task has one.
    pub(super) fn lane(&mut self, environment: EnvironmentId, id: LaneId) -> Option<&mut LaneRow> {
        self.lanes.get_mut(&(environment, id))
    }

    /// Adds a delivery at the end of its lane. Later ones need not wait for it.
    pub(super) fn add_last(&mut self, task: Task, now: Timestamp) {
        let Some(lane) = self.lane(task.key.environment, task.lane) else { return };
        let due_at = lane.place(now, TakesPosition::Behind);
        lane.touch(now);
        self.tasks.insert(task.key, TaskRow::new(Task { due_at, ..task }, TaskPlace::Pending));
    }

    /// Makes the next delivery with the key of a task due, if the task has one.
    pub(super) fn promote(&mut self, task: &Task, now: Timestamp) {
        let Some(key) = task.order_key else { return };
        let of_key = (task.key.environment, task.lane, Some(key));
        let rows = || {
            let rows = self.tasks.values();
            rows.filter(|row| (row.task.key.environment, row.task.lane, row.task.order_key) == of_key)
        };
        let place = |row: &TaskRow| self.key_places.get(&row.task.key).copied().unwrap_or_default();
        let is_waiting = |row: &TaskRow| row.place == TaskPlace::Pending && row.task.is_behind();
        let first = rows().filter(|row| is_waiting(row)).min_by_key(|row| place(row));
        let Some(first) = first.copied() else { return };
        if rows().any(|row| !is_waiting(row) && self.is_ahead(row, place(&first).0)) {
            return;
        }
        if let Some(row) = self.tasks.get_mut(&first.task.key) {
            row.task.due_at = now;
        }
        if let Some(lane) = self.lane(task.key.environment, task.lane) {
            lane.touch(now);
        }
    }

    /// Whether a delivery that does not wait keeps the one at `position` of its key waiting.
    pub(super) fn is_ahead(&self, row: &TaskRow, position: Timestamp) -> bool {
        let (own, blocks) = self.key_places.get(&row.task.key).copied().unwrap_or_default();
        row.place != TaskPlace::Dead || (blocks && own < position)
    }

    /// Returns the pending tasks of a lane in the order of their leases.
    pub(super) fn pending(&self, environment: EnvironmentId, lane: LaneId) -> Vec<Task> {
        let waits = |row: &&TaskRow| {
            row.place == TaskPlace::Pending && row.task.lane == lane && row.task.key.environment == environment
        };
        let mut tasks: Vec<Task> = self.tasks.values().filter(waits).map(|row| row.task).collect();
        tasks.sort_by_key(|task| (task.priority, task.due_at, task.key.id));
        tasks
    }

    /// Returns whether a session exists and is not closed.
    pub(super) fn is_open(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_some_and(|row| row.closed_at.is_none())
    }
}
