//! Background tasks: slices of bulk work, and the list of background tasks.
//!
//! A background task is a job in the server's own environment (`core::background`). Each slice of bulk work and its
//! position are one transaction, which the lease of the job fences. A crash therefore repeats no slice.

use std::collections::BTreeSet;

use everhook_core::background::replay::{Pick, Replay};
use everhook_core::background::selection::BulkSelection;
use everhook_core::background::{BackgroundStatus, Effect, Position, Purge};
use everhook_core::delivery::{DeliveryCommand, DeliveryState};
use everhook_core::id::{EndpointId, EnvironmentId, Id, JobId, MessageId, SERVER_ENVIRONMENT, TaskId};
use everhook_core::job::report::Progress;
use everhook_core::job::{LeaseLost, LeaseProof, check_lease_proof};
use everhook_core::limits::ID_SKEW_MAX;
use everhook_core::name::Name;
use everhook_core::time::Timestamp;

use crate::catalog::{Order, Slice};
use crate::delivery::{DeliveryFilter, Visit, VisitedTask};
use crate::job::JobRecord;
use crate::piece::IdRange;
use crate::query::CountAttempts;
use crate::sql::shared::ResetTaskCrash;

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
    /// Carries out a command of an operator for each chosen delivery.
    Steer(BulkSelection, DeliveryCommand),
}

/// The result of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advanced {
    pub position: Position,
    /// Messages or deliveries that this slice changed, or that a dry run matched.
    pub changed: usize,
    pub is_last: bool,
}

/// The rows that a slice reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SliceRows {
    /// Messages of the application with ids in this range.
    Messages(IdRange),
    /// Open tasks of the environment with subjects in this range.
    OpenTasks(IdRange),
    /// Dead tasks of the endpoint's lane, after this task.
    DeadTasks { after: Id },
}

/// The rows that a slice has read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SliceRead {
    pub rows: usize,
    /// The key of the last row.
    pub last: Option<Id>,
    /// The messages of the rows, in order and once each.
    pub messages: Vec<MessageId>,
}

impl SliceRead {
    pub fn of_messages(messages: Vec<MessageId>) -> SliceRead {
        SliceRead { rows: messages.len(), last: messages.last().map(|id| id.0), messages }
    }

    pub fn of_open(tasks: &[VisitedTask], endpoint: EndpointId) -> SliceRead {
        let slice = Slice { after: None, order: Order::Ascending, limit: tasks.len() };
        let states = vec![DeliveryState::Pending, DeliveryState::Sending];
        let filter =
            DeliveryFilter { endpoint: Some(endpoint), states, ..DeliveryFilter::of(None, slice, tasks.len()) };
        let visit = Visit::of_tasks(tasks, &filter);
        let messages = visit.messages().iter().copied().map(MessageId).collect();
        SliceRead { rows: tasks.len(), last: tasks.last().map(|task| task.subject), messages }
    }

    /// A message may have several dead deliveries to an endpoint, of which resends made all but one.
    pub fn of_dead(tasks: &[(MessageId, TaskId)]) -> SliceRead {
        let messages: BTreeSet<MessageId> = tasks.iter().map(|(message, _)| *message).collect();
        let last = tasks.last().map(|(_, task)| task.0);
        SliceRead { rows: tasks.len(), last, messages: messages.into_iter().collect() }
    }
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

    /// Returns the rows that a slice of a command reads.
    pub fn steer_rows(&self, selection: &BulkSelection, command: DeliveryCommand) -> SliceRows {
        match command {
            DeliveryCommand::Cancel => SliceRows::OpenTasks(self.messages(Some(selection.since), selection.until)),
            DeliveryCommand::RetryNow | DeliveryCommand::Dismiss => {
                SliceRows::DeadTasks { after: self.from.after.unwrap_or(Id::MIN) }
            }
        }
    }

    /// Returns the range of messages that a slice of a purge reads.
    pub fn purge_range(&self, purge: &Purge) -> IdRange {
        self.messages(None, purge.until)
    }

    fn messages(&self, since: Option<Timestamp>, until: Timestamp) -> IdRange {
        IdRange::beyond(self.from.after, Order::Ascending).between(since, Some(until), (ID_SKEW_MAX, ID_SKEW_MAX))
    }

    /// Returns the result of a slice that changed some of the messages that it read.
    pub fn done(&self, read: &SliceRead, changed: usize) -> Advanced {
        Advanced { position: self.from.advanced(changed, read.last), changed, is_last: read.rows < self.limit }
    }

    /// Forgets the crashes of earlier holders after a slice. Work that advances between crashes is not their cause.
    pub fn reset_crashes(&self, job: Option<&JobRecord>) -> Option<ResetTaskCrash> {
        let crashes = job.and_then(|job| job.open).map_or(0, |open| open.task.crashes);
        (crashes > 0).then_some(ResetTaskCrash { environment: SERVER_ENVIRONMENT, job: self.job })
    }

    /// Returns the progress to store with a slice.
    pub fn progress(&self, advanced: &Advanced) -> Progress {
        let (application, since, until) = match &self.work {
            BulkWork::Replay(replay) => (replay.application, replay.since, replay.until),
            BulkWork::Purge(purge) => (purge.application, Timestamp::default(), purge.until),
            BulkWork::Steer(selection, _) => (selection.application, selection.since, selection.until),
        };
        // An application has no older rows, however early the window begins.
        advanced.position.to_progress(since.max(application.0.timestamp()), until)
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

impl CountAttempts {
    /// Returns the range of ids that the messages of the window can have.
    pub fn range(&self) -> IdRange {
        let range = IdRange::beyond(self.after.map(|id| id.0), Order::Ascending);
        range.between(Some(self.since), Some(self.until), (ID_SKEW_MAX, ID_SKEW_MAX))
    }
}

/// The attempts of a slice of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptCount {
    pub attempts: u64,
    /// The last message of the slice; none at the end of the window.
    pub next: Option<MessageId>,
}
