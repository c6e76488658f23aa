//! When a failed task is tried again.
//!
//! Pure. Called by `lifecycle::decide` only.

use std::time::Duration;

use crate::limits::{RETRY_DELAY_MAX, RETRY_DELAYS_MAX};

/// A random number in 0..1 that the shell draws, so that the decision itself has no chance in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jitter(f64);

impl Jitter {
    /// The middle: every delay exactly as the policy says.
    pub const NONE: Jitter = Jitter(0.5);

    /// Any 64 random bits as a number in 0..1.
    pub fn from_bits(bits: u64) -> Jitter {
        // 53 bits are what a double holds exactly.
        Jitter((bits >> 11) as f64 / (1_u64 << 53) as f64)
    }

    /// A share of `span`, uniform.
    pub fn share_of(self, span: Duration) -> Duration {
        span.mul_f64(self.0)
    }
}

/// The delays after each failed attempt; when they are used up the task is dead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    delays: Vec<Duration>,
}

/// The schedule cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRetryPolicy {
    /// More entries than anyone needs.
    #[error("a retry schedule has at most {RETRY_DELAYS_MAX} delays")]
    TooMany,
    /// A delay beyond the cap.
    #[error("a retry delay is at most {} seconds", RETRY_DELAY_MAX.as_secs())]
    TooLong,
}

impl RetryPolicy {
    /// A policy with these delays after an immediate first attempt.
    pub fn new(delays: Vec<Duration>) -> Result<RetryPolicy, BadRetryPolicy> {
        if delays.len() > RETRY_DELAYS_MAX {
            return Err(BadRetryPolicy::TooMany);
        }
        if delays.iter().any(|delay| *delay > RETRY_DELAY_MAX) {
            return Err(BadRetryPolicy::TooLong);
        }
        Ok(RetryPolicy { delays })
    }

    /// How many attempts a task gets in all.
    pub fn attempts_max(&self) -> usize {
        self.delays.len() + 1
    }

    /// How long to wait after the attempt that made it `tries` tries; none when they are used up.
    ///
    /// ±20 %, drawn from the whole range below the cap: clipping would pile half of the retries onto one instant.
    pub fn delay(&self, tries: u32, jitter: Jitter) -> Option<Duration> {
        let delay = *self.delays.get(usize::try_from(tries).ok()?.checked_sub(1)?)?;
        let low = delay.mul_f64(0.8);
        let high = delay.mul_f64(1.2).min(RETRY_DELAY_MAX);
        Some(low + jitter.share_of(high - low))
    }
}

impl Default for RetryPolicy {
    /// The schedule Standard Webhooks gives as its example: ten attempts over three days.
    fn default() -> RetryPolicy {
        const MINUTE: u64 = 60;
        const HOUR: u64 = 3600;
        let secs = [5, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR];
        RetryPolicy { delays: secs.map(Duration::from_secs).to_vec() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_default_policy_has_ten_attempts() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.attempts_max(), 10);
        assert_eq!(policy.delay(1, Jitter::NONE), Some(Duration::from_secs(5)));
        assert_eq!(policy.delay(2, Jitter::NONE), Some(Duration::from_secs(300)));
        assert_eq!(policy.delay(10, Jitter::NONE), None);
        assert_eq!(policy.delay(0, Jitter::NONE), None);
    }

    #[test]
    fn too_long_and_too_many_delays_are_refused() {
        assert_eq!(RetryPolicy::new(vec![Duration::from_secs(86_401)]), Err(BadRetryPolicy::TooLong));
        assert_eq!(RetryPolicy::new(vec![Duration::ZERO; 101]), Err(BadRetryPolicy::TooMany));
    }

    proptest! {
        #[test]
        fn jitter_stays_within_a_fifth_and_below_the_cap(tries in 1_u32..10, bits: u64) {
            let policy = RetryPolicy::default();
            let plain = policy.delays[tries as usize - 1];
            let delay = policy.delay(tries, Jitter::from_bits(bits)).unwrap();
            prop_assert!(delay >= plain.mul_f64(0.8) && delay <= plain.mul_f64(1.2) && delay <= RETRY_DELAY_MAX);
        }
    }

    #[test]
    fn jitter_is_finer_than_a_second() {
        let policy = RetryPolicy::default();
        let delay = policy.delay(1, Jitter::from_bits(0x1234_5678_9abc_def0)).unwrap();
        assert_ne!(delay.subsec_micros(), 0);
    }

    #[test]
    fn retries_at_the_cap_are_spread_and_not_piled_up() {
        let policy = RetryPolicy::default();
        let share = |unit: u64| policy.delay(9, Jitter::from_bits(unit)).unwrap();
        assert!(share(u64::MAX / 4 * 3) < share(u64::MAX));
    }
}
