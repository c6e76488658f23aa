//! Schedules: their configuration, state and runs. The rules are in `core::schedule`.
//!
//! [`encoding`] is the stored form, the same JSON in both stores.

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

/// The number of latest runs that are kept and shown of each schedule.
pub const RUNS_KEPT: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleRecord {
    /// The name by which users find it.
    pub name: Name,
    /// The rule for its times.
    pub schedule: Schedule,
    pub starts: Starts,
    /// Whether a user paused it.
    pub paused: bool,
    /// The next times, as decided by `core::schedule::fire`.
    pub state: ScheduleState,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Raised by every change of a user.
    pub revision: i64,
}

impl ScheduleRecord {
    /// Returns a schedule that is not paused. The store sets its state and times.
    pub fn new(name: Name, schedule: Schedule, starts: Starts) -> ScheduleRecord {
        let (state, created_at, updated_at) = (ScheduleState::paused(), Timestamp::default(), Timestamp::default());
        ScheduleRecord { name, schedule, starts, paused: false, state, created_at, updated_at, revision: 0 }
    }

    /// Returns the state of a schedule that is created or replaced at `now`.
    pub fn begin(&self, now: Timestamp) -> ScheduleState {
        if self.paused { ScheduleState::paused() } else { ScheduleState::begin(&self.schedule, now) }
    }
}

/// The template of the work that a schedule starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Starts {
    /// A job; its id is drawn when it starts.
    Job(Box<Job>),
    Message(Box<MessageTemplate>),
}

/// The job or message to write for one run.
#[derive(Clone, Debug)]
pub enum Begun {
    Job(Box<NewJob>),
    Message(Box<NewMessage>),
}

impl Starts {
    /// Returns the job or message of one run, under a new id.
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

/// Lists the decided runs of a schedule by nominal time, both started and left out.
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

/// A message that a schedule sends repeatedly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageTemplate {
    pub application: ApplicationId,
    pub event_type: Name,
    pub payload: Bytes,
    pub channels: Vec<Name>,
    pub tags: Vec<Name>,
}

/// The result of one nominal time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunKind {
    /// A job or message was started.
    Fired,
    /// No node started it in time. One entry stands for all earlier missed times.
    Missed,
    /// The previous run was still open.
    Overlap,
    /// A user asked for it.
    Manual,
}

impl RunKind {
    /// Returns the number in the database.
    pub const fn to_db(self) -> i16 {
        match self {
            RunKind::Fired => 0,
            RunKind::Missed => 1,
            RunKind::Overlap => 2,
            RunKind::Manual => 3,
        }
    }

    /// Reads the number in the database.
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

/// One run of a schedule, started or left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub nominal: Timestamp,
    /// The time of the decision.
    pub at: Timestamp,
    pub kind: RunKind,
    /// The job or message; none if the run was left out, or if the application is gone.
    pub object: Option<Id>,
}

/// The result of firing the due schedules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FiredAll {
    pub started: usize,
    /// The messages and jobs that the runs created. A run whose unique job already exists creates none.
    pub made: Made,
    /// The environment of each message that the runs created.
    pub messages: Vec<EnvironmentId>,
    /// How late each schedule with a started run was.
    pub lateness: Vec<Duration>,
    /// The time until the next schedule is due.
    pub next_look: Option<Duration>,
}
