//! Refuses unknown query parameters and body fields on Everhook's own routes, and suggests the nearest known name.
//!
//! Otherwise a misspelt option would be ignored, and a job could run now instead of in an hour. The tag of a route
//! decides whether it is Everhook's own, and its description lists its parameters, so that new routes are strict
//! automatically. `deny_unknown_fields` refuses unknown fields of bodies when they are read. This module refuses bodies
//! of routes without a body. Routes of the compatible API accept unknown names, because newer clients send them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use everhook_core::nearest::nearest;
use everhook_core::violation::at;
use http::Method;
use serde::de::IgnoredAny;
use utoipa::openapi::RefOr;
use utoipa::openapi::path::{Operation, ParameterIn};

use crate::auth::Caller;
use crate::error::ApiError;
use crate::input;
use crate::state::Api;

/// The tags of the compatible API. Routes with another tag are Everhook's own.
const COMPATIBLE_TAGS: &[&str] = &[
    "Application",
    "Authentication",
    "Background Task",
    "Endpoint",
    "Environment",
    "Event Type",
    "Health",
    "Integration",
    "Message",
    "Message Attempt",
    "Operational Webhook",
    "Poller",
    "Statistics",
];
/// The suffixes of Everhook's own operations whose tag belongs to the compatible API.
const OWN_OPERATIONS: &[&str] = &[
    ".redrive",
    ".create-batch",
    ".bulk-cancel",
    ".bulk-redrive",
    "webhook.test",
    "background-task.cancel",
    "-basic-auth",
];

/// The parameters of one of Everhook's own routes, and whether it takes a body.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    parameters: Vec<String>,
    has_body: bool,
}

/// The parameters of all of Everhook's own routes, by method and path.
pub(crate) type KnownByRoute = HashMap<(&'static str, String), Known>;

impl Known {
    /// Reads the parameters from the description of a route, or returns none for a route of the compatible API.
    pub(crate) fn of(operation: &Operation) -> Option<Known> {
        let is_compatible = operation.tags.iter().flatten().any(|tag| COMPATIBLE_TAGS.contains(&tag.as_str()));
        let is_own = |name: &String| OWN_OPERATIONS.iter().any(|own| name.ends_with(own));
        if is_compatible && !operation.operation_id.as_ref().is_some_and(is_own) {
            return None;
        }
        let parameters = operation.parameters.iter().flatten().filter_map(|parameter| match parameter {
            RefOr::T(parameter) if matches!(parameter.parameter_in, ParameterIn::Query) => Some(parameter.name.clone()),
            RefOr::T(_) | RefOr::Ref(_) => None,
        });
        Some(Known { parameters: parameters.collect(), has_body: operation.request_body.is_some() })
    }

    fn check_query(&self, query: &str) -> Result<(), ApiError> {
        for (key, _) in url::form_urlencoded::parse(query.as_bytes()) {
            // A list may be written `a[]=1` or `a[0]=1`.
            let name = key.split_once('[').map_or(&*key, |(name, _)| name);
            if !self.parameters.iter().any(|known| known == name) {
                let known = self.parameters.iter().map(String::as_str);
                return Err(ApiError::in_query(at(name.to_owned()).breaks(unknown("parameter", name, known))));
            }
        }
        Ok(())
    }
}

/// Refuses requests with parameters or a body that the route does not take.
pub(crate) async fn check(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    match checked(&api, request).await {
        Ok(request) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

async fn checked(api: &Arc<Api>, request: Request) -> Result<Request, ApiError> {
    let (mut parts, body) = request.into_parts();
    let path = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let path = path.strip_suffix('/').unwrap_or(path).to_owned();
    let Some(known) = api.own_routes.get(&(method(&parts.method), path)) else {
        return Ok(Request::from_parts(parts, body));
    };
    // Without a valid key, the only answer is the failed authentication.
    Caller::from_request_parts(&mut parts, api).await?;
    known.check_query(parts.uri.query().unwrap_or_default())?;
    if known.has_body || parts.method == Method::GET || parts.method == Method::HEAD {
        return Ok(Request::from_parts(parts, body));
    }
    let bytes = input::read_in_time(&parts, body).await?;
    refuse_fields(&bytes)?;
    Ok(Request::from_parts(parts, Body::from(bytes)))
}

/// Refuses a body on a route without a body. Clients may send an empty body, `null` or `{}`.
fn refuse_fields(bytes: &[u8]) -> Result<(), ApiError> {
    if bytes.trim_ascii().is_empty() {
        return Ok(());
    }
    match serde_json::from_slice::<Option<BTreeMap<String, IgnoredAny>>>(bytes) {
        Ok(fields) => match fields.into_iter().flatten().next() {
            None => Ok(()),
            Some((field, _)) => Err(at(field.clone()).breaks(unknown("field", &field, [])).into()),
        },
        Err(_) => Err(ApiError::invalid(["body"], "must be empty: this route takes no body")),
    }
}

fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET | Method::HEAD => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "",
    }
}

/// Returns the error text for an unknown name, with a suggestion.
fn unknown<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match nearest(name, known.iter().copied()) {
        Some(near) => format!("is not a known {what}: did you mean `{near}`?"),
        None if known.is_empty() => format!("is not a known {what}: this route has none"),
        None => format!("is not a known {what}: use one of {}", known.join(", ")),
    }
}

/// Turns serde's error about an unknown field into an error text with a suggestion. Returns none for other errors.
///
/// The expected names come from the text of the error, because serde offers them nowhere else.
pub(crate) fn unknown_field(error: &serde_json::Error) -> Option<String> {
    let text = error.to_string();
    let (name, expected) = text.strip_prefix("unknown field `")?.split_once("`, ")?;
    let known = expected.split('`').skip(1).step_by(2);
    Some(unknown("field", name, known))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[track_caller]
    fn check<T: for<'a> Deserialize<'a>>(body: &str, want: &str) {
        let got = serde_json::from_str::<T>(body).map(drop).map_err(|error| unknown_field(&error));
        assert_eq!(got, Err(Some(want.to_owned())));
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "camelCase")]
    #[expect(dead_code, reason = "only read")]
    struct Three {
        queue: Option<String>,
        delay_seconds: Option<u8>,
        run_at: Option<u8>,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only read")]
    struct Two {
        first: Option<u8>,
        second: Option<u8>,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only read")]
    struct One {
        only: Option<u8>,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct None {}

    #[test]
    fn an_unknown_field_suggests_a_known_one() {
        check::<Three>(r#"{"delay_seconds": 1}"#, "is not a known field: did you mean `delaySeconds`?");
        check::<Three>(r#"{"x": 1}"#, "is not a known field: use one of queue, delaySeconds, runAt");
        check::<Two>(r#"{"secnd": 1}"#, "is not a known field: did you mean `second`?");
        check::<One>(r#"{"onli": 1}"#, "is not a known field: did you mean `only`?");
        check::<None>(r#"{"x": 1}"#, "is not a known field: this route has none");
        let other = serde_json::from_str::<One>(r#"{"only": "x"}"#).map(drop).unwrap_err();
        assert_eq!(unknown_field(&other), Option::None);
    }

    #[test]
    fn only_an_empty_body_stands_for_none() {
        for body in ["", " \n", "null", "{}"] {
            assert!(refuse_fields(body.as_bytes()).is_ok(), "{body:?}");
        }
        for body in ["{\"a\": 1}", "[]", "x", "1"] {
            assert!(refuse_fields(body.as_bytes()).is_err(), "{body:?}");
        }
    }
}
