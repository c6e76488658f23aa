//! Authentication of callers by an API key, or by a token signed with the server's secret.
//!
//! Keys and tokens are never logged. The extractors of `scope` decide which routes a caller may use; `access` lists the
//! routes for application tokens.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use everhook_core::api_key::{ApiKey, KeyScope};
use everhook_core::capability::Capabilities;
use everhook_core::id::{ApplicationId, EnvironmentId};
use everhook_core::name::Name;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::access;
use crate::auth::token::Claims;
use crate::error::ApiError;
use crate::state::Api;

pub(crate) mod environments;
pub(crate) mod keys;
pub(crate) mod token;

/// The environment that a request with an admin key is for: its name or its `org_` id.
const ENVIRONMENT_HEADER: &str = "everhook-environment";

/// The environment and the rights of an authenticated request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) environment: EnvironmentId,
    pub(crate) rights: Rights,
}

#[derive(Clone, Debug)]
pub(crate) enum Rights {
    /// All operations in the environment, and the operations that span environments.
    Admin,
    /// All operations in the environment.
    Environment,
    /// The operations on one application that `capabilities` allows.
    Application {
        id: ApplicationId,
        /// The feature flags whose event types the caller sees.
        flags: Arc<[Name]>,
        capabilities: Capabilities,
    },
}

impl FromRequestParts<Arc<Api>> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Caller, ApiError> {
        // A handler can have several extractors that need the caller. The first one stores it for the others.
        if let Some(caller) = parts.extensions.get::<Caller>() {
            return Ok(caller.clone());
        }
        let caller = authenticate(api, &parts.headers).await?;
        access::check(&caller.rights, parts)?;
        parts.extensions.insert(caller.clone());
        Ok(caller)
    }
}

async fn authenticate(api: &Api, headers: &HeaderMap) -> Result<Caller, ApiError> {
    let token = bearer(headers).ok_or_else(|| ApiError::unauthenticated(MISSING))?;
    if let Ok(key) = token.parse::<ApiKey>() {
        return by_key(api, &key, headers).await;
    }
    match &api.tokens {
        Some(tokens) => by_token(api, tokens.verify(token, api.now())?).await,
        None => Err(ApiError::unauthenticated("Invalid token")),
    }
}

const MISSING: &str = "Send an API key as `Authorization: Bearer <key>`.";

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

async fn by_key(api: &Api, key: &ApiKey, headers: &HeaderMap) -> Result<Caller, ApiError> {
    let scope = api.keys.find(&api.node, key.hash(), api.now()).await?;
    match scope.ok_or_else(|| ApiError::unauthenticated("Invalid token"))? {
        KeyScope::Environment(environment) => Ok(Caller { environment, rights: Rights::Environment }),
        KeyScope::Admin => {
            let environment = chosen_environment(api, headers.get(ENVIRONMENT_HEADER)).await?;
            Ok(Caller { environment, rights: Rights::Admin })
        }
    }
}

/// Finds the environment that the header of a request with an admin key names, or the default environment.
async fn chosen_environment(api: &Api, header: Option<&HeaderValue>) -> Result<EnvironmentId, ApiError> {
    let Some(header) = header else { return api.environments.default_one(&api.node).await };
    let found = match header.to_str() {
        Ok(wanted) => environments::find(&api.node, wanted).await?,
        Err(_) => None,
    };
    found.ok_or_else(|| {
        let detail = "No environment has the name or id of the everhook-environment header.";
        ApiError::new(StatusCode::NOT_FOUND, "not_found", detail)
    })
}

async fn by_token(api: &Api, claims: Claims) -> Result<Caller, ApiError> {
    match claims {
        Claims::Environment(org) => {
            let environment = api.environments.ensure(&api.node, org).await?;
            Ok(Caller { environment, rights: Rights::Environment })
        }
        Claims::Application { org, id, flags, capabilities } => {
            let environment = api.environments.ensure(&api.node, org).await?;
            Ok(Caller { environment, rights: Rights::Application { id, flags, capabilities } })
        }
    }
}
