//! Application tokens: the keys that sign them, and the records that end them before they expire.
//!
//! Pure. The API signs and verifies tokens; stores keep keys and ends.

use std::fmt;
use std::time::Duration;

use aws_lc_rs::digest;

use crate::id::TokenKeyId;
use crate::limits::{TOKEN_LIFE_MAX, TOKEN_MARGIN};
use crate::time::Timestamp;

/// Bytes of a signing key: as many as its hash has.
pub const TOKEN_SECRET_BYTES: usize = 32;

/// The secret part of a signing key.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenSecret(pub [u8; TOKEN_SECRET_BYTES]);

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSecret(redacted)")
    }
}

/// A key of the server's own, with which it signs application tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenKey {
    /// The `kid` in the header of its tokens.
    pub id: TokenKeyId,
    pub secret: TokenSecret,
    pub created_at: Timestamp,
    /// The time since which a newer key signs.
    pub superseded_at: Option<Timestamp>,
}

impl TokenKey {
    /// Whether tokens of this key are accepted. All tokens of a superseded key have expired after a while; a later one
    /// was signed by a thief of the key.
    pub fn verifies(&self, now: Timestamp) -> bool {
        self.superseded_at.is_none_or(|at| now < kept_until(at))
    }
}

/// A change of the signing keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKeyChange {
    /// Adds the key, unless another one signs already.
    First,
    /// The key signs from now on. Tokens of the others stay valid until they expire.
    Rotate,
    /// The key replaces all others, whose tokens end.
    Revoke,
}

/// SHA-256 of the signed part of a token.
pub type TokenHash = [u8; 32];

/// The tokens that a record ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenSubject {
    /// Every token of the application.
    All,
    Session(String),
    One(TokenHash),
}

impl TokenSubject {
    /// Returns the key in the stores: nothing, or a letter and a hash.
    pub fn key(&self) -> Vec<u8> {
        match self {
            TokenSubject::All => Vec::new(),
            TokenSubject::Session(name) => [b"s", digest::digest(&digest::SHA256, name.as_bytes()).as_ref()].concat(),
            TokenSubject::One(hash) => [b"t", hash.as_slice()].concat(),
        }
    }
}

/// The end of tokens of one application, before they expire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenEnd {
    pub subject: TokenSubject,
    /// Tokens that were issued later stay valid.
    pub issued_until: Timestamp,
    pub ends_at: Timestamp,
    /// The time after which none of these tokens could be valid, so that the record can be pruned.
    pub forget_at: Timestamp,
}

impl TokenEnd {
    /// Ends every token of an application after `delay`. A user may have signed tokens that live for years, so the
    /// record stays.
    pub fn all(now: Timestamp, delay: Duration) -> TokenEnd {
        let (subject, ends_at) = (TokenSubject::All, now.plus(delay));
        TokenEnd { subject, issued_until: now, ends_at, forget_at: Timestamp::NEVER }
    }

    /// Ends the tokens of a session after `delay`.
    pub fn session(name: String, now: Timestamp, delay: Duration) -> TokenEnd {
        let (subject, ends_at) = (TokenSubject::Session(name), now.plus(delay));
        TokenEnd { subject, issued_until: now, ends_at, forget_at: kept_until(now) }
    }

    /// Ends one token now, whose own expiry is `expires_at`.
    pub fn one(hash: TokenHash, now: Timestamp, expires_at: Timestamp) -> TokenEnd {
        let (subject, forget_at) = (TokenSubject::One(hash), expires_at.plus(TOKEN_MARGIN));
        // The clock of the token's signer may be ahead.
        TokenEnd { subject, issued_until: Timestamp::NEVER, ends_at: now, forget_at }
    }
}

/// The properties of a token by which it may have been ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenMark {
    pub hash: TokenHash,
    pub session: Option<String>,
    pub issued_at: Timestamp,
}

impl TokenMark {
    /// Returns the keys of the records that may end this token: all tokens, its session, and itself.
    pub fn subjects(&self) -> [Vec<u8>; 3] {
        let session = self.session.clone().map_or(TokenSubject::All, TokenSubject::Session);
        [TokenSubject::All.key(), session.key(), TokenSubject::One(self.hash).key()]
    }
}

/// Until when a token that was issued at `at` may be valid.
fn kept_until(at: Timestamp) -> Timestamp {
    at.plus(TOKEN_LIFE_MAX).plus(TOKEN_MARGIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Id;

    const AT: Timestamp = Timestamp::from_millis(1_750_000_000_000);
    const DAY: Duration = Duration::from_secs(24 * 3600);

    #[test]
    fn a_superseded_key_verifies_until_its_last_token_has_expired() {
        let key = |superseded_at| TokenKey {
            id: TokenKeyId(Id::MIN),
            secret: TokenSecret([7; TOKEN_SECRET_BYTES]),
            created_at: AT,
            superseded_at,
        };
        assert!(key(None).verifies(AT.plus(1000 * DAY)));
        assert!(key(Some(AT)).verifies(AT.plus(7 * DAY)));
        assert!(!key(Some(AT)).verifies(AT.plus(8 * DAY)));
        assert!(!format!("{:?}", key(None)).contains("7, 7"), "no log shows the secret");
    }

    #[test]
    fn a_token_is_found_by_itself_by_its_session_and_with_all_others() {
        let mark =
            |session: Option<&str>| TokenMark { hash: [1; 32], session: session.map(str::to_owned), issued_at: AT };
        let ends = [
            TokenEnd::all(AT, DAY),
            TokenEnd::session("ann".to_owned(), AT, DAY),
            TokenEnd::one([1; 32], AT, AT.plus(DAY)),
            TokenEnd::session("bob".to_owned(), AT, DAY),
            TokenEnd::one([2; 32], AT, AT.plus(DAY)),
        ];
        let ended_by = |mark: TokenMark| ends.each_ref().map(|end| mark.subjects().contains(&end.subject.key()));
        assert_eq!(ended_by(mark(Some("ann"))), [true, true, true, false, false]);
        assert_eq!(ended_by(mark(None)), [true, false, true, false, false]);
    }

    #[test]
    fn a_record_stays_as_long_as_a_token_could_be_valid() {
        assert_eq!(TokenEnd::all(AT, DAY).forget_at, Timestamp::NEVER);
        assert!(TokenEnd::session("ann".to_owned(), AT, DAY).forget_at > AT.plus(TOKEN_LIFE_MAX));
        assert!(TokenEnd::one([1; 32], AT, AT.plus(DAY)).forget_at > AT.plus(DAY));
    }
}
