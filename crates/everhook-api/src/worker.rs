//! Remote workers: programs in any language that take jobs over HTTP.
//!
//! A worker registers, requests jobs in a loop, sends heartbeats, and reports the end of each job (`job_end`). A
//! request for jobs waits until jobs are due. The session of a worker without a heartbeat within its lease is closed
//! permanently, and the worker must register again.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use everhook_core::id::{BatchId, JobId, SessionId};
use everhook_core::limits::{TITLE_CHARS_MAX, WORKER_KINDS_MAX, WORKER_LEASE_MAX, WORKER_QUEUES_MAX};
use everhook_core::name::{Metadata, Name};
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_core::violation::at;
use everhook_engine::remote::{HeldJob, WorkerRefused};
use everhook_store::lease::{Leased, Work};
use everhook_store::query;
use everhook_store::worker::{REMOTE, Takes, WorkerRecord};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use crate::error::ApiError;
use crate::input::{self, Input};
use crate::job::response::json;
use crate::limits::{
    WORKER_HELD_MAX, WORKER_LEASE_DEFAULT, WORKER_LEASE_LONGEST, WORKER_LEASE_SHORTEST, WORKER_WAIT_MAX,
};
use crate::routes::{Answer, EmptyAnswer, Routes, StatusAnswer, routes_of};
use crate::scope::{self, InJobs, PathParams};
use crate::state::Api;

/// A worker to register.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct WorkerIn {
    /// The display name, such as host and process.
    #[schema(min_length = 1, max_length = 256, example = "mailer-1")]
    name: String,
    /// The queues from which the worker takes jobs.
    #[schema(min_items = 1, max_items = 100)]
    queues: Vec<String>,
    /// The kinds of jobs that the worker takes. Default: all kinds.
    #[schema(min_items = 1, max_items = 100)]
    kinds: Option<Vec<String>>,
    /// Seconds until the lease expires without a heartbeat, from 5 to 300. Default: 30. Other values are adjusted to
    /// this range, and the response has the value that applies.
    lease_seconds: Option<f64>,
}

/// A worker.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkerOut {
    #[schema(value_type = String, example = "sess_1srOrx2ZWZBpBUvZwXKQmoEYga2")]
    id: SessionId,
    name: String,
    #[schema(value_type = Vec<String>)]
    queues: Vec<Name>,
    /// The kinds of jobs that the worker takes. An empty list means all kinds.
    #[schema(value_type = Vec<String>)]
    kinds: Vec<Name>,
    /// Seconds until the lease expires without a heartbeat. Send at least three heartbeats in this time.
    lease_seconds: u64,
    /// `open` or `expired`. An expired worker sent no heartbeat within its lease and will be closed.
    #[schema(value_type = String)]
    state: &'static str,
    /// The number of jobs that the worker holds.
    held: u32,
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    heartbeat_at: Timestamp,
}

/// All workers of the environment, oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WorkerListOut {
    data: Vec<WorkerOut>,
}

/// A request for jobs.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct LeaseIn {
    /// Maximum number of jobs. Default: 1.
    #[schema(minimum = 1, maximum = 500)]
    limit: Option<usize>,
    /// Seconds to wait for the first job, at most 60. Default: 0.
    #[schema(minimum = 0, maximum = 60)]
    wait_seconds: Option<f64>,
    /// The jobs that the worker holds. Other jobs leased to the worker go back to the queue at once, because the
    /// response that contained them was lost.
    #[serde(default, deserialize_with = "input::some_objects")]
    held: Option<Vec<HeldJobIn>>,
}

/// A heartbeat of a worker.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeartbeatIn {
    /// The jobs that the worker holds.
    #[serde(default, deserialize_with = "input::some_objects")]
    held: Option<Vec<HeldJobIn>>,
}

/// A job that a worker holds.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeldJobIn {
    #[schema(value_type = String)]
    id: JobId,
    /// The epoch of the job's lease.
    epoch: u32,
}

/// The response to a heartbeat.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HeartbeatOut {
    /// Jobs that the worker no longer holds. Its reports about them are refused.
    #[schema(value_type = Vec<String>)]
    lost: Vec<JobId>,
    /// Jobs that were cancelled. The worker should stop them and report them as failed.
    #[schema(value_type = Vec<String>)]
    cancelled: Vec<JobId>,
}

/// A job that is leased to a worker.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LeasedJobOut {
    #[schema(value_type = String)]
    id: JobId,
    /// The epoch of this lease. Every report about the job must contain it.
    epoch: u32,
    /// The number of this attempt, from 1.
    attempt: u32,
    max_attempts: u32,
    #[schema(value_type = String)]
    queue: Name,
    #[schema(value_type = String)]
    kind: Name,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The payload as it was sent.
    #[schema(value_type = Option<Object>)]
    payload: Option<Box<RawValue>>,
    priority: i16,
    /// Seconds after which this attempt counts as failed.
    timeout_seconds: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    concurrency_key: Option<String>,
    #[schema(value_type = Vec<String>)]
    tags: Vec<Name>,
    #[schema(value_type = BTreeMap<String, String>)]
    metadata: Metadata,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    batch_id: Option<BatchId>,
}

/// The leased jobs. The list is empty if no job was due in time.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LeasedJobListOut {
    data: Vec<LeasedJobOut>,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct WorkerPath {
    /// The worker's id.
    worker_id: String,
}

pub(crate) fn routes() -> Routes {
    routes_of![
        list __path_list, register __path_register, lease __path_lease, heartbeat __path_heartbeat,
        delete __path_delete,
    ]
}

/// List the workers that take jobs.
#[utoipa::path(
    get, path = "/api/v1/worker", operation_id = "v1.worker.list", tag = "Worker",
    responses((status = 200, body = WorkerListOut))
)]
async fn list(InJobs { api, scope }: InJobs) -> Answer<WorkerListOut> {
    let workers = api.read(query::Workers { scope }).await?;
    let now = api.now();
    Ok(Json(WorkerListOut { data: workers.into_iter().map(|worker| WorkerOut::new(worker, now)).collect() }))
}

/// Register a worker.
#[utoipa::path(
    post, path = "/api/v1/worker", operation_id = "v1.worker.create", tag = "Worker", request_body = WorkerIn,
    responses((status = 201, body = WorkerOut))
)]
async fn register(InJobs { api, scope }: InJobs, input: Input) -> StatusAnswer<WorkerOut> {
    let wanted: WorkerIn = input.json()?;
    let name = input::some_text("name", wanted.name, TITLE_CHARS_MAX)?;
    let queues = input::some_names("queues", Some(wanted.queues), WORKER_QUEUES_MAX)?.unwrap_or_default();
    if let Some(index) = queues.iter().position(input::is_built_in) {
        return Err(at("queues").index(index).breaks("is reserved for Everhook").into());
    }
    let kinds = input::some_names("kinds", wanted.kinds, WORKER_KINDS_MAX)?.unwrap_or_default();
    let lease = wanted.lease_seconds.map(|seconds| input::span("leaseSeconds", seconds)).transpose()?;
    let lease = lease.unwrap_or(WORKER_LEASE_DEFAULT).clamp(WORKER_LEASE_SHORTEST, WORKER_LEASE_LONGEST);
    let takes = Takes { environment: scope.environment, queues, kinds };
    let opened = api.node.open_worker(name, takes, lease).await?;
    let now = opened.session.renewed_at;
    Ok((StatusCode::CREATED, Json(WorkerOut::new(opened, now))))
}

/// Lease jobs to a worker. The request waits until jobs are due, and counts as a heartbeat.
#[utoipa::path(
    post, path = "/api/v1/worker/{worker_id}/lease", operation_id = "v1.worker.lease", tag = "Worker",
    params(WorkerPath), request_body = Option<LeaseIn>, responses((status = 200, body = LeasedJobListOut))
)]
async fn lease(InJobs { api, scope }: InJobs, path: PathParams<WorkerPath>, input: Input) -> Answer<LeasedJobListOut> {
    let LeaseIn { limit, wait_seconds, held } = input.json_or_default()?;
    let limit = limit.unwrap_or(1);
    if !(1..=WORKER_LEASE_MAX).contains(&limit) {
        return Err(at("limit").breaks(format!("must be from 1 to {WORKER_LEASE_MAX}")).into());
    }
    let wait = wait_seconds.map(|seconds| input::span("waitSeconds", seconds)).transpose()?;
    let wait = wait.unwrap_or(Duration::ZERO).min(WORKER_WAIT_MAX);
    let held = held.map(held_jobs).transpose()?;
    let worker = find(&api, scope, &path).await?;
    let leased = api.node.lease_for(&worker, limit, wait, held.as_deref()).await?.map_err(refused)?;
    Ok(Json(LeasedJobListOut { data: leased.into_iter().filter_map(LeasedJobOut::new).collect() }))
}

/// Send a heartbeat, which renews the lease of a worker. The response lists its lost and cancelled jobs.
#[utoipa::path(
    post, path = "/api/v1/worker/{worker_id}/heartbeat", operation_id = "v1.worker.heartbeat", tag = "Worker",
    params(WorkerPath), request_body = Option<HeartbeatIn>, responses((status = 200, body = HeartbeatOut))
)]
async fn heartbeat(InJobs { api, scope }: InJobs, path: PathParams<WorkerPath>, input: Input) -> Answer<HeartbeatOut> {
    let HeartbeatIn { held } = input.json_or_default()?;
    let held = held.map(held_jobs).transpose()?;
    let worker = find(&api, scope, &path).await?;
    let learned = api.node.heartbeat(worker.session.id, held.as_deref()).await?.map_err(refused)?;
    Ok(Json(HeartbeatOut { lost: learned.lost, cancelled: learned.cancelled }))
}

/// Sign off a worker. It gets no more jobs, and its jobs go back to their queues. Repeated calls have no effect.
#[utoipa::path(
    delete, path = "/api/v1/worker/{worker_id}", operation_id = "v1.worker.delete", tag = "Worker",
    params(WorkerPath), responses((status = 204))
)]
async fn delete(InJobs { api, scope }: InJobs, path: PathParams<WorkerPath>) -> EmptyAnswer {
    let worker = find_any(&api, scope, &path).await?;
    if worker.session.closed_at.is_none() {
        api.node.close_worker(worker.session.id).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Finds the open worker of a path. A malformed id and a worker of another environment are not found.
async fn find(api: &Api, scope: Scope, path: &WorkerPath) -> Result<WorkerRecord, ApiError> {
    let found = find_any(api, scope, path).await?;
    if found.session.closed_at.is_some() { Err(refused(WorkerRefused::Closed)) } else { Ok(found) }
}

/// Finds the worker of a path, even if its session is closed.
async fn find_any(api: &Api, scope: Scope, path: &WorkerPath) -> Result<WorkerRecord, ApiError> {
    let not_found = || ApiError::not_found(scope::named("worker", &path.worker_id));
    let id: SessionId = path.worker_id.parse().map_err(|_| not_found())?;
    // Programs with the `everhook-worker` crate are listed, but they do not use these routes.
    let found = api.read(query::FindWorker { scope, id }).await?.filter(|worker| worker.session.version == REMOTE);
    found.ok_or_else(not_found)
}

fn refused(why: WorkerRefused) -> ApiError {
    let (code, detail) = match why {
        WorkerRefused::Closed => (
            "worker_closed",
            "The worker signed off or sent no heartbeat within its lease, and lost its jobs: register again.",
        ),
        WorkerRefused::Busy => {
            ("worker_busy", "Another lease request of this worker is running: wait for its response.")
        }
    };
    ApiError::new(StatusCode::CONFLICT, code, detail)
}

fn held_jobs(held: Vec<HeldJobIn>) -> Result<Vec<HeldJob>, ApiError> {
    if held.len() > WORKER_HELD_MAX {
        return Err(at("held").breaks(format!("must have at most {WORKER_HELD_MAX} entries")).into());
    }
    Ok(held.into_iter().map(|HeldJobIn { id, epoch }| HeldJob { id, epoch }).collect())
}

/// Returns whether a worker sent no heartbeat within its lease.
pub(crate) fn is_expired(worker: &WorkerRecord, now: Timestamp) -> bool {
    now.since(worker.session.renewed_at) > worker.session.lease
}

impl WorkerOut {
    fn new(worker: WorkerRecord, now: Timestamp) -> WorkerOut {
        WorkerOut {
            state: if is_expired(&worker, now) { "expired" } else { "open" },
            id: worker.session.id,
            name: worker.session.node,
            queues: worker.takes.queues,
            kinds: worker.takes.kinds,
            lease_seconds: worker.session.lease.as_secs(),
            held: worker.session.held,
            since: worker.session.started_at,
            heartbeat_at: worker.session.renewed_at,
        }
    }
}

impl LeasedJobOut {
    /// Returns none if the record of the job was deleted, because there is nothing to run.
    fn new(leased: Leased) -> Option<LeasedJobOut> {
        let Leased { task, work: Work::Job { job: Some(job), .. }, .. } = leased else { return None };
        let job = Arc::unwrap_or_clone(job);
        Some(LeasedJobOut {
            id: job.id,
            epoch: task.epoch,
            attempt: task.tries + 1,
            max_attempts: job.retry.attempts_max(),
            queue: job.queue,
            kind: job.kind,
            name: job.name,
            payload: job.payload.as_ref().and_then(json),
            priority: job.priority.get(),
            timeout_seconds: job.timeout.as_secs(),
            concurrency_key: job.concurrency_key,
            tags: job.tags,
            metadata: job.metadata,
            batch_id: job.batch,
        })
    }
}
