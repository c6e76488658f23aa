//! Workers: sessions that take jobs, and what they take. Remote ones, and those in the processes of users.

use async_trait::async_trait;
use everhook_core::id::{EnvironmentId, SessionId};
use everhook_core::name::Name;

use crate::error::StoreError;
use crate::lease::{NewSession, SessionRecord};

/// The version of a session that a remote worker has. It tells remote workers from nodes and from programs with handlers, which
/// say their own version.
pub const REMOTE: &str = "remote";

/// What a session takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Takes {
    /// The tenant.
    pub environment: EnvironmentId,
    /// From these queues.
    pub queues: Vec<Name>,
    /// Only these kinds; empty means all.
    pub kinds: Vec<Name>,
}

/// A session that takes jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerRecord {
    /// The session; its name is the worker's.
    pub session: SessionRecord,
    /// What it takes.
    pub takes: Takes,
}

/// Workers.
#[async_trait]
pub trait WorkerStore: Send + Sync {
    /// Begins the tenure of a worker: its session and what it takes, in one transaction. Repeating it is harmless.
    async fn open_worker(&self, session: &NewSession, takes: &Takes) -> Result<(), StoreError>;

    /// Says what a session takes that was opened by its node.
    async fn replace_takes(&self, session: SessionId, takes: &Takes) -> Result<(), StoreError>;

    /// Finds a worker of this environment, also one whose session was closed.
    async fn find_worker(&self, environment: EnvironmentId, id: SessionId) -> Result<Option<WorkerRecord>, StoreError>;

    /// Workers of an environment whose sessions are open, oldest first; at most `SESSIONS_LISTED_MAX`.
    async fn list_workers(&self, environment: EnvironmentId) -> Result<Vec<WorkerRecord>, StoreError>;
}
