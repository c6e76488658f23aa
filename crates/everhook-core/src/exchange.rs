//! The steps of one request and the head of its reply, for people who look for a fault.
//!
//! Pure. The sender fills an exchange while the request proceeds, so that a failed or interrupted request shows how far
//! it came. No decision depends on it. Values of reply headers may be credentials: only those of names known to be
//! harmless are kept.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::limits::{REPLY_HEADER_NAME_BYTES_MAX, REPLY_HEADER_VALUE_BYTES_MAX, REPLY_HEADERS_KEPT_MAX};

/// The steps of a request. A step that did not happen has no duration; a step that failed has the time until then. The
/// stored names are short, because every attempt has them; earlier versions stored the longer ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Exchange {
    /// Whether an idle connection carried the request, which then has no look-up, connection and handshake.
    #[serde(rename = "r", alias = "reused", skip_serializing_if = "is_false")]
    pub reused: bool,
    /// The wait for a free connection to the host, if there was any.
    #[serde(rename = "w", alias = "wait", skip_serializing_if = "Option::is_none", with = "micros")]
    pub wait: Option<Duration>,
    #[serde(rename = "d", alias = "dns", skip_serializing_if = "Option::is_none", with = "micros")]
    pub dns: Option<Duration>,
    #[serde(rename = "c", alias = "connect", skip_serializing_if = "Option::is_none", with = "micros")]
    pub connect: Option<Duration>,
    #[serde(rename = "t", alias = "tls", skip_serializing_if = "Option::is_none", with = "micros")]
    pub tls: Option<Duration>,
    /// From the start of the request to the head of the reply.
    #[serde(rename = "f", alias = "first_byte", skip_serializing_if = "Option::is_none", with = "micros")]
    pub first_byte: Option<Duration>,
    /// From the head to the end of the reply.
    #[serde(rename = "b", alias = "body", skip_serializing_if = "Option::is_none", with = "micros")]
    pub body: Option<Duration>,
    /// The number of the attempt in the request: 1 for the first one that the retry policy counts.
    #[serde(rename = "n", alias = "number", skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// The span between the logged start of the attempt and the earlier time in its signature, if there is any.
    #[serde(rename = "a", alias = "ahead", skip_serializing_if = "Option::is_none", with = "micros")]
    pub ahead: Option<Duration>,
    /// The headers of the reply, in their order.
    #[serde(rename = "h", alias = "headers", skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<ReplyHeader>,
}

/// An exchange as it is stored: its JSON. It is written where the request ended, because a store may write with one
/// thread only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredExchange(Arc<str>);

/// A header of a reply. The value is none if the name is not known to be harmless.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplyHeader(pub Cow<'static, str>, pub Option<String>);

/// Room for the stored text of most exchanges.
const TEXT_BYTES_USUAL: usize = 256;

/// Headers of the connection, which say nothing about the reply. They are left out, because every reply has them.
const OF_CONNECTION: [&str; 3] = ["connection", "keep-alive", "transfer-encoding"];

/// Names of reply headers whose values are kept, in order. Any other header may carry a credential.
const HARMLESS: [&str; 29] = [
    "accept-ranges",
    "age",
    "allow",
    "cache-control",
    "cf-cache-status",
    "cf-ray",
    "content-encoding",
    "content-language",
    "content-length",
    "content-type",
    "date",
    "etag",
    "expires",
    "last-modified",
    "ratelimit-limit",
    "ratelimit-remaining",
    "ratelimit-reset",
    "retry-after",
    "server",
    "vary",
    "via",
    "webhook-delivery",
    "x-amzn-requestid",
    "x-correlation-id",
    "x-powered-by",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "x-request-id",
];

impl Exchange {
    /// Keeps the headers of the reply within bounds. Names are in lower case.
    pub fn keep_headers<'h>(&mut self, headers: impl Iterator<Item = (&'h str, &'h [u8])>) {
        self.headers = headers
            .filter(|(name, _)| !OF_CONNECTION.contains(name))
            .take(REPLY_HEADERS_KEPT_MAX)
            .map(|(name, value)| ReplyHeader::new(name, value))
            .collect();
    }

    /// Whether any step of the request happened.
    pub fn has_steps(&self) -> bool {
        let Exchange { reused, wait, dns, connect, tls, first_byte, body, .. } = self;
        *reused || [wait, dns, connect, tls, first_byte, body].into_iter().any(Option::is_some)
    }

    /// The bytes that count towards the size of a page.
    pub fn bytes(&self) -> usize {
        self.headers.iter().map(|ReplyHeader(name, value)| name.len() + value.as_ref().map_or(0, String::len)).sum()
    }
}

impl StoredExchange {
    /// Returns none if nothing was sent.
    pub fn of(exchange: &Exchange) -> Option<StoredExchange> {
        let is_sent = *exchange != Exchange::default();
        is_sent.then(|| {
            let mut json = Vec::with_capacity(TEXT_BYTES_USUAL);
            serde_json::to_writer(&mut json, exchange).expect("numbers and strings are always JSON");
            StoredExchange(String::from_utf8(json).expect("JSON is UTF-8").into())
        })
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn read(&self) -> Exchange {
        serde_json::from_str(&self.0).expect("only an exchange is stored")
    }
}

impl ReplyHeader {
    fn new(name: &str, value: &[u8]) -> ReplyHeader {
        match HARMLESS.binary_search(&name) {
            Ok(known) => {
                let value = cut(String::from_utf8_lossy(value).into_owned(), REPLY_HEADER_VALUE_BYTES_MAX);
                ReplyHeader(HARMLESS[known].into(), Some(value))
            }
            Err(_) => ReplyHeader(cut(name.to_owned(), REPLY_HEADER_NAME_BYTES_MAX).into(), None),
        }
    }
}

/// Cuts a text that is too long, and marks the cut.
fn cut(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max));
        text.push('…');
    }
    text
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// Durations in the stored form: whole microseconds.
mod micros {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::ref_option, reason = "serde calls it with a reference")]
    pub(super) fn serialize<S: Serializer>(span: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        match span {
            Some(span) => to.serialize_u64(u64::try_from(span.as_micros()).unwrap_or(u64::MAX)),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Duration::from_micros))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(headers: &[(&str, &[u8])]) -> Vec<ReplyHeader> {
        let mut exchange = Exchange::default();
        exchange.keep_headers(headers.iter().copied());
        exchange.headers
    }

    #[test]
    fn only_values_of_harmless_reply_headers_are_kept() {
        let seen = kept(&[
            ("server", b"nginx"),
            ("connection", b"close"),
            ("set-cookie", b"session=secret"),
            ("x-auth", b"token"),
            ("date", b"\xff"),
        ]);
        let shown: Vec<_> = seen.iter().map(|ReplyHeader(name, value)| (&**name, value.as_deref())).collect();
        let want = [("server", Some("nginx")), ("set-cookie", None), ("x-auth", None), ("date", Some("\u{fffd}"))];
        assert_eq!(shown, want);
        assert!(HARMLESS.is_sorted());
    }

    #[test]
    fn kept_reply_headers_are_bounded() {
        let long = "é".repeat(REPLY_HEADER_VALUE_BYTES_MAX);
        let name = "n".repeat(1000);
        let many = [("server", long.as_bytes()), (name.as_str(), &b"1"[..])].repeat(100);
        let seen = kept(&many);
        assert_eq!(seen.len(), REPLY_HEADERS_KEPT_MAX);
        for ReplyHeader(name, value) in seen {
            assert!(name.len() <= REPLY_HEADER_NAME_BYTES_MAX + '…'.len_utf8());
            assert!(value.is_none_or(|value| value.len() <= REPLY_HEADER_VALUE_BYTES_MAX + '…'.len_utf8()));
        }
    }

    #[test]
    fn an_exchange_is_stored_compactly() {
        let mut exchange =
            Exchange { reused: true, first_byte: Some(Duration::from_nanos(812_999)), ..Exchange::default() };
        exchange.keep_headers([("server", &b"nginx"[..]), ("x-key", b"k")].into_iter());
        let stored = StoredExchange::of(&exchange).unwrap();
        assert_eq!(stored.as_str(), r#"{"r":true,"f":812,"h":[["server","nginx"],["x-key",null]]}"#);
        let want = Exchange { first_byte: Some(Duration::from_micros(812)), ..exchange };
        assert_eq!(stored.read(), want);
        assert_eq!(StoredExchange::of(&Exchange::default()), None);
        assert_eq!(serde_json::from_str::<Exchange>("{}").unwrap(), Exchange::default());
        let earlier = r#"{"reused":true,"first_byte":812,"headers":[["server","nginx"],["x-key",null]]}"#;
        assert_eq!(serde_json::from_str::<Exchange>(earlier).unwrap(), want, "in the names of earlier versions");
    }
}
