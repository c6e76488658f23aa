//! Tokens for one application, for example for a page on which customers manage their own endpoints.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use everhook_core::capability::Capabilities;
use everhook_core::limits::FEATURE_FLAGS_MAX;
use everhook_core::violation::at;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::application::{self, ApplicationIn};
use crate::auth::environments;
use crate::auth::token::Grant;
use crate::error::ApiError;
use crate::input::{self, Input};
use crate::limits::{TOKEN_EXPIRY_MAX, TOKEN_EXPIRY_MIN, TOKEN_SESSION_CHARS_MAX};
use crate::routes::Routes;
use crate::scope::{self, ApplicationPath, InEnvironment, PathParams};
use crate::state::Api;

/// The options of a token. All members are optional.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AppPortalAccessIn {
    /// The application to create if no application has the uid of the path.
    #[serde(default, deserialize_with = "input::object")]
    application: Option<ApplicationIn>,
    /// Seconds for which the token is valid. Default: 604800 (7 days).
    #[schema(minimum = 3600, maximum = 604_800)]
    expiry: Option<u64>,
    /// The feature flags of the token. It sees event types with these flags, and types without a flag.
    feature_flags: Option<Vec<String>>,
    /// The capabilities of the token, among them `ViewBase`. Default: all capabilities.
    /// `ManageTransformations` has no effect yet: there are no transformations.
    #[schema(max_items = 6, example = json!(["ViewBase", "CreateAttempts"]))]
    capabilities: Option<Vec<String>>,
    /// Whether the token is only for reading, without secrets. The same as `["ViewBase"]` for `capabilities`.
    #[schema(deprecated)]
    read_only: Option<bool>,
    /// Your own id for the session of the token. The token contains it. It has no other effect yet: tokens end by
    /// `expiry`.
    #[schema(min_length = 1, max_length = 64, pattern = "^[a-zA-Z0-9@_\\-]+$")]
    session_id: Option<String>,
}

/// A token of one application.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AppPortalAccessOut {
    /// The path of the page that describes the API.
    #[schema(value_type = String)]
    url: &'static str,
    token: String,
}

#[expect(deprecated, reason = "old clients use the old path")]
pub(crate) fn routes() -> Routes {
    Routes::default().add(create, __path_create).add(create_deprecated, __path_create_deprecated)
}

/// Get a token for one application.
#[utoipa::path(
    post, path = "/api/v1/auth/app-portal-access/{app_id}",
    operation_id = "v1.authentication.app-portal-access", tag = "Authentication",
    params(ApplicationPath), request_body = Option<AppPortalAccessIn>,
    responses((status = 200, body = AppPortalAccessOut), (status = 501, description = "The server has no secret for signing tokens."))
)]
async fn create(
    State(api): State<Arc<Api>>,
    InEnvironment { environment }: InEnvironment,
    PathParams(ApplicationPath { app_id }): PathParams<ApplicationPath>,
    input: Input,
) -> Result<Json<AppPortalAccessOut>, ApiError> {
    let wanted: AppPortalAccessIn = input.json_or_default()?;
    let Some(tokens) = &api.tokens else { return Err(no_secret()) };
    let (capabilities, expiry) = (wanted.capabilities()?, wanted.expiry()?);
    let flags = input::names("featureFlags", wanted.feature_flags.unwrap_or_default(), FEATURE_FLAGS_MAX)?;
    let session = wanted.session_id.map(session).transpose()?;
    let locator = scope::application(&app_id)?;
    let id = application::find_or_create(&api, environment, &locator, wanted.application).await?.id;
    let org = environments::org(&api.node, environment).await?;
    let org = org.ok_or_else(|| ApiError::not_found("environment of the caller"))?;
    let token = tokens.issue(&Grant { org, id, flags, capabilities, session, expiry }, api.now());
    Ok(Json(AppPortalAccessOut { url: "/docs", token: token.ok_or_else(no_secret)? }))
}

/// Get a token for one application. This is the older path of the operation.
#[deprecated]
#[utoipa::path(
    post, path = "/api/v1/auth/dashboard-access/{app_id}",
    operation_id = "v1.authentication.dashboard-access", tag = "Authentication",
    params(ApplicationPath), request_body = Option<AppPortalAccessIn>,
    responses((status = 200, body = AppPortalAccessOut), (status = 501, description = "The server has no secret for signing tokens."))
)]
async fn create_deprecated(
    state: State<Arc<Api>>,
    caller: InEnvironment,
    path: PathParams<ApplicationPath>,
    input: Input,
) -> Result<Json<AppPortalAccessOut>, ApiError> {
    create(state, caller, path, input).await
}

impl AppPortalAccessIn {
    fn capabilities(&self) -> Result<Capabilities, ApiError> {
        let wanted = match &self.capabilities {
            Some(names) => at("capabilities").check(Capabilities::of_request(names.iter().map(String::as_str)))?,
            None => Capabilities::ALL,
        };
        // If the request has both, the token gets the capabilities that both allow.
        Ok(if self.read_only == Some(true) { wanted.and(Capabilities::READ_ONLY) } else { wanted })
    }

    fn expiry(&self) -> Result<Duration, ApiError> {
        let expiry = self.expiry.map_or(TOKEN_EXPIRY_MAX, Duration::from_secs);
        if (TOKEN_EXPIRY_MIN..=TOKEN_EXPIRY_MAX).contains(&expiry) {
            return Ok(expiry);
        }
        let (min, max) = (TOKEN_EXPIRY_MIN.as_secs(), TOKEN_EXPIRY_MAX.as_secs());
        Err(at("expiry").breaks(format!("must be from {min} to {max} seconds")).into())
    }
}

fn session(id: String) -> Result<String, ApiError> {
    let fits = (1..=TOKEN_SESSION_CHARS_MAX).contains(&id.len());
    if fits && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"@_-".contains(&byte)) {
        return Ok(id);
    }
    let rule = format!("must have 1 to {TOKEN_SESSION_CHARS_MAX} letters, digits, '@', '_' and '-'");
    Err(at("sessionId").breaks(rule).into())
}

fn no_secret() -> ApiError {
    let detail = "The server has no secret for signing tokens: set EVERHOOK_JWT_SECRET on the server.";
    ApiError::new(StatusCode::NOT_IMPLEMENTED, "not_implemented", detail)
}
