//! Removal of the payloads of many messages: named ones at once, or all of an application as a background task.

use std::collections::BTreeMap;

use axum::Json;
use everhook_core::background::{Bulk, BulkAction, Purge};
use everhook_core::id::MessageId;
use everhook_core::limits::NAME_CHARS_MAX;
use everhook_core::scope::AppScope;
use everhook_core::violation::at;
use everhook_store::catalog::Locator;
use everhook_store::history::Expunge;
use everhook_store::query;
use futures_util::{StreamExt, TryStreamExt};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::background_task::{StartedTaskOut, start};
use crate::endpoint_replay::Options;
use crate::error::ApiError;
use crate::input::Input;
use crate::limits::{EXPUNGE_AT_ONCE, EXPUNGE_MAX};
use crate::routes::{Answer, Routes, StatusAnswer};
use crate::scope::{ApplicationPath, InApplication, InEnvironment, locator};
use crate::state::Api;

/// Messages whose payloads are to be removed.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default)]
pub(crate) struct BulkExpungeIn {
    /// Ids of messages, or the event ids that they were created with.
    #[schema(max_items = 250)]
    ids: Vec<String>,
}

/// The options of a removal of all payloads.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ExpungeAllIn {
    /// Only count the messages, in the background task `bulk.dry-run`. Its result has `messagesMatched`.
    dry_run: Option<bool>,
    /// Payloads to remove per second, so that other work is not held up. Default: as many as other work allows.
    #[schema(minimum = 1, maximum = 10000)]
    rate_per_second: Option<u32>,
}

/// The result for each message.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BulkExpungeOut {
    /// `expunged` or `not-found`, under each id as it was sent.
    #[schema(value_type = std::collections::HashMap<String, String>)]
    results: BTreeMap<String, &'static str>,
}

pub(crate) fn routes() -> Routes {
    Routes::default().add(bulk_expunge, __path_bulk_expunge).add(expunge_all, __path_expunge_all)
}

/// Remove the payloads of up to 250 messages for good; their open deliveries are cancelled.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/msg/bulk-expunge", operation_id = "v1.message.bulk-expunge-content",
    tag = "Message", params(ApplicationPath), request_body = BulkExpungeIn,
    responses((status = 200, body = BulkExpungeOut))
)]
async fn bulk_expunge(
    _: InEnvironment,
    InApplication { api, scope, .. }: InApplication,
    input: Input,
) -> Answer<BulkExpungeOut> {
    let BulkExpungeIn { ids } = input.json_or_default()?;
    if ids.len() > EXPUNGE_MAX {
        return Err(at("ids").breaks(format!("must have at most {EXPUNGE_MAX} entries")).into());
    }
    if let Some(long) = ids.iter().position(|id| id.chars().count() > NAME_CHARS_MAX) {
        let rule = format!("must have at most {NAME_CHARS_MAX} characters");
        return Err(at("ids").index(long).breaks(rule).into());
    }
    let api = &*api;
    let expunge = |id: String| async move {
        let result = if expunge_one(api, scope, &id).await? { "expunged" } else { "not-found" };
        Ok::<_, ApiError>((id, result))
    };
    let results = futures_util::stream::iter(ids).map(expunge).buffered(EXPUNGE_AT_ONCE).try_collect().await?;
    Ok(Json(BulkExpungeOut { results }))
}

/// Remove the payloads of all messages of an application, as a background task. Messages that are accepted later keep
/// theirs.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/msg/expunge-all-contents", operation_id = "v1.message.expunge-all-contents",
    tag = "Message", params(ApplicationPath), request_body = Option<ExpungeAllIn>,
    responses((status = 202, body = StartedTaskOut))
)]
async fn expunge_all(
    _: InEnvironment,
    InApplication { api, scope, .. }: InApplication,
    input: Input,
) -> StatusAnswer<StartedTaskOut> {
    let ExpungeAllIn { dry_run, rate_per_second } = input.json_or_default()?;
    let Options { effect, rate } = Options::new(dry_run, rate_per_second)?;
    let action = BulkAction::Purge(Purge { application: scope.application, until: api.now() });
    let bulk = Bulk { action, effect, rate };
    Ok((StatusCode::ACCEPTED, Json(start(&api, scope.scope(), bulk.into(), input.key.as_ref()).await?)))
}

/// Removes the payload of a message. Returns false if the text names no message.
async fn expunge_one(api: &Api, scope: AppScope, text: &str) -> Result<bool, ApiError> {
    let id = match locator::<MessageId>("message", text, MessageId::PREFIX) {
        Err(_) => return Ok(false),
        Ok(Locator::Id(id)) => id,
        Ok(event_id @ Locator::Uid(_)) => {
            let Some(found) = api.read(query::FindMessage { scope, locator: event_id }).await? else {
                return Ok(false);
            };
            found.id
        }
    };
    Ok(api.node.expunge(scope, Expunge::Message(id)).await?)
}
