//! Chance from a seed.

use std::sync::Mutex;
use std::time::Duration;

/// A stream of random numbers that the whole world draws from; one thread, so its order is the world's order.
#[derive(Debug)]
pub(crate) struct Rng(Mutex<u64>);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(Mutex::new(seed))
    }

    pub(crate) fn next(&self) -> u64 {
        let mut state = self.0.lock().expect("one thread");
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `bound`, which is not zero.
    pub(crate) fn below(&self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("below a usize")
    }

    /// True once in so many times; never for zero.
    pub(crate) fn once_in(&self, times: usize) -> bool {
        times > 0 && self.below(times) == 0
    }

    /// A span between the two, to the microsecond.
    pub(crate) fn between(&self, low: Duration, high: Duration) -> Duration {
        let width = usize::try_from((high - low).as_micros()).expect("simulated spans are short").max(1);
        low + Duration::from_micros(self.below(width) as u64)
    }

    /// One of these.
    pub(crate) fn pick<'a, T>(&self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}
