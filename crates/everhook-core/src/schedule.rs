//! Schedules: what one is, and when it runs.
//!
//! Pure: a time comes in and times go out, so that every replica computes the same. `schedule::fire` decides what is to be done now;
//! a store applies that in one transaction with compare-and-set, which is why there is no leader. *Nominal* is the time by cron or interval;
//! *due* is the nominal time with jitter. History, names and overlap are counted in nominal times.

use std::time::Duration;

use aws_lc_rs::digest;

use crate::id::ScheduleId;
use crate::limits::{
    SCHEDULE_CATCH_UP_MAX, SCHEDULE_EVERY_MAX, SCHEDULE_EVERY_MIN, SCHEDULE_GRACE_DEFAULT, SCHEDULE_GRACE_MAX,
    SCHEDULE_JITTER_MAX,
};
use crate::retry::Jitter;
use crate::schedule::cron::Cron;
use crate::schedule::zone::Zone;
use crate::task::stored_as;
use crate::time::{Timestamp, micros};

pub mod cron;
pub mod fire;
pub mod parse;
pub mod zone;

/// When a schedule runs, and what it does when that does not work out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Its id: what its jitter is drawn from.
    pub id: ScheduleId,
    /// The rhythm.
    pub cadence: Cadence,
    /// Nothing is nominal before this.
    pub starts_at: Option<Timestamp>,
    /// Nothing is nominal at this or later.
    pub ends_at: Option<Timestamp>,
    /// Each run is late by a share of this, which depends on the schedule and the nominal time alone.
    pub jitter: Duration,
    /// What to do while the run before is still open.
    pub overlap: Overlap,
    /// What to do about runs that nobody started in time.
    pub missed: Missed,
    /// How late "in time" may be.
    pub grace: Duration,
}

/// The rhythm of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cadence {
    /// By the clocks of a zone.
    Cron {
        /// Which times.
        cron: Cron,
        /// On whose clocks.
        zone: Zone,
    },
    /// By time that passes.
    Every {
        /// The interval, in whole seconds.
        every: Duration,
        /// Where the grid begins: the start of the schedule, or else when it was created. All replicas have the same.
        anchor: Timestamp,
    },
}

/// What to do while the run before is still open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Overlap {
    /// Run beside it.
    #[default]
    Allow,
    /// Leave this run out.
    Skip,
    /// Run when it has ended; one run waits at most, further ones are left out.
    QueueOne,
}

stored_as!(Overlap { Allow = 0, Skip = 1, QueueOne = 2 });

/// What to do about runs that nobody started in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Missed {
    /// Leave them out.
    Skip,
    /// One run for all of them; the one that is due now will do.
    #[default]
    RunOnce,
    /// Make up for the latest ones, at most this many.
    CatchUp(u32),
}

impl Missed {
    /// The two numbers the stores keep: which, and how many.
    pub const fn to_db(self) -> (i16, u32) {
        match self {
            Missed::Skip => (0, 0),
            Missed::RunOnce => (1, 0),
            Missed::CatchUp(count) => (2, count),
        }
    }

    /// Reads the two numbers the stores keep.
    pub const fn from_db(which: i16, count: u32) -> Option<Missed> {
        match which {
            0 => Some(Missed::Skip),
            1 => Some(Missed::RunOnce),
            2 => Some(Missed::CatchUp(count)),
            _ => None,
        }
    }
}

/// A schedule that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSchedule {
    /// An interval that is too short, too long or not whole.
    #[error("an interval must be {} to {} whole seconds", SCHEDULE_EVERY_MIN.as_secs(), SCHEDULE_EVERY_MAX.as_secs())]
    Every,
    /// Jitter over its limit.
    #[error("jitter must be at most {} seconds", SCHEDULE_JITTER_MAX.as_secs())]
    Jitter,
    /// Grace over its limit.
    #[error("grace must be at most {} seconds", SCHEDULE_GRACE_MAX.as_secs())]
    Grace,
    /// Too many runs at once, or none.
    #[error("1 to {SCHEDULE_CATCH_UP_MAX} missed runs can be made up for")]
    CatchUp,
    /// The end is not after the start.
    #[error("a schedule must end after it starts")]
    Ends,
}

impl Schedule {
    /// A schedule with this rhythm and nothing special about it.
    pub fn new(id: ScheduleId, cadence: Cadence) -> Schedule {
        Schedule {
            id,
            cadence,
            starts_at: None,
            ends_at: None,
            jitter: Duration::ZERO,
            overlap: Overlap::default(),
            missed: Missed::default(),
            grace: SCHEDULE_GRACE_DEFAULT,
        }
    }

    /// Accepts a schedule whose numbers are within their limits.
    pub fn check(&self) -> Result<(), BadSchedule> {
        if let Cadence::Every { every, .. } = self.cadence
            && (every < SCHEDULE_EVERY_MIN || every > SCHEDULE_EVERY_MAX || every.subsec_nanos() != 0)
        {
            return Err(BadSchedule::Every);
        }
        if self.jitter > SCHEDULE_JITTER_MAX {
            return Err(BadSchedule::Jitter);
        }
        if self.grace > SCHEDULE_GRACE_MAX {
            return Err(BadSchedule::Grace);
        }
        if let Missed::CatchUp(count) = self.missed
            && !(1..=SCHEDULE_CATCH_UP_MAX).contains(&count)
        {
            return Err(BadSchedule::CatchUp);
        }
        match (self.starts_at, self.ends_at) {
            (Some(starts_at), Some(ends_at)) if ends_at <= starts_at => Err(BadSchedule::Ends),
            _ => Ok(()),
        }
    }

    /// The first nominal time after `after`; none if the schedule has ended.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let before_start = self.starts_at.map(|at| Timestamp::from_micros(at.as_micros().saturating_sub(1)));
        let after = before_start.map_or(after, |start| after.max(start));
        let next = match &self.cadence {
            Cadence::Cron { cron, zone } => zone::next_after(cron, zone, after)?,
            Cadence::Every { every, anchor } => next_on_grid(micros(*every), anchor.as_micros(), after.as_micros())?,
        };
        self.ends_at.is_none_or(|end| next < end).then_some(next)
    }

    /// The next `count` nominal times.
    pub fn upcoming(&self, after: Timestamp, count: usize) -> Vec<Timestamp> {
        std::iter::successors(self.next_after(after), |at| self.next_after(*at)).take(count).collect()
    }

    /// When the run of a nominal time is due: always before the next nominal time, so that jitter changes no order.
    pub fn due_at(&self, nominal: Timestamp) -> Timestamp {
        if self.jitter.is_zero() {
            return nominal;
        }
        let room = self.next_after(nominal).map_or(self.jitter, |next| next.since(nominal).min(self.jitter));
        nominal.plus(draw(self.id, nominal).share_of(room))
    }
}

/// The first point of the grid after `after`. The grid begins at its anchor.
fn next_on_grid(every: i64, anchor: i64, after: i64) -> Option<Timestamp> {
    if every <= 0 {
        return None;
    }
    let passed = i128::from(after) - i128::from(anchor);
    let steps = if passed < 0 { 0 } else { passed / i128::from(every) + 1 };
    let at = i128::from(anchor) + steps * i128::from(every);
    i64::try_from(at).ok().map(Timestamp::from_micros).filter(|at| *at < Timestamp::NEVER)
}

/// The same number on every replica, another one for every run.
fn draw(id: ScheduleId, nominal: Timestamp) -> Jitter {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(id.as_bytes());
    context.update(&nominal.as_micros().to_be_bytes());
    Jitter::from_bits(u64::from_be_bytes(*context.finish().as_ref().first_chunk().expect("SHA-256 has 32 bytes")))
}

#[cfg(test)]
mod tests;
