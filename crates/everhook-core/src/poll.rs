//! Polled endpoints: the positions of readers, and their text form.
//!
//! Pure. An endpoint whose URL is [`POLL_URL`] gets no requests. Its messages wait until a reader asks for them. Each
//! has a position, which only grows. The stores and the API call this module.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use crate::id::EndpointId;

/// The URL of an endpoint that is polled.
pub const POLL_URL: &str = "poll:";

/// A position between two messages of a poller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PollMark {
    /// All messages up to this position were read.
    pub position: i64,
    /// The number of seeks of the consumer. A seek makes earlier marks invalid.
    pub generation: i64,
}

/// The mark is older than the consumer's last seek.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the iterator is older than the last seek of the consumer: ask without an iterator")]
pub struct OutOfStep;

/// Returns the mark where a consumer continues. `known` is its stored mark. `confirmed` is the mark of the request,
/// which confirms all messages before it.
pub fn resume(known: Option<PollMark>, confirmed: Option<PollMark>) -> Result<PollMark, OutOfStep> {
    let known = known.unwrap_or_default();
    match confirmed {
        Some(confirmed) if confirmed.generation == known.generation => Ok(confirmed),
        Some(_) => Err(OutOfStep),
        None => Ok(known),
    }
}

/// A mark with its endpoint, as clients send it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollIterator {
    pub endpoint: EndpointId,
    pub mark: PollMark,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an iterator of a poller")]
pub struct BadPollIterator;

impl fmt::Display for PollIterator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PollIterator { endpoint, mark: PollMark { position, generation } } = self;
        f.write_str(&BASE64_URL_SAFE_NO_PAD.encode(format!("{endpoint} {position} {generation}")))
    }
}

impl FromStr for PollIterator {
    type Err = BadPollIterator;

    fn from_str(text: &str) -> Result<PollIterator, BadPollIterator> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| BadPollIterator)?;
        let text = String::from_utf8(bytes).map_err(|_| BadPollIterator)?;
        let mut words = text.split(' ');
        let mut next = || words.next().ok_or(BadPollIterator);
        let endpoint = next()?.parse().map_err(|_| BadPollIterator)?;
        let mut number = || next()?.parse().ok().filter(|number: &i64| *number >= 0).ok_or(BadPollIterator);
        let mark = PollMark { position: number()?, generation: number()? };
        if words.next().is_some() { Err(BadPollIterator) } else { Ok(PollIterator { endpoint, mark }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Id;

    fn mark(position: i64, generation: i64) -> PollMark {
        PollMark { position, generation }
    }

    #[test]
    fn a_consumer_continues_where_it_confirmed() {
        assert_eq!(resume(None, None), Ok(mark(0, 0)));
        assert_eq!(resume(Some(mark(7, 2)), None), Ok(mark(7, 2)));
        assert_eq!(resume(Some(mark(7, 2)), Some(mark(9, 2))), Ok(mark(9, 2)));
        assert_eq!(resume(Some(mark(7, 2)), Some(mark(3, 2))), Ok(mark(3, 2)), "a page may be read again");
        assert_eq!(resume(Some(mark(7, 2)), Some(mark(9, 1))), Err(OutOfStep));
        assert_eq!(resume(None, Some(mark(9, 1))), Err(OutOfStep));
    }

    #[test]
    fn an_iterator_is_read_as_it_was_written() {
        let iterator = PollIterator { endpoint: EndpointId(Id::MAX), mark: mark(i64::MAX, 3) };
        assert_eq!(iterator.to_string().parse(), Ok(iterator));
        for bad in ["", "nonsense", "MSAyIDM"] {
            assert_eq!(bad.parse::<PollIterator>(), Err(BadPollIterator), "{bad}");
        }
        let negative = BASE64_URL_SAFE_NO_PAD.encode(format!("{} -1 0", EndpointId(Id::MIN)));
        assert_eq!(negative.parse::<PollIterator>(), Err(BadPollIterator));
    }
}
