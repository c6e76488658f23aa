//! Batches: sets of jobs whose outcome is announced, once per phase. The rules are in `core::batch`.

use everhook_core::batch::{Announcement, BadSelection, Batch, BatchChange, EndedJobs, FailedJob, Notice, Resolution};
use everhook_core::id::{ApplicationId, BatchId, EnvironmentId, JobId, MessageId};
use everhook_core::job::report::Note;
use everhook_core::job::{Job, JobAction, JobState};
use everhook_core::lifecycle::EndState;
use everhook_core::message::{Message, Rest};
use everhook_core::name::{Metadata, Name};
use everhook_core::time::Timestamp;

use crate::dedup::DedupKey;
use crate::lease::NewMessage;

/// A batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchRecord {
    /// Its id.
    pub id: BatchId,
    /// Whose messages its announcements are.
    pub application: ApplicationId,
    /// A text for people.
    pub name: String,
    /// What the types of its announcements begin with.
    pub prefix: Name,
    /// Never interpreted.
    pub metadata: Metadata,
    /// When it was created.
    pub created_at: Timestamp,
    /// Where it stands.
    pub batch: Batch,
}

/// A batch to create.
#[derive(Clone, Debug)]
pub struct NewBatch {
    /// The batch.
    pub batch: BatchRecord,
    /// The idempotency key of the request.
    pub key: Option<DedupKey>,
}

/// A wish to retry or to skip dead jobs of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolve {
    /// The jobs.
    pub jobs: Vec<JobId>,
    /// The same for all of them.
    pub how: Resolution,
}

/// What became of a wish to retry or to skip jobs of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// The batch, in its new phase.
    Done(BatchRecord),
    /// Nothing was changed.
    Bad(BadSelection),
    /// There is no such batch.
    NoBatch,
}

/// What a batch is told when an attempt left a job of it so; none if that is not its end.
pub fn ended(end: EndState) -> Option<EndedJobs> {
    match end {
        EndState::Open => None,
        EndState::Succeeded => Some(EndedJobs { succeeded: 1, ..EndedJobs::default() }),
        EndState::Dead => Some(EndedJobs { dead: 1, ..EndedJobs::default() }),
        EndState::Cancelled => Some(EndedJobs { cancelled: 1, ..EndedJobs::default() }),
    }
}

/// What a batch is told when an operator does this to a job of it that was in this state.
pub fn steered(was: JobState, plan: JobAction) -> Option<BatchChange> {
    match (was, plan) {
        (JobState::Pending, JobAction::Cancel | JobAction::Delete) => {
            Some(BatchChange::Ended(EndedJobs { cancelled: 1, ..EndedJobs::default() }))
        }
        (JobState::Dead, JobAction::Cancel | JobAction::Delete) => {
            Some(BatchChange::Resolved { jobs: 1, how: Resolution::Cancelled })
        }
        (JobState::Dead, JobAction::Redrive) => Some(BatchChange::Resolved { jobs: 1, how: Resolution::Retried }),
        _ => None,
    }
}

/// The message that announces what became of a batch; `failed` are the jobs of it that are dead.
pub fn announcement(
    environment: EnvironmentId,
    record: &BatchRecord,
    announce: Announcement,
    failed: Vec<FailedJob>,
    id: MessageId,
) -> Option<NewMessage> {
    let BatchRecord { batch, .. } = record;
    // Both are made of names that are known to leave room for them.
    let event_type = announce.event_type(&record.prefix).ok()?;
    let event_id = announce.event_id(record.id, batch.phase).ok()?;
    let notice = Notice {
        batch_id: record.id,
        name: record.name.clone(),
        phase: batch.phase,
        counts: batch.counts,
        metadata: record.metadata.clone(),
        failed,
    };
    let message = Message {
        id,
        application: record.application,
        event_type,
        event_id: Some(event_id.clone()),
        channels: Vec::new(),
        tags: Vec::new(),
        payload: Some(notice.to_json().into()),
        created_at: Timestamp::default(),
        rest: Rest::default(),
    };
    let keys = vec![DedupKey::event_id(record.application, &event_id)];
    Some(NewMessage { keys, ..NewMessage::new(environment, message) })
}

/// A dead job, as its batch announces it.
pub fn failed_job(job: &Job, note: &[u8], failed_at: Timestamp) -> FailedJob {
    FailedJob {
        id: job.id,
        name: job.name.clone(),
        kind: job.kind.clone(),
        error: Note::from_bytes(note).error().to_owned(),
        failed_at,
        metadata: job.metadata.clone(),
    }
}
