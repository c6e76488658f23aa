//! The form of a job in requests: for a single job, a list, a batch and the job of a schedule.

use std::time::Duration;

use bytes::Bytes;
use everhook_core::id::JobId;
use everhook_core::job::{BadJob, Job, Priority, RunAt, Unique};
use everhook_core::name::{self, Metadata, Name};
use everhook_core::retry::{Backoff, BadRetryPolicy, RetryPolicy};
use everhook_core::time::Timestamp;
use everhook_core::violation::{Violation, at};
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::input;
use crate::limits::UNIQUE_WINDOW_DEFAULT;

/// A job to enqueue. Only `queue` and `kind` are required.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct JobIn<'a> {
    /// The queue of the job. A queue needs no set-up.
    #[schema(max_length = 256, pattern = "^[a-zA-Z0-9\\-_.]+$", example = "email")]
    queue: String,
    /// The kind of the job, by which workers choose a handler.
    #[schema(max_length = 256, pattern = "^[a-zA-Z0-9\\-_.]+$", example = "email.send")]
    kind: String,
    /// Any JSON value. The handler gets it byte for byte.
    #[serde(borrow)]
    #[schema(value_type = Option<Object>)]
    payload: Option<&'a RawValue>,
    /// The display name.
    #[schema(max_length = 256)]
    name: Option<String>,
    /// The earliest time at which the job runs. A time in the past means now.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(crate) run_at: Option<Timestamp>,
    /// Seconds from now until the job may run, in the place of `runAt`.
    #[schema(minimum = 0)]
    pub(crate) delay_seconds: Option<f64>,
    /// 0 runs first, 9 runs last. Default: 5.
    #[schema(minimum = 0, maximum = 9)]
    priority: Option<i64>,
    /// The number of attempts before the job is dead. Default: 10.
    #[schema(minimum = 1, maximum = 101)]
    max_attempts: Option<u32>,
    /// Seconds between attempts: a list such as `[5, 60]`, or an exponential back-off.
    /// Default: `{"baseSeconds": 5, "capSeconds": 3600}`.
    #[schema(value_type = Option<Object>)]
    backoff: Option<Backoff>,
    /// Seconds that one attempt may take. Default: 900 (15 minutes). A push to the target of a queue is also limited by
    /// the server's setting `job_push_timeout_seconds`, 300 by default.
    #[schema(minimum = 1, maximum = 604_800)]
    timeout_seconds: Option<u64>,
    /// A key for which the queue accepts only one job. Later requests with the key get that job.
    #[schema(max_length = 256)]
    unique_key: Option<String>,
    /// Seconds for which `uniqueKey` is reserved. Default: 86400 (one day).
    #[schema(minimum = 1, maximum = 7_776_000)]
    unique_seconds: Option<u64>,
    /// Jobs of the queue with the same key share the queue's `keyLimit`.
    #[schema(max_length = 256)]
    concurrency_key: Option<String>,
    /// Tags, by which lists can be filtered.
    #[schema(max_items = 8)]
    tags: Option<Vec<String>>,
    /// Your own data. Everhook does not interpret it.
    #[schema(value_type = Option<BTreeMap<String, String>>)]
    metadata: Option<Metadata>,
    /// The id of the batch that the job belongs to.
    #[schema(example = "batch_1srOrx2ZWZBpBUvZwXKQmoEYga2")]
    pub(crate) batch_id: Option<String>,
}

impl JobIn<'_> {
    /// Checks all rules and builds the job.
    pub(crate) fn into_job(self, id: JobId) -> Result<Job, Violation> {
        let queue = input::own_name("queue", self.queue)?;
        let kind = at("kind").check(Name::try_from(self.kind))?;
        // The payload is copied, because the body shares its buffer with other data of the connection.
        let payload = self.payload.map_or("null", RawValue::get);
        let plain = Job::new(id, queue, kind, Bytes::copy_from_slice(payload.as_bytes()));
        let job = Job {
            name: self.name,
            priority: self.priority.map_or(Ok(plain.priority), Priority::new).map_err(broken)?,
            retry: retry(plain.retry, self.max_attempts, self.backoff)?,
            timeout: self.timeout_seconds.map_or(plain.timeout, Duration::from_secs),
            unique: unique(self.unique_key, self.unique_seconds)?,
            concurrency_key: self.concurrency_key,
            tags: tags(self.tags.unwrap_or_default())?,
            metadata: self.metadata.unwrap_or_default(),
            batch: at("batchId").check(self.batch_id.map(|id| id.parse()).transpose())?,
            ..plain
        };
        job.check().map_err(broken)?;
        for (key, value) in &job.metadata {
            at("metadata").check(name::check_text(key).and_then(|()| name::check_text(value)))?;
        }
        Ok(job)
    }

    pub(crate) fn run_at(&self, now: Timestamp) -> Result<RunAt, Violation> {
        run_at(self.run_at, self.delay_seconds, now)
    }
}

/// Returns the time from `runAt` or `delaySeconds`, of which a request has at most one.
pub(crate) fn run_at(time: Option<Timestamp>, delay_seconds: Option<f64>, now: Timestamp) -> Result<RunAt, Violation> {
    let (run_at, field) = match (time, delay_seconds) {
        (None, None) => return Ok(RunAt::Now),
        (Some(_), Some(_)) => return Err(at("delaySeconds").breaks("cannot be combined with runAt")),
        (Some(time), None) => (RunAt::At(time), BadJob::RunAt.field()),
        (None, Some(seconds)) => (RunAt::In(input::span("delaySeconds", seconds)?), "delaySeconds"),
    };
    at(field).check(run_at.due_at(now))?;
    Ok(run_at)
}

fn broken(bad: BadJob) -> Violation {
    at(bad.field()).breaks(bad)
}

fn retry(default: RetryPolicy, max_attempts: Option<u32>, backoff: Option<Backoff>) -> Result<RetryPolicy, Violation> {
    if max_attempts.is_none() && backoff.is_none() {
        return Ok(default);
    }
    let attempts = max_attempts.unwrap_or(default.attempts_max());
    RetryPolicy::with(backoff.unwrap_or_else(|| default.backoff().clone()), attempts).map_err(|bad| match bad {
        BadRetryPolicy::Attempts => at("maxAttempts").breaks(bad),
        BadRetryPolicy::TooMany | BadRetryPolicy::TooLong | BadRetryPolicy::Empty | BadRetryPolicy::CapBelowBase => {
            at("backoff").breaks(bad)
        }
    })
}

fn unique(key: Option<String>, seconds: Option<u64>) -> Result<Option<Unique>, Violation> {
    match (key, seconds) {
        (Some(key), seconds) => {
            Ok(Some(Unique { key, window: seconds.map_or(UNIQUE_WINDOW_DEFAULT, Duration::from_secs) }))
        }
        (None, None) => Ok(None),
        (None, Some(_)) => Err(at("uniqueSeconds").breaks("requires uniqueKey")),
    }
}

fn tags(tags: Vec<String>) -> Result<Vec<Name>, Violation> {
    let tag = |(index, text)| Name::try_from(text).map_err(|bad| at("tags").index(index).breaks(bad));
    tags.into_iter().enumerate().map(tag).collect()
}
