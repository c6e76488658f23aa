//! Counts of the objects that quotas bound.

use everhook_core::id::{ApplicationId, EnvironmentId, Id, MessageId};
use everhook_core::operational::OPERATIONAL_APPLICATION;

use crate::sql::shared::CountEndpointOpen;

/// The place of a message in the key of its table, after the environment.
pub type MessagePlace = (ApplicationId, MessageId);

/// The number of messages in a part of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageCount {
    pub messages: u64,
    /// The place at which the count continues; none at the end.
    pub next: Option<MessagePlace>,
}

impl MessageCount {
    /// Returns the result of a count that was bounded by `limit`, and ended at `last`.
    pub fn of(messages: u64, last: Option<MessagePlace>, limit: usize) -> MessageCount {
        let is_full = usize::try_from(messages).is_ok_and(|messages| messages >= limit);
        MessageCount { messages, next: last.filter(|_| is_full) }
    }
}

/// The part of the table to count: the messages of an application, or of all, after a place.
#[derive(Clone, Copy, Debug)]
pub struct MessageRange {
    /// The first message is behind it.
    pub above: MessagePlace,
    /// The last application.
    pub below: ApplicationId,
}

impl MessageRange {
    pub fn of(application: Option<ApplicationId>, after: Option<MessagePlace>) -> MessageRange {
        let first = application.unwrap_or(ApplicationId(Id::MIN));
        MessageRange {
            above: after.unwrap_or((first, MessageId(Id::MIN))),
            below: application.unwrap_or(ApplicationId(Id::MAX)),
        }
    }
}

impl CountEndpointOpen {
    /// Counts the endpoints of one application, or of all.
    pub fn new(environment: EnvironmentId, application: Option<ApplicationId>, limit: usize) -> CountEndpointOpen {
        let (low, high) = application.map_or((Id::MIN, Id::MAX), |application| (application.0, application.0));
        CountEndpointOpen { environment, low, high, hidden: OPERATIONAL_APPLICATION, limit }
    }
}
