//! Batches: a set of jobs, and what is announced of it, once per phase.
//!
//! Pure. A store locks the batch's row, adds up what one transaction does to the batch's jobs, applies it here, and writes the row and the
//! announcement in that same transaction. It does so whoever ends a job: a handler, a timeout, a sweep, an operator. The lock is what makes it
//! one announcement when two replicas end the last two jobs at the same instant; rows are locked in the order of their ids.
//!
//! ```text
//! phase n:  ── a job dies ──────────────────────────► <prefix>.failed      (also while the batch is open)
//!           ── sealed, nothing pending, none dead ──► <prefix>.completed
//!           ── dead jobs are retried, skipped or cancelled ─► phase n + 1, nothing announced yet
//! ```
//!
//! A phase announces one of the two at most. Every way by which a dead job stops being dead opens a new phase, or what follows would be silent.

use serde::Serialize;

use crate::id::{BatchId, JobId};
use crate::job::JobState;
use crate::limits::{BATCH_FAILED_LISTED_MAX, BATCH_SELECTION_MAX, NAME_CHARS_MAX};
use crate::name::{BadName, Metadata, Name};
use crate::task::stored_as;
use crate::time::Timestamp;

/// Where a batch stands; what a store keeps of it besides its name, application, prefix and metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Whether jobs can be added.
    pub intake: Intake,
    /// Counted from 1.
    pub phase: u32,
    /// What this phase has announced.
    pub announced: Option<Announcement>,
    /// Its jobs by what became of them.
    pub counts: Counts,
}

/// Whether jobs can be added to a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intake {
    /// They can.
    Open,
    /// All are there.
    Sealed,
}

stored_as!(Intake { Open = 0, Sealed = 1 });

/// The jobs of a batch by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Waiting or leased.
    pub pending: u32,
    /// Done.
    pub succeeded: u32,
    /// Given up, waiting for someone.
    pub dead: u32,
    /// Ended on request.
    pub cancelled: u32,
    /// Given up, and left at that.
    pub skipped: u32,
}

/// What is announced of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announcement {
    /// A job died.
    Failed,
    /// All jobs succeeded, or were skipped or cancelled.
    Completed,
}

stored_as!(Announcement { Failed = 0, Completed = 1 });

/// What one transaction does to the jobs of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// So many were added, pending.
    Added(u32),
    /// So many that were pending have ended.
    Ended(Ended),
    /// There will be no more.
    Sealed,
    /// So many that were dead are so no more.
    Resolved {
        /// How many.
        jobs: u32,
        /// What they are now.
        how: Resolution,
    },
}

/// Jobs that ended, by how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Done.
    pub succeeded: u32,
    /// Given up.
    pub dead: u32,
    /// Ended on request.
    pub cancelled: u32,
}

impl std::ops::AddAssign for Ended {
    /// Adds up what one transaction has ended; no transaction ends as many as could not be counted.
    fn add_assign(&mut self, other: Ended) {
        self.succeeded += other.succeeded;
        self.dead += other.dead;
        self.cancelled += other.cancelled;
    }
}

/// What became of dead jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// They are pending again, by a retry of the batch, of the job or a redrive.
    Retried,
    /// The batch goes on without them.
    Skipped,
    /// They were cancelled or deleted.
    Cancelled,
}

/// A change, applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// What to keep.
    pub batch: Batch,
    /// What to announce, in the same transaction.
    pub announce: Option<Announcement>,
}

/// Why a change was not applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadChange {
    /// Jobs cannot be added any more: a conflict.
    #[error("the batch is sealed")]
    Sealed,
    /// No jobs to retry or to skip.
    #[error("at least one job must be named")]
    Empty,
    /// More jobs than there are in that state: the row is corrupt.
    #[error("the counts of the batch do not add up")]
    Corrupt,
}

impl Batch {
    /// A batch without jobs.
    pub const fn new() -> Batch {
        let counts = Counts { pending: 0, succeeded: 0, dead: 0, cancelled: 0, skipped: 0 };
        Batch { intake: Intake::Open, phase: 1, announced: None, counts }
    }

    /// Applies a change and says what it makes of the batch. A seal can be repeated; nothing else can, so that a store applies
    /// only what it has just done to the rows of jobs.
    pub fn apply(&self, change: Change) -> Result<Applied, BadChange> {
        let mut batch = *self;
        let deaths = match change {
            Change::Added(_) if self.intake == Intake::Sealed => return Err(BadChange::Sealed),
            Change::Added(jobs) => {
                add(&mut batch.counts.pending, jobs)?;
                0
            }
            Change::Ended(ended) => {
                batch.end(ended)?;
                ended.dead
            }
            Change::Sealed => {
                batch.intake = Intake::Sealed;
                0
            }
            Change::Resolved { jobs: 0, .. } => return Err(BadChange::Empty),
            Change::Resolved { jobs, how } => {
                batch.resolve(jobs, how)?;
                0
            }
        };
        let announce = batch.verdict(deaths);
        batch.announced = batch.announced.or(announce);
        Ok(Applied { batch, announce })
    }

    fn end(&mut self, ended: Ended) -> Result<(), BadChange> {
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
        self.announced = None;
        add(&mut self.phase, 1)
    }

    /// What this phase has to announce now.
    fn verdict(&self, deaths: u32) -> Option<Announcement> {
        if self.announced.is_some() {
            return None;
        }
        let is_over = self.intake == Intake::Sealed && self.counts.pending == 0;
        match self.counts.dead {
            // Those that died in an earlier phase were announced then.
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

/// Why jobs of a batch cannot be retried or skipped: nothing is changed, and no phase opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSelection {
    /// No jobs were named.
    #[error("at least one job must be named")]
    Empty,
    /// More than one call takes.
    #[error("at most {BATCH_SELECTION_MAX} jobs can be named")]
    TooMany,
    /// One that this batch does not have.
    #[error("job {0} is not in this batch")]
    Foreign(JobId),
    /// One that has not failed.
    #[error("job {0} is not dead")]
    NotDead(JobId),
}

/// Accepts jobs to retry or to skip: each once, all of this batch, all dead. `found` are those of them that are in the batch, read
/// under its lock.
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

/// A prefix, which leaves room for what is put behind it.
pub fn prefix(text: &str) -> Result<Name, BadName> {
    let longest = Announcement::Completed.suffix();
    if text.len() + longest.len() > NAME_CHARS_MAX { Err(BadName::TooLong) } else { text.parse() }
}

impl Announcement {
    /// The type of the message that announces it.
    pub fn event_type(self, prefix: &Name) -> Result<Name, BadName> {
        format!("{prefix}{}", self.suffix()).parse()
    }

    /// The event id of the message: the same for every transaction that might announce it.
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

/// The payload of an announcement.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    /// The batch.
    pub batch_id: BatchId,
    /// Its name.
    pub name: String,
    /// Its phase.
    pub phase: u32,
    /// Its jobs by what became of them.
    pub counts: Counts,
    /// Its metadata.
    pub metadata: Metadata,
    /// The jobs that are dead; at most `BATCH_FAILED_LISTED_MAX`, and `counts.dead` says how many there are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedJob>,
}

/// A dead job in an announcement.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedJob {
    /// Its id.
    pub id: JobId,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Which handler took it.
    pub kind: Name,
    /// What its last attempt said.
    pub error: String,
    /// When it died.
    pub failed_at: Timestamp,
    /// Its metadata.
    pub metadata: Metadata,
}

impl Notice {
    /// The bytes of the message: bounded, however many jobs have died and whatever they said.
    pub fn to_json(mut self) -> String {
        /// Of each error, so that a full list stays well below the largest body.
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
