//! Jobs: the routes that enqueue, list and show them, and the commands of operators.
//!
//! The body is parsed once, and the payload is copied from it byte for byte. The core decides which commands a job
//! accepts in its state (`JobState::on`), under the store's lock. A refused command becomes a conflict here. The
//! reports of workers are in `job_end`.

use axum::Json;
use axum::response::{IntoResponse, Response};
use everhook_core::id::{BatchId, JobId};
use everhook_core::job::{Job, JobAction, JobState, OperatorCommand, tries_of};
use everhook_core::limits::{JOB_ATTEMPTS_SHOWN, JOBS_BULK_MAX};
use everhook_core::scope::Scope;
use everhook_core::violation::{Violation, at};
use everhook_store::catalog::Order;
use everhook_store::dedup::DedupKey;
use everhook_store::job::{Enqueued, JobRecord, NewJob};
use everhook_store::query;
use everhook_store::steer::Steer;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::error::ApiError;
use crate::input::{self, Input};
use crate::job::request::JobIn;
use crate::job::response::{ExistingJobOut, JobAttemptOut, JobOut, Shown};
use crate::job::search::JobParams;
use crate::page::{Cursor, Page, PageParams};
use crate::query::Query;
use crate::routes::{Answer, EmptyAnswer, Routes, StatusAnswer};
use crate::scope::{self, InJobs, PathParams};
use crate::state::Api;

pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod search;

/// Jobs to enqueue in one transaction.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobsIn<'a> {
    #[serde(borrow, deserialize_with = "input::objects")]
    #[schema(min_items = 1, max_items = 1000)]
    pub(crate) jobs: Vec<JobIn<'a>>,
}

/// The result for each job, in the order of the request.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EnqueuedListOut {
    pub(crate) data: Vec<EnqueuedOut>,
}

/// The result for one job of a list: `id` and `state`, or `error`.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct EnqueuedOut {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    id: Option<JobId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    state: Option<Shown<JobState>>,
    /// True if the job already existed: the request was repeated, or another job has the unique key.
    #[serde(skip_serializing_if = "Option::is_none")]
    existing: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<NotEnqueuedOut>,
}

/// The reason why one job of a list was not enqueued.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NotEnqueuedOut {
    #[schema(value_type = String)]
    code: &'static str,
    #[schema(value_type = String)]
    detail: &'static str,
}

/// A new time for a pending job. Exactly one of the members is required.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct JobPatch {
    /// The earliest time at which the job runs.
    #[schema(value_type = Option<String>, format = DateTime)]
    run_at: Option<everhook_core::time::Timestamp>,
    /// Seconds from now until the job may run.
    #[schema(minimum = 0)]
    delay_seconds: Option<f64>,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct JobPath {
    /// The job's id.
    job_id: String,
}

pub(crate) fn routes() -> Routes {
    Routes::default()
        .add(create, __path_create)
        .add(create_all, __path_create_all)
        .add(list, __path_list)
        .add(get, __path_get)
        .add(cancel, __path_cancel)
        .add(retry, __path_retry)
        .add(patch, __path_patch)
        .add(delete, __path_delete)
        .add(search::redrive, search::__path_redrive)
}

/// Enqueue a job. The response follows when the job is durable.
#[utoipa::path(
    post, path = "/api/v1/job", operation_id = "v1.job.create", tag = "Job", request_body = JobIn,
    responses(
        (status = 202, body = JobOut),
        (status = 200, body = ExistingJobOut, description = "The job already exists: the request was repeated, or another job has the unique key."),
    )
)]
async fn create(InJobs { api, scope }: InJobs, input: Input) -> Result<Response, ApiError> {
    enqueue_one(&api, scope, input.json()?, None, input.key.clone()).await
}

/// Enqueue up to 1,000 jobs in one transaction.
///
/// If a job is invalid, the whole request is refused. Otherwise the response has one result per job.
#[utoipa::path(
    post, path = "/api/v1/job/bulk", operation_id = "v1.job.create-bulk", tag = "Job", request_body = JobsIn,
    responses((status = 202, body = EnqueuedListOut))
)]
async fn create_all(InJobs { api, scope }: InJobs, input: Input) -> StatusAnswer<EnqueuedListOut> {
    let JobsIn { jobs } = input.json()?;
    let data = enqueue_all(&api, scope, jobs, None, input.key.as_ref()).await?;
    Ok((StatusCode::ACCEPTED, Json(EnqueuedListOut { data })))
}

/// List jobs, newest first.
#[utoipa::path(
    get, path = "/api/v1/job", operation_id = "v1.job.list", tag = "Job",
    params(PageParams, JobParams), responses((status = 200, body = Page<JobOut>))
)]
async fn list(
    InJobs { api, scope }: InJobs,
    Query(page): Query<PageParams>,
    Query(params): Query<JobParams>,
) -> Answer<Page<JobOut>> {
    let mut cursor: Cursor<JobId> = Cursor::new(&page, Order::Descending)?;
    if params.starts_after() {
        cursor = cursor.or_last();
    }
    let filter = params.filter(cursor.slice()).map_err(ApiError::in_query)?;
    let piece = api.read(query::Jobs { scope, filter }).await?;
    Ok(Json(cursor.page_of(piece, |row| row.job.id, JobOut::new)))
}

/// Get a job with its payload, attempts, progress and result.
#[utoipa::path(
    get, path = "/api/v1/job/{job_id}", operation_id = "v1.job.get", tag = "Job",
    params(JobPath), responses((status = 200, body = JobOut))
)]
async fn get(InJobs { api, scope }: InJobs, path: PathParams<JobPath>) -> Answer<JobOut> {
    show(&api, scope, path.id()?).await
}

/// Cancel a job. The worker of a running job learns of the cancellation with its next heartbeat.
#[utoipa::path(
    post, path = "/api/v1/job/{job_id}/cancel", operation_id = "v1.job.cancel", tag = "Job",
    params(JobPath), responses((status = 200, body = JobOut))
)]
async fn cancel(InJobs { api, scope }: InJobs, path: PathParams<JobPath>) -> Answer<JobOut> {
    let id = path.id()?;
    change(&api, scope, id, OperatorCommand::Cancel, "A job that has succeeded cannot be cancelled.").await?;
    show(&api, scope, id).await
}

/// Run a job now. A pending job becomes due at once; a dead job becomes pending again with a fresh set of attempts.
#[utoipa::path(
    post, path = "/api/v1/job/{job_id}/retry", operation_id = "v1.job.retry", tag = "Job",
    params(JobPath), responses((status = 200, body = JobOut))
)]
async fn retry(InJobs { api, scope }: InJobs, path: PathParams<JobPath>) -> Answer<JobOut> {
    let id = path.id()?;
    let refusal = "A job that has succeeded or was cancelled cannot be retried: enqueue another one.";
    change(&api, scope, id, OperatorCommand::Retry, refusal).await?;
    show(&api, scope, id).await
}

/// Move a pending job to another time.
#[utoipa::path(
    patch, path = "/api/v1/job/{job_id}", operation_id = "v1.job.patch", tag = "Job",
    params(JobPath), request_body = JobPatch, responses((status = 200, body = JobOut))
)]
async fn patch(InJobs { api, scope }: InJobs, path: PathParams<JobPath>, input: Input) -> Answer<JobOut> {
    let id = path.id()?;
    let JobPatch { run_at, delay_seconds } = input.json()?;
    if run_at.is_none() && delay_seconds.is_none() {
        return Err(at("runAt").breaks("runAt or delaySeconds is required").into());
    }
    let run_at = request::run_at(run_at, delay_seconds, api.now())?;
    change(&api, scope, id, OperatorCommand::RunAt(run_at), "Only a job that is pending can be moved.").await?;
    show(&api, scope, id).await
}

/// Delete a job with its attempts and its result. A running job cannot be deleted: cancel it first.
#[utoipa::path(
    delete, path = "/api/v1/job/{job_id}", operation_id = "v1.job.delete", tag = "Job",
    params(JobPath), responses((status = 204))
)]
async fn delete(InJobs { api, scope }: InJobs, path: PathParams<JobPath>) -> EmptyAnswer {
    let refusal = "A job that runs cannot be deleted: cancel it first.";
    change(&api, scope, path.id()?, OperatorCommand::Delete, refusal).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Enqueues a job. `batch` is the batch that the path names, if any.
pub(crate) async fn enqueue_one(
    api: &Api,
    scope: Scope,
    wanted: JobIn<'_>,
    batch: Option<BatchId>,
    key: Option<DedupKey>,
) -> Result<Response, ApiError> {
    let new = new_job(api, scope, wanted, batch, key)?;
    let job = Job { payload: None, ..new.job.clone() };
    let mut enqueued = api.node.enqueue(vec![new]).await?;
    match enqueued.pop().ok_or_else(no_answer)? {
        Enqueued::Accepted { created_at, due_at } => {
            Ok((StatusCode::ACCEPTED, Json(JobOut::accepted(job, created_at, due_at))).into_response())
        }
        Enqueued::Existing(id) => {
            let found = api.read(query::FindJob { scope, id }).await?;
            Ok(Json(ExistingJobOut::new(id, found)).into_response())
        }
        Enqueued::KeyReused => Err(ApiError::key_reused()),
        Enqueued::NoBatch if let Some(batch) = batch => Err(ApiError::not_found(format_args!("batch {batch}"))),
        Enqueued::NoBatch => Err(at("batchId").breaks("no batch has this id").into()),
        Enqueued::BatchSealed => Err(batch_sealed()),
    }
}

/// Enqueues jobs. `batch` is the batch that the path names, if any.
pub(crate) async fn enqueue_all(
    api: &Api,
    scope: Scope,
    jobs: Vec<JobIn<'_>>,
    batch: Option<BatchId>,
    key: Option<&DedupKey>,
) -> Result<Vec<EnqueuedOut>, ApiError> {
    if jobs.is_empty() || jobs.len() > JOBS_BULK_MAX {
        return Err(at("jobs").breaks(format!("must have 1 to {JOBS_BULK_MAX} entries")).into());
    }
    let new = jobs.into_iter().enumerate().map(|(index, job)| {
        let key = key.map(|key| key.entry(index));
        new_job(api, scope, job, batch, key).map_err(|bad| bad.under(at("jobs").index(index)))
    });
    let new = new.collect::<Result<Vec<NewJob>, Violation>>()?;
    let ids: Vec<JobId> = new.iter().map(|new| new.job.id).collect();
    let enqueued = api.node.enqueue(new).await?;
    let mut data = Vec::with_capacity(ids.len());
    for (id, enqueued) in ids.into_iter().zip(enqueued) {
        data.push(match enqueued {
            Enqueued::Accepted { .. } => {
                EnqueuedOut { id: Some(id), state: Some(Shown(JobState::Pending)), ..EnqueuedOut::default() }
            }
            Enqueued::Existing(id) => {
                let state = api.read(query::FindJob { scope, id }).await?.map(|found| Shown(found.state));
                EnqueuedOut { id: Some(id), state, existing: Some(true), error: None }
            }
            Enqueued::KeyReused => {
                EnqueuedOut::failed("idempotency_key_reused", "The idempotency key was used before with another body.")
            }
            Enqueued::NoBatch => EnqueuedOut::failed("not_found", "The batch was not found."),
            Enqueued::BatchSealed => EnqueuedOut::failed("batch_sealed", SEALED),
        });
    }
    Ok(data)
}

fn new_job(
    api: &Api,
    scope: Scope,
    wanted: JobIn<'_>,
    batch: Option<BatchId>,
    key: Option<DedupKey>,
) -> Result<NewJob, Violation> {
    let run_at = wanted.run_at(api.now())?;
    let mut job = wanted.into_job(JobId(api.new_id()))?;
    if let Some(batch) = batch {
        if job.batch.is_some_and(|named| named != batch) {
            return Err(at("batchId").breaks("is not the batch that the path names"));
        }
        job.batch = Some(batch);
    }
    Ok(NewJob { environment: scope.environment, job, run_at, key })
}

/// Applies a command of an operator. If the state of the job does not allow it, fails with the text `refusal`.
async fn change(
    api: &Api,
    scope: Scope,
    id: JobId,
    command: OperatorCommand,
    refusal: &'static str,
) -> Result<(), ApiError> {
    let steered = api.node.steer(scope, Steer::Jobs { ids: vec![id], command }).await?;
    match steered.plans.into_iter().next().flatten().ok_or_else(|| no_job(id))? {
        JobAction::Refuse => Err(ApiError::new(StatusCode::CONFLICT, "job_state", refusal)),
        JobAction::RunNow
        | JobAction::Redrive
        | JobAction::Reschedule(_)
        | JobAction::Cancel
        | JobAction::Delete
        | JobAction::RequestCancel
        | JobAction::Nothing => Ok(()),
    }
}

/// Shows a job with all details.
async fn show(api: &Api, scope: Scope, id: JobId) -> Answer<JobOut> {
    let found: JobRecord = api.read(query::FindJob { scope, id }).await?.ok_or_else(|| no_job(id))?;
    let attempts = api.read(query::JobAttempts { scope, id, limit: JOB_ATTEMPTS_SHOWN }).await?;
    let mut shown = JobOut::new(found);
    shown.tries = shown.tries.or_else(|| Some(tries_of(attempts.iter().map(|attempt| (attempt.class, attempt.end)))));
    shown.attempts = Some(attempts.into_iter().map(JobAttemptOut::from).collect());
    if let Some(holder) = &mut shown.held_by {
        let worker = api.read(query::FindWorker { scope, id: holder.worker_id }).await?;
        holder.name = worker.map(|worker| worker.session.node);
    }
    Ok(Json(shown))
}

pub(crate) fn no_job(id: JobId) -> ApiError {
    ApiError::not_found(format_args!("job {id}"))
}

const SEALED: &str = "The batch is sealed: it takes no more jobs.";

pub(crate) fn batch_sealed() -> ApiError {
    ApiError::new(StatusCode::CONFLICT, "batch_sealed", SEALED)
}

/// The store returns one answer for each job, so this failure is a bug of the store.
fn no_answer() -> ApiError {
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", "Internal Server Error")
}

impl EnqueuedOut {
    fn failed(code: &'static str, detail: &'static str) -> EnqueuedOut {
        EnqueuedOut { error: Some(NotEnqueuedOut { code, detail }), ..EnqueuedOut::default() }
    }

    /// Returns whether the job was refused because its batch is sealed.
    pub(crate) fn came_too_late(&self) -> bool {
        self.error.as_ref().is_some_and(|error| error.detail == SEALED)
    }
}

impl JobPath {
    /// Parses the id. A malformed id is not found.
    pub(crate) fn id(&self) -> Result<JobId, ApiError> {
        self.job_id.parse().map_err(|_| ApiError::not_found(scope::named("job", &self.job_id)))
    }
}
