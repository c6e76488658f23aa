//! Once-slots: the claim in a message, the lists of slots, and their reset.
//!
//! A message claims a slot with `once` in its body; there is no other way. Application tokens cannot see once-slots.

use axum::Json;
use everhook_core::id::MessageId;
use everhook_core::name::Name;
use everhook_core::once::{OnceClaim, Phase};
use everhook_core::time::Timestamp;
use everhook_core::violation::{Violation, at};
use everhook_store::catalog::Order;
use everhook_store::once::OnceRecord;
use everhook_store::query;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::error::ApiError;
use crate::page::{Listing, OrderParams, Page, PageParams};
use crate::routes::{Answer, EmptyAnswer, Routes};
use crate::scope::{ApplicationPath, InApplication, InEnvironment, PathParams};

/// A once-slot that a message claims. The first message that claims the slot in a phase is accepted, and the others are
/// suppressed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object with a key")]
pub(crate) struct OnceIn {
    /// The key of the slot, such as the id of a pipeline run.
    #[schema(max_length = 256, pattern = "^[a-zA-Z0-9\\-_.]+$", example = "pipeline-42")]
    key: String,
    /// The phase to claim. A phase above the current one becomes the current phase; a lower phase is suppressed.
    /// Default: the current phase.
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
    /// Whether the next message that claims the current phase is accepted: the slot was reset and not claimed since.
    open: bool,
    /// The latest message that was accepted.
    #[schema(value_type = String, example = "msg_1srOrx2ZWZBpBUvZwXKQmoEYga2")]
    winner: MessageId,
    /// The phase in which that message was accepted.
    #[schema(value_type = i64)]
    winner_phase: Phase,
    /// The number of suppressed requests in all phases.
    suppressed_count: u64,
    /// The first claim of the slot.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// The time at which the latest message was accepted.
    #[schema(value_type = String, format = DateTime)]
    claimed_at: Timestamp,
    /// The latest claim or reset.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

impl From<OnceRecord> for OnceOut {
    fn from(found: OnceRecord) -> OnceOut {
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
    _: InEnvironment,
    InApplication { api, scope, .. }: InApplication,
    listing: Listing,
) -> Answer<Page<OnceOut>> {
    listing.answer(&api, Order::Ascending, |slice| query::OnceSlots { scope, slice }, |row| row.key.clone()).await
}

/// Get a once-slot with its phase, its winner and the number of suppressed requests.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/once/{key}", operation_id = "v1.once.get", tag = "Once",
    params(ApplicationPath, OncePath), responses((status = 200, body = OnceOut))
)]
async fn get(
    _: InEnvironment,
    InApplication { api, scope, .. }: InApplication,
    PathParams(OncePath { key }): PathParams<OncePath>,
) -> Answer<OnceOut> {
    let found = api.read(query::FindOnce { scope, key: name(&key)? }).await?;
    found.map(|found| Json(found.into())).ok_or_else(|| no_slot(&key))
}

/// Reset a once-slot: its next phase begins, and the next message that claims it is accepted. The slot is not deleted.
#[utoipa::path(
    delete, path = "/api/v1/app/{app_id}/once/{key}", operation_id = "v1.once.reset", tag = "Once",
    params(ApplicationPath, OncePath), responses((status = 204))
)]
async fn reset(
    _: InEnvironment,
    InApplication { api, scope, .. }: InApplication,
    PathParams(OncePath { key }): PathParams<OncePath>,
) -> EmptyAnswer {
    let found = api.node.reset_once(scope, name(&key)?).await?;
    if found { Ok(StatusCode::NO_CONTENT) } else { Err(no_slot(&key)) }
}

/// Parses the key. A malformed key is not found.
fn name(key: &str) -> Result<Name, ApiError> {
    key.parse().map_err(|_| no_slot(key))
}

fn no_slot(key: &str) -> ApiError {
    ApiError::not_found(format_args!("once-slot {key:?}"))
}
