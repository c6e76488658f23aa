//! Whether the server lives, and whether it can do its work. Needs no key and tells no secrets.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde::Serialize;
use utoipa::ToSchema;

use crate::routes::Routes;
use crate::scope::AsAdmin;
use crate::state::Api;

/// Whether the server can do its work.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReadyOut {
    ready: bool,
    #[schema(value_type = String)]
    version: &'static str,
    /// `all`, `api` or `worker`.
    #[schema(value_type = String)]
    role: &'static str,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// What the server does, in numbers: `/metrics`, where Prometheus looks for it. Needs an admin key.
pub(crate) async fn metrics(State(api): State<Arc<Api>>, _: AsAdmin) -> impl IntoResponse {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(CONTENT_TYPE, OPEN_METRICS)], api.accept.metrics())
}

pub(crate) fn routes() -> Routes {
    Routes::default().add_open(get, __path_get).add_open(ping, __path_ping).add_open(ready, __path_ready)
}

/// Tell that the server lives.
#[utoipa::path(
    get, path = "/api/v1/health", operation_id = "v1.health.get", tag = "Health", responses((status = 204))
)]
async fn get() -> StatusCode {
    StatusCode::NO_CONTENT
}

/// Tell that the server lives.
#[utoipa::path(
    get, path = "/api/v1/health/ping", operation_id = "v1.health.ping", tag = "Health", responses((status = 204))
)]
async fn ping() -> StatusCode {
    StatusCode::NO_CONTENT
}

/// Tell whether the server can do its work.
#[utoipa::path(
    get, path = "/api/v1/health/ready", operation_id = "v1.health.ready", tag = "Health",
    responses(
        (status = 200, body = ReadyOut),
        (status = 503, body = ReadyOut, description = "It cannot; the reason says why."),
    )
)]
async fn ready(State(api): State<Arc<Api>>) -> (StatusCode, Json<ReadyOut>) {
    let (status, reason) = match api.accept.ready() {
        Ok(()) => (StatusCode::OK, None),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, Some(reason)),
    };
    (status, Json(ReadyOut { ready: reason.is_none(), version: api.version, role: api.role.as_str(), reason }))
}
