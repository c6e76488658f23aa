//! How requests to an endpoint prove who sends them: Basic, OAuth 2.0, a client certificate. And the authority of the
//! receiver's certificate.
//!
//! Material is written and never returned: the answers tell only that it exists, and parts that are no secrets.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use everhook_core::endpoint::Endpoint;
use everhook_core::endpoint_auth::{BasicAuth, EndpointAuth, OauthClient, OauthMethod};
use everhook_core::limits::{
    AUTH_PEM_BYTES_MAX, AUTH_TEXT_BYTES_MAX, HEADER_NAME_BYTES_MAX, OAUTH_PARAMS_MAX, OAUTH_SCOPE_BYTES_MAX,
    OAUTH_SCOPES_MAX,
};
use everhook_core::violation::{self, Violation};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::endpoint_headers;
use crate::error::ApiError;
use crate::input::{self, Input};
use crate::routes::{Answer, EmptyAnswer, Routes, routes_of};
use crate::scope::{ApplicationPath, AtEndpoint, EndpointPath};
use crate::state::Api;

/// Parameters of the token request that have fields of their own.
const OWN_PARAMS: [&str; 4] = ["client_id", "client_secret", "grant_type", "scope"];

/// A user name and a password.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EndpointBasicAuthIn {
    /// The user name. It has no colon.
    username: String,
    /// The password. It is never returned.
    password: String,
}

/// The user name. The password is never returned.
#[derive(Serialize, ToSchema)]
pub(crate) struct EndpointBasicAuthOut {
    username: String,
}

/// An OAuth 2.0 client.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndpointOauthConfigIn {
    /// `clientCredentials`. `refreshToken` is not supported.
    #[schema(example = "clientCredentials")]
    grant_type: String,
    /// `clientSecretBasic` or `clientSecretPost`. `clientSecretJwt` is not supported.
    #[schema(example = "clientSecretBasic")]
    auth_method: String,
    /// The id of the client at the issuer.
    client_id: String,
    /// The secret of the client. It is required, and never returned.
    client_secret: Option<String>,
    /// The URL that issues tokens. The egress rules apply to it.
    #[schema(format = "uri", example = "https://issuer.example.com/token")]
    token_url: String,
    /// The scopes to request.
    #[schema(max_items = 32)]
    scopes: Option<Vec<String>>,
    /// More parameters of the token request.
    extra_params: Option<BTreeMap<String, String>>,
    /// More headers of the token request.
    extra_headers: Option<BTreeMap<String, String>>,
    /// Not supported.
    #[serde(default, deserialize_with = "input::present")]
    #[schema(value_type = Option<Object>)]
    jwt_params: Option<Option<serde_json::Value>>,
    /// Not supported.
    refresh_token: Option<String>,
}

/// An OAuth 2.0 client without its secrets.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndpointOauthConfigOut {
    grant_type: &'static str,
    #[schema(value_type = String)]
    auth_method: OauthMethod,
    /// The id of the client at the issuer.
    client_id: String,
    token_url: String,
    /// The requested scopes.
    scopes: Vec<String>,
}

/// Whether the endpoint has an OAuth 2.0 client, and which.
#[derive(Serialize, ToSchema)]
pub(crate) struct EndpointOauthStateOut {
    /// Whether deliveries carry tokens.
    enabled: bool,
    /// The client without its secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<EndpointOauthConfigOut>,
}

/// A client certificate.
#[derive(Deserialize, ToSchema)]
pub(crate) struct EndpointMtlsConfigIn {
    /// The certificate with its chain, and the private key without a password, in PEM.
    identity: String,
}

/// Nothing: the certificate and its key are never returned.
#[derive(Serialize, ToSchema)]
pub(crate) struct EndpointMtlsConfigOut {}

/// Whether the endpoint has a client certificate.
#[derive(Serialize, ToSchema)]
pub(crate) struct EndpointMtlsStateOut {
    /// Whether the certificate is presented.
    enabled: bool,
    /// An empty object if the endpoint has a certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<EndpointMtlsConfigOut>,
}

/// The authorities of the receiver's certificate.
#[derive(Deserialize, ToSchema)]
pub(crate) struct EndpointCaIn {
    /// Certificates in PEM. The receiver's certificate must come from one of them. Null: from an authority that the
    /// server's system trusts.
    cert: Option<String>,
}

/// The authorities of the receiver's certificate.
#[derive(Serialize, ToSchema)]
pub(crate) struct EndpointCaOut {
    cert: Option<String>,
}

pub(crate) fn routes() -> Routes {
    routes_of![
        get_basic __path_get_basic, put_basic __path_put_basic, delete_basic __path_delete_basic,
        get_oauth __path_get_oauth, put_oauth __path_put_oauth, delete_oauth __path_delete_oauth,
        get_oauth_state __path_get_oauth_state, get_mtls __path_get_mtls, put_mtls __path_put_mtls,
        delete_mtls __path_delete_mtls, get_mtls_state __path_get_mtls_state, get_ca __path_get_ca,
        put_ca __path_put_ca,
    ]
}

/// Get the user name of an endpoint's Basic authentication.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/basic-auth", operation_id = "v1.endpoint.get-basic-auth",
    tag = "Endpoint", params(ApplicationPath, EndpointPath), responses((status = 200, body = EndpointBasicAuthOut))
)]
async fn get_basic(AtEndpoint { endpoint, .. }: AtEndpoint) -> Answer<EndpointBasicAuthOut> {
    let basic = auth(&endpoint).basic.clone().ok_or_else(|| off("Basic authentication"))?;
    Ok(Json(EndpointBasicAuthOut { username: basic.username }))
}

/// Send a user name and a password with every delivery to an endpoint (HTTP Basic).
#[utoipa::path(
    put, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/basic-auth", operation_id = "v1.endpoint.update-basic-auth",
    tag = "Endpoint", params(ApplicationPath, EndpointPath), request_body = EndpointBasicAuthIn,
    responses((status = 204))
)]
async fn put_basic(at: AtEndpoint, input: Input) -> EmptyAnswer {
    let EndpointBasicAuthIn { username, password } = input.json()?;
    let username = text("username", username)?;
    if username.contains(':') {
        return Err(violation::at("username").breaks("must not have a colon").into());
    }
    let basic = BasicAuth { username, password: text("password", password)? };
    change(&at, |endpoint, auth| {
        check_alone(endpoint, auth.oauth.is_some(), "username", "OAuth: delete …/oauth first")?;
        auth.basic = Some(basic.clone());
        Ok(())
    })
    .await
}

/// Remove the Basic authentication of an endpoint.
#[utoipa::path(
    delete, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/basic-auth",
    operation_id = "v1.endpoint.delete-basic-auth", tag = "Endpoint", params(ApplicationPath, EndpointPath),
    responses((status = 204))
)]
async fn delete_basic(at: AtEndpoint) -> EmptyAnswer {
    clear(&at, |auth| auth.basic = None).await
}

/// Get the OAuth 2.0 client of an endpoint.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/oauth", operation_id = "v1.endpoint.get-oauth-config",
    tag = "Endpoint", params(ApplicationPath, EndpointPath), responses((status = 200, body = EndpointOauthConfigOut))
)]
async fn get_oauth(AtEndpoint { endpoint, .. }: AtEndpoint) -> Answer<EndpointOauthConfigOut> {
    oauth(&endpoint).map(Json).ok_or_else(|| off("OAuth"))
}

/// Tell whether an endpoint has an OAuth 2.0 client.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/oauth-config",
    operation_id = "v1.endpoint.get-oauth-state", tag = "Endpoint", params(ApplicationPath, EndpointPath),
    responses((status = 200, body = EndpointOauthStateOut))
)]
async fn get_oauth_state(AtEndpoint { endpoint, .. }: AtEndpoint) -> Json<EndpointOauthStateOut> {
    let config = oauth(&endpoint);
    Json(EndpointOauthStateOut { enabled: config.is_some(), config })
}

/// Send an OAuth 2.0 access token with every delivery to an endpoint.
///
/// The server gets tokens with the grant `client_credentials`, and keeps a token until shortly before it expires.
#[utoipa::path(
    put, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/oauth", operation_id = "v1.endpoint.update-oauth-config",
    tag = "Endpoint", params(ApplicationPath, EndpointPath), request_body = EndpointOauthConfigIn,
    responses((status = 204))
)]
async fn put_oauth(at: AtEndpoint, input: Input) -> EmptyAnswer {
    let client = input.json::<EndpointOauthConfigIn>()?.check(&at.api)?;
    change(&at, |endpoint, auth| {
        check_alone(endpoint, auth.basic.is_some(), "clientId", "Basic authentication: delete …/basic-auth first")?;
        auth.oauth = Some(client.clone());
        Ok(())
    })
    .await
}

/// Remove the OAuth 2.0 client of an endpoint.
#[utoipa::path(
    delete, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/oauth",
    operation_id = "v1.endpoint.delete-oauth-config", tag = "Endpoint", params(ApplicationPath, EndpointPath),
    responses((status = 204))
)]
async fn delete_oauth(at: AtEndpoint) -> EmptyAnswer {
    clear(&at, |auth| auth.oauth = None).await
}

/// Tell that an endpoint has a client certificate.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/mtls", operation_id = "v1.endpoint.get-mtls-config",
    tag = "Endpoint", params(ApplicationPath, EndpointPath), responses((status = 200, body = EndpointMtlsConfigOut))
)]
async fn get_mtls(AtEndpoint { endpoint, .. }: AtEndpoint) -> Answer<EndpointMtlsConfigOut> {
    mtls(&endpoint).map(Json).ok_or_else(|| off("client certificate"))
}

/// Tell whether an endpoint has a client certificate.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/mtls-config", operation_id = "v1.endpoint.get-mtls-state",
    tag = "Endpoint", params(ApplicationPath, EndpointPath), responses((status = 200, body = EndpointMtlsStateOut))
)]
async fn get_mtls_state(AtEndpoint { endpoint, .. }: AtEndpoint) -> Json<EndpointMtlsStateOut> {
    let config = mtls(&endpoint);
    Json(EndpointMtlsStateOut { enabled: config.is_some(), config })
}

/// Present a client certificate to the receiver of an endpoint (mutual TLS).
#[utoipa::path(
    put, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/mtls", operation_id = "v1.endpoint.update-mtls-config",
    tag = "Endpoint", params(ApplicationPath, EndpointPath), request_body = EndpointMtlsConfigIn,
    responses((status = 204))
)]
async fn put_mtls(at: AtEndpoint, input: Input) -> EmptyAnswer {
    let identity = pem("identity", input.json::<EndpointMtlsConfigIn>()?.identity)?;
    violation::at("identity").check(everhook_sender::check_identity(&identity))?;
    change(&at, |endpoint, auth| {
        check_https(endpoint, "identity")?;
        auth.identity = Some(identity.clone());
        Ok(())
    })
    .await
}

/// Remove the client certificate of an endpoint.
#[utoipa::path(
    delete, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/mtls", operation_id = "v1.endpoint.delete-mtls-config",
    tag = "Endpoint", params(ApplicationPath, EndpointPath), responses((status = 204))
)]
async fn delete_mtls(at: AtEndpoint) -> EmptyAnswer {
    clear(&at, |auth| auth.identity = None).await
}

/// Get the authorities that the certificate of an endpoint's receiver must come from.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/ca", operation_id = "v1.endpoint.get-ca",
    tag = "Endpoint", params(ApplicationPath, EndpointPath), responses((status = 200, body = EndpointCaOut))
)]
async fn get_ca(AtEndpoint { endpoint, .. }: AtEndpoint) -> Json<EndpointCaOut> {
    Json(EndpointCaOut { cert: auth(&endpoint).ca.clone() })
}

/// Set the authorities that the certificate of an endpoint's receiver must come from.
#[utoipa::path(
    put, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/ca", operation_id = "v1.endpoint.update-ca",
    tag = "Endpoint", params(ApplicationPath, EndpointPath), request_body = EndpointCaIn,
    responses((status = 204))
)]
async fn put_ca(at: AtEndpoint, input: Input) -> EmptyAnswer {
    let cert = input.json::<EndpointCaIn>()?.cert.map(|cert| pem("cert", cert)).transpose()?;
    if let Some(cert) = &cert {
        violation::at("cert").check(everhook_sender::check_ca(cert))?;
    }
    change(&at, |endpoint, auth| {
        if cert.is_some() {
            check_https(endpoint, "cert")?;
        }
        auth.ca = cert.clone();
        Ok(())
    })
    .await
}

/// Refuses a header that authentication would replace.
pub(crate) fn check_headers(
    headers: &BTreeMap<String, String>,
    auth: Option<&Arc<EndpointAuth>>,
) -> Result<(), Violation> {
    let is_set = auth.is_some_and(|auth| auth.basic.is_some() || auth.oauth.is_some());
    match headers.keys().find(|name| name.eq_ignore_ascii_case("authorization")) {
        Some(name) if is_set => Err(violation::at("headers")
            .member(name.clone())
            .breaks("cannot be set: the endpoint has OAuth or Basic authentication")),
        _ => Ok(()),
    }
}

async fn change(
    at: &AtEndpoint,
    change: impl Fn(&Endpoint, &mut EndpointAuth) -> Result<(), Violation>,
) -> EmptyAnswer {
    let change = |old: Endpoint| {
        let mut auth = auth(&old);
        change(&old, &mut auth)?;
        let auth = (!auth.is_empty()).then(|| Arc::new(auth));
        Ok(Endpoint { auth, ..old })
    };
    at.change(None, change).await.map(|_| StatusCode::NO_CONTENT)
}

async fn clear(at: &AtEndpoint, clear: impl Fn(&mut EndpointAuth)) -> EmptyAnswer {
    change(at, |_, auth| {
        clear(auth);
        Ok(())
    })
    .await
}

fn auth(endpoint: &Endpoint) -> EndpointAuth {
    endpoint.auth.as_deref().cloned().unwrap_or_default()
}

fn oauth(endpoint: &Endpoint) -> Option<EndpointOauthConfigOut> {
    let client = auth(endpoint).oauth?;
    Some(EndpointOauthConfigOut {
        grant_type: "clientCredentials",
        auth_method: client.auth_method,
        client_id: client.client_id,
        token_url: client.token_url,
        scopes: client.scopes,
    })
}

fn mtls(endpoint: &Endpoint) -> Option<EndpointMtlsConfigOut> {
    endpoint.auth.as_ref()?.identity.as_ref().map(|_| EndpointMtlsConfigOut {})
}

fn off(what: &str) -> ApiError {
    ApiError::not_found(format_args!("{what} of the endpoint"))
}

/// Refuses a second way to fill the header `Authorization`.
fn check_alone(endpoint: &Endpoint, has_other: bool, field: &'static str, other: &str) -> Result<(), Violation> {
    if has_other {
        return Err(violation::at(field).breaks(format!("cannot be set: the endpoint has {other}")));
    }
    if endpoint.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization")) {
        let rule = "cannot be set: the endpoint has a header Authorization; remove it first";
        return Err(violation::at(field).breaks(rule));
    }
    check_pushed(endpoint, field)
}

fn check_pushed(endpoint: &Endpoint, field: &'static str) -> Result<(), Violation> {
    if endpoint.is_polled() {
        return Err(violation::at(field).breaks("cannot be set: the endpoint is polled and gets no requests"));
    }
    Ok(())
}

fn check_https(endpoint: &Endpoint, field: &'static str) -> Result<(), Violation> {
    check_pushed(endpoint, field)?;
    if !endpoint.url.starts_with("https://") {
        return Err(violation::at(field).breaks("cannot be set: the url of the endpoint is not https"));
    }
    Ok(())
}

/// Checks a text that is sent in a header or a form.
fn text(field: &'static str, text: String) -> Result<String, Violation> {
    let refuse = |rule: String| Err(violation::at(field).breaks(rule));
    match () {
        () if text.is_empty() => refuse("must not be empty".to_owned()),
        () if text.len() > AUTH_TEXT_BYTES_MAX => refuse(format!("must have at most {AUTH_TEXT_BYTES_MAX} bytes")),
        () if text.chars().any(char::is_control) => refuse("must not have control characters".to_owned()),
        () => Ok(text),
    }
}

fn pem(field: &'static str, text: String) -> Result<String, Violation> {
    if text.len() > AUTH_PEM_BYTES_MAX {
        return Err(violation::at(field).breaks(format!("must have at most {AUTH_PEM_BYTES_MAX} bytes")));
    }
    Ok(text)
}

impl EndpointOauthConfigIn {
    fn check(self, api: &Api) -> Result<OauthClient, Violation> {
        let refuse = |field: &'static str, rule: &str| Err(violation::at(field).breaks(rule));
        if self.grant_type != "clientCredentials" {
            return refuse("grantType", "must be clientCredentials; other grants are not supported");
        }
        let auth_method = match &*self.auth_method {
            "clientSecretBasic" => OauthMethod::ClientSecretBasic,
            "clientSecretPost" => OauthMethod::ClientSecretPost,
            _ => {
                return refuse("authMethod", "must be clientSecretBasic or clientSecretPost; others are not supported");
            }
        };
        if self.jwt_params.flatten().is_some() {
            return refuse("jwtParams", "is not supported: use clientSecret");
        }
        if self.refresh_token.is_some() {
            return refuse("refreshToken", "is not supported: use the grant clientCredentials");
        }
        let Some(client_secret) = self.client_secret else {
            // A kept secret could be sent to another token URL, and so be learned.
            return refuse("clientSecret", "is required");
        };
        Ok(OauthClient {
            token_url: String::from(violation::at("tokenUrl").check(api.config.egress.check_url(&self.token_url))?),
            auth_method,
            client_id: text("clientId", self.client_id)?,
            client_secret: text("clientSecret", client_secret)?,
            scopes: scopes(self.scopes.unwrap_or_default())?,
            extra_params: extra_params(self.extra_params.unwrap_or_default())?,
            extra_headers: extra_headers(self.extra_headers.unwrap_or_default())?,
        })
    }
}

fn scopes(scopes: Vec<String>) -> Result<Vec<String>, Violation> {
    if scopes.len() > OAUTH_SCOPES_MAX {
        return Err(violation::at("scopes").breaks(format!("must have at most {OAUTH_SCOPES_MAX} entries")));
    }
    for (index, scope) in scopes.iter().enumerate() {
        let is_plain = !scope.is_empty() && scope.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_plain || scope.len() > OAUTH_SCOPE_BYTES_MAX {
            let rule = format!("must have 1 to {OAUTH_SCOPE_BYTES_MAX} visible ASCII characters");
            return Err(violation::at("scopes").index(index).breaks(rule));
        }
    }
    Ok(scopes)
}

fn extra_params(params: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Violation> {
    if params.len() > OAUTH_PARAMS_MAX {
        return Err(violation::at("extraParams").breaks(format!("must have at most {OAUTH_PARAMS_MAX} entries")));
    }
    for (name, value) in &params {
        let refuse = |rule: String| Err(violation::at("extraParams").member(name.clone()).breaks(rule));
        if OWN_PARAMS.contains(&name.as_str()) {
            return refuse("has a field of its own".to_owned());
        }
        if name.is_empty() || name.len() > HEADER_NAME_BYTES_MAX {
            return refuse(format!("must have a name of 1 to {HEADER_NAME_BYTES_MAX} bytes"));
        }
        if value.len() > AUTH_TEXT_BYTES_MAX {
            return refuse(format!("must have at most {AUTH_TEXT_BYTES_MAX} bytes"));
        }
    }
    Ok(params)
}

fn extra_headers(headers: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Violation> {
    let own = |name: &&String| ["authorization", "accept"].iter().any(|own| name.eq_ignore_ascii_case(own));
    if let Some(name) = headers.keys().find(own) {
        return Err(violation::at("extraHeaders").member(name.clone()).breaks("is a header that cannot be set"));
    }
    endpoint_headers::check(headers).map_err(|mut broken| {
        if let Some(first) = broken.path.first_mut() {
            *first = "extraHeaders".into();
        }
        broken
    })
}
