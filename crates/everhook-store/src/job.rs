//! Jobs: the types for enqueueing, finding and steering them.
//!
//! A job is a record that is written once, and a task on the lane of its queue and concurrency key. The state of a job
//! is the state of its open task, or the end of its last attempt if no task is open. Leasing and settling are in
//! [`lease`](crate::lease). Every way to end a job of a batch, that is settle, cancel, retry and delete, updates the
//! batch in the same transaction.

use std::time::Duration;

use bytes::Bytes;
use everhook_core::exchange::Exchange;
use everhook_core::id::{AttemptId, BatchId, EnvironmentId, JobId, SessionId, TaskId};
use everhook_core::job::report::{KeptResult, Progress};
use everhook_core::job::{Job, JobState, LeaseProof, RunAt};
use everhook_core::lifecycle::EndState;
use everhook_core::limits::{ID_SKEW_MAX, JOB_DELAY_MAX, SCAN_ROWS_MAX};
use everhook_core::name::Name;
use everhook_core::outcome::Class;
use everhook_core::task::{Task, TaskKey, TaskKind, TaskState};
use everhook_core::time::Timestamp;

use crate::append::KeyHolder;
use crate::catalog::{Order, Slice};
use crate::dedup::{DedupKey, DedupScope};
use crate::lease::Holding;
use crate::piece::IdRange;

pub mod encoding;

#[derive(Clone, Debug)]
pub struct NewJob {
    pub environment: EnvironmentId,
    /// The job; the caller has checked all rules.
    pub job: Job,
    /// The time to run. A time too far ahead becomes the latest that is allowed.
    pub run_at: RunAt,
    /// The request's idempotency key. The store adds the key of a unique job itself.
    pub key: Option<DedupKey>,
}

/// The result of enqueueing one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Enqueued {
    Accepted {
        /// The time of acceptance.
        created_at: Timestamp,
        /// The time from which it may run.
        due_at: Timestamp,
    },
    /// The same request, or a job with the same unique key, was accepted earlier as this job.
    Existing(JobId),
    /// The idempotency key was used with another body.
    KeyReused,
    /// The batch does not exist.
    NoBatch,
    /// The batch is sealed and takes no more jobs.
    BatchSealed,
}

/// Progress of a job, as its holder reports it.
#[derive(Clone, Debug)]
pub struct ProgressReport {
    pub job: JobId,
    pub by: LeaseProof,
    pub progress: Progress,
}

/// A job as users see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRecord {
    pub job: Job,
    pub created_at: Timestamp,
    pub state: JobState,
    /// The task; none once the job has ended.
    pub open: Option<OpenTask>,
    /// The last progress that its worker reported.
    pub progress: Option<Progress>,
    /// The result that its worker reported.
    pub result: Option<KeptResult>,
    pub last: Option<JobAttempt>,
}

impl JobRecord {
    /// Returns the current lease, if a holder has the job.
    pub fn lease(&self) -> Option<LeaseProof> {
        let open = self.open?;
        Some(LeaseProof { session: open.holder?.session, epoch: open.task.epoch })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenTask {
    pub task: Task,
    pub state: TaskState,
    pub holder: Option<Holding>,
}

/// One attempt of a job, as users see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobAttempt {
    pub id: AttemptId,
    /// A job that an operator retries keeps its task.
    pub task: TaskId,
    pub epoch: u32,
    pub session: SessionId,
    pub class: Class,
    pub end: EndState,
    /// The HTTP status of a push; 0 if the receiver sent none.
    pub status: u16,
    /// The worker's report: a `core::job::report::Note`, or plain text.
    pub note: Bytes,
    pub started_at: Timestamp,
    pub duration: Duration,
    /// The steps of a push; none for other attempts.
    pub exchange: Option<Exchange>,
}

#[derive(Clone, Debug)]
pub struct JobFilter {
    pub slice: Slice<JobId>,
    pub queue: Option<Name>,
    pub state: Option<JobState>,
    pub kind: Option<Name>,
    pub tag: Option<Name>,
    pub batch: Option<BatchId>,
    /// Accepted before this time.
    pub before: Option<Timestamp>,
    /// Accepted at this time or later.
    pub after: Option<Timestamp>,
    /// Jobs whose last attempt's report contains this text, ignoring case.
    pub error: Option<String>,
    /// The most rows that are read and compared with the filter.
    pub scan: usize,
}

impl JobFilter {
    /// Selects every job of the slice.
    pub fn all(slice: Slice<JobId>) -> JobFilter {
        JobFilter {
            slice,
            queue: None,
            state: None,
            kind: None,
            tag: None,
            batch: None,
            before: None,
            after: None,
            error: None,
            scan: SCAN_ROWS_MAX,
        }
    }

    /// Whether the search may read rows that it does not return. Indexes find only dead jobs and jobs of a batch
    /// directly.
    pub fn is_selective(&self) -> bool {
        let names_rows = match (self.state, self.batch) {
            (None, _) | (Some(JobState::Dead), None) => false,
            (Some(_), _) => true,
        };
        names_rows
            || self.queue.is_some()
            || self.kind.is_some()
            || self.tag.is_some()
            || self.before.is_some()
            || self.after.is_some()
            || self.error.is_some()
    }

    /// Returns the range of ids that the list can contain.
    pub fn range(&self) -> IdRange {
        let beyond = IdRange::beyond(self.slice.after.map(|id| id.0), self.slice.order);
        beyond.between(self.after, self.before, (ID_SKEW_MAX, ID_SKEW_MAX))
    }

    /// Whether a job matches the filter.
    pub fn wants(&self, record: &JobRecord) -> bool {
        let says = |text: &String| {
            let note = record.last.as_ref().map(|last| String::from_utf8_lossy(&last.note).to_lowercase());
            note.is_some_and(|note| note.contains(&text.to_lowercase()))
        };
        let beyond = match (self.slice.after, self.slice.order) {
            (None, _) => true,
            (Some(after), Order::Ascending) => record.job.id > after,
            (Some(after), Order::Descending) => record.job.id < after,
        };
        beyond
            && self.queue.as_ref().is_none_or(|queue| record.job.queue == *queue)
            && self.state.is_none_or(|state| record.state == state)
            && self.kind.as_ref().is_none_or(|kind| record.job.kind == *kind)
            && self.tag.as_ref().is_none_or(|tag| record.job.tags.contains(tag))
            && self.batch.is_none_or(|batch| record.job.batch == Some(batch))
            && self.before.is_none_or(|before| record.created_at < before)
            && self.after.is_none_or(|after| record.created_at >= after)
            && self.error.as_ref().is_none_or(says)
    }
}

/// Returns the bytes of a job that count towards the size of a page.
pub fn job_bytes(record: &JobRecord) -> usize {
    let result = match &record.result {
        Some(KeptResult::Whole(json)) => json.len(),
        Some(KeptResult::TooLarge { .. }) | None => 0,
    };
    let exchange = |last: &JobAttempt| last.exchange.as_ref().map_or(0, Exchange::bytes);
    let note = record.last.as_ref().map_or(0, |last| last.note.len() + exchange(last));
    let metadata = record.job.metadata.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
    result + note + metadata
}

/// Returns the keys under which a job is accepted once.
pub fn keys_of(new: &NewJob) -> Vec<DedupKey> {
    let unique = new.job.unique.as_ref().map(|unique| DedupKey::unique_job(&new.job.queue, unique));
    new.key.iter().cloned().chain(unique).collect()
}

/// Returns the answer to a job if one of its keys was used before. `taken` lists the used keys with their holders.
pub fn judge(taken: &[(&DedupKey, KeyHolder)]) -> Option<Enqueued> {
    // The request's key goes first: a repeated request also repeats its unique key.
    let request = taken.iter().find(|(key, _)| key.scope == DedupScope::Idempotency);
    if request.is_some_and(|(key, holder)| key.body != holder.body) {
        return Some(Enqueued::KeyReused);
    }
    request.or(taken.first()).map(|(_, holder)| Enqueued::Existing(JobId(holder.object)))
}

/// Returns the time from which a job may run. A time too far ahead becomes the latest that is allowed.
pub fn due_at(run_at: RunAt, now: Timestamp) -> Timestamp {
    run_at.due_at(now).unwrap_or(now.plus(JOB_DELAY_MAX))
}

/// Returns the row of a job before its first lease.
pub fn new_task(environment: EnvironmentId, job: &Job, id: TaskId, due_at: Timestamp) -> Task {
    let key = TaskKey { environment, subject: job.id.0, id };
    let task = Task::new(key, job.lane(environment), TaskKind::Job, due_at);
    Task { priority: job.priority.get(), batch: job.batch, ..task }
}

/// Returns the state of a job: that of its open task, or else the end of its last attempt.
pub fn state_of(open: Option<TaskState>, last: Option<EndState>) -> JobState {
    match (open, last) {
        (Some(state), _) => state.into(),
        (None, Some(end)) => end.into(),
        // Retention has removed the attempts, and it removes only those of jobs that ended.
        (None, None) => JobState::Succeeded,
    }
}
