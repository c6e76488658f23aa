//! The in-memory store passes the suite.

mod clock;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use everhook_core::time::{Timestamp, micros};
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

everhook_testkit::conformance_lease!(Mem);
everhook_testkit::conformance_jobs!(Mem);
everhook_testkit::conformance_resources!(Mem);

mod by_the_clock {
    use super::*;

    /// The in-memory store with a clock that advances by itself.
    struct Mem;

    impl Backend for Mem {
        type Store = MemStore;

        #[expect(clippy::disallowed_methods, reason = "schedules wait for a real clock, as on the other stores")]
        async fn fresh() -> Fresh<MemStore> {
            let (began, last) = (std::time::Instant::now(), AtomicI64::new(0));
            let clock = move || {
                let now = 1_790_000_000_000_000 + micros(began.elapsed());
                // Each reading is later than the one before.
                let later = |last: i64| Some(now.max(last + 1));
                let before = last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later).unwrap();
                Timestamp::from_micros(now.max(before + 1))
            };
            Fresh::one(MemStore::new(Ids::seeded(1), Arc::new(clock)), ())
        }
    }

    everhook_testkit::conformance_time!(Mem);
}

/// The comparison is trivially equal. The test shows that every list of operations can be executed and repeated.
#[test]
fn random_operations_do_the_same_on_two_stores_in_memory() {
    everhook_testkit::conformance::model::check(everhook_testkit::conformance::fresh::<Mem>);
}
