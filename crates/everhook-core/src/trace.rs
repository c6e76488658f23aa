//! The context of a distributed trace, in the form of the W3C header `traceparent`.
//!
//! Ids are derived from the ids of messages and attempts. So every node gives the same ids to the same work, and a
//! message needs to store only the context that its sender gave it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::{AttemptId, Id, MessageId};

/// A span of a trace, which others may be children of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    pub trace: [u8; 16],
    pub span: [u8; 8],
    pub is_sampled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a valid traceparent")]
pub struct BadTraceContext;

/// The spans of a message: its acceptance, and its attempts below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageTrace {
    /// The span of the acceptance.
    pub accept: TraceContext,
    /// The span of the sender, if the sender gave one.
    pub parent: Option<[u8; 8]>,
}

impl MessageTrace {
    /// `given` is the context of the sender. Without one, `share` of the messages are sampled, the same on every node.
    pub fn of(message: MessageId, given: Option<TraceContext>, share: f64) -> MessageTrace {
        let (trace, is_sampled) = match given {
            Some(given) => (given.trace, given.is_sampled),
            None => (trace_of(message.0), share_of(message.0) < share),
        };
        let accept = TraceContext { trace, span: span_of(message.0), is_sampled };
        MessageTrace { accept, parent: given.map(|given| given.span) }
    }

    pub fn attempt(&self, attempt: AttemptId) -> TraceContext {
        TraceContext { span: span_of(attempt.0), ..self.accept }
    }
}

/// The random part of an id, and a little of its time. Never zero, which the standard does not allow.
fn trace_of(id: Id) -> [u8; 16] {
    let mut trace = [0; 16];
    trace.copy_from_slice(&id.as_bytes()[4..]);
    trace[0] |= 1;
    trace
}

fn span_of(id: Id) -> [u8; 8] {
    let mut span = [0; 8];
    span.copy_from_slice(&id.as_bytes()[12..]);
    span[0] |= 1;
    span
}

/// A number from 0 to 1 that is evenly distributed over ids.
fn share_of(id: Id) -> f64 {
    let bytes = id.as_bytes();
    f64::from(u32::from_be_bytes([bytes[16], bytes[17], bytes[18], bytes[19]])) / 2_f64.powi(32)
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u8::from(self.is_sampled);
        write!(f, "00-{}-{}-{flags:02x}", hex(&self.trace), hex(&self.span))
    }
}

impl FromStr for TraceContext {
    type Err = BadTraceContext;

    /// Reads version 0, and the beginning of a later version, as the standard demands.
    fn from_str(text: &str) -> Result<TraceContext, BadTraceContext> {
        let mut parts = text.split('-');
        let mut part = || parts.next().ok_or(BadTraceContext);
        let [version] = bytes(part()?)?;
        let (trace, span, [flags]) = (bytes(part()?)?, bytes(part()?)?, bytes(part()?)?);
        let has_more = parts.next().is_some();
        if version == 0xff || (version == 0 && has_more) || trace == [0; 16] || span == [0; 8] {
            return Err(BadTraceContext);
        }
        Ok(TraceContext { trace, span, is_sampled: flags & 1 == 1 })
    }
}

impl Serialize for TraceContext {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TraceContext {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TraceContext, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads lower-case hexadecimal digits; the standard allows no others.
fn bytes<const N: usize>(text: &str) -> Result<[u8; N], BadTraceContext> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        _ => Err(BadTraceContext),
    };
    let text = text.as_bytes();
    if text.len() != 2 * N {
        return Err(BadTraceContext);
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_context_is_read_and_written() {
        let context: TraceContext = GIVEN.parse().unwrap();
        assert!(context.is_sampled && context.to_string() == GIVEN);
        let later: TraceContext = "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00-more".parse().unwrap();
        assert!(!later.is_sampled);
    }

    #[test]
    fn a_bad_context_is_refused() {
        for bad in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319é-b7ad6b7169203331-01",
        ] {
            assert_eq!(bad.parse::<TraceContext>(), Err(BadTraceContext), "{bad}");
        }
    }

    #[test]
    fn attempts_are_children_in_the_trace_of_the_sender() {
        let given: TraceContext = GIVEN.parse().unwrap();
        let trace = MessageTrace::of(MessageId(Id::MAX), Some(given), 0.0);
        assert_eq!((trace.accept.trace, trace.parent), (given.trace, Some(given.span)));
        let attempt = trace.attempt(AttemptId(Id::MIN));
        assert_eq!((attempt.trace, attempt.is_sampled), (given.trace, true));
        assert_ne!(attempt.span, trace.accept.span);
    }

    #[test]
    fn a_share_of_the_other_messages_is_sampled() {
        let is_sampled = |id, share| MessageTrace::of(MessageId(id), None, share).accept.is_sampled;
        assert!(is_sampled(Id::MIN, 0.1) && !is_sampled(Id::MAX, 0.1));
        assert!(is_sampled(Id::MAX, 1.0) && !is_sampled(Id::MIN, 0.0));
        let trace = MessageTrace::of(MessageId(Id::MIN), None, 1.0);
        assert!(trace.accept.to_string().parse::<TraceContext>().is_ok(), "ids are never zero");
    }
}
