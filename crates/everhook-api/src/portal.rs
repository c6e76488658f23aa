//! Tokens for one application, for example for a page on which customers manage their own endpoints.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::FromRequestParts;
use everhook_core::capability::Capabilities;
use everhook_core::limits::{FEATURE_FLAGS_MAX, TOKEN_LIFE_MAX};
use everhook_core::violation::at;
use http::header::HOST;
use http::request::Parts;
use http::uri::Authority;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::application::{self, ApplicationIn};
use crate::auth::environments;
use crate::auth::token::Grant;
use crate::error::ApiError;
use crate::input::{self, Input};
use crate::limits::TOKEN_EXPIRY_MIN;
use crate::routes::{Answer, Routes};
use crate::scope::{self, ApplicationPath, AtPath};
use crate::state::Api;
use crate::token_end;

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
    /// Your own id for the session of the token. `expire-all` ends the tokens of a session by it.
    #[schema(min_length = 1, max_length = 64, pattern = "^[a-zA-Z0-9@_\\-]+$")]
    session_id: Option<String>,
}

/// A token of one application.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AppPortalAccessOut {
    /// The address of the application's portal. The token is in the fragment, which browsers do not send to servers.
    #[schema(
        format = "uri",
        example = "https://hooks.example.com/portal/app_1srOrx2ZWZBpBUvZwXKQmoEYga2#token=eyJhbGciOi"
    )]
    url: String,
    /// The token, to be sent as `Authorization: Bearer <token>`.
    token: String,
}

#[expect(deprecated, reason = "old clients use the old path")]
pub(crate) fn routes() -> Routes {
    Routes::default().add(create, __path_create).add(create_deprecated, __path_create_deprecated)
}

/// Get a token for one application, and the address of its portal.
#[utoipa::path(
    post, path = "/api/v1/auth/app-portal-access/{app_id}",
    operation_id = "v1.authentication.app-portal-access", tag = "Authentication",
    params(ApplicationPath), request_body = Option<AppPortalAccessIn>,
    responses((status = 200, body = AppPortalAccessOut))
)]
async fn create(
    AtPath { api, scope, path }: AtPath<ApplicationPath>,
    Origin(origin): Origin,
    input: Input,
) -> Answer<AppPortalAccessOut> {
    let wanted: AppPortalAccessIn = input.json_or_default()?;
    let (capabilities, expiry) = (wanted.capabilities()?, wanted.expiry()?);
    let flags = input::names("featureFlags", wanted.feature_flags.unwrap_or_default(), FEATURE_FLAGS_MAX)?;
    let session = wanted.session_id.map(|id| token_end::session(at("sessionId"), id)).transpose()?;
    let locator = scope::application(&path.app_id)?;
    let id = application::find_or_create(&api, scope, &locator, wanted.application).await?.id;
    let org = environments::org(&api.node, scope.environment).await?;
    let org = org.ok_or_else(|| ApiError::not_found("environment of the caller"))?;
    let grant = Grant { token: api.new_id(), org, id, flags, capabilities, session, expiry };
    let token = api.tokens.issue(&api.node, &grant, api.now()).await?;
    Ok(Json(AppPortalAccessOut { url: format!("{origin}/portal/{id}#token={token}"), token }))
}

/// Get a token for one application. This is the older path of the operation.
#[deprecated]
#[utoipa::path(
    post, path = "/api/v1/auth/dashboard-access/{app_id}",
    operation_id = "v1.authentication.dashboard-access", tag = "Authentication",
    params(ApplicationPath), request_body = Option<AppPortalAccessIn>,
    responses((status = 200, body = AppPortalAccessOut))
)]
async fn create_deprecated(at: AtPath<ApplicationPath>, origin: Origin, input: Input) -> Answer<AppPortalAccessOut> {
    create(at, origin, input).await
}

/// The beginning of links to this server: the configured one, or the scheme of the listener and the host of the
/// request.
///
/// Headers of proxies are not read, because any client could send them.
struct Origin(String);

impl FromRequestParts<Arc<Api>> for Origin {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Origin, ApiError> {
        if let Some(url) = &api.config.public_url {
            return Ok(Origin(url.clone()));
        }
        let host = match parts.headers.get(HOST) {
            Some(host) => host.to_str().ok().and_then(|host| host.parse::<Authority>().ok()),
            // HTTP/2 has the host in a field of its own.
            None => parts.uri.authority().cloned(),
        };
        let host = host.filter(|host| !host.as_str().contains('@'));
        let scheme = if api.config.tls { "https" } else { "http" };
        host.map(|host| Origin(format!("{scheme}://{host}"))).ok_or_else(|| {
            let detail = "The Host header does not name this server: set EVERHOOK_PUBLIC_URL on the server.";
            ApiError::bad_request("bad_host", detail)
        })
    }
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
        let expiry = self.expiry.map_or(TOKEN_LIFE_MAX, Duration::from_secs);
        if (TOKEN_EXPIRY_MIN..=TOKEN_LIFE_MAX).contains(&expiry) {
            return Ok(expiry);
        }
        let (min, max) = (TOKEN_EXPIRY_MIN.as_secs(), TOKEN_LIFE_MAX.as_secs());
        Err(at("expiry").breaks(format!("must be from {min} to {max} seconds")).into())
    }
}
