//! Sessions, and the life of a task from append to settle.
//!
//! ARCHITECTURE.md explains the rules under "Leases". In short: nodes lease sessions, not rows. Tasks are reclaimed
//! only from closed sessions. Every write of a holder is fenced by task, epoch and session.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use everhook_core::endpoint::Endpoint;
use everhook_core::exchange::StoredExchange;
use everhook_core::fair::{GroupId, GroupedLane};
use everhook_core::fanout::Audience;
use everhook_core::id::{AttemptId, BatchId, EnvironmentId, LaneId, MessageId, SessionId};
use everhook_core::job::Job;
use everhook_core::job::report::KeptResult;
use everhook_core::lane::{Feed, LanePosition};
use everhook_core::lifecycle::{EndState, NextRow};
use everhook_core::message::Message;
use everhook_core::name::Name;
use everhook_core::once::OnceClaim;
use everhook_core::outcome::Class;
use everhook_core::policy::RateLimit;
use everhook_core::policy::breaker::Breaker;
use everhook_core::policy::limit::{LimitEnd, RetryPlace};
use everhook_core::policy::order::OrderKey;
use everhook_core::queue::Target;
use everhook_core::role::Role;
use everhook_core::task::{Task, TaskKey, TaskKind, Trigger};
use everhook_core::time::Timestamp;

use crate::capacity::{Capacity, LeaseCapacity, Slot};
use crate::dedup::DedupKey;
use crate::worker::Takes;

#[derive(Clone, Debug)]
pub struct NewSession {
    /// Random, never used again.
    pub id: SessionId,
    /// A display name: host and process.
    pub node: String,
    pub role: Role,
    pub version: String,
    /// The time that one renewal lasts.
    pub lease: Duration,
    /// The queues of a worker; none for a node.
    pub takes: Option<Takes>,
}

/// A session as the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRecord {
    pub id: SessionId,
    pub node: String,
    pub role: Role,
    pub version: String,
    pub lease: Duration,
    /// The time at which the session was opened.
    pub started_at: Timestamp,
    pub renewed_at: Timestamp,
    /// A closed session never opens again.
    pub closed_at: Option<Timestamp>,
    /// The number of tasks that it holds. Tasks of a closed session wait to be reclaimed.
    pub held: u32,
}

/// The answer to a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// The session continues; renewed at this time of the store.
    Open(Timestamp),
    /// The session continues, but a standby of the store has taken over. If it was behind, confirmed writes may be
    /// lost.
    Moved(Timestamp),
    /// The session was closed and never works again.
    Closed,
}

/// A message to append, with the keys under which it is accepted once.
#[derive(Clone, Debug)]
pub struct NewMessage {
    pub environment: EnvironmentId,
    /// The message with its payload. The store replaces `created_at` with its own time.
    pub message: Message,
    /// An idempotency key, an event id, both or none.
    pub keys: Vec<DedupKey>,
    /// The version of the application's lane group when the application was found by a uid, which may change.
    pub version: Option<i64>,
    /// The once-slot to claim with the message. If another message has it, nothing is accepted.
    pub once: Option<OnceClaim>,
    /// The time from which its deliveries are due, if that is later than now.
    pub deliver_at: Option<Timestamp>,
    pub audience: Audience,
}

/// The endpoints of a message, and the time of its deliveries.
#[derive(Clone, Copy, Debug, Default)]
pub struct Addressing {
    pub audience: Audience,
    pub deliver_at: Option<Timestamp>,
}

impl NewMessage {
    /// Returns a message without keys, to be delivered now.
    pub fn new(environment: EnvironmentId, message: Message) -> NewMessage {
        NewMessage {
            environment,
            message,
            keys: Vec::new(),
            version: None,
            once: None,
            deliver_at: None,
            audience: Audience::default(),
        }
    }

    /// Returns the part that plans the deliveries.
    pub fn addressing(&self) -> Addressing {
        Addressing { audience: self.audience, deliver_at: self.deliver_at }
    }
}

pub struct Append {
    /// The session that may lease new tasks at once; none if this node does not deliver, or is in doubt about its
    /// session.
    pub fast: Option<FastPath>,
    /// The messages. Each gets an answer of its own.
    pub messages: Vec<NewMessage>,
}

/// The holder of tasks that are inserted already leased, and its capacity.
#[derive(Clone)]
pub struct FastPath {
    pub session: SessionId,
    /// Reserves one slot per task, so that the node never holds more than it can run.
    pub slots: Arc<dyn Capacity>,
}

impl FastPath {
    /// Reserves a slot for a delivery. Deliveries that a lease has to count get none.
    ///
    /// `hold_until` is the hold of the lane, which the transaction has locked. A rate limit raises it, and the
    /// transaction writes it: it says which permits are used.
    pub fn reserve(
        &self,
        lane: GroupedLane,
        endpoint: &Endpoint,
        hold_until: &mut Timestamp,
        now: Timestamp,
    ) -> Option<Slot> {
        let limits = endpoint.limits();
        if limits.needs_lease() {
            return None;
        }
        let Some(rate) = limits.rate else { return Slot::reserve(&self.slots, lane) };
        let booked = rate.booking(1).hold(*hold_until, now)?;
        let slot = Slot::reserve(&self.slots, lane)?;
        *hold_until = booked;
        Some(slot)
    }

    /// Reserves a slot for a delivery whose lane is not read before the write. Returns it with the rate limit, if there
    /// is one: the write must take a permit.
    pub fn reserve_unread(&self, lane: GroupedLane, endpoint: &Endpoint) -> Option<(Slot, Option<RateLimit>)> {
        let limits = endpoint.limits();
        if limits.needs_lease() {
            return None;
        }
        Some((Slot::reserve(&self.slots, lane)?, limits.rate))
    }
}

/// The result of appending one message.
#[derive(Debug)]
pub enum Appended {
    /// Committed with all of its deliveries.
    Accepted {
        /// The message as it was written.
        message: Arc<Message>,
        /// Tasks that this node already holds, each with its slot.
        leased: Vec<(Leased, Slot)>,
        pending: usize,
    },
    /// The same request was accepted earlier as this message.
    Repeated(MessageId),
    /// The idempotency key was used with another body.
    KeyReused,
    /// The event id was used earlier.
    EventIdTaken,
    /// The application does not exist, or has changed since it was looked up.
    NoApplication,
    /// This message already has the once-slot. Nothing was accepted, and the keys remain free.
    Suppressed(MessageId),
}

impl Appended {
    pub fn is_accepted(&self) -> bool {
        matches!(self, Appended::Accepted { .. })
    }
}

/// A leased task with the data that its holder needs.
#[derive(Clone, Debug)]
pub struct Leased {
    /// The task, with the epoch of this lease.
    pub task: Task,
    pub work: Work,
    /// The circuit breaker of its lane, as of the lease.
    pub breaker: Breaker,
}

/// The work of a task, as of its lease.
#[derive(Clone, Debug)]
pub enum Work {
    /// Sends a message to an endpoint.
    Delivery {
        /// None if the message was pruned.
        message: Option<Arc<Message>>,
        /// None if the endpoint was deleted.
        endpoint: Option<Arc<Endpoint>>,
    },
    /// Runs a job on a worker, or pushes it to the target of its queue.
    Job {
        /// None if the record was pruned.
        job: Option<Arc<Job>>,
        /// None if workers run the job.
        target: Option<Arc<Target>>,
    },
}

impl Leased {
    pub fn message(&self) -> Option<&Arc<Message>> {
        match &self.work {
            Work::Delivery { message, .. } => message.as_ref(),
            Work::Job { .. } => None,
        }
    }

    pub fn endpoint(&self) -> Option<&Arc<Endpoint>> {
        match &self.work {
            Work::Delivery { endpoint, .. } => endpoint.as_ref(),
            Work::Job { .. } => None,
        }
    }

    pub fn job(&self) -> Option<&Arc<Job>> {
        match &self.work {
            Work::Delivery { .. } => None,
            Work::Job { job, .. } => job.as_ref(),
        }
    }

    pub fn target(&self) -> Option<&Arc<Target>> {
        match &self.work {
            Work::Delivery { .. } => None,
            Work::Job { target, .. } => target.as_ref(),
        }
    }
}

/// The holder of a task, and the time of its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    pub session: SessionId,
    pub since: Timestamp,
}

/// A request to take tasks over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReclaimAsk {
    /// The new holder.
    pub session: SessionId,
    pub limit: usize,
    pub what: Reclaim,
}

/// The tasks that may be taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaim {
    /// Tasks whose owner is not an open session. The caller settles them as abandoned.
    Orphaned,
    /// Jobs under a watched lease that have passed their timeout. The caller settles them as timed out.
    Overdue,
}

/// A task that was taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reclaimed {
    /// The task, with a new epoch.
    pub task: Task,
    /// The previous holder.
    pub from: Holding,
    /// The record of an overdue job; none if it was pruned. Orphaned tasks are taken over without records.
    pub job: Option<Arc<Job>>,
}

#[derive(Clone, Debug)]
pub struct LeaseAsk {
    /// The new holder.
    pub session: SessionId,
    pub limit: usize,
    /// The feeds to lease from. A queue that is paused or at its limit returns no task. Only the first entry of a feed
    /// counts.
    pub feeds: Vec<FeedAsk>,
    /// The free capacity of lanes with running tasks. A lane with zero is skipped.
    pub free_by_lane: Vec<(LaneId, usize)>,
    /// The free capacity of every other lane.
    pub per_lane: usize,
    /// Decides how many deliveries each ready lane may give, instead of the numbers above. Lanes that it refuses do not
    /// count as ready.
    pub slots: Option<LeaseCapacity>,
    /// Lane groups that the node would refuse. Their lanes are skipped.
    pub full_groups: Vec<GroupId>,
    /// Paused environments. Their lanes of deliveries are skipped.
    pub paused: Vec<EnvironmentId>,
    /// The position after which to look for ready lanes of deliveries; none for those that have been ready longest.
    pub after: Option<LanePosition>,
    /// Only jobs of these kinds; empty means all.
    pub kinds: Vec<Name>,
    /// Whether the store takes tasks back after their timeout. Remote workers need this; a node watches its own tasks.
    pub watched: bool,
}

/// A feed to lease from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedAsk {
    pub feed: Feed,
    /// The most tasks from this feed.
    pub capacity: usize,
}

impl FeedAsk {
    /// Asks for up to `capacity` jobs of a queue.
    pub fn queue(environment: EnvironmentId, name: Name, capacity: usize) -> FeedAsk {
        FeedAsk { feed: Feed::Queue { environment, name }, capacity }
    }
}

impl LeaseAsk {
    /// Asks for up to `limit` tasks of these feeds, of all kinds and lanes.
    pub fn new(session: SessionId, limit: usize, feeds: Vec<FeedAsk>) -> LeaseAsk {
        LeaseAsk {
            session,
            limit,
            feeds,
            free_by_lane: Vec::new(),
            per_lane: usize::MAX,
            slots: None,
            full_groups: Vec::new(),
            paused: Vec::new(),
            after: None,
            kinds: Vec::new(),
            watched: false,
        }
    }

    /// Asks for up to `limit` deliveries.
    pub fn deliveries(session: SessionId, limit: usize) -> LeaseAsk {
        LeaseAsk::new(session, limit, vec![FeedAsk { feed: Feed::Deliveries, capacity: limit }])
    }

    /// Returns the most tasks of one lease, within the bounds of its feeds.
    pub fn tasks_max(&self) -> usize {
        self.feeds.iter().map(|asked| asked.feed.lease_max()).min().unwrap_or(0).min(self.limit)
    }

    /// Returns the free capacity of a lane on the asking node.
    pub fn capacity(&self, lane: LaneId) -> usize {
        self.free_by_lane.iter().find(|(id, _)| *id == lane).map_or(self.per_lane, |(_, capacity)| *capacity)
    }
}

/// The answer to a request for tasks.
#[derive(Debug, Default)]
pub struct LeaseGrant {
    /// The leased tasks. Within a lane they are ordered by priority, due time and id; lanes take turns.
    pub tasks: Vec<Leased>,
    /// A slot for each task, if the request has a capacity.
    pub slots: Vec<Slot>,
    /// The position at which the next lease continues; none if all ready lanes were considered.
    pub resume: Option<LanePosition>,
    /// The time until the next lane is ready, as far as the store knows. Lanes without free capacity do not count.
    pub next_ready: Option<Duration>,
}

/// The end of an attempt, or of a lease without an attempt.
#[derive(Clone, Debug)]
pub struct Settlement {
    pub key: TaskKey,
    /// Decides where the attempt is logged.
    pub kind: TaskKind,
    pub lane: LaneId,
    /// The batch to update if the job ends.
    pub batch: Option<BatchId>,
    pub session: SessionId,
    /// The epoch of the holder's lease. Together with the session it fences the write.
    pub epoch: u32,
    /// The next state of the row.
    pub row: NextRow,
    /// The task's tries from now on.
    pub tries: u32,
    /// The task's crashes from now on.
    pub crashes: u32,
    /// The log entry; none if the task is handed back without an attempt.
    pub attempt: Option<NewAttempt>,
    /// None of the lane's tasks may start for this time.
    pub hold_lane: Option<Duration>,
    /// The effect on a lane that counts its deliveries, or sends them in order.
    pub limits: LimitEnd,
    /// The key that orders the delivery. If the delivery ends, the next of its key is due.
    pub order_key: Option<OrderKey>,
    /// Stops the lane at the receiver's request: its endpoint is disabled, or its queue is stopped.
    pub stop_lane: bool,
    /// The result of a job.
    pub result: Option<KeptResult>,
}

impl Settlement {
    /// Returns the settlement that hands a task back as it was, without an attempt.
    pub fn of(task: &Task, session: SessionId) -> Settlement {
        Settlement {
            key: task.key,
            kind: task.kind,
            lane: task.lane,
            batch: task.batch,
            session,
            epoch: task.epoch,
            row: NextRow::Pending { due_in: Duration::ZERO },
            tries: task.tries,
            crashes: task.crashes,
            attempt: None,
            hold_lane: None,
            limits: LimitEnd::default(),
            order_key: task.order_key,
            stop_lane: false,
            result: None,
        }
    }

    /// Returns how long an ordered lane waits for the retry of this task; zero if it does not.
    pub fn retry_hold(&self) -> Duration {
        match (self.limits.place, self.row) {
            (RetryPlace::Kept, NextRow::Pending { due_in }) => due_in,
            _ => Duration::ZERO,
        }
    }

    /// Returns the lane and key of a delivery that ends, if it is ordered by a key. The next of its key may start.
    pub fn ended_key(&self) -> Option<(EnvironmentId, LaneId, OrderKey)> {
        let has_ended = !matches!(self.row, NextRow::Pending { .. });
        self.order_key.filter(|_| has_ended).map(|key| (self.key.environment, self.lane, key))
    }

    /// Returns the endpoint in the log entry; none for a job.
    pub fn logged_endpoint(&self) -> Option<LaneId> {
        (self.kind == TaskKind::Delivery).then_some(self.lane)
    }

    /// Returns the session in the log entry. For deliveries this is only a holder that lost the task: there are too
    /// many attempts to store a column that is never read.
    pub fn logged_session(&self) -> Option<SessionId> {
        let holder = self.attempt.as_ref().and_then(|attempt| attempt.holder);
        match self.kind {
            TaskKind::Delivery => holder,
            TaskKind::Job => holder.or(Some(self.session)),
        }
    }
}

/// The log entry of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAttempt {
    /// Drawn before the request, which carries it in a header. For an attempt without a request, drawn at its end.
    pub id: AttemptId,
    /// The previous holder, if the settling session has taken the task over.
    pub holder: Option<SessionId>,
    pub class: Class,
    pub end: EndState,
    pub trigger: Trigger,
    /// The URL of the request; empty if a worker ran the job.
    pub url: String,
    /// The HTTP status; 0 if the receiver sent none.
    pub status: u16,
    /// The stored part of the reply, or the error; for a job, the worker's report.
    pub reply: Bytes,
    pub started_at: Timestamp,
    pub duration: Duration,
    /// The steps of a delivery's request; none if nothing was sent.
    pub exchange: Option<StoredExchange>,
}

impl NewAttempt {
    /// Returns the steps as the text of a column.
    pub fn exchange_text(&self) -> Option<&str> {
        self.exchange.as_ref().map(StoredExchange::as_str)
    }
}

/// The result of a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Recorded, now or by an earlier call with the same settlement.
    Done,
    /// Another session holds the task or has ended it; nothing was changed.
    Lost,
}
