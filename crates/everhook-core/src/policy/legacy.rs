//! Legacy signatures: one more header beside the standard ones, for receivers that migrate.
//!
//! The signature is HMAC-SHA256 with the endpoint's current secret. Templates describe the signed text and the value of
//! the header.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};

use crate::limits::{HEADER_NAME_BYTES_MAX, LEGACY_TEMPLATE_BYTES_MAX};
use crate::signing::SigningKey;
use crate::violation::{Violation, at};

/// The form of an additional signature header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LegacySignature {
    /// The name of the header.
    pub header: String,
    #[serde(default)]
    pub encoding: Encoding,
    /// The signed text, with the placeholders `{id}`, `{timestamp}` and `{body}`.
    #[serde(default = "body_alone")]
    pub signed_text: String,
    /// The value of the header, with the placeholders `{id}`, `{timestamp}` and `{signature}`.
    #[serde(default = "signature_alone")]
    pub value: String,
}

/// The text form of the signature bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Encoding {
    #[default]
    Hex,
    Base64,
}

/// The parts of a request that templates refer to.
#[derive(Clone, Copy, Debug)]
pub struct SignedParts<'a> {
    pub id: &'a str,
    /// Seconds since 1970.
    pub timestamp: i64,
    pub body: &'a [u8],
}

const BODY: &str = "{body}";
const SIGNATURE: &str = "{signature}";
/// Names that a legacy header must not replace.
const RESERVED: [&str; 9] = [
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "host",
    "idempotency-key",
    "te",
    "transfer-encoding",
    "user-agent",
];
const RESERVED_PREFIXES: [&str; 3] = ["webhook-", "svix-", "everhook-"];

fn body_alone() -> String {
    BODY.to_owned()
}

fn signature_alone() -> String {
    SIGNATURE.to_owned()
}

impl LegacySignature {
    pub(super) fn check(&self) -> Result<(), Violation> {
        let name = self.header.to_ascii_lowercase();
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if name.is_empty() || name.len() > HEADER_NAME_BYTES_MAX || !name.bytes().all(is_token) {
            return Err(at("header").breaks("must be a name of letters, digits, '-' and '_'"));
        }
        if RESERVED.contains(&name.as_str()) || RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
            return Err(at("header").breaks("must not be a header that every delivery has"));
        }
        check_template("signedText", &self.signed_text, BODY)?;
        check_template("value", &self.value, SIGNATURE)
    }

    /// Returns the value of the header. An ed25519 key has no legacy signature, because receivers of the old form
    /// share a secret.
    pub fn sign(&self, key: &SigningKey, parts: SignedParts<'_>) -> Option<String> {
        let SigningKey::Symmetric(secret) = key else { return None };
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, secret));
        let (before, after) = self.signed_text.split_once(BODY)?;
        context.update(parts.fill(before).as_bytes());
        context.update(parts.body);
        context.update(parts.fill(after).as_bytes());
        let tag = context.sign();
        let signature = match self.encoding {
            Encoding::Hex => tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect(),
            Encoding::Base64 => BASE64.encode(tag),
        };
        Some(parts.fill(&self.value).replace(SIGNATURE, &signature))
    }
}

impl SignedParts<'_> {
    fn fill(&self, template: &str) -> String {
        template.replace("{id}", self.id).replace("{timestamp}", &self.timestamp.to_string())
    }
}

/// Checks a template that must contain `required` once, so that a missing body or signature is noticed.
fn check_template(field: &'static str, template: &str, required: &str) -> Result<(), Violation> {
    if template.len() > LEGACY_TEMPLATE_BYTES_MAX {
        return Err(at(field).breaks(format!("must have at most {LEGACY_TEMPLATE_BYTES_MAX} bytes")));
    }
    if template.matches(required).count() != 1 {
        return Err(at(field).breaks(format!("must contain {required} once")));
    }
    if !template.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Err(at(field).breaks("must have printable ASCII characters only"));
    }
    let plain = template.replace(required, "").replace("{id}", "").replace("{timestamp}", "");
    if plain.contains(['{', '}']) {
        return Err(at(field).breaks(format!("may only have the placeholders {{id}}, {{timestamp}} and {required}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn legacy(json: &str) -> LegacySignature {
        serde_json::from_str(json).unwrap()
    }

    #[track_caller]
    fn refused(json: &str, want: &str) {
        assert_eq!(legacy(json).check().unwrap_err().to_string(), want);
    }

    fn parts(body: &[u8]) -> SignedParts<'_> {
        SignedParts { id: "msg_1", timestamp: 1_700_000_000, body }
    }

    #[test]
    fn templates_describe_the_usual_old_headers() {
        // RFC 4231, test case 2, whose key is shorter than the secrets that the API accepts.
        let key = SigningKey::Symmetric(b"Jefe".to_vec());
        let body = b"what do ya want for nothing?";
        let tag = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        let plain = legacy(r#"{"header": "X-Hub-Signature-256", "value": "sha256={signature}"}"#);
        assert_eq!(plain.sign(&key, parts(body)), Some(format!("sha256={tag}")));
        let timed = legacy(
            r#"{"header": "X-Sig", "signedText": "{timestamp}.{body}", "value": "t={timestamp},v1={signature}"}"#,
        );
        let same = legacy(r#"{"header": "X-Sig"}"#).sign(&key, parts(b"1700000000.{}")).unwrap();
        assert_eq!(timed.sign(&key, parts(b"{}")), Some(format!("t=1700000000,v1={same}")));
    }

    #[test]
    fn an_ed25519_key_makes_no_legacy_signature() {
        let key = crate::signing::SignatureKind::Ed25519.generate([7; 32]);
        assert_eq!(legacy(r#"{"header": "X-Sig"}"#).sign(&key, parts(b"{}")), None);
    }

    #[test]
    fn templates_that_cannot_be_verified_are_refused() {
        assert_eq!(legacy(r#"{"header": "X-Sig"}"#).check(), Ok(()));
        refused(r#"{"header": "Webhook-Id"}"#, "header must not be a header that every delivery has");
        refused(r#"{"header": "a b"}"#, "header must be a name of letters, digits, '-' and '_'");
        refused(r#"{"header": "x", "signedText": "{id}"}"#, "signedText must contain {body} once");
        refused(r#"{"header": "x", "value": "v1"}"#, "value must contain {signature} once");
        refused(
            r#"{"header": "x", "value": "{signature}{body}"}"#,
            "value may only have the placeholders {id}, {timestamp} and {signature}",
        );
        refused(r#"{"header": "x", "value": "{signature}\n"}"#, "value must have printable ASCII characters only");
    }
}
