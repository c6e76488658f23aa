//! The request of an attempt, for people who look for a fault.
//!
//! No request is stored. Its headers follow from the message, the attempt and the settings of the endpoint, so they are
//! computed when one attempt is read. The answer says whether the settings are known to be those of the attempt.

use std::time::Duration;

use everhook_core::application::Application;
use everhook_core::endpoint::Endpoint;
use everhook_core::message::Message;
use everhook_core::scope::AppScope;
use everhook_core::time::Timestamp;
use everhook_engine::run::request::{PastAttempt, ShownRequest};
use everhook_store::catalog::Locator;
use everhook_store::history::Attempt;
use everhook_store::query;
use http::header::AUTHORIZATION;
use serde::Serialize;
use utoipa::ToSchema;

use crate::endpoint_headers;
use crate::error::ApiError;
use crate::state::Api;

/// The longest time for which a node may use the previous settings: a delivery reads them before it waits for a slot.
const SETTINGS_LAG: Duration = Duration::from_secs(60);

/// The request of an attempt, computed from the message and the current settings of the endpoint.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AttemptRequestOut {
    /// The headers without those of the connection. Signatures are absent if the payload was removed.
    headers: Vec<RequestHeaderOut>,
    /// The body, if it is not the payload: the message of a chat platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    /// Whether these are the headers that were sent. False if the endpoint, its application or a policy has changed
    /// since, and for attempts of older servers: headers, signatures and body may differ from those that were sent.
    exact: bool,
}

/// A header of a request.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RequestHeaderOut {
    /// The name in lower case.
    name: String,
    /// Null unless the name is known to be harmless: the value may be a credential.
    value: Option<String>,
}

/// Computes the request of an attempt. Returns none if no request was sent, or if the endpoint is deleted.
pub(crate) async fn of(
    api: &Api,
    (scope, application): (AppScope, &Application),
    message: &Message,
    attempt: &Attempt,
) -> Result<Option<AttemptRequestOut>, ApiError> {
    let Some(exchange) = &attempt.exchange else { return Ok(None) };
    let endpoint = api.read(query::FindEndpoint { scope, locator: Locator::Id(attempt.endpoint) }).await?;
    let Some(endpoint) = endpoint.filter(|endpoint| !endpoint.is_polled()) else { return Ok(None) };
    let outer = api.read(query::FindEnvironmentPolicy { scope: scope.scope() }).await?;
    let at = attempt.started_at;
    let exact = exchange.number.is_some()
        && unchanged((endpoint.created_at, endpoint.updated_at), at)
        && unchanged((application.created_at, application.updated_at), at)
        && outer.is_none_or(|policy| unchanged((Timestamp::default(), policy.updated_at), at));
    let endpoint = endpoint.inheriting(application.inherited());
    let shown = api.node.show_request(&PastAttempt {
        environment: scope.environment,
        endpoint: &endpoint,
        message,
        payload: message.payload_at(api.now()),
        id: attempt.id,
        number: exchange.number,
        signed_at: at.minus(exchange.ahead.unwrap_or_default()),
    });
    Ok(shown.map(|shown| AttemptRequestOut::new(&endpoint, shown, exact)))
}

/// Whether settings are known to be those of an attempt at `at`.
fn unchanged((created, updated): (Timestamp, Timestamp), at: Timestamp) -> bool {
    updated == created || updated.plus(SETTINGS_LAG) <= at
}

impl AttemptRequestOut {
    fn new(endpoint: &Endpoint, ShownRequest { headers, body }: ShownRequest, exact: bool) -> AttemptRequestOut {
        let is_own = |name: &str| endpoint.headers.keys().any(|own| own.eq_ignore_ascii_case(name));
        let is_shown = |name: &str| !is_own(name) || endpoint_headers::is_harmless(name);
        let out = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            let is_shown = *name != AUTHORIZATION && is_shown(name.as_str());
            let value = is_shown.then(|| String::from_utf8_lossy(value.as_bytes()).into_owned());
            RequestHeaderOut { name: name.to_string(), value }
        };
        let mut headers: Vec<_> = headers.iter().map(out).collect();
        // The endpoint's own headers come last, and headers of one purpose are neighbours.
        headers.sort_by_key(|header| (is_own(&header.name), rank(&header.name), header.name.clone()));
        AttemptRequestOut { headers, body: body.map(|body| String::from_utf8_lossy(&body).into_owned()), exact }
    }
}

/// The headers that a receiver verifies come first, and the same ones under their older names come last.
fn rank(name: &str) -> u8 {
    match name {
        "webhook-id" => 0,
        "webhook-timestamp" => 1,
        "webhook-signature" => 2,
        _ if name.starts_with("svix-") => 4,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_changed_around_an_attempt_are_not_taken_for_those_of_the_attempt() {
        let second = |s| Timestamp::from_millis(s * 1000);
        let lag = SETTINGS_LAG.as_secs().cast_signed();
        let check = |updated, at, want| assert_eq!(unchanged((second(10), second(updated)), second(at)), want);
        check(10, 10, true);
        check(1000, 500, false);
        check(1000, 1000 + lag - 1, false);
        check(1000, 1000 + lag, true);
    }
}
