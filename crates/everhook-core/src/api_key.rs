//! API keys: `ehk_` + 32 base62 characters of randomness + a 6 character checksum.
//!
//! The checksum tells a key from a typo, and lets secret scanners recognise keys, without asking the store. Stores keep
//! only the SHA-256 of a key: a key has enough entropy to need no slow hash, and an index look-up leaks no timing.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest;

use crate::id::{ApplicationId, EnvironmentId, KeyId};
use crate::right::{Grants, KeyScope};
use crate::time::Timestamp;

const PREFIX: &str = "ehk_";
const RANDOM_CHARS: usize = 32;
const CHECK_CHARS: usize = 6;
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Random bytes for one key. More than needed, because bytes above a multiple of 62 are skipped.
pub const KEY_RANDOM_BYTES: usize = 64;

#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

pub type ApiKeyHash = [u8; 32];

/// Error of text with a wrong prefix, length, alphabet or checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a valid API key")]
pub struct BadApiKey;

impl ApiKey {
    pub fn generate(random: [u8; KEY_RANDOM_BYTES]) -> ApiKey {
        ApiKey(compose(PREFIX.to_owned(), random))
    }

    /// Returns the secret text: show it once, never log it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    pub fn hash(&self) -> ApiKeyHash {
        hash_of(&self.0)
    }

    /// Returns the first and last characters: enough to recognise a key in a list, too few to use it.
    pub fn hint(&self) -> String {
        format!("{}…{}", &self.0[..PREFIX.len() + 4], &self.0[self.0.len() - 4..])
    }
}

impl FromStr for ApiKey {
    type Err = BadApiKey;

    fn from_str(text: &str) -> Result<ApiKey, BadApiKey> {
        address_of(text, PREFIX, 0).map(|_| ApiKey(text.to_owned())).ok_or(BadApiKey)
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(redacted)")
    }
}

/// The rights of a key, and where it has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyAccess {
    /// None for an admin key, which chooses the environment of each request.
    pub environment: Option<EnvironmentId>,
    /// The only application whose routes the key may use, if it is restricted to one.
    pub application: Option<ApplicationId>,
    pub grants: Grants,
}

impl KeyAccess {
    /// The access of a key for all operations in one environment.
    pub const fn operate(environment: EnvironmentId) -> KeyAccess {
        KeyAccess { environment: Some(environment), application: None, grants: Grants::of(KeyScope::Operate) }
    }

    pub const ADMIN: KeyAccess =
        KeyAccess { environment: None, application: None, grants: Grants::of(KeyScope::Admin) };
}

/// A key as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    pub id: KeyId,
    /// A name for people; empty for keys from before keys had names.
    pub name: String,
    pub access: KeyAccess,
    /// First and last characters of the key.
    pub hint: String,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    /// To the minute.
    pub last_used_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

impl KeyRecord {
    /// Whether the key works at this time.
    pub fn is_active(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|at| now < at)
    }

    /// Returns the name for people and for the audit log: the name of the key, or its hint.
    pub fn title(&self) -> &str {
        if self.name.is_empty() { &self.hint } else { &self.name }
    }
}

/// Adds randomness and a checksum to the beginning of a key.
pub(crate) fn compose(mut text: String, random: [u8; KEY_RANDOM_BYTES]) -> String {
    // 248 = 4 × 62: larger bytes would make some characters more likely than others.
    let fair = random.iter().filter(|byte| **byte < 248).chain(random.iter());
    text.extend(fair.take(RANDOM_CHARS).map(|byte| char::from(ALPHABET[usize::from(byte % 62)])));
    let check = checksum(&text);
    text + &check
}

/// Returns the `chars` characters after the prefix of a well-formed key with a valid checksum.
pub(crate) fn address_of<'t>(text: &'t str, prefix: &str, chars: usize) -> Option<&'t str> {
    let body = text.strip_prefix(prefix)?;
    if body.len() != chars + RANDOM_CHARS + CHECK_CHARS || !body.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let (signed, check) = text.split_at(text.len() - CHECK_CHARS);
    (checksum(signed) == check).then(|| &body[..chars])
}

pub(crate) fn hash_of(text: &str) -> ApiKeyHash {
    digest::digest(&digest::SHA256, text.as_bytes()).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

fn checksum(text: &str) -> String {
    let digest = digest::digest(&digest::SHA256, text.as_bytes());
    digest.as_ref()[..CHECK_CHARS].iter().map(|byte| char::from(ALPHABET[usize::from(byte % 62)])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_recognised_and_a_typo_is_not() {
        let key = ApiKey::generate(std::array::from_fn(|n| n as u8));
        assert_eq!(key.expose().parse::<ApiKey>(), Ok(key.clone()));
        let mut typo = key.expose().to_owned();
        typo.replace_range(10..11, if &typo[10..11] == "x" { "y" } else { "x" });
        assert_eq!(typo.parse::<ApiKey>(), Err(BadApiKey));
        assert_eq!("".parse::<ApiKey>(), Err(BadApiKey));
        assert_eq!("ehk_é".parse::<ApiKey>(), Err(BadApiKey));
    }

    #[test]
    fn neither_debug_nor_hint_shows_the_key() {
        let key = ApiKey::generate([200; KEY_RANDOM_BYTES]);
        assert_eq!(format!("{key:?}"), "ApiKey(redacted)");
        assert!(key.hint().chars().count() < 14);
    }

    #[test]
    fn different_randomness_gives_different_keys() {
        assert_ne!(ApiKey::generate([1; KEY_RANDOM_BYTES]).hash(), ApiKey::generate([2; KEY_RANDOM_BYTES]).hash());
    }
}
