//! The lease engine: sessions, and the life of a task from append to settle.
//!
//! The rules behind these methods are in `ARCHITECTURE.md` under "Leases". In short: a session is leased, not a row; tasks
//! are reclaimed only from closed sessions; every write by a holder is fenced by task, epoch and session.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use everhook_core::endpoint::Endpoint;
use everhook_core::id::{AttemptId, BatchId, EnvironmentId, LaneId, MessageId, SessionId};
use everhook_core::job::Job;
use everhook_core::job::report::KeptResult;
use everhook_core::lane::Feed;
use everhook_core::lifecycle::{EndState, NextRow};
use everhook_core::message::Message;
use everhook_core::name::Name;
use everhook_core::once::OnceClaim;
use everhook_core::outcome::Class;
use everhook_core::queue::Target;
use everhook_core::role::Role;
use everhook_core::task::{Task, TaskKey, TaskKind, Trigger};
use everhook_core::time::Timestamp;

use crate::capacity::{Capacity, Slot};
use crate::dedup::DedupKey;
use crate::worker::Takes;

/// What a node tells of itself when it begins a session.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// Random, never reused.
    pub id: SessionId,
    /// A name for people: host and process.
    pub node: String,
    /// What the node does.
    pub role: Role,
    /// The binary's version.
    pub version: String,
    /// How long a renewal lasts.
    pub lease: Duration,
    /// The queues that a worker takes from; none for a node.
    pub takes: Option<Takes>,
}

/// A session as the store knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRecord {
    /// Its id.
    pub id: SessionId,
    /// A name for people: host and process.
    pub node: String,
    /// What the node does.
    pub role: Role,
    /// The binary's version.
    pub version: String,
    /// How long a renewal lasts.
    pub lease: Duration,
    /// When it was opened.
    pub started_at: Timestamp,
    /// When it was last renewed.
    pub renewed_at: Timestamp,
    /// When it was closed, for ever.
    pub closed_at: Option<Timestamp>,
    /// How many tasks it holds. Those of a closed one wait to be taken over.
    pub held: u32,
}

/// The answer to a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// The session goes on; the store's time when it was renewed.
    Open(Timestamp),
    /// It goes on, but on a copy of the store that took over: what was confirmed before may be gone, if the copy was behind.
    Moved(Timestamp),
    /// Someone closed it: it never works again.
    Closed,
}

/// A message to append, with the keys it is accepted once under.
#[derive(Clone, Debug)]
pub struct NewMessage {
    /// The tenant.
    pub environment: EnvironmentId,
    /// The message; its payload is there, and `created_at` is overwritten with the store's time.
    pub message: Message,
    /// An idempotency key, an event id, both or none.
    pub keys: Vec<DedupKey>,
    /// The version of the application's lane group at which it was found, if by something that may move, such as its uid.
    pub version: Option<i64>,
    /// A slot that is claimed with it: if someone has it already, nothing is accepted.
    pub once: Option<OnceClaim>,
    /// When its deliveries are due, if that is later than now.
    pub deliver_at: Option<Timestamp>,
}

impl NewMessage {
    /// A message that is accepted whatever came before it, to be delivered now.
    pub fn new(environment: EnvironmentId, message: Message) -> NewMessage {
        NewMessage { environment, message, keys: Vec::new(), version: None, once: None, deliver_at: None }
    }
}

/// Messages to append in one transaction.
pub struct Append {
    /// The session that may take tasks at once; none where this node does not deliver or is in doubt about itself.
    pub fast: Option<FastPath>,
    /// The messages, each judged by itself.
    pub messages: Vec<NewMessage>,
}

/// Who takes tasks that are inserted already leased, and how many.
#[derive(Clone)]
pub struct FastPath {
    /// The holder.
    pub session: SessionId,
    /// Its room.
    pub slots: Arc<dyn Capacity>,
}

/// What became of one appended message.
#[derive(Debug)]
pub enum Appended {
    /// Committed, with every delivery it causes.
    Accepted {
        /// As it was written.
        message: Arc<Message>,
        /// Tasks that are this node's already, each with its slot.
        leased: Vec<(Leased, Slot)>,
        /// How many tasks wait for a lease.
        pending: usize,
    },
    /// The same request was accepted before, as this message.
    Repeated(MessageId),
    /// The idempotency key was used with another body.
    KeyReused,
    /// The event id was used before.
    EventIdTaken,
    /// There is no such application, or it has changed since it was looked up.
    NoApplication,
    /// The once-slot is this message's: nothing was accepted, and its keys are free for others.
    Suppressed(MessageId),
}

/// A task with what its holder needs to run it.
#[derive(Clone, Debug)]
pub struct Leased {
    /// The task, with the epoch of this lease.
    pub task: Task,
    /// What it is about.
    pub work: Work,
}

/// What a task is about, as of its lease.
#[derive(Clone, Debug)]
pub enum Work {
    /// A message goes to an endpoint.
    Delivery {
        /// None if it was pruned.
        message: Option<Arc<Message>>,
        /// None if it was deleted.
        endpoint: Option<Arc<Endpoint>>,
    },
    /// A job is done by a worker, or pushed to the target of its queue.
    Job {
        /// None if its record is gone.
        job: Option<Arc<Job>>,
        /// None where workers do it.
        target: Option<Arc<Target>>,
    },
}

impl Leased {
    /// The message of a delivery.
    pub fn message(&self) -> Option<&Arc<Message>> {
        match &self.work {
            Work::Delivery { message, .. } => message.as_ref(),
            Work::Job { .. } => None,
        }
    }

    /// The endpoint of a delivery.
    pub fn endpoint(&self) -> Option<&Arc<Endpoint>> {
        match &self.work {
            Work::Delivery { endpoint, .. } => endpoint.as_ref(),
            Work::Job { .. } => None,
        }
    }

    /// The record of a job.
    pub fn job(&self) -> Option<&Arc<Job>> {
        match &self.work {
            Work::Delivery { .. } => None,
            Work::Job { job, .. } => job.as_ref(),
        }
    }

    /// The target that a job is pushed to.
    pub fn target(&self) -> Option<&Arc<Target>> {
        match &self.work {
            Work::Delivery { .. } => None,
            Work::Job { target, .. } => target.as_ref(),
        }
    }
}

/// Who holds a task, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The holder.
    pub session: SessionId,
    /// When the task was leased.
    pub since: Timestamp,
}

/// A wish to take tasks over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReclaimAsk {
    /// The holder-to-be.
    pub session: SessionId,
    /// Tasks at most.
    pub limit: usize,
    /// Which tasks.
    pub what: Reclaim,
}

/// The tasks that may be taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaim {
    /// Tasks whose owner is not an open session; the caller settles them as abandoned.
    Orphaned,
    /// Jobs under a watched lease that run longer than they may; the caller settles them as timed out.
    Overdue,
}

/// A task that was taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reclaimed {
    /// The task, with a new epoch.
    pub task: Task,
    /// From whom.
    pub from: Holding,
    /// The record of an overdue job; none if the record is gone. Orphaned tasks are taken over without records.
    pub job: Option<Arc<Job>>,
}

/// A wish for work.
#[derive(Clone, Debug)]
pub struct LeaseAsk {
    /// The holder-to-be.
    pub session: SessionId,
    /// Tasks at most.
    pub limit: usize,
    /// The lanes to take from. A queue that is paused, or at its limit, gives nothing; of a feed that is named twice the
    /// first counts.
    pub feeds: Vec<FeedAsk>,
    /// The room of lanes with running tasks; zero means: do not look.
    pub free_by_lane: Vec<(LaneId, usize)>,
    /// The room of every other lane.
    pub per_lane: usize,
    /// Only jobs of these kinds; empty means all.
    pub kinds: Vec<Name>,
    /// Whether the store is to take back tasks whose time is over: for holders that nobody else watches.
    pub watched: bool,
}

/// A feed to take from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedAsk {
    /// Its lanes.
    pub feed: Feed,
    /// Tasks of it at most.
    pub capacity: usize,
}

impl FeedAsk {
    /// Asks a queue for so many jobs.
    pub fn queue(environment: EnvironmentId, name: Name, capacity: usize) -> FeedAsk {
        FeedAsk { feed: Feed::Queue { environment, name }, capacity }
    }
}

impl LeaseAsk {
    /// Asks for so many tasks of these feeds, of all kinds, whatever lanes they are in.
    pub fn new(session: SessionId, limit: usize, feeds: Vec<FeedAsk>) -> LeaseAsk {
        LeaseAsk {
            session,
            limit,
            feeds,
            free_by_lane: Vec::new(),
            per_lane: usize::MAX,
            kinds: Vec::new(),
            watched: false,
        }
    }

    /// Asks for so many deliveries.
    pub fn deliveries(session: SessionId, limit: usize) -> LeaseAsk {
        LeaseAsk::new(session, limit, vec![FeedAsk { feed: Feed::Deliveries, capacity: limit }])
    }

    /// Tasks at most, within the bounds of its feeds.
    pub fn tasks_max(&self) -> usize {
        self.feeds.iter().map(|asked| asked.feed.lease_max()).min().unwrap_or(0).min(self.limit)
    }

    /// The room of a lane on the node of the asker.
    pub fn capacity(&self, lane: LaneId) -> usize {
        self.free_by_lane.iter().find(|(id, _)| *id == lane).map_or(self.per_lane, |(_, capacity)| *capacity)
    }
}

/// The answer to a wish for work.
#[derive(Clone, Debug, Default)]
pub struct LeaseGrant {
    /// Leased to the asking session now: within a lane by priority, due time and id; lanes take turns.
    pub tasks: Vec<Leased>,
    /// When the next lane becomes ready, as far as the store knows; lanes that wait for room do not count.
    pub next_ready: Option<Duration>,
}

/// The end of an attempt.
#[derive(Clone, Debug)]
pub struct Settlement {
    /// The task.
    pub key: TaskKey,
    /// What kind of work it is: where the attempt is logged.
    pub kind: TaskKind,
    /// Its lane.
    pub lane: LaneId,
    /// The batch that is told if this is how a job of it ends.
    pub batch: Option<BatchId>,
    /// Who held it.
    pub session: SessionId,
    /// In which lease.
    pub epoch: u32,
    /// What becomes of the row.
    pub row: NextRow,
    /// The task's tries from now on.
    pub tries: u32,
    /// The task's crashes from now on.
    pub crashes: u32,
    /// The log entry; none when the task was handed back untouched.
    pub attempt: Option<NewAttempt>,
    /// Nothing of this lane is to start before this has passed.
    pub hold_lane: Option<Duration>,
    /// The receiver wants no more of this lane: its endpoint is disabled, its queue stopped.
    pub stop_lane: bool,
    /// What came out of a job.
    pub result: Option<KeptResult>,
}

impl Settlement {
    /// The endpoint that the attempt is logged for; none for a job.
    pub fn logged_endpoint(&self) -> Option<LaneId> {
        (self.kind == TaskKind::Delivery).then_some(self.lane)
    }

    /// The holder that the attempt is logged with. Deliveries name only a holder that lost them: the others have too many
    /// attempts for a column that nobody asks for.
    pub fn logged_session(&self) -> Option<SessionId> {
        let holder = self.attempt.as_ref().and_then(|attempt| attempt.holder);
        match self.kind {
            TaskKind::Delivery => holder,
            TaskKind::Job => holder.or(Some(self.session)),
        }
    }
}

/// A log entry of one try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAttempt {
    /// Its id, made when the attempt ended.
    pub id: AttemptId,
    /// Who had the task, if not the session that settles it: a holder whose task was taken over.
    pub holder: Option<SessionId>,
    /// How it ended.
    pub class: Class,
    /// How it left the task.
    pub end: EndState,
    /// Why the task exists.
    pub trigger: Trigger,
    /// Where it was sent; empty where a worker did it.
    pub url: String,
    /// The HTTP status; 0 if none came.
    pub status: u16,
    /// What is kept of the reply, or what went wrong; of a job, what its worker said.
    pub reply: Bytes,
    /// When it began.
    pub started_at: Timestamp,
    /// How long it took.
    pub duration: Duration,
}

/// What became of a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It counts; also when this is the second time it was said.
    Done,
    /// Someone else holds the task, or ended it: nothing was changed.
    Lost,
}
