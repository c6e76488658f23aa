//! Sessions of the dashboard: a cookie in the place of an API key.
//!
//! A session is a token that the server signs and that contains the hash of the key. So every replica knows the
//! session, revoking the key ends it, and the key does not stay in the browser. A request that changes something must
//! repeat the session's `csrf` value in a header: pages of other sites can neither read nor send it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use axum::{Extension, Json, Router};
use everhook_core::api_key::{ApiKey, ApiKeyHash, KeyRecord};
use everhook_core::id::{ApplicationId, Id};
use everhook_core::scope::AppScope;
use everhook_core::time::Timestamp;
use everhook_core::token::{TokenEnd, TokenMark};
use everhook_engine::node::Node;
use everhook_store::query;
use http::header::{CACHE_CONTROL, COOKIE, SET_COOKIE};
use http::{HeaderMap, Method, StatusCode};
use serde::{Deserialize, Serialize};

use crate::auth::failures::ClientAddress;
use crate::auth::token::{self, Tokens};
use crate::auth::{self, Caller};
use crate::error::ApiError;
use crate::input::Input;
use crate::limits::{SESSION_LIFE, SIGN_IN_LINK_LIFE};
use crate::state::Api;

const COOKIE_NAME: &str = "everhook_session";
const CSRF_HEADER: &str = "x-csrf-token";
const INVALID: &str = "The session has ended: sign in again.";

/// The claims of a session, and of the link that starts one.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct SessionClaims {
    sub: Purpose,
    key: ApiKeyHash,
    csrf: String,
    /// Microseconds.
    issued_at: i64,
    /// Microseconds.
    expires_at: i64,
}

/// Differs from the `sub` of all other tokens, which are ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Purpose {
    #[serde(rename = "dashboard-session")]
    Session,
    #[serde(rename = "dashboard-link")]
    Link,
}

/// A way to sign in.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignInIn {
    /// An API key.
    key: Option<String>,
    /// The code of a link that the server printed.
    code: Option<String>,
}

/// A session, as the dashboard shows it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionOut {
    /// The id of the environment.
    environment: String,
    /// The name of the environment.
    name: String,
    /// The scope of the key: `admin`, `operate`, `write` or `read`.
    role: &'static str,
    /// The scope of the key, as in the API.
    scope: &'static str,
    key_name: String,
    /// The only application whose routes the key may use, if it is restricted to one.
    application_id: Option<ApplicationId>,
    /// The rights of the key. Operations name the right that they need in the OpenAPI document, as `x-right`.
    rights: Vec<&'static str>,
    csrf: String,
    expires_at: Timestamp,
    /// The environments that the session can switch to with the header `everhook-environment`.
    environments: Vec<EnvironmentOut>,
}

#[derive(Serialize)]
struct EnvironmentOut {
    id: String,
    name: String,
}

/// The key of a request with a session.
pub(crate) struct Session {
    pub(crate) key: ApiKeyHash,
}

pub(crate) fn routes() -> Router<Arc<Api>> {
    let session: MethodRouter<Arc<Api>> = get(show).post(sign_in).delete(sign_out);
    Router::new().route("/auth/session", session)
}

/// Returns the path of a page that signs in with `key` once, within a few minutes. Returns none if the store does not
/// answer.
pub async fn sign_in_path(node: &Node, key: &ApiKey) -> Option<String> {
    let claims = SessionClaims::new(Purpose::Link, key.hash(), node.now(), SIGN_IN_LINK_LIFE);
    let code = Tokens::new(None).sign(node, &claims).await.ok()?;
    Some(format!("/sign-in#code={code}"))
}

/// Finds the session of a request without a key, and checks that the request comes from the dashboard.
pub(crate) async fn of_request(api: &Api, method: &Method, headers: &HeaderMap) -> Result<Option<Session>, ApiError> {
    let Some(cookie) = cookie(headers) else { return Ok(None) };
    let claims = verify(api, cookie, Purpose::Session).await?;
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    if !is_read && headers.get(CSRF_HEADER).is_none_or(|sent| sent.as_bytes() != claims.csrf.as_bytes()) {
        let detail = format!("Send the csrf value of the session in the header {CSRF_HEADER}.");
        return Err(ApiError::new(StatusCode::FORBIDDEN, "csrf", detail));
    }
    Ok(Some(Session { key: claims.key }))
}

async fn sign_in(
    State(api): State<Arc<Api>>,
    client: Option<Extension<ClientAddress>>,
    input: Input,
) -> Result<Response, ApiError> {
    let client = client.map(|Extension(address)| address.0);
    auth::limit_failures(&api, client, sign_in_from(&api, client, &input).await)
}

async fn sign_in_from(api: &Api, client: Option<IpAddr>, input: &Input) -> Result<Response, ApiError> {
    let wanted: SignInIn = input.json()?;
    let refused = || ApiError::unauthenticated("The key is not valid, or was revoked.");
    let key = match (wanted.key, wanted.code) {
        (Some(key), None) => key.trim().parse::<ApiKey>().map_err(|_| refused())?.hash(),
        (None, Some(code)) => {
            let claims = verify(api, &code, Purpose::Link).await?;
            end(api, &code, &claims).await?;
            claims.key
        }
        (Some(_), Some(_)) | (None, None) => {
            return Err(ApiError::bad_request("bad_request", "Send either key or code."));
        }
    };
    auth::may_ask(api, client, key)?;
    let found = auth::find_key(api, key).await?.ok_or_else(refused)?;
    let claims = SessionClaims::new(Purpose::Session, key, api.now(), SESSION_LIFE);
    let token = api.tokens.sign(&api.node, &claims).await?;
    let out = shown(api, &found, &claims, &HeaderMap::new()).await?;
    Ok(([(SET_COOKIE, set_cookie(api, &token, SESSION_LIFE))], no_store(out)).into_response())
}

async fn show(State(api): State<Arc<Api>>, headers: HeaderMap) -> Result<Response, ApiError> {
    let cookie = cookie(&headers).ok_or_else(|| ApiError::unauthenticated("Sign in first."))?;
    let claims = verify(&api, cookie, Purpose::Session).await?;
    let key = auth::find_key(&api, claims.key).await?.ok_or_else(|| ApiError::unauthenticated(INVALID))?;
    Ok(no_store(shown(&api, &key, &claims, &headers).await?))
}

async fn sign_out(State(api): State<Arc<Api>>, method: Method, headers: HeaderMap) -> Result<Response, ApiError> {
    // A session that has ended already signs out all the same.
    if let Some(cookie) = cookie(&headers)
        && let Ok(claims) = verify(&api, cookie, Purpose::Session).await
    {
        of_request(&api, &method, &headers).await?;
        end(&api, cookie, &claims).await?;
    }
    let gone = set_cookie(&api, "", Duration::ZERO);
    Ok((StatusCode::NO_CONTENT, [(SET_COOKIE, gone)]).into_response())
}

/// Checks the signature and the times of a token, and that it was not ended.
async fn verify(api: &Api, token: &str, purpose: Purpose) -> Result<SessionClaims, ApiError> {
    let now = api.now();
    let claims: Option<SessionClaims> = api.tokens.verify_own(&api.node, token, now).await?;
    let valid = claims.filter(|claims| claims.sub == purpose && now < Timestamp::from_micros(claims.expires_at));
    let claims = valid.ok_or_else(|| ApiError::unauthenticated(INVALID))?;
    let issued_at = Timestamp::from_micros(claims.issued_at);
    let mark = TokenMark { hash: token::hash(token), session: None, issued_at };
    if api.tokens.is_ended(&api.node, scope(api).await?, &mark, now).await? {
        return Err(ApiError::unauthenticated(INVALID));
    }
    Ok(claims)
}

async fn end(api: &Api, token: &str, claims: &SessionClaims) -> Result<(), ApiError> {
    let end = TokenEnd::one(token::hash(token), api.now(), Timestamp::from_micros(claims.expires_at));
    api.node.end_tokens(scope(api).await?, vec![end]).await?;
    api.tokens.forget_ends();
    Ok(())
}

/// The place of ended sessions among the ended tokens: an application that does not exist.
async fn scope(api: &Api) -> Result<AppScope, ApiError> {
    let environment = api.environments.default_one(&api.node).await?;
    Ok(AppScope::of(environment, ApplicationId(Id::MIN)))
}

async fn shown(
    api: &Api,
    key: &KeyRecord,
    claims: &SessionClaims,
    headers: &HeaderMap,
) -> Result<SessionOut, ApiError> {
    let Caller { environment, .. } = auth::by_key(api, key, headers).await?;
    let all = api.read(query::Environments {}).await?;
    let own = all.iter().find(|known| known.id == environment);
    let own = own.ok_or_else(|| ApiError::not_found("environment of the key"))?;
    let environments = match key.access.environment {
        None => all.iter().map(|known| EnvironmentOut::new(known.org.to_string(), &known.name)).collect(),
        Some(_) => Vec::new(),
    };
    let grants = key.access.grants;
    Ok(SessionOut {
        environment: own.org.to_string(),
        name: own.name.clone(),
        role: grants.scope.name(),
        scope: grants.scope.name(),
        key_name: key.title().to_owned(),
        application_id: key.access.application,
        rights: grants.names(),
        csrf: claims.csrf.clone(),
        expires_at: Timestamp::from_micros(claims.expires_at),
        environments,
    })
}

impl EnvironmentOut {
    fn new(id: String, name: &str) -> EnvironmentOut {
        EnvironmentOut { id, name: name.to_owned() }
    }
}

impl SessionClaims {
    fn new(sub: Purpose, key: ApiKeyHash, now: Timestamp, life: Duration) -> SessionClaims {
        let csrf = token::random_text();
        SessionClaims { sub, key, csrf, issued_at: now.as_micros(), expires_at: now.plus(life).as_micros() }
    }
}

/// An empty token with a life of zero removes the cookie.
fn set_cookie(api: &Api, token: &str, life: Duration) -> String {
    let is_secure = api.config.public_url.as_ref().map_or(api.config.tls, |url| url.starts_with("https://"));
    let secure = if is_secure { "; Secure" } else { "" };
    format!("{COOKIE_NAME}={token}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}{secure}", life.as_secs())
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let lines = headers.get_all(COOKIE).into_iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE_NAME).map(|(_, value)| value)
}

fn no_store(out: SessionOut) -> Response {
    ([(CACHE_CONTROL, "no-store")], Json(out)).into_response()
}
