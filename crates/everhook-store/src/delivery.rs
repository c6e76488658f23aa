//! Deliveries as users see them: one message for one endpoint, with its state and the evidence for it.
//!
//! A list visits messages in order and reads the deliveries of each. [`Listing`] decides how many messages the next
//! step visits and when the page is complete, so that both stores read the same rows at a bounded cost. A page that
//! took long ends early, and its iterator continues: on a slow machine a search has more pages, but none of them fails.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use everhook_core::delivery::{
    self, DeliveryFacts, DeliveryKey, DeliveryState, DeliveryTrace, ENDPOINT_DELETED, EndpointPresence, OuterPauses,
    Reason,
};
use everhook_core::endpoint::Endpoint;
use everhook_core::id::{ApplicationId, AttemptId, EndpointId, EnvironmentId, Id, LaneId, MessageId, TaskId};
use everhook_core::lane::HoldKind;
use everhook_core::lifecycle::EndState;
use everhook_core::limits::{ATTEMPT_SKEW_MAX, ID_SKEW_MAX, PAGE_BYTES_MAX, SEARCH_PAGE_TIME, STATS_ROWS_MAX};
use everhook_core::message::Message;
use everhook_core::name::Name;
use everhook_core::outcome::Class;
use everhook_core::policy::breaker::Breaker;
use everhook_core::task::{TaskKind, TaskState};
use everhook_core::time::Timestamp;

use crate::catalog::{Order, Slice};
use crate::history::message_bytes;
use crate::job::OpenTask;
use crate::piece::{IdRange, Piece};
use crate::sql::shared::CountEndpoint;

/// Messages that the first step of a list visits. A message can have thousands of deliveries, so it is small.
const STEP_MIN: usize = 25;
/// Messages that one step visits at most.
const STEP_MAX: usize = 500;
/// The longest time of a step. The next step after a longer one is smaller.
const STEP_TIME: Duration = Duration::from_millis(100);

#[derive(Clone, Debug)]
pub struct DeliveryFilter {
    /// None selects all applications, and only open deliveries.
    pub application: Option<ApplicationId>,
    pub message: Option<MessageId>,
    pub endpoint: Option<EndpointId>,
    /// In one of these states; empty means all.
    pub states: Vec<DeliveryState>,
    /// The class of the last attempt.
    pub class: Option<Class>,
    pub channel: Option<Name>,
    pub tag: Option<Name>,
    /// Of messages of one of these types; empty means all.
    pub event_types: Vec<Name>,
    /// Of messages accepted before this time.
    pub before: Option<Timestamp>,
    /// Of messages accepted at this time or later.
    pub after: Option<Timestamp>,
    pub content: Content,
    /// The pauses that hold deliveries, beside those of their endpoints.
    pub pauses: OuterPauses,
    pub slice: Slice<DeliveryKey>,
    /// The most messages that are visited.
    pub scan: usize,
}

/// Whether messages are read with their payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    WithPayload,
    WithoutPayload,
}

/// The table whose rows name the messages to visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visited {
    One(MessageId),
    /// The messages of an application.
    Messages(ApplicationId),
    /// The open tasks of the environment, which are few compared with its messages.
    Tasks,
}

/// An open task that a list visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VisitedTask {
    pub subject: Id,
    pub kind: TaskKind,
    pub lane: LaneId,
    pub state: TaskState,
    /// Whether the last attempt of the delivery has the wanted class; true if every class is wanted.
    pub has_class: bool,
}

/// The rows that one step of a list visited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Visit {
    /// The number of rows.
    read: usize,
    /// The message of the last row.
    last: Option<Id>,
    /// The messages whose deliveries the step reads.
    messages: Vec<Id>,
}

impl Visit {
    pub fn of_messages(messages: &[MessageId]) -> Visit {
        let messages: Vec<Id> = messages.iter().map(|id| id.0).collect();
        Visit { read: messages.len(), last: messages.last().copied(), messages }
    }

    /// Passes over tasks that no delivery of the list can have, because reading a delivery costs more than its task.
    pub fn of_tasks(tasks: &[VisitedTask], filter: &DeliveryFilter) -> Visit {
        let last = tasks.last().map(|task| task.subject);
        // The tasks of the last message may go on behind the step, and the next step begins after the message.
        let is_chosen = |task: &&VisitedTask| Some(task.subject) == last || filter.may_select(task);
        let deliveries = tasks.iter().filter(|task| task.kind == TaskKind::Delivery);
        let mut messages: Vec<Id> = deliveries.filter(is_chosen).map(|task| task.subject).collect();
        messages.dedup();
        Visit { read: tasks.len(), last, messages }
    }

    pub fn messages(&self) -> &[Id] {
        &self.messages
    }
}

impl DeliveryFilter {
    /// Selects every delivery of an application.
    pub fn of(application: Option<ApplicationId>, slice: Slice<DeliveryKey>, scan: usize) -> DeliveryFilter {
        DeliveryFilter {
            application,
            message: None,
            endpoint: None,
            states: Vec::new(),
            class: None,
            channel: None,
            tag: None,
            event_types: Vec::new(),
            before: None,
            after: None,
            content: Content::WithoutPayload,
            pauses: OuterPauses::default(),
            slice,
            scan,
        }
    }

    pub fn visited(&self) -> Visited {
        match (self.message, self.application) {
            (Some(message), _) => Visited::One(message),
            (None, Some(application)) if !self.is_open() => Visited::Messages(application),
            (None, _) => Visited::Tasks,
        }
    }

    /// Whether the filter may select the delivery of an open task.
    fn may_select(&self, task: &VisitedTask) -> bool {
        let has_state = |state: &DeliveryState| match state {
            DeliveryState::Pending | DeliveryState::Held => task.state == TaskState::Pending,
            DeliveryState::Sending => task.state == TaskState::Leased,
            DeliveryState::Dead => task.state == TaskState::Dead,
            DeliveryState::Succeeded | DeliveryState::Cancelled => true,
        };
        let is_endpoint = self.endpoint.is_none_or(|endpoint| endpoint.lane() == task.lane);
        task.has_class && is_endpoint && (self.states.is_empty() || self.states.iter().any(has_state))
    }

    /// Whether only open deliveries are selected.
    fn is_open(&self) -> bool {
        !self.states.is_empty() && self.states.iter().all(|state| state.is_open())
    }

    /// Returns the range of messages to visit. It includes the message of the iterator, whose other endpoints may be
    /// missing on the page before.
    fn range(&self) -> IdRange {
        let after = self.slice.after.map(|key| match self.slice.order {
            Order::Ascending => key.message.0.predecessor(),
            Order::Descending => key.message.0.successor(),
        });
        let beyond = IdRange::beyond(after, self.slice.order);
        beyond.between(self.after, self.before, (ID_SKEW_MAX, ID_SKEW_MAX))
    }

    fn accepts(&self, record: &DeliveryRecord) -> bool {
        let message = &record.message;
        let is_beyond = self.slice.after.is_none_or(|after| match self.slice.order {
            Order::Ascending => record.key() > after,
            Order::Descending => record.key() < after,
        });
        let is_state = match self.states.as_slice() {
            [] => self.application.is_some() || record.state.is_open(),
            states => states.contains(&record.state),
        };
        is_beyond
            && is_state
            && self.application.is_none_or(|application| message.application == application)
            && self.message.is_none_or(|wanted| message.id == wanted)
            && self.endpoint.is_none_or(|endpoint| record.endpoint.id == endpoint)
            && self.class.is_none_or(|class| record.last.as_ref().is_some_and(|last| last.class == class))
            && self.channel.as_ref().is_none_or(|channel| message.channels.contains(channel))
            && self.tag.as_ref().is_none_or(|tag| message.tags.contains(tag))
            && (self.event_types.is_empty() || self.event_types.contains(&message.event_type))
            && self.before.is_none_or(|before| message.created_at < before)
            && self.after.is_none_or(|after| message.created_at >= after)
    }
}

/// The newest life of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryRecord {
    pub message: Message,
    /// The endpoint, even if it was deleted in the meantime.
    pub endpoint: Endpoint,
    pub presence: EndpointPresence,
    pub state: DeliveryState,
    /// The task; none once the delivery has ended.
    pub open: Option<OpenTask>,
    /// The last attempt, of this life or an earlier one.
    pub last: Option<LastAttempt>,
    /// The lane starts no task before this time.
    pub hold_until: Option<Timestamp>,
    pub hold_kind: HoldKind,
    pub breaker: Breaker,
    /// The message that comes first in an ordered lane that holds.
    pub head: Option<MessageId>,
}

/// The circuit breaker of an endpoint, and the hold of its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerRecord {
    pub breaker: Breaker,
    pub hold_until: Timestamp,
    pub hold_kind: HoldKind,
}

impl BreakerRecord {
    /// Returns the time until which the breaker is open.
    pub fn open_until(&self, now: Timestamp) -> Option<Timestamp> {
        Some(self.hold_until).filter(|until| self.hold_kind == HoldKind::Breaker && *until > now)
    }
}

/// The newest attempt of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastAttempt {
    pub id: AttemptId,
    pub task: TaskId,
    pub epoch: u32,
    pub class: Class,
    pub end: EndState,
    /// The HTTP status; 0 if the receiver sent none.
    pub status: u16,
    /// Why a cancelled delivery ended; empty for other attempts.
    pub note: Bytes,
    pub started_at: Timestamp,
    pub duration: Duration,
}

/// The rows of one delivery: its newest open task and its newest attempt. At least one of the two exists.
#[derive(Clone, Debug)]
pub struct DeliveryRow {
    pub message: Message,
    pub endpoint: Endpoint,
    pub deleted_at: Option<Timestamp>,
    pub hold_until: Option<Timestamp>,
    pub hold_kind: Option<HoldKind>,
    pub breaker: Option<Breaker>,
    pub head: Option<MessageId>,
    pub open: Option<OpenTask>,
    pub last: Option<LastAttempt>,
}

impl DeliveryRecord {
    /// Returns none for rows that hold neither a task nor an attempt.
    pub fn new(row: DeliveryRow) -> Option<DeliveryRecord> {
        let presence = EndpointPresence::of(&row.endpoint, row.deleted_at.is_some());
        // A dead task stays while a later life, started by a resend, comes and goes.
        let is_newest = |open: &OpenTask| row.last.as_ref().is_none_or(|last| last.task <= open.task.key.id);
        let open = row.open.filter(is_newest);
        let trace = match (&open, &row.last) {
            (Some(open), _) => DeliveryTrace::Open(open.state),
            (None, Some(last)) => DeliveryTrace::Ended(last.end),
            (None, None) => return None,
        };
        let state = delivery::state(trace, presence);
        let DeliveryRow { message, endpoint, last, hold_until, hold_kind, breaker, head, .. } = row;
        let (hold_kind, breaker) = (hold_kind.unwrap_or_default(), breaker.unwrap_or_default());
        Some(DeliveryRecord { message, endpoint, presence, state, open, last, hold_until, hold_kind, breaker, head })
    }

    /// Holds a waiting delivery under a pause of its application or environment.
    fn under(mut self, pauses: &OuterPauses) -> DeliveryRecord {
        self.presence = self.presence.under(self.message.application, pauses);
        if let Some(open) = self.open {
            self.state = delivery::state(DeliveryTrace::Open(open.state), self.presence);
        }
        self
    }

    pub fn key(&self) -> DeliveryKey {
        DeliveryKey { message: self.message.id, endpoint: self.endpoint.id }
    }

    /// Returns why the delivery is in its state.
    pub fn reason(&self, now: Timestamp) -> Reason {
        let task = self.open.map(|open| open.task);
        let of_this_life = |last: &&LastAttempt| task.is_none_or(|task| last.task == task.key.id);
        let facts = DeliveryFacts {
            state: self.state,
            endpoint: self.presence,
            due_at: task.map(|task| task.due_at),
            leased_at: self.open.and_then(|open| open.holder).map(|holder| holder.since),
            hold_until: self.hold_until,
            hold_kind: self.hold_kind,
            breaker: self.breaker,
            head: self.head,
            message: self.message.id,
            cancel: task.is_some_and(|task| task.cancel),
            last: self.last.as_ref().filter(of_this_life).map(|last| last.class),
            ended_by_deletion: self.last.as_ref().is_some_and(|last| last.note == ENDPOINT_DELETED.as_bytes()),
        };
        delivery::reason(&facts, now)
    }

    /// Returns the time of the next attempt, if the delivery waits for one.
    pub fn next_attempt(&self) -> Option<Timestamp> {
        let waiting = self.open.filter(|open| open.state == TaskState::Pending);
        // A retry in an ordered lane, and tasks behind an open breaker, keep their due times, and the lane waits.
        let waits = matches!(self.hold_kind, HoldKind::Retry | HoldKind::Breaker);
        let lane_waits_until = self.hold_until.filter(|_| waits).unwrap_or_default();
        let waiting = waiting.filter(|open| self.presence == EndpointPresence::Enabled && !open.task.is_behind());
        waiting.map(|open| open.task.due_at.max(lane_waits_until))
    }
}

/// The state of a list while it is read, step by step.
#[derive(Debug)]
pub struct Listing<'f> {
    filter: &'f DeliveryFilter,
    range: IdRange,
    step: usize,
    visited: usize,
    spent: Duration,
    last: Option<Id>,
    has_ended: bool,
    rows: Vec<DeliveryRecord>,
}

impl<'f> Listing<'f> {
    pub fn new(filter: &'f DeliveryFilter) -> Listing<'f> {
        // The deliveries to one endpoint are few, however many endpoints a message goes to.
        let step = if filter.endpoint.is_some() { STEP_MAX } else { STEP_MIN };
        let range = filter.range();
        Listing {
            filter,
            range,
            step,
            visited: 0,
            spent: Duration::ZERO,
            last: None,
            has_ended: false,
            rows: Vec::new(),
        }
    }

    /// Returns the range of messages of the next step and the most rows to read; none if the page is complete.
    pub fn step(&self) -> Option<(&IdRange, usize)> {
        let is_complete = self.has_ended
            || self.visited >= self.filter.scan
            || self.spent >= SEARCH_PAGE_TIME
            || self.rows.len() >= self.filter.slice.limit;
        (!is_complete).then(|| (&self.range, self.step.min(self.filter.scan - self.visited)))
    }

    /// Adds the deliveries of one step, which took `took`.
    pub fn add(&mut self, visit: &Visit, found: Vec<DeliveryRecord>, took: Duration) {
        let Visit { read, last, .. } = *visit;
        let limit = self.step().map_or(0, |(_, limit)| limit);
        self.visited += read;
        self.spent += took;
        self.has_ended = read < limit || matches!(self.filter.visited(), Visited::One(_));
        let found = found.into_iter().map(|record| record.under(&self.filter.pauses));
        let mut found: Vec<_> = found.filter(|record| self.filter.accepts(record)).collect();
        found.sort_by_key(DeliveryRecord::key);
        if self.filter.slice.order == Order::Descending {
            found.reverse();
        }
        self.rows.append(&mut found);
        self.rows.truncate(self.filter.slice.limit);
        self.last = last.or(self.last);
        if let Some(last) = last {
            match self.filter.slice.order {
                Order::Ascending => self.range.above = last.as_bytes().to_vec(),
                Order::Descending => self.range.below = last.as_bytes().to_vec(),
            }
        }
        self.step = if took < STEP_TIME { (self.step * 2).min(STEP_MAX) } else { (self.step / 2).max(1) };
    }

    /// Returns the messages whose payloads are wanted, in the order of the page.
    pub fn messages(&self) -> Vec<(ApplicationId, MessageId)> {
        match self.filter.content {
            Content::WithPayload => self.rows.iter().map(|row| (row.message.application, row.message.id)).collect(),
            Content::WithoutPayload => Vec::new(),
        }
    }

    /// Ends the list. `payloads` holds those of [`Listing::messages`], up to the bytes of a page; the page ends with
    /// the last of them.
    pub fn finish(mut self, payloads: Vec<Message>) -> Piece<DeliveryRecord, DeliveryKey> {
        let limit = self.filter.slice.limit;
        if self.filter.content == Content::WithPayload {
            let whole: BTreeMap<MessageId, Message> = payloads.into_iter().map(|whole| (whole.id, whole)).collect();
            for row in &mut self.rows {
                // A message that was pruned since it was found is shown without its payload.
                if let Some(whole) = whole.get(&row.message.id) {
                    row.message = whole.clone();
                }
            }
        }
        let end = match self.filter.slice.order {
            Order::Ascending => EndpointId(Id::MAX),
            Order::Descending => EndpointId(Id::MIN),
        };
        let stopped = self.last.filter(|_| !self.has_ended);
        let scanned = stopped.map(|last| DeliveryKey { message: MessageId(last), endpoint: end });
        let rows = self.rows.into_iter().map(Ok::<_, std::convert::Infallible>);
        let weigh = |row: &DeliveryRecord| message_bytes(&row.message);
        Piece::gather(rows, limit, weigh, DeliveryRecord::key, scanned).unwrap_or_else(|never| match never {})
    }
}

/// The attempts to an endpoint that began in a period, by result, and its open deliveries now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointCounts {
    pub succeeded: usize,
    pub failed: usize,
    pub cancelled: usize,
    /// Deliveries that wait now.
    pub pending: usize,
    /// Deliveries that are being sent now.
    pub sending: usize,
    /// Whether there may be more attempts than one search reads.
    pub is_capped: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    pub since: Timestamp,
    /// The end, exclusive.
    pub until: Timestamp,
}

impl Period {
    /// Returns the range of ids that attempts of the period can have.
    pub fn range(&self) -> IdRange {
        let all = IdRange::beyond(None, Order::Descending);
        all.between(Some(self.since), Some(self.until), (ID_SKEW_MAX, ATTEMPT_SKEW_MAX))
    }

    /// Counts the attempts of the period in `range`, and the open deliveries, up to a bound.
    pub fn count(self, environment: EnvironmentId, endpoint: EndpointId, range: &IdRange) -> CountEndpoint<'_> {
        let Period { since, until } = self;
        let (above, below, rows_max) = (range.above.as_slice(), range.below.as_slice(), STATS_ROWS_MAX);
        CountEndpoint { environment, endpoint, since, until, above, below, rows_max }
    }
}

/// Counts the bytes of payloads, so that a page reads no more of them than it shows.
#[derive(Debug, Default)]
pub struct PageBytes(usize);

impl PageBytes {
    /// Adds a payload. Returns whether the page has room for the next one.
    pub fn add(&mut self, message: &Message) -> bool {
        self.0 = self.0.saturating_add(message_bytes(message));
        self.0 <= PAGE_BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(at: i64) -> Id {
        Id::floor(Timestamp::from_millis(1_700_000_000_000 + at * 1000))
    }

    fn filter(states: Vec<DeliveryState>, endpoint: Option<EndpointId>) -> DeliveryFilter {
        let slice = Slice { after: None, order: Order::Ascending, limit: 10 };
        DeliveryFilter { states, endpoint, ..DeliveryFilter::of(None, slice, 5000) }
    }

    #[test]
    fn a_page_that_took_long_ends_and_tells_where_to_continue() {
        let filter = filter(vec![DeliveryState::Dead], None);
        let mut listing = Listing::new(&filter);
        let mut last = 0;
        let mut step = |listing: &mut Listing<'_>, took| {
            let (_, limit) = listing.step()?;
            let visited = (0..limit).map(|_| {
                last += 1;
                MessageId(id(last))
            });
            listing.add(&Visit::of_messages(&visited.collect::<Vec<_>>()), Vec::new(), took);
            Some(limit)
        };
        let quick = Duration::from_millis(1);
        assert_eq!([step(&mut listing, quick), step(&mut listing, quick)], [Some(25), Some(50)], "steps grow");
        assert_eq!(step(&mut listing, STEP_TIME), Some(100));
        assert_eq!(step(&mut listing, SEARCH_PAGE_TIME), Some(50), "a slow step is followed by a smaller one");
        assert_eq!(step(&mut listing, quick), None, "the page has taken its time");
        let piece = listing.finish(Vec::new());
        assert_eq!(piece.next.map(|key| key.message), Some(MessageId(id(225))));
    }

    #[test]
    fn a_step_passes_over_tasks_that_cannot_match_but_never_over_its_last_message() {
        let (here, there) = (EndpointId(id(1)), EndpointId(id(2)));
        let task = |at, endpoint: EndpointId, state, has_class| VisitedTask {
            subject: id(at),
            kind: TaskKind::Delivery,
            lane: endpoint.lane(),
            state,
            has_class,
        };
        let tasks = [
            task(10, here, TaskState::Dead, true),
            task(11, here, TaskState::Pending, true),
            task(12, there, TaskState::Dead, true),
            task(13, here, TaskState::Dead, false),
            VisitedTask { kind: TaskKind::Job, ..task(14, here, TaskState::Dead, true) },
            task(15, there, TaskState::Pending, true),
        ];
        let visit = Visit::of_tasks(&tasks, &filter(vec![DeliveryState::Dead], Some(here)));
        assert_eq!(visit.messages(), [id(10), id(15)], "the tasks of the last one may go on behind the step");
        assert_eq!((visit.read, visit.last), (6, Some(id(15))));
        let held = filter(vec![DeliveryState::Held, DeliveryState::Sending], None);
        assert_eq!(Visit::of_tasks(&tasks[..4], &held).messages(), [id(11), id(13)]);
    }
}
