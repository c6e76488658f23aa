//! Background tasks: bulk work that goes on after its request was answered.
//!
//! Each is a job of the server itself (`everhook_engine::background`), which only this file and the routes that start
//! one know. An application token sees the background tasks of its own application.

use axum::Json;
use everhook_core::background::{BackgroundKind, BackgroundStatus, BackgroundTask, Position};
use everhook_core::id::{BackgroundTaskId, JobId, SERVER_ENVIRONMENT};
use everhook_core::job::report::{KeptResult, Note};
use everhook_core::job::{JobAction, OperatorCommand};
use everhook_core::limits::SCAN_ROWS_MAX;
use everhook_core::name::Name;
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_engine::background::new_job;
use everhook_store::background::{BackgroundFilter, owner_key};
use everhook_store::catalog::{Order, Slice};
use everhook_store::dedup::DedupKey;
use everhook_store::job::{Enqueued, JobRecord};
use everhook_store::piece::Piece;
use everhook_store::query;
use everhook_store::steer::Steer;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::{IntoParams, ToSchema};

use crate::auth::{Caller, Rights};
use crate::error::ApiError;
use crate::page::{Cursor, Listing, OrderParams, Page, PageParams};
use crate::query::{Query, one};
use crate::routes::{Answer, Routes};
use crate::scope::{self, ByCaller, PathParams};
use crate::state::Api;

/// A background task that was started.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StartedTaskOut {
    /// The id of the background task.
    #[schema(value_type = String)]
    pub(crate) id: BackgroundTaskId,
    /// `running`, `finished` or `failed`. A background task that waits for its turn is running.
    #[schema(value_type = String)]
    pub(crate) status: &'static str,
    /// The kind of the background task.
    pub(crate) task: String,
    /// The time of its last change.
    #[schema(value_type = String, format = DateTime)]
    pub(crate) updated_at: Timestamp,
}

/// A background task.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BackgroundTaskOut {
    #[serde(flatten)]
    task: StartedTaskOut,
    /// The counts or lists of a finished background task; the count so far of a running one, with `percent`; and
    /// `error` with the reason if it failed or was cancelled. A list of background tasks leaves out data of more than
    /// 64 KiB.
    #[schema(value_type = Object)]
    data: Map<String, Value>,
}

/// The filters of a list of background tasks.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct BackgroundTaskParams {
    /// Only background tasks with this status: `running`, `finished` or `failed`.
    #[serde(deserialize_with = "one")]
    #[param(value_type = Option<String>, pattern = "^(running|finished|failed)$")]
    status: Option<BackgroundStatus>,
    /// Only background tasks of this kind, such as `endpoint.recover`.
    #[serde(deserialize_with = "one")]
    #[param(value_type = Option<String>)]
    task: Option<TaskFilter>,
}

/// A kind to search for. Clients also know kinds that this server does not have, of which there are no tasks.
#[derive(Clone, Debug)]
struct TaskFilter(Name);

impl std::str::FromStr for TaskFilter {
    type Err = <Name as std::str::FromStr>::Err;

    fn from_str(text: &str) -> Result<TaskFilter, Self::Err> {
        text.parse().map(TaskFilter)
    }
}

/// The path parameter of a background task.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct TaskPath {
    /// The background task's id.
    task_id: String,
}

pub(crate) fn routes() -> Routes {
    Routes::default().add(list, __path_list).add(get, __path_get).add(cancel, __path_cancel)
}

/// List background tasks, newest first. They are kept for 7 days after their end.
#[utoipa::path(
    get, path = "/api/v1/background-task", operation_id = "v1.background-task.list", tag = "Background Task",
    params(PageParams, OrderParams, BackgroundTaskParams),
    responses((status = 200, body = Page<BackgroundTaskOut>))
)]
async fn list(
    ByCaller { api, caller }: ByCaller,
    listing: Listing,
    Query(params): Query<BackgroundTaskParams>,
) -> Answer<Page<BackgroundTaskOut>> {
    let cursor: Cursor<BackgroundTaskId> = listing.cursor(Order::Descending)?;
    let Slice { after, order, limit } = cursor.slice();
    let filter = BackgroundFilter {
        slice: Slice { after: after.map(|id| JobId(id.0)), order, limit },
        kind: params.task.map(|TaskFilter(kind)| kind),
        tag: tag_of(&caller.rights),
        status: params.status,
        scan: SCAN_ROWS_MAX,
    };
    let piece = api.read(query::BackgroundTasks { scope: caller.scope(), filter }).await?;
    let next = piece.next.map(|id| BackgroundTaskId(id.0));
    let piece = Piece { rows: piece.rows, next };
    Ok(Json(cursor.page_of(piece, |row| BackgroundTaskId(row.job.id.0), |row| BackgroundTaskOut::new(&row))))
}

/// Get a background task.
#[utoipa::path(
    get, path = "/api/v1/background-task/{task_id}", operation_id = "v1.background-task.get",
    tag = "Background Task", params(TaskPath), responses((status = 200, body = BackgroundTaskOut))
)]
async fn get(ByCaller { api, caller }: ByCaller, path: PathParams<TaskPath>) -> Answer<BackgroundTaskOut> {
    find(&api, &caller, &path).await.map(|record| Json(BackgroundTaskOut::new(&record)))
}

/// Cancel a background task. A running one stops within seconds, after the step that it is at; its work so far stays.
#[utoipa::path(
    post, path = "/api/v1/background-task/{task_id}/cancel", operation_id = "v1.background-task.cancel",
    tag = "Background Task", params(TaskPath), responses((status = 200, body = BackgroundTaskOut))
)]
async fn cancel(ByCaller { api, caller }: ByCaller, path: PathParams<TaskPath>) -> Answer<BackgroundTaskOut> {
    let found = find(&api, &caller, &path).await?;
    if BackgroundStatus::from(found.state) != BackgroundStatus::Running {
        return Err(has_ended());
    }
    let steer = Steer::Jobs { ids: vec![found.job.id], command: OperatorCommand::Cancel };
    let steered = api.node.steer(Scope::of(SERVER_ENVIRONMENT), steer).await?;
    if steered.plans.into_iter().flatten().any(|plan| plan == JobAction::Refuse) {
        return Err(has_ended());
    }
    find(&api, &caller, &path).await.map(|record| Json(BackgroundTaskOut::new(&record)))
}

/// Starts a background task, or finds the one that the same request started before.
pub(crate) async fn start(
    api: &Api,
    scope: Scope,
    task: BackgroundTask,
    key: Option<&DedupKey>,
) -> Result<StartedTaskOut, ApiError> {
    scope::need_jobs(api)?;
    let id = JobId(api.new_id());
    let mut enqueued = api.node.enqueue(vec![new_job(id, scope.environment, &task, key)]).await?;
    match enqueued.pop() {
        Some(Enqueued::Accepted { created_at, .. }) => Ok(StartedTaskOut {
            id: BackgroundTaskId(id.0),
            status: BackgroundStatus::Running.as_str(),
            task: task.kind().to_string(),
            updated_at: created_at,
        }),
        Some(Enqueued::Existing(id)) => {
            let found = api.read(query::FindJob { scope: Scope::of(SERVER_ENVIRONMENT), id }).await?;
            let found = found.ok_or_else(|| no_task(&BackgroundTaskId(id.0).to_string()))?;
            Ok(StartedTaskOut::new(&found))
        }
        Some(Enqueued::KeyReused) => Err(ApiError::key_reused()),
        Some(Enqueued::NoBatch | Enqueued::BatchSealed) | None => {
            Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", "Internal Server Error"))
        }
    }
}

/// Finds a background task that the caller may see.
async fn find(api: &Api, caller: &Caller, path: &TaskPath) -> Result<JobRecord, ApiError> {
    let absent = || no_task(&path.task_id);
    let id: BackgroundTaskId = path.task_id.parse().map_err(|_| absent())?;
    let found = api.read(query::FindJob { scope: Scope::of(SERVER_ENVIRONMENT), id: JobId(id.0) }).await?;
    let tag = tag_of(&caller.rights);
    let is_visible = |record: &JobRecord| {
        is_task_of(record, caller.scope()) && tag.as_ref().is_none_or(|tag| record.job.tags.contains(tag))
    };
    found.filter(is_visible).ok_or_else(absent)
}

/// Whether a job of the server is a background task of this environment. Its other jobs have no kind of one.
pub(crate) fn is_task_of(record: &JobRecord, scope: Scope) -> bool {
    record.job.kind.as_str().parse::<BackgroundKind>().is_ok()
        && record.job.concurrency_key == Some(owner_key(scope.environment))
}

/// The tag of the background tasks that a caller may see; none if it may see all of its environment.
fn tag_of(rights: &Rights) -> Option<Name> {
    match rights {
        Rights::Application { id, .. } => id.to_string().parse().ok(),
        Rights::Admin | Rights::Environment(_) => None,
    }
}

fn no_task(text: &str) -> ApiError {
    ApiError::not_found(scope::named("background task", text))
}

fn has_ended() -> ApiError {
    ApiError::conflict("The background task has ended, so it cannot be cancelled.")
}

impl StartedTaskOut {
    fn new(record: &JobRecord) -> StartedTaskOut {
        let last = record.last.as_ref().map(|last| last.started_at.plus(last.duration));
        let leased = record.open.and_then(|open| open.holder).map(|holder| holder.since);
        let updated_at = [last, leased].into_iter().flatten().fold(record.created_at, Timestamp::max);
        StartedTaskOut {
            id: BackgroundTaskId(record.job.id.0),
            status: BackgroundStatus::from(record.state).as_str(),
            task: record.job.kind.to_string(),
            updated_at,
        }
    }
}

impl BackgroundTaskOut {
    fn new(record: &JobRecord) -> BackgroundTaskOut {
        BackgroundTaskOut { task: StartedTaskOut::new(record), data: data(record) }
    }
}

fn data(record: &JobRecord) -> Map<String, Value> {
    if let Some(KeptResult::Whole(result)) = &record.result
        && let Ok(data) = serde_json::from_slice(result)
    {
        return data;
    }
    let mut data = Map::new();
    let counts = record.job.kind.as_str().parse::<BackgroundKind>().ok().and_then(BackgroundKind::counts);
    if let (Some(counts), Some(progress)) = (counts, &record.progress) {
        data.insert(counts.to_owned(), json!(Position::of(Some(progress)).count));
        if BackgroundStatus::from(record.state) == BackgroundStatus::Running {
            data.insert("percent".to_owned(), json!(progress.percent()));
        }
    }
    if BackgroundStatus::from(record.state) == BackgroundStatus::Failed {
        let note = record.last.as_ref().map(|last| Note::from_bytes(&last.note)).unwrap_or_default();
        let error = if note.error().is_empty() { "the background task was cancelled" } else { note.error() };
        data.insert("error".to_owned(), json!(error));
    }
    data
}
