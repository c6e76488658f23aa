//! The transitions of a task, and the one that an outcome leads to.
//!
//! Pure: no clock, no randomness, no I/O. `engine::settle` calls it for deliveries and jobs alike. No other code
//! decides what follows an outcome.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeathCause {
    /// The retry policy has no attempts left.
    AttemptsExhausted,
    EndpointGone,
    /// The receiver wants no further attempt of this delivery.
    Aborted,
    /// The policy allows no further attempt after this status.
    Rejected,
    /// Too many holders crashed while running the task.
    Poison,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The task row is deleted.
    Succeed,
    /// The task is pending again, due after this time.
    RetryIn(Duration),
    /// The row stays as dead, except for a manual attempt.
    Die(DeathCause),
    /// Ended by request; the row is deleted.
    Cancel,
}

/// The state of the task after the attempt, recorded with the attempt: the final state of a delivery or job whose task
/// row is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndState {
    /// The task stays: another attempt follows.
    Open,
    Succeeded,
    /// The task is dead until a redrive.
    Dead,
    Cancelled,
}

stored_as!(EndState { Open = 0, Succeeded = 1, Dead = 2, Cancelled = 3 });

/// The new state of the task row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextRow {
    Gone,
    Pending {
        due_in: Duration,
    },
    /// The row stays until an operator redrives or deletes the task.
    Dead,
}

/// All consequences of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    pub verdict: Verdict,
    /// New number of tries of the task.
    pub tries: u32,
    /// New number of crashes of the task.
    pub crashes: u32,
    pub row: NextRow,
    pub end: EndState,
    /// The whole lane starts no task before this time has passed.
    pub hold_lane: Option<Duration>,
    /// The receiver refuses the whole lane: disable its endpoint, or pause its queue.
    pub stop_lane: bool,
}

/// Decides the consequences for `task` after one attempt ended in `outcome`.
pub fn decide(task: &Task, outcome: Outcome, policy: &RetryPolicy, jitter: Jitter) -> Decision {
    let tries = match outcome {
        // Crashes and interruptions are not the receiver's fault, and a snooze is no failure: none of them uses a try.
        Outcome::Abandoned | Outcome::Interrupted | Outcome::Cancelled | Outcome::Snoozed { .. } | Outcome::Stopped => {
            task.tries
        }
        Outcome::Success
        | Outcome::LastSuccess
        | Outcome::Gone
        | Outcome::Aborted
        | Outcome::Rejected
        | Outcome::Throttled { .. }
        | Outcome::Failure { .. } => task.tries + 1,
    };
    let crashes = task.crashes + u32::from(outcome == Outcome::Abandoned);
    let verdict = match outcome {
        Outcome::Success | Outcome::LastSuccess => Verdict::Succeed,
        Outcome::Cancelled => Verdict::Cancel,
        Outcome::Gone => Verdict::Die(DeathCause::EndpointGone),
        Outcome::Aborted => Verdict::Die(DeathCause::Aborted),
        Outcome::Rejected => Verdict::Die(DeathCause::Rejected),
        // A cancel request outranks retries and poison, but not a result: finished work stays finished.
        _ if task.cancel => Verdict::Cancel,
        Outcome::Abandoned if crashes >= CRASHES_MAX => Verdict::Die(DeathCause::Poison),
        // One crash frees many tasks at once. Jitter keeps them from starting at the same instant.
        Outcome::Abandoned => Verdict::RetryIn(jitter.share_of(RECLAIM_JITTER)),
        Outcome::Snoozed { wait } => Verdict::RetryIn(wait.min(SNOOZE_MAX)),
        // Another node may start an interrupted task at once. A stopped lane keeps its tasks from starting anyway.
        Outcome::Interrupted | Outcome::Stopped => Verdict::RetryIn(Duration::ZERO),
        Outcome::Throttled { retry_after } | Outcome::Failure { retry_after } => {
            match retry_delay(task, tries, policy, jitter) {
                // A receiver may ask for a longer delay than the policy has, never for a shorter one.
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
        stop_lane: matches!(outcome, Outcome::Gone | Outcome::LastSuccess | Outcome::Stopped),
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
        // The caller of a manual attempt sees its result and can repeat it, so no dead task is kept.
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

/// Holds the lane of an overloaded or hanging receiver, because its other tasks would fail, too. Without `Retry-After`
/// the hold is capped: late in the schedule the task's own delay is a day, but other tasks may succeed sooner.
/// Deliveries without `Retry-After` do not come here: their lanes slow down by a window (`dispatch::health`).
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
            DeathCause::Aborted => "aborted by the receiver",
            DeathCause::Rejected => "rejected by the receiver",
            DeathCause::Poison => "poison",
        })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Succeed => f.write_str("succeed"),
            // Milliseconds are enough: jitter makes the rest noise.
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
