//! Wall-clock time of the store: microseconds since the Unix epoch.
//!
//! Pure. Nodes get timestamps from the store and send durations.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Later than any other time: the due time of disabled work.
    pub const NEVER: Timestamp = Timestamp(i64::MAX);

    pub const fn from_micros(micros: i64) -> Timestamp {
        Timestamp(micros)
    }

    pub const fn from_millis(millis: i64) -> Timestamp {
        Timestamp(millis.saturating_mul(1000))
    }

    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Rounded down to whole milliseconds.
    pub const fn as_millis(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// Rounded down to whole seconds, as in signatures.
    pub const fn as_secs(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// Adds `span`; saturates at [`Timestamp::NEVER`].
    #[must_use]
    pub fn plus(self, span: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(micros(span)))
    }

    #[must_use]
    pub fn minus(self, span: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(micros(span)))
    }

    /// Returns the time since `earlier`, or zero if `earlier` is later.
    pub fn since(self, earlier: Timestamp) -> Duration {
        let span = self.0.saturating_sub(earlier.0);
        Duration::from_micros(u64::try_from(span).unwrap_or(0))
    }
}

/// Converts to microseconds, saturating at `i64::MAX`.
pub fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(at) => write!(f, "{at:.6}"),
            Err(_) => f.write_str("never"),
        }
    }
}

impl FromStr for Timestamp {
    type Err = jiff::Error;

    /// Parses RFC 3339, also with a space instead of `T`. A time without offset, or with `UTC` in its place, is UTC:
    /// client libraries send such times.
    fn from_str(text: &str) -> Result<Timestamp, jiff::Error> {
        let read = text.parse::<jiff::Timestamp>().or_else(|error| {
            let plain = text.strip_suffix(" UTC").or_else(|| text.strip_suffix("UTC")).unwrap_or(text);
            let is_plain = |(at, byte): (usize, u8)| match byte {
                b'0'..=b'9' => true,
                // An unreadable offset or zone must not be dropped: the time would silently become UTC.
                b'-' => at < DATE_BYTES,
                b':' | b'.' => at > DATE_BYTES,
                b'T' | b't' | b' ' => at == DATE_BYTES,
                _ => false,
            };
            if plain.len() <= DATE_BYTES || !plain.bytes().enumerate().all(is_plain) {
                return Err(error);
            }
            let at = plain.parse::<jiff::civil::DateTime>()?;
            jiff::tz::Offset::UTC.to_timestamp(at)
        });
        read.map(|at| Timestamp(at.as_microsecond()))
    }
}

/// Length of a date such as `2026-01-31`.
const DATE_BYTES: usize = 10;

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse()
            .map_err(|_| serde::de::Error::custom("not an RFC 3339 date and time, such as 2026-01-31T12:00:00Z"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_written_and_read_as_rfc_3339() {
        let at = Timestamp::from_micros(1_614_265_330_123_456);
        assert_eq!(at.to_string(), "2021-02-25T15:02:10.123456Z");
        assert_eq!("2021-02-25T15:02:10.123456Z".parse::<Timestamp>().unwrap(), at);
        assert_eq!("2021-02-25T16:02:10.123456+01:00".parse::<Timestamp>().unwrap(), at);
        assert_eq!(Timestamp::NEVER.to_string(), "never");
    }

    #[test]
    fn a_time_without_an_offset_is_utc() {
        let at = "2021-02-25T15:02:10.123456Z".parse::<Timestamp>().unwrap();
        for text in [
            "2021-02-25T15:02:10.123456",
            "2021-02-25 15:02:10.123456",
            "2021-02-25 15:02:10.123456 UTC",
            "2021-02-25T15:02:10.123456UTC",
            "2021-02-25 15:02:10.123456+00:00",
        ] {
            assert_eq!(text.parse::<Timestamp>().unwrap(), at, "{text}");
        }
        for text in [
            "",
            "UTC",
            "2021-02-25",
            "2021-02-25T15:02:10 CET",
            "2021-02-25T15:02:10[Europe/Berlin]",
            "2021-02-25T15:02:10-99:00",
            "2021-02-30T15:02:10",
            "2021-02-25T25:00:00",
            "yesterday",
        ] {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Timestamp::NEVER.plus(Duration::MAX), Timestamp::NEVER);
        assert_eq!(Timestamp::from_micros(5).since(Timestamp::from_micros(9)), Duration::ZERO);
    }
}
