//! Workers: sessions that take jobs, either remote ones or programs with handlers.

use everhook_core::id::EnvironmentId;
use everhook_core::name::Name;

use crate::lease::SessionRecord;

/// The version string of a remote worker's session. It tells remote workers apart from nodes and from programs with
/// handlers, which send their own version.
pub const REMOTE: &str = "remote";

/// The queues and kinds that a session takes jobs from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Takes {
    pub environment: EnvironmentId,
    pub queues: Vec<Name>,
    /// Only these kinds; empty means all.
    pub kinds: Vec<Name>,
}

/// A session that takes jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerRecord {
    pub session: SessionRecord,
    pub takes: Takes,
}
