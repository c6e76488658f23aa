//! Messages, attempts and delivery states as users see them, and requests to resend, redrive or expunge.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use everhook_core::delivery::{self, DeliveryState, DeliveryTrace, EndpointPresence, OuterPauses};
use everhook_core::endpoint::Endpoint;
use everhook_core::exchange::Exchange;
use everhook_core::id::{ApplicationId, AttemptId, EndpointId, EnvironmentId, Id, MessageId, TaskId};
use everhook_core::lifecycle::EndState;
use everhook_core::limits::{ATTEMPT_SKEW_MAX, ID_SKEW_MAX};
use everhook_core::message::Message;
use everhook_core::name::Name;
use everhook_core::outcome::Class;
use everhook_core::scope::AppScope;
use everhook_core::task::{TaskState, Trigger};
use everhook_core::time::Timestamp;

use crate::catalog::{Order, Slice};
use crate::dedup::DedupKey;
use crate::fields;
use crate::piece::{IdRange, after, before};

fields! {
    /// The filter of a list of messages. Event types are apart: only one of the stores has arrays.
    pub MessageSearch<'a> {
        scope: AppScope,
        above: &'a [u8],
        below: &'a [u8],
        before: Timestamp,
        after: Timestamp,
        channel: Option<&'a Name>,
        tag: Option<&'a Name>,
        text: Option<&'a [u8]>,
        limit: usize,
        order: Order,
    }

    /// The filter of a list of attempts, without event types; `of` is a message or an endpoint.
    pub AttemptSearch<'a> {
        environment: EnvironmentId,
        of: Id,
        above: &'a [u8],
        below: &'a [u8],
        succeeded: Option<bool>,
        status_from: i32,
        status_to: i32,
        before: Timestamp,
        after: Timestamp,
        channel: Option<&'a Name>,
        tag: Option<&'a Name>,
        application: ApplicationId,
        limit: usize,
        order: Order,
    }
}

#[derive(Clone, Debug)]
pub struct MessageFilter {
    pub slice: Slice<MessageId>,
    /// Accepted before this time.
    pub before: Option<Timestamp>,
    /// Accepted at this time or later.
    pub after: Option<Timestamp>,
    pub channel: Option<Name>,
    pub tag: Option<Name>,
    /// Of one of these types; empty means all.
    pub event_types: Vec<Name>,
    /// With this text in the payload, byte for byte. Rows without a payload do not match.
    pub text: Option<String>,
    /// The most rows that are read and compared with the filter.
    pub scan: usize,
}

impl MessageFilter {
    /// The id of a message may be drawn this long before or after its acceptance.
    pub const SKEW: (Duration, Duration) = (ID_SKEW_MAX, ID_SKEW_MAX);

    /// Whether the search may read rows that it does not return.
    pub fn is_selective(&self) -> bool {
        self.before.is_some()
            || self.after.is_some()
            || self.channel.is_some()
            || self.tag.is_some()
            || self.text.is_some()
            || !self.event_types.is_empty()
    }

    /// Returns the range of ids that the list can contain.
    pub fn range(&self) -> IdRange {
        let beyond = IdRange::beyond(self.slice.after.map(|id| id.0), self.slice.order);
        beyond.between(self.after, self.before, MessageFilter::SKEW)
    }

    /// Returns the search for messages of this range.
    pub fn search<'a>(&'a self, scope: AppScope, range: &'a IdRange) -> MessageSearch<'a> {
        MessageSearch {
            scope,
            above: &range.above,
            below: &range.below,
            before: before(self.before),
            after: after(self.after),
            channel: self.channel.as_ref(),
            tag: self.tag.as_ref(),
            text: self.text.as_ref().map(|text| text.as_bytes()),
            limit: self.slice.limit,
            order: self.slice.order,
        }
    }

    /// Whether a message passes the filter. The range of ids is not part of it.
    pub fn admits(&self, message: &Message) -> bool {
        self.before.is_none_or(|before| message.created_at < before)
            && self.after.is_none_or(|after| message.created_at >= after)
            && self.channel.as_ref().is_none_or(|channel| message.channels.contains(channel))
            && self.tag.as_ref().is_none_or(|tag| message.tags.contains(tag))
            && (self.event_types.is_empty() || self.event_types.contains(&message.event_type))
            && self.text.as_ref().is_none_or(|text| message.payload.as_ref().is_some_and(|payload| has(payload, text)))
    }
}

fn has(payload: &[u8], text: &str) -> bool {
    payload.windows(text.len().max(1)).any(|window| window == text.as_bytes())
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub id: AttemptId,
    pub message: MessageId,
    pub endpoint: EndpointId,
    pub epoch: u32,
    pub class: Class,
    pub end: EndState,
    /// The reason why the task exists.
    pub trigger: Trigger,
    pub url: String,
    /// The HTTP status; 0 if the receiver sent none.
    pub status: u16,
    /// The stored part of the reply, or the error.
    pub reply: Bytes,
    pub started_at: Timestamp,
    pub duration: Duration,
    /// The steps of the request; none if nothing was sent, or a server before this log existed made the attempt.
    pub exchange: Option<Exchange>,
}

/// The subject of a list of attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptsOf {
    /// One message, at any endpoint or at one.
    Message(MessageId, Option<EndpointId>),
    Endpoint(EndpointId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptResult {
    /// The receiver answered 2xx.
    Succeeded,
    /// Any other end.
    Failed,
}

#[derive(Clone, Debug)]
pub struct AttemptFilter {
    pub of: AttemptsOf,
    pub slice: Slice<AttemptId>,
    pub result: Option<AttemptResult>,
    /// The first status of a range of 100; 0 selects attempts without a status.
    pub status_class: Option<u16>,
    /// Made before this time.
    pub before: Option<Timestamp>,
    /// Made at this time or later.
    pub after: Option<Timestamp>,
    pub channel: Option<Name>,
    pub tag: Option<Name>,
    /// Of messages of one of these types; empty means all.
    pub event_types: Vec<Name>,
    /// The most rows that are read and compared with the filter. All attempts of one message are always read.
    pub scan: usize,
}

impl AttemptFilter {
    /// Returns a filter that admits all attempts.
    pub fn of(of: AttemptsOf, slice: Slice<AttemptId>, scan: usize) -> AttemptFilter {
        AttemptFilter {
            of,
            slice,
            result: None,
            status_class: None,
            before: None,
            after: None,
            channel: None,
            tag: None,
            event_types: Vec::new(),
            scan,
        }
    }

    /// Whether the search may read rows that it does not return.
    pub fn is_selective(&self) -> bool {
        self.result.is_some()
            || self.status_class.is_some()
            || self.before.is_some()
            || self.after.is_some()
            || self.channel.is_some()
            || self.tag.is_some()
            || !self.event_types.is_empty()
    }

    /// Returns the range of ids that the list can contain.
    pub fn range(&self) -> IdRange {
        let beyond = IdRange::beyond(self.slice.after.map(|id| id.0), self.slice.order);
        beyond.between(self.after, self.before, (ID_SKEW_MAX, ATTEMPT_SKEW_MAX))
    }

    /// Returns the search for attempts of this range.
    pub fn search<'a>(&'a self, scope: AppScope, range: &'a IdRange) -> AttemptSearch<'a> {
        let (status_from, status_to) = self.statuses();
        AttemptSearch {
            environment: scope.environment,
            of: self.of.id(),
            above: &range.above,
            below: &range.below,
            succeeded: self.result.map(|result| result == AttemptResult::Succeeded),
            status_from,
            status_to,
            before: before(self.before),
            after: after(self.after),
            channel: self.channel.as_ref(),
            tag: self.tag.as_ref(),
            application: scope.application,
            limit: self.slice.limit,
            order: self.slice.order,
        }
    }

    /// Returns the first status of the range, and the first one above it. Class 0 is only the status 0.
    fn statuses(&self) -> (i32, i32) {
        match self.status_class {
            None => (i32::MIN, i32::MAX),
            Some(0) => (0, 1),
            Some(class) => (i32::from(class), i32::from(class) + 100),
        }
    }
}

impl AttemptsOf {
    /// Returns the id of the message or endpoint.
    fn id(&self) -> Id {
        match self {
            AttemptsOf::Message(message, _) => message.0,
            AttemptsOf::Endpoint(endpoint) => endpoint.0,
        }
    }
}

/// Returns the bytes of a message that count towards the size of a page.
pub fn message_bytes(message: &Message) -> usize {
    message.payload.as_ref().map_or(0, Bytes::len)
}

/// Returns the bytes of an attempt that count towards the size of a page.
pub fn attempt_bytes(attempt: &Attempt) -> usize {
    attempt.reply.len() + attempt.url.len() + attempt.exchange.as_ref().map_or(0, Exchange::bytes)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The endpoint, even if it was deleted in the meantime.
    pub endpoint: Endpoint,
    /// The state of the delivery.
    pub state: DeliveryState,
    /// The time of the next attempt, if the delivery waits for one.
    pub next_attempt: Option<Timestamp>,
}

impl Destination {
    /// Holds a waiting delivery under a pause of its application or environment.
    #[must_use]
    pub fn under(self, pauses: &OuterPauses) -> Destination {
        let presence = EndpointPresence::Enabled.under(self.endpoint.application, pauses);
        if self.state != DeliveryState::Pending || presence == EndpointPresence::Enabled {
            return self;
        }
        Destination { state: DeliveryState::Held, next_attempt: None, ..self }
    }
}

/// One life of a delivery: an open task, or an attempt that ended one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryLife {
    pub task: TaskId,
    pub epoch: u32,
    pub trace: DeliveryTrace,
    pub due_at: Option<Timestamp>,
}

impl DeliveryLife {
    /// The newest life counts; within it an open task before attempts, and a later attempt before earlier ones.
    fn rank(&self) -> (TaskId, bool, u32) {
        (self.task, matches!(self.trace, DeliveryTrace::Open(_)), self.epoch)
    }

    fn destination(self, endpoint: Endpoint, is_deleted: bool) -> Destination {
        let presence = EndpointPresence::of(&endpoint, is_deleted);
        let waits = self.trace == DeliveryTrace::Open(TaskState::Pending) && presence == EndpointPresence::Enabled;
        Destination {
            state: delivery::state(self.trace, presence),
            next_attempt: self.due_at.filter(|at| waits && *at < Timestamp::NEVER),
            endpoint,
        }
    }
}

/// Returns the destinations of a message from all lives of its deliveries, each with its endpoint and the time at which
/// that was deleted.
pub fn destinations(lives: Vec<(Endpoint, Option<Timestamp>, DeliveryLife)>) -> Vec<Destination> {
    let mut newest: BTreeMap<EndpointId, (Endpoint, bool, DeliveryLife)> = BTreeMap::new();
    for (endpoint, deleted_at, life) in lives {
        if newest.get(&endpoint.id).is_none_or(|(_, _, known)| known.rank() < life.rank()) {
            newest.insert(endpoint.id, (endpoint, deleted_at.is_some(), life));
        }
    }
    newest.into_values().map(|(endpoint, is_deleted, life)| life.destination(endpoint, is_deleted)).collect()
}

/// A request for one more attempt.
#[derive(Clone, Debug)]
pub struct Resend {
    pub application: ApplicationId,
    pub message: MessageId,
    pub endpoint: EndpointId,
    /// With this key a repeated request sends only once.
    pub key: Option<DedupKey>,
}

/// The result of a request for one more attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resent {
    /// A new task waits for a lease.
    Pending,
    /// The same request was made earlier.
    Repeated,
    /// The idempotency key was used with another body.
    KeyReused,
    /// The message or the endpoint does not exist.
    NotFound,
    /// The payload was removed, so there is nothing to send.
    NoPayload,
}

/// Content to remove for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expunge {
    /// The payload of a message; its open deliveries end as cancelled.
    Message(MessageId),
    /// The reply of an attempt.
    Attempt { message: MessageId, id: AttemptId },
}

/// A selection of dead deliveries to make pending again.
#[derive(Clone, Debug)]
pub struct Redrive {
    /// The caller has checked that this endpoint exists.
    pub endpoint: EndpointId,
    /// Only deliveries of this message.
    pub message: Option<MessageId>,
    /// Only deliveries of messages accepted at this time or later.
    pub since: Option<Timestamp>,
    /// Only deliveries of messages accepted before this time.
    pub until: Option<Timestamp>,
    /// The most deliveries in one transaction.
    pub limit: usize,
}
