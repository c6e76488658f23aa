//! Repeatable randomness: everything derives from one printed seed.

use std::hash::{BuildHasher, RandomState};

use everhook_core::api_key::ApiKey;

/// SplitMix64, good enough to choose moments and sizes.
pub(crate) struct Random(u64);

pub(crate) fn seed() -> u64 {
    RandomState::new().hash_one("seed")
}

/// Returns a new API key that no server knows.
pub(crate) fn api_key() -> String {
    let mut random = Random::new(seed());
    ApiKey::generate(std::array::from_fn(|_| random.next() as u8)).expose().to_owned()
}

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
