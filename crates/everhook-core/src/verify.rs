//! Verification of Standard Webhooks signatures. The result names the reason if a request is not genuine.
//!
//! Pure: the caller passes the time. Deliveries are signed in `signing`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::signing::{BadSigningKey, SigningKey};
use crate::time::Timestamp;

const PUBLIC: &str = "whpk_";

/// The key of a receiver: the shared secret, or the public half of an ed25519 key.
#[derive(Clone)]
pub enum VerifyingKey {
    Hmac(Vec<u8>),
    Ed25519([u8; 32]),
}

impl FromStr for VerifyingKey {
    type Err = BadSigningKey;

    fn from_str(text: &str) -> Result<VerifyingKey, BadSigningKey> {
        if let Some(public) = text.strip_prefix(PUBLIC) {
            let public = BASE64.decode(public).map_err(|_| BadSigningKey::Base64)?;
            return Ok(VerifyingKey::Ed25519(public.try_into().map_err(|_| BadSigningKey::Length)?));
        }
        Ok(match text.parse()? {
            SigningKey::Symmetric(secret) => VerifyingKey::Hmac(secret),
            SigningKey::Ed25519 { public, .. } => VerifyingKey::Ed25519(public),
        })
    }
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VerifyingKey(redacted)")
    }
}

impl VerifyingKey {
    /// Prefix of the signatures that this key can verify.
    const fn version(&self) -> &'static str {
        match self {
            VerifyingKey::Hmac(_) => "v1,",
            VerifyingKey::Ed25519(_) => "v1a,",
        }
    }

    fn matches(&self, content: &[u8], signature: &[u8]) -> bool {
        match self {
            VerifyingKey::Hmac(secret) => {
                hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, secret), content, signature).is_ok()
            }
            VerifyingKey::Ed25519(public) => {
                UnparsedPublicKey::new(&ED25519, public).verify(content, signature).is_ok()
            }
        }
    }
}

/// The signed parts of a request: three headers and the body.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'a> {
    pub id: &'a str,
    pub timestamp: &'a str,
    pub signature: &'a str,
    pub body: &'a [u8],
}

/// The reason why a request is not genuine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    #[error("the timestamp is not a number of seconds since 1970")]
    Timestamp,
    #[error("no signature has the version {0:?} of this secret: the secret may be of another kind")]
    NoSignature(&'static str),
    #[error("the signature is wrong: the secret is another one, or the id, the timestamp or the body was changed")]
    Signature,
    #[error("the signature matches the body without its trailing white space: verify the exact bytes of the request")]
    TrailingSpace,
    #[error("the signature is right, but the request is too old: it was signed {} s ago", .0.as_secs())]
    TooOld(Duration),
    #[error("the signature is right, but the request was signed {} s in the future: compare the clocks", .0.as_secs())]
    TooNew(Duration),
}

/// Checks the signature of a request, and then that its timestamp differs from `now` by at most `tolerance`.
pub fn verify(key: &VerifyingKey, signed: Signed<'_>, now: Timestamp, tolerance: Duration) -> Result<(), Invalid> {
    let seconds = signed.timestamp.parse::<u32>().map_err(|_| Invalid::Timestamp)?;
    let known = || signed.signature.split(' ').filter_map(|signature| signature.strip_prefix(key.version()));
    if known().next().is_none() {
        return Err(Invalid::NoSignature(key.version().trim_end_matches(',')));
    }
    let matches = |body: &[u8]| {
        let content = [format!("{}.{}.", signed.id, signed.timestamp).as_bytes(), body].concat();
        known().filter_map(|signature| BASE64.decode(signature).ok()).any(|bytes| key.matches(&content, &bytes))
    };
    if !matches(signed.body) {
        let trimmed = signed.body.trim_ascii_end();
        let is_trimmed = trimmed.len() < signed.body.len() && matches(trimmed);
        return Err(if is_trimmed { Invalid::TrailingSpace } else { Invalid::Signature });
    }
    let at = Timestamp::default().plus(Duration::from_secs(u64::from(seconds)));
    match (now.since(at), at.since(now)) {
        (age, _) if age > tolerance => Err(Invalid::TooOld(age)),
        (_, ahead) if ahead > tolerance => Err(Invalid::TooNew(ahead)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signing::{SignatureKind, SigningKeys};

    const AT: Timestamp = Timestamp::from_millis(1_614_265_330_000);
    const TOLERANCE: Duration = Duration::from_secs(300);

    /// Signs `{}` with a key of `kind`, changes the request, and verifies it `later` seconds later.
    fn check(kind: SignatureKind, change: impl Fn(&mut [String; 4]), later: i64) -> Result<(), Invalid> {
        let key = kind.generate([7; 32]);
        let verifying = key.shared().parse::<VerifyingKey>().unwrap();
        let signature = SigningKeys::new(key).sign("msg_1", AT, b"{}");
        let mut parts = ["msg_1".to_owned(), AT.as_secs().to_string(), signature, "{}".to_owned()];
        change(&mut parts);
        let [id, timestamp, signature, body] = &parts;
        let now = Timestamp::from_millis((AT.as_secs() + later) * 1000);
        verify(&verifying, Signed { id, timestamp, signature, body: body.as_bytes() }, now, TOLERANCE)
    }

    #[test]
    fn a_genuine_request_verifies_and_a_changed_one_does_not() {
        for kind in [SignatureKind::Hmac256, SignatureKind::Ed25519] {
            assert_eq!(check(kind, |_| {}, 0), Ok(()));
            assert_eq!(check(kind, |parts| parts[2] = format!("v9,x v1,AAAA v1a,AAAA {}", parts[2]), 0), Ok(()));
            assert_eq!(check(kind, |parts| parts[0] = "msg_2".into(), 0), Err(Invalid::Signature));
            assert_eq!(check(kind, |parts| parts[1] = "1614265331".into(), 0), Err(Invalid::Signature));
            assert_eq!(check(kind, |parts| parts[3] = "{ }".into(), 0), Err(Invalid::Signature));
            assert_eq!(check(kind, |parts| parts[3] += "\n", 0), Err(Invalid::TrailingSpace));
            assert_eq!(check(kind, |parts| parts[1] = "now".into(), 0), Err(Invalid::Timestamp));
            assert!(matches!(check(kind, |parts| parts[2] = "v9,x".into(), 0), Err(Invalid::NoSignature(_))));
        }
    }

    #[test]
    fn an_old_or_future_request_is_told_from_a_forged_one() {
        let seconds = Duration::from_secs;
        let at = |later| check(SignatureKind::Hmac256, |_| {}, later);
        assert_eq!((at(300), at(-300)), (Ok(()), Ok(())));
        assert_eq!((at(301), at(-301)), (Err(Invalid::TooOld(seconds(301))), Err(Invalid::TooNew(seconds(301)))));
        let forged = check(SignatureKind::Hmac256, |parts| parts[3].push('x'), 900);
        assert_eq!(forged, Err(Invalid::Signature), "the age of a forged request says nothing");
    }

    #[test]
    fn the_published_test_vector_verifies() {
        let key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap();
        let (id, signature) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let signed = Signed { id, timestamp: "1614265330", signature, body: br#"{"test": 2432232314}"# };
        assert_eq!(verify(&key, signed, AT, TOLERANCE), Ok(()));
        assert!("whpk_AAAA".parse::<VerifyingKey>().is_err() && "secret".parse::<VerifyingKey>().is_err());
    }
}
