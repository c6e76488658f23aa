//! Standard Webhooks signatures: `v1` (HMAC-SHA256) and `v1a` (ed25519), with several keys during a rotation.
//!
//! Pure: the caller passes random bytes for new keys. Secrets have a redacting `Debug`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::limits::OLD_KEYS_MAX;
use crate::time::Timestamp;

const SYMMETRIC: &str = "whsec_";
const PRIVATE: &str = "whsk_";
const PUBLIC: &str = "whpk_";
const SYMMETRIC_BYTES: std::ops::RangeInclusive<usize> = 24..=75;

#[derive(Clone, PartialEq, Eq)]
pub enum SigningKey {
    /// `whsec_`: shared with the receiver.
    Symmetric(Vec<u8>),
    /// `whsk_`: only the public half is shared.
    Ed25519 { seed: [u8; 32], public: [u8; 32] },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSigningKey {
    #[error("must start with {SYMMETRIC:?} or {PRIVATE:?}")]
    Prefix,
    #[error("must be base64 after its prefix")]
    Base64,
    #[error("must have 24 to 75 bytes, or 64 for an ed25519 key")]
    Length,
    /// The two halves of the ed25519 key do not match.
    #[error("must be an ed25519 key pair")]
    KeyPair,
}

/// The kind of a generated key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SignatureKind {
    /// HMAC-SHA256 with a secret shared with the receiver.
    #[default]
    Hmac256,
    /// Ed25519; the receiver gets the public half.
    Ed25519,
}

impl SignatureKind {
    pub fn generate(self, random: [u8; 32]) -> SigningKey {
        match self {
            SignatureKind::Hmac256 => SigningKey::generate(random),
            SignatureKind::Ed25519 => {
                let pair = Ed25519KeyPair::from_seed_unchecked(&random).expect("every 32 bytes are a seed");
                let public = pair.public_key().as_ref().try_into().expect("a public key has 32 bytes");
                SigningKey::Ed25519 { seed: random, public }
            }
        }
    }
}

impl SigningKey {
    pub fn generate(random: [u8; 32]) -> SigningKey {
        SigningKey::Symmetric(random.to_vec())
    }

    pub const fn kind(&self) -> SignatureKind {
        match self {
            SigningKey::Symmetric(_) => SignatureKind::Hmac256,
            SigningKey::Ed25519 { .. } => SignatureKind::Ed25519,
        }
    }

    /// The whole secret as text, as the stores keep it. Never log it.
    pub fn expose(&self) -> String {
        match self {
            SigningKey::Symmetric(secret) => format!("{SYMMETRIC}{}", BASE64.encode(secret)),
            SigningKey::Ed25519 { seed, public } => format!("{PRIVATE}{}", BASE64.encode([*seed, *public].concat())),
        }
    }

    /// The part that receivers verify with: the secret itself, or the public half.
    pub fn shared(&self) -> String {
        match self {
            SigningKey::Symmetric(_) => self.expose(),
            SigningKey::Ed25519 { public, .. } => format!("{PUBLIC}{}", BASE64.encode(public)),
        }
    }

    fn sign(&self, content: &[&[u8]]) -> String {
        match self {
            SigningKey::Symmetric(secret) => {
                let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, secret));
                for part in content {
                    context.update(part);
                }
                signature("v1,", context.sign().as_ref())
            }
            SigningKey::Ed25519 { seed, public } => {
                let pair = Ed25519KeyPair::from_seed_and_public_key(seed, public).expect("checked when it was parsed");
                signature("v1a,", pair.sign(&content.concat()).as_ref())
            }
        }
    }
}

/// Every delivery is signed, so these texts are put together without `format!`.
fn signature(version: &str, bytes: &[u8]) -> String {
    let mut text = String::with_capacity(version.len() + bytes.len().div_ceil(3) * 4);
    text.push_str(version);
    BASE64.encode_string(bytes, &mut text);
    text
}

impl FromStr for SigningKey {
    type Err = BadSigningKey;

    fn from_str(text: &str) -> Result<SigningKey, BadSigningKey> {
        let decode = |text| BASE64.decode(text).map_err(|_| BadSigningKey::Base64);
        if let Some(rest) = text.strip_prefix(SYMMETRIC) {
            let secret = decode(rest)?;
            return if SYMMETRIC_BYTES.contains(&secret.len()) {
                Ok(SigningKey::Symmetric(secret))
            } else {
                Err(BadSigningKey::Length)
            };
        }
        let rest = text.strip_prefix(PRIVATE).ok_or(BadSigningKey::Prefix)?;
        let bytes = <[u8; 64]>::try_from(decode(rest)?).map_err(|_| BadSigningKey::Length)?;
        let (seed, public) = (bytes.first_chunk().expect("64 bytes"), bytes.last_chunk().expect("64 bytes"));
        let pair = Ed25519KeyPair::from_seed_and_public_key(seed, public).map_err(|_| BadSigningKey::KeyPair)?;
        debug_assert_eq!(pair.public_key().as_ref(), public);
        Ok(SigningKey::Ed25519 { seed: *seed, public: *public })
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(redacted)")
    }
}

/// The keys of one endpoint: the current one, and rotated ones that still sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningKeys {
    /// The key that receivers should verify with.
    pub current: SigningKey,
    /// Newest first, each with its expiry.
    pub old: Vec<(SigningKey, Timestamp)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "at most {OLD_KEYS_MAX} old keys may be unexpired: wait for one to expire, or rotate with a shorter grace period"
)]
pub struct TooManyKeys;

impl SigningKeys {
    pub fn new(current: SigningKey) -> SigningKeys {
        SigningKeys { current, old: Vec::new() }
    }

    /// Makes `key` the current one. The previous key keeps signing for `grace`.
    pub fn rotate(&self, key: SigningKey, grace: Duration, now: Timestamp) -> Result<SigningKeys, TooManyKeys> {
        let mut old = vec![(self.current.clone(), now.plus(grace))];
        old.extend(self.old.iter().cloned());
        old.retain(|(_, until)| *until > now);
        if old.len() > OLD_KEYS_MAX { Err(TooManyKeys) } else { Ok(SigningKeys { current: key, old }) }
    }

    /// Returns the `webhook-signature` header: one signature per valid key, newest first.
    pub fn sign(&self, webhook_id: &str, now: Timestamp, body: &[u8]) -> String {
        let seconds = now.as_secs().to_string();
        let head = [webhook_id, ".", &seconds, "."].concat();
        let content = [head.as_bytes(), body];
        let mut signatures = self.current.sign(&content);
        for (key, _) in self.old.iter().filter(|(_, until)| *until > now) {
            signatures.push(' ');
            signatures.push_str(&key.sign(&content));
        }
        signatures
    }
}

impl Default for SigningKeys {
    /// A key of zeros for tests. Endpoints get random keys.
    fn default() -> SigningKeys {
        SigningKeys::new(SigningKey::generate([0; 32]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Timestamp = Timestamp::from_millis(1_614_265_330_000);

    #[test]
    fn the_published_test_vector_holds() {
        let key: SigningKey = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap();
        let signature = SigningKeys::new(key).sign("msg_p5jXN8AQM9LWM0D4loKWxJek", AT, br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_key_is_made_of_the_kind_that_is_wanted() {
        for (kind, prefix, shared, version) in
            [(SignatureKind::Hmac256, "whsec_", "whsec_", "v1,"), (SignatureKind::Ed25519, "whsk_", "whpk_", "v1a,")]
        {
            let key = kind.generate([7; 32]);
            assert_eq!(key.kind(), kind);
            assert!(key.expose().starts_with(prefix) && key.shared().starts_with(shared));
            assert_eq!(key.expose().parse(), Ok(key.clone()), "it can be read again");
            assert!(SigningKeys::new(key).sign("msg_1", AT, b"{}").starts_with(version));
        }
    }

    #[test]
    fn secrets_survive_a_round_trip_and_bad_ones_are_named() {
        let check = |text: &str| text.parse::<SigningKey>().map(|key| key.expose());
        let good = SigningKey::generate([7; 32]).expose();
        assert_eq!(check(&good), Ok(good.clone()));
        assert_eq!(check("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), Err(BadSigningKey::Prefix));
        assert_eq!(check("whsec_***"), Err(BadSigningKey::Base64));
        assert_eq!(check("whsec_MfKQ"), Err(BadSigningKey::Length));
        assert_eq!(check(&format!("whsk_{}", BASE64.encode([1; 64]))), Err(BadSigningKey::KeyPair));
    }

    #[test]
    fn an_ed25519_signature_verifies_with_the_public_half() {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[9; 32]).unwrap();
        let public: [u8; 32] = pair.public_key().as_ref().try_into().unwrap();
        let text = format!("whsk_{}", BASE64.encode([[9; 32], public].concat()));
        let key: SigningKey = text.parse().unwrap();
        assert_eq!(key.expose(), text);
        assert_eq!(key.shared(), format!("whpk_{}", BASE64.encode(public)));
        let header = SigningKeys::new(key).sign("msg_1", AT, b"{}");
        let signature = BASE64.decode(header.strip_prefix("v1a,").unwrap()).unwrap();
        aws_lc_rs::signature::UnparsedPublicKey::new(&aws_lc_rs::signature::ED25519, public)
            .verify(b"msg_1.1614265330.{}", &signature)
            .unwrap();
    }

    #[test]
    fn old_keys_sign_until_they_expire() {
        let first = SigningKeys::new(SigningKey::generate([1; 32]));
        let hour = Duration::from_secs(3600);
        let both = first.rotate(SigningKey::generate([2; 32]), hour, AT).unwrap();
        let count = |keys: &SigningKeys, at| keys.sign("msg_1", at, b"{}").split(' ').count();
        assert_eq!(count(&both, AT), 2);
        assert_eq!(count(&both, AT.plus(hour)), 1);
        assert!(both.sign("msg_1", AT, b"{}").ends_with(&first.sign("msg_1", AT, b"{}")));
    }

    #[test]
    fn rotations_are_bounded_by_the_unexpired_keys() {
        let hour = Duration::from_secs(3600);
        let mut keys = SigningKeys::default();
        for n in 0..10 {
            keys = keys.rotate(SigningKey::generate([n; 32]), hour, AT).unwrap();
        }
        assert_eq!(keys.rotate(SigningKey::generate([99; 32]), hour, AT), Err(TooManyKeys));
        assert!(keys.rotate(SigningKey::generate([99; 32]), hour, AT.plus(hour)).is_ok());
    }

    #[test]
    fn a_secret_is_not_in_its_debug_text() {
        assert_eq!(format!("{:?}", SigningKey::generate([7; 32])), "SigningKey(redacted)");
    }
}
