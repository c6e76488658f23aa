//! A job: a unit of work on a queue.
//!
//! The record of a job stays; what is leased is its task, whose lane is its queue and concurrency key. What follows an attempt is
//! decided by `lifecycle`, as for deliveries: a job only has its own retry policy. Here are the rules a job has to keep, what its
//! worker may say, and what an operator may ask for. The API validates with these, the stores trust what got through.

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

/// What was asked for; nothing of it changes afterwards but the run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its id: the subject of its tasks.
    pub id: JobId,
    /// Where it waits.
    pub queue: Name,
    /// Which handler takes it.
    pub kind: Name,
    /// A text for people.
    pub name: Option<String>,
    /// JSON, of any kind; none once it was removed.
    pub payload: Option<Bytes>,
    /// Where it goes among those that are due.
    pub priority: Priority,
    /// When it is tried again.
    pub retry: RetryPolicy,
    /// How long one attempt may take.
    pub timeout: Duration,
    /// Only one job is accepted under this.
    pub unique: Option<Unique>,
    /// Jobs with the same one share a limit.
    pub concurrency_key: Option<String>,
    /// For finding it again.
    pub tags: Vec<Name>,
    /// Never interpreted.
    pub metadata: Metadata,
    /// The set it belongs to.
    pub batch: Option<BatchId>,
    /// What created it, by the clock.
    pub schedule: Option<ScheduleId>,
}

/// 0 goes first, 9 last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority(i16);

/// The key under which only one job is accepted within a window: the first insert wins. Its scope is the environment and the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unique {
    /// Any text.
    pub key: String,
    /// How long it counts, from the insert on; whatever becomes of the job.
    pub window: Duration,
}

/// When a job may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RunAt {
    /// As soon as there is room.
    #[default]
    Now,
    /// Not before this. One that has passed is now.
    At(Timestamp),
    /// Not before this has passed.
    In(Duration),
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobState {
    /// It waits: for its time, for room, or for another attempt.
    Pending,
    /// A worker has it.
    Leased,
    /// Done.
    Succeeded,
    /// Out of attempts or given up; can be retried.
    Dead,
    /// Ended on request. Not a failure.
    Cancelled,
}

stored_as!(JobState { Pending = 0, Leased = 1, Dead = 2, Succeeded = 3, Cancelled = 4 });

/// Which rule a job does not keep; `field` says in which part of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadJob {
    /// Outside 0 to 9.
    #[error("must be 0 to 9")]
    Priority,
    /// Too short or too long.
    #[error("must be {} to {} seconds", JOB_TIMEOUT_MIN.as_secs(), JOB_TIMEOUT_MAX.as_secs())]
    Timeout,
    /// Too far ahead.
    #[error("must be at most {} days ahead", JOB_DELAY_MAX.as_secs() / 86_400)]
    RunAt,
    /// No window, or one that is too long.
    #[error("must be 1 to {} seconds", JOB_UNIQUE_WINDOW_MAX.as_secs())]
    UniqueWindow,
    /// A key that cannot be kept.
    #[error("must have 1 to {JOB_KEY_BYTES_MAX} bytes and no control characters")]
    UniqueKey,
    /// A key that cannot be kept.
    #[error("must have 1 to {JOB_KEY_BYTES_MAX} bytes and no control characters")]
    ConcurrencyKey,
    /// A name that cannot be kept.
    #[error("must have at most {JOB_NAME_BYTES_MAX} bytes and no control characters")]
    Name,
    /// More than anyone needs.
    #[error("must have at most {JOB_TAGS_MAX} entries")]
    Tags,
    /// Over its limit.
    #[error(transparent)]
    Metadata(#[from] MetadataTooLarge),
    /// Deeper than parsers can be trusted with.
    #[error(transparent)]
    Payload(#[from] BadPayload),
}

impl Job {
    /// A job that says nothing but what is to be done.
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

    /// Accepts a job that keeps all rules. Its payload is known to be valid JSON.
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

    /// Its fairness key.
    pub fn lane(&self, environment: EnvironmentId) -> LaneId {
        lane(environment, &self.queue, self.concurrency_key.as_deref())
    }
}

/// The lane of a queue, or of one concurrency key of it.
///
/// Derived and not drawn, so that whoever enqueues knows the lane without asking. The environment is part of it, because a node counts
/// its slots by lane alone. The first part keeps it apart from everything else that is derived; the third from a key that is empty.
pub fn lane(environment: EnvironmentId, queue: &Name, concurrency_key: Option<&str>) -> LaneId {
    let environment = environment.0.to_be_bytes();
    let queue = queue.as_str().as_bytes();
    LaneId(match concurrency_key {
        None => Id::derived(&[b"queue", &environment, queue]),
        Some(key) => Id::derived(&[b"queue key", &environment, queue, key.as_bytes()]),
    })
}

/// Ten attempts; 5 s, then twice as long each time, an hour at most.
fn default_retry() -> RetryPolicy {
    let backoff = Backoff::Exponential { base: JOB_BACKOFF_BASE, cap: JOB_BACKOFF_CAP };
    RetryPolicy::with(backoff, JOB_ATTEMPTS_DEFAULT).expect("the defaults are within the limits")
}

fn is_key(text: &str) -> bool {
    !text.is_empty() && text.len() <= JOB_KEY_BYTES_MAX && check_text(text).is_ok()
}

impl Priority {
    /// The priority of this number.
    pub fn new(number: i64) -> Result<Priority, BadJob> {
        i16::try_from(number).ok().filter(|number| (0..=9).contains(number)).map(Priority).ok_or(BadJob::Priority)
    }

    /// The number, as tasks carry it.
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
    /// The due time of a task that is written at `now`.
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
    /// The part of the request that is wrong, as the API names it.
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
    /// The state of a job whose task is open.
    fn from(state: TaskState) -> JobState {
        match state {
            TaskState::Pending => JobState::Pending,
            TaskState::Leased => JobState::Leased,
            TaskState::Dead => JobState::Dead,
        }
    }
}

impl From<EndState> for JobState {
    /// The state in which an attempt left its job.
    fn from(end: EndState) -> JobState {
        match end {
            EndState::Open => JobState::Pending,
            EndState::Succeeded => JobState::Succeeded,
            EndState::Dead => JobState::Dead,
            EndState::Cancelled => JobState::Cancelled,
        }
    }
}

/// What an operator asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// It is not to be done any more.
    Cancel,
    /// It is to be tried now; a dead one with fresh tries.
    Retry,
    /// It is to be due at another time.
    RunAt(RunAt),
    /// Nothing is to be left of it.
    Delete,
}

/// What it takes to do what an operator asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Its task leaves now, and the job is cancelled.
    End,
    /// Its task is due at the other time.
    Move(RunAt),
    /// Its task, its attempts and its record leave.
    Erase,
    /// Its task is flagged: whoever holds it learns at the next heartbeat, and the next settle or reclaim ends it.
    Flag,
    /// Its task is due now.
    Hasten,
    /// Its task goes back to pending with fresh tries; in a batch, a new phase opens first.
    Redrive,
    /// It is so already: nothing to do.
    Nothing,
    /// It cannot be done in this state: a conflict.
    Refuse,
}

impl JobState {
    /// What a wish does to a job in this state.
    pub const fn on(self, wish: Wish) -> Plan {
        match (wish, self) {
            (Wish::Cancel, JobState::Pending | JobState::Dead) => Plan::End,
            (Wish::Cancel, JobState::Leased) => Plan::Flag,
            (Wish::Cancel, JobState::Cancelled) => Plan::Nothing,
            (Wish::Cancel, JobState::Succeeded) => Plan::Refuse,
            (Wish::Retry, JobState::Pending) => Plan::Hasten,
            (Wish::Retry, JobState::Dead) => Plan::Redrive,
            (Wish::Retry, JobState::Leased) => Plan::Nothing,
            (Wish::Retry, JobState::Succeeded | JobState::Cancelled) => Plan::Refuse,
            (Wish::RunAt(at), JobState::Pending) => Plan::Move(at),
            (Wish::RunAt(_), _) => Plan::Refuse,
            // Whoever runs it would have nothing to report to.
            (Wish::Delete, JobState::Leased) => Plan::Refuse,
            (Wish::Delete, _) => Plan::Erase,
        }
    }
}

/// What tasks carry of a kind, so that a worker that takes only some kinds need not read the records of the others.
pub fn handler(kind: &Name) -> i32 {
    let [a, b, c, d, ..] = *Id::derived(&[b"kind", kind.as_str().as_bytes()]).as_bytes();
    i32::from_be_bytes([a, b, c, d])
}

/// Who has a job, and in which tenure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenure {
    /// The worker.
    pub session: SessionId,
    /// Its fencing number.
    pub epoch: u32,
}

/// Why what a worker says does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotYours {
    /// Nobody has it.
    #[error("the job is not running")]
    NotRunning,
    /// Someone else has it, or the same worker once more.
    #[error("the job is held by another worker, or was leased again since")]
    Lost,
}

/// Accepts what a worker says of a job that it holds.
pub fn check_tenure(held_by: Option<Tenure>, said_by: Tenure) -> Result<(), NotYours> {
    match held_by {
        None => Err(NotYours::NotRunning),
        Some(holder) if holder != said_by => Err(NotYours::Lost),
        Some(_) => Ok(()),
    }
}

/// How many tries a job took that has ended, by its attempts, newest first. Those before it was last put back with fresh tries do not count.
pub fn tries_of(attempts: impl IntoIterator<Item = (Class, EndState)>) -> u32 {
    let (mut tries, mut was_redriven) = (0, false);
    for (class, end) in attempts {
        if was_redriven && end == EndState::Dead {
            break;
        }
        // An operator who cancels a dead job has not put it back.
        was_redriven |= class != Class::Cancelled;
        // As `lifecycle::decide` has it for jobs, whose targets stop their queue when they answer 410.
        let is_free =
            matches!(class, Class::Abandoned | Class::Interrupted | Class::Cancelled | Class::Snoozed | Class::Gone);
        tries += u32::from(!is_free);
    }
    tries
}

#[cfg(test)]
mod tests;
