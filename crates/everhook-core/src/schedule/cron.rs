//! What a cron expression admits: local dates and times, in no time zone.
//!
//! Five fields (minute, hour, day of month, month, day of week) or six, with seconds first. `schedule::parse` makes these from
//! text; `schedule::zone` puts the local times on the time line. Nothing here knows of instants or of clocks that are changed.
//!
//! **The two day fields.** Where neither of them begins with `*`, a day is admitted if it matches *either*: `0 0 13 * FRI` runs on
//! every 13th and on every Friday. Where one begins with `*`, a day has to match both, which for a plain `*` means: only the other
//! counts. That is what cron has always done, and what crontabs that are moved here expect.

use jiff::civil::{Date, DateTime, Time};

use crate::limits::CRON_YEARS_MAX;

/// A cron expression that fires now and then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    pub(super) text: String,
    pub(super) seconds: Set,
    pub(super) minutes: Set,
    pub(super) hours: Set,
    pub(super) days: Days,
    pub(super) months: Set,
}

/// The two day fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Days {
    /// Days of the month, from 1.
    pub(super) of_month: Set,
    /// Days of the week, Sunday is 0.
    pub(super) of_week: Set,
    /// How the two go together.
    pub(super) rule: DayRule,
}

/// How the two day fields go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DayRule {
    /// Both are restricted: one match is enough.
    Either,
    /// One of them begins with `*`.
    Both,
}

/// The values a field admits, all below 64.
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

    /// The smallest value that is not below `least`.
    pub(super) fn next(self, least: u8) -> Option<u8> {
        let rest = self.0 & (u64::MAX << least);
        (rest != 0).then_some(rest.trailing_zeros() as u8)
    }
}

impl Cron {
    /// The text it was made from.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it admits every hour of the day: such a schedule follows the time that passes, not the one on the clock.
    pub fn is_every_hour(&self) -> bool {
        (0..24).all(|hour| self.hours.contains(hour))
    }

    /// The first admitted local time that is not before `from`, which has whole seconds. None only at the end of the calendar.
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
    /// Whether it admits this local time, field by field.
    pub(super) fn admits(&self, at: DateTime) -> bool {
        self.admits_date(at.date())
            && self.hours.contains(at.hour() as u8)
            && self.minutes.contains(at.minute() as u8)
            && self.seconds.contains(at.second() as u8)
    }
}
