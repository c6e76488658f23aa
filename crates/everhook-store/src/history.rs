//! What happened: messages, attempts, where a message stands; and the operator's ways to have it happen again.

use std::time::Duration;

use bytes::Bytes;
use everhook_core::delivery::DeliveryState;
use everhook_core::endpoint::Endpoint;
use everhook_core::id::{ApplicationId, AttemptId, EndpointId, MessageId};
use everhook_core::lifecycle::EndState;
use everhook_core::limits::{ATTEMPT_SKEW_MAX, ID_SKEW_MAX};
use everhook_core::message::Message;
use everhook_core::name::Name;
use everhook_core::outcome::Class;
use everhook_core::task::Trigger;
use everhook_core::time::Timestamp;

use crate::catalog::Slice;
use crate::dedup::DedupKey;
use crate::piece::IdRange;

/// Which messages a list has.
#[derive(Clone, Debug)]
pub struct MessageFilter {
    /// Which piece of the list.
    pub slice: Slice<MessageId>,
    /// Accepted before this.
    pub before: Option<Timestamp>,
    /// Accepted at this or later.
    pub after: Option<Timestamp>,
    /// On this channel.
    pub channel: Option<Name>,
    /// With this tag.
    pub tag: Option<Name>,
    /// Of one of these types; empty means all.
    pub event_types: Vec<Name>,
    /// Rows at most that are looked at, where the rest of the filter is asked of each.
    pub scan: usize,
}

impl MessageFilter {
    /// Whether rows are looked at that the list does not have.
    pub fn is_selective(&self) -> bool {
        self.before.is_some()
            || self.after.is_some()
            || self.channel.is_some()
            || self.tag.is_some()
            || !self.event_types.is_empty()
    }

    /// Where the ids of the list are.
    pub fn range(&self) -> IdRange {
        let beyond = IdRange::beyond(self.slice.after.map(|id| id.0), self.slice.order);
        beyond.between(self.after, self.before, (ID_SKEW_MAX, ID_SKEW_MAX))
    }
}

/// One try of a task, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Its id.
    pub id: AttemptId,
    /// Of which message.
    pub message: MessageId,
    /// To which endpoint.
    pub endpoint: EndpointId,
    /// In which lease.
    pub epoch: u32,
    /// How it ended.
    pub class: Class,
    /// How it left the task.
    pub end: EndState,
    /// Why the task existed.
    pub trigger: Trigger,
    /// Where it was sent.
    pub url: String,
    /// The HTTP status; 0 if none came.
    pub status: u16,
    /// What is kept of the reply, or what went wrong.
    pub reply: Bytes,
    /// When it began.
    pub started_at: Timestamp,
    /// How long it took.
    pub duration: Duration,
}

/// Whose attempts a list has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptsOf {
    /// Those of one message, to any or to one endpoint.
    Message(MessageId, Option<EndpointId>),
    /// Those to one endpoint.
    Endpoint(EndpointId),
}

/// Whether an attempt reached its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptResult {
    /// The receiver answered 2xx.
    Succeeded,
    /// Anything else.
    Failed,
}

/// Which attempts a list has.
#[derive(Clone, Debug)]
pub struct AttemptFilter {
    /// Whose.
    pub of: AttemptsOf,
    /// Which piece of the list.
    pub slice: Slice<AttemptId>,
    /// With this result.
    pub result: Option<AttemptResult>,
    /// With a status from this on, below this plus 100; 0 means no status at all.
    pub status_class: Option<u16>,
    /// Made before this.
    pub before: Option<Timestamp>,
    /// Made at this or later.
    pub after: Option<Timestamp>,
    /// Of messages on this channel.
    pub channel: Option<Name>,
    /// Of messages with this tag.
    pub tag: Option<Name>,
    /// Of messages of one of these types; empty means all.
    pub event_types: Vec<Name>,
    /// Rows at most that are looked at, where the rest of the filter is asked of each. Those of one message are all looked at.
    pub scan: usize,
}

impl AttemptFilter {
    /// Whether rows are looked at that the list does not have.
    pub fn is_selective(&self) -> bool {
        self.result.is_some()
            || self.status_class.is_some()
            || self.before.is_some()
            || self.after.is_some()
            || self.channel.is_some()
            || self.tag.is_some()
            || !self.event_types.is_empty()
    }

    /// Where the ids of the list are.
    pub fn range(&self) -> IdRange {
        let beyond = IdRange::beyond(self.slice.after.map(|id| id.0), self.slice.order);
        beyond.between(self.after, self.before, (ID_SKEW_MAX, ATTEMPT_SKEW_MAX))
    }
}

/// The bytes of a message that a page counts.
pub fn message_bytes(message: &Message) -> usize {
    message.payload.as_ref().map_or(0, Bytes::len)
}

/// The bytes of an attempt that a page counts.
pub fn attempt_bytes(attempt: &Attempt) -> usize {
    attempt.reply.len() + attempt.url.len()
}

/// Where a message stands with one endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The endpoint, also when it was deleted since.
    pub endpoint: Endpoint,
    /// Where the delivery stands.
    pub state: DeliveryState,
    /// When it is tried next, if it waits.
    pub next_attempt: Option<Timestamp>,
}

/// A wish for one more attempt.
#[derive(Clone, Debug)]
pub struct Resend {
    /// Of this application.
    pub application: ApplicationId,
    /// This message.
    pub message: MessageId,
    /// To this endpoint.
    pub endpoint: EndpointId,
    /// So that a repeated request sends once.
    pub key: Option<DedupKey>,
}

/// What became of a wish for one more attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resent {
    /// A task of its own waits for a lease.
    Pending,
    /// The same request asked for it before.
    Repeated,
    /// The idempotency key was used with another body.
    KeyReused,
    /// There is no such message or endpoint.
    NotFound,
    /// The payload was removed.
    NoPayload,
}

/// Content to remove for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expunge {
    /// The payload of a message; its open deliveries end as cancelled.
    Message(MessageId),
    /// The reply of an attempt.
    Attempt {
        /// Of this message.
        message: MessageId,
        /// This attempt.
        id: AttemptId,
    },
}

/// Which dead deliveries to put back.
#[derive(Clone, Debug)]
pub struct Redrive {
    /// To this endpoint, which the caller knows to exist.
    pub endpoint: EndpointId,
    /// Only those of this message.
    pub message: Option<MessageId>,
    /// Only those of messages accepted since.
    pub since: Option<Timestamp>,
    /// Only those of messages accepted before.
    pub until: Option<Timestamp>,
    /// At most so many in this transaction.
    pub limit: usize,
}
