//! The store's clock: the only wall clock of a node that has this store.

use std::time::{SystemTime, UNIX_EPOCH};

use everhook_core::time::{Timestamp, micros};

/// The time now. Read inside the writer's transaction wherever it is written down.
pub(crate) fn now() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "the store's clock")]
    let now = SystemTime::now();
    Timestamp::from_micros(now.duration_since(UNIX_EPOCH).map_or(0, micros))
}
