//! Who calls: an API key, or a token signed with the server's secret.
//!
//! Neither is ever logged. Which routes a caller may use is in `scope`; which of them the token of an application, in `access`.

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

/// Which environment an admin key means; its name or its `org_` id.
const ENVIRONMENT_HEADER: &str = "everhook-environment";

/// Who calls, and what they may do.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) environment: EnvironmentId,
    pub(crate) rights: Rights,
}

/// What a caller may do.
#[derive(Clone, Debug)]
pub(crate) enum Rights {
    /// Everything in the environment, and what spans environments.
    Admin,
    /// Everything in the environment.
    Environment,
    /// What concerns one application.
    Application {
        id: ApplicationId,
        /// The event types behind these flags are shown.
        flags: Arc<[Name]>,
        /// Of what concerns it, only this.
        capabilities: Capabilities,
    },
}

impl FromRequestParts<Arc<Api>> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Caller, ApiError> {
        // Several extractors of one handler ask; one answer serves them all.
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

/// The environment that an admin key means in this request.
async fn chosen_environment(api: &Api, header: Option<&HeaderValue>) -> Result<EnvironmentId, ApiError> {
    let Some(header) = header else { return api.environments.default_one(&api.node).await };
    let found = match header.to_str() {
        Ok(wanted) => environments::find(&api.node, wanted).await?,
        Err(_) => None,
    };
    found.ok_or_else(|| {
        let detail = "There is no environment of the name or id that the everhook-environment header has.";
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
