//! Failures of requests: their responses have one form, and they are logged in one place.

use std::borrow::Cow;
use std::fmt::Display;
use std::time::Duration;

use axum::Json;
use axum::response::{IntoResponse, Response};
use everhook_core::capability::Capability;
use everhook_core::right::Right;
use everhook_core::violation::Violation;
use everhook_store::error::StoreError;
use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use tracing::{error, warn};
use utoipa::ToSchema;

use everhook_engine::intake::AcceptError;
use everhook_engine::quotas::OverQuota;

use crate::quota;

/// The reason why a request failed.
#[derive(Debug)]
pub(crate) enum ApiError {
    /// A failure with the status, the code and the text of its response.
    Problem(Problem),
    /// A value in the request breaks a rule.
    Invalid(Invalid),
    /// The store failed.
    Store(StoreError),
    /// The client failed to authenticate too often, and may try again after this time.
    TooManyFailures(Duration),
    /// A quota of the environment or application is used up.
    OverQuota(OverQuota),
    /// The intake queue is full.
    Overloaded,
    /// The node is shutting down.
    Stopping,
}

#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: Cow<'static, str>,
}

/// A value that breaks a rule.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ValidationError)]
pub(crate) struct Invalid {
    /// The location of the value: `body`, `query`, `path` or `header`, and then the path to the value.
    #[schema(value_type = Vec<String>)]
    loc: Vec<Cow<'static, str>>,
    /// The rule that the value breaks.
    msg: String,
    /// The kind of the rule.
    #[serde(rename = "type")]
    kind: &'static str,
}

/// The body of all failures except 422.
#[derive(Serialize, ToSchema)]
#[schema(as = HttpErrorOut)]
pub(crate) struct ProblemOut {
    /// A code for programs.
    #[schema(value_type = String)]
    code: &'static str,
    /// A text for people.
    #[schema(value_type = String)]
    detail: Cow<'static, str>,
}

/// The body of a 422.
#[derive(Serialize, ToSchema)]
#[schema(as = HTTPValidationError)]
pub(crate) struct InvalidOut {
    detail: [Invalid; 1],
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<Cow<'static, str>>) -> ApiError {
        ApiError::Problem(Problem { status, code, detail: detail.into() })
    }

    pub(crate) fn bad_request(code: &'static str, detail: impl Into<Cow<'static, str>>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, code, detail)
    }

    pub(crate) fn unauthenticated(detail: &'static str) -> ApiError {
        ApiError::new(StatusCode::UNAUTHORIZED, "authentication_failed", detail)
    }

    pub(crate) fn forbidden() -> ApiError {
        let detail = "Insufficient access for the given operation: use a key or token of the environment.";
        ApiError::new(StatusCode::FORBIDDEN, "insufficient access", detail)
    }

    /// Refuses an application token that lacks this capability.
    pub(crate) fn lacks(capability: Capability) -> ApiError {
        let detail = format!("The token lacks the capability {capability}: use a token that has it.");
        ApiError::new(StatusCode::FORBIDDEN, "insufficient access", detail)
    }

    /// Refuses a key that lacks this right.
    pub(crate) fn lacks_right(right: Right) -> ApiError {
        let detail = match right {
            Right::Admin => return ApiError::not_admin(),
            other => format!("The key lacks the right {other}: use a key that has it."),
        };
        ApiError::new(StatusCode::FORBIDDEN, "insufficient access", detail)
    }

    /// Refuses a key of one application on a route of the environment.
    pub(crate) fn of_one_application() -> ApiError {
        let detail = "The key is restricted to one application: use a key of the environment.";
        ApiError::new(StatusCode::FORBIDDEN, "insufficient access", detail)
    }

    pub(crate) fn is_unauthenticated(&self) -> bool {
        matches!(self, ApiError::Problem(problem) if problem.status == StatusCode::UNAUTHORIZED)
    }

    pub(crate) fn not_admin() -> ApiError {
        let detail = "Insufficient access for the given operation: use an admin key (`everhook key create --admin`).";
        ApiError::new(StatusCode::FORBIDDEN, "insufficient access", detail)
    }

    /// `thing` is a noun with the name that the caller gave: `job job_…` or `queue "mail"`.
    pub(crate) fn not_found(thing: impl Display) -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, "not_found", format!("{thing} not found"))
    }

    pub(crate) fn conflict(detail: impl Into<Cow<'static, str>>) -> ApiError {
        ApiError::new(StatusCode::CONFLICT, "conflict", detail)
    }

    pub(crate) fn key_reused() -> ApiError {
        let detail = "The idempotency key was used before with another body: use a new key for a new request.";
        ApiError::new(StatusCode::CONFLICT, "idempotency_key_reused", detail)
    }

    pub(crate) fn limit_reached(detail: impl Into<Cow<'static, str>>) -> ApiError {
        ApiError::bad_request("limit_reached", detail)
    }

    pub(crate) fn full() -> ApiError {
        ApiError::limit_reached("The maximum number of these objects is reached: delete one first.")
    }

    /// Refuses a feature that the configuration turns off.
    pub(crate) fn switched_off(code: &'static str, detail: &'static str) -> ApiError {
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, code, detail)
    }

    pub(crate) fn too_large() -> ApiError {
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", "Request payload is too large.")
    }

    pub(crate) fn in_query(violation: Violation) -> ApiError {
        ApiError::violated("query", violation)
    }

    pub(crate) fn in_path(violation: Violation) -> ApiError {
        ApiError::violated("path", violation)
    }

    /// Puts the path of an entry of the body before the path in it.
    #[must_use]
    pub(crate) fn in_entry(self, list: &'static str, index: usize) -> ApiError {
        match self {
            ApiError::Invalid(mut invalid) => {
                let entry = [Cow::Borrowed(list), Cow::Owned(format!("[{index}]"))];
                invalid.loc.splice(1..1, entry);
                ApiError::Invalid(invalid)
            }
            other => other,
        }
    }

    fn violated(part: &'static str, Violation { path, rule }: Violation) -> ApiError {
        ApiError::invalid(std::iter::once(Cow::Borrowed(part)).chain(path), rule)
    }

    /// Refuses the value at `loc` with the general kind `value_error`.
    pub(crate) fn invalid<L: Into<Cow<'static, str>>>(
        loc: impl IntoIterator<Item = L>,
        message: impl Display,
    ) -> ApiError {
        ApiError::invalid_as("value_error", loc, message)
    }

    /// Refuses the value at `loc` with a kind that clients can distinguish.
    pub(crate) fn invalid_as<L: Into<Cow<'static, str>>>(
        kind: &'static str,
        loc: impl IntoIterator<Item = L>,
        message: impl Display,
    ) -> ApiError {
        ApiError::Invalid(Invalid { loc: loc.into_iter().map(Into::into).collect(), msg: message.to_string(), kind })
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> ApiError {
        ApiError::Store(error)
    }
}

/// Places a violation in the body, where most violations are.
impl From<Violation> for ApiError {
    fn from(violation: Violation) -> ApiError {
        ApiError::violated("body", violation)
    }
}

impl From<AcceptError> for ApiError {
    fn from(error: AcceptError) -> ApiError {
        match error {
            AcceptError::Store(error) => ApiError::Store(error),
            AcceptError::Overloaded => ApiError::Overloaded,
            AcceptError::Stopping => ApiError::Stopping,
            AcceptError::OverQuota(refused) => ApiError::OverQuota(refused),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        match self {
            ApiError::Problem(problem) => problem.into_response(),
            ApiError::Invalid(invalid) => {
                (StatusCode::UNPROCESSABLE_ENTITY, Json(InvalidOut { detail: [invalid] })).into_response()
            }
            ApiError::Store(error) => store_failed(&error),
            ApiError::TooManyFailures(wait) => {
                let detail = "Too many failed authentications from this address: try again later, with a valid key.";
                let problem =
                    Problem { status: StatusCode::TOO_MANY_REQUESTS, code: "too_many_failures", detail: detail.into() };
                ([(RETRY_AFTER, wait.as_secs().max(1).to_string())], problem).into_response()
            }
            ApiError::OverQuota(refused) => {
                let (code, detail) = quota::refusal(&refused);
                let problem = Problem { status: StatusCode::TOO_MANY_REQUESTS, code, detail };
                ([(RETRY_AFTER, whole_seconds(refused.wait).to_string())], problem).into_response()
            }
            ApiError::Overloaded => {
                unavailable("overloaded", "Too many messages are waiting to be written: try again.")
            }
            ApiError::Stopping => unavailable("stopping", "The server is stopping: try again."),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.status, Json(ProblemOut { code: self.code, detail: self.detail })).into_response()
    }
}

/// Logs the failure with its cause, and returns a response with a remedy. The response does not contain the cause.
fn store_failed(error: &StoreError) -> Response {
    let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    match error {
        StoreError::Unavailable { .. } => {
            warn!(error.cause = cause, "request failed: {error}");
            unavailable("unavailable", "The storage is unavailable: try again.")
        }
        StoreError::Slow { .. } => {
            warn!(error.cause = cause, "request failed: {error}");
            unavailable(
                "too_slow",
                "The search took too long: narrow it, for example to a shorter period, or try again.",
            )
        }
        StoreError::InDoubt { .. } => {
            warn!(error.cause = cause, "request failed: {error}");
            unavailable("in_doubt", "It may or may not have been written: try again with the same idempotency key.")
        }
        StoreError::Full { .. } => {
            error!(error.cause = cause, "request failed: {error}");
            let (status, detail) = (StatusCode::INSUFFICIENT_STORAGE, "The storage is full.");
            Problem { status, code: "storage_full", detail: detail.into() }.into_response()
        }
        StoreError::Refused { .. } | StoreError::Corrupt { .. } => {
            error!(error.cause = cause, "request failed: {error}");
            let (status, detail) = (StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error");
            Problem { status, code: "server_error", detail: detail.into() }.into_response()
        }
    }
}

fn unavailable(code: &'static str, detail: &'static str) -> Response {
    let problem = Problem { status: StatusCode::SERVICE_UNAVAILABLE, code, detail: detail.into() };
    ([(RETRY_AFTER, HeaderValue::from_static("1"))], problem).into_response()
}

/// Rounds a wait up, because `Retry-After` has whole seconds.
pub(crate) fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0).max(u64::from(wait.is_zero()))
}
