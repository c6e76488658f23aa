//! The way jobs enter, and the way remote workers take part: what the API calls.
//!
//! A remote worker is a session like a node's, with its own lease. What it says of a job ends in `settle`, the only door.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use everhook_core::id::{EnvironmentId, JobId, SessionId};
use everhook_core::job::report::{Note, Report};
use everhook_core::job::{JobState, LeaseLost, LeaseProof};
use everhook_store::error::StoreError;
use everhook_store::job::{Enqueued, NewJob};
use everhook_store::lease::Leased;
use everhook_store::worker::{Takes, WorkerRecord};

use crate::accept::AcceptError;

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

/// Enqueues jobs, and speaks with remote workers.
#[async_trait]
pub trait RunJobs: Send + Sync {
    /// Commits jobs, all in one transaction, each judged by itself; returns when that is durable.
    async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, AcceptError>;

    /// Begins the session of a remote worker.
    async fn open_worker(&self, name: String, takes: Takes, lease: Duration) -> Result<WorkerRecord, StoreError>;

    /// Renews the worker and leases jobs to it; waits up to `wait` for the first. Where `held` is given, jobs of it that are not listed go
    /// back: their answer was lost on the way.
    async fn lease_for(
        &self,
        worker: &WorkerRecord,
        limit: usize,
        wait: Duration,
        held: Option<&[HeldJob]>,
    ) -> Result<Result<Vec<Leased>, WorkerRefused>, StoreError>;

    /// Renews the worker; tells what it lost and what is cancelled. Never hands back.
    async fn heartbeat(
        &self,
        worker: SessionId,
        held: Option<&[HeldJob]>,
    ) -> Result<Result<Heartbeat, WorkerRefused>, StoreError>;

    /// Ends the session of a worker that signs off; what it still holds goes back at once, and uses no try.
    async fn close_worker(&self, worker: SessionId) -> Result<(), StoreError>;

    /// Ends an attempt; answers where the job stands now. Saying it again is harmless.
    async fn end_job(
        &self,
        environment: EnvironmentId,
        id: JobId,
        by: LeaseProof,
        ending: Ending,
    ) -> Result<Result<JobState, LeaseLost>, StoreError>;

    /// Tells that there may be work: after a retry, a resume, a raised limit.
    fn hint_jobs(&self);
}
