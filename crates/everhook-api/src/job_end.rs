//! Reports of remote workers about their jobs: the end of an attempt, and its progress.
//!
//! A report counts only from the worker that holds the job, with the epoch of the current lease. Other reports get a
//! conflict and change nothing. The engine settles the attempt, as it settles every attempt.

use axum::Json;
use bytes::Bytes;
use everhook_core::id::{JobId, SessionId};
use everhook_core::job::report::{Note, Progress, Report};
use everhook_core::job::{JobState, LeaseLost, LeaseProof};
use everhook_core::limits::{RETRY_DELAY_MAX, SNOOZE_MAX};
use everhook_core::scope::Scope;
use everhook_core::violation::at;
use everhook_engine::remote::Ending;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::error::ApiError;
use crate::input::{self, Input};
use crate::job::response::Shown;
use crate::job::{JobPath, no_job};
use crate::routes::{Answer, Routes, routes_of};
use crate::scope::{InJobs, PathParams};
use crate::state::Api;
use everhook_store::job::ProgressReport;
use everhook_store::query;

/// The report of a worker that a job succeeded.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CompleteIn<'a> {
    /// The id of the worker that holds the job.
    #[schema(value_type = String)]
    worker_id: SessionId,
    /// The epoch of the job's lease.
    epoch: u32,
    /// The result: any JSON value. Results of more than 64 KiB are not stored.
    #[serde(borrow)]
    #[schema(value_type = Option<Object>)]
    result: Option<&'a RawValue>,
    /// Log lines of the attempt. The last 100 lines are stored.
    log: Option<Vec<String>>,
}

/// The report of a worker that an attempt failed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct FailIn {
    /// The id of the worker that holds the job.
    #[schema(value_type = String)]
    worker_id: SessionId,
    /// The epoch of the job's lease.
    epoch: u32,
    /// The error text.
    error: Option<String>,
    /// Log lines of the attempt. The last 100 lines are stored.
    log: Option<Vec<String>>,
    /// Minimum seconds until the next attempt. The back-off of the job may be longer.
    #[schema(minimum = 0, maximum = 86_400)]
    retry_after_seconds: Option<f64>,
}

/// The request of a worker to run a job later, without using an attempt.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SnoozeIn {
    /// The id of the worker that holds the job.
    #[schema(value_type = String)]
    worker_id: SessionId,
    /// The epoch of the job's lease.
    epoch: u32,
    /// Seconds until the job is due again.
    #[schema(minimum = 0, maximum = 2_592_000)]
    seconds: f64,
    /// Log lines of the attempt. The last 100 lines are stored.
    log: Option<Vec<String>>,
}

/// The progress of a running job.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ProgressIn {
    /// The id of the worker that holds the job.
    #[schema(value_type = String)]
    worker_id: SessionId,
    /// The epoch of the job's lease.
    epoch: u32,
    /// Progress in percent, from 0 to 100.
    #[schema(minimum = 0, maximum = 100)]
    percent: i64,
    /// A text for display.
    text: Option<String>,
}

/// The state of the job after a report.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobStateOut {
    #[schema(value_type = String)]
    id: JobId,
    #[schema(value_type = String)]
    state: Shown<JobState>,
}

pub(crate) fn routes() -> Routes {
    routes_of![complete __path_complete, fail __path_fail, snooze __path_snooze, progress __path_progress]
}

/// Complete a job: it succeeded. Repeated calls have no effect.
#[utoipa::path(
    post, path = "/api/v1/job/{job_id}/complete", operation_id = "v1.job.complete", tag = "Worker",
    params(JobPath), request_body = CompleteIn, responses((status = 200, body = JobStateOut))
)]
async fn complete(InJobs { api, scope }: InJobs, path: PathParams<JobPath>, input: Input) -> Answer<JobStateOut> {
    let CompleteIn { worker_id, epoch, result, log } = input.json()?;
    let result = result.map(|result| Bytes::copy_from_slice(result.get().as_bytes()));
    let ending = Ending { report: Report::Completed, note: note("", log), result };
    end(&api, scope, path.id()?, LeaseProof { session: worker_id, epoch }, ending).await
}

/// Fail an attempt. The job is retried after its back-off, or is dead after its last attempt.
#[utoipa::path(
    post, path = "/api/v1/job/{job_id}/fail", operation_id = "v1.job.fail", tag = "Worker",
    params(JobPath), request_body = FailIn, responses((status = 200, body = JobStateOut))
)]
async fn fail(InJobs { api, scope }: InJobs, path: PathParams<JobPath>, input: Input) -> Answer<JobStateOut> {
    let FailIn { worker_id, epoch, error, log, retry_after_seconds } = input.json()?;
    let retry_after = retry_after_seconds.map(|seconds| input::span("retryAfterSeconds", seconds)).transpose()?;
    let report = Report::Failed { retry_after: retry_after.map(|span| span.min(RETRY_DELAY_MAX)) };
    let ending = Ending { report, note: note(&error.unwrap_or_default(), log), result: None };
    end(&api, scope, path.id()?, LeaseProof { session: worker_id, epoch }, ending).await
}

/// Snooze a job: it runs again later, and the attempt does not count.
#[utoipa::path(
    post, path = "/api/v1/job/{job_id}/snooze", operation_id = "v1.job.snooze", tag = "Worker",
    params(JobPath), request_body = SnoozeIn, responses((status = 200, body = JobStateOut))
)]
async fn snooze(InJobs { api, scope }: InJobs, path: PathParams<JobPath>, input: Input) -> Answer<JobStateOut> {
    let SnoozeIn { worker_id, epoch, seconds, log } = input.json()?;
    let wait = input::span("seconds", seconds)?;
    if wait > SNOOZE_MAX {
        return Err(at("seconds").breaks(format!("must be at most {}", SNOOZE_MAX.as_secs())).into());
    }
    let ending = Ending { report: Report::Snoozed { wait }, note: note("", log), result: None };
    end(&api, scope, path.id()?, LeaseProof { session: worker_id, epoch }, ending).await
}

/// Report the progress of a job.
#[utoipa::path(
    post, path = "/api/v1/job/{job_id}/progress", operation_id = "v1.job.progress", tag = "Worker",
    params(JobPath), request_body = ProgressIn, responses((status = 200, body = JobStateOut))
)]
async fn progress(InJobs { api, scope }: InJobs, path: PathParams<JobPath>, input: Input) -> Answer<JobStateOut> {
    let ProgressIn { worker_id, epoch, percent, text } = input.json()?;
    let (id, by) = (path.id()?, LeaseProof { session: worker_id, epoch });
    let progress = at("percent").check(Progress::new(percent, &text.unwrap_or_default()))?;
    match api.node.report_progress(scope, ProgressReport { job: id, by, progress }).await? {
        Ok(()) => Ok(Json(JobStateOut { id, state: Shown(JobState::Leased) })),
        Err(why) => Err(not_yours(&api, scope, id, why).await?),
    }
}

async fn end(api: &Api, scope: Scope, id: JobId, by: LeaseProof, ending: Ending) -> Answer<JobStateOut> {
    match api.node.end_job(scope.environment, id, by, ending).await? {
        Ok(state) => Ok(Json(JobStateOut { id, state: Shown(state) })),
        Err(why) => Err(not_yours(api, scope, id, why).await?),
    }
}

/// Explains why a report does not count: the job does not exist, does not run, or belongs to another lease.
async fn not_yours(api: &Api, scope: Scope, id: JobId, why: LeaseLost) -> Result<ApiError, ApiError> {
    let Some(found) = api.read(query::FindJob { scope, id }).await? else {
        return Err(no_job(id));
    };
    Ok(match why {
        LeaseLost::NotRunning => {
            let state = serde_json::to_string(&Shown(found.state)).unwrap_or_default();
            let detail = format!("The job is not running, it is {}: nothing was recorded.", state.trim_matches('"'));
            ApiError::new(StatusCode::CONFLICT, "not_running", detail)
        }
        LeaseLost::Lost => {
            let detail = "The job is held by another worker, or was leased again since: nothing was recorded.";
            ApiError::new(StatusCode::CONFLICT, "not_yours", detail)
        }
    })
}

/// Truncates the texts to their limits. A report is never refused for its log, because the attempt has ended.
fn note(error: &str, log: Option<Vec<String>>) -> Note {
    Note::new(error, log.iter().flatten().map(String::as_str))
}
