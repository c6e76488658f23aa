//! Replays: the choice of messages that an endpoint gets once more.
//!
//! Pure. The stores read a [`Candidate`] for each message of a slice, in the transaction that adds the new deliveries.

use serde::{Deserialize, Serialize};

use crate::background::BackgroundKind;
use crate::background::selection::is_selected;
use crate::endpoint::Endpoint;
use crate::filter::{self, Facts};
use crate::id::{ApplicationId, EndpointId};
use crate::lifecycle::EndState;
use crate::limits::BODY_BYTES_MAX;
use crate::message::Message;
use crate::name::Name;
use crate::outcome::Class;
use crate::time::Timestamp;
use crate::traffic::FailureClass;

/// A selection of messages to deliver to an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replay {
    pub application: ApplicationId,
    pub endpoint: EndpointId,
    /// The window, with `until` outside. It selects failures by the time of their last attempt, and messages by the
    /// time of their acceptance.
    pub since: Timestamp,
    pub until: Timestamp,
    pub pick: Pick,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Pick {
    /// Dead deliveries of messages that the endpoint never received.
    Failed,
    /// As `Failed`, if the last attempt failed in this way.
    FailedAs(FailureClass),
    /// Messages without a delivery to the endpoint that pass its filters. The endpoint is newer, was disabled, or had
    /// other filters when they were accepted.
    Missing,
    /// Messages that were attempted at the endpoint, whatever the result.
    Attempted(AttemptedFilter),
}

/// A filter of attempted messages. All parts must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptedFilter {
    /// Empty means all.
    pub event_types: Vec<Name>,
    pub channel: Option<Name>,
    pub tag: Option<Name>,
    /// The end of the last attempt.
    pub status: Option<AttemptedStatus>,
    /// The first status of a range of 100, of the last attempt; 0 means that there was no reply.
    pub status_class: Option<u16>,
}

/// The end of the last attempt of a message at an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AttemptedStatus {
    Succeeded,
    Failed,
    Cancelled,
    /// Not attempted yet, or waiting for a retry. Such a message is never replayed, because it will be sent anyway.
    Open,
}

impl Pick {
    pub const fn kind(&self) -> BackgroundKind {
        match self {
            Pick::Failed | Pick::FailedAs(_) => BackgroundKind::Recover,
            Pick::Missing => BackgroundKind::ReplayMissing,
            Pick::Attempted(_) => BackgroundKind::BulkReplay,
        }
    }
}

/// A message, and its history at the endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The message, with the first [`Replay::payload_bytes`] of its payload.
    pub message: Message,
    /// A delivery waits or is being sent.
    pub is_open: bool,
    pub is_dead: bool,
    pub has_succeeded: bool,
    pub last: Option<AttemptEnding>,
}

/// The newest attempt of the newest life of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptEnding {
    pub end: EndState,
    pub class: Class,
    pub status: u16,
    pub started_at: Timestamp,
}

impl Candidate {
    /// Whether the delivery is dead, was never received, and its last attempt is wanted.
    fn failed(&self, is_wanted: impl FnOnce(AttemptEnding) -> bool) -> bool {
        self.is_dead && !self.has_succeeded && self.last.is_some_and(is_wanted)
    }
}

impl Replay {
    /// The number of payload bytes that [`Replay::wants`] needs of each candidate.
    pub fn payload_bytes(&self, endpoint: &Endpoint) -> usize {
        if self.pick == Pick::Missing && endpoint.filter.is_some() { BODY_BYTES_MAX } else { 0 }
    }

    /// Whether the endpoint gets the message once more. A message without payload cannot be sent. A delivery that is
    /// open is left alone: a second one beside it would be a duplicate.
    pub fn wants(&self, endpoint: &Endpoint, candidate: &Candidate, now: Timestamp) -> bool {
        let message = &candidate.message;
        if candidate.is_open || message.payload_at(now).is_none() {
            return false;
        }
        let in_window = |at: Timestamp| at >= self.since && at < self.until;
        match &self.pick {
            Pick::Failed => candidate.failed(|last| in_window(last.started_at)),
            Pick::FailedAs(class) => candidate
                .failed(|last| in_window(last.started_at) && FailureClass::of(last.class, last.status) == Some(*class)),
            Pick::Missing => {
                let is_missing = !candidate.is_dead && candidate.last.is_none();
                is_missing && in_window(message.created_at) && filter::passes(endpoint, &Facts::of(message))
            }
            Pick::Attempted(filter) => {
                in_window(message.created_at) && candidate.last.is_some_and(|last| filter.wants(message, last))
            }
        }
    }
}

impl AttemptedFilter {
    fn wants(&self, message: &Message, last: AttemptEnding) -> bool {
        let has_status = |status| match last.end {
            EndState::Succeeded => status == AttemptedStatus::Succeeded,
            EndState::Dead => status == AttemptedStatus::Failed,
            EndState::Cancelled => status == AttemptedStatus::Cancelled,
            EndState::Open => status == AttemptedStatus::Open,
        };
        is_selected(message, &self.event_types, (self.channel.as_ref(), self.tag.as_ref()))
            && self.status.is_none_or(has_status)
            && self.status_class.is_none_or(|class| last.status / 100 * 100 == class)
    }
}

#[cfg(test)]
pub(super) mod tests;
