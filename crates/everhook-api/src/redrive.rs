//! Redrive: makes dead deliveries pending again, or replaces one by a message with a corrected payload.

use axum::Json;
use bytes::Bytes;
use everhook_core::delivery::DeliveryKey;
use everhook_core::id::{EndpointId, MessageId};
use everhook_core::limits::REDRIVE_BATCH_MAX;
use everhook_core::message::{Message, Rest, check_payload};
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_core::violation;
use everhook_store::history::Redrive;
use everhook_store::steer::Steer;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::auth::{Caller, Rights};
use crate::error::ApiError;
use crate::input::Input;
use crate::limits::REDRIVE_ROUNDS_MAX;
use crate::message::MessageOut;
use crate::routes::{Routes, StatusAnswer};
use crate::scope::{ApplicationPath, AtEndpoint, EndpointPath, MessagePath, OfMessage};
use crate::state::Api;

/// The dead deliveries to redrive. Without limits, all dead deliveries of the endpoint.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RedriveIn {
    /// Only deliveries of messages that were accepted at this time or later.
    #[schema(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// Only deliveries of messages that were accepted before this time.
    #[schema(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
}

/// The payload of a redriven delivery.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RedriveMessageIn<'a> {
    /// A corrected payload. The payload of an accepted message never changes: a new message with this payload replaces
    /// the dead delivery, which ends as cancelled. Application tokens cannot use this field.
    #[serde(borrow)]
    #[schema(value_type = Option<Object>)]
    payload: Option<&'a RawValue>,
}

/// The result of a redrive.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RedriveOut {
    redriven: usize,
    /// Whether all matching deliveries were redriven. If false, repeat the request.
    done: bool,
    /// The message that replaces the dead delivery, without its payload; only after a correction.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<MessageOut>)]
    msg: Option<Value>,
}

pub(crate) fn routes() -> Routes {
    Routes::default().add(redrive_endpoint, __path_redrive_endpoint).add(redrive_message, __path_redrive_message)
}

/// Make the dead deliveries of an endpoint pending again, due now, with a fresh set of attempts.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/redrive", operation_id = "v1.endpoint.redrive",
    tag = "Endpoint", params(ApplicationPath, EndpointPath), request_body = Option<RedriveIn>,
    responses((status = 202, body = RedriveOut))
)]
async fn redrive_endpoint(at: AtEndpoint, input: Input) -> StatusAnswer<RedriveOut> {
    let RedriveIn { since, until } = input.json_or_default()?;
    let wish = Redrive { endpoint: at.endpoint.id, message: None, since, until, limit: REDRIVE_BATCH_MAX };
    redrive(&at.api, at.scope.scope(), &wish).await
}

/// Make the dead delivery of a message to an endpoint pending again, due now, with a fresh set of attempts. With a
/// corrected `payload`, a new message for this endpoint alone replaces the dead delivery.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/redrive",
    operation_id = "v1.message-attempt.redrive", tag = "Message Attempt",
    params(ApplicationPath, MessagePath, EndpointPath), request_body = Option<RedriveMessageIn>,
    responses((status = 202, body = RedriveOut))
)]
async fn redrive_message(caller: Caller, of: OfMessage, at: AtEndpoint, input: Input) -> StatusAnswer<RedriveOut> {
    let (endpoint, message) = (at.endpoint.id, Some(of.message.id));
    let RedriveMessageIn { payload } = input.json_or_default()?;
    if let Some(payload) = payload {
        // The server signs the payload, so that only the producer may choose it.
        if matches!(caller.rights, Rights::Application { .. }) {
            return Err(ApiError::forbidden());
        }
        return correct(&of, endpoint, payload).await;
    }
    let wish = Redrive { endpoint, message, since: None, until: None, limit: REDRIVE_BATCH_MAX };
    redrive(&of.api, of.scope.scope(), &wish).await
}

/// Replaces a dead delivery by a new message with a corrected payload.
async fn correct(of: &OfMessage, endpoint: EndpointId, payload: &RawValue) -> StatusAnswer<RedriveOut> {
    violation::at("payload").check(check_payload(payload.get()))?;
    let kept_for = of.message.rest.payload_until.map(|until| until.since(of.message.created_at));
    let payload_until = kept_for.map(|kept_for| of.api.now().plus(kept_for));
    let message = Message {
        id: MessageId(of.api.new_id()),
        // The event id was accepted once, with the first message.
        event_id: None,
        payload: Some(Bytes::copy_from_slice(payload.get().as_bytes())),
        // Everything else stays, but the delivery is due now, and the payload is JSON.
        rest: Rest { payload_until, redrive_of: Some(of.message.id), ..Rest::default() },
        ..of.message.clone()
    };
    let dead = DeliveryKey { message: of.message.id, endpoint };
    let steered = of.api.node.steer(of.scope.scope(), Steer::Correct { dead, message }).await?;
    let Some(message) = steered.corrected else {
        return Err(ApiError::conflict("Only a dead delivery can be redriven with a corrected payload."));
    };
    let msg = Some(MessageOut::without_content(&message));
    Ok((StatusCode::ACCEPTED, Json(RedriveOut { redriven: 1, done: true, msg })))
}

async fn redrive(api: &Api, scope: Scope, wish: &Redrive) -> StatusAnswer<RedriveOut> {
    let mut out = RedriveOut { redriven: 0, done: false, msg: None };
    for _ in 0..REDRIVE_ROUNDS_MAX {
        let redriven = api.node.steer(scope, Steer::Redrive(wish.clone())).await?.redriven;
        out.redriven += redriven;
        if redriven < wish.limit {
            out.done = true;
            break;
        }
    }
    Ok((StatusCode::ACCEPTED, Json(out)))
}
