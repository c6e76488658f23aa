//! Commands for deliveries: cancel, retry now, dismiss.

use axum::Json;
use everhook_core::delivery::{DeliveryAction, DeliveryCommand, DeliveryState};
use everhook_store::steer::Steer;
use serde::Serialize;
use utoipa::ToSchema;

use crate::delivery::{self, DeliveryOut};
use crate::error::ApiError;
use crate::routes::{Answer, Routes, routes_of};
use crate::scope::{ApplicationPath, AtEndpoint, EndpointPath, MessagePath, OfMessage};

/// The result of cancelling a message.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageCancelOut {
    /// Deliveries that were waiting and are now cancelled.
    cancelled: usize,
    /// Deliveries that are being sent. Each ends as succeeded if its current attempt succeeds, and is not tried again
    /// otherwise.
    requested: usize,
}

pub(crate) fn routes() -> Routes {
    routes_of![
        cancel __path_cancel, retry_now __path_retry_now, dismiss __path_dismiss,
        cancel_message __path_cancel_message,
    ]
}

type Steered = Answer<DeliveryOut>;

/// Cancel a delivery that waits or is being sent. A waiting one ends at once. One that is being sent ends as succeeded
/// if its current attempt succeeds, and is not tried again otherwise.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/cancel", operation_id = "v1.delivery.cancel",
    tag = "Delivery", params(ApplicationPath, MessagePath, EndpointPath),
    responses((status = 200, body = DeliveryOut))
)]
async fn cancel(of: OfMessage, to: AtEndpoint) -> Steered {
    steer(&of, &to, DeliveryCommand::Cancel).await
}

/// Make a waiting delivery due now, or redrive a dead one with fresh tries.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/retry-now",
    operation_id = "v1.delivery.retry-now", tag = "Delivery", params(ApplicationPath, MessagePath, EndpointPath),
    responses((status = 200, body = DeliveryOut))
)]
async fn retry_now(of: OfMessage, to: AtEndpoint) -> Steered {
    steer(&of, &to, DeliveryCommand::RetryNow).await
}

/// Dismiss a dead delivery. It ends as cancelled, and no redrive finds it any more.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/dismiss",
    operation_id = "v1.delivery.dismiss", tag = "Delivery", params(ApplicationPath, MessagePath, EndpointPath),
    responses((status = 200, body = DeliveryOut))
)]
async fn dismiss(of: OfMessage, to: AtEndpoint) -> Steered {
    steer(&of, &to, DeliveryCommand::Dismiss).await
}

/// Cancel all deliveries of a message that wait or are being sent, also those of a message with a later `deliverAt`.
/// Dead deliveries stay.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/msg/{msg_id}/cancel", operation_id = "v1.delivery.cancel-message",
    tag = "Delivery", params(ApplicationPath, MessagePath), responses((status = 200, body = MessageCancelOut))
)]
async fn cancel_message(of: OfMessage) -> Answer<MessageCancelOut> {
    let command = DeliveryCommand::Cancel;
    let all = Steer::Deliveries { message: of.message.id, endpoint: None, command };
    let actions = of.api.node.steer(of.scope.scope(), all).await?.deliveries;
    let count = |wanted| actions.iter().filter(|action| **action == wanted).count();
    let (cancelled, requested) = (count(DeliveryAction::End), count(DeliveryAction::RequestCancel));
    Ok(Json(MessageCancelOut { cancelled, requested }))
}

async fn steer(of: &OfMessage, to: &AtEndpoint, command: DeliveryCommand) -> Steered {
    let (message, endpoint) = (of.message.id, Some(to.endpoint.id));
    let steer = Steer::Deliveries { message, endpoint, command };
    let actions = of.api.node.steer(of.scope.scope(), steer).await?.deliveries;
    let record = delivery::find(of, to.endpoint.id).await?;
    // A repeated request finds its delivery already ended.
    let was_ended = record.state == DeliveryState::Cancelled && command != DeliveryCommand::RetryNow;
    if was_ended || actions.iter().any(|action| *action != DeliveryAction::Refuse) {
        return Ok(Json(DeliveryOut::new(&record, of.api.now())));
    }
    Err(ApiError::conflict(format!("The delivery is {}: {}.", record.state, remedy(record.state, command))))
}

/// Tells what the caller can do instead.
fn remedy(state: DeliveryState, command: DeliveryCommand) -> &'static str {
    match (command, state) {
        (DeliveryCommand::Cancel, DeliveryState::Dead) => "dismiss it instead of cancelling it",
        (DeliveryCommand::Cancel, _) => "only a delivery that waits or is being sent can be cancelled",
        (DeliveryCommand::RetryNow, _) => "only a waiting or dead delivery can be retried; resend it instead",
        (DeliveryCommand::Dismiss, _) => "only a dead delivery can be dismissed",
    }
}
