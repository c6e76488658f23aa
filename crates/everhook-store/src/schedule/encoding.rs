//! The stored form of a schedule: JSON, the same in both stores.
//!
//! An unreadable schedule is reported and does not stop the others.

use std::time::Duration;

use bytes::Bytes;
use everhook_core::id::{ApplicationId, Id, JobId, ScheduleId};
use everhook_core::name::Name;
use everhook_core::schedule::{Cadence, Missed, Overlap, Schedule};
use everhook_core::time::{Timestamp, micros};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::job::encoding::JobForm;
use crate::schedule::{MessageTemplate, Starts};

/// Every member is always written: see `resource::encoding`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SpecForm {
    cron: Option<String>,
    zone: Option<String>,
    every_us: Option<u64>,
    anchor: Option<i64>,
    starts_at: Option<i64>,
    ends_at: Option<i64>,
    jitter_us: u64,
    overlap: i16,
    missed: (i16, u32),
    grace_us: u64,
    starts: Box<RawValue>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum StartsForm<'a> {
    Job {
        job: JobForm,
        #[serde(borrow)]
        payload: Option<&'a RawValue>,
    },
    Message {
        application: String,
        event_type: Name,
        #[serde(borrow)]
        payload: &'a RawValue,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        channels: Vec<Name>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tags: Vec<Name>,
    },
}

/// Encodes the rule and the template of a schedule.
pub fn spec(schedule: &Schedule, starts: &Starts) -> String {
    let (cron, zone, every, anchor) = match &schedule.cadence {
        Cadence::Cron { cron, zone } => (Some(cron.as_str().to_owned()), Some(zone.as_str().to_owned()), None, None),
        Cadence::Every { every, anchor } => (None, None, Some(span_us(*every)), Some(anchor.as_micros())),
    };
    let form = SpecForm {
        cron,
        zone,
        every_us: every,
        anchor,
        starts_at: schedule.starts_at.map(Timestamp::as_micros),
        ends_at: schedule.ends_at.map(Timestamp::as_micros),
        jitter_us: span_us(schedule.jitter),
        overlap: schedule.overlap.to_db(),
        missed: schedule.missed.to_db(),
        grace_us: span_us(schedule.grace),
        starts: RawValue::from_string(write_starts(starts)).unwrap_or_default(),
    };
    serde_json::to_string(&form).unwrap_or_default()
}

/// Decodes a schedule. Returns none if this binary cannot read it: its time zone is gone, or a later version wrote it.
pub fn read_spec(id: ScheduleId, text: &str) -> Option<(Schedule, Starts)> {
    let form: SpecForm = serde_json::from_str(text).ok()?;
    let cadence = match (form.cron, form.every_us) {
        (Some(cron), None) => Cadence::Cron { cron: cron.parse().ok()?, zone: form.zone?.parse().ok()? },
        (None, Some(every)) => {
            Cadence::Every { every: Duration::from_micros(every), anchor: Timestamp::from_micros(form.anchor?) }
        }
        _ => return None,
    };
    let schedule = Schedule {
        starts_at: form.starts_at.map(Timestamp::from_micros),
        ends_at: form.ends_at.map(Timestamp::from_micros),
        jitter: Duration::from_micros(form.jitter_us),
        overlap: Overlap::from_db(form.overlap)?,
        missed: Missed::from_db(form.missed.0, form.missed.1)?,
        grace: Duration::from_micros(form.grace_us),
        ..Schedule::new(id, cadence)
    };
    Some((schedule, read_starts(form.starts.get())?))
}

/// Encodes the template of a schedule. JSON payloads keep their exact bytes.
fn write_starts(starts: &Starts) -> String {
    let raw = |payload: &Bytes| {
        let text = std::str::from_utf8(payload).unwrap_or("null").to_owned();
        RawValue::from_string(text).unwrap_or_default()
    };
    match starts {
        Starts::Job(job) => {
            let payload = job.payload.as_ref().map(raw);
            let form = StartsForm::Job { job: JobForm::new(job), payload: payload.as_deref() };
            serde_json::to_string(&form)
        }
        Starts::Message(message) => {
            let payload = raw(&message.payload);
            let form = StartsForm::Message {
                application: message.application.to_string(),
                event_type: message.event_type.clone(),
                payload: &payload,
                channels: message.channels.clone(),
                tags: message.tags.clone(),
            };
            serde_json::to_string(&form)
        }
    }
    .unwrap_or_default()
}

/// Decodes the template of a schedule; none if this binary cannot. The id of a job is drawn when it starts.
fn read_starts(text: &str) -> Option<Starts> {
    let bytes = |payload: &RawValue| Bytes::copy_from_slice(payload.get().as_bytes());
    Some(match serde_json::from_str(text).ok()? {
        StartsForm::Job { job, payload } => {
            let mut job = job.into_job(JobId(Id::MIN))?;
            job.payload = payload.map(bytes);
            Starts::Job(Box::new(job))
        }
        StartsForm::Message { application, event_type, payload, channels, tags } => {
            let application: ApplicationId = application.parse().ok()?;
            let payload = bytes(payload);
            Starts::Message(Box::new(MessageTemplate { application, event_type, payload, channels, tags }))
        }
    })
}

fn span_us(span: Duration) -> u64 {
    u64::try_from(micros(span)).unwrap_or(0)
}
