//! Workers: sessions that take jobs, and what they take. Remote ones, and those in the processes of users.

use everhook_core::id::EnvironmentId;
use everhook_core::name::Name;

use crate::lease::SessionRecord;

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
