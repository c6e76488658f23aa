//! The way jobs enter, and the way remote workers take part: what the API calls.
//!
//! A remote worker is a session like a node's, with its own lease. What it says of a job ends in `settle`, the only door.

use bytes::Bytes;
use everhook_core::id::JobId;
use everhook_core::job::report::{Note, Report};

pub(crate) mod counts;
pub(crate) mod enqueue;
pub mod handler;
pub mod maintenance;
pub(crate) mod push;
pub(crate) mod remote;
pub(crate) mod runner;
pub(crate) mod schedules;
pub(crate) mod source;
pub(crate) mod subsystem;

pub use subsystem::JobsConfig;

/// A job that a worker says it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldJob {
    /// The job.
    pub id: JobId,
    /// Since which lease.
    pub epoch: u32,
}

/// What a worker learns from its heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// Not its own any more: what it says of them does not count.
    pub lost: Vec<JobId>,
    /// To be given up: someone cancelled them.
    pub cancelled: Vec<JobId>,
}

/// Why a worker gets no jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkerRefused {
    /// Its session was closed, because it was silent for longer than its lease: what it held is others' by now.
    #[error("the worker's lease has expired and its jobs were given to others: register again")]
    Closed,
    /// It asks for jobs in two calls at once.
    #[error("another lease call of this worker is under way")]
    Busy,
}

/// What a worker says at the end of a job.
#[derive(Clone, Debug)]
pub struct Ending {
    /// How it ended.
    pub report: Report,
    /// The error and what was logged.
    pub note: Note,
    /// What came out, as JSON.
    pub result: Option<Bytes>,
}
