//! The messages of an endpoint, with the state of each at it.

use axum::Json;
use axum::response::{IntoResponse, Response};
use everhook_core::delivery::{DeliveryKey, DeliveryState};
use everhook_core::id::MessageId;
use everhook_core::time::Timestamp;
use everhook_core::violation::at;
use everhook_store::catalog::Slice;
use everhook_store::delivery::{Content, DeliveryFilter, DeliveryRecord};
use everhook_store::piece::Piece;
use everhook_store::query;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::destination::status;
use crate::error::ApiError;
use crate::message::{ContentParams, FilterParams, MessageOut};
use crate::page::{Page, PageParams};
use crate::query::Query;
use crate::routes::Routes;
use crate::scope::{ApplicationPath, AtEndpoint, EndpointPath};

/// A message, with its state at one endpoint.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndpointMessageOut<'a> {
    #[serde(flatten)]
    message: MessageOut<'a>,
    /// 0 success, 1 pending, 2 fail, 3 sending, 4 canceled.
    status: u8,
    /// The status as a word: `success`, `pending`, `fail`, `sending` or `canceled`.
    #[schema(value_type = String)]
    status_text: &'static str,
    /// The time of the next attempt, if the delivery waits for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    next_attempt: Option<Timestamp>,
}

/// A filter of an endpoint's messages by their state.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct StatusParams {
    /// Only messages with this status: 0 success, 1 pending, 2 fail, 3 sending, 4 canceled.
    #[serde(deserialize_with = "crate::query::one")]
    #[param(minimum = 0, maximum = 4)]
    status: Option<u8>,
    /// Whether the client knows status 4, canceled; otherwise it is shown as 2.
    #[serde(deserialize_with = "crate::query::one")]
    expanded_statuses: Option<bool>,
}

pub(crate) fn routes() -> Routes {
    Routes::default().add(list, __path_list)
}

/// List the messages that went or go to an endpoint with their states, newest first.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/msg",
    operation_id = "v1.message-attempt.list-attempted-messages", tag = "Message Attempt",
    params(ApplicationPath, EndpointPath, PageParams, StatusParams, FilterParams, ContentParams),
    responses((status = 200, body = Page<EndpointMessageOut>))
)]
async fn list(
    to: AtEndpoint,
    Query(page): Query<PageParams>,
    Query(params): Query<StatusParams>,
    Query(filter): Query<FilterParams>,
    Query(content): Query<ContentParams>,
) -> Result<Response, ApiError> {
    let cursor = filter.cursor::<MessageId>(&page)?;
    let Slice { after, order, limit } = cursor.slice();
    let endpoint = to.endpoint.id;
    let slice = Slice { after: after.map(|message| DeliveryKey { message, endpoint }), order, limit };
    let wanted = DeliveryFilter {
        endpoint: Some(endpoint),
        states: params.states()?,
        content: if content.is_wanted() { Content::WithPayload } else { Content::WithoutPayload },
        ..filter.of_deliveries(Some(to.scope.application), slice)
    };
    let piece = to.api.read(query::Deliveries { scope: to.scope.scope(), filter: wanted }).await?;
    let rows = piece.rows.iter().collect::<Vec<&DeliveryRecord>>();
    let piece = Piece { rows, next: piece.next.map(|key| key.message) };
    let now = to.api.now();
    let show = |record| EndpointMessageOut::new(record, now, &params, &content);
    Ok(Json(cursor.page_of(piece, |record| record.message.id, show)).into_response())
}

impl StatusParams {
    fn states(&self) -> Result<Vec<DeliveryState>, ApiError> {
        Ok(match self.status {
            None => Vec::new(),
            Some(0) => vec![DeliveryState::Succeeded],
            Some(1) => vec![DeliveryState::Pending, DeliveryState::Held],
            Some(2) => vec![DeliveryState::Dead],
            Some(3) => vec![DeliveryState::Sending],
            Some(4) => vec![DeliveryState::Cancelled],
            Some(_) => return Err(ApiError::in_query(at("status").breaks("must be from 0 to 4"))),
        })
    }
}

impl<'a> EndpointMessageOut<'a> {
    fn new(
        record: &'a DeliveryRecord,
        now: Timestamp,
        params: &StatusParams,
        content: &ContentParams,
    ) -> EndpointMessageOut<'a> {
        let (status, status_text) = match record.state {
            DeliveryState::Cancelled if params.expanded_statuses != Some(true) => status(DeliveryState::Dead),
            state => status(state),
        };
        let message = MessageOut::new(&record.message, now, content, None);
        EndpointMessageOut { message, status, status_text, next_attempt: record.next_attempt() }
    }
}
