//! Jobs: accepting, finding and steering them, each in a file of its own.
//!
//! [`crate::lease`] and [`crate::settle`] lease and settle them. [`crate::batch`] is updated at every end of a job.

pub(crate) mod enqueue;
pub(crate) mod query;
pub(crate) mod steer;
