//! The form of a job in responses: its specification, its state and its attempts.

use std::str::FromStr;

use bytes::Bytes;
use everhook_core::id::{AttemptId, BatchId, JobId, ScheduleId, SessionId};
use everhook_core::job::report::{KeptResult, Note, Progress};
use everhook_core::job::{Job, JobState};
use everhook_core::name::{Metadata, Name};
use everhook_core::retry::Backoff;
use everhook_core::time::Timestamp;
use everhook_store::job::{JobAttempt, JobRecord};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::attempt::{PhasesOut, ReplyHeaderOut, millis, reply_headers};

/// The specification of a job.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobSpecOut {
    #[schema(value_type = String)]
    queue: Name,
    #[schema(value_type = String)]
    kind: Name,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The payload as it was sent. Lists do not include it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    payload: Option<Box<RawValue>>,
    priority: i16,
    max_attempts: u32,
    #[schema(value_type = Object)]
    backoff: Backoff,
    timeout_seconds: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    unique_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unique_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    concurrency_key: Option<String>,
    #[schema(value_type = Vec<String>)]
    tags: Vec<Name>,
    #[schema(value_type = BTreeMap<String, String>)]
    metadata: Metadata,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    batch_id: Option<BatchId>,
    /// The schedule that created the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    schedule_id: Option<ScheduleId>,
}

/// A job that a repeated request or a unique key refers to.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum ExistingJobOut {
    Job(Box<JobOut>),
    Deleted(DeletedJobOut),
}

/// A job that was deleted. Only its id is known.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeletedJobOut {
    /// The id of the deleted job.
    #[schema(value_type = String, example = "job_1srOrx2ZWZBpBUvZwXKQmoEYga2")]
    id: JobId,
    /// Always `deleted`.
    #[schema(value_type = String, pattern = "^(deleted)$")]
    state: &'static str,
}

impl ExistingJobOut {
    pub(crate) fn new(id: JobId, found: Option<JobRecord>) -> ExistingJobOut {
        match found {
            Some(found) => ExistingJobOut::Job(Box::new(JobOut::new(found))),
            None => ExistingJobOut::Deleted(DeletedJobOut { id, state: "deleted" }),
        }
    }
}

/// A job.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobOut {
    #[schema(value_type = String, example = "job_1srOrx2ZWZBpBUvZwXKQmoEYga2")]
    pub(crate) id: JobId,
    #[schema(value_type = String, pattern = "^(pending|leased|succeeded|dead|cancelled)$")]
    pub(crate) state: Shown<JobState>,
    #[serde(flatten)]
    spec: JobSpecOut,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// The time at which the job becomes or became due. Absent after the end of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    run_at: Option<Timestamp>,
    /// Attempts that count against `maxAttempts`. Lists do not include it for jobs that succeeded or were cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tries: Option<u32>,
    /// Whether the running job is to be cancelled. Its worker learns this with the next heartbeat.
    cancel_requested: bool,
    /// The worker that holds the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) held_by: Option<HolderOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<ProgressOut>,
    /// The result that the worker reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    result: Option<Box<RawValue>>,
    /// The size in bytes of a result that was too large to be stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    result_too_large_bytes: Option<usize>,
    /// The error of the latest attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The end of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    ended_at: Option<Timestamp>,
    /// The latest attempts, newest first. Lists do not include them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) attempts: Option<Vec<JobAttemptOut>>,
}

/// The worker or node that holds a job.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HolderOut {
    #[schema(value_type = String)]
    pub(crate) worker_id: SessionId,
    /// The name that the worker registered with. Absent if a node of Everhook holds the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// The epoch of the lease.
    epoch: u32,
    /// The time of the lease.
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
}

/// The progress of a job.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProgressOut {
    percent: u8,
    text: String,
}

/// One attempt of a job.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobAttemptOut {
    #[schema(value_type = String)]
    id: AttemptId,
    /// The outcome: `success`, `failed`, `timeout`, `panicked`, `snoozed`, `abandoned`, `interrupted`, `cancelled`, or
    /// the class of a failed push.
    class: String,
    /// The state of the job after the attempt.
    #[schema(value_type = String, pattern = "^(pending|succeeded|dead|cancelled)$")]
    state: Shown<JobState>,
    /// The epoch of the lease.
    epoch: u32,
    /// The holder of the attempt. For an abandoned attempt, the holder that crashed.
    #[schema(value_type = String)]
    worker_id: SessionId,
    /// The HTTP status of the response to a push.
    #[serde(skip_serializing_if = "Option::is_none")]
    response_status_code: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The last lines that the worker logged.
    log: Vec<String>,
    /// The start of the attempt. For remote workers and abandoned attempts, the time of the lease.
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
    /// Duration in milliseconds. An abandoned attempt lasts until another holder takes over the job.
    duration_ms: u64,
    /// The steps of the request of a push.
    #[serde(skip_serializing_if = "Option::is_none")]
    phases: Option<PhasesOut>,
    /// The first headers of the response to a push.
    #[serde(skip_serializing_if = "Option::is_none")]
    response_headers: Option<Vec<ReplyHeaderOut>>,
}

/// A state with its name in the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown<T>(pub(crate) T);

const STATES: [(JobState, &str); 5] = [
    (JobState::Pending, "pending"),
    (JobState::Leased, "leased"),
    (JobState::Succeeded, "succeeded"),
    (JobState::Dead, "dead"),
    (JobState::Cancelled, "cancelled"),
];

impl Serialize for Shown<JobState> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = STATES.iter().find(|(state, _)| *state == self.0).map_or("", |(_, name)| name);
        serializer.serialize_str(name)
    }
}

impl FromStr for Shown<JobState> {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Shown<JobState>, &'static str> {
        let found = STATES.iter().find(|(_, name)| *name == text);
        found.map(|(state, _)| Shown(*state)).ok_or("must be pending, leased, succeeded, dead or cancelled")
    }
}

impl JobSpecOut {
    pub(crate) fn new(job: Job) -> JobSpecOut {
        let (unique_key, unique_seconds) = match job.unique {
            Some(unique) => (Some(unique.key), Some(unique.window.as_secs())),
            None => (None, None),
        };
        JobSpecOut {
            payload: job.payload.as_ref().and_then(json),
            priority: job.priority.get(),
            max_attempts: job.retry.attempts_max(),
            backoff: job.retry.backoff().clone(),
            timeout_seconds: job.timeout.as_secs(),
            unique_key,
            unique_seconds,
            queue: job.queue,
            kind: job.kind,
            name: job.name,
            concurrency_key: job.concurrency_key,
            tags: job.tags,
            metadata: job.metadata,
            batch_id: job.batch,
            schedule_id: job.schedule,
        }
    }
}

impl JobOut {
    /// Shows a job that has just been accepted.
    pub(crate) fn accepted(job: Job, created_at: Timestamp, due_at: Timestamp) -> JobOut {
        let (state, open) = (JobState::Pending, None);
        let shown = JobRecord { job, created_at, state, open, progress: None, result: None, last: None };
        JobOut { run_at: Some(due_at), tries: Some(0), ..JobOut::new(shown) }
    }

    pub(crate) fn new(record: JobRecord) -> JobOut {
        let JobRecord { job, created_at, state, open, progress, result, last } = record;
        let (result, result_too_large_bytes) = match result {
            Some(KeptResult::Whole(bytes)) => (json(&bytes), None),
            Some(KeptResult::TooLarge { bytes }) => (None, Some(bytes)),
            None => (None, None),
        };
        let has_ended = matches!(state, JobState::Succeeded | JobState::Dead | JobState::Cancelled);
        let tries = open.map(|open| open.task.tries);
        let open = open.filter(|_| !has_ended);
        let held = open.filter(|_| state == JobState::Leased);
        JobOut {
            id: job.id,
            state: Shown(state),
            spec: JobSpecOut::new(job),
            created_at,
            run_at: open.map(|open| open.task.due_at),
            tries,
            cancel_requested: held.is_some_and(|open| open.task.cancel),
            held_by: held.and_then(|open| {
                let holder = open.holder?;
                Some(HolderOut { worker_id: holder.session, name: None, epoch: open.task.epoch, since: holder.since })
            }),
            progress: progress.map(ProgressOut::from),
            result,
            result_too_large_bytes,
            error: last.as_ref().and_then(|last| some(Note::from_bytes(&last.note).error())),
            ended_at: last.filter(|_| has_ended).map(|last| last.started_at.plus(last.duration)),
            attempts: None,
        }
    }
}

impl From<Progress> for ProgressOut {
    fn from(progress: Progress) -> ProgressOut {
        ProgressOut { percent: progress.percent(), text: progress.text().to_owned() }
    }
}

impl From<JobAttempt> for JobAttemptOut {
    fn from(attempt: JobAttempt) -> JobAttemptOut {
        let note = Note::from_bytes(&attempt.note);
        JobAttemptOut {
            id: attempt.id,
            class: attempt.class.to_string(),
            state: Shown(attempt.end.into()),
            epoch: attempt.epoch,
            worker_id: attempt.session,
            response_status_code: (attempt.status != 0).then_some(attempt.status),
            error: some(note.error()),
            log: note.log().map(str::to_owned).collect(),
            started_at: attempt.started_at,
            duration_ms: millis(attempt.duration),
            phases: attempt.exchange.as_ref().and_then(PhasesOut::of),
            response_headers: attempt.exchange.and_then(reply_headers),
        }
    }
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// Returns stored JSON byte for byte.
pub(crate) fn json(bytes: &Bytes) -> Option<Box<RawValue>> {
    serde_json::from_slice(bytes).ok()
}
