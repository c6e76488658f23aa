//! Selections: the deliveries to one endpoint that a bulk command changes.
//!
//! Pure. The stores read a [`Candidate`] for each message of a slice, in the transaction that carries out the command.

use serde::{Deserialize, Serialize};

use crate::background::replay::Candidate;
use crate::delivery::DeliveryCommand;
use crate::id::{ApplicationId, EndpointId};
use crate::message::Message;
use crate::name::Name;
use crate::time::Timestamp;

/// A selection of deliveries to one endpoint. All parts must match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BulkSelection {
    pub application: ApplicationId,
    pub endpoint: EndpointId,
    /// The window of acceptance, with `until` outside.
    pub since: Timestamp,
    pub until: Timestamp,
    /// Empty means all.
    pub event_types: Vec<Name>,
    pub channel: Option<Name>,
    pub tag: Option<Name>,
}

impl BulkSelection {
    /// Whether the command changes the delivery of a message to the endpoint. A redrive leaves a delivery alone that is
    /// open, because a second attempt beside it would be a duplicate, and one without payload, which cannot be sent.
    pub fn wants(&self, command: DeliveryCommand, candidate: &Candidate, now: Timestamp) -> bool {
        let message = &candidate.message;
        let has_state = match command {
            DeliveryCommand::Cancel => candidate.is_open,
            DeliveryCommand::Dismiss => candidate.is_dead && !candidate.is_open,
            DeliveryCommand::RetryNow => candidate.is_dead && !candidate.is_open && message.payload_at(now).is_some(),
        };
        has_state
            && message.created_at >= self.since
            && message.created_at < self.until
            && is_selected(message, &self.event_types, (self.channel.as_ref(), self.tag.as_ref()))
    }
}

/// Whether a message has one of the types, the channel and the tag. No types, channel or tag means all of them.
pub(super) fn is_selected(message: &Message, types: &[Name], (channel, tag): (Option<&Name>, Option<&Name>)) -> bool {
    (types.is_empty() || types.contains(&message.event_type))
        && channel.is_none_or(|channel| message.channels.contains(channel))
        && tag.is_none_or(|tag| message.tags.contains(tag))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::background::replay::tests::candidate;

    #[test]
    fn a_command_changes_deliveries_in_its_state_window_and_filters() {
        let at = Timestamp::from_millis;
        let selection = BulkSelection {
            application: ApplicationId(crate::id::Id::MIN),
            endpoint: EndpointId(crate::id::Id::MIN),
            since: at(1000),
            until: at(2000),
            event_types: Vec::new(),
            channel: None,
            tag: None,
        };
        let (cancel, redrive) = (DeliveryCommand::Cancel, DeliveryCommand::RetryNow);
        let wants = |selection: &BulkSelection, candidate: &Candidate| {
            [cancel, redrive, DeliveryCommand::Dismiss].map(|command| selection.wants(command, candidate, at(3000)))
        };
        let made = |is_open, is_dead, created_at| {
            let mut candidate = Candidate { is_open, is_dead, ..candidate() };
            candidate.message.created_at = created_at;
            candidate
        };
        assert_eq!(wants(&selection, &made(true, false, at(1500))), [true, false, false]);
        assert_eq!(wants(&selection, &made(false, true, at(1500))), [false, true, true]);
        assert_eq!(wants(&selection, &made(true, true, at(1500))), [true, false, false], "a resend is open");
        for outside in [at(999), at(2000)] {
            assert_eq!(wants(&selection, &made(false, true, outside)), [false; 3]);
        }
        let mut erased = made(false, true, at(1500));
        erased.message.payload = None;
        assert_eq!(wants(&selection, &erased), [false, false, true], "only a payload can be sent");
        let other = || Some("other".parse::<Name>().unwrap());
        for picky in [
            BulkSelection { event_types: other().into_iter().collect(), ..selection.clone() },
            BulkSelection { channel: other(), ..selection.clone() },
            BulkSelection { tag: other(), ..selection.clone() },
        ] {
            assert_eq!(wants(&picky, &made(true, false, at(1500))), [false; 3]);
        }
    }
}
