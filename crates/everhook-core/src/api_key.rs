//! API keys: `ehk_` + 32 base62 characters of randomness + a 6 character checksum.
//!
//! The checksum lets a scanner or a typo be told from a key without asking the store. Only the SHA-256 of a key is kept:
//! it has enough entropy that no slow hash is needed, and the look-up is by index, so no comparison leaks time.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest;

use crate::id::{EnvironmentId, KeyId};
use crate::time::Timestamp;

const PREFIX: &str = "ehk_";
const RANDOM_CHARS: usize = 32;
const CHECK_CHARS: usize = 6;
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// How many random bytes a key is made of; a surplus, because those above a multiple of 62 are skipped.
pub const KEY_RANDOM_BYTES: usize = 64;

/// A key as the user holds it.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

/// What is kept of a key.
pub type ApiKeyHash = [u8; 32];

/// The text is not a key: wrong prefix, length, alphabet or checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a valid API key")]
pub struct BadApiKey;

impl ApiKey {
    /// A new key from random bytes.
    pub fn generate(random: [u8; KEY_RANDOM_BYTES]) -> ApiKey {
        // 248 = 4 × 62: bytes above would make some characters likelier than others.
        let fair = random.iter().filter(|byte| **byte < 248).chain(random.iter());
        let mut text = String::from(PREFIX);
        text.extend(fair.take(RANDOM_CHARS).map(|byte| char::from(ALPHABET[usize::from(byte % 62)])));
        let check = checksum(&text);
        ApiKey(text + &check)
    }

    /// The key itself. To be shown once, never logged.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// What is kept and looked up.
    pub fn hash(&self) -> ApiKeyHash {
        digest::digest(&digest::SHA256, self.0.as_bytes()).as_ref().try_into().expect("SHA-256 has 32 bytes")
    }

    /// Enough to recognise a key in a list, not enough to use it.
    pub fn hint(&self) -> String {
        format!("{}…{}", &self.0[..PREFIX.len() + 4], &self.0[self.0.len() - 4..])
    }
}

impl FromStr for ApiKey {
    type Err = BadApiKey;

    fn from_str(text: &str) -> Result<ApiKey, BadApiKey> {
        let well_formed = text.len() == PREFIX.len() + RANDOM_CHARS + CHECK_CHARS
            && text.starts_with(PREFIX)
            && text[PREFIX.len()..].bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !well_formed {
            return Err(BadApiKey);
        }
        let (body, check) = text.split_at(text.len() - CHECK_CHARS);
        if checksum(body) == check { Ok(ApiKey(text.to_owned())) } else { Err(BadApiKey) }
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(redacted)")
    }
}

/// What a key may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyScope {
    /// Everything within one environment.
    Environment(EnvironmentId),
    /// What spans environments.
    Admin,
}

/// A key as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    /// Its handle.
    pub id: KeyId,
    /// What it may do.
    pub scope: KeyScope,
    /// Beginning and end of the key, to recognise it.
    pub hint: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it stopped working.
    pub revoked_at: Option<Timestamp>,
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
