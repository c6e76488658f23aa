//! Verifies Standard Webhooks signatures as a receiver does, independently of the sender's code.

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everhook_testkit::receiver::Seen;

/// Largest accepted difference between a timestamp and the receiver's clock.
const TOLERANCE_SECONDS: i64 = 300;

/// A request whose signature can be checked.
pub(crate) trait Signed {
    /// Fails unless the request is signed with `secret` (`whsec_…`, or the public `whpk_…`) and fresh, in both header
    /// families.
    fn verify(&self, secret: &str);
}

impl Signed for Seen {
    #[track_caller]
    fn verify(&self, secret: &str) {
        for family in ["webhook", "svix"] {
            assert!(is_signed(self, family, secret), "no {family}-signature matches on {self:?}");
        }
    }
}

/// Whether `secret` made one of the request's signatures in this family.
#[track_caller]
pub(crate) fn is_signed(seen: &Seen, family: &str, secret: &str) -> bool {
    let header = |name: &str| seen.header(&format!("{family}-{name}"));
    let timestamp = header("timestamp");
    let age = seen.at - timestamp.parse::<i64>().expect("the timestamp is in whole seconds");
    assert!(age.abs() <= TOLERANCE_SECONDS, "the timestamp {timestamp} was {age} s old");
    let mut signed = format!("{}.{timestamp}.", header("id")).into_bytes();
    signed.extend_from_slice(&seen.body);
    header("signature").split(' ').any(|signature| {
        let (version, signature) = signature.split_once(',').expect("a version and a signature");
        matches(version, &STANDARD.decode(signature).expect("base64"), &signed, secret)
    })
}

/// Returns the signature header of a request, with any timestamp.
pub(crate) fn sign(secret: &str, id: &str, timestamp: i64, body: &str) -> String {
    let key = STANDARD.decode(secret.strip_prefix("whsec_").expect("a shared secret")).expect("base64");
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), format!("{id}.{timestamp}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(tag))
}

fn matches(version: &str, signature: &[u8], signed: &[u8], secret: &str) -> bool {
    let (kind, key) = secret.split_once('_').expect("a prefixed secret");
    let key = STANDARD.decode(key).expect("base64");
    match (version, kind) {
        ("v1", "whsec") => hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, &key), signed, signature).is_ok(),
        ("v1a", "whpk") => UnparsedPublicKey::new(&ED25519, &key).verify(signed, signature).is_ok(),
        _ => false,
    }
}

#[test]
fn the_verifier_knows_the_published_example() {
    let key = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
    let signed = br#"msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{"test": 2432232314}"#;
    let signature = STANDARD.decode("g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=").unwrap();
    let secret = format!("whsec_{}", STANDARD.encode(&key));
    assert!(matches("v1", &signature, signed, &secret));
    let again = sign(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, r#"{"test": 2432232314}"#);
    assert_eq!(again, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    assert!(!matches("v1", &signature, b"other", &secret));
}
