//! A message: what happened, accepted once; and the rules its payload has to keep.

use bytes::Bytes;

use crate::id::{ApplicationId, MessageId};
use crate::limits::PAYLOAD_DEPTH_MAX;
use crate::name::Name;
use crate::time::Timestamp;

/// An accepted message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its id: the `webhook-id` of every delivery.
    pub id: MessageId,
    /// Whose message it is.
    pub application: ApplicationId,
    /// What kind of thing happened.
    pub event_type: Name,
    /// The user's own id for it, accepted once per application.
    pub event_id: Option<Name>,
    /// Only endpoints that listen to one of these, or to all, get it.
    pub channels: Vec<Name>,
    /// For finding it again.
    pub tags: Vec<Name>,
    /// Exactly the bytes that are sent and signed; none once they were removed.
    pub payload: Option<Bytes>,
    /// When it was accepted.
    pub created_at: Timestamp,
}

/// Why a payload is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPayload {
    /// Not `{…}`.
    #[error("must be a JSON object")]
    NotAnObject,
    /// Deeper than parsers can be trusted with.
    #[error("must not be nested deeper than {PAYLOAD_DEPTH_MAX} levels")]
    TooDeep,
}

/// Accepts a payload that is already known to be valid JSON.
pub fn check_payload(json: &str) -> Result<(), BadPayload> {
    if !json.starts_with('{') {
        return Err(BadPayload::NotAnObject);
    }
    check_depth(json)
}

/// Accepts JSON that is not nested deeper than parsers can be trusted with.
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
    fn brackets_in_strings_are_not_nesting() {
        let text = format!(r#"{{"a":"{}\"{}"}}"#, "[".repeat(200), "{".repeat(200));
        assert_eq!(check_payload(&text), Ok(()));
    }
}
