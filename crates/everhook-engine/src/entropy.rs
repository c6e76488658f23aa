//! Randomness for jitter: fast, but not suitable for secrets.

use std::sync::atomic::{AtomicU64, Ordering};

use everhook_core::retry::Jitter;

#[derive(Debug)]
pub struct Entropy(AtomicU64);

impl Entropy {
    #[expect(clippy::disallowed_methods, reason = "seeds the engine's jitter")]
    pub fn from_system() -> Entropy {
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).expect("the system has randomness");
        Entropy(AtomicU64::new(u64::from_le_bytes(seed)))
    }

    /// Returns the same stream for the same seed; for the simulator.
    pub fn seeded(seed: u64) -> Entropy {
        Entropy(AtomicU64::new(seed))
    }

    pub fn jitter(&self) -> Jitter {
        let mut z = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Jitter::from_bits(z ^ (z >> 31))
    }
}
