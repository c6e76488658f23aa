//! Jobs: found, listed, steered. Enqueue and batches have files of their own; jobs are leased and settled with deliveries, in `lease` and `settle`.

pub(crate) mod batch;
pub(crate) mod enqueue;
pub(crate) mod output;
pub(crate) mod query;
pub(crate) mod steer;
