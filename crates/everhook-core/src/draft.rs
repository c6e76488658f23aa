//! An unchecked message and its rules, the same for API requests and outbox rows.
//!
//! Pure. The API and the relay call it, and each reports the broken rule to its own producer.

use serde::de::IgnoredAny;

use crate::id::MessageId;
use crate::limits::{DELIVER_AHEAD_MAX, MESSAGE_CHANNELS_MAX, MESSAGE_TAGS_MAX};
use crate::message::{BadPayload, check_payload};
use crate::name::Name;
use crate::time::Timestamp;
use crate::violation::{Violation, at};

/// A message as its producer wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draft {
    pub event_type: String,
    pub event_id: Option<String>,
    pub channels: Option<Vec<String>>,
    pub tags: Option<Vec<String>>,
}

/// A message whose fields are valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedDraft {
    pub event_type: Name,
    /// The producer's own id, accepted once per application.
    pub event_id: Option<Name>,
    /// Only endpoints that listen to one of these channels, or to all channels, get the message.
    pub channels: Vec<Name>,
    pub tags: Vec<Name>,
}

impl Draft {
    pub fn check(self) -> Result<CheckedDraft, Violation> {
        let tags = self.tags.unwrap_or_default();
        if tags.len() > MESSAGE_TAGS_MAX {
            return Err(at("tags").breaks(format!("must have at most {MESSAGE_TAGS_MAX} entries")));
        }
        if self.channels.as_ref().is_some_and(|list| list.is_empty() || list.len() > MESSAGE_CHANNELS_MAX) {
            return Err(at("channels").breaks(format!("must have 1 to {MESSAGE_CHANNELS_MAX} entries, or be null")));
        }
        let event_id = self.event_id.map(|text| Name::uid(&text, MessageId::PREFIX)).transpose();
        Ok(CheckedDraft {
            event_id: at("eventId").check(event_id)?,
            event_type: at("eventType").check(Name::try_from(self.event_type))?,
            channels: names("channels", self.channels.unwrap_or_default())?,
            tags: names("tags", tags)?,
        })
    }
}

/// Checks a payload in text form: a JSON object, optionally surrounded by white space.
pub fn check_payload_text(text: &str) -> Result<(), Violation> {
    if serde_json::from_str::<IgnoredAny>(text).is_err() {
        return Err(at("payload").breaks(BadPayload::NotAnObject));
    }
    at("payload").check(check_payload(text.trim_start()))
}

/// Checks that the delivery time is not too far ahead. A time in the past means now.
pub fn check_deliver_at(time: Option<Timestamp>, now: Timestamp) -> Result<Option<Timestamp>, Violation> {
    if time.is_some_and(|time| time > now.plus(DELIVER_AHEAD_MAX)) {
        let days = DELIVER_AHEAD_MAX.as_secs() / (24 * 3600);
        return Err(at("deliverAt").breaks(format!("must be at most {days} days ahead")));
    }
    Ok(time)
}

fn names(field: &'static str, list: Vec<String>) -> Result<Vec<Name>, Violation> {
    let name = |(index, text)| Name::try_from(text).map_err(|bad| at(field).index(index).breaks(bad));
    list.into_iter().enumerate().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(change: impl FnOnce(&mut Draft), want: &str) {
        let mut draft = Draft { event_type: "user.created".to_owned(), ..Draft::default() };
        change(&mut draft);
        assert_eq!(draft.check().map_or_else(|bad| bad.to_string(), |_| "fine".to_owned()), want);
    }

    #[test]
    fn a_draft_keeps_the_rules_of_every_field() {
        let list = |texts: &[&str]| Some(texts.iter().map(|text| (*text).to_owned()).collect());
        check(|_| {}, "fine");
        check(|draft| draft.event_type.clear(), "eventType must not be empty");
        check(
            |draft| draft.event_id = Some("msg_1".to_owned()),
            "eventId must not start with \"msg_\", which is reserved for ids",
        );
        check(|draft| draft.tags = list(&["a", "b c"]), "tags[1] may only contain letters, digits, '-', '_' and '.'");
        check(|draft| draft.tags = list(&["a"; 9]), "tags must have at most 8 entries");
        check(|draft| draft.tags = list(&[]), "fine");
        check(|draft| draft.channels = list(&[]), "channels must have 1 to 10 entries, or be null");
        check(|draft| draft.channels = list(&["a"; 11]), "channels must have 1 to 10 entries, or be null");
    }

    #[test]
    fn a_delivery_may_wait_for_thirty_days_but_not_longer() {
        let (now, day) = (Timestamp::from_millis(1_750_000_000_000), std::time::Duration::from_secs(24 * 3600));
        for at in [now.plus(30 * day), now, now.minus(100 * day)] {
            assert_eq!(check_deliver_at(Some(at), now), Ok(Some(at)));
        }
        let bad = check_deliver_at(Some(now.plus(31 * day)), now).unwrap_err();
        assert_eq!(bad.to_string(), "deliverAt must be at most 30 days ahead");
    }

    #[test]
    fn a_payload_as_text_is_a_json_object() {
        for fine in ["{}", " {\"a\": [1, 2]}\n"] {
            assert_eq!(check_payload_text(fine), Ok(()), "{fine}");
        }
        for bad in ["", "{", "[]", "1", "{} {}", "{\"a\":}"] {
            assert_eq!(check_payload_text(bad).unwrap_err().to_string(), "payload must be a JSON object", "{bad}");
        }
    }
}
