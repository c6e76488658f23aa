//! Health checks: whether the server runs, and whether it is ready. They need no key and reveal no secrets.
//!
//! A separate listener also serves them, with the metrics. Clients of the API cannot use up its connections.

use std::sync::Arc;

use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::get as on_get;
use axum::{Json, Router};
use everhook_engine::node::Node;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::ApiError;
use crate::routes::Routes;
use crate::scope::AsAdmin;
use crate::state::Api;

/// The readiness of the server.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReadyOut {
    ready: bool,
    #[schema(value_type = String)]
    version: &'static str,
    /// The role of this node: `all`, `api` or `worker`.
    #[schema(value_type = String)]
    role: &'static str,
    /// `open`, or `paused` while the server accepts messages and sends nothing.
    #[schema(value_type = String)]
    egress: &'static str,
    /// The reason if the server is not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// Serves `/metrics` for Prometheus. The route needs an admin key.
pub(crate) async fn metrics(AsAdmin { api }: AsAdmin) -> impl IntoResponse {
    page(&api.node)
}

fn page(node: &Node) -> impl IntoResponse + use<> {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(CONTENT_TYPE, OPEN_METRICS)], node.metrics())
}

/// Returns the routes of the listener for operators. Its metrics need no key: checking a key needs the store, and
/// metrics matter most while the store is unavailable.
pub fn ops_router(node: Arc<Node>, version: &'static str) -> Router {
    let ready = on_get(async move |State(node): State<Arc<Node>>| readiness(&node, version));
    Router::new()
        .route("/api/v1/health", on_get(get))
        .route("/api/v1/health/ping", on_get(ping))
        .route("/api/v1/health/ready", ready)
        .route("/metrics", on_get(async |State(node): State<Arc<Node>>| page(&node)))
        .fallback(async || {
            let detail = "This listener serves /api/v1/health, /api/v1/health/ready and /metrics only.";
            ApiError::new(StatusCode::NOT_FOUND, "not_found", detail)
        })
        .with_state(node)
}

pub(crate) fn routes() -> Routes {
    Routes::default().add_open(get, __path_get).add_open(ping, __path_ping).add_open(ready, __path_ready)
}

/// Check that the server runs.
#[utoipa::path(
    get, path = "/api/v1/health", operation_id = "v1.health.get", tag = "Health", responses((status = 204))
)]
async fn get() -> StatusCode {
    StatusCode::NO_CONTENT
}

/// Check that the server runs.
#[utoipa::path(
    get, path = "/api/v1/health/ping", operation_id = "v1.health.ping", tag = "Health", responses((status = 204))
)]
async fn ping() -> StatusCode {
    StatusCode::NO_CONTENT
}

/// Check that the server is ready.
#[utoipa::path(
    get, path = "/api/v1/health/ready", operation_id = "v1.health.ready", tag = "Health",
    responses(
        (status = 200, body = ReadyOut),
        (status = 503, body = ReadyOut, description = "The server is not ready; `reason` explains why."),
    )
)]
async fn ready(State(api): State<Arc<Api>>) -> (StatusCode, Json<ReadyOut>) {
    readiness(&api.node, api.config.version)
}

fn readiness(node: &Node, version: &'static str) -> (StatusCode, Json<ReadyOut>) {
    let (status, reason) = match node.ready() {
        Ok(()) => (StatusCode::OK, None),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, Some(reason)),
    };
    let egress = if node.egress_pause().is_some() { "paused" } else { "open" };
    (status, Json(ReadyOut { ready: reason.is_none(), version, role: node.role().as_str(), egress, reason }))
}
