//! Schedules: what they start, where they stand, and what they started. The rules are in `core::schedule`.
//!
//! What is started and how it is written down is JSON, in one form for both stores: [`form`].

use std::time::Duration;

use bytes::Bytes;
use everhook_core::id::{ApplicationId, EnvironmentId, Id, JobId, MessageId, ScheduleId};
use everhook_core::job::{Job, RunAt};
use everhook_core::message::{Message, Rest};
use everhook_core::name::Name;
use everhook_core::schedule::Schedule;
use everhook_core::schedule::fire::{Firing, LeftOut, ScheduleState};
use everhook_core::time::Timestamp;

use crate::job::NewJob;
use crate::lease::NewMessage;
use crate::made::Made;

pub mod encoding;

/// Runs that are shown and kept of each schedule at least.
pub const RUNS_KEPT: usize = 100;

/// A schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleRecord {
    /// Its name: what users find it by.
    pub name: Name,
    /// When it runs.
    pub schedule: Schedule,
    /// What it starts.
    pub starts: Starts,
    /// Whether someone paused it.
    pub paused: bool,
    /// Where it stands.
    pub state: ScheduleState,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// One more with every change by a user.
    pub revision: i64,
}

impl ScheduleRecord {
    /// The state of a schedule that is created or replaced at `now`.
    pub fn begin(&self, now: Timestamp) -> ScheduleState {
        if self.paused { ScheduleState::paused() } else { ScheduleState::begin(&self.schedule, now) }
    }
}

/// What a schedule starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Starts {
    /// A job like this; its id is drawn when it starts.
    Job(Box<Job>),
    /// A message like this.
    Message(Box<MessageTemplate>),
}

/// What is written when a schedule starts something.
#[derive(Clone, Debug)]
pub enum Begun {
    /// This job.
    Job(Box<NewJob>),
    /// This message.
    Message(Box<NewMessage>),
}

impl Starts {
    /// What is written when it starts, under a new id.
    pub fn begin(&self, environment: EnvironmentId, schedule: ScheduleId, id: Id) -> Begun {
        match self {
            Starts::Job(job) => {
                let job = Job { id: JobId(id), schedule: Some(schedule), ..Job::clone(job) };
                Begun::Job(Box::new(NewJob { environment, job, run_at: RunAt::Now, key: None }))
            }
            Starts::Message(template) => {
                let message = Message {
                    id: MessageId(id),
                    application: template.application,
                    event_type: template.event_type.clone(),
                    event_id: None,
                    channels: template.channels.clone(),
                    tags: template.tags.clone(),
                    payload: Some(template.payload.clone()),
                    created_at: Timestamp::default(),
                    rest: Rest::default(),
                };
                Begun::Message(Box::new(NewMessage::new(environment, message)))
            }
        }
    }
}

/// What a look at a schedule decided, run by run, by their nominal times.
pub fn runs_of(firing: &Firing) -> Vec<(Timestamp, RunKind)> {
    let left_out = firing.left_out.iter().map(|(nominal, why)| match why {
        LeftOut::Missed => (*nominal, RunKind::Missed),
        LeftOut::Overlap => (*nominal, RunKind::Overlap),
    });
    let fired = firing.fires.iter().map(|nominal| (*nominal, RunKind::Fired));
    let mut runs: Vec<_> = left_out.chain(fired).collect();
    runs.sort_by_key(|(nominal, _)| *nominal);
    runs
}

/// A message that is sent again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageTemplate {
    /// Whose.
    pub application: ApplicationId,
    /// Its type.
    pub event_type: Name,
    /// JSON.
    pub payload: Bytes,
    /// Its channels.
    pub channels: Vec<Name>,
    /// Its tags.
    pub tags: Vec<Name>,
}

/// What became of a nominal time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunKind {
    /// It was started.
    Fired,
    /// Nobody started it in time; stands for all before it, too.
    Missed,
    /// The run before was still open.
    Overlap,
    /// Someone asked for it.
    Manual,
}

impl RunKind {
    /// The number the stores keep.
    pub const fn to_db(self) -> i16 {
        match self {
            RunKind::Fired => 0,
            RunKind::Missed => 1,
            RunKind::Overlap => 2,
            RunKind::Manual => 3,
        }
    }

    /// Reads the number the stores keep.
    pub const fn from_db(number: i16) -> Option<RunKind> {
        match number {
            0 => Some(RunKind::Fired),
            1 => Some(RunKind::Missed),
            2 => Some(RunKind::Overlap),
            3 => Some(RunKind::Manual),
            _ => None,
        }
    }
}

/// One run of a schedule, or one that was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The time by the schedule.
    pub nominal: Timestamp,
    /// When it was decided.
    pub at: Timestamp,
    /// What became of it.
    pub kind: RunKind,
    /// The job or message; none if it was left out, or if the application is gone.
    pub object: Option<Id>,
}

/// What a look at the schedules did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FiredAll {
    /// Runs that were started.
    pub started: usize,
    /// The messages and jobs that they created. A run whose unique job exists already creates none.
    pub made: Made,
    /// When the next one is to be looked at.
    pub next_look: Option<Duration>,
}
