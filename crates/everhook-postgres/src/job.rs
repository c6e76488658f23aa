//! Jobs: found, listed, steered. Enqueue, lease and batches have files of their own; they settle with deliveries, in `settle`.

pub(crate) mod batch;
pub(crate) mod enqueue;
pub(crate) mod lease;
pub(crate) mod limit;
pub(crate) mod output;
pub(crate) mod query;
pub(crate) mod steer;
