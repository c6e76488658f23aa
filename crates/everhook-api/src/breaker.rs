//! The circuit breaker of an endpoint, as `GET` of the endpoint shows it.

use everhook_core::id::EndpointId;
use everhook_core::policy::breaker::BreakerPhase;
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_store::query;
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::ApiError;
use crate::state::Api;

/// A circuit breaker that is not closed.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EndpointBreaker)]
pub(crate) struct BreakerOut {
    /// `open` (no delivery starts), `probing` (one delivery at a time tests the endpoint) or `recovering` (more and
    /// more deliveries run at the same time).
    #[schema(value_type = String, example = "open")]
    state: &'static str,
    /// The time until which the breaker is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    until: Option<Timestamp>,
    /// The number of deliveries that may run at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    at_once: Option<u32>,
}

/// Returns the breaker of an endpoint; none if it is closed.
pub(crate) async fn find(api: &Api, scope: Scope, endpoint: EndpointId) -> Result<Option<BreakerOut>, ApiError> {
    let found = api.read(query::FindBreaker { scope, endpoint }).await?;
    let Some(record) = found.filter(|record| !record.breaker.is_closed()) else { return Ok(None) };
    if let Some(until) = record.open_until(api.now()) {
        return Ok(Some(BreakerOut { state: "open", until: Some(until), at_once: None }));
    }
    let state = match record.breaker.phase() {
        BreakerPhase::Closed => return Ok(None),
        BreakerPhase::Probing => "probing",
        BreakerPhase::Recovering => "recovering",
    };
    Ok(Some(BreakerOut { state, until: None, at_once: record.breaker.at_once() }))
}
