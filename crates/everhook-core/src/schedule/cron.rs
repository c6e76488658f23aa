//! Cron expressions: the local dates and times that one matches, without a time zone.
//!
//! Five fields (minute, hour, day of month, month, day of week) or six, with seconds first. `schedule::parse` reads
//! them from text; `schedule::zone` maps local times to instants. Nothing here knows instants or clock changes.
//!
//! **The two day fields.** If neither starts with `*`, a day matches if *either* field matches: `0 0 13 * FRI` runs on
//! every 13th and on every Friday. If one starts with `*`, both fields have to match, so with a plain `*` only the
//! other field counts. Vixie cron does the same, and migrated crontabs rely on it.

use jiff::civil::{Date, DateTime, Time};

use crate::limits::CRON_YEARS_MAX;

/// A valid expression that matches at least one date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    pub(super) text: String,
    pub(super) seconds: Set,
    pub(super) minutes: Set,
    pub(super) hours: Set,
    pub(super) days: Days,
    pub(super) months: Set,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Days {
    /// Days of the month, from 1.
    pub(super) of_month: Set,
    /// Days of the week; Sunday is 0.
    pub(super) of_week: Set,
    pub(super) rule: DayRule,
}

/// How the two day fields combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DayRule {
    /// Both fields are restricted: one match is enough.
    Either,
    /// One field starts with `*`: both have to match.
    Both,
}

/// A set of values below 64, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Set(u64);

impl Set {
    pub(super) const EMPTY: Set = Set(0);

    pub(super) fn insert(&mut self, value: u8) {
        self.0 |= 1 << value;
    }

    pub(super) fn contains(self, value: u8) -> bool {
        self.0 >> value & 1 == 1
    }

    pub(super) fn union(self, other: Set) -> Set {
        Set(self.0 | other.0)
    }

    /// Returns the smallest value that is at least `least`.
    pub(super) fn next(self, least: u8) -> Option<u8> {
        let rest = self.0 & (u64::MAX << least);
        (rest != 0).then_some(rest.trailing_zeros() as u8)
    }
}

impl Cron {
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether every hour matches. Such a schedule follows elapsed time, not the wall clock.
    pub fn is_every_hour(&self) -> bool {
        (0..24).all(|hour| self.hours.contains(hour))
    }

    /// Returns the first matching local time at or after `from`, which has whole seconds. `None` only at the end of the
    /// calendar.
    pub(super) fn next_local(&self, from: DateTime) -> Option<DateTime> {
        if self.admits_date(from.date())
            && let Some(time) = self.next_time(from.time())
        {
            return Some(from.date().to_datetime(time));
        }
        let date = self.next_date(from.date().tomorrow().ok()?)?;
        Some(date.to_datetime(self.next_time(Time::midnight())?))
    }

    fn admits_date(&self, date: Date) -> bool {
        self.months.contains(date.month() as u8) && self.days.admit(date)
    }

    fn next_date(&self, from: Date) -> Option<Date> {
        let mut date = from;
        while date.year() <= from.year() + CRON_YEARS_MAX {
            if self.admits_date(date) {
                return Some(date);
            }
            let month_is_over = !self.months.contains(date.month() as u8);
            date = if month_is_over { date.last_of_month() } else { date }.tomorrow().ok()?;
        }
        None
    }

    fn next_time(&self, from: Time) -> Option<Time> {
        let (hour, minute, second) = (from.hour() as u8, from.minute() as u8, from.second() as u8);
        let (first_minute, first_second) = (self.minutes.next(0)?, self.seconds.next(0)?);
        let this_minute = || Some((hour, minute, self.seconds.next(second)?));
        let this_hour = || Some((hour, self.minutes.next(minute + 1)?, first_second));
        let in_minute = if self.minutes.contains(minute) { this_minute() } else { None };
        let in_hour = if self.hours.contains(hour) { in_minute.or_else(this_hour) } else { None };
        let later = || Some((self.hours.next(hour + 1)?, first_minute, first_second));
        let (hour, minute, second) = in_hour.or_else(later)?;
        Time::new(hour as i8, minute as i8, second as i8, 0).ok()
    }
}

impl Days {
    fn admit(self, date: Date) -> bool {
        let of_month = self.of_month.contains(date.day() as u8);
        let of_week = self.of_week.contains(date.weekday().to_sunday_zero_offset() as u8);
        match self.rule {
            DayRule::Either => of_month || of_week,
            DayRule::Both => of_month && of_week,
        }
    }
}

#[cfg(test)]
impl Cron {
    /// Whether the local time matches, field by field.
    pub(super) fn admits(&self, at: DateTime) -> bool {
        self.admits_date(at.date())
            && self.hours.contains(at.hour() as u8)
            && self.minutes.contains(at.minute() as u8)
            && self.seconds.contains(at.second() as u8)
    }
}
