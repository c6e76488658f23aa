//! Queues: their limits, their target, their state and their statistics.
//!
//! A queue needs no set-up: it exists from its first job on. Changes are compare-and-set. The next lease obeys them.

use axum::Json;
use everhook_core::name::Name;
use everhook_core::queue::{Queue, QueueState, Rate, Target};
use everhook_core::scope::Scope;
use everhook_core::signing::{SignatureKind, SigningKey, SigningKeys};
use everhook_core::time::Timestamp;
use everhook_core::violation::{Violation, at};
use everhook_store::catalog::Order;
use everhook_store::query;
use everhook_store::queue::QueueStats;
use everhook_store::resource::{Deleted, ResourceKey};

use everhook_store::worker::WorkerRecord;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::auth::{self, Caller};
use crate::endpoint_secret::{self, EndpointSecretOut};
use crate::error::ApiError;
use crate::input::{self, Input};
use crate::merge::Form;
use crate::page::{Cursor, Listing, OrderParams, Page, PageParams};
use crate::query::Query;
use crate::resource;
use crate::routes::{Answer, EmptyAnswer, Routes, routes_of};
use crate::scope::{InJobs, PathParams};
use crate::state::Api;
use crate::worker;

/// A change of a queue. Absent members keep their values, and null removes a limit or the target.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = QueuePatch)]
pub(crate) struct QueueIn {
    /// Maximum number of running jobs of the queue, over all workers.
    #[schema(minimum = 1, maximum = 100_000)]
    limit: Option<u32>,
    /// Maximum number of running jobs with the same concurrency key, over all workers.
    #[schema(minimum = 1, maximum = 100_000)]
    key_limit: Option<u32>,
    /// Maximum number of jobs that start per second, over all workers. 0.1 is one job in ten seconds.
    #[schema(maximum = 100_000)]
    rate_per_second: Option<f64>,
    /// The URL to which jobs are pushed, as signed POST requests. Without a target, workers take the jobs.
    #[schema(format = "uri")]
    target_url: Option<String>,
}

/// A queue.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueueOut {
    #[schema(value_type = String)]
    name: Name,
    /// `open`, `paused` or `stopped`. A queue is stopped when its target answers 410, until it is resumed.
    #[schema(value_type = String)]
    state: &'static str,
    limit: Option<u32>,
    key_limit: Option<u32>,
    rate_per_second: Option<f64>,
    target_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stats: Option<QueueStatsOut>,
    /// Reasons why due jobs of the queue do not run.
    warnings: Vec<String>,
    /// The latest change of the queue. Absent if it was never changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    updated_at: Option<Timestamp>,
}

/// The number of jobs of a queue. Counting stops at 100000.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueueStatsOut {
    /// Waiting jobs, due or not.
    pending: u64,
    /// Waiting jobs that are due.
    due: u64,
    /// Jobs that a worker holds.
    running: u64,
    /// Jobs that ran out of attempts.
    dead: u64,
    /// Seconds for which the oldest due job has been due.
    oldest_due_seconds: Option<f64>,
    /// Attempts that ended in the last full minute of the clock, not in the last 60 seconds.
    ended_last_minute: u64,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct StatsParams {
    /// Include the statistics of each queue.
    #[serde(deserialize_with = "crate::query::one")]
    with_stats: Option<bool>,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct QueuePath {
    /// The queue's name.
    queue: String,
}

pub(crate) fn routes() -> Routes {
    routes_of![
        list __path_list, get __path_get, patch __path_patch, pause __path_pause, resume __path_resume,
        get_secret __path_get_secret, delete __path_delete,
    ]
}

/// List the queues that were configured or have had a job, ordered by name.
#[utoipa::path(
    get, path = "/api/v1/queue", operation_id = "v1.queue.list", tag = "Queue",
    params(PageParams, OrderParams, StatsParams), responses((status = 200, body = Page<QueueOut>))
)]
async fn list(
    InJobs { api, scope }: InJobs,
    listing: Listing,
    Query(StatsParams { with_stats }): Query<StatsParams>,
) -> Answer<Page<QueueOut>> {
    let cursor: Cursor<Name> = listing.cursor(Order::Ascending)?;
    let rows = api.read(query::Queues { scope, slice: cursor.slice() }).await?;
    let mut page = cursor.page(rows, |row| row.name.clone(), QueueOut::new);
    if with_stats.unwrap_or(true) {
        let workers = workers(&api, scope).await?;
        for queue in &mut page.data {
            let stats = api.read(query::CountQueue { scope, name: queue.name.clone() }).await?;
            queue.fill(stats, &workers);
        }
    }
    Ok(Json(page))
}

/// Get a queue with its statistics.
#[utoipa::path(
    get, path = "/api/v1/queue/{queue}", operation_id = "v1.queue.get", tag = "Queue",
    params(QueuePath), responses((status = 200, body = QueueOut))
)]
async fn get(InJobs { api, scope }: InJobs, path: PathParams<QueuePath>) -> Answer<QueueOut> {
    let found = api.read(query::FindQueue { scope, name: path.name()? }).await?;
    show(&api, scope, found.ok_or_else(|| path.not_found())?).await
}

/// Change the limits or the target of a queue. A queue can be configured before its first job.
#[utoipa::path(
    patch, path = "/api/v1/queue/{queue}", operation_id = "v1.queue.patch", tag = "Queue",
    params(QueuePath), request_body = QueueIn, responses((status = 200, body = QueueOut))
)]
async fn patch(
    caller: Caller,
    InJobs { api, scope }: InJobs,
    path: PathParams<QueuePath>,
    input: Input,
) -> Answer<QueueOut> {
    let name = path.own_name()?;
    // The key is drawn once, because the change can be tried several times.
    let key = endpoint_secret::random(SignatureKind::Hmac256);
    let change = |old: Queue| {
        let url = old.target.as_ref().map(|target| target.url.clone());
        let new = input.patched::<QueueIn>(&old)?.check(&api, &key, old)?;
        let target = new.target.as_ref().map(|target| target.url.as_str());
        auth::check_url(&caller.rights, url.as_deref(), target).map(|()| new)
    };
    show(&api, scope, resource::change(&api, scope, &name, None, change).await?).await
}

/// Pause a queue: running jobs continue, and no other jobs start.
#[utoipa::path(
    post, path = "/api/v1/queue/{queue}/pause", operation_id = "v1.queue.pause", tag = "Queue",
    params(QueuePath), responses((status = 200, body = QueueOut))
)]
async fn pause(InJobs { api, scope }: InJobs, path: PathParams<QueuePath>) -> Answer<QueueOut> {
    set_state(&api, scope, &path, QueueState::Paused).await
}

/// Resume a queue that was paused or stopped.
#[utoipa::path(
    post, path = "/api/v1/queue/{queue}/resume", operation_id = "v1.queue.resume", tag = "Queue",
    params(QueuePath), responses((status = 200, body = QueueOut))
)]
async fn resume(InJobs { api, scope }: InJobs, path: PathParams<QueuePath>) -> Answer<QueueOut> {
    set_state(&api, scope, &path, QueueState::Open).await
}

/// Get the secret that pushed jobs are signed with.
#[utoipa::path(
    get, path = "/api/v1/queue/{queue}/secret", operation_id = "v1.queue.get-secret", tag = "Queue",
    params(QueuePath), responses((status = 200, body = EndpointSecretOut))
)]
async fn get_secret(InJobs { api, scope }: InJobs, path: PathParams<QueuePath>) -> Answer<EndpointSecretOut> {
    let found = api.read(query::FindQueue { scope, name: path.name()? }).await?;
    let found = found.ok_or_else(|| path.not_found())?;
    let no_target = || ApiError::not_found(format_args!("target of queue {:?}", path.queue));
    Ok(Json(EndpointSecretOut::of(&found.target.ok_or_else(no_target)?.keys)))
}

/// Delete a queue with its limits and its target. A queue with waiting, running or dead jobs cannot be deleted.
#[utoipa::path(
    delete, path = "/api/v1/queue/{queue}", operation_id = "v1.queue.delete", tag = "Queue",
    params(QueuePath), responses((status = 204))
)]
async fn delete(InJobs { api, scope }: InJobs, path: PathParams<QueuePath>) -> EmptyAnswer {
    let name = path.own_name()?;
    match resource::try_delete::<Queue>(&api, scope, &name, ResourceKey::Queue(name.clone())).await? {
        Deleted::Done => Ok(StatusCode::NO_CONTENT),
        Deleted::NotFound => Err(path.not_found()),
        Deleted::HasJobs => {
            let rule = "has jobs that wait, run or are dead: let them end, or cancel or delete them first";
            Err(ApiError::conflict(format!("queue {:?} {rule}", path.queue)))
        }
    }
}

async fn set_state(api: &Api, scope: Scope, path: &QueuePath, state: QueueState) -> Answer<QueueOut> {
    let name = path.own_name()?;
    // A queue that was never configured and never had a job is not made by pausing it.
    let found = api.read(query::FindQueue { scope, name: name.clone() }).await?;
    found.ok_or_else(|| path.not_found())?;
    let change = |old: Queue| Ok(Queue { state, ..old });
    show(api, scope, resource::change(api, scope, &name, None, change).await?).await
}

async fn show(api: &Api, scope: Scope, queue: Queue) -> Answer<QueueOut> {
    let stats = api.read(query::CountQueue { scope, name: queue.name.clone() }).await?;
    let mut shown = QueueOut::new(queue);
    shown.fill(stats, &workers(api, scope).await?);
    Ok(Json(shown))
}

/// Reads the workers whose leases have not expired.
async fn workers(api: &Api, scope: Scope) -> Result<Vec<WorkerRecord>, ApiError> {
    let mut workers = api.read(query::Workers { scope }).await?;
    workers.retain(|worker| !worker::is_expired(worker, api.now()));
    Ok(workers)
}

impl Form for QueueIn {
    type Record = Queue;

    fn of(queue: &Queue) -> QueueIn {
        QueueIn {
            limit: queue.limit,
            key_limit: queue.key_limit,
            rate_per_second: queue.rate.map(Rate::as_per_second),
            target_url: queue.target.as_ref().map(|target| target.url.clone()),
        }
    }
}

impl QueueIn {
    /// Builds the replacement of `old`. Pushes to a new target are signed with `key`.
    fn check(self, api: &Api, key: &SigningKey, old: Queue) -> Result<Queue, Violation> {
        let shown = QueueIn::of(&old);
        let plain = Queue::new(old.name.clone());
        at("limit").check(Queue { limit: self.limit, ..plain.clone() }.check())?;
        at("keyLimit").check(Queue { key_limit: self.key_limit, ..plain }.check())?;
        // Unchanged values are kept: a rate is shown rounded, and the current configuration may not allow the target.
        let rate = match self.rate_per_second {
            rate if rate == shown.rate_per_second => old.rate,
            rate => at("ratePerSecond").check(rate.map(Rate::per_second).transpose())?,
        };
        let target = match self.target_url {
            url if url == shown.target_url => old.target,
            None => None,
            Some(url) => {
                let url = at("targetUrl").check(api.config.egress.check_url(&url)).map(String::from)?;
                let keys = old.target.map_or_else(|| SigningKeys::new(key.clone()), |target| target.keys);
                Some(Target { url, keys })
            }
        };
        Ok(Queue { limit: self.limit, key_limit: self.key_limit, rate, target, ..old })
    }
}

impl QueueOut {
    fn new(queue: Queue) -> QueueOut {
        QueueOut {
            state: match queue.state {
                QueueState::Open => "open",
                QueueState::Paused => "paused",
                QueueState::Stopped => "stopped",
            },
            limit: queue.limit,
            key_limit: queue.key_limit,
            rate_per_second: queue.rate.map(Rate::as_per_second),
            target_url: queue.target.map(|target| target.url),
            stats: None,
            warnings: Vec::new(),
            updated_at: (queue.revision > 0).then_some(queue.updated_at),
            name: queue.name,
        }
    }

    /// Adds the statistics, and warnings for kinds of jobs that no worker takes. A queue with a target needs no worker.
    fn fill(&mut self, stats: QueueStats, workers: &[WorkerRecord]) {
        let takes = |worker: &WorkerRecord, kind: &Name| {
            let takes = &worker.takes;
            takes.queues.contains(&self.name) && (takes.kinds.is_empty() || takes.kinds.contains(kind))
        };
        if self.target_url.is_none() {
            let waiting = stats.due_kinds.iter().filter(|kind| !workers.iter().any(|worker| takes(worker, kind)));
            self.warnings = waiting.map(|kind| format!("no worker for this kind: {kind}")).collect();
        }
        if self.state == "stopped" {
            self.warnings.push("its target answered 410: resume the queue when it takes jobs again".to_owned());
        }
        self.stats = Some(QueueStatsOut {
            pending: stats.pending,
            due: stats.due,
            running: stats.running,
            dead: stats.dead,
            oldest_due_seconds: stats.oldest_due.map(|span| span.as_secs_f64()),
            ended_last_minute: stats.ended_last_minute,
        });
    }
}

impl QueuePath {
    /// Parses the name. A malformed name is not found.
    fn name(&self) -> Result<Name, ApiError> {
        self.queue.parse().map_err(|_| self.not_found())
    }

    fn not_found(&self) -> ApiError {
        ApiError::not_found(format_args!("queue {:?}", self.queue))
    }

    /// Parses the name of a queue that users can configure.
    fn own_name(&self) -> Result<Name, ApiError> {
        self.name()?;
        input::own_name("queue", self.queue.clone()).map_err(ApiError::in_path)
    }
}
