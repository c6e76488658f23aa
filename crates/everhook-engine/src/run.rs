//! Runs one leased task: a delivery, a pushed job, or a job with a handler in this process.

pub(crate) mod delivery;
pub(crate) mod direct;
pub mod handler;
pub(crate) mod job;
pub(crate) mod oauth;
pub mod outbound;
mod push;
pub mod request;
pub(crate) mod source;
