//! Jobs: finding, listing, steering, enqueueing, and their batches. `lease` and `settle` lease and settle them.

pub(crate) mod enqueue;
pub(crate) mod query;
pub(crate) mod steer;
