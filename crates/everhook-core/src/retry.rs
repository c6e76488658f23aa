//! Retry policies: the delay after each failed attempt.
//!
//! Pure. Only `lifecycle::decide` calls it.

use std::fmt;
use std::time::Duration;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits::{JOB_ATTEMPTS_DEFAULT, RETRY_DELAY_MAX, RETRY_DELAYS_MAX};

/// A random number in 0..1, drawn by the caller, so that decisions stay deterministic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jitter(f64);

impl Jitter {
    /// The middle of the range: every delay is exactly the policy's.
    pub const NONE: Jitter = Jitter(0.5);

    /// Maps 64 random bits to 0..1.
    pub fn from_bits(bits: u64) -> Jitter {
        // A double holds 53 bits exactly.
        Jitter((bits >> 11) as f64 / (1_u64 << 53) as f64)
    }

    /// Returns a uniformly distributed part of `span`.
    pub fn share_of(self, span: Duration) -> Duration {
        span.mul_f64(self.0)
    }
}

/// The delays between attempts, and the number of attempts. After the last failed attempt the task is dead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    backoff: Backoff,
    attempts_max: u32,
    jitter_percent: u8,
}

/// The random share of a delay, unless a policy sets another one.
pub const JITTER_PERCENT_DEFAULT: u8 = 20;

/// The delay after each failed attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backoff {
    /// The delays in order; the last one repeats.
    List(Vec<Duration>),
    /// Doubles after each failure, from `base` up to `cap`.
    Exponential { base: Duration, cap: Duration },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRetryPolicy {
    #[error("a retry schedule must have at most {RETRY_DELAYS_MAX} delays")]
    TooMany,
    #[error("a retry delay must be at most {} seconds", RETRY_DELAY_MAX.as_secs())]
    TooLong,
    #[error("a retry schedule requires at least one delay")]
    Empty,
    #[error("the number of attempts must be 1 to {}", RETRY_DELAYS_MAX + 1)]
    Attempts,
    #[error("capSeconds must not be less than baseSeconds")]
    CapBelowBase,
}

impl RetryPolicy {
    /// An immediate first attempt, then one attempt after each delay.
    pub fn new(delays: Vec<Duration>) -> Result<RetryPolicy, BadRetryPolicy> {
        let attempts_max = u32::try_from(delays.len()).ok().and_then(|delays| delays.checked_add(1));
        let attempts_max = attempts_max.ok_or(BadRetryPolicy::TooMany)?;
        RetryPolicy::with(Backoff::List(delays), attempts_max)
    }

    /// A policy with up to `attempts_max` attempts, including the first.
    pub fn with(backoff: Backoff, attempts_max: u32) -> Result<RetryPolicy, BadRetryPolicy> {
        match backoff.check() {
            // A single attempt needs no delay.
            Err(BadRetryPolicy::Empty) if attempts_max == 1 => {}
            checked => checked?,
        }
        RetryPolicy::check_attempts(attempts_max)?;
        Ok(RetryPolicy { backoff, attempts_max, jitter_percent: JITTER_PERCENT_DEFAULT })
    }

    /// Replaces the random share of delays, ±20 % without this call.
    #[must_use]
    pub fn with_jitter(self, jitter_percent: u8) -> RetryPolicy {
        RetryPolicy { jitter_percent: jitter_percent.min(100), ..self }
    }

    /// Allows at most `attempts_max` attempts, and at least one.
    #[must_use]
    pub fn limited_to(self, attempts_max: u32) -> RetryPolicy {
        RetryPolicy { attempts_max: self.attempts_max.min(attempts_max).max(1), ..self }
    }

    pub fn check_attempts(attempts_max: u32) -> Result<(), BadRetryPolicy> {
        let is_valid = usize::try_from(attempts_max).is_ok_and(|max| (1..=RETRY_DELAYS_MAX + 1).contains(&max));
        if is_valid { Ok(()) } else { Err(BadRetryPolicy::Attempts) }
    }

    /// Number of attempts, including the first.
    pub fn attempts_max(&self) -> u32 {
        self.attempts_max
    }

    /// The random share of delays.
    pub fn jitter_percent(&self) -> u8 {
        self.jitter_percent
    }

    /// The delays, without jitter.
    pub fn backoff(&self) -> &Backoff {
        &self.backoff
    }

    /// Returns the delay after the attempt number `tries`, or `None` if no attempts are left.
    ///
    /// Near the cap, jitter is drawn from the range below the cap: clipping would put half of all retries at the same
    /// instant.
    pub fn delay(&self, tries: u32, jitter: Jitter) -> Option<Duration> {
        let failures = tries.checked_sub(1).filter(|_| tries < self.attempts_max)?;
        let (delay, cap) = self.backoff.delay(failures)?;
        let share = f64::from(self.jitter_percent) / 100.0;
        let low = delay.mul_f64(1.0 - share);
        let high = delay.mul_f64(1.0 + share).min(cap);
        Some(low + jitter.share_of(high - low))
    }
}

impl Backoff {
    pub fn check(&self) -> Result<(), BadRetryPolicy> {
        match self {
            Backoff::List(delays) if delays.len() > RETRY_DELAYS_MAX => Err(BadRetryPolicy::TooMany),
            Backoff::List(delays) if delays.is_empty() => Err(BadRetryPolicy::Empty),
            Backoff::List(delays) if delays.iter().any(|delay| *delay > RETRY_DELAY_MAX) => {
                Err(BadRetryPolicy::TooLong)
            }
            Backoff::Exponential { cap, .. } if *cap > RETRY_DELAY_MAX => Err(BadRetryPolicy::TooLong),
            Backoff::Exponential { base, cap } if cap < base => Err(BadRetryPolicy::CapBelowBase),
            Backoff::List(_) | Backoff::Exponential { .. } => Ok(()),
        }
    }

    /// The number of attempts that follows from the back-off alone: one more than a list has delays.
    pub fn attempts(&self) -> u32 {
        match self {
            Backoff::List(delays) => u32::try_from(delays.len()).map_or(u32::MAX, |delays| delays.saturating_add(1)),
            Backoff::Exponential { .. } => JOB_ATTEMPTS_DEFAULT,
        }
    }

    /// Returns the delay without jitter after `failures` earlier failures, and its cap.
    fn delay(&self, failures: u32) -> Option<(Duration, Duration)> {
        match self {
            Backoff::List(delays) => {
                let delay = delays.get(usize::try_from(failures).ok()?).or(delays.last())?;
                Some((*delay, RETRY_DELAY_MAX))
            }
            Backoff::Exponential { base, cap } => {
                let factor = 2_u32.checked_pow(failures).unwrap_or(u32::MAX);
                Some((base.saturating_mul(factor).min(*cap), *cap))
            }
        }
    }
}

/// JSON form of a back-off, in API and stores: `[5, 60]` or `{"baseSeconds": 5, "capSeconds": 3600}`.
#[derive(Serialize)]
#[serde(untagged)]
enum BackoffForm {
    List(Vec<u64>),
    Exponential(ExponentialForm),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ExponentialForm {
    base_seconds: u64,
    cap_seconds: u64,
}

/// Chooses the form by the JSON type, so that errors are about the intended form. Serde's `untagged` would only say
/// that no form matches.
struct EitherForm;

impl<'de> Visitor<'de> for EitherForm {
    type Value = BackoffForm;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of seconds, or an object with baseSeconds and capSeconds")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<BackoffForm, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(BackoffForm::List)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<BackoffForm, A::Error> {
        ExponentialForm::deserialize(MapAccessDeserializer::new(map)).map(BackoffForm::Exponential)
    }
}

impl Serialize for Backoff {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let form = match self {
            Backoff::List(delays) => BackoffForm::List(delays.iter().map(Duration::as_secs).collect()),
            Backoff::Exponential { base, cap } => {
                let (base_seconds, cap_seconds) = (base.as_secs(), cap.as_secs());
                BackoffForm::Exponential(ExponentialForm { base_seconds, cap_seconds })
            }
        };
        form.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Backoff {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Backoff, D::Error> {
        Ok(match deserializer.deserialize_any(EitherForm)? {
            BackoffForm::List(delays) => Backoff::List(delays.into_iter().map(Duration::from_secs).collect()),
            BackoffForm::Exponential(ExponentialForm { base_seconds, cap_seconds }) => {
                Backoff::Exponential { base: Duration::from_secs(base_seconds), cap: Duration::from_secs(cap_seconds) }
            }
        })
    }
}

impl Default for RetryPolicy {
    /// The example schedule of Standard Webhooks: ten attempts over three days.
    fn default() -> RetryPolicy {
        const MINUTE: u64 = 60;
        const HOUR: u64 = 3600;
        let secs = [5, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR];
        let delays = secs.map(Duration::from_secs).to_vec();
        RetryPolicy { attempts_max: 10, backoff: Backoff::List(delays), jitter_percent: JITTER_PERCENT_DEFAULT }
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
            let Backoff::List(delays) = policy.backoff() else { panic!("not a list") };
            let plain = delays[tries as usize - 1];
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

    fn exponential(attempts_max: u32) -> RetryPolicy {
        let (base, cap) = (Duration::from_secs(5), Duration::from_secs(3600));
        RetryPolicy::with(Backoff::Exponential { base, cap }, attempts_max).unwrap()
    }

    #[test]
    fn an_exponential_back_off_doubles_up_to_its_cap() {
        let policy = exponential(20);
        let plain = |tries| policy.delay(tries, Jitter::NONE).map(|delay| delay.as_secs());
        assert_eq!([1, 2, 3, 9].map(plain), [Some(5), Some(10), Some(20), Some(1280)]);
        // At the cap the range ends at the cap, so its middle is lower.
        assert_eq!([11, 19, 20].map(plain), [Some(3240), Some(3240), None]);
        assert_eq!(exponential(101).delay(100, Jitter::NONE), Some(Duration::from_secs(3240)));
    }

    #[test]
    fn the_last_delay_of_a_list_is_repeated_until_the_attempts_are_used_up() {
        let list = Backoff::List(vec![Duration::from_secs(1), Duration::from_secs(10)]);
        let policy = RetryPolicy::with(list, 4).unwrap();
        let plain = |tries| policy.delay(tries, Jitter::NONE).map(|delay| delay.as_secs());
        assert_eq!([0, 1, 2, 3, 4, 5].map(plain), [None, Some(1), Some(10), Some(10), None, None]);
    }

    #[test]
    fn a_policy_that_cannot_be_is_refused() {
        let list = |secs: &[u64]| Backoff::List(secs.iter().copied().map(Duration::from_secs).collect());
        assert_eq!(RetryPolicy::with(list(&[]), 2), Err(BadRetryPolicy::Empty));
        assert!(RetryPolicy::with(list(&[]), 1).is_ok());
        assert_eq!(RetryPolicy::with(list(&[5]), 0), Err(BadRetryPolicy::Attempts));
        assert_eq!(RetryPolicy::with(list(&[5]), 102), Err(BadRetryPolicy::Attempts));
        let exponential =
            |base, cap| Backoff::Exponential { base: Duration::from_secs(base), cap: Duration::from_secs(cap) };
        assert_eq!(RetryPolicy::with(exponential(9, 8), 2), Err(BadRetryPolicy::CapBelowBase));
        assert_eq!(RetryPolicy::with(exponential(9, 86_401), 2), Err(BadRetryPolicy::TooLong));
    }

    #[test]
    fn a_back_off_reads_as_it_was_written() {
        for text in ["[5,60]", r#"{"baseSeconds":5,"capSeconds":3600}"#] {
            let backoff: Backoff = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&backoff).unwrap(), text);
        }
    }
}
