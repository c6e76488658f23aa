//! Batches: sets of jobs whose outcome is announced once per phase, as messages of an application.
//!
//! A batch is open while jobs are added, and then sealed. This file creates, fills, seals and shows batches, and
//! retries or skips their dead jobs. The store writes the announcements, in the transactions that end the jobs.

use axum::Json;
use axum::response::{IntoResponse, Response};
use everhook_core::application::Application;
use everhook_core::batch::{self, Announcement, Batch, BatchCounts, Intake, Resolution};
use everhook_core::id::{ApplicationId, BatchId, JobId};
use everhook_core::limits::{BATCH_SELECTION_MAX, TITLE_CHARS_MAX};
use everhook_core::name::{Metadata, Name};
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_core::violation::{Violation, at};
use everhook_store::batch::{BatchRecord, NewBatch, Resolve, Resolved};
use everhook_store::catalog::{Created, Order};
use everhook_store::query;
use http::StatusCode;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::error::ApiError;
use crate::input::{self, Input};
use crate::job::request::JobIn;
use crate::job::{self, EnqueuedListOut, EnqueuedOut, JobsIn};
use crate::page::{Listing, OrderParams, Page, PageParams};
use crate::routes::{Answer, Routes, StatusAnswer, routes_of};
use crate::scope::{self, InJobs, PathParams};
use crate::state::Api;

/// A batch to create.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchIn {
    /// The display name.
    #[schema(min_length = 1, max_length = 256, example = "import of 4 May")]
    name: String,
    /// The id or uid of the application that gets the announcements as messages.
    application: String,
    /// The prefix of the announcements' event types: `<prefix>.failed` and `<prefix>.completed`.
    #[schema(max_length = 246, pattern = "^[a-zA-Z0-9\\-_.]+$", example = "import")]
    prefix: String,
    /// Your own data. Everhook does not interpret it; the announcements contain it.
    #[schema(value_type = Option<BTreeMap<String, String>>)]
    metadata: Option<Metadata>,
}

/// A batch.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BatchOut {
    #[schema(value_type = String, example = "batch_1srOrx2ZWZBpBUvZwXKQmoEYga2")]
    id: BatchId,
    name: String,
    /// `open`: jobs can be added. `sealed`: no more jobs can be added.
    #[schema(value_type = String)]
    state: &'static str,
    #[schema(value_type = String)]
    application: ApplicationId,
    #[schema(value_type = String)]
    prefix: Name,
    /// The current phase, from 1. Retrying or skipping dead jobs begins a new phase.
    phase: u32,
    /// The announcement of this phase: `failed` or `completed`, or null before the announcement.
    #[schema(value_type = Option<String>)]
    announced: Option<&'static str>,
    counts: CountsOut,
    #[schema(value_type = BTreeMap<String, String>)]
    metadata: Metadata,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

/// The number of jobs in each state.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CountsOut {
    /// Jobs that wait or run.
    pending: u32,
    succeeded: u32,
    /// Jobs that ran out of attempts and can be retried or skipped.
    dead: u32,
    cancelled: u32,
    /// Dead jobs that were skipped.
    skipped: u32,
}

/// Dead jobs of a batch.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SelectionIn {
    /// The ids of dead jobs of the batch.
    #[schema(min_items = 1, max_items = 1000)]
    jobs: Vec<String>,
}

/// A job, or a list of jobs under `jobs`.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(
    dead_code,
    reason = "only described: the form is looked up first, so that an error names the field of that form"
)]
pub(crate) enum BatchJobsIn<'a> {
    One(Box<JobIn<'a>>),
    Many(JobsIn<'a>),
}

/// A job, or a list with one entry per job.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only described: handlers return one of the two")]
pub(crate) enum BatchJobsOut {
    One(Box<job::response::JobOut>),
    Many(EnqueuedListOut),
}

/// Distinguishes the two forms of a body.
#[derive(Deserialize)]
struct JobOrJobs {
    jobs: Option<IgnoredAny>,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct BatchPath {
    /// The batch's id.
    batch_id: String,
}

pub(crate) fn routes() -> Routes {
    routes_of![
        list __path_list, create __path_create, get __path_get, add_jobs __path_add_jobs, seal __path_seal,
        retry __path_retry, skip __path_skip,
    ]
}

/// List batches, newest first.
#[utoipa::path(
    get, path = "/api/v1/batch", operation_id = "v1.batch.list", tag = "Batch",
    params(PageParams, OrderParams), responses((status = 200, body = Page<BatchOut>))
)]
async fn list(InJobs { api, scope }: InJobs, listing: Listing) -> Answer<Page<BatchOut>> {
    listing.answer(&api, Order::Descending, |slice| query::Batches { scope, slice }, |row| row.id).await
}

/// Create a batch without jobs.
#[utoipa::path(
    post, path = "/api/v1/batch", operation_id = "v1.batch.create", tag = "Batch", request_body = BatchIn,
    responses((status = 201, body = BatchOut))
)]
async fn create(InJobs { api, scope }: InJobs, input: Input) -> StatusAnswer<BatchOut> {
    let wanted: BatchIn = input.json()?;
    let name = input::some_text("name", wanted.name, TITLE_CHARS_MAX)?;
    let prefix = at("prefix").check(batch::prefix(&wanted.prefix))?;
    let metadata = input::metadata(wanted.metadata.unwrap_or_default())?;
    let application = find_application(&api, scope, &wanted.application).await?.ok_or_else(no_application)?.id;
    let batch = BatchRecord { metadata, ..BatchRecord::new(BatchId(api.new_id()), application, name, prefix) };
    let new = NewBatch { batch, key: input.key.clone() };
    match api.node.create_batch(scope, new).await? {
        Created::New(new) | Created::Repeated(new) | Created::Taken(new) => Ok((StatusCode::CREATED, Json(new.into()))),
        Created::KeyReused => Err(ApiError::key_reused()),
        Created::NoParent => Err(no_application().into()),
        Created::Full => Err(ApiError::full()),
    }
}

/// Get a batch. To find its dead jobs, list jobs with the parameters `batch` and `state`.
#[utoipa::path(
    get, path = "/api/v1/batch/{batch_id}", operation_id = "v1.batch.get", tag = "Batch",
    params(BatchPath), responses((status = 200, body = BatchOut))
)]
async fn get(InJobs { api, scope }: InJobs, path: PathParams<BatchPath>) -> Answer<BatchOut> {
    let found = api.read(query::FindBatch { scope, id: path.id()? }).await?;
    found.map(|found| Json(found.into())).ok_or_else(|| path.not_found())
}

/// Add a job to a batch, or up to 1,000 jobs in one transaction, as a list in `jobs`.
#[utoipa::path(
    post, path = "/api/v1/batch/{batch_id}/job", operation_id = "v1.batch.create-job", tag = "Batch",
    params(BatchPath), request_body = BatchJobsIn,
    responses(
        (status = 202, body = BatchJobsOut, description = "The job. For a list in `jobs`, a list with one entry per job."),
        (status = 200, body = job::response::ExistingJobOut, description = "The job already exists: the request was repeated, or another job has the unique key."),
    )
)]
async fn add_jobs(
    InJobs { api, scope }: InJobs,
    path: PathParams<BatchPath>,
    input: Input,
) -> Result<Response, ApiError> {
    let id = path.id()?;
    api.read(query::FindBatch { scope, id }).await?.ok_or_else(|| path.not_found())?;
    let JobOrJobs { jobs } = input.json()?;
    if jobs.is_none() {
        return job::enqueue_one(&api, scope, input.json()?, Some(id), input.key.clone()).await;
    }
    let JobsIn { jobs } = input.json()?;
    let data = job::enqueue_all(&api, scope, jobs, Some(id), input.key.as_ref()).await?;
    // Jobs that were added before the seal get their first answer again, so that a repeated request still succeeds.
    if data.iter().all(EnqueuedOut::came_too_late) {
        return Err(job::batch_sealed());
    }
    Ok((StatusCode::ACCEPTED, Json(EnqueuedListOut { data })).into_response())
}

/// Seal a batch: no more jobs can be added. A batch without jobs completes. Repeated calls have no effect.
#[utoipa::path(
    post, path = "/api/v1/batch/{batch_id}/seal", operation_id = "v1.batch.seal", tag = "Batch",
    params(BatchPath), responses((status = 200, body = BatchOut))
)]
async fn seal(InJobs { api, scope }: InJobs, path: PathParams<BatchPath>) -> Answer<BatchOut> {
    let sealed = api.node.seal_batch(scope, path.id()?).await?;
    Ok(Json(sealed.ok_or_else(|| path.not_found())?.into()))
}

/// Retry dead jobs of a batch with a fresh set of attempts. A new phase begins, whose outcome is announced again.
#[utoipa::path(
    post, path = "/api/v1/batch/{batch_id}/retry", operation_id = "v1.batch.retry", tag = "Batch",
    params(BatchPath), request_body = SelectionIn, responses((status = 200, body = BatchOut))
)]
async fn retry(InJobs { api, scope }: InJobs, path: PathParams<BatchPath>, input: Input) -> Answer<BatchOut> {
    resolve(&api, scope, &path, &input, Resolution::Retried).await
}

/// Skip dead jobs of a batch. A new phase begins, whose outcome is announced again.
#[utoipa::path(
    post, path = "/api/v1/batch/{batch_id}/skip", operation_id = "v1.batch.skip", tag = "Batch",
    params(BatchPath), request_body = SelectionIn, responses((status = 200, body = BatchOut))
)]
async fn skip(InJobs { api, scope }: InJobs, path: PathParams<BatchPath>, input: Input) -> Answer<BatchOut> {
    resolve(&api, scope, &path, &input, Resolution::Skipped).await
}

async fn resolve(api: &Api, scope: Scope, path: &BatchPath, input: &Input, how: Resolution) -> Answer<BatchOut> {
    let id = path.id()?;
    let SelectionIn { jobs } = input.json()?;
    if jobs.len() > BATCH_SELECTION_MAX {
        return Err(at("jobs").breaks(format!("must have 1 to {BATCH_SELECTION_MAX} entries")).into());
    }
    let ids =
        jobs.iter().enumerate().map(|(index, text)| text.parse().map_err(|bad| at("jobs").index(index).breaks(bad)));
    let ids = ids.collect::<Result<Vec<JobId>, Violation>>()?;
    match api.node.resolve_batch(scope, Resolve { batch: id, jobs: ids, how }).await? {
        Resolved::Done(batch) => Ok(Json(batch.into())),
        Resolved::Bad(bad) => Err(at("jobs").breaks(bad).into()),
        Resolved::NoBatch => Err(path.not_found()),
    }
}

/// Finds the application whose id or uid is a value in a body.
pub(crate) async fn find_application(api: &Api, scope: Scope, named: &str) -> Result<Option<Application>, ApiError> {
    let Ok(locator) = scope::application(named) else { return Ok(None) };
    Ok(api.read(query::FindApplication { scope, locator }).await?)
}

pub(crate) fn no_application() -> Violation {
    at("application").breaks("no application has this id or uid")
}

impl From<BatchRecord> for BatchOut {
    fn from(record: BatchRecord) -> BatchOut {
        let Batch { intake, phase, announced, counts } = record.batch;
        BatchOut {
            id: record.id,
            name: record.name,
            state: match intake {
                Intake::Open => "open",
                Intake::Sealed => "sealed",
            },
            application: record.application,
            prefix: record.prefix,
            phase,
            announced: announced.map(|announced| match announced {
                Announcement::Failed => "failed",
                Announcement::Completed => "completed",
            }),
            counts: counts.into(),
            metadata: record.metadata,
            created_at: record.created_at,
        }
    }
}

impl From<BatchCounts> for CountsOut {
    fn from(BatchCounts { pending, succeeded, dead, cancelled, skipped }: BatchCounts) -> CountsOut {
        CountsOut { pending, succeeded, dead, cancelled, skipped }
    }
}

impl BatchPath {
    /// Parses the id. A malformed id is not found.
    fn id(&self) -> Result<BatchId, ApiError> {
        self.batch_id.parse().map_err(|_| self.not_found())
    }

    fn not_found(&self) -> ApiError {
        ApiError::not_found(scope::named("batch", &self.batch_id))
    }
}
