//! Authentication of callers by an API key, the key of an integration, a token, or a session of the dashboard.
//!
//! Keys and tokens are never logged. The extractors of `scope` decide which routes a caller may use; `access` lists the
//! routes for application tokens.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{FromRequestParts, MatchedPath, RawPathParams};
use everhook_core::api_key::{ApiKey, ApiKeyHash, KeyRecord};
use everhook_core::capability::Capabilities;
use everhook_core::id::{ApplicationId, EnvironmentId, KeyId};
use everhook_core::integration::IntegrationKey;
use everhook_core::name::Name;
use everhook_core::right::{Grants, KeyScope, Right};
use everhook_core::scope::{AppScope, Scope};
use everhook_core::time::Timestamp;
use everhook_core::token::TokenHash;
use everhook_store::catalog::{KeyChange, Locator};
use everhook_store::error::StoreError;
use everhook_store::query;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tracing::debug;

use crate::access;
use crate::auth::failures::ClientAddress;
use crate::auth::token::{ApplicationClaims, Claims};
use crate::error::ApiError;
use crate::limits::{KEY_USE_NOTED, KEY_USE_WAIT};
use crate::scope::{self, Extracting};
use crate::session;
use crate::state::Api;

pub(crate) mod environments;
pub(crate) mod failures;
pub(crate) mod key_uses;
pub(crate) mod recent;
pub(crate) mod token;

/// The environment that a request with an admin key is for: its name or its `org_` id.
const ENVIRONMENT_HEADER: &str = "everhook-environment";

/// The environment and the rights of an authenticated request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) environment: EnvironmentId,
    pub(crate) rights: Rights,
    pub(crate) actor: Actor,
}

/// The caller as the audit log names it.
#[derive(Clone, Debug)]
pub(crate) struct Actor {
    pub(crate) name: Arc<str>,
    pub(crate) key: Option<KeyId>,
}

impl Caller {
    pub(crate) fn scope(&self) -> Scope {
        Scope::of(self.environment)
    }
}

impl Actor {
    fn key(key: &KeyRecord) -> Actor {
        Actor { name: key.title().into(), key: Some(key.id) }
    }

    fn token(name: String) -> Actor {
        Actor { name: name.into(), key: None }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Rights {
    /// All operations in the environment, and the operations that span environments.
    Admin,
    /// The operations in the environment that the grants allow. A key of one application has been checked against the
    /// path of the request.
    Environment(Grants),
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
        caller(parts, api).await
    }
}

fn caller<'a>(parts: &'a mut Parts, api: &'a Api) -> Extracting<'a, Caller> {
    Box::pin(async move {
        // A handler can have several extractors that need the caller. The first one stores it for the others.
        if let Some(caller) = parts.extensions.get::<Caller>() {
            return Ok(caller.clone());
        }
        let caller = authenticate(api, parts).await?;
        access::check(&caller.rights, parts)?;
        parts.extensions.insert(caller.clone());
        Ok(caller)
    })
}

impl Rights {
    /// Refuses a caller without this right. Application tokens are limited by their capabilities instead.
    pub(crate) fn need(&self, right: Right) -> Result<(), ApiError> {
        match self {
            Rights::Environment(grants) if !grants.allow(right) => Err(ApiError::lacks_right(right)),
            Rights::Admin | Rights::Environment(_) | Rights::Application { .. } => Ok(()),
        }
    }
}

/// Refuses a changed URL without the right for it.
pub(crate) fn check_url(rights: &Rights, old: Option<&str>, new: Option<&str>) -> Result<(), ApiError> {
    if old == new || new.is_none() { Ok(()) } else { rights.need(Right::ChangeUrl) }
}

/// Finds the caller, and limits the failures of its address.
async fn authenticate(api: &Api, parts: &mut Parts) -> Result<Caller, ApiError> {
    let Some(token) = bearer(&parts.headers) else {
        let session = session::of_request(api, &parts.method, &parts.headers).await?;
        let session = session.ok_or_else(|| ApiError::unauthenticated(MISSING))?;
        return by_hash(api, session.key, parts).await;
    };
    let client = parts.extensions.get::<ClientAddress>().map(|address| address.0);
    let key = token.parse::<ApiKey>().ok().map(|key| key.hash());
    if let Some(hash) = key {
        may_ask(api, client, hash)?;
    }
    let caller = match key {
        Some(hash) => by_hash(api, hash, parts).await,
        None => by_text(api, token).await,
    };
    limit_failures(api, client, caller)
}

/// Refuses a key that this node does not know, from an address with too many failures, without asking the store.
pub(crate) fn may_ask(api: &Api, client: Option<IpAddr>, hash: ApiKeyHash) -> Result<(), ApiError> {
    match api.failures.wait(client, api.now()) {
        Some(wait) if !api.keys.knows(&hash) => Err(ApiError::TooManyFailures(wait)),
        _ => Ok(()),
    }
}

/// Counts a failed authentication.
pub(crate) fn limit_failures<T>(api: &Api, client: Option<IpAddr>, result: Result<T, ApiError>) -> Result<T, ApiError> {
    if !matches!(&result, Err(error) if error.is_unauthenticated()) {
        return result;
    }
    let now = api.now();
    if let Some(wait) = api.failures.wait(client, now) {
        return Err(ApiError::TooManyFailures(wait));
    }
    api.failures.add(client, now);
    result
}

async fn by_text(api: &Api, token: &str) -> Result<Caller, ApiError> {
    if let Ok(key) = token.parse::<IntegrationKey>() {
        return by_integration(api, &key).await;
    }
    by_token(api, api.tokens.verify(&api.node, token, api.now()).await?).await
}

/// Authenticates a request of the dashboard that belongs to no application.
pub(crate) async fn by_session(api: &Api, method: &Method, headers: &HeaderMap) -> Result<Caller, ApiError> {
    let session = session::of_request(api, method, headers).await?;
    let session = session.ok_or_else(|| ApiError::unauthenticated(MISSING))?;
    let key = find_key(api, session.key).await?.ok_or_else(|| ApiError::unauthenticated("Invalid token"))?;
    if key.access.application.is_some() {
        return Err(ApiError::of_one_application());
    }
    by_key(api, &key, headers).await
}

const MISSING: &str = "Send an API key as `Authorization: Bearer <key>`.";

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

async fn by_hash(api: &Api, hash: ApiKeyHash, parts: &mut Parts) -> Result<Caller, ApiError> {
    let key = find_key(api, hash).await?.ok_or_else(|| ApiError::unauthenticated("Invalid token"))?;
    note_use(api, &key).await;
    let caller = by_key(api, &key, &parts.headers).await?;
    if let Some(application) = key.access.application {
        check_application(api, caller.scope(), application, parts).await?;
    }
    Ok(caller)
}

/// Finds an active key, from the cache or the store.
pub(crate) async fn find_key(api: &Api, hash: ApiKeyHash) -> Result<Option<Arc<KeyRecord>>, ApiError> {
    let now = api.now();
    let read = async { Ok::<_, StoreError>(api.read(query::FindKey { hash }).await?.map(Arc::new)) };
    Ok(api.keys.get(hash, now, read).await?.filter(|key| key.is_active(now)))
}

/// Returns the caller with this key, before its application is compared with the path.
pub(crate) async fn by_key(api: &Api, key: &KeyRecord, headers: &HeaderMap) -> Result<Caller, ApiError> {
    match key.access.environment {
        Some(environment) => {
            Ok(Caller { environment, rights: Rights::Environment(key.access.grants), actor: Actor::key(key) })
        }
        None => {
            let environment = chosen_environment(api, headers.get(ENVIRONMENT_HEADER)).await?;
            Ok(Caller { environment, rights: Rights::Admin, actor: Actor::key(key) })
        }
    }
}

/// Notes the use of a key about once a minute. A failure has no effect on the request.
async fn note_use(api: &Api, key: &KeyRecord) {
    let now = api.now();
    let is_due = |noted: Option<Timestamp>| noted.is_none_or(|at| now >= at.plus(KEY_USE_NOTED));
    if !is_due(key.last_used_at) || !api.key_uses.claim(key.id, now, KEY_USE_NOTED) {
        return;
    }
    let noted = tokio::time::timeout(KEY_USE_WAIT, api.node.change_key(key.id, KeyChange::Use)).await;
    if !matches!(noted, Ok(Ok(_))) {
        debug!(key.id = %key.id, "could not note the use of key {}", key.id);
    }
}

/// Lets a key of one application use the routes of this application only.
async fn check_application(api: &Api, scope: Scope, own: ApplicationId, parts: &mut Parts) -> Result<(), ApiError> {
    let path = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
    if !path.contains("/{app_id}") {
        return Err(ApiError::of_one_application());
    }
    let params = RawPathParams::from_request_parts(parts, &()).await;
    let params = params.map_err(|_| ApiError::not_found("object of the path"))?;
    let named = params.iter().find(|(name, _)| *name == "app_id").map(|(_, value)| value.to_owned());
    let text = named.unwrap_or_default();
    let is_own = match scope::application(&text)? {
        Locator::Id(id) => id == own,
        locator => {
            let found = api.read(query::FindApplication { scope, locator }).await?;
            found.is_some_and(|application| application.id == own)
        }
    };
    if is_own { Ok(()) } else { Err(scope::no_application(&text)) }
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
    Ok(Caller { environment, rights, actor: Actor::token(format!("integration {}", integration.id)) })
}

async fn by_token(api: &Api, claims: Claims) -> Result<Caller, ApiError> {
    match claims {
        Claims::Environment(org) => {
            let environment = api.environments.ensure(&api.node, org).await?;
            let rights = Rights::Environment(Grants::of(KeyScope::Operate));
            Ok(Caller { environment, rights, actor: Actor::token(format!("token of {org}")) })
        }
        Claims::Application(ApplicationClaims { org, id, flags, capabilities, mark, expires_at }) => {
            let environment = api.environments.ensure(&api.node, org).await?;
            if api.tokens.is_ended(&api.node, AppScope::of(environment, id), &mark, api.now()).await? {
                return Err(ApiError::unauthenticated("The token was ended: get a new one."));
            }
            let token = Some(HeldToken { hash: mark.hash, expires_at });
            let rights = Rights::Application { id, flags, capabilities, token };
            Ok(Caller { environment, rights, actor: Actor::token(format!("token of {id}")) })
        }
    }
}
