//! Messages, and the rules for their payloads.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::id::{ApplicationId, MessageId};
use crate::limits::PAYLOAD_DEPTH_MAX;
use crate::name::Name;
use crate::time::Timestamp;
use crate::trace::TraceContext;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The `webhook-id` of every delivery.
    pub id: MessageId,
    pub application: ApplicationId,
    pub event_type: Name,
    /// The user's own id, accepted once per application.
    pub event_id: Option<Name>,
    /// Only endpoints that listen to one of these channels, or to all channels, get the message.
    pub channels: Vec<Name>,
    pub tags: Vec<Name>,
    /// The bytes to send and sign, unchanged; `None` after their removal.
    pub payload: Option<Bytes>,
    pub created_at: Timestamp,
    pub rest: Rest,
}

/// Rare attributes of a message, stored together as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliver_at: Option<Timestamp>,
    /// The payload is neither shown nor sent after this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_until: Option<Timestamp>,
    /// Content type of a payload that is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// The message whose dead delivery this one replaces, with a corrected payload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redrive_of: Option<MessageId>,
    /// The trace that the sender's request belonged to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
}

impl Rest {
    /// Returns the stored form, or `None` if every attribute is unset.
    pub fn to_json(&self) -> Option<String> {
        (*self != Rest::default()).then(|| serde_json::to_string(self).expect("times and texts are always JSON"))
    }
}

impl Message {
    /// Returns the payload, unless it was removed or has expired.
    pub fn payload_at(&self, now: Timestamp) -> Option<&Bytes> {
        let is_kept = self.rest.payload_until.is_none_or(|until| now < until);
        self.payload.as_ref().filter(|_| is_kept)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPayload {
    #[error("must be a JSON object")]
    NotAnObject,
    /// Deeper than common parsers accept.
    #[error("must not be nested deeper than {PAYLOAD_DEPTH_MAX} levels")]
    TooDeep,
}

/// Checks a payload that is already known to be valid JSON.
pub fn check_payload(json: &str) -> Result<(), BadPayload> {
    if !json.starts_with('{') {
        return Err(BadPayload::NotAnObject);
    }
    check_depth(json)
}

/// Checks the nesting depth of JSON text.
pub fn check_depth(json: &str) -> Result<(), BadPayload> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in json.bytes() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > PAYLOAD_DEPTH_MAX {
            return Err(BadPayload::TooDeep);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Id;

    #[test]
    fn a_payload_is_an_object_of_bounded_depth() {
        assert_eq!(check_payload(r#"{"a":[1]}"#), Ok(()));
        assert_eq!(check_payload("[1]"), Err(BadPayload::NotAnObject));
        assert_eq!(check_payload("3"), Err(BadPayload::NotAnObject));
        let nested = |levels: usize| format!("{{\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
        assert_eq!(check_payload(&nested(127)), Ok(()));
        assert_eq!(check_payload(&nested(128)), Err(BadPayload::TooDeep));
    }

    #[test]
    fn a_message_keeps_what_little_else_it_has() {
        assert_eq!(Rest::default().to_json(), None);
        let at = Timestamp::from_micros(1_614_265_330_123_456);
        let rest = Rest {
            deliver_at: Some(at),
            payload_until: Some(at),
            content_type: Some("text/csv; a=\"b\"".to_owned()),
            redrive_of: Some(MessageId(Id::MAX)),
            trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse().ok(),
        };
        assert_eq!(serde_json::from_str::<Rest>(&rest.to_json().unwrap()).unwrap(), rest);
        assert_eq!(serde_json::from_str::<Rest>(r#"{"ofANewerServer": 1}"#).unwrap(), Rest::default());
    }

    #[test]
    fn brackets_in_strings_are_not_nesting() {
        let text = format!(r#"{{"a":"{}\"{}"}}"#, "[".repeat(200), "{".repeat(200));
        assert_eq!(check_payload(&text), Ok(()));
    }
}
