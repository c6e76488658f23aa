//! Once-slots: what a message may claim, who has them, and their reset.
//!
//! They are claimed with a message (`once` in its body) and in no other way. For producers: application tokens see none.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use everhook_core::id::MessageId;
use everhook_core::name::Name;
use everhook_core::once::{OnceClaim, Phase};
use everhook_core::scope::AppScope;
use everhook_core::time::Timestamp;
use everhook_core::violation::{Violation, at};
use everhook_store::catalog::Order;
use everhook_store::once::OnceRecord;
use everhook_store::query;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::error::ApiError;
use crate::page::{Cursor, OrderParams, Page, PageParams};
use crate::query::Query;
use crate::routes::Routes;
use crate::scope::{ApplicationPath, InApplication, InEnvironment, PathParams};
use crate::state::Api;

/// A slot that a message claims: of all messages that claim it in one phase, the first is accepted and the others suppressed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object with a key")]
pub(crate) struct OnceIn {
    /// What is to be told once, such as a run of a pipeline.
    #[schema(max_length = 256, pattern = "^[a-zA-Z0-9\\-_.]+$", example = "pipeline-42")]
    key: String,
    /// A higher phase than the current one opens itself, a lower one is stale. Without it the current one is meant.
    #[schema(minimum = 0, maximum = 9007199254740991_i64)]
    phase: Option<i64>,
}

impl OnceIn {
    pub(crate) fn check(self) -> Result<OnceClaim, Violation> {
        let key = at("once").member("key").check(self.key.parse())?;
        let phase = at("once").member("phase").check(self.phase.map(Phase::new).transpose())?;
        Ok(OnceClaim { key, phase })
    }
}

/// A once-slot.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OnceOut {
    #[schema(value_type = String, example = "pipeline-42")]
    key: Name,
    /// The current phase.
    #[schema(value_type = i64)]
    phase: Phase,
    /// Whether the next message for the current phase is accepted: it was reset, and nobody claimed it since.
    open: bool,
    /// The last message that was accepted.
    #[schema(value_type = String, example = "msg_1srOrx2ZWZBpBUvZwXKQmoEYga2")]
    winner: MessageId,
    /// In which phase that was.
    #[schema(value_type = i64)]
    winner_phase: Phase,
    /// How many calls were suppressed, in all phases.
    suppressed_count: u64,
    /// When it was first claimed.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When the winner was accepted.
    #[schema(value_type = String, format = DateTime)]
    claimed_at: Timestamp,
    /// When it was last claimed or reset.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

impl OnceOut {
    fn new(found: OnceRecord) -> OnceOut {
        let OnceRecord { key, slot, suppressed, created_at, claimed_at, updated_at } = found;
        OnceOut {
            key,
            phase: slot.phase,
            open: slot.is_open(),
            winner: slot.winner,
            winner_phase: slot.winner_phase,
            suppressed_count: suppressed,
            created_at,
            claimed_at,
            updated_at,
        }
    }
}

/// The slot of a once-slot.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct OncePath {
    /// The once-slot's key.
    key: String,
}

pub(crate) fn routes() -> Routes {
    Routes::default().add(list, __path_list).add(get, __path_get).add(reset, __path_reset)
}

/// List the once-slots of an application by key.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/once", operation_id = "v1.once.list", tag = "Once",
    params(ApplicationPath, PageParams, OrderParams), responses((status = 200, body = Page<OnceOut>))
)]
async fn list(
    State(api): State<Arc<Api>>,
    _: InEnvironment,
    InApplication { environment, application }: InApplication,
    Query(page): Query<PageParams>,
    Query(order): Query<OrderParams>,
) -> Result<Json<Page<OnceOut>>, ApiError> {
    let cursor: Cursor<Name> = Cursor::new(&page, order.or(Order::Ascending))?;
    let rows =
        api.read(query::OnceSlots { scope: AppScope::of(environment, application.id), slice: cursor.slice() }).await?;
    Ok(Json(cursor.page(rows, |row| row.key.clone(), OnceOut::new)))
}

/// Get a once-slot: its phase, its winner, how many calls it suppressed.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/once/{key}", operation_id = "v1.once.get", tag = "Once",
    params(ApplicationPath, OncePath), responses((status = 200, body = OnceOut))
)]
async fn get(
    State(api): State<Arc<Api>>,
    _: InEnvironment,
    InApplication { environment, application }: InApplication,
    PathParams(OncePath { key }): PathParams<OncePath>,
) -> Result<Json<OnceOut>, ApiError> {
    let found =
        api.read(query::FindOnce { scope: AppScope::of(environment, application.id), key: name(&key)? }).await?;
    found.map(|found| Json(OnceOut::new(found))).ok_or_else(|| no_slot(&key))
}

/// Reset a once-slot: its next phase is opened, and the next message that claims it is accepted. The slot itself stays.
#[utoipa::path(
    delete, path = "/api/v1/app/{app_id}/once/{key}", operation_id = "v1.once.reset", tag = "Once",
    params(ApplicationPath, OncePath), responses((status = 204))
)]
async fn reset(
    State(api): State<Arc<Api>>,
    _: InEnvironment,
    InApplication { environment, application }: InApplication,
    PathParams(OncePath { key }): PathParams<OncePath>,
) -> Result<StatusCode, ApiError> {
    let found = api.node.reset_once(AppScope::of(environment, application.id), name(&key)?).await?;
    if found { Ok(StatusCode::NO_CONTENT) } else { Err(no_slot(&key)) }
}

/// Nothing is found under what cannot be a key.
fn name(key: &str) -> Result<Name, ApiError> {
    key.parse().map_err(|_| no_slot(key))
}

fn no_slot(key: &str) -> ApiError {
    ApiError::not_found(format_args!("once-slot {key:?}"))
}
