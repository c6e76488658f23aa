//! Time zones, and the instants at which a cron expression fires in one.
//!
//! The zone data is compiled in: containers need no system data, and replicas on different machines agree. Updates of
//! the system do not change it; new builds do.
//!
//! **Clock changes.** An expression that names hours (`30 2 * * *`, `0 */2 * * *`) means wall-clock times. A time
//! inside the gap of a forward change runs once, at the first instant after the gap. A time that occurs twice runs the
//! first time only.
//!
//! An expression that matches every hour (`0 * * * *`, `*/15 * * * *`) means elapsed time. It runs whenever the clock
//! shows a matching time, twice in an overlap, and nothing is caught up after a gap. Otherwise "every 15 minutes" would
//! pause for an hour in autumn.

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp as Instant};

use crate::limits::CRON_SEGMENTS_MAX;
use crate::schedule::cron::Cron;
use crate::time::Timestamp;

/// A time zone by its IANA name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(TimeZone);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown time zone {0:?}, expected an IANA name such as \"Europe/Berlin\"")]
pub struct BadZone(pub String);

impl Zone {
    pub const UTC: Zone = Zone(TimeZone::UTC);

    pub fn as_str(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    #[cfg(test)]
    pub(super) fn local(&self, at: Timestamp) -> DateTime {
        self.0.to_datetime(Instant::from_microsecond(at.as_micros()).unwrap())
    }

    #[cfg(test)]
    pub(super) fn as_jiff(&self) -> &TimeZone {
        &self.0
    }
}

impl std::str::FromStr for Zone {
    type Err = BadZone;

    fn from_str(name: &str) -> Result<Zone, BadZone> {
        TimeZoneDatabase::bundled().get(name).map(Zone).map_err(|_| BadZone(name.to_owned()))
    }
}

/// Returns the first instant after `after` at which `cron` fires in `zone`. `None` only at the end of the calendar.
pub(super) fn next_after(cron: &Cron, zone: &Zone, after: Timestamp) -> Option<Timestamp> {
    let mut cursor = Instant::from_second(after.as_secs().checked_add(1)?).ok()?;
    for _ in 0..CRON_SEGMENTS_MAX {
        let segment = Segment::at(&zone.0, cursor);
        match segment.first_fire(cron, cursor)? {
            Found::At(at) => return Some(Timestamp::from_micros(at.as_microsecond())),
            Found::NotBefore(end) => cursor = end,
        }
    }
    None
}

/// A part of the time line with a constant offset.
struct Segment {
    offset: Offset,
    /// The clock change at its start; `None` before the zone's first change.
    begin: Option<Change>,
    end: Option<Instant>,
}

/// The next fire, as far as one segment knows it.
enum Found {
    At(Instant),
    /// Not in this segment, which ends at this instant.
    NotBefore(Instant),
}

struct Change {
    at: Instant,
    /// The local time by the old offset.
    shown_before: DateTime,
    /// The local time by the new offset.
    shown_after: DateTime,
}

impl Segment {
    fn at(zone: &TimeZone, at: Instant) -> Segment {
        let offset = zone.to_offset(at);
        let instant = SignedDuration::from_nanos(1);
        let changed_at = at.checked_add(instant).ok().and_then(|end| zone.preceding(end).next());
        let begin = changed_at.and_then(|change| {
            let at = change.timestamp();
            let before = zone.to_offset(at.checked_sub(instant).ok()?);
            Some(Change { at, shown_before: before.to_datetime(at), shown_after: offset.to_datetime(at) })
        });
        Segment { offset, begin, end: zone.following(at).next().map(|change| change.timestamp()) }
    }

    /// Returns the first fire at or after `cursor`, in this segment or beyond it.
    fn first_fire(&self, cron: &Cron, cursor: Instant) -> Option<Found> {
        let mut from = self.offset.to_datetime(cursor);
        if let Some(change) = self.begin.as_ref().filter(|_| !cron.is_every_hour()) {
            // A matching time inside the gap does not exist on the clock; it runs at the change itself.
            if change.at == cursor && cron.next_local(change.shown_before)? < change.shown_after {
                return Some(Found::At(cursor));
            }
            // In an overlap the clock repeats times that have already run; the search starts after them.
            from = from.max(change.shown_before);
        }
        let local = cron.next_local(from)?;
        let at = self.offset.to_timestamp(local).ok()?;
        match self.end {
            Some(end) if at >= end => Some(Found::NotBefore(end)),
            _ => Some(Found::At(at)),
        }
    }
}
