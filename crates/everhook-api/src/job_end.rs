//! What a remote worker says of a job that it holds: how it ended, how far it is.
//!
//! It counts only from the worker that has the job, under its current lease: else the answer is a conflict, and whatever was done is
//! not recorded. Ending goes through the engine, where every attempt ends.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use bytes::Bytes;
use everhook_core::id::{EnvironmentId, JobId, SessionId};
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
use crate::routes::Routes;
use crate::scope::{InJobs, PathParams};
use crate::state::Api;
use everhook_store::query;

/// It is done.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CompleteIn<'a> {
    /// The worker that has the job.
    #[schema(value_type = String)]
    worker_id: SessionId,
    /// The epoch that came with the job.
    epoch: u32,
    /// What came out: any JSON, kept up to 64 KiB.
    #[serde(borrow)]
    #[schema(value_type = Option<Object>)]
    result: Option<&'a RawValue>,
    /// What was logged; the last 100 lines are kept.
    log: Option<Vec<String>>,
}

/// It failed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct FailIn {
    /// The worker that has the job.
    #[schema(value_type = String)]
    worker_id: SessionId,
    /// The epoch that came with the job.
    epoch: u32,
    /// What went wrong.
    error: Option<String>,
    /// What was logged; the last 100 lines are kept.
    log: Option<Vec<String>>,
    /// Not before so many seconds have passed; the job's own back-off may be longer.
    #[schema(minimum = 0, maximum = 86_400)]
    retry_after_seconds: Option<f64>,
}

/// It is to be tried again later, which uses no attempt.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SnoozeIn {
    /// The worker that has the job.
    #[schema(value_type = String)]
    worker_id: SessionId,
    /// The epoch that came with the job.
    epoch: u32,
    /// How much later.
    #[schema(minimum = 0, maximum = 2_592_000)]
    seconds: f64,
    /// What was logged; the last 100 lines are kept.
    log: Option<Vec<String>>,
}

/// How far it is.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ProgressIn {
    /// The worker that has the job.
    #[schema(value_type = String)]
    worker_id: SessionId,
    /// The epoch that came with the job.
    epoch: u32,
    /// 0 to 100.
    #[schema(minimum = 0, maximum = 100)]
    percent: i64,
    /// A text for people.
    text: Option<String>,
}

/// Where the job stands now.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobStateOut {
    #[schema(value_type = String)]
    id: JobId,
    #[schema(value_type = String)]
    state: Shown<JobState>,
}

pub(crate) fn routes() -> Routes {
    Routes::default()
        .add(complete, __path_complete)
        .add(fail, __path_fail)
        .add(snooze, __path_snooze)
        .add(progress, __path_progress)
}

/// Complete a job: it succeeded. Saying it again is harmless.
#[utoipa::path(
    post, path = "/api/v1/job/{job_id}/complete", operation_id = "v1.job.complete", tag = "Worker",
    params(JobPath), request_body = CompleteIn, responses((status = 200, body = JobStateOut))
)]
async fn complete(
    State(api): State<Arc<Api>>,
    InJobs { environment }: InJobs,
    PathParams(path): PathParams<JobPath>,
    input: Input,
) -> Result<Json<JobStateOut>, ApiError> {
    let CompleteIn { worker_id, epoch, result, log } = input.json()?;
    let result = result.map(|result| Bytes::copy_from_slice(result.get().as_bytes()));
    let ending = Ending { report: Report::Completed, note: note("", log), result };
    end(&api, environment, path.id()?, LeaseProof { session: worker_id, epoch }, ending).await
}

/// Fail a job: it is tried again after its back-off, or dead if this was its last attempt.
#[utoipa::path(
    post, path = "/api/v1/job/{job_id}/fail", operation_id = "v1.job.fail", tag = "Worker",
    params(JobPath), request_body = FailIn, responses((status = 200, body = JobStateOut))
)]
async fn fail(
    State(api): State<Arc<Api>>,
    InJobs { environment }: InJobs,
    PathParams(path): PathParams<JobPath>,
    input: Input,
) -> Result<Json<JobStateOut>, ApiError> {
    let FailIn { worker_id, epoch, error, log, retry_after_seconds } = input.json()?;
    let retry_after = retry_after_seconds.map(|seconds| input::span("retryAfterSeconds", seconds)).transpose()?;
    let report = Report::Failed { retry_after: retry_after.map(|span| span.min(RETRY_DELAY_MAX)) };
    let ending = Ending { report, note: note(&error.unwrap_or_default(), log), result: None };
    end(&api, environment, path.id()?, LeaseProof { session: worker_id, epoch }, ending).await
}

/// Put a job off: it is tried again later, and this was no attempt.
#[utoipa::path(
    post, path = "/api/v1/job/{job_id}/snooze", operation_id = "v1.job.snooze", tag = "Worker",
    params(JobPath), request_body = SnoozeIn, responses((status = 200, body = JobStateOut))
)]
async fn snooze(
    State(api): State<Arc<Api>>,
    InJobs { environment }: InJobs,
    PathParams(path): PathParams<JobPath>,
    input: Input,
) -> Result<Json<JobStateOut>, ApiError> {
    let SnoozeIn { worker_id, epoch, seconds, log } = input.json()?;
    let wait = input::span("seconds", seconds)?;
    if wait > SNOOZE_MAX {
        return Err(at("seconds").breaks(format!("must be at most {}", SNOOZE_MAX.as_secs())).into());
    }
    let ending = Ending { report: Report::Snoozed { wait }, note: note("", log), result: None };
    end(&api, environment, path.id()?, LeaseProof { session: worker_id, epoch }, ending).await
}

/// Say how far a job is.
#[utoipa::path(
    post, path = "/api/v1/job/{job_id}/progress", operation_id = "v1.job.progress", tag = "Worker",
    params(JobPath), request_body = ProgressIn, responses((status = 200, body = JobStateOut))
)]
async fn progress(
    State(api): State<Arc<Api>>,
    InJobs { environment }: InJobs,
    PathParams(path): PathParams<JobPath>,
    input: Input,
) -> Result<Json<JobStateOut>, ApiError> {
    let ProgressIn { worker_id, epoch, percent, text } = input.json()?;
    let (id, by) = (path.id()?, LeaseProof { session: worker_id, epoch });
    let progress = at("percent").check(Progress::new(percent, &text.unwrap_or_default()))?;
    match api.node.report_progress(Scope::of(environment), id, by, progress).await? {
        Ok(()) => Ok(Json(JobStateOut { id, state: Shown(JobState::Leased) })),
        Err(why) => Err(not_yours(&api, environment, id, why).await?),
    }
}

async fn end(
    api: &Api,
    environment: EnvironmentId,
    id: JobId,
    by: LeaseProof,
    ending: Ending,
) -> Result<Json<JobStateOut>, ApiError> {
    match api.node.end_job(environment, id, by, ending).await? {
        Ok(state) => Ok(Json(JobStateOut { id, state: Shown(state) })),
        Err(why) => Err(not_yours(api, environment, id, why).await?),
    }
}

/// Why what a worker says does not count; a job that is not there is told apart from one that is not its own.
async fn not_yours(api: &Api, environment: EnvironmentId, id: JobId, why: LeaseLost) -> Result<ApiError, ApiError> {
    let Some(found) = api.read(query::FindJob { scope: Scope::of(environment), id }).await? else {
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

/// Cut to its limits: whatever a worker logs, its job has ended as it says.
fn note(error: &str, log: Option<Vec<String>>) -> Note {
    Note::new(error, log.iter().flatten().map(String::as_str))
}
