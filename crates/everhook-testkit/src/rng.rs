//! Repeatable random numbers from one printed seed.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A small generator (SplitMix64), good enough to choose times, sizes and targets. Threads may share one.
#[derive(Debug)]
pub struct Rng(AtomicU64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(AtomicU64::new(seed))
    }

    /// Creates the stream of one actor: the same seed and name give the same numbers.
    pub fn of(seed: u64, actor: &str) -> Rng {
        Rng::new(actor.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        }))
    }

    pub fn next(&self) -> u64 {
        const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
        let state = self.0.fetch_add(GAMMA, Ordering::Relaxed).wrapping_add(GAMMA);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`, which must not be zero.
    pub fn below(&self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("below a usize")
    }

    /// Returns true once in `times` calls on average; never for zero.
    pub fn once_in(&self, times: usize) -> bool {
        times > 0 && self.below(times) == 0
    }

    /// Returns a span between the two, to the microsecond.
    pub fn between(&self, low: Duration, high: Duration) -> Duration {
        let width = usize::try_from(high.saturating_sub(low).as_micros()).expect("spans are short").max(1);
        low + Duration::from_micros(self.below(width) as u64)
    }

    pub fn pick<'a, T>(&self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// Returns a new seed from the system.
pub fn seed() -> u64 {
    RandomState::new().hash_one("seed")
}
