//! The legal transitions of a task, and which one an outcome leads to.
//!
//! Pure: no clock, no randomness, no I/O. Called by `engine::settle`, for deliveries and jobs alike; nobody else knows
//! what follows an outcome.
//!
//! ```text
//! PENDING ── lease ─► LEASED ── Succeed ─► gone: succeeded      DEAD ── redrive ─► PENDING
//!    ▲                  │ ├──── Die ─────► DEAD (a manual one leaves)
//!    └── RetryIn ───────┘ └──── Cancel ──► gone: cancelled
//! ```

use std::fmt;
use std::time::Duration;

use crate::limits::{CRASHES_MAX, LANE_HOLD_MAX, RECLAIM_JITTER, SNOOZE_MAX};
use crate::outcome::Outcome;
use crate::retry::{Jitter, RetryPolicy};
use crate::task::{Task, Trigger, stored_as};

/// Why a task was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeathCause {
    /// The retry policy is used up.
    AttemptsExhausted,
    /// The receiver answered 410.
    EndpointGone,
    /// It killed its holder too often.
    Poison,
}

/// What follows an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Done; the row leaves.
    Succeed,
    /// Back to pending, due after this.
    RetryIn(Duration),
    /// Given up.
    Die(DeathCause),
    /// Ended on request; the row leaves.
    Cancel,
}

/// How the attempt left its task, kept on the attempt: the state of a delivery or job whose row is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndState {
    /// Not the last attempt.
    Open,
    /// The last one: done.
    Succeeded,
    /// The last one for now: given up.
    Dead,
    /// The last one: cancelled.
    Cancelled,
}

stored_as!(EndState { Open = 0, Succeeded = 1, Dead = 2, Cancelled = 3 });

/// What becomes of the task's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextRow {
    /// It leaves the table.
    Gone,
    /// It waits.
    Pending {
        /// How long until it is due.
        due_in: Duration,
    },
    /// It stays for an operator.
    Dead,
}

/// The whole consequence of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What follows.
    pub verdict: Verdict,
    /// The task's tries from now on.
    pub tries: u32,
    /// The task's crashes from now on.
    pub crashes: u32,
    /// What becomes of the row.
    pub row: NextRow,
    /// What the attempt records of the task.
    pub end: EndState,
    /// Nothing of this lane is to start before this has passed.
    pub hold_lane: Option<Duration>,
    /// The receiver wants no more of this lane: its endpoint is to be disabled, its queue to be paused.
    pub stop_lane: bool,
}

/// Decides what happens to `task` after one attempt ended in `outcome`.
pub fn decide(task: &Task, outcome: Outcome, policy: &RetryPolicy, jitter: Jitter) -> Decision {
    let tries = match outcome {
        // Neither a crash nor a stop is the receiver's doing, and a snooze is no failure: they use no try.
        Outcome::Abandoned | Outcome::Interrupted | Outcome::Cancelled | Outcome::Snoozed { .. } | Outcome::Stopped => {
            task.tries
        }
        Outcome::Success | Outcome::Gone | Outcome::Throttled { .. } | Outcome::Failure { .. } => task.tries + 1,
    };
    let crashes = task.crashes + u32::from(outcome == Outcome::Abandoned);
    let verdict = match outcome {
        Outcome::Success => Verdict::Succeed,
        Outcome::Cancelled => Verdict::Cancel,
        Outcome::Gone => Verdict::Die(DeathCause::EndpointGone),
        _ if task.cancel => Verdict::Cancel,
        Outcome::Abandoned if crashes >= CRASHES_MAX => Verdict::Die(DeathCause::Poison),
        Outcome::Abandoned => Verdict::RetryIn(jitter.share_of(RECLAIM_JITTER)),
        Outcome::Snoozed { wait } => Verdict::RetryIn(wait.min(SNOOZE_MAX)),
        // What stops the lane keeps the task from starting again.
        Outcome::Interrupted | Outcome::Stopped => Verdict::RetryIn(Duration::ZERO),
        Outcome::Throttled { retry_after } | Outcome::Failure { retry_after } => {
            match retry_delay(task, tries, policy, jitter) {
                // A receiver may ask for more patience than our policy has, never for less.
                Some(delay) => Verdict::RetryIn(delay.max(retry_after.unwrap_or_default())),
                None => Verdict::Die(DeathCause::AttemptsExhausted),
            }
        }
    };
    Decision {
        verdict,
        tries,
        crashes,
        row: next_row(task, verdict),
        end: end_state(verdict),
        hold_lane: hold(outcome, verdict),
        stop_lane: matches!(outcome, Outcome::Gone | Outcome::Stopped),
    }
}

fn retry_delay(task: &Task, tries: u32, policy: &RetryPolicy, jitter: Jitter) -> Option<Duration> {
    match task.trigger {
        Trigger::Scheduled => policy.delay(tries, jitter),
        Trigger::Manual => None,
    }
}

fn next_row(task: &Task, verdict: Verdict) -> NextRow {
    match verdict {
        Verdict::Succeed | Verdict::Cancel => NextRow::Gone,
        Verdict::RetryIn(due_in) => NextRow::Pending { due_in },
        // Whoever asked for one manual attempt sees how it ended; there is nothing to redrive.
        Verdict::Die(_) if task.trigger == Trigger::Manual => NextRow::Gone,
        Verdict::Die(_) => NextRow::Dead,
    }
}

fn end_state(verdict: Verdict) -> EndState {
    match verdict {
        Verdict::Succeed => EndState::Succeeded,
        Verdict::RetryIn(_) => EndState::Open,
        Verdict::Die(_) => EndState::Dead,
        Verdict::Cancel => EndState::Cancelled,
    }
}

/// A receiver that is overwhelmed or hangs gets a rest from everything, not only from this task: for as long as it asked, or
/// for a while. The task's own delay is no measure: late in its schedule it is a day, and others may fare better.
fn hold(outcome: Outcome, verdict: Verdict) -> Option<Duration> {
    match (outcome, verdict) {
        (Outcome::Throttled { retry_after: None }, Verdict::RetryIn(delay)) => Some(delay.min(LANE_HOLD_MAX)),
        (Outcome::Throttled { retry_after }, _) => retry_after,
        _ => None,
    }
}

impl fmt::Display for DeathCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DeathCause::AttemptsExhausted => "attempts exhausted",
            DeathCause::EndpointGone => "endpoint gone",
            DeathCause::Poison => "poison",
        })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Succeed => f.write_str("succeed"),
            // To the millisecond: jitter makes it odd.
            Verdict::RetryIn(delay) => {
                write!(f, "retry in {:?}", *delay - Duration::from_nanos(u64::from(delay.subsec_nanos() % 1_000_000)))
            }
            Verdict::Die(cause) => write!(f, "die: {cause}"),
            Verdict::Cancel => f.write_str("cancel"),
        }
    }
}

#[cfg(test)]
mod tests;
