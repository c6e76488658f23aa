//! Background tasks: bulk work of an environment, which runs as jobs of the server itself.
//!
//! Pure. The API writes a [`BackgroundTask`] as the payload of a job. The engine works through it in slices, and the
//! store records a [`Position`] with each slice. `replay` chooses the messages of a slice. Word: the API calls the
//! whole a *task*; in code it is always a *background task*, because a task is the unit that is leased.

use serde::{Deserialize, Serialize};

use crate::background::replay::Replay;
use crate::background::selection::BulkSelection;
use crate::id::{ApplicationId, Id};
use crate::job::JobState;
use crate::job::report::Progress;
use crate::name::named_as;
use crate::time::Timestamp;

pub mod replay;
pub mod selection;

/// The queue of background tasks, in the environment of the server's own jobs. Their concurrency key is the number of
/// the customer's environment, so that environments take turns.
pub const BACKGROUND_QUEUE: &str = "everhook.background";

/// The work of a background task, with all its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BackgroundTask {
    Replay(Replay),
    /// Erases the payloads of all messages that were accepted before a time.
    Purge(Purge),
    /// Counts the attempts of messages that were accepted in a window, by application.
    ApplicationUsage(ApplicationUsage),
    /// Lists the event types that the endpoints of each application subscribe to.
    EventTypeUsage,
    /// Bulk work with options. Nodes of an earlier version, which would ignore the options, refuse it.
    Bulk(Bulk),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bulk {
    pub action: BulkAction,
    pub effect: Effect,
    /// Messages or deliveries that are changed per second; none for as many as other work allows.
    pub rate: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BulkAction {
    Replay(Replay),
    Purge(Purge),
    /// Cancels deliveries that wait or are being sent.
    Cancel(BulkSelection),
    /// Makes dead deliveries pending again, each in its place.
    Redrive(BulkSelection),
}

/// Whether bulk work changes anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Effect {
    Apply,
    /// A dry run: only counts the messages that the work would change.
    Count,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Purge {
    pub application: ApplicationId,
    pub until: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplicationUsage {
    pub since: Timestamp,
    pub until: Timestamp,
    /// None means every application of the environment.
    pub applications: Option<Vec<ApplicationId>>,
}

/// The kind of a background task. It is also the kind of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackgroundKind {
    Recover,
    ReplayMissing,
    BulkReplay,
    Purge,
    ApplicationUsage,
    EventTypeUsage,
    BulkCancel,
    BulkRedrive,
    DryRun,
}

impl BackgroundKind {
    /// Returns the field that counts the work done; none if the result is a list.
    pub const fn counts(self) -> Option<&'static str> {
        match self {
            BackgroundKind::Recover | BackgroundKind::ReplayMissing | BackgroundKind::BulkReplay => {
                Some("messagesSent")
            }
            BackgroundKind::Purge => Some("messagesPurged"),
            BackgroundKind::BulkCancel => Some("deliveriesCancelled"),
            BackgroundKind::BulkRedrive => Some("deliveriesRedriven"),
            BackgroundKind::DryRun => Some("messagesMatched"),
            BackgroundKind::ApplicationUsage | BackgroundKind::EventTypeUsage => None,
        }
    }
}

named_as!(BackgroundKind, BadBackgroundKind {
    Recover = "endpoint.recover", ReplayMissing = "endpoint.replay", BulkReplay = "endpoint.bulk-replay",
    Purge = "application.purge_content",
    ApplicationUsage = "application.stats", EventTypeUsage = "event-type.aggregate",
    BulkCancel = "endpoint.bulk-cancel", BulkRedrive = "endpoint.bulk-redrive",
    DryRun = "bulk.dry-run",
});

/// The error of a text that names no kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be the kind of a background task, such as endpoint.recover")]
pub struct BadBackgroundKind;

/// The state of a background task in the API, which knows only these three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackgroundStatus {
    Running,
    Finished,
    Failed,
}

impl BackgroundStatus {
    /// Returns the states of a job that have this status.
    pub const fn states(self) -> [JobState; 2] {
        match self {
            BackgroundStatus::Running => [JobState::Pending, JobState::Leased],
            BackgroundStatus::Finished => [JobState::Succeeded, JobState::Succeeded],
            BackgroundStatus::Failed => [JobState::Dead, JobState::Cancelled],
        }
    }
}

impl From<JobState> for BackgroundStatus {
    fn from(state: JobState) -> BackgroundStatus {
        match state {
            JobState::Pending | JobState::Leased => BackgroundStatus::Running,
            JobState::Succeeded => BackgroundStatus::Finished,
            JobState::Dead | JobState::Cancelled => BackgroundStatus::Failed,
        }
    }
}

/// The error of a text that is no status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be running, finished or failed")]
pub struct BadBackgroundStatus;

named_as!(BackgroundStatus, BadBackgroundStatus { Running = "running", Finished = "finished", Failed = "failed" });

impl BackgroundTask {
    pub const fn kind(&self) -> BackgroundKind {
        match self {
            BackgroundTask::Replay(replay) => replay.pick.kind(),
            BackgroundTask::Purge(_) => BackgroundKind::Purge,
            BackgroundTask::ApplicationUsage(_) => BackgroundKind::ApplicationUsage,
            BackgroundTask::EventTypeUsage => BackgroundKind::EventTypeUsage,
            BackgroundTask::Bulk(bulk) => bulk.kind(),
        }
    }

    /// Returns the application whose tokens may see the background task.
    pub const fn application(&self) -> Option<ApplicationId> {
        match self {
            BackgroundTask::Replay(replay) => Some(replay.application),
            BackgroundTask::Purge(purge) => Some(purge.application),
            BackgroundTask::Bulk(bulk) => Some(bulk.action.application()),
            BackgroundTask::ApplicationUsage(_) | BackgroundTask::EventTypeUsage => None,
        }
    }
}

impl From<Bulk> for BackgroundTask {
    /// Bulk work without options keeps its earlier form, which nodes of an earlier version can run.
    fn from(bulk: Bulk) -> BackgroundTask {
        match bulk {
            Bulk { action: BulkAction::Replay(replay), effect: Effect::Apply, rate: None } => {
                BackgroundTask::Replay(replay)
            }
            Bulk { action: BulkAction::Purge(purge), effect: Effect::Apply, rate: None } => {
                BackgroundTask::Purge(purge)
            }
            bulk => BackgroundTask::Bulk(bulk),
        }
    }
}

impl Bulk {
    /// Bulk work without options.
    pub const fn all(action: BulkAction) -> Bulk {
        Bulk { action, effect: Effect::Apply, rate: None }
    }

    pub const fn kind(&self) -> BackgroundKind {
        match (self.effect, &self.action) {
            (Effect::Count, _) => BackgroundKind::DryRun,
            (Effect::Apply, BulkAction::Replay(replay)) => replay.pick.kind(),
            (Effect::Apply, BulkAction::Purge(_)) => BackgroundKind::Purge,
            (Effect::Apply, BulkAction::Cancel(_)) => BackgroundKind::BulkCancel,
            (Effect::Apply, BulkAction::Redrive(_)) => BackgroundKind::BulkRedrive,
        }
    }
}

impl BulkAction {
    const fn application(&self) -> ApplicationId {
        match self {
            BulkAction::Replay(replay) => replay.application,
            BulkAction::Purge(purge) => purge.application,
            BulkAction::Cancel(selection) | BulkAction::Redrive(selection) => selection.application,
        }
    }
}

/// How far the slices of a background task have come. It is stored as the progress of the job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Messages or deliveries that were changed.
    pub count: u64,
    /// The key of the last row of the last slice.
    pub after: Option<Id>,
}

impl Position {
    /// Returns the position after a slice whose last row has the key `last`.
    #[must_use]
    pub fn advanced(self, changed: usize, last: Option<Id>) -> Position {
        Position { count: self.count.saturating_add(changed as u64), after: last.or(self.after) }
    }

    /// Returns the progress to store. The time in the key tells how much of the window is done.
    pub fn to_progress(self, since: Timestamp, until: Timestamp) -> Progress {
        let text = match self.after {
            Some(after) => format!("{} {after}", self.count),
            None => self.count.to_string(),
        };
        let percent = self.after.map_or(0, |after| share(after.timestamp(), since, until));
        Progress::new(percent, &text).expect("a share of a window is at most 99 percent")
    }

    /// Reads stored progress. A job that has not reported any is at the start.
    pub fn of(progress: Option<&Progress>) -> Position {
        let mut words = progress.map_or("", Progress::text).split(' ');
        let count = words.next().and_then(|count| count.parse().ok()).unwrap_or_default();
        Position { count, after: words.next().and_then(|after| after.parse().ok()) }
    }
}

/// Returns the part of the window before `at` in percent. Only a finished task is complete.
fn share(at: Timestamp, since: Timestamp, until: Timestamp) -> i64 {
    let (done, all) = (at.since(since).as_millis(), until.since(since).as_millis().max(1));
    i64::try_from((done * 100 / all).min(99)).unwrap_or(99)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_survives_its_stored_form() {
        let (since, until) = (Timestamp::from_millis(1_700_000_000_000), Timestamp::from_millis(1_700_000_400_000));
        let half = Id::floor(Timestamp::from_millis(1_700_000_200_000));
        let start = Position::default();
        assert_eq!(Position::of(None), start);
        assert_eq!(Position::of(Some(&start.to_progress(since, until))), start);
        let position = start.advanced(3, Some(half)).advanced(0, None);
        assert_eq!(position, Position { count: 3, after: Some(half) });
        let progress = position.to_progress(since, until);
        assert_eq!((progress.percent(), Position::of(Some(&progress))), (50, position));
        assert_eq!(start.advanced(0, Some(Id::MAX)).to_progress(since, until).percent(), 99);
        assert_eq!(start.advanced(0, Some(Id::MIN)).to_progress(since, since).percent(), 0);
    }

    #[test]
    fn only_options_change_the_stored_form_of_bulk_work() {
        let purge = Purge { application: ApplicationId(Id::MIN), until: Timestamp::default() };
        let bulk = |effect, rate| Bulk { action: BulkAction::Purge(purge.clone()), effect, rate };
        assert_eq!(BackgroundTask::from(bulk(Effect::Apply, None)), BackgroundTask::Purge(purge.clone()));
        let counted = BackgroundTask::from(bulk(Effect::Count, None));
        assert_eq!((counted.kind(), counted.application()), (BackgroundKind::DryRun, Some(purge.application)));
        assert!(matches!(BackgroundTask::from(bulk(Effect::Apply, Some(1))), BackgroundTask::Bulk(_)));
        let json = serde_json::to_string(&counted).unwrap();
        assert_eq!(serde_json::from_str::<BackgroundTask>(&json).unwrap(), counted);
    }

    #[test]
    fn the_states_of_a_job_become_three() {
        for status in [BackgroundStatus::Running, BackgroundStatus::Finished, BackgroundStatus::Failed] {
            assert!(status.states().into_iter().all(|state| BackgroundStatus::from(state) == status));
            assert_eq!(status.as_str().parse(), Ok(status));
        }
        assert_eq!("canceled".parse::<BackgroundStatus>(), Err(BadBackgroundStatus));
    }

    #[test]
    fn every_kind_is_known_by_its_name() {
        assert!(BackgroundKind::ALL.into_iter().all(|kind| kind.as_str().parse() == Ok(kind)));
        assert_eq!("message.broadcast".parse::<BackgroundKind>(), Err(BadBackgroundKind));
    }
}
