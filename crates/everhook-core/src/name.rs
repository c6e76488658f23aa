//! Names and texts chosen by users: uids, event types, channels, tags, free text, metadata.
//!
//! One validated type covers the restricted alphabet; functions check the rest. The stores trust values that passed
//! here.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};

use crate::limits::{METADATA_BYTES_MAX, NAME_CHARS_MAX};

/// 1 to 256 of `a-z A-Z 0-9 - _ .`: an event type, a channel, a tag or a uid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Name(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    #[error("must not be empty")]
    Empty,
    #[error("must have at most {NAME_CHARS_MAX} characters")]
    TooLong,
    #[error("may only contain letters, digits, '-', '_' and '.'")]
    BadCharacter,
    /// A uid with the prefix of an id would be ambiguous in paths.
    #[error("must not start with {0:?}, which is reserved for ids")]
    LooksLikeId(&'static str),
}

impl Name {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Parses a uid: a name without the id prefix of its own kind.
    pub fn uid(text: &str, prefix: &'static str) -> Result<Name, BadName> {
        if text.starts_with(prefix) {
            return Err(BadName::LooksLikeId(prefix));
        }
        text.parse()
    }
}

impl FromStr for Name {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Name, BadName> {
        Name::try_from(text.to_owned())
    }
}

impl TryFrom<String> for Name {
    type Error = BadName;

    fn try_from(text: String) -> Result<Name, BadName> {
        if text.is_empty() {
            return Err(BadName::Empty);
        }
        if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')) {
            return Err(BadName::BadCharacter);
        }
        if text.len() > NAME_CHARS_MAX {
            return Err(BadName::TooLong);
        }
        Ok(Name(text))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// Key-value pairs that users attach to objects. Everhook never interprets them.
pub type Metadata = BTreeMap<String, String>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("metadata must have at most {METADATA_BYTES_MAX} bytes as JSON")]
pub struct MetadataTooLarge;

pub fn check_metadata(metadata: &Metadata) -> Result<(), MetadataTooLarge> {
    let bytes = serde_json::to_vec(metadata).map_err(|_| MetadataTooLarge)?;
    if bytes.len() > METADATA_BYTES_MAX { Err(MetadataTooLarge) } else { Ok(()) }
}

/// Error of free text with control characters that PostgreSQL or a terminal cannot show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must not contain control characters")]
pub struct BadText;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must have at most {0} characters")]
pub struct TextTooLong(pub usize);

pub fn check_length(text: &str, chars_max: usize) -> Result<(), TextTooLong> {
    // Bytes are cheaper to count than characters, and a text has at least as many bytes as characters.
    if text.len() > chars_max && text.chars().nth(chars_max).is_some() { Err(TextTooLong(chars_max)) } else { Ok(()) }
}

/// Checks a display name or description.
pub fn check_text(text: &str) -> Result<(), BadText> {
    if text.bytes().any(|byte| byte <= 0x08) { Err(BadText) } else { Ok(()) }
}

/// Names the variants of an enum, and parses the names. `$error` is the error of any other text.
macro_rules! named_as {
    ($type:ident, $error:ident { $($variant:ident = $text:literal),* $(,)? }) => {
        impl $type {
            pub const ALL: [$type; [$($text),*].len()] = [$($type::$variant),*];

            /// Returns the name in the API, logs and metrics.
            pub const fn as_str(self) -> &'static str {
                match self { $($type::$variant => $text),* }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $type {
            type Err = $error;

            fn from_str(text: &str) -> Result<$type, $error> {
                $type::ALL.into_iter().find(|known| known.as_str() == text).ok_or($error)
            }
        }
    };
}
pub(crate) use named_as;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: Result<(), BadName>) {
        assert_eq!(text.parse::<Name>().map(drop), want);
    }

    #[test]
    fn names_keep_to_their_alphabet_and_length() {
        check("user.signed-up_2", Ok(()));
        check("", Err(BadName::Empty));
        check("a b", Err(BadName::BadCharacter));
        check("a\0", Err(BadName::BadCharacter));
        check("ä", Err(BadName::BadCharacter));
        check(&"x".repeat(256), Ok(()));
        check(&"x".repeat(257), Err(BadName::TooLong));
    }

    #[test]
    fn a_uid_cannot_be_taken_for_an_id() {
        assert_eq!(Name::uid("app_1", "app_"), Err(BadName::LooksLikeId("app_")));
        assert!(Name::uid("ep_1", "app_").is_ok());
    }

    #[test]
    fn length_is_counted_in_characters() {
        assert_eq!(check_length("äöü", 3), Ok(()));
        assert_eq!(check_length("äöüa", 3), Err(TextTooLong(3)));
        assert_eq!(check_length("", 0), Ok(()));
    }

    #[test]
    fn text_without_control_characters_passes() {
        assert_eq!(check_text("Grüße, 世界\n"), Ok(()));
        assert_eq!(check_text("a\0b"), Err(BadText));
    }
}
