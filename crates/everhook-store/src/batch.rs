//! Batches: sets of jobs whose results are announced once per phase. The rules are in `core::batch`.

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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchRecord {
    pub id: BatchId,
    /// The announcements are messages of this application.
    pub application: ApplicationId,
    /// A display name.
    pub name: String,
    /// The first part of the event types of its announcements.
    pub prefix: Name,
    /// Returned to users, never interpreted.
    pub metadata: Metadata,
    pub created_at: Timestamp,
    /// Its phase, counts and last announcement.
    pub batch: Batch,
}

impl BatchRecord {
    /// Returns a batch without metadata. The store sets `created_at` and `batch`.
    pub fn new(id: BatchId, application: ApplicationId, name: String, prefix: Name) -> BatchRecord {
        let (metadata, created_at, batch) = (Metadata::new(), Timestamp::default(), Batch::new());
        BatchRecord { id, application, name, prefix, metadata, created_at, batch }
    }
}

#[derive(Clone, Debug)]
pub struct NewBatch {
    pub batch: BatchRecord,
    pub key: Option<DedupKey>,
}

/// A request to retry or skip dead jobs of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolve {
    pub batch: BatchId,
    pub jobs: Vec<JobId>,
    pub how: Resolution,
}

/// The result of retrying or skipping jobs of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    Done(BatchRecord),
    /// A job of the selection cannot be resolved; nothing was changed.
    Bad(BadSelection),
    NoBatch,
}

/// Returns the change of a batch's counts after an attempt of one of its jobs; none while the job stays open.
pub fn ended(end: EndState) -> Option<EndedJobs> {
    match end {
        EndState::Open => None,
        EndState::Succeeded => Some(EndedJobs { succeeded: 1, ..EndedJobs::default() }),
        EndState::Dead => Some(EndedJobs { dead: 1, ..EndedJobs::default() }),
        EndState::Cancelled => Some(EndedJobs { cancelled: 1, ..EndedJobs::default() }),
    }
}

/// Returns the change of a batch after an operator's action on one of its jobs, which was in the state `was`.
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

/// Returns the message that announces the result of a batch; `failed` lists its dead jobs.
pub fn announcement(
    environment: EnvironmentId,
    record: &BatchRecord,
    announce: Announcement,
    failed: Vec<FailedJob>,
    id: MessageId,
) -> Option<NewMessage> {
    let BatchRecord { batch, .. } = record;
    // Prefix and id have length limits that leave room for the suffixes, so neither name is too long.
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

/// Returns a dead job in the form of the announcement.
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
