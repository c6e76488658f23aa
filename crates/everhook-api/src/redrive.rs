//! Redrive: makes dead deliveries pending again.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use everhook_core::id::EnvironmentId;
use everhook_core::limits::REDRIVE_BATCH_MAX;
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_store::history::Redrive;
use everhook_store::steer::Steer;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error::ApiError;
use crate::input::Input;
use crate::limits::REDRIVE_ROUNDS_MAX;
use crate::routes::Routes;
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

/// The result of a redrive.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RedriveOut {
    redriven: usize,
    /// Whether all matching deliveries were redriven. If false, repeat the request.
    done: bool,
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
async fn redrive_endpoint(
    State(api): State<Arc<Api>>,
    at: AtEndpoint,
    input: Input,
) -> Result<(StatusCode, Json<RedriveOut>), ApiError> {
    let RedriveIn { since, until } = input.json_or_default()?;
    let wish = Redrive { endpoint: at.endpoint.id, message: None, since, until, limit: REDRIVE_BATCH_MAX };
    redrive(&api, at.environment, &wish).await
}

/// Make the dead delivery of a message to an endpoint pending again, due now, with a fresh set of attempts.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/redrive",
    operation_id = "v1.message-attempt.redrive", tag = "Message Attempt",
    params(ApplicationPath, MessagePath, EndpointPath), responses((status = 202, body = RedriveOut))
)]
async fn redrive_message(
    State(api): State<Arc<Api>>,
    of: OfMessage,
    at: AtEndpoint,
) -> Result<(StatusCode, Json<RedriveOut>), ApiError> {
    let (endpoint, message) = (at.endpoint.id, Some(of.message.id));
    let wish = Redrive { endpoint, message, since: None, until: None, limit: REDRIVE_BATCH_MAX };
    redrive(&api, of.environment, &wish).await
}

async fn redrive(
    api: &Api,
    environment: EnvironmentId,
    wish: &Redrive,
) -> Result<(StatusCode, Json<RedriveOut>), ApiError> {
    let mut out = RedriveOut { redriven: 0, done: false };
    for _ in 0..REDRIVE_ROUNDS_MAX {
        let redriven = api.node.steer(Scope::of(environment), Steer::Redrive(wish.clone())).await?.redriven;
        out.redriven += redriven;
        if redriven < wish.limit {
            out.done = true;
            break;
        }
    }
    Ok((StatusCode::ACCEPTED, Json(out)))
}
