//! The outboxes that this server relays: their depth, and the rows that were set aside. The routes need an admin key,
//! because an outbox can hold rows for every environment.

use std::sync::Arc;

use axum::Json;
use everhook_core::draft::check_payload_text;
use everhook_core::id::MessageId;
use everhook_core::limits::{OUTBOX_COUNTED_MAX, PAGE_MAX, TITLE_CHARS_MAX};
use everhook_core::name::{BadName, Name};
use everhook_core::time::Timestamp;
use everhook_core::violation::{Violation, at};
use everhook_store::outbox::{AsideChange, AsideRow, Outbox, OutboxStatus};
use everhook_store::piece::Piece;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tracing::warn;
use utoipa::{IntoParams, ToSchema};

use crate::error::ApiError;
use crate::input::{self, Input};
use crate::limits::RETRY_ROUNDS_MAX;
use crate::page::{self, Page};
use crate::query::{self, Query};
use crate::routes::{Answer, EmptyAnswer, Routes, StatusAnswer, routes_of};
use crate::scope::{AsAdmin, PathParams};
use crate::state::Api;

/// An outbox with its name in the configuration.
#[derive(Clone)]
pub struct NamedOutbox {
    /// The name in the configuration.
    pub name: String,
    /// The database with the rows.
    pub outbox: Arc<dyn Outbox>,
}

/// The state of an outbox.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OutboxOut {
    /// The name in the configuration. `main` is the outbox in the store's own database.
    name: String,
    /// Whether the database of the outbox responds. If not, the numbers are absent.
    reachable: bool,
    /// The number of rows that wait to be relayed, counted up to 100000.
    #[serde(skip_serializing_if = "Option::is_none")]
    depth: Option<u64>,
    /// Whether counting stopped at the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    depth_is_capped: Option<bool>,
    /// The age of the oldest waiting row in seconds. Absent if no row waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest_age_seconds: Option<f64>,
    /// The number of rows that were set aside and wait for an operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    set_aside: Option<u64>,
}

/// All outboxes.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OutboxListOut {
    data: Vec<OutboxOut>,
}

/// A row that was set aside because it could not be relayed.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AsideRowOut {
    /// The number of the row in the outbox.
    id: i64,
    /// The reason why the row could not be relayed.
    error: String,
    environment: Option<String>,
    application: String,
    event_type: String,
    /// The payload as it was written, valid JSON or not.
    payload: String,
    event_id: Option<String>,
    channels: Option<Vec<String>>,
    tags: Option<Vec<String>>,
    #[schema(value_type = Option<String>, format = DateTime)]
    deliver_at: Option<Timestamp>,
    once_key: Option<String>,
    once_phase: Option<i64>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    set_aside_at: Timestamp,
}

/// A change of a row that was set aside. Absent members keep their values.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AsideRowPatch {
    environment: Option<String>,
    application: Option<String>,
    event_type: Option<String>,
    /// The new payload, as a text.
    payload: Option<String>,
    event_id: Option<String>,
}

/// The result of a retry.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RetriedOut {
    retried: u64,
    /// Whether all rows were retried. If false, repeat the request.
    done: bool,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct OutboxPath {
    /// The outbox's name.
    outbox: String,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct RowPath {
    /// The row's number.
    #[param(value_type = i64)]
    row_id: String,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct AsideParams {
    /// Maximum number of rows. Default: 50.
    #[serde(deserialize_with = "query::one")]
    #[param(value_type = Option<u64>, minimum = 1, maximum = 250)]
    limit: Option<usize>,
    /// The `iterator` of the previous page.
    #[serde(deserialize_with = "query::one")]
    #[param(value_type = Option<String>)]
    iterator: Option<i64>,
}

pub(crate) fn routes() -> Routes {
    routes_of![
        list __path_list, list_aside __path_list_aside, patch_aside __path_patch_aside,
        retry_aside __path_retry_aside, retry_all __path_retry_all, discard_aside __path_discard_aside,
    ]
}

/// List the outboxes that this server relays, with their depths. Requires an admin key.
#[utoipa::path(
    get, path = "/api/v1/outbox", operation_id = "v1.outbox.list", tag = "Outbox",
    responses((status = 200, body = OutboxListOut))
)]
async fn list(AsAdmin { api }: AsAdmin) -> Json<OutboxListOut> {
    let mut data = Vec::with_capacity(api.config.outboxes.len());
    for NamedOutbox { name, outbox } in &api.config.outboxes {
        let status = outbox.status().await.inspect_err(|error| {
            warn!(error = error as &dyn std::error::Error, outbox = name, "could not read the status of outbox {name}");
        });
        data.push(OutboxOut::new(name.clone(), status.ok()));
    }
    Json(OutboxListOut { data })
}

/// List the rows of an outbox that were set aside, oldest first. Requires an admin key.
#[utoipa::path(
    get, path = "/api/v1/outbox/{outbox}/aside", operation_id = "v1.outbox.aside.list", tag = "Outbox",
    params(OutboxPath, AsideParams), responses((status = 200, body = Page<AsideRowOut>))
)]
async fn list_aside(
    AsAdmin { api }: AsAdmin,
    PathParams(OutboxPath { outbox }): PathParams<OutboxPath>,
    Query(params): Query<AsideParams>,
) -> Answer<Page<AsideRowOut>> {
    let limit = page::limit(params.limit)?;
    let after = params.iterator.unwrap_or(i64::MIN);
    let Piece { mut rows, next } = find(&api, &outbox)?.list_aside(after, limit + 1).await?;
    let done = rows.len() <= limit && next.is_none();
    rows.truncate(limit);
    let iterator = rows.last().map(|row| row.row.id.to_string());
    Ok(Json(Page { data: rows.into_iter().map(AsideRowOut::from).collect(), iterator, prev_iterator: None, done }))
}

/// Change a row that was set aside, so that it can be retried. Requires an admin key.
#[utoipa::path(
    patch, path = "/api/v1/outbox/{outbox}/aside/{row_id}", operation_id = "v1.outbox.aside.patch", tag = "Outbox",
    params(OutboxPath, RowPath), request_body = AsideRowPatch, responses((status = 204))
)]
async fn patch_aside(
    AsAdmin { api }: AsAdmin,
    PathParams(OutboxPath { outbox }): PathParams<OutboxPath>,
    row: PathParams<RowPath>,
    input: Input,
) -> EmptyAnswer {
    let change = input.json::<AsideRowPatch>()?.check()?;
    let changed = find(&api, &outbox)?.replace_aside(row.id()?, &change).await?;
    if changed { Ok(StatusCode::NO_CONTENT) } else { Err(row.not_found()) }
}

/// Retry a row that was set aside: it is relayed at once. Requires an admin key.
#[utoipa::path(
    post, path = "/api/v1/outbox/{outbox}/aside/{row_id}/retry", operation_id = "v1.outbox.aside.retry", tag = "Outbox",
    params(OutboxPath, RowPath), responses((status = 202, body = RetriedOut))
)]
async fn retry_aside(
    AsAdmin { api }: AsAdmin,
    PathParams(OutboxPath { outbox }): PathParams<OutboxPath>,
    row: PathParams<RowPath>,
) -> StatusAnswer<RetriedOut> {
    match find(&api, &outbox)?.retry_aside(&[row.id()?]).await? {
        0 => Err(row.not_found()),
        retried => Ok((StatusCode::ACCEPTED, Json(RetriedOut { retried, done: true }))),
    }
}

/// Retry all rows that were set aside: they are relayed at once. Requires an admin key.
#[utoipa::path(
    post, path = "/api/v1/outbox/{outbox}/aside/retry", operation_id = "v1.outbox.aside.retry-all", tag = "Outbox",
    params(OutboxPath), responses((status = 202, body = RetriedOut))
)]
async fn retry_all(
    AsAdmin { api }: AsAdmin,
    PathParams(OutboxPath { outbox }): PathParams<OutboxPath>,
) -> StatusAnswer<RetriedOut> {
    let outbox = find(&api, &outbox)?;
    let mut out = RetriedOut { retried: 0, done: false };
    // The scan only moves forward, because a row that fails again is set aside again with the same number.
    let mut after = i64::MIN;
    for _ in 0..RETRY_ROUNDS_MAX {
        let piece = outbox.list_aside(after, PAGE_MAX).await?;
        let ids: Vec<i64> = piece.rows.iter().map(|row| row.row.id).collect();
        out.retried += outbox.retry_aside(&ids).await?;
        match piece.continues_after(PAGE_MAX, |row| row.row.id) {
            Some(last) => after = last,
            None => {
                out.done = true;
                break;
            }
        }
    }
    Ok((StatusCode::ACCEPTED, Json(out)))
}

/// Discard a row that was set aside: it never becomes a message. Requires an admin key.
#[utoipa::path(
    delete, path = "/api/v1/outbox/{outbox}/aside/{row_id}", operation_id = "v1.outbox.aside.discard", tag = "Outbox",
    params(OutboxPath, RowPath), responses((status = 204))
)]
async fn discard_aside(
    AsAdmin { api }: AsAdmin,
    PathParams(OutboxPath { outbox }): PathParams<OutboxPath>,
    row: PathParams<RowPath>,
) -> EmptyAnswer {
    match find(&api, &outbox)?.discard_aside(&[row.id()?]).await? {
        0 => Err(row.not_found()),
        _ => Ok(StatusCode::NO_CONTENT),
    }
}

fn find<'a>(api: &'a Api, name: &str) -> Result<&'a dyn Outbox, ApiError> {
    let found = api.config.outboxes.iter().find(|outbox| outbox.name == name);
    found.map(|found| &*found.outbox).ok_or_else(|| ApiError::not_found(format_args!("outbox {name:?}")))
}

impl AsideRowPatch {
    /// Checks the new values by the rules of messages. The values that the producer wrote are not checked.
    fn check(self) -> Result<AsideChange, Violation> {
        let AsideRowPatch { environment, application, event_type, payload, event_id } = self;
        if let Some(payload) = &payload {
            check_payload_text(payload)?;
        }
        Ok(AsideChange {
            environment: environment.map(|name| input::some_text("environment", name, TITLE_CHARS_MAX)).transpose()?,
            // The rule of names accepts both ids and uids.
            application: application.map(|slot| checked("application", slot, str::parse)).transpose()?,
            event_type: event_type.map(|name| checked("eventType", name, str::parse)).transpose()?,
            payload,
            event_id: event_id.map(|id| checked("eventId", id, |id| Name::uid(id, MessageId::PREFIX))).transpose()?,
        })
    }
}

fn checked(
    field: &'static str,
    text: String,
    rule: impl Fn(&str) -> Result<Name, BadName>,
) -> Result<String, Violation> {
    at(field).check(rule(&text)).map(|_| text)
}

impl RowPath {
    /// Parses the number. A malformed number is not found.
    fn id(&self) -> Result<i64, ApiError> {
        self.row_id.parse().map_err(|_| self.not_found())
    }

    fn not_found(&self) -> ApiError {
        ApiError::not_found(format_args!("row {} that was set aside", self.row_id.escape_debug()))
    }
}

impl OutboxOut {
    fn new(name: String, status: Option<OutboxStatus>) -> OutboxOut {
        OutboxOut {
            name,
            reachable: status.is_some(),
            depth: status.map(|status| status.depth),
            depth_is_capped: status.map(|status| status.depth >= OUTBOX_COUNTED_MAX as u64),
            oldest_age_seconds: status.and_then(|status| status.oldest_age).map(|age| age.as_secs_f64()),
            set_aside: status.map(|status| status.set_aside),
        }
    }
}

impl From<AsideRow> for AsideRowOut {
    fn from(AsideRow { row, set_aside_at, error }: AsideRow) -> AsideRowOut {
        AsideRowOut {
            id: row.id,
            error,
            environment: row.environment,
            application: row.application,
            event_type: row.event_type,
            payload: row.payload,
            event_id: row.event_id,
            channels: row.channels,
            tags: row.tags,
            deliver_at: row.deliver_at,
            once_key: row.once_key,
            once_phase: row.once_phase,
            created_at: row.created_at,
            set_aside_at,
        }
    }
}
