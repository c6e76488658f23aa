//! Authentication of callers by an API key, the key of an integration, a token, or a session of the dashboard.
//!
//! Keys and tokens are never logged. The extractors of `scope` decide which routes a caller may use; `access` lists the
//! routes for application tokens.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use everhook_core::api_key::{ApiKey, ApiKeyHash, KeyScope};
use everhook_core::capability::Capabilities;
use everhook_core::id::{ApplicationId, EnvironmentId};
use everhook_core::integration::IntegrationKey;
use everhook_core::name::Name;
use everhook_core::scope::AppScope;
use everhook_core::time::Timestamp;
use everhook_core::token::TokenHash;
use everhook_store::error::StoreError;
use everhook_store::query;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use crate::access;
use crate::auth::token::{ApplicationClaims, Claims};
use crate::error::ApiError;
use crate::session;
use crate::state::Api;

pub(crate) mod environments;
pub(crate) mod recent;
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
        /// The token, if the caller has one and not the key of an integration.
        token: Option<HeldToken>,
    },
}

/// The application token of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldToken {
    pub(crate) hash: TokenHash,
    pub(crate) expires_at: Timestamp,
}

impl FromRequestParts<Arc<Api>> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Caller, ApiError> {
        // A handler can have several extractors that need the caller. The first one stores it for the others.
        if let Some(caller) = parts.extensions.get::<Caller>() {
            return Ok(caller.clone());
        }
        let caller = authenticate(api, &parts.method, &parts.headers).await?;
        access::check(&caller.rights, parts)?;
        parts.extensions.insert(caller.clone());
        Ok(caller)
    }
}

async fn authenticate(api: &Api, method: &Method, headers: &HeaderMap) -> Result<Caller, ApiError> {
    let Some(token) = bearer(headers) else { return by_session(api, method, headers).await };
    if let Ok(key) = token.parse::<ApiKey>() {
        return by_hash(api, key.hash(), headers).await;
    }
    if let Ok(key) = token.parse::<IntegrationKey>() {
        return by_integration(api, &key).await;
    }
    by_token(api, api.tokens.verify(&api.node, token, api.now()).await?).await
}

/// Authenticates a request of the dashboard.
pub(crate) async fn by_session(api: &Api, method: &Method, headers: &HeaderMap) -> Result<Caller, ApiError> {
    let session = session::of_request(api, method, headers).await?;
    let session = session.ok_or_else(|| ApiError::unauthenticated(MISSING))?;
    by_hash(api, session.key, headers).await
}

const MISSING: &str = "Send an API key as `Authorization: Bearer <key>`.";

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

async fn by_hash(api: &Api, hash: ApiKeyHash, headers: &HeaderMap) -> Result<Caller, ApiError> {
    let scope = api.keys.get(hash, api.now(), api.read(query::FindKey { hash })).await?;
    let scope = scope.ok_or_else(|| ApiError::unauthenticated("Invalid token"))?;
    by_scope(api, scope, headers).await
}

pub(crate) async fn by_scope(api: &Api, scope: KeyScope, headers: &HeaderMap) -> Result<Caller, ApiError> {
    match scope {
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

async fn by_integration(api: &Api, key: &IntegrationKey) -> Result<Caller, ApiError> {
    let (environment, hash) = (key.environment, key.hash());
    let read = async {
        let scope = AppScope::of(environment, key.application);
        let found = api.read(query::FindIntegration { scope, id: key.id }).await?;
        Ok::<_, StoreError>(found.filter(|found| found.key == Some(hash)).map(Arc::new))
    };
    let found = api.integrations.get(hash, api.now(), read).await?;
    let integration = found.ok_or_else(|| ApiError::unauthenticated("Invalid token"))?;
    let (id, flags) = (integration.application, integration.feature_flags.as_slice().into());
    let rights = Rights::Application { id, flags, capabilities: Capabilities::ALL, token: None };
    Ok(Caller { environment, rights })
}

async fn by_token(api: &Api, claims: Claims) -> Result<Caller, ApiError> {
    match claims {
        Claims::Environment(org) => {
            let environment = api.environments.ensure(&api.node, org).await?;
            Ok(Caller { environment, rights: Rights::Environment })
        }
        Claims::Application(ApplicationClaims { org, id, flags, capabilities, mark, expires_at }) => {
            let environment = api.environments.ensure(&api.node, org).await?;
            if api.tokens.is_ended(&api.node, AppScope::of(environment, id), &mark, api.now()).await? {
                return Err(ApiError::unauthenticated("The token was ended: get a new one."));
            }
            let token = Some(HeldToken { hash: mark.hash, expires_at });
            Ok(Caller { environment, rights: Rights::Application { id, flags, capabilities, token } })
        }
    }
}
