//! Schedules: their rules, and the times of their runs.
//!
//! Pure, so that every replica computes the same times. `schedule::fire` decides which runs start now. A store applies
//! the decision in one transaction with compare-and-set, so no leader is needed.
//!
//! *Nominal* is the time by cron or interval; *due* is the nominal time plus jitter. History, names and overlap use
//! nominal times.

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

/// The rules of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Also the seed of its jitter.
    pub id: ScheduleId,
    pub cadence: Cadence,
    /// No nominal time is earlier.
    pub starts_at: Option<Timestamp>,
    /// No nominal time is at or after this.
    pub ends_at: Option<Timestamp>,
    /// Each run is delayed by a part of this, which depends only on schedule and nominal time.
    pub jitter: Duration,
    pub overlap: Overlap,
    pub missed: Missed,
    /// A run started later than this after its due time counts as missed.
    pub grace: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cadence {
    /// Wall-clock times in a zone.
    Cron { cron: Cron, zone: Zone },
    Every {
        /// The interval, in whole seconds.
        every: Duration,
        /// Origin of the grid: the start of the schedule, else its creation. Stored, so that all replicas share it.
        anchor: Timestamp,
    },
}

/// Policy for a run that is due while the previous run is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Overlap {
    /// Start the new run beside it.
    #[default]
    Allow,
    /// Drop the run that is due.
    Skip,
    /// Start after the previous run has ended. At most one run waits; further runs are dropped.
    QueueOne,
}

stored_as!(Overlap { Allow = 0, Skip = 1, QueueOne = 2 });

/// Policy for runs that no node started in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Missed {
    /// Drop all missed runs.
    Skip,
    /// Start one run for all of them. A run that is due now counts as that run.
    #[default]
    RunOnce,
    /// Start the latest ones, at most this many.
    CatchUp(u32),
}

impl Missed {
    /// Returns the policy and its count, as the stores keep them.
    pub const fn to_db(self) -> (i16, u32) {
        match self {
            Missed::Skip => (0, 0),
            Missed::RunOnce => (1, 0),
            Missed::CatchUp(count) => (2, count),
        }
    }

    pub const fn from_db(which: i16, count: u32) -> Option<Missed> {
        match which {
            0 => Some(Missed::Skip),
            1 => Some(Missed::RunOnce),
            2 => Some(Missed::CatchUp(count)),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSchedule {
    #[error("interval must be {} to {} whole seconds", SCHEDULE_EVERY_MIN.as_secs(), SCHEDULE_EVERY_MAX.as_secs())]
    Every,
    #[error("jitter must be at most {} seconds", SCHEDULE_JITTER_MAX.as_secs())]
    Jitter,
    #[error("grace must be at most {} seconds", SCHEDULE_GRACE_MAX.as_secs())]
    Grace,
    #[error("catch-up must be 1 to {SCHEDULE_CATCH_UP_MAX} missed runs")]
    CatchUp,
    #[error("endsAt must be after startsAt")]
    Ends,
}

impl Schedule {
    /// A schedule with default policies.
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

    /// Returns the first nominal time after `after`, or `None` if the schedule has ended.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let before_start = self.starts_at.map(|at| Timestamp::from_micros(at.as_micros().saturating_sub(1)));
        let after = before_start.map_or(after, |start| after.max(start));
        let next = match &self.cadence {
            Cadence::Cron { cron, zone } => zone::next_after(cron, zone, after)?,
            Cadence::Every { every, anchor } => next_on_grid(micros(*every), anchor.as_micros(), after.as_micros())?,
        };
        self.ends_at.is_none_or(|end| next < end).then_some(next)
    }

    pub fn upcoming(&self, after: Timestamp, count: usize) -> Vec<Timestamp> {
        std::iter::successors(self.next_after(after), |at| self.next_after(*at)).take(count).collect()
    }

    /// Returns the due time of a run. Jitter is cut so that it stays before the next nominal time: runs never change
    /// order.
    pub fn due_at(&self, nominal: Timestamp) -> Timestamp {
        if self.jitter.is_zero() {
            return nominal;
        }
        let room = self.next_after(nominal).map_or(self.jitter, |next| next.since(nominal).min(self.jitter));
        nominal.plus(draw(self.id, nominal).share_of(room))
    }
}

/// Returns the first point of the grid after `after`. The grid starts at its anchor.
fn next_on_grid(every: i64, anchor: i64, after: i64) -> Option<Timestamp> {
    if every <= 0 {
        return None;
    }
    let passed = i128::from(after) - i128::from(anchor);
    let steps = if passed < 0 { 0 } else { passed / i128::from(every) + 1 };
    let at = i128::from(anchor) + steps * i128::from(every);
    i64::try_from(at).ok().map(Timestamp::from_micros).filter(|at| *at < Timestamp::NEVER)
}

/// Draws the jitter of one run. Every replica computes the same number.
fn draw(id: ScheduleId, nominal: Timestamp) -> Jitter {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(id.as_bytes());
    context.update(&nominal.as_micros().to_be_bytes());
    Jitter::from_bits(u64::from_be_bytes(*context.finish().as_ref().first_chunk().expect("SHA-256 has 32 bytes")))
}

#[cfg(test)]
mod tests;
