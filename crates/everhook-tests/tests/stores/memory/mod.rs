//! The in-memory store passes the part of the suite that is about its operations.

mod clock;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use everhook_core::time::Timestamp;
use everhook_store::ids::Ids;
use everhook_testkit::conformance::{Backend, Fresh};
use everhook_testkit::mem::MemStore;

struct Mem;

impl Backend for Mem {
    type Store = MemStore;

    async fn fresh() -> Fresh<MemStore> {
        // Each reading is later than the one before, and the clock does not advance otherwise.
        let micros = AtomicI64::new(1_790_000_000_000_000);
        let clock = move || Timestamp::from_micros(micros.fetch_add(1, Ordering::Relaxed));
        Fresh::one(MemStore::new(Ids::seeded(1), Arc::new(clock)), ())
    }
}

everhook_testkit::conformance_specified!(specified Mem);

/// The comparison is trivially equal. The test shows that every list of operations can be executed and repeated.
#[test]
fn random_operations_do_the_same_on_two_stores_in_memory() {
    everhook_testkit::conformance::model::check(everhook_testkit::conformance::fresh::<Mem>);
}
