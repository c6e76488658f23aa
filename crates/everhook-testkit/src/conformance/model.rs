//! The model test: random operations have the same results on a store and on the in-memory store, which is the
//! specification.
//!
//! Both stores execute the same operations in lockstep. Every answer is converted into text without the ids that a
//! store creates, and compared. The same holds for the visible state at the end. Delays are zero or an hour, so that
//! the duration of an operation changes no answer. A failure prints the shortest failing list of operations and the
//! seed. `PROPTEST_CASES` sets the number of lists.

mod ops;
mod side;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use everhook_core::time::Timestamp;
use everhook_store::ids::Ids;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};

use crate::conformance::model::ops::{Op, Script};
use crate::conformance::model::side::Side;
use crate::conformance::{Fresh, Make, block_on};
use crate::mem::MemStore;

/// The number of lists without `PROPTEST_CASES`.
const CASES: u32 = 64;
/// The longest list.
const OPS_MAX: usize = 40;
/// Attempts to shorten a failing list; each needs a fresh store.
const SHRINKS_MAX: u32 = 400;

/// Applies random operations to a store and to the in-memory store.
pub fn check(fresh: Make) {
    let config = config();
    let seed = config.rng_seed;
    let lists = proptest::collection::vec(ops::any_op(), 1..=OPS_MAX);
    let tried =
        TestRunner::new(config).run(&lists, |ops| block_on(Box::pin(replay(fresh, &ops))).map_err(TestCaseError::fail));
    if let Err(error) = tried {
        panic!("{error}\nto repeat it: PROPTEST_RNG_SEED={seed}");
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a variable of proptest's own, whose default is too many for real stores"
)]
fn config() -> Config {
    let mut config = Config { failure_persistence: None, max_shrink_iters: SHRINKS_MAX, ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = CASES;
    }
    if config.rng_seed == RngSeed::Random {
        let drawn = Ids::from_system().next(Timestamp::default());
        let seed = *drawn.as_bytes().last_chunk().expect("an id is longer");
        config.rng_seed = RngSeed::Fixed(u64::from_be_bytes(seed));
    }
    config
}

async fn replay(fresh: Make, ops: &[Op]) -> Result<(), String> {
    let Fresh { store, guard, .. } = fresh().await;
    let mut script = Script::new(store.now().await.map_err(|error| error.to_string())?);
    let mut model = Side::new(Arc::new(in_memory()), &script).await;
    let mut real = Side::new(store, &script).await;
    let mut told = Vec::new();
    let steps: Vec<_> = ops.iter().map(|op| script.step(op)).chain(Script::closing_steps()).collect();
    for step in steps {
        let (want, got) = (model.apply(&script, &step).await, real.apply(&script, &step).await);
        if want != got {
            let told = told.join("\n");
            return Err(format!("{told}\n{step:?}\n  in memory: {want}\n  the store: {got}"));
        }
        told.push(format!("{step:?}\n  {want}"));
    }
    drop((real, guard));
    Ok(())
}

fn in_memory() -> MemStore {
    // Each reading of the clock adds a microsecond: enough to be later, too little to reach an hour.
    let micros = AtomicI64::new(1_790_000_000_000_000);
    let clock = move || Timestamp::from_micros(micros.fetch_add(1, Ordering::Relaxed));
    MemStore::new(Ids::seeded(1), Arc::new(clock))
}
