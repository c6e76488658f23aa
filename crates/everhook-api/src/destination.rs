//! The deliveries of a message: the state for each endpoint, and the resend of a message.

use axum::Json;
use everhook_core::delivery::DeliveryState;
use everhook_core::time::Timestamp;
use everhook_store::catalog::Order;
use everhook_store::history::{Destination, Resend, Resent};
use everhook_store::query;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::delivery;
use crate::endpoint::EndpointCommonOut;
use crate::error::ApiError;
use crate::input::Input;
use crate::page::{Cursor, Page, PageParams};
use crate::query::Query;
use crate::routes::{Answer, Routes, StatusAnswer};
use crate::scope::{ApplicationPath, AtEndpoint, EndpointPath, MessagePath, OfMessage};

/// An endpoint with the state of a message's delivery to it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageEndpointOut {
    #[serde(flatten)]
    endpoint: EndpointCommonOut,
    /// 0 = success, 1 = pending, 2 = fail, 3 = sending, 4 = canceled.
    status: u8,
    #[schema(value_type = String)]
    status_text: &'static str,
    /// Time of the next attempt.
    #[schema(value_type = Option<String>, format = DateTime)]
    next_attempt: Option<Timestamp>,
    /// Whether the delivery waits because the endpoint is disabled, or it, its application or the environment is
    /// paused.
    held: bool,
}

/// An empty object.
#[derive(Serialize, ToSchema)]
pub(crate) struct EmptyResponse {}

pub(crate) fn routes() -> Routes {
    Routes::default().add(list, __path_list).add(resend, __path_resend)
}

/// List the endpoints of a message, with the state of each delivery.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/msg/{msg_id}/endpoint",
    operation_id = "v1.message-attempt.list-attempted-destinations", tag = "Message Attempt",
    params(ApplicationPath, MessagePath, PageParams),
    responses((status = 200, body = Page<MessageEndpointOut>))
)]
async fn list(of: OfMessage, Query(page): Query<PageParams>) -> Answer<Page<MessageEndpointOut>> {
    let cursor = Cursor::new(&page, Order::Ascending)?;
    let all = of.api.read(query::Destinations { scope: of.scope, message: of.message.id }).await?;
    let pauses = delivery::pauses(&of.api, of.scope.scope()).await?;
    let rows = cursor.cut(all, |row| row.endpoint.id);
    let shown = |row: Destination| MessageEndpointOut::from(row.under(&pauses));
    Ok(Json(cursor.page(rows, |row| row.endpoint.id, shown)))
}

/// Resend a message to an endpoint. The resend is one attempt without retries.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/resend",
    operation_id = "v1.message-attempt.resend", tag = "Message Attempt",
    params(ApplicationPath, MessagePath, EndpointPath), responses((status = 202, body = EmptyResponse))
)]
async fn resend(of: OfMessage, at: AtEndpoint, input: Input) -> StatusAnswer<EmptyResponse> {
    if at.endpoint.is_polled() {
        let detail = "The endpoint is polled: its readers can read the message again.";
        return Err(ApiError::bad_request("polled_endpoint", detail));
    }
    if of.message.payload_at(of.api.now()).is_none() {
        return Err(no_payload());
    }
    let (message, endpoint) = (of.message.id, at.endpoint.id);
    let wish = Resend { application: of.scope.application, message, endpoint, key: input.key };
    match of.api.node.resend(of.scope.scope(), wish).await? {
        Resent::Pending | Resent::Repeated => {}
        Resent::KeyReused => return Err(ApiError::key_reused()),
        Resent::NotFound => return Err(ApiError::not_found(format_args!("delivery of {message} to {endpoint}"))),
        Resent::NoPayload => return Err(no_payload()),
    }
    Ok((StatusCode::ACCEPTED, Json(EmptyResponse {})))
}

/// The number and the word for a state.
pub(crate) fn status(state: DeliveryState) -> (u8, &'static str) {
    match state {
        DeliveryState::Succeeded => (0, "success"),
        DeliveryState::Pending | DeliveryState::Held => (1, "pending"),
        DeliveryState::Dead => (2, "fail"),
        DeliveryState::Sending => (3, "sending"),
        DeliveryState::Cancelled => (4, "canceled"),
    }
}

fn no_payload() -> ApiError {
    ApiError::bad_request("missing_payload", "The payload of the message was removed.")
}

impl From<Destination> for MessageEndpointOut {
    fn from(destination: Destination) -> MessageEndpointOut {
        let (status, status_text) = status(destination.state);
        MessageEndpointOut {
            endpoint: destination.endpoint.into(),
            status,
            status_text,
            next_attempt: destination.next_attempt,
            held: destination.state == DeliveryState::Held,
        }
    }
}
