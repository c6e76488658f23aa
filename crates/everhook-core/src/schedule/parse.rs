//! Parses cron expressions, and reports the position of an error.
//!
//! A field is a list of `*`, values and ranges, each with an optional step: `*/15`, `1-5`, `9-17/2`, `MON,WED`, `5/10`
//! (from 5 to the end). Months and days of the week have names, in any case; Sunday is 0, 7 and SUN. Nicknames:
//! `@hourly`, `@daily` and `@midnight`, `@weekly`, `@monthly`, `@yearly` and `@annually`. Expressions that never match,
//! such as 30 February, and characters of other dialects (`L`, `W`, `#`, `?`) are refused.

use std::fmt;
use std::str::FromStr;

use crate::limits::CRON_BYTES_MAX;
use crate::schedule::cron::{Cron, DayRule, Days, Set};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CronField {
    /// 0 to 59; only with six fields.
    Second,
    Minute,
    Hour,
    DayOfMonth,
    /// 1 to 12, or JAN to DEC.
    Month,
    /// 0 to 7, or SUN to SAT.
    DayOfWeek,
}

/// An error with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadCron {
    /// The field and its number, counted from 1; `None` if the whole expression is wrong.
    pub field: Option<(usize, CronField)>,
    /// Byte offset in the text.
    pub offset: usize,
    /// Character position in the text, counted from 1.
    pub column: usize,
    pub problem: CronProblem,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CronProblem {
    #[error("the expression is empty")]
    Empty,
    #[error("the expression has more than {CRON_BYTES_MAX} bytes")]
    TooLong,
    #[error("unknown nickname, expected @hourly, @daily, @midnight, @weekly, @monthly or @yearly")]
    UnknownNickname,
    #[error("the expression has {0} fields, expected 5, or 6 with seconds first")]
    FieldCount(usize),
    #[error("expected {0}")]
    Expected(&'static str),
    #[error("unknown name {0:?}")]
    UnknownName(String),
    #[error("{value} is out of range, {min} to {max}")]
    OutOfRange { value: u32, min: u8, max: u8 },
    #[error("the range runs backwards, from {from} to {to}")]
    Backwards { from: u8, to: u8 },
    #[error("a step must be at least 1")]
    ZeroStep,
    #[error("unexpected {0:?}")]
    Unexpected(char),
    #[error("the expression never runs: none of these months has such a day")]
    Never,
}

const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
/// Longest length of each month.
const MONTH_DAYS: [u8; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

use CronField::{DayOfMonth, DayOfWeek, Hour, Minute, Month, Second};

const FIELDS: [CronField; 6] = [Second, Minute, Hour, DayOfMonth, Month, DayOfWeek];

impl FromStr for Cron {
    type Err = BadCron;

    fn from_str(text: &str) -> Result<Cron, BadCron> {
        let whole = |offset, problem| BadCron::new(text, None, offset, problem);
        if text.len() > CRON_BYTES_MAX {
            return Err(whole(0, CronProblem::TooLong));
        }
        let trimmed = text.trim_ascii();
        let begin = text.len() - text.trim_ascii_start().len();
        if trimmed.is_empty() {
            return Err(whole(0, CronProblem::Empty));
        }
        if trimmed.starts_with('@') {
            let fields = nickname(trimmed).ok_or_else(|| whole(begin, CronProblem::UnknownNickname))?;
            let cron: Cron = fields.parse()?;
            return Ok(Cron { text: trimmed.to_owned(), ..cron });
        }
        let found: Vec<(usize, &str)> = words(text).collect();
        let kinds = match found.len() {
            5 => &FIELDS[1..],
            6 => &FIELDS[..],
            count => {
                // The error points behind the last word, or at the first surplus word.
                let offset = found.get(6).map_or(begin + trimmed.len(), |(offset, _)| *offset);
                return Err(whole(offset, CronProblem::FieldCount(count)));
            }
        };
        let mut fields = Vec::with_capacity(kinds.len());
        for (number, ((offset, word), kind)) in found.iter().zip(kinds).enumerate() {
            let place = (number + 1, *kind);
            fields.push(
                Reader { word, at: 0, field: *kind }
                    .read()
                    .map_err(|(at, problem)| BadCron::new(text, Some(place), offset + at, problem))?,
            );
        }
        build(trimmed, &fields).ok_or_else(|| {
            let number = kinds.len() - 2;
            BadCron::new(text, Some((number, DayOfMonth)), found[number - 1].0, CronProblem::Never)
        })
    }
}

/// Returns `None` if the expression never matches.
fn build(text: &str, fields: &[Field]) -> Option<Cron> {
    let (seconds, rest) = match fields {
        [seconds, rest @ ..] if fields.len() == 6 => (seconds.set, rest),
        rest => (only(0), rest),
    };
    let [minutes, hours, of_month, months, of_week] = rest else { return None };
    let rule = if of_month.starred || of_week.starred { DayRule::Both } else { DayRule::Either };
    let days = Days { of_month: of_month.set, of_week: of_week.set, rule };
    let shortest = days.of_month.next(0)?;
    let exists = (1..=12).any(|month| months.set.contains(month) && MONTH_DAYS[usize::from(month - 1)] >= shortest);
    // Every weekday occurs on every date within the calendar's cycle, so only days of the month can be impossible.
    if rule == DayRule::Both && !exists {
        return None;
    }
    Some(Cron { text: text.to_owned(), seconds, minutes: minutes.set, hours: hours.set, days, months: months.set })
}

fn nickname(text: &str) -> Option<&'static str> {
    let known = [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
    ];
    known.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, fields)| *fields)
}

/// Returns the words of a text with their byte offsets.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut next = 0;
    let split = text.split(|char: char| char.is_ascii_whitespace()).map(move |word| {
        let at = next;
        next += word.len() + 1;
        (at, word)
    });
    split.filter(|(_, word)| !word.is_empty())
}

fn only(value: u8) -> Set {
    let mut set = Set::EMPTY;
    set.insert(value);
    set
}

struct Field {
    set: Set,
    /// The field starts with `*`.
    starred: bool,
}

/// Parser of one field. Errors carry the byte offset within the field.
struct Reader<'a> {
    word: &'a str,
    at: usize,
    field: CronField,
}

type Failure = (usize, CronProblem);

impl Reader<'_> {
    fn read(mut self) -> Result<Field, Failure> {
        let mut set = self.item()?;
        while self.take(b',') {
            set = set.union(self.item()?);
        }
        match self.word[self.at..].chars().next() {
            None => Ok(Field { set, starred: self.word.starts_with('*') }),
            Some(char) => Err((self.at, CronProblem::Unexpected(char))),
        }
    }

    /// Parses `*`, a value or a range, with an optional step.
    fn item(&mut self) -> Result<Set, Failure> {
        let (min, max) = self.field.bounds();
        let begin = self.at;
        // `last` bounds a step: `5/10` has no end of its own and runs to the maximum.
        let (from, to, last) = if self.take(b'*') {
            (min, max, max)
        } else {
            let from = self.value()?;
            if self.take(b'-') {
                let to = self.range_end(begin, from)?;
                (from, to, to)
            } else {
                (from, from, max)
            }
        };
        let (to, step) = if self.take(b'/') { (last, self.step()?) } else { (to, 1) };
        let mut set = Set::EMPTY;
        for value in (from..=to).step_by(step) {
            // Sunday is both 0 and 7.
            set.insert(if self.field == DayOfWeek { value % 7 } else { value });
        }
        Ok(set)
    }

    fn range_end(&mut self, begin: usize, from: u8) -> Result<u8, Failure> {
        let to = match self.value()? {
            // `FRI-SUN` ends on Sunday, which is 7 here.
            0 if self.field == DayOfWeek && from > 0 => 7,
            to => to,
        };
        if to < from { Err((begin, CronProblem::Backwards { from, to })) } else { Ok(to) }
    }

    fn value(&mut self) -> Result<u8, Failure> {
        let begin = self.at;
        let (min, max) = self.field.bounds();
        if let Some(number) = self.number() {
            let value = u8::try_from(number).ok().filter(|value| (min..=max).contains(value));
            return value.ok_or((begin, CronProblem::OutOfRange { value: number, min, max }));
        }
        let word = self.word_at();
        if word.is_empty() {
            return Err((begin, CronProblem::Expected(self.field.expectation())));
        }
        self.at += word.len();
        let named = self.field.names().iter().position(|name| name.eq_ignore_ascii_case(&word));
        let named = named.and_then(|place| u8::try_from(place).ok()).map(|place| place + min);
        named.ok_or((begin, CronProblem::UnknownName(word)))
    }

    fn step(&mut self) -> Result<usize, Failure> {
        let begin = self.at;
        match self.number() {
            None => Err((begin, CronProblem::Expected("a number as the step"))),
            Some(0) => Err((begin, CronProblem::ZeroStep)),
            Some(step) => Ok(usize::try_from(step).unwrap_or(usize::MAX)),
        }
    }

    /// Parses digits, if any. Numbers that overflow stay out of range.
    fn number(&mut self) -> Option<u32> {
        let rest = &self.word[self.at..];
        let digits = &rest[..rest.bytes().take_while(u8::is_ascii_digit).count()];
        self.at += digits.len();
        if digits.is_empty() { None } else { Some(digits.parse().unwrap_or(u32::MAX)) }
    }

    fn word_at(&self) -> String {
        self.word[self.at..].chars().take_while(char::is_ascii_alphabetic).collect()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.word.as_bytes().get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }
}

impl CronField {
    const fn bounds(self) -> (u8, u8) {
        match self {
            Second | Minute => (0, 59),
            Hour => (0, 23),
            DayOfMonth => (1, 31),
            Month => (1, 12),
            DayOfWeek => (0, 7),
        }
    }

    const fn names(self) -> &'static [&'static str] {
        match self {
            Month => &MONTHS,
            DayOfWeek => &WEEKDAYS,
            Second | Minute | Hour | DayOfMonth => &[],
        }
    }

    const fn expectation(self) -> &'static str {
        match self {
            Month | DayOfWeek => "a number, a name or *",
            Second | Minute | Hour | DayOfMonth => "a number or *",
        }
    }
}

impl fmt::Display for CronField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Second => "second",
            Minute => "minute",
            Hour => "hour",
            DayOfMonth => "day of month",
            Month => "month",
            DayOfWeek => "day of week",
        })
    }
}

impl BadCron {
    fn new(text: &str, field: Option<(usize, CronField)>, offset: usize, problem: CronProblem) -> BadCron {
        let column = text.char_indices().take_while(|(at, _)| *at < offset).count() + 1;
        BadCron { field, offset, column, problem }
    }
}

impl fmt::Display for BadCron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("invalid cron at ")?;
        if let Some((number, field)) = self.field {
            write!(f, "field {number} ({field}), ")?;
        }
        write!(f, "column {}: {}", self.column, self.problem)
    }
}

impl std::error::Error for BadCron {}

#[cfg(test)]
mod tests;
