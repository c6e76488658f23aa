//! Background tasks: slices of bulk work, and the list of background tasks.
//!
//! A background task is a job in the server's own environment (`core::background`). Each slice of a replay or purge and
//! its position are one transaction, which the lease of the job fences. A crash therefore repeats no slice.

use everhook_core::background::replay::{Pick, Replay};
use everhook_core::background::{BackgroundStatus, Effect, Position, Purge};
use everhook_core::id::{EnvironmentId, Id, JobId, MessageId};
use everhook_core::job::report::Progress;
use everhook_core::job::{LeaseLost, LeaseProof, check_lease_proof};
use everhook_core::limits::ID_SKEW_MAX;
use everhook_core::name::Name;
use everhook_core::time::Timestamp;

use crate::catalog::{Order, Slice};
use crate::job::JobRecord;
use crate::piece::IdRange;

/// A request for the next slice of bulk work.
#[derive(Clone, Debug)]
pub struct Advance {
    /// The job of the background task, in the server's own environment.
    pub job: JobId,
    pub by: LeaseProof,
    pub work: BulkWork,
    /// A dry run counts the same messages, and changes none.
    pub effect: Effect,
    /// The position after the last slice.
    pub from: Position,
    /// The number of rows to read.
    pub limit: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BulkWork {
    /// Adds a delivery for each chosen message. Dead deliveries of the same message and endpoint are removed, because
    /// the new delivery takes their place.
    Replay(Replay),
    Purge(Purge),
}

/// The result of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advanced {
    pub position: Position,
    /// Messages sent or purged by this slice, or matched by a dry run.
    pub changed: usize,
    pub is_last: bool,
}

/// The rows that a slice of a replay reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SliceRows {
    /// Messages of the application with ids in this range.
    Messages(IdRange),
    /// Dead tasks of the endpoint's lane, after this task.
    DeadTasks { after: Id },
}

impl Advance {
    /// Checks the job before a slice. Returns the result of a slice that was done before: the reply to its commit was
    /// lost, and the store tries again.
    pub fn check(&self, job: Option<&JobRecord>) -> Result<Option<Advanced>, LeaseLost> {
        check_lease_proof(job.and_then(JobRecord::lease), self.by)?;
        let position = Position::of(job.and_then(|job| job.progress.as_ref()));
        Ok((position != self.from).then_some(Advanced { position, changed: 0, is_last: false }))
    }

    /// Returns the rows that a slice of a replay reads. Dead deliveries have an index; other choices read the messages
    /// of the window.
    pub fn replay_rows(&self, replay: &Replay) -> SliceRows {
        match replay.pick {
            Pick::Failed | Pick::FailedAs(_) => SliceRows::DeadTasks { after: self.from.after.unwrap_or(Id::MIN) },
            Pick::Missing | Pick::Attempted(_) => SliceRows::Messages(self.messages(Some(replay.since), replay.until)),
        }
    }

    /// Returns the range of messages that a slice of a purge reads.
    pub fn purge_range(&self, purge: &Purge) -> IdRange {
        self.messages(None, purge.until)
    }

    fn messages(&self, since: Option<Timestamp>, until: Timestamp) -> IdRange {
        IdRange::beyond(self.from.after, Order::Ascending).between(since, Some(until), (ID_SKEW_MAX, ID_SKEW_MAX))
    }

    /// Returns the result of a slice that read rows up to `last` and changed some of them.
    pub fn done(&self, read: usize, last: Option<Id>, changed: usize) -> Advanced {
        Advanced { position: self.from.advanced(changed, last), changed, is_last: read < self.limit }
    }

    /// Returns the progress to store with a slice.
    pub fn progress(&self, advanced: &Advanced) -> Progress {
        let (since, until) = match &self.work {
            BulkWork::Replay(replay) => (replay.since, replay.until),
            BulkWork::Purge(purge) => (Timestamp::default(), purge.until),
        };
        advanced.position.to_progress(since, until)
    }
}

/// A filter of background tasks.
#[derive(Clone, Debug)]
pub struct BackgroundFilter {
    pub slice: Slice<JobId>,
    pub kind: Option<Name>,
    /// Only background tasks of an application, whose id is their tag.
    pub tag: Option<Name>,
    pub status: Option<BackgroundStatus>,
    /// The most rows that are read and compared with the filter.
    pub scan: usize,
}

impl BackgroundFilter {
    /// Whether the search may read rows that it does not return.
    pub fn is_selective(&self) -> bool {
        self.kind.is_some() || self.tag.is_some() || self.status.is_some()
    }

    pub fn range(&self) -> IdRange {
        IdRange::beyond(self.slice.after.map(|id| id.0), self.slice.order)
    }

    /// Whether a background task matches the filter.
    pub fn wants(&self, record: &JobRecord) -> bool {
        self.kind.as_ref().is_none_or(|kind| record.job.kind == *kind)
            && self.tag.as_ref().is_none_or(|tag| record.job.tags.contains(tag))
            && self.status.is_none_or(|status| BackgroundStatus::from(record.state) == status)
    }
}

/// Returns the concurrency key of an environment's background tasks.
pub fn owner_key(environment: EnvironmentId) -> String {
    environment.0.to_string()
}

/// The attempts of a slice of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptCount {
    pub attempts: u64,
    /// The last message of the slice; none at the end of the window.
    pub next: Option<MessageId>,
}
