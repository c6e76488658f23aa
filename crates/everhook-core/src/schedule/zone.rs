//! Time zones, and when a cron expression fires on the time line of one.
//!
//! The data of the zones is compiled in: a container without them works, and replicas on different machines agree. They are new
//! with every build, never by an update of the system.
//!
//! **When clocks are changed.** An expression that names hours (`30 2 * * *`, `0 */2 * * *`) means times on the clock: what falls into
//! the gap when clocks go forward runs once, at the first instant after it, and what comes twice when they go back runs the first time only.
//! One that admits every hour (`0 * * * *`, `*/15 * * * *`) means time that passes: it runs whenever the clock shows an admitted time,
//! both times in an overlap, and nothing is made up after a gap. Otherwise "every 15 minutes" would be silent for an hour in
//! autumn.

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp as Instant};

use crate::limits::CRON_SEGMENTS_MAX;
use crate::schedule::cron::Cron;
use crate::time::Timestamp;

/// A time zone by its IANA name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(TimeZone);

/// There is no such time zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown time zone {0:?}, expected an IANA name such as \"Europe/Berlin\"")]
pub struct BadZone(pub String);

impl Zone {
    /// The zone that never changes its clocks.
    pub const UTC: Zone = Zone(TimeZone::UTC);

    /// The name.
    pub fn as_str(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// What the clocks of the zone show at an instant.
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

/// The first time after `after` at which `cron` fires on the clocks of `zone`. None only at the end of the calendar.
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

/// A part of the time line on which the clocks of a zone run evenly.
struct Segment {
    offset: Offset,
    /// The change it began with; none if the zone never changed its clocks before.
    begin: Option<Change>,
    end: Option<Instant>,
}

/// What a segment says of the next fire.
enum Found {
    /// It is here.
    At(Instant),
    /// It is not in this segment, which ends here.
    NotBefore(Instant),
}

/// A change of the clocks.
struct Change {
    at: Instant,
    /// What the clocks would have shown had they not been changed.
    shown_before: DateTime,
    /// What they show instead.
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

    /// The first fire from `cursor` on, in this segment or beyond it.
    fn first_fire(&self, cron: &Cron, cursor: Instant) -> Option<Found> {
        let mut from = self.offset.to_datetime(cursor);
        if let Some(change) = self.begin.as_ref().filter(|_| !cron.is_every_hour()) {
            if change.at == cursor && cron.next_local(change.shown_before)? < change.shown_after {
                return Some(Found::At(cursor));
            }
            // In an overlap the clocks show again what they have shown.
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
