//! Durations and times as people type them: `90`, `1h30m`, `2d`, and `2h` as the time two hours ago.

use std::time::Duration;

use everhook_core::time::Timestamp;

/// Units of a duration, with their length in milliseconds.
const UNITS: [(&str, f64); 6] =
    [("ms", 1.0), ("s", 1e3), ("m", 60e3), ("h", 3_600e3), ("d", 86_400e3), ("w", 604_800e3)];
/// Longest duration that a command accepts: about a hundred years.
const MILLIS_MAX: f64 = 100.0 * 366.0 * 86_400e3;

/// Parses a duration. A number without a unit counts seconds.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    let bad = || "expected a duration such as 30s, 15m, 1h30m or 2d".to_owned();
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(bad());
    }
    let mut millis = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let letters = after.find(|char: char| !char.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let is_alone = unit.is_empty() && rest.len() == text.trim().len() && after.is_empty();
        let unit = if is_alone { "s" } else { unit };
        let (_, length) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(bad)?;
        millis += number.parse::<f64>().map_err(|_| bad())? * length;
        rest = after.trim_start();
    }
    if millis > MILLIS_MAX {
        Err("the duration is too long".to_owned())
    } else {
        Ok(Duration::from_secs_f64(millis / 1e3))
    }
}

/// Parses a duration that the API counts in whole seconds.
pub(crate) fn seconds(text: &str) -> Result<u64, String> {
    let span = span(text)?;
    if span.subsec_nanos() == 0 { Ok(span.as_secs()) } else { Err("expected whole seconds".to_owned()) }
}

/// Parses a time, a date, or a duration that lies in the past.
pub(crate) fn past(text: &str) -> Result<Timestamp, String> {
    past_of(text, now())
}

fn past_of(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    if let Ok(span) = span(text) {
        return Ok(now.minus(span));
    }
    let date = format!("{text}T00:00:00Z");
    let at = if text.len() == "2026-01-31".len() { &date } else { text };
    at.parse()
        .map_err(|_| "expected a time such as 2026-01-31T12:00:00Z, a date, or a duration ago such as 2h".to_owned())
}

/// The time of this machine, for relative times and signatures.
#[expect(clippy::disallowed_methods, reason = "commands run beside a person's clock, not beside a store's")]
pub(crate) fn now() -> Timestamp {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp::default().plus(since_epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_or_count_seconds() {
        for (text, millis) in [
            ("90", 90_000),
            ("0", 0),
            ("0.5", 500),
            ("30s", 30_000),
            ("15m", 900_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("2d", 172_800_000),
            ("1w", 604_800_000),
            ("250ms", 250),
        ] {
            assert_eq!(span(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "h", "1x", "-1h", "1h30", "soon", "1.2.3s", "9999999d"] {
            assert!(span(text).is_err(), "{text}");
        }
        assert_eq!(seconds("2m"), Ok(120));
        assert!(seconds("1500ms").is_err());
    }

    #[test]
    fn a_time_is_absolute_or_a_duration_ago() {
        let now: Timestamp = "2026-05-04T12:00:00Z".parse().unwrap();
        let check = |text: &str, want: &str| assert_eq!(past_of(text, now), Ok(want.parse().unwrap()), "{text}");
        check("2h", "2026-05-04T10:00:00Z");
        check("1d", "2026-05-03T12:00:00Z");
        check("2026-05-01", "2026-05-01T00:00:00Z");
        check("2026-05-01T03:00:00+02:00", "2026-05-01T01:00:00Z");
        assert!(past_of("yesterday", now).is_err());
    }
}
