//! Chance that can be repeated: everything comes from one printed seed.

use std::time::Duration;

/// A small generator (SplitMix64): good enough to choose moments and victims.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of one actor: the same seed and the same name give the same numbers.
    pub fn new(seed: u64, actor: &str) -> Random {
        let mixed = actor.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Random(mixed)
    }

    /// The next number.
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.draw() % (bound.max(1) as u64)).unwrap_or(0)
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// A span between the two, to the millisecond.
    pub fn between(&mut self, low: Duration, high: Duration) -> Duration {
        let width = usize::try_from(high.saturating_sub(low).as_millis()).unwrap_or(usize::MAX);
        low + Duration::from_millis(self.below(width.max(1)) as u64)
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}
