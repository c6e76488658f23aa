//! Jobs: the trait is mapped to files of their own: accepting them, finding them, steering them.
//!
//! Leasing and settling are the engine's, in [`crate::settle`]; a batch is told of every end in [`crate::batch`].

pub(crate) mod enqueue;
pub(crate) mod query;
pub(crate) mod row;
pub(crate) mod steer;
