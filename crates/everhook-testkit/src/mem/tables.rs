//! What the store in memory keeps: the tables of the SQL stores, as collections.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use everhook_core::endpoint::Endpoint;
use everhook_core::id::{
    ApplicationId, BatchId, EndpointId, EnvironmentId, Id, JobId, LaneId, MessageId, ScheduleId, SessionId,
};
use everhook_core::job::Job;
use everhook_core::job::report::{KeptResult, Progress};
pub use everhook_core::lane::LaneState;
use everhook_core::message::Message;
use everhook_core::name::Name;
use everhook_core::once::OnceSlot;
use everhook_core::resource::ResourceKind;
use everhook_core::role::Role;
use everhook_core::task::{Task, TaskKey};
use everhook_core::time::Timestamp;
use everhook_store::batch::BatchRecord;
use everhook_store::dedup::{DedupScope, HASH_BYTES};
use everhook_store::lease::{Holding, NewAttempt, Reclaimed};
use everhook_store::queue::LaneGroup;
use everhook_store::resource::{Parent, Resource};
use everhook_store::schedule::Run;
use everhook_store::worker::Takes;

/// Every row there is.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// Resources; deleted applications and endpoints, too.
    pub resources: BTreeMap<(EnvironmentId, ResourceKind, Id), ResourceEntry>,
    /// The lane groups of applications and of queues that were configured.
    pub groups: BTreeMap<(EnvironmentId, Id), LaneGroup>,
    /// The last jobs that schedules started by themselves.
    pub last_jobs: BTreeMap<(EnvironmentId, ScheduleId), JobId>,
    /// One lane for each endpoint there ever was, and for each queue with each of its concurrency keys.
    pub lanes: BTreeMap<(EnvironmentId, LaneId), LaneRow>,
    /// Accepted messages.
    pub messages: BTreeMap<(EnvironmentId, ApplicationId, MessageId), Arc<Message>>,
    /// Open tasks.
    pub tasks: BTreeMap<TaskKey, TaskRow>,
    /// Every session there ever was.
    pub sessions: BTreeMap<SessionId, SessionRow>,
    /// What was tried, once for each task and epoch.
    pub attempts: BTreeMap<(TaskKey, u32), AttemptRow>,
    /// Once-slots.
    pub once: BTreeMap<(EnvironmentId, ApplicationId, Name), OnceRow>,
    /// Records of jobs.
    pub jobs: BTreeMap<(EnvironmentId, JobId), JobRow>,
    /// The queues of lanes that are not of endpoints.
    pub queue_lanes: BTreeMap<(EnvironmentId, LaneId), Name>,
    /// Batches.
    pub batches: BTreeMap<(EnvironmentId, BatchId), BatchRecord>,
    /// What schedules started or left out.
    pub runs: BTreeMap<(EnvironmentId, ScheduleId, Id), Run>,
    /// What sessions take that take jobs.
    pub workers: BTreeMap<SessionId, Takes>,
    /// Keys under which something was accepted.
    pub keys: BTreeMap<(EnvironmentId, DedupScope, [u8; HASH_BYTES]), KeyRow>,
}

/// A resource.
#[derive(Clone, Debug)]
pub struct ResourceEntry {
    /// The application that it belongs to.
    pub parent: Parent,
    /// Its uid or name.
    pub name: Option<Name>,
    /// The record, as it was when it was deleted.
    pub resource: Resource,
    /// Whether it was deleted.
    pub deleted: bool,
}

/// A lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneRow {
    /// Whose messages its tasks are about.
    pub application: ApplicationId,
    /// Whether its tasks may be leased.
    pub state: LaneState,
    /// No pending task is due before this. Usually exact, never too late.
    pub next_due: Timestamp,
    /// Nothing is to start before this.
    pub hold_until: Timestamp,
    /// New tasks wait in it: there was no slot for them.
    pub waiting: bool,
}

impl LaneRow {
    /// When a lease looks at this lane.
    pub fn ready_at(&self) -> Timestamp {
        match self.state {
            LaneState::Held => Timestamp::NEVER,
            LaneState::Closing => self.next_due,
            LaneState::Open => self.next_due.max(self.hold_until),
        }
    }

    /// Whether a new task may be taken at once: no other new one waits before it, and nothing holds the lane. A retry may be overtaken:
    /// where some fail, one is nearly always due.
    pub fn is_free(&self, now: Timestamp) -> bool {
        self.state == LaneState::Open && !self.waiting && self.hold_until <= now
    }

    /// A pending task is due at `due`.
    pub(super) fn touch(&mut self, due: Timestamp) {
        self.next_due = self.next_due.min(due);
    }
}

/// Where an open task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskPlace {
    /// It waits.
    Pending,
    /// This session holds it.
    Leased(SessionId),
    /// It stays for an operator.
    Dead,
}

/// An open task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskRow {
    /// The task.
    pub task: Task,
    /// Where it stands.
    pub place: TaskPlace,
    /// What it is counted under while it is leased, where its queue has a limit.
    pub limit_group: Option<Id>,
    /// When its holder's time is over, if the store watches it.
    pub deadline: Option<Timestamp>,
    /// When it was leased; none if it was inserted so.
    pub leased_at: Option<Timestamp>,
}

impl TaskRow {
    /// A row that nothing else is known of.
    pub(super) fn new(task: Task, place: TaskPlace) -> TaskRow {
        TaskRow { task, place, limit_group: None, deadline: None, leased_at: None }
    }

    /// Who holds it. A task that is inserted already leased is due then.
    pub(super) fn holder(&self) -> Option<Holding> {
        let TaskPlace::Leased(session) = self.place else { return None };
        Some(Holding { session, since: self.leased_at.unwrap_or_default().max(self.task.due_at) })
    }

    /// Gives it to another holder.
    pub(super) fn hand_over(&mut self, session: SessionId, now: Timestamp) -> Option<Reclaimed> {
        let from = self.holder()?;
        self.task.epoch += 1;
        self.deadline = None;
        (self.place, self.leased_at) = (TaskPlace::Leased(session), Some(now));
        Some(Reclaimed { task: self.task, from, job: None })
    }

    /// It is not leased any more.
    pub(super) fn let_go(&mut self, place: TaskPlace) {
        *self = TaskRow::new(self.task, place);
    }
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    /// A name for people.
    pub node: String,
    /// What the node does.
    pub role: Role,
    /// The binary's version.
    pub version: String,
    /// How long a renewal lasts.
    pub lease: Duration,
    /// When it was opened.
    pub started_at: Timestamp,
    /// Past this it may be closed by others.
    pub lease_until: Timestamp,
    /// When it was closed, for ever.
    pub closed_at: Option<Timestamp>,
}

/// A log entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptRow {
    /// To which endpoint; of a job, its lane.
    pub endpoint: EndpointId,
    /// By whom.
    pub session: SessionId,
    /// What was logged.
    pub attempt: NewAttempt,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRow {
    /// What was asked for.
    pub job: Arc<Job>,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// How far its worker said it is.
    pub progress: Option<Progress>,
    /// What came out.
    pub result: Option<KeptResult>,
}

/// Who holds a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRow {
    /// What was accepted under it.
    pub object: Id,
    /// The hash of what came with it.
    pub body: [u8; HASH_BYTES],
    /// When it is forgotten.
    pub expires_at: Timestamp,
}

/// A once-slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnceRow {
    /// As it was decided.
    pub slot: OnceSlot,
    /// How many calls it has suppressed.
    pub suppressed: u64,
    /// When it was first claimed.
    pub created_at: Timestamp,
    /// When its winner was accepted.
    pub claimed_at: Timestamp,
    /// When it was claimed or reset.
    pub updated_at: Timestamp,
}

impl Tables {
    /// An endpoint, and whether it was deleted.
    pub(super) fn endpoint(&self, environment: EnvironmentId, id: EndpointId) -> Option<(&Endpoint, bool)> {
        let entry = self.resources.get(&(environment, ResourceKind::Endpoint, id.0))?;
        let Resource::Endpoint(endpoint) = &entry.resource else { return None };
        Some((endpoint, entry.deleted))
    }

    /// Whether an application is there and not deleted.
    pub(super) fn has_application(&self, environment: EnvironmentId, id: ApplicationId) -> bool {
        self.groups.contains_key(&(environment, id.0))
    }

    /// A lane; every task has one.
    pub(super) fn lane(&mut self, environment: EnvironmentId, id: LaneId) -> Option<&mut LaneRow> {
        self.lanes.get_mut(&(environment, id))
    }

    /// Pending tasks of a lane in the order they go.
    pub(super) fn pending(&self, environment: EnvironmentId, lane: LaneId) -> Vec<Task> {
        let waits = |row: &&TaskRow| {
            row.place == TaskPlace::Pending && row.task.lane == lane && row.task.key.environment == environment
        };
        let mut tasks: Vec<Task> = self.tasks.values().filter(waits).map(|row| row.task).collect();
        tasks.sort_by_key(|task| (task.priority, task.due_at, task.key.id));
        tasks
    }

    /// Whether a session's tasks are its own: it exists and nobody closed it.
    pub(super) fn is_open(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_some_and(|row| row.closed_at.is_none())
    }
}
