//! A schedule as a request describes it, when it is created and when it is changed.

use std::time::Duration;

use bytes::Bytes;
use everhook_core::draft::Draft;
use everhook_core::id::{EnvironmentId, Id, JobId, ScheduleId};
use everhook_core::message;
use everhook_core::name::Name;
use everhook_core::schedule::fire::ScheduleState;
use everhook_core::schedule::zone::Zone;
use everhook_core::schedule::{BadSchedule, Cadence, Missed, Overlap, Schedule};
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

/// A schedule to create, or what to change of one: what is absent stays then.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ScheduleIn<'a> {
    /// Its name, unique in the environment. Has to be there to create, and cannot be changed.
    #[schema(max_length = 256, pattern = "^[a-zA-Z0-9\\-_.]+$", example = "nightly")]
    pub(crate) name: Option<String>,
    /// When it runs, by the clock: five fields, or six with seconds first, names, or `@daily` and the like.
    #[schema(max_length = 256, example = "0 3 * * mon-fri")]
    cron: Option<String>,
    /// When it runs, by the time that passes, in the place of `cron`.
    #[schema(minimum = 1, maximum = 31_622_400)]
    every_seconds: Option<u64>,
    /// On whose clocks `cron` is: an IANA name; UTC where nothing is said.
    #[schema(example = "Europe/Berlin")]
    timezone: Option<String>,
    /// It does not run before this.
    #[schema(value_type = Option<String>, format = DateTime)]
    starts_at: Option<Timestamp>,
    /// It does not run at this or later.
    #[schema(value_type = Option<String>, format = DateTime)]
    ends_at: Option<Timestamp>,
    /// Each run is late by a part of this, the same on every replica.
    #[schema(maximum = 86_400)]
    jitter_seconds: Option<u64>,
    /// How late a run may start before it counts as missed; 30 where nothing is said.
    #[schema(maximum = 86_400)]
    grace_seconds: Option<u64>,
    /// What to do while the job of the run before is pending or runs. Only `allow` for messages.
    overlap: Option<OverlapForm>,
    /// What to do about runs that nobody started in time: `runOnce` where nothing is said.
    missed: Option<MissedForm>,
    /// How many missed runs are made up for, with `catchUp`.
    #[schema(minimum = 1, maximum = 100)]
    catch_up: Option<u32>,
    /// The job that it starts.
    #[serde(borrow, default, deserialize_with = "input::object", serialize_with = "left_out")]
    job: Option<JobIn<'a>>,
    /// The message that it sends, in the place of `job`.
    #[serde(borrow, default, deserialize_with = "input::object", serialize_with = "left_out")]
    message: Option<ScheduledMessageIn<'a>>,
    /// Whether it waits to be resumed.
    pub(crate) paused: Option<bool>,
}

/// A message that is sent again and again.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ScheduledMessageIn<'a> {
    /// The application, by id or uid.
    application: String,
    #[schema(max_length = 256, pattern = "^[a-zA-Z0-9\\-_.]+$", example = "report.due")]
    event_type: String,
    /// What is sent, byte for byte.
    #[serde(borrow)]
    #[schema(value_type = Object)]
    payload: &'a RawValue,
    #[schema(min_items = 1, max_items = 10)]
    channels: Option<Vec<String>>,
    #[schema(max_items = 8)]
    tags: Option<Vec<String>>,
}

/// What to do while the run before is still open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ScheduleOverlap)]
pub(crate) enum OverlapForm {
    /// Run beside it.
    Allow,
    /// Leave this run out.
    Skip,
    /// Run when it has ended; one run waits at most.
    QueueOne,
}

/// What to do about runs that nobody started in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ScheduleMissed)]
pub(crate) enum MissedForm {
    /// Leave them out.
    Skip,
    /// One run for all of them.
    RunOnce,
    /// Make up for the latest ones, `catchUp` at most.
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

    /// Without job and message, which stay where they are absent: a payload is kept byte for byte.
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

/// Absent members of a form are null.
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
    /// The schedule that is wanted: a new one, or one in the place of `old`.
    pub(crate) fn check(self, checks: Checks, old: Option<ScheduleRecord>) -> Result<ScheduleRecord, Violation> {
        let now = checks.now;
        let name = self.name(old.as_ref())?;
        let schedule = self.schedule(checks.id, old.as_ref().map(|old| &old.schedule), now)?;
        let starts = checks.starts.or_else(|| old.as_ref().map(|old| old.starts.clone()));
        let starts = starts.ok_or_else(|| at("job").breaks("must be there, or message"))?;
        if matches!(starts, Starts::Message(_)) && schedule.overlap != Overlap::Allow {
            return Err(at("overlap").breaks("must be allow for a message: it is never open"));
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
            (None, None) => Err(at("name").breaks("must be there")),
        }
    }

    /// When it runs. An interval that is not changed keeps its beginning.
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
        // One that has ended can still be changed in other ways.
        if old.map(when) != Some(when(&schedule)) && schedule.next_after(now).is_none() {
            let (field, rule) = match schedule.ends_at {
                Some(_) => ("endsAt", "it would never run: there is no time before this"),
                None => ("cron", "it would never run"),
            };
            return Err(at(field).breaks(rule));
        }
        Ok(schedule)
    }

    fn cadence(&self, old: Option<&Cadence>, now: Timestamp) -> Result<Cadence, Violation> {
        let zone = at("timezone").check(self.timezone.as_deref().map(str::parse::<Zone>).transpose())?;
        match (&self.cron, self.every_seconds) {
            (Some(_), Some(_)) => Err(at("everySeconds").breaks("must not be there together with cron")),
            (None, None) => Err(at("cron").breaks("must be there, or everySeconds")),
            (None, Some(_)) if zone.is_some() => Err(at("timezone").breaks("is for cron only")),
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
            (Some(MissedForm::CatchUp), None) => Err(at("catchUp").breaks("must be there with catchUp")),
            (Some(_), Some(_)) => Err(at("catchUp").breaks("is for catchUp only")),
        }
    }

    /// Takes out what it starts; none if nothing is said of that.
    pub(crate) async fn take_starts(
        &mut self,
        api: &Api,
        environment: EnvironmentId,
    ) -> Result<Option<Starts>, ApiError> {
        match (self.job.take(), self.message.take()) {
            (Some(_), Some(_)) => Err(at("message").breaks("must not be there together with job").into()),
            (Some(job), None) => {
                scope::need_jobs(api)?;
                Ok(Some(job_template(job).map_err(|bad| bad.under(at("job")))?))
            }
            (None, Some(message)) => message.template(api, environment).await.map(Some),
            (None, None) => Ok(None),
        }
    }
}

fn job_template(job: JobIn<'_>) -> Result<Starts, Violation> {
    let its_own = "is the schedule's to say";
    if job.run_at.is_some() {
        return Err(at("runAt").breaks(its_own));
    }
    if job.delay_seconds.is_some() {
        return Err(at("delaySeconds").breaks(its_own));
    }
    if job.batch_id.is_some() {
        return Err(at("batchId").breaks("a schedule starts jobs of no batch"));
    }
    // The id is drawn when the job is started.
    Ok(Starts::Job(Box::new(job.into_job(JobId(Id::MIN))?)))
}

impl ScheduledMessageIn<'_> {
    async fn template(self, api: &Api, environment: EnvironmentId) -> Result<Starts, ApiError> {
        let inside = |bad: Violation| bad.under(at("message"));
        at("payload").check(message::check_payload(self.payload.get())).map_err(inside)?;
        let draft = Draft { event_type: self.event_type, event_id: None, channels: self.channels, tags: self.tags };
        let checked = draft.check().map_err(inside)?;
        let application = find_application(api, environment, &self.application).await?;
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

/// The field that breaks the rule.
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
    /// The policy and its count as they are shown.
    pub(crate) const fn of(missed: Missed) -> (MissedForm, Option<u32>) {
        match missed {
            Missed::Skip => (MissedForm::Skip, None),
            Missed::RunOnce => (MissedForm::RunOnce, None),
            Missed::CatchUp(count) => (MissedForm::CatchUp, Some(count)),
        }
    }
}
