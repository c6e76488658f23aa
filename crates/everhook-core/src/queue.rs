//! Queues of jobs: state, limits, rate and push target.
//!
//! A queue needs no set-up: without configuration it is open and unlimited. A lease from a limited queue locks the
//! queue's row, counts the leased jobs and asks here how many more are allowed.

use std::time::Duration;

use crate::id::{EnvironmentId, Id};
use crate::job;
use crate::limits::{QUEUE_LIMIT_MAX, QUEUE_RATE_MAX};
use crate::name::Name;
use crate::signing::SigningKeys;
use crate::task::stored_as;
use crate::time::{Timestamp, micros};

/// The configuration of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    pub name: Name,
    pub state: QueueState,
    /// Limit of leased jobs, across all workers.
    pub limit: Option<u32>,
    /// Limit of leased jobs with the same concurrency key, across all workers.
    pub key_limit: Option<u32>,
    /// Leased jobs per second, across all workers.
    pub rate: Option<Rate>,
    /// Push target. Without one, workers lease the jobs.
    pub target: Option<Target>,
    pub updated_at: Timestamp,
    /// Raised by every change; 0 for a queue without configuration.
    pub revision: i64,
}

/// Whether jobs of a queue may be leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum QueueState {
    #[default]
    Open,
    /// An operator paused the queue.
    Paused,
    /// Stopped by a `410` reply of the target.
    Stopped,
}

stored_as!(QueueState { Open = 0, Paused = 1, Stopped = 2 });

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub url: String,
    pub keys: SigningKeys,
}

/// Jobs per second, stored as the interval between two jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(Duration);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadQueue {
    #[error("must be 1 to {QUEUE_LIMIT_MAX}")]
    Limit,
    #[error("must be more than 0 and at most {QUEUE_RATE_MAX} per second, and at least one per day")]
    Rate,
}

impl Queue {
    /// Returns a queue without configuration.
    pub fn new(name: Name) -> Queue {
        Queue {
            name,
            state: QueueState::Open,
            limit: None,
            key_limit: None,
            rate: None,
            target: None,
            updated_at: Timestamp::default(),
            revision: 0,
        }
    }

    pub fn check(&self) -> Result<(), BadQueue> {
        let is_limit = |limit: Option<u32>| limit.is_none_or(|limit| (1..=QUEUE_LIMIT_MAX).contains(&limit));
        if is_limit(self.limit) && is_limit(self.key_limit) { Ok(()) } else { Err(BadQueue::Limit) }
    }

    /// Whether a lease has to lock the queue and count.
    pub fn is_limited(&self) -> bool {
        self.limit.is_some() || self.key_limit.is_some() || self.rate.is_some()
    }
}

/// The id under which leased tasks of a limited queue are counted.
pub fn queue_id(environment: EnvironmentId, queue: &Name) -> Id {
    job::lane(environment, queue, None).0
}

impl Rate {
    pub fn per_second(count: f64) -> Result<Rate, BadQueue> {
        const SLOWEST: f64 = 1.0 / 86_400.0;
        if !count.is_finite() || !(SLOWEST..=f64::from(QUEUE_RATE_MAX)).contains(&count) {
            return Err(BadQueue::Rate);
        }
        Ok(Rate(Duration::from_secs_f64(1.0 / count)))
    }

    pub fn as_per_second(self) -> f64 {
        // Rounding returns the configured number: the stored interval has whole microseconds.
        let exact = 1.0 / self.0.as_secs_f64();
        if exact < 0.01 { exact } else { (exact * 1000.0).round() / 1000.0 }
    }

    pub fn to_db(self) -> i64 {
        micros(self.0)
    }

    pub fn from_db(interval_us: i64) -> Option<Rate> {
        u64::try_from(interval_us).ok().filter(|us| *us > 0).map(|us| Rate(Duration::from_micros(us)))
    }

    /// Returns how many of `wanted` jobs may start now, and the new `booked_until`. No job starts before
    /// `booked_until`. Up to one second of unused rate may be spent at once, and always at least one job.
    pub fn take(self, booked_until: Timestamp, now: Timestamp, wanted: usize) -> (usize, Timestamp) {
        let interval = micros(self.0).max(1);
        let unused = (micros(Duration::from_secs(1)) - interval).max(0);
        let begin = booked_until.as_micros().max(now.as_micros() - unused);
        if begin > now.as_micros() || wanted == 0 {
            return (0, booked_until);
        }
        let capacity = usize::try_from((now.as_micros() - begin) / interval + 1).unwrap_or(usize::MAX);
        let granted = wanted.min(capacity);
        let until = begin.saturating_add(interval.saturating_mul(i64::try_from(granted).unwrap_or(i64::MAX)));
        (granted, Timestamp::from_micros(until))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(1_000_000_000 + micros)
    }

    #[test]
    fn a_rate_lets_a_seconds_worth_go_and_then_one_after_the_other() {
        let rate = Rate::per_second(10.0).unwrap();
        let (first, kept) = rate.take(Timestamp::default(), at(0), 100);
        assert_eq!(first, 10);
        assert_eq!(rate.take(kept, at(0), 100).0, 0);
        assert_eq!(rate.take(kept, at(99_999), 100).0, 0);
        let (second, kept) = rate.take(kept, at(100_000), 100);
        assert_eq!(second, 1);
        assert_eq!(rate.take(kept, at(150_000), 100), (0, kept));
        assert_eq!(rate.take(kept, at(200_000), 100).0, 1);
    }

    #[test]
    fn over_any_span_no_more_than_the_rate_and_one_burst_go() {
        let rate = Rate::per_second(10.0).unwrap();
        let (mut kept, mut total) = (Timestamp::default(), 0);
        for step in 0..=1_000 {
            let (granted, next) = rate.take(kept, at(step * 10_000), 3);
            (kept, total) = (next, total + granted);
        }
        assert!((105..=110).contains(&total), "10 s at 10 a second, and one burst: {total}");
    }

    #[test]
    fn a_slow_rate_lets_one_go() {
        let rate = Rate::per_second(0.5).unwrap();
        let (first, kept) = rate.take(Timestamp::default(), at(0), 5);
        assert_eq!(first, 1);
        assert_eq!(rate.take(kept, at(1_999_999), 5).0, 0);
        assert_eq!(rate.take(kept, at(2_000_000), 5).0, 1);
    }

    #[test]
    fn rates_that_cannot_be_are_refused() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
            assert_eq!(Rate::per_second(rate), Err(BadQueue::Rate), "{rate}");
        }
        assert_eq!(Rate::from_db(Rate::per_second(3.0).unwrap().to_db()).unwrap().as_per_second(), 3.0);
    }

    #[test]
    fn a_limit_is_a_number_of_jobs() {
        let queue = Queue::new("email".parse().unwrap());
        assert_eq!(queue.check(), Ok(()));
        assert_eq!(Queue { limit: Some(0), ..queue.clone() }.check(), Err(BadQueue::Limit));
        assert!(Queue { key_limit: Some(1), ..queue }.is_limited());
    }
}
