//! The only place that makes ids from time and randomness.

use std::sync::Mutex;

use everhook_core::id::{ID_RANDOM_BYTES, Id, IdSequence};
use everhook_core::time::Timestamp;

/// Random bytes that are fetched from the system at once. One call is enough for about a hundred ids.
const POOL_BYTES: usize = 1200;

/// A source of strictly increasing ids for one node.
#[derive(Debug)]
pub struct Ids(Mutex<State>);

#[derive(Debug)]
struct State {
    sequence: IdSequence,
    entropy: Entropy,
}

#[derive(Debug)]
enum Entropy {
    System { pool: Box<[u8; POOL_BYTES]>, used: usize },
    Seeded(u64),
}

impl Ids {
    /// Ids that end in random bytes of the system.
    pub fn from_system() -> Ids {
        Ids::new(Entropy::System { pool: Box::new([0; POOL_BYTES]), used: POOL_BYTES })
    }

    /// Ids that repeat for the same seed, for tests and the simulator.
    pub fn seeded(seed: u64) -> Ids {
        Ids::new(Entropy::Seeded(seed))
    }

    fn new(entropy: Entropy) -> Ids {
        Ids(Mutex::new(State { sequence: IdSequence::default(), entropy }))
    }

    /// Returns the next id. `now` is the store's time as the node knows it.
    pub fn next(&self, now: Timestamp) -> Id {
        let mut state = self.0.lock().expect("nothing panics while it holds this lock");
        let random = state.entropy.draw();
        state.sequence.next(now, random)
    }
}

impl Entropy {
    #[expect(clippy::disallowed_methods, reason = "the one place that makes ids")]
    fn draw(&mut self) -> [u8; ID_RANDOM_BYTES] {
        match self {
            Entropy::System { pool, used } => {
                if *used + ID_RANDOM_BYTES > POOL_BYTES {
                    getrandom::fill(pool.as_mut_slice()).expect("the system has randomness");
                    *used = 0;
                }
                let drawn = pool[*used..*used + ID_RANDOM_BYTES].try_into().expect("as long as asked for");
                *used += ID_RANDOM_BYTES;
                drawn
            }
            Entropy::Seeded(state) => {
                let mut random = [0; ID_RANDOM_BYTES];
                for chunk in random.chunks_mut(8) {
                    chunk.copy_from_slice(&splitmix(state).to_be_bytes()[..chunk.len()]);
                }
                random
            }
        }
    }
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
