//! The stored form of a job: the members without a column are JSON, the same in both stores.
//!
//! Most jobs have only queue, kind and payload, and need no JSON. Durations are microseconds, so that none is rounded.

use std::time::Duration;

use everhook_core::id::{JobId, ScheduleId};
use everhook_core::job::{Job, Priority, Unique};
use everhook_core::name::{Metadata, Name};
use everhook_core::retry::{Backoff, RetryPolicy};
use everhook_core::time::micros;
use serde::{Deserialize, Serialize};

/// Members that most jobs do not set.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct JobExtras {
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<RetryForm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unique: Option<(String, u64)>,
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    metadata: Metadata,
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule: Option<String>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RetryForm {
    attempts: u32,
    backoff: Backoff,
}

/// A job without its id, payload and batch, for templates.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobForm {
    queue: Name,
    kind: Name,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    priority: i16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    concurrency_key: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tags: Vec<Name>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rest: Option<String>,
}

/// Returns the members of a job without a column as JSON; none if all have their defaults.
pub fn extra_json(job: &Job) -> Option<String> {
    let plain = plain(job.id, job.queue.clone(), job.kind.clone());
    let rest = JobExtras {
        retry: (job.retry != plain.retry)
            .then(|| RetryForm { attempts: job.retry.attempts_max(), backoff: job.retry.backoff().clone() }),
        timeout_us: (job.timeout != plain.timeout).then(|| span_us(job.timeout)),
        unique: job.unique.as_ref().map(|unique| (unique.key.clone(), span_us(unique.window))),
        metadata: job.metadata.clone(),
        schedule: job.schedule.map(|id| id.to_string()),
    };
    (rest != JobExtras::default()).then(|| serde_json::to_string(&rest).unwrap_or_default())
}

/// Adds the members without a column to a job. Returns none if this binary cannot read them.
pub fn with_extra_json(mut job: Job, rest: Option<&str>) -> Option<Job> {
    let Some(text) = rest else { return Some(job) };
    let rest: JobExtras = serde_json::from_str(text).ok()?;
    if let Some(retry) = rest.retry {
        job.retry = RetryPolicy::with(retry.backoff, retry.attempts).ok()?;
    }
    if let Some(timeout) = rest.timeout_us {
        job.timeout = Duration::from_micros(timeout);
    }
    job.unique = rest.unique.map(|(key, window)| Unique { key, window: Duration::from_micros(window) });
    job.metadata = rest.metadata;
    job.schedule = rest.schedule.map(|id| id.parse::<ScheduleId>()).transpose().ok()?;
    Some(job)
}

/// Returns a job without a payload, with every other member at its default.
pub fn plain(id: JobId, queue: Name, kind: Name) -> Job {
    Job { payload: None, ..Job::new(id, queue, kind, bytes::Bytes::new()) }
}

impl JobForm {
    pub(crate) fn new(job: &Job) -> JobForm {
        JobForm {
            queue: job.queue.clone(),
            kind: job.kind.clone(),
            name: job.name.clone(),
            priority: job.priority.get(),
            concurrency_key: job.concurrency_key.clone(),
            tags: job.tags.clone(),
            rest: extra_json(job),
        }
    }

    pub(crate) fn into_job(self, id: JobId) -> Option<Job> {
        let job = Job {
            name: self.name,
            priority: Priority::new(self.priority.into()).ok()?,
            concurrency_key: self.concurrency_key,
            tags: self.tags,
            ..plain(id, self.queue, self.kind)
        };
        with_extra_json(job, self.rest.as_deref())
    }
}

fn span_us(span: Duration) -> u64 {
    u64::try_from(micros(span)).unwrap_or(0)
}
