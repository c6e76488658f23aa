//! Jobs: enqueued, leased, found, steered; and what their workers say of them while they run.
//!
//! A job is a record that is written once, and a task on the lane of its queue and concurrency key. Where it stands is what its open task
//! says, or else how its last attempt ended. Leasing and settling are the lease engine's; whoever ends a job of a batch tells the
//! batch in the same transaction, whatever the way: settle, cancel, retry, delete.

use std::time::Duration;

use bytes::Bytes;
use everhook_core::id::{AttemptId, BatchId, EnvironmentId, JobId, SessionId, TaskId};
use everhook_core::job::report::{KeptResult, Progress};
use everhook_core::job::{Job, JobState, RunAt};
use everhook_core::lifecycle::EndState;
use everhook_core::limits::{ID_SKEW_MAX, JOB_DELAY_MAX, SCAN_ROWS_MAX};
use everhook_core::name::Name;
use everhook_core::outcome::Class;
use everhook_core::task::{Task, TaskKey, TaskKind, TaskState, Trigger};
use everhook_core::time::Timestamp;

use crate::append::KeyHolder;
use crate::catalog::{Order, Slice};
use crate::dedup::{DedupKey, DedupScope};
use crate::lease::Holding;
use crate::piece::IdRange;

pub mod encoding;

/// A job to enqueue.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// The tenant.
    pub environment: EnvironmentId,
    /// The job; it keeps all rules.
    pub job: Job,
    /// When it may run. Too far ahead is as far as is allowed.
    pub run_at: RunAt,
    /// The request's idempotency key. The key of a unique job is the store's to add.
    pub key: Option<DedupKey>,
}

/// What became of a job that was to be enqueued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Enqueued {
    /// Committed.
    Accepted {
        /// When it was accepted.
        created_at: Timestamp,
        /// When it is due.
        due_at: Timestamp,
    },
    /// The same request, or another with the same unique key, was accepted before, as this job.
    Existing(JobId),
    /// The idempotency key was used with another body.
    KeyReused,
    /// There is no such batch.
    NoBatch,
    /// Its batch takes no more.
    BatchSealed,
}

/// A job as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRecord {
    /// What was asked for.
    pub job: Job,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// Where it stands.
    pub state: JobState,
    /// Its task, unless that has left.
    pub open: Option<OpenTask>,
    /// How far its worker said it is.
    pub progress: Option<Progress>,
    /// What came out.
    pub result: Option<KeptResult>,
    /// Its latest attempt.
    pub last: Option<JobAttempt>,
}

/// An open task with its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenTask {
    /// The task.
    pub task: Task,
    /// Where it stands.
    pub state: TaskState,
    /// Who has it.
    pub holder: Option<Holding>,
}

/// One try of a job, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobAttempt {
    /// Its id.
    pub id: AttemptId,
    /// Of which task: a job that was retried by hand has the same one.
    pub task: TaskId,
    /// In which lease.
    pub epoch: u32,
    /// By whom.
    pub session: SessionId,
    /// How it ended.
    pub class: Class,
    /// How it left the task.
    pub end: EndState,
    /// The HTTP status of a push; 0 if none came.
    pub status: u16,
    /// What its worker said: a `core::job::report::Note`, or a plain text.
    pub note: Bytes,
    /// When it began.
    pub started_at: Timestamp,
    /// How long it took.
    pub duration: Duration,
}

/// Which jobs a list has.
#[derive(Clone, Debug)]
pub struct JobFilter {
    /// Which piece of the list.
    pub slice: Slice<JobId>,
    /// On this queue.
    pub queue: Option<Name>,
    /// In this state.
    pub state: Option<JobState>,
    /// Of this kind.
    pub kind: Option<Name>,
    /// With this tag.
    pub tag: Option<Name>,
    /// Of this batch.
    pub batch: Option<BatchId>,
    /// Accepted before this.
    pub before: Option<Timestamp>,
    /// Accepted at this or later.
    pub after: Option<Timestamp>,
    /// Whose latest attempt says this, in whatever case.
    pub error: Option<String>,
    /// Rows at most that are looked at, where the rest of the filter is asked of each.
    pub scan: usize,
}

impl JobFilter {
    /// All jobs of this piece.
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

    /// Whether rows are looked at that the list does not have: only dead jobs, and those of a batch, are found by themselves.
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

    /// Where the ids of the list are.
    pub fn range(&self) -> IdRange {
        let beyond = IdRange::beyond(self.slice.after.map(|id| id.0), self.slice.order);
        beyond.between(self.after, self.before, (ID_SKEW_MAX, ID_SKEW_MAX))
    }

    /// Whether a job belongs to the list.
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

/// The bytes of a job that a page counts.
pub fn job_bytes(record: &JobRecord) -> usize {
    let result = match &record.result {
        Some(KeptResult::Whole(json)) => json.len(),
        Some(KeptResult::TooLarge { .. }) | None => 0,
    };
    let note = record.last.as_ref().map_or(0, |last| last.note.len());
    let metadata = record.job.metadata.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
    result + note + metadata
}

/// The keys that a job is accepted once under.
pub fn keys_of(new: &NewJob) -> Vec<DedupKey> {
    let unique = new.job.unique.as_ref().map(|unique| DedupKey::unique_job(&new.job.queue, unique));
    new.key.iter().cloned().chain(unique).collect()
}

/// What a job is told whose keys are not all its own; `taken` lists the ones that are not, with their holders.
pub fn judge(taken: &[(&DedupKey, KeyHolder)]) -> Option<Enqueued> {
    // The request's key first: a repeated request also repeats its unique key.
    let request = taken.iter().find(|(key, _)| key.scope == DedupScope::Idempotency);
    if request.is_some_and(|(key, holder)| key.body != holder.body) {
        return Some(Enqueued::KeyReused);
    }
    request.or(taken.first()).map(|(_, holder)| Enqueued::Existing(JobId(holder.object)))
}

/// When a job that is accepted now is due: too far ahead is as far as is allowed.
pub fn due_at(run_at: RunAt, now: Timestamp) -> Timestamp {
    run_at.due_at(now).unwrap_or(now.plus(JOB_DELAY_MAX))
}

/// The row of a job that nobody has touched.
pub fn new_task(environment: EnvironmentId, job: &Job, id: TaskId, due_at: Timestamp) -> Task {
    Task {
        key: TaskKey { environment, subject: job.id.0, id },
        lane: job.lane(environment),
        kind: TaskKind::Job,
        trigger: Trigger::Scheduled,
        priority: job.priority.get(),
        due_at,
        tries: 0,
        crashes: 0,
        epoch: 0,
        cancel: false,
        batch: job.batch,
    }
}

/// Where a job stands: what its open task says, or else how its last attempt left it.
pub fn state_of(open: Option<TaskState>, last: Option<EndState>) -> JobState {
    match (open, last) {
        (Some(state), _) => state.into(),
        (None, Some(end)) => end.into(),
        // Its attempts are gone, which only those of jobs that ended can be.
        (None, None) => JobState::Succeeded,
    }
}
