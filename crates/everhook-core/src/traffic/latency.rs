//! A histogram of durations with logarithmic buckets: eight for each doubling, so that a percentile is off by at most
//! 7 %.

use std::time::Duration;

/// Bits of the sub-bucket: eight buckets for each doubling.
const SUB_BITS: u32 = 3;
/// Durations from 2^41 microseconds (25 days) on share the last bucket.
const BITS_MAX: u32 = 41;
const BUCKETS: usize = ((BITS_MAX - SUB_BITS + 1) as usize) << SUB_BITS;

/// Counts of durations, by bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latencies(Box<[u64; BUCKETS]>);

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies(Box::new([0; BUCKETS]))
    }
}

impl Latencies {
    pub fn add(&mut self, took: Duration) {
        self.0[bucket(took)] += 1;
    }

    pub fn merge(&mut self, other: &Latencies) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0.iter()) {
            *mine += theirs;
        }
    }

    /// The buckets that are not empty, with their counts.
    pub fn counts(&self) -> impl Iterator<Item = (usize, u64)> {
        self.0.iter().copied().enumerate().filter(|(_, count)| *count > 0)
    }

    /// Reads [`counts`](Latencies::counts). Buckets out of range count as the last one.
    pub fn from_counts(counts: impl IntoIterator<Item = (usize, u64)>) -> Latencies {
        let mut latencies = Latencies::default();
        for (bucket, count) in counts {
            latencies.0[bucket.min(BUCKETS - 1)] += count;
        }
        latencies
    }

    /// Returns the duration that `share` of all durations do not exceed: the middle of its bucket. None without
    /// durations.
    pub fn percentile(&self, share: f64) -> Option<Duration> {
        let total: u64 = self.0.iter().sum();
        if total == 0 {
            return None;
        }
        let wanted = ((total as f64 * share).ceil() as u64).clamp(1, total);
        let mut seen = 0;
        let found = self.0.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        found.map(|bucket| Duration::from_micros(u64::midpoint(low(bucket), low(bucket + 1))))
    }
}

fn bucket(took: Duration) -> usize {
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).min((1 << BITS_MAX) - 1);
    let bits = micros.max(1).ilog2();
    if bits < SUB_BITS {
        return micros as usize;
    }
    let shift = bits - SUB_BITS;
    ((shift as usize) << SUB_BITS) + (micros >> shift) as usize
}

/// The smallest number of microseconds in a bucket.
fn low(bucket: usize) -> u64 {
    let subs = 1 << SUB_BITS;
    if bucket < 2 * subs {
        return bucket as u64;
    }
    let shift = bucket / subs - 1;
    ((bucket % subs + subs) as u64) << shift
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_duration_lies_in_its_bucket(micros in 0_u64..1 << BITS_MAX) {
            let bucket = bucket(Duration::from_micros(micros));
            prop_assert!(bucket < BUCKETS);
            prop_assert!(low(bucket) <= micros && micros < low(bucket + 1));
            prop_assert!((low(bucket + 1) - low(bucket)) as f64 <= 1.0_f64.max(low(bucket) as f64 / 8.0));
        }
    }

    #[test]
    fn percentiles_are_close_to_the_exact_ones() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.percentile(0.5), None);
        for millis in 1..=1000 {
            latencies.add(Duration::from_millis(millis));
        }
        for (share, exact) in [(0.5, 500.0), (0.95, 950.0), (0.99, 990.0), (1.0, 1000.0)] {
            let found = latencies.percentile(share).expect("there are durations").as_secs_f64() * 1000.0;
            assert!((found / exact - 1.0).abs() < 0.07, "{share}: {found} ms instead of {exact} ms");
        }
    }

    #[test]
    fn the_longest_durations_share_a_bucket() {
        let mut latencies = Latencies::default();
        latencies.add(Duration::MAX);
        latencies.add(Duration::ZERO);
        assert_eq!(latencies.counts().collect::<Vec<_>>(), [(0, 1), (BUCKETS - 1, 1)]);
        assert_eq!(Latencies::from_counts(latencies.counts()), latencies);
        assert_eq!(Latencies::from_counts([(usize::MAX, 3)]).counts().collect::<Vec<_>>(), [(BUCKETS - 1, 3)]);
    }
}
