//! The form of a schedule in responses: its times, its job or message, its state and its runs.

use everhook_core::id::{ApplicationId, Id, JobId, MessageId, ScheduleId};
use everhook_core::limits::SCHEDULE_UPCOMING;
use everhook_core::name::Name;
use everhook_core::schedule::Cadence;
use everhook_core::time::Timestamp;
use everhook_store::schedule::{MessageTemplate, Run, RunKind, ScheduleRecord, Starts};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::job::response::{JobSpecOut, json};
use crate::schedule::request::{MissedForm, OverlapForm};

/// A schedule.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScheduleOut {
    #[schema(value_type = String)]
    id: ScheduleId,
    #[schema(value_type = String)]
    pub(crate) name: Name,
    /// `active`, `paused` or `ended`. An ended schedule has no more run times.
    #[schema(value_type = String)]
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cron: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timezone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    every_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    starts_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    ends_at: Option<Timestamp>,
    jitter_seconds: u64,
    grace_seconds: u64,
    overlap: OverlapForm,
    missed: MissedForm,
    #[serde(skip_serializing_if = "Option::is_none")]
    catch_up: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<JobSpecOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<ScheduledMessageOut>,
    /// The next run time by cron or interval, without jitter. Null while the schedule is paused.
    #[schema(value_type = Option<String>, format = DateTime)]
    next_run_at: Option<Timestamp>,
    /// The next five run times. Empty while the schedule is paused.
    #[schema(value_type = Vec<String>)]
    upcoming: Vec<Timestamp>,
    /// The run time of a run that waits for the end of the previous job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    queued_run_at: Option<Timestamp>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// The latest runs, newest first. Lists do not include them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) history: Option<Vec<RunOut>>,
}

/// A message that each run of a schedule creates.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScheduledMessageOut {
    #[schema(value_type = String)]
    application: ApplicationId,
    #[schema(value_type = String)]
    event_type: Name,
    #[schema(value_type = Object)]
    payload: Option<Box<RawValue>>,
    #[schema(value_type = Vec<String>)]
    channels: Vec<Name>,
    #[schema(value_type = Vec<String>)]
    tags: Vec<Name>,
}

/// A run of a schedule, started or skipped.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunOut {
    /// The run time by the schedule.
    #[schema(value_type = String, format = DateTime)]
    nominal_at: Timestamp,
    /// The time at which the run was started or skipped.
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// `fired`: the run started. `missed`: this run and maybe earlier ones did not start in time. `overlap`: skipped,
    /// because the previous job had not ended. `manual`: started by a request.
    #[schema(value_type = String)]
    kind: &'static str,
    /// The job that the run created.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    job_id: Option<JobId>,
    /// The message that the run created.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    message_id: Option<MessageId>,
}

/// The kind of object that a run creates.
#[derive(Clone, Copy)]
pub(crate) enum StartsWhat {
    Job,
    Message,
}

impl StartsWhat {
    pub(crate) const fn of(starts: &Starts) -> StartsWhat {
        match starts {
            Starts::Job(_) => StartsWhat::Job,
            Starts::Message(_) => StartsWhat::Message,
        }
    }
}

impl ScheduleOut {
    pub(crate) fn new(record: ScheduleRecord, now: Timestamp) -> ScheduleOut {
        let (cron, timezone, every_seconds) = match &record.schedule.cadence {
            Cadence::Cron { cron, zone } => (Some(cron.as_str().to_owned()), Some(zone.as_str().to_owned()), None),
            Cadence::Every { every, .. } => (None, None, Some(every.as_secs())),
        };
        let (missed, catch_up) = MissedForm::of(record.schedule.missed);
        let upcoming = if record.paused { Vec::new() } else { record.schedule.upcoming(now, SCHEDULE_UPCOMING) };
        let (job, message) = match record.starts {
            Starts::Job(job) => (Some(JobSpecOut::new(*job)), None),
            Starts::Message(message) => (None, Some(ScheduledMessageOut::from(*message))),
        };
        ScheduleOut {
            id: record.schedule.id,
            name: record.name,
            state: match (record.paused, record.state.next, record.state.queued) {
                (true, _, _) => "paused",
                (false, None, None) => "ended",
                (false, _, _) => "active",
            },
            cron,
            timezone,
            every_seconds,
            starts_at: record.schedule.starts_at,
            ends_at: record.schedule.ends_at,
            jitter_seconds: record.schedule.jitter.as_secs(),
            grace_seconds: record.schedule.grace.as_secs(),
            overlap: record.schedule.overlap.into(),
            missed,
            catch_up,
            job,
            message,
            next_run_at: record.state.next,
            upcoming,
            queued_run_at: record.state.queued,
            created_at: record.created_at,
            updated_at: record.updated_at,
            history: None,
        }
    }
}

impl From<MessageTemplate> for ScheduledMessageOut {
    fn from(template: MessageTemplate) -> ScheduledMessageOut {
        ScheduledMessageOut {
            application: template.application,
            event_type: template.event_type,
            payload: json(&template.payload),
            channels: template.channels,
            tags: template.tags,
        }
    }
}

impl RunOut {
    pub(crate) fn new(run: Run, what: StartsWhat) -> RunOut {
        let object: Option<Id> = run.object;
        let (job_id, message_id) = match what {
            StartsWhat::Job => (object.map(JobId), None),
            StartsWhat::Message => (None, object.map(MessageId)),
        };
        RunOut {
            nominal_at: run.nominal,
            at: run.at,
            kind: match run.kind {
                RunKind::Fired => "fired",
                RunKind::Missed => "missed",
                RunKind::Overlap => "overlap",
                RunKind::Manual => "manual",
            },
            job_id,
            message_id,
        }
    }
}
