//! Jobs: units of work on a queue.
//!
//! The record of a job stays; its task is leased. The lane of the task is the queue with the concurrency key.
//! `lifecycle` decides what follows an attempt, as for deliveries, but with the job's own retry policy. This module
//! holds the rules of a job's fields, the fencing of worker reports, and the commands of operators. The API validates
//! with it; the stores trust validated values.

use std::time::Duration;

use bytes::Bytes;

use crate::id::{BatchId, EnvironmentId, Id, JobId, LaneId, ScheduleId, SessionId};
use crate::lifecycle::EndState;
use crate::limits::{
    JOB_ATTEMPTS_DEFAULT, JOB_BACKOFF_BASE, JOB_BACKOFF_CAP, JOB_DELAY_MAX, JOB_KEY_BYTES_MAX, JOB_NAME_BYTES_MAX,
    JOB_TAGS_MAX, JOB_TIMEOUT_DEFAULT, JOB_TIMEOUT_MAX, JOB_TIMEOUT_MIN, JOB_UNIQUE_WINDOW_MAX,
};
use crate::message::{BadPayload, check_depth};
use crate::name::{BadText, Metadata, MetadataTooLarge, Name, check_metadata, check_text};
use crate::outcome::Class;
use crate::retry::{Backoff, RetryPolicy};
use crate::task::{PRIORITY_DEFAULT, TaskState, stored_as};
use crate::time::Timestamp;

pub mod report;

/// The record of a job. Only its run time can change later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The subject of its tasks.
    pub id: JobId,
    /// The queue on which the job waits.
    pub queue: Name,
    /// Selects the handler.
    pub kind: Name,
    /// Display name; need not be unique.
    pub name: Option<String>,
    /// Any JSON value; `None` after its removal.
    pub payload: Option<Bytes>,
    /// Order among due jobs of one lane.
    pub priority: Priority,
    /// Number of attempts, and the delays between them.
    pub retry: RetryPolicy,
    /// Time limit of one attempt.
    pub timeout: Duration,
    /// Uniqueness: only one job is accepted per key and window.
    pub unique: Option<Unique>,
    /// Jobs with the same key share a limit.
    pub concurrency_key: Option<String>,
    /// Labels to find the job by.
    pub tags: Vec<Name>,
    /// Stored and shown, never interpreted.
    pub metadata: Metadata,
    /// The batch that counts the result of the job.
    pub batch: Option<BatchId>,
    /// The schedule that created the job.
    pub schedule: Option<ScheduleId>,
}

/// 0 is the highest priority, 9 the lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority(i16);

/// A key that is accepted once per window, environment and queue. The first insert wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unique {
    /// Any text of 1 to 256 bytes.
    pub key: String,
    /// The time for which the key is taken, from the insert on, even if the job ends earlier.
    pub window: Duration,
}

/// The earliest start of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RunAt {
    /// As soon as capacity is free.
    #[default]
    Now,
    /// Not before this time. A time in the past means now.
    At(Timestamp),
    /// Not before this duration has passed.
    In(Duration),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobState {
    /// Waiting for its time, for capacity or for a retry.
    Pending,
    Leased,
    Succeeded,
    /// Out of attempts or given up. A retry is possible.
    Dead,
    /// Ended by request; not a failure.
    Cancelled,
}

stored_as!(JobState { Pending = 0, Leased = 1, Dead = 2, Succeeded = 3, Cancelled = 4 });

/// The broken rule of a job; [`BadJob::field`] returns the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadJob {
    #[error("must be 0 to 9")]
    Priority,
    #[error("must be {} to {} seconds", JOB_TIMEOUT_MIN.as_secs(), JOB_TIMEOUT_MAX.as_secs())]
    Timeout,
    #[error("must be at most {} days ahead", JOB_DELAY_MAX.as_secs() / 86_400)]
    RunAt,
    #[error("must be 1 to {} seconds", JOB_UNIQUE_WINDOW_MAX.as_secs())]
    UniqueWindow,
    #[error("must have 1 to {JOB_KEY_BYTES_MAX} bytes and no control characters")]
    UniqueKey,
    #[error("must have 1 to {JOB_KEY_BYTES_MAX} bytes and no control characters")]
    ConcurrencyKey,
    #[error("must have at most {JOB_NAME_BYTES_MAX} bytes and no control characters")]
    Name,
    #[error("must have at most {JOB_TAGS_MAX} entries")]
    Tags,
    #[error(transparent)]
    Metadata(#[from] MetadataTooLarge),
    #[error(transparent)]
    Payload(#[from] BadPayload),
}

impl Job {
    /// A job with default options.
    pub fn new(id: JobId, queue: Name, kind: Name, payload: Bytes) -> Job {
        Job {
            id,
            queue,
            kind,
            name: None,
            payload: Some(payload),
            priority: Priority::default(),
            retry: default_retry(),
            timeout: JOB_TIMEOUT_DEFAULT,
            unique: None,
            concurrency_key: None,
            tags: Vec::new(),
            metadata: Metadata::new(),
            batch: None,
            schedule: None,
        }
    }

    /// Checks every rule. The payload is already known to be valid JSON.
    pub fn check(&self) -> Result<(), BadJob> {
        if !(JOB_TIMEOUT_MIN..=JOB_TIMEOUT_MAX).contains(&self.timeout) {
            return Err(BadJob::Timeout);
        }
        if self.name.as_deref().is_some_and(|name| name.len() > JOB_NAME_BYTES_MAX || check_text(name) == Err(BadText))
        {
            return Err(BadJob::Name);
        }
        if self.concurrency_key.as_deref().is_some_and(|key| !is_key(key)) {
            return Err(BadJob::ConcurrencyKey);
        }
        if let Some(unique) = &self.unique {
            if !is_key(&unique.key) {
                return Err(BadJob::UniqueKey);
            }
            if unique.window < Duration::from_secs(1) || unique.window > JOB_UNIQUE_WINDOW_MAX {
                return Err(BadJob::UniqueWindow);
            }
        }
        if self.tags.len() > JOB_TAGS_MAX {
            return Err(BadJob::Tags);
        }
        if let Some(Ok(json)) = self.payload.as_deref().map(std::str::from_utf8) {
            check_depth(json)?;
        }
        Ok(check_metadata(&self.metadata)?)
    }

    pub fn lane(&self, environment: EnvironmentId) -> LaneId {
        lane(environment, &self.queue, self.concurrency_key.as_deref())
    }
}

/// Returns the lane of a queue, or of one concurrency key within it.
///
/// The id is derived, not random, so that every producer computes the same lane without a look-up. It includes the
/// environment, because a node counts slots by lane alone. The first part separates lanes from other derived ids, and a
/// lane without a key from a lane with an empty key.
pub fn lane(environment: EnvironmentId, queue: &Name, concurrency_key: Option<&str>) -> LaneId {
    let environment = environment.0.to_be_bytes();
    let queue = queue.as_str().as_bytes();
    LaneId(match concurrency_key {
        None => Id::derived(&[b"queue", &environment, queue]),
        Some(key) => Id::derived(&[b"queue key", &environment, queue, key.as_bytes()]),
    })
}

/// Ten attempts: 5 s, then doubling, at most one hour.
fn default_retry() -> RetryPolicy {
    let backoff = Backoff::Exponential { base: JOB_BACKOFF_BASE, cap: JOB_BACKOFF_CAP };
    RetryPolicy::with(backoff, JOB_ATTEMPTS_DEFAULT).expect("the defaults are within the limits")
}

fn is_key(text: &str) -> bool {
    !text.is_empty() && text.len() <= JOB_KEY_BYTES_MAX && check_text(text).is_ok()
}

impl Priority {
    /// Checks that the number is 0 to 9.
    pub fn new(number: i64) -> Result<Priority, BadJob> {
        i16::try_from(number).ok().filter(|number| (0..=9).contains(number)).map(Priority).ok_or(BadJob::Priority)
    }

    /// The number in the task row.
    pub const fn get(self) -> i16 {
        self.0
    }
}

impl Default for Priority {
    fn default() -> Priority {
        Priority(PRIORITY_DEFAULT)
    }
}

impl RunAt {
    /// Returns the due time of a task inserted at `now`.
    pub fn due_at(self, now: Timestamp) -> Result<Timestamp, BadJob> {
        let due_at = match self {
            RunAt::Now => now,
            RunAt::At(at) => at.max(now),
            RunAt::In(span) => now.plus(span),
        };
        if due_at.since(now) > JOB_DELAY_MAX { Err(BadJob::RunAt) } else { Ok(due_at) }
    }
}

impl BadJob {
    /// The field, as the API names it.
    pub const fn field(self) -> &'static str {
        match self {
            BadJob::Priority => "priority",
            BadJob::Timeout => "timeoutSeconds",
            BadJob::RunAt => "runAt",
            BadJob::UniqueWindow => "uniqueSeconds",
            BadJob::UniqueKey => "uniqueKey",
            BadJob::ConcurrencyKey => "concurrencyKey",
            BadJob::Name => "name",
            BadJob::Tags => "tags",
            BadJob::Metadata(_) => "metadata",
            BadJob::Payload(_) => "payload",
        }
    }
}

impl From<TaskState> for JobState {
    fn from(state: TaskState) -> JobState {
        match state {
            TaskState::Pending => JobState::Pending,
            TaskState::Leased => JobState::Leased,
            TaskState::Dead => JobState::Dead,
        }
    }
}

impl From<EndState> for JobState {
    fn from(end: EndState) -> JobState {
        match end {
            EndState::Open => JobState::Pending,
            EndState::Succeeded => JobState::Succeeded,
            EndState::Dead => JobState::Dead,
            EndState::Cancelled => JobState::Cancelled,
        }
    }
}

/// A command of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorCommand {
    Cancel,
    /// Run now; a dead job gets fresh tries.
    Retry,
    RunAt(RunAt),
    /// Delete record, attempts and task.
    Delete,
}

/// The action that carries out a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobAction {
    /// Delete the task; the job ends as cancelled.
    Cancel,
    /// Change the due time of the task.
    Reschedule(RunAt),
    /// Delete task, attempts and record.
    Delete,
    /// Flag the task. The holder learns of it with the next heartbeat; the next settle or reclaim ends the job.
    RequestCancel,
    /// Make the task due now.
    RunNow,
    /// Return the task to pending with fresh tries. In a batch, a new phase opens first.
    Redrive,
    /// The job is already in the requested state.
    Nothing,
    /// The state does not allow the command: a conflict.
    Refuse,
}

impl JobState {
    /// Decides the action for a command on a job in this state.
    pub const fn on(self, command: OperatorCommand) -> JobAction {
        match (command, self) {
            (OperatorCommand::Cancel, JobState::Pending | JobState::Dead) => JobAction::Cancel,
            (OperatorCommand::Cancel, JobState::Leased) => JobAction::RequestCancel,
            (OperatorCommand::Cancel, JobState::Cancelled) => JobAction::Nothing,
            (OperatorCommand::Cancel, JobState::Succeeded) => JobAction::Refuse,
            (OperatorCommand::Retry, JobState::Pending) => JobAction::RunNow,
            (OperatorCommand::Retry, JobState::Dead) => JobAction::Redrive,
            (OperatorCommand::Retry, JobState::Leased) => JobAction::Nothing,
            (OperatorCommand::Retry, JobState::Succeeded | JobState::Cancelled) => JobAction::Refuse,
            (OperatorCommand::RunAt(at), JobState::Pending) => JobAction::Reschedule(at),
            (OperatorCommand::RunAt(_), _) => JobAction::Refuse,
            // A running worker needs the record to report its result.
            (OperatorCommand::Delete, JobState::Leased) => JobAction::Refuse,
            (OperatorCommand::Delete, _) => JobAction::Delete,
        }
    }
}

/// Hash of a kind, stored in the task row: a worker with a filter by kind finds its tasks without reading the records
/// of others. Hashes may collide, so the record decides.
pub fn kind_hash(kind: &Name) -> i32 {
    let [a, b, c, d, ..] = *Id::derived(&[b"kind", kind.as_str().as_bytes()]).as_bytes();
    i32::from_be_bytes([a, b, c, d])
}

/// The proof of a lease: holder and fencing number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseProof {
    pub session: SessionId,
    pub epoch: u32,
}

/// Why a worker's report is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseLost {
    #[error("the job is not running")]
    NotRunning,
    /// Another worker holds the job, or the same worker under a later lease.
    #[error("the job is leased by another worker, or again by this worker: the lease of this report has expired")]
    Lost,
}

/// Checks that a report comes from the current lease holder.
pub fn check_lease_proof(held_by: Option<LeaseProof>, said_by: LeaseProof) -> Result<(), LeaseLost> {
    match held_by {
        None => Err(LeaseLost::NotRunning),
        Some(holder) if holder != said_by => Err(LeaseLost::Lost),
        Some(_) => Ok(()),
    }
}

/// Counts the tries of an ended job from its attempts, newest first. Attempts before the last redrive do not count.
pub fn tries_of(attempts: impl IntoIterator<Item = (Class, EndState)>) -> u32 {
    let (mut tries, mut was_redriven) = (0, false);
    for (class, end) in attempts {
        if was_redriven && end == EndState::Dead {
            break;
        }
        // The cancellation of a dead job is recorded as an attempt, but is no redrive.
        was_redriven |= class != Class::Cancelled;
        // These classes use no try, as in `lifecycle::decide`. A push target that answers 410 stops its queue and uses
        // none.
        let is_free =
            matches!(class, Class::Abandoned | Class::Interrupted | Class::Cancelled | Class::Snoozed | Class::Gone);
        tries += u32::from(!is_free);
    }
    tries
}

#[cfg(test)]
mod tests;
