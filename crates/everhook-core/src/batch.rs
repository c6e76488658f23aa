//! Batches: sets of jobs that announce their end once per phase.
//!
//! Pure. A store locks the batch row, adds up the changes of one transaction to the batch's jobs, applies them here,
//! and writes the row and the announcement in the same transaction. Every path that ends a job does so: handler,
//! timeout, sweep, operator. When two replicas end the last two jobs at the same instant, the row lock leaves one
//! announcement. Rows are locked in the order of their ids.
//!
//! ```text
//! phase n:  ── a job dies ──────────────────────────► <prefix>.failed      (also while the batch is open)
//!           ── sealed, nothing pending, none dead ──► <prefix>.completed
//!           ── dead jobs are retried, skipped or cancelled ─► phase n + 1, nothing announced yet
//! ```
//!
//! A phase makes at most one of the two announcements. Whenever dead jobs are retried, skipped or cancelled, a new
//! phase opens; without it the batch could never announce its new end.

use serde::Serialize;

use crate::id::{BatchId, JobId};
use crate::job::JobState;
use crate::limits::{BATCH_FAILED_LISTED_MAX, BATCH_SELECTION_MAX, NAME_CHARS_MAX};
use crate::name::{BadName, Metadata, Name};
use crate::task::stored_as;
use crate::time::Timestamp;

/// The stored state of a batch, without name, application, prefix and metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    pub intake: Intake,
    /// Starts at 1.
    pub phase: u32,
    /// The announcement that this phase has already made.
    pub announced: Option<Announcement>,
    pub counts: BatchCounts,
}

/// Whether a batch still accepts jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intake {
    Open,
    Sealed,
}

stored_as!(Intake { Open = 0, Sealed = 1 });

/// Number of jobs by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BatchCounts {
    pub pending: u32,
    pub succeeded: u32,
    /// Failed jobs that need an operator.
    pub dead: u32,
    pub cancelled: u32,
    /// Dead jobs that an operator has written off.
    pub skipped: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announcement {
    /// At least one job died.
    Failed,
    /// All jobs succeeded, or were skipped or cancelled.
    Completed,
}

stored_as!(Announcement { Failed = 0, Completed = 1 });

/// A change to the jobs of a batch, made by one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchChange {
    /// Number of new pending jobs.
    Added(u32),
    Ended(EndedJobs),
    /// No more jobs will be added.
    Sealed,
    /// Dead jobs left the dead state.
    Resolved {
        jobs: u32,
        how: Resolution,
    },
}

/// Number of pending jobs that ended, by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndedJobs {
    pub succeeded: u32,
    pub dead: u32,
    pub cancelled: u32,
}

impl std::ops::AddAssign for EndedJobs {
    /// Plain addition cannot overflow here: one transaction ends far fewer than `u32::MAX` jobs.
    fn add_assign(&mut self, other: EndedJobs) {
        self.succeeded += other.succeeded;
        self.dead += other.dead;
        self.cancelled += other.cancelled;
    }
}

/// The new state of resolved dead jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Pending again: by a retry of the batch, a retry of the job, or a redrive.
    Retried,
    /// Written off: the batch can complete without them.
    Skipped,
    Cancelled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The batch row to write.
    pub batch: Batch,
    /// The announcement to append in the same transaction.
    pub announce: Option<Announcement>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadChange {
    /// Sealed batches accept no jobs.
    #[error("the batch is sealed: it accepts no more jobs")]
    Sealed,
    /// A retry or skip that names no jobs.
    #[error("at least one job is required")]
    Empty,
    /// A count would drop below zero or overflow: the row is corrupt.
    #[error("the job counts of the batch are inconsistent")]
    Corrupt,
}

impl Batch {
    pub const fn new() -> Batch {
        let counts = BatchCounts { pending: 0, succeeded: 0, dead: 0, cancelled: 0, skipped: 0 };
        Batch { intake: Intake::Open, phase: 1, announced: None, counts }
    }

    /// Applies a change and returns the new row and its announcement. Only a seal is idempotent. A store must apply
    /// each other change exactly once, together with the rows of the jobs.
    pub fn apply(&self, change: BatchChange) -> Result<Applied, BadChange> {
        let mut batch = *self;
        let deaths = match change {
            BatchChange::Added(_) if self.intake == Intake::Sealed => return Err(BadChange::Sealed),
            BatchChange::Added(jobs) => {
                add(&mut batch.counts.pending, jobs)?;
                0
            }
            BatchChange::Ended(ended) => {
                batch.end(ended)?;
                ended.dead
            }
            BatchChange::Sealed => {
                batch.intake = Intake::Sealed;
                0
            }
            BatchChange::Resolved { jobs: 0, .. } => return Err(BadChange::Empty),
            BatchChange::Resolved { jobs, how } => {
                batch.resolve(jobs, how)?;
                0
            }
        };
        let announce = batch.verdict(deaths);
        batch.announced = batch.announced.or(announce);
        Ok(Applied { batch, announce })
    }

    fn end(&mut self, ended: EndedJobs) -> Result<(), BadChange> {
        for (count, jobs) in [
            (&mut self.counts.succeeded, ended.succeeded),
            (&mut self.counts.dead, ended.dead),
            (&mut self.counts.cancelled, ended.cancelled),
        ] {
            take(&mut self.counts.pending, jobs)?;
            add(count, jobs)?;
        }
        Ok(())
    }

    fn resolve(&mut self, jobs: u32, how: Resolution) -> Result<(), BadChange> {
        take(&mut self.counts.dead, jobs)?;
        let count = match how {
            Resolution::Retried => &mut self.counts.pending,
            Resolution::Skipped => &mut self.counts.skipped,
            Resolution::Cancelled => &mut self.counts.cancelled,
        };
        add(count, jobs)?;
        // A new phase may announce again. Without the reset, a retried batch would end in silence.
        self.announced = None;
        add(&mut self.phase, 1)
    }

    /// Returns the announcement that is due, if this phase has made none. `deaths` counts the jobs of this change only.
    fn verdict(&self, deaths: u32) -> Option<Announcement> {
        if self.announced.is_some() {
            return None;
        }
        let is_over = self.intake == Intake::Sealed && self.counts.pending == 0;
        match self.counts.dead {
            // Jobs that died in an earlier phase were announced in that phase, so only new deaths count.
            _ if deaths > 0 => Some(Announcement::Failed),
            0 if is_over => Some(Announcement::Completed),
            _ => None,
        }
    }
}

impl Default for Batch {
    fn default() -> Batch {
        Batch::new()
    }
}

fn add(count: &mut u32, jobs: u32) -> Result<(), BadChange> {
    *count = count.checked_add(jobs).ok_or(BadChange::Corrupt)?;
    Ok(())
}

fn take(count: &mut u32, jobs: u32) -> Result<(), BadChange> {
    *count = count.checked_sub(jobs).ok_or(BadChange::Corrupt)?;
    Ok(())
}

/// Refused retry or skip of jobs: no job changes and no phase opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSelection {
    #[error("at least one job is required")]
    Empty,
    #[error("at most {BATCH_SELECTION_MAX} jobs are allowed")]
    TooMany,
    #[error("job {0} is not in this batch")]
    Foreign(JobId),
    #[error("job {0} is not dead")]
    NotDead(JobId),
}

/// Checks the jobs of a retry or skip: each belongs to the batch and is dead. `found` holds the jobs of the batch, read
/// under the row lock. Returns the jobs without duplicates, in the order of their ids.
pub fn check_selection(asked: &[JobId], found: &[(JobId, JobState)]) -> Result<Vec<JobId>, BadSelection> {
    if asked.is_empty() {
        return Err(BadSelection::Empty);
    }
    if asked.len() > BATCH_SELECTION_MAX {
        return Err(BadSelection::TooMany);
    }
    let mut jobs = asked.to_vec();
    jobs.sort_unstable();
    jobs.dedup();
    for job in &jobs {
        match found.iter().find(|(id, _)| id == job) {
            None => return Err(BadSelection::Foreign(*job)),
            Some((_, JobState::Dead)) => {}
            Some(_) => return Err(BadSelection::NotDead(*job)),
        }
    }
    Ok(jobs)
}

/// Checks a prefix: with the longest suffix it still has to be a valid name.
pub fn prefix(text: &str) -> Result<Name, BadName> {
    let longest = Announcement::Completed.suffix();
    if text.len() + longest.len() > NAME_CHARS_MAX { Err(BadName::TooLong) } else { text.parse() }
}

impl Announcement {
    /// Event type of the announcing message.
    pub fn event_type(self, prefix: &Name) -> Result<Name, BadName> {
        format!("{prefix}{}", self.suffix()).parse()
    }

    /// Event id of the announcing message. Every transaction that might announce uses the same id, so the message is
    /// accepted once.
    pub fn event_id(self, batch: BatchId, phase: u32) -> Result<Name, BadName> {
        format!("{batch}.{phase}{}", self.suffix()).parse()
    }

    const fn suffix(self) -> &'static str {
        match self {
            Announcement::Failed => ".failed",
            Announcement::Completed => ".completed",
        }
    }
}

/// JSON payload of the announcing message.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    pub batch_id: BatchId,
    pub name: String,
    pub phase: u32,
    pub counts: BatchCounts,
    pub metadata: Metadata,
    /// The first `BATCH_FAILED_LISTED_MAX` dead jobs; `counts.dead` is the total.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedJob>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedJob {
    pub id: JobId,
    pub name: Option<String>,
    pub kind: Name,
    /// Error of the last attempt.
    pub error: String,
    pub failed_at: Timestamp,
    pub metadata: Metadata,
}

impl Notice {
    /// Returns the payload with bounded size: the list of dead jobs and their errors are cut.
    pub fn to_json(mut self) -> String {
        /// Keeps a full list well below the largest body.
        const ERROR_BYTES: usize = 1024;
        self.failed.truncate(BATCH_FAILED_LISTED_MAX);
        for job in &mut self.failed {
            job.error.truncate(job.error.floor_char_boundary(ERROR_BYTES));
        }
        serde_json::to_string(&self).unwrap_or_else(|_| "{}".to_owned())
    }
}

#[cfg(test)]
mod tests;
