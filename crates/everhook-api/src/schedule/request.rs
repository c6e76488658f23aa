//! The form of a schedule in requests, for creation and change.

use std::time::Duration;

use bytes::Bytes;
use everhook_core::draft::Draft;
use everhook_core::id::{Id, JobId, ScheduleId};
use everhook_core::message;
use everhook_core::name::Name;
use everhook_core::schedule::fire::ScheduleState;
use everhook_core::schedule::zone::Zone;
use everhook_core::schedule::{BadSchedule, Cadence, Missed, Overlap, Schedule};
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_core::violation::{Violation, at};
use everhook_store::schedule::{MessageTemplate, ScheduleRecord, Starts};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::batch::{find_application, no_application};
use crate::error::ApiError;
use crate::input;
use crate::job::request::JobIn;
use crate::merge::Form;
use crate::scope;
use crate::state::Api;

/// A schedule to create, or a change of a schedule. In a change, absent members keep their values.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ScheduleIn<'a> {
    /// The name, unique in the environment. Required for creation, and cannot be changed.
    #[schema(max_length = 256, pattern = "^[a-zA-Z0-9\\-_.]+$", example = "nightly")]
    pub(crate) name: Option<String>,
    /// The run times as a cron rule: five fields, or six fields with seconds first, or a shortcut such as `@daily`.
    /// `cron` or `everySeconds` is required.
    #[schema(max_length = 256, example = "0 3 * * mon-fri")]
    cron: Option<String>,
    /// Seconds between runs, in the place of `cron`.
    #[schema(minimum = 1, maximum = 31_622_400)]
    every_seconds: Option<u64>,
    /// The time zone of `cron`, by its IANA name. Default: UTC.
    #[schema(example = "Europe/Berlin")]
    timezone: Option<String>,
    /// The schedule does not run before this time.
    #[schema(value_type = Option<String>, format = DateTime)]
    starts_at: Option<Timestamp>,
    /// The schedule does not run at this time or later.
    #[schema(value_type = Option<String>, format = DateTime)]
    ends_at: Option<Timestamp>,
    /// Maximum delay in seconds that is added to each run. Default: 0. The delay of a run is the same on every replica.
    #[schema(maximum = 86_400)]
    jitter_seconds: Option<u64>,
    /// Seconds by which a run may start late before it counts as missed. Default: 30.
    #[schema(maximum = 86_400)]
    grace_seconds: Option<u64>,
    /// The policy while the job of the previous run is pending or running. Default: `allow`, the only policy for
    /// messages.
    overlap: Option<OverlapForm>,
    /// The policy for runs that did not start in time. Default: `runOnce`.
    missed: Option<MissedForm>,
    /// Maximum number of missed runs to make up for, with the policy `catchUp`.
    #[schema(minimum = 1, maximum = 100)]
    catch_up: Option<u32>,
    /// The job that each run creates. `job` or `message` is required.
    #[serde(borrow, default, deserialize_with = "input::object", serialize_with = "left_out")]
    job: Option<JobIn<'a>>,
    /// The message that each run creates, in the place of `job`.
    #[serde(borrow, default, deserialize_with = "input::object", serialize_with = "left_out")]
    message: Option<ScheduledMessageIn<'a>>,
    /// Whether the schedule is paused.
    pub(crate) paused: Option<bool>,
}

/// A message that each run of a schedule creates.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ScheduledMessageIn<'a> {
    /// The id or uid of the application.
    application: String,
    #[schema(max_length = 256, pattern = "^[a-zA-Z0-9\\-_.]+$", example = "report.due")]
    event_type: String,
    /// The JSON object to deliver, byte for byte.
    #[serde(borrow)]
    #[schema(value_type = Object)]
    payload: &'a RawValue,
    #[schema(min_items = 1, max_items = 10)]
    channels: Option<Vec<String>>,
    #[schema(max_items = 8)]
    tags: Option<Vec<String>>,
}

/// The policy while the job of the previous run is pending or running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ScheduleOverlap)]
pub(crate) enum OverlapForm {
    /// Start the run at its time.
    Allow,
    /// Skip the run.
    Skip,
    /// Start the run when the previous job has ended. At most one run waits.
    QueueOne,
}

/// The policy for runs that did not start in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ScheduleMissed)]
pub(crate) enum MissedForm {
    /// Skip all missed runs.
    Skip,
    /// Start one run for all missed runs.
    RunOnce,
    /// Start the latest missed runs, at most `catchUp`.
    CatchUp,
}

impl Form for ScheduleIn<'_> {
    type Record = ScheduleRecord;

    const EXCLUDES: &'static [(&'static str, &'static str)] = &[
        ("everySeconds", "cron"),
        ("everySeconds", "timezone"),
        ("cron", "everySeconds"),
        ("missed", "catchUp"),
        ("catchUp", "missed"),
    ];

    /// Leaves out the job and the message, which a change without them keeps. So their payload is kept byte for byte.
    fn of(record: &ScheduleRecord) -> Self {
        let schedule = &record.schedule;
        let (cron, timezone, every_seconds) = match &schedule.cadence {
            Cadence::Cron { cron, zone } => (Some(cron.as_str().to_owned()), Some(zone.as_str().to_owned()), None),
            Cadence::Every { every, .. } => (None, None, Some(every.as_secs())),
        };
        let (missed, catch_up) = MissedForm::of(schedule.missed);
        ScheduleIn {
            name: Some(record.name.to_string()),
            cron,
            every_seconds,
            timezone,
            starts_at: schedule.starts_at,
            ends_at: schedule.ends_at,
            jitter_seconds: Some(schedule.jitter.as_secs()),
            grace_seconds: Some(schedule.grace.as_secs()),
            overlap: Some(schedule.overlap.into()),
            missed: Some(missed),
            catch_up,
            job: None,
            message: None,
            paused: Some(record.paused),
        }
    }
}

/// Writes null, because members that are left out of a form are null.
fn left_out<T, S: Serializer>(_: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_none()
}

/// Values from outside the form that make a schedule complete.
pub(crate) struct Checks {
    pub(crate) id: ScheduleId,
    pub(crate) now: Timestamp,
    /// The job or message of the request.
    pub(crate) starts: Option<Starts>,
}

impl ScheduleIn<'_> {
    /// Builds a new schedule, or the replacement of `old`.
    pub(crate) fn check(self, checks: Checks, old: Option<ScheduleRecord>) -> Result<ScheduleRecord, Violation> {
        let now = checks.now;
        let name = self.name(old.as_ref())?;
        let schedule = self.schedule(checks.id, old.as_ref().map(|old| &old.schedule), now)?;
        let starts = checks.starts.or_else(|| old.as_ref().map(|old| old.starts.clone()));
        let starts = starts.ok_or_else(|| at("job").breaks("job or message is required"))?;
        if matches!(starts, Starts::Message(_)) && schedule.overlap != Overlap::Allow {
            return Err(at("overlap").breaks("must be allow for a schedule of messages"));
        }
        let paused = self.paused.unwrap_or(false);
        Ok(match old {
            Some(old) => ScheduleRecord { schedule, starts, paused, ..old },
            None => {
                let state = ScheduleState::paused();
                ScheduleRecord { name, schedule, starts, paused, state, created_at: now, updated_at: now, revision: 0 }
            }
        })
    }

    fn name(&self, old: Option<&ScheduleRecord>) -> Result<Name, Violation> {
        match (old, &self.name) {
            (Some(old), Some(name)) if *name != old.name.as_str() => Err(at("name").breaks("cannot be changed")),
            (Some(old), _) => Ok(old.name.clone()),
            (None, Some(name)) => input::own_name("name", name.clone()),
            (None, None) => Err(at("name").breaks("is required")),
        }
    }

    /// Builds the times of the runs. An unchanged interval keeps its start.
    fn schedule(&self, id: ScheduleId, old: Option<&Schedule>, now: Timestamp) -> Result<Schedule, Violation> {
        let base = Schedule::new(id, self.cadence(old.map(|old| &old.cadence), now)?);
        let schedule = Schedule {
            starts_at: self.starts_at,
            ends_at: self.ends_at,
            jitter: self.jitter_seconds.map_or(base.jitter, Duration::from_secs),
            overlap: self.overlap.map_or(base.overlap, Overlap::from),
            missed: self.missed(base.missed)?,
            grace: self.grace_seconds.map_or(base.grace, Duration::from_secs),
            ..base
        };
        schedule.check().map_err(|bad| at(field(bad)).breaks(bad))?;
        let when = |schedule: &Schedule| (schedule.cadence.clone(), schedule.starts_at, schedule.ends_at);
        // A schedule that has ended can still be changed in other ways.
        if old.map(when) != Some(when(&schedule)) && schedule.next_after(now).is_none() {
            let (field, rule) = match schedule.ends_at {
                Some(_) => ("endsAt", "the schedule would never run: it has no run time before endsAt"),
                None => ("cron", "the schedule would never run"),
            };
            return Err(at(field).breaks(rule));
        }
        Ok(schedule)
    }

    fn cadence(&self, old: Option<&Cadence>, now: Timestamp) -> Result<Cadence, Violation> {
        let zone = at("timezone").check(self.timezone.as_deref().map(str::parse::<Zone>).transpose())?;
        match (&self.cron, self.every_seconds) {
            (Some(_), Some(_)) => Err(at("everySeconds").breaks("cannot be combined with cron")),
            (None, None) => Err(at("cron").breaks("cron or everySeconds is required")),
            (None, Some(_)) if zone.is_some() => Err(at("timezone").breaks("can only be combined with cron")),
            (Some(cron), None) => {
                Ok(Cadence::Cron { cron: at("cron").check(cron.parse())?, zone: zone.unwrap_or(Zone::UTC) })
            }
            (None, Some(seconds)) => {
                let every = Duration::from_secs(seconds);
                let anchor = match old {
                    Some(Cadence::Every { every: old, anchor }) if *old == every => *anchor,
                    Some(Cadence::Every { .. } | Cadence::Cron { .. }) | None => now,
                };
                Ok(Cadence::Every { every, anchor: self.starts_at.unwrap_or(anchor) })
            }
        }
    }

    fn missed(&self, default: Missed) -> Result<Missed, Violation> {
        match (self.missed, self.catch_up) {
            (None, None) => Ok(default),
            (Some(MissedForm::Skip), None) => Ok(Missed::Skip),
            (Some(MissedForm::RunOnce), None) => Ok(Missed::RunOnce),
            (None | Some(MissedForm::CatchUp), Some(count)) => Ok(Missed::CatchUp(count)),
            (Some(MissedForm::CatchUp), None) => Err(at("catchUp").breaks("is required if missed is catchUp")),
            (Some(_), Some(_)) => Err(at("catchUp").breaks("can only be combined with the policy catchUp")),
        }
    }

    /// Takes the job or message out of the form, if the request has one.
    pub(crate) async fn take_starts(&mut self, api: &Api, scope: Scope) -> Result<Option<Starts>, ApiError> {
        match (self.job.take(), self.message.take()) {
            (Some(_), Some(_)) => Err(at("message").breaks("cannot be combined with job").into()),
            (Some(job), None) => {
                scope::need_jobs(api)?;
                Ok(Some(job_template(job).map_err(|bad| bad.under(at("job")))?))
            }
            (None, Some(message)) => message.template(api, scope).await.map(Some),
            (None, None) => Ok(None),
        }
    }
}

fn job_template(job: JobIn<'_>) -> Result<Starts, Violation> {
    let its_own = "cannot be set: the schedule determines the time";
    if job.run_at.is_some() {
        return Err(at("runAt").breaks(its_own));
    }
    if job.delay_seconds.is_some() {
        return Err(at("delaySeconds").breaks(its_own));
    }
    if job.batch_id.is_some() {
        return Err(at("batchId").breaks("cannot be set: jobs of a schedule belong to no batch"));
    }
    // The job gets its id when a run creates it.
    Ok(Starts::Job(Box::new(job.into_job(JobId(Id::MIN))?)))
}

impl ScheduledMessageIn<'_> {
    async fn template(self, api: &Api, scope: Scope) -> Result<Starts, ApiError> {
        let inside = |bad: Violation| bad.under(at("message"));
        at("payload").check(message::check_payload(self.payload.get())).map_err(inside)?;
        let draft = Draft { event_type: self.event_type, event_id: None, channels: self.channels, tags: self.tags };
        let checked = draft.check().map_err(inside)?;
        let application = find_application(api, scope, &self.application).await?;
        let application = application.ok_or_else(|| inside(no_application()))?.id;
        Ok(Starts::Message(Box::new(MessageTemplate {
            application,
            event_type: checked.event_type,
            payload: Bytes::copy_from_slice(self.payload.get().as_bytes()),
            channels: checked.channels,
            tags: checked.tags,
        })))
    }
}

/// Returns the field of a broken rule.
const fn field(bad: BadSchedule) -> &'static str {
    match bad {
        BadSchedule::Every => "everySeconds",
        BadSchedule::Jitter => "jitterSeconds",
        BadSchedule::Grace => "graceSeconds",
        BadSchedule::CatchUp => "catchUp",
        BadSchedule::Ends => "endsAt",
    }
}

impl From<OverlapForm> for Overlap {
    fn from(form: OverlapForm) -> Overlap {
        match form {
            OverlapForm::Allow => Overlap::Allow,
            OverlapForm::Skip => Overlap::Skip,
            OverlapForm::QueueOne => Overlap::QueueOne,
        }
    }
}

impl From<Overlap> for OverlapForm {
    fn from(overlap: Overlap) -> OverlapForm {
        match overlap {
            Overlap::Allow => OverlapForm::Allow,
            Overlap::Skip => OverlapForm::Skip,
            Overlap::QueueOne => OverlapForm::QueueOne,
        }
    }
}

impl MissedForm {
    /// Returns the policy and its count in the form of the API.
    pub(crate) const fn of(missed: Missed) -> (MissedForm, Option<u32>) {
        match missed {
            Missed::Skip => (MissedForm::Skip, None),
            Missed::RunOnce => (MissedForm::RunOnce, None),
            Missed::CatchUp(count) => (MissedForm::CatchUp, Some(count)),
        }
    }
}
