//! Tokens: JSON Web Tokens signed with the server's secret (HS256).
//!
//! A token with `sub` = `org_…` is for an environment. A token with `org` = `org_…` and `sub` = `app_…` is for one
//! application. It has the rights that `capabilities` lists, or all rights without the claim. `exp` is required; `exp`
//! and `nbf` are compared with the store's clock. The issuer is not checked. A header with `crit` is refused: it names
//! extensions that the server must support, and the server supports none.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::constant_time;
use everhook_core::capability::Capabilities;
use everhook_core::id::{ApplicationId, OrgId};
use everhook_core::name::Name;
use everhook_core::time::Timestamp;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};

use crate::error::ApiError;
use crate::limits::TOKEN_LEEWAY;

/// Signs and verifies tokens with one secret.
pub(crate) struct Tokens {
    secret: String,
    verify: DecodingKey,
    sign: EncodingKey,
    rules: Validation,
}

/// The claims of a valid token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Claims {
    /// The token allows all operations in this environment.
    Environment(OrgId),
    /// The token allows operations on this application.
    Application { org: OrgId, id: ApplicationId, flags: Arc<[Name]>, capabilities: Capabilities },
}

/// A token to issue.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) org: OrgId,
    pub(crate) id: ApplicationId,
    pub(crate) flags: Vec<Name>,
    pub(crate) capabilities: Capabilities,
    /// The session id that the request for the token gave.
    pub(crate) session: Option<String>,
    pub(crate) expiry: Duration,
}

const SECRET: &str =
    "This is the secret that tokens are signed with, not a token: create an API key, or sign a token with it.";

/// The claims that the server reads. Times may have fractions.
#[derive(Deserialize)]
struct ClaimsIn {
    sub: Option<String>,
    org: Option<String>,
    feature_flags: Option<Vec<Name>>,
    capabilities: Option<Vec<String>>,
    nbf: Option<f64>,
    exp: Option<f64>,
}

/// The claims of the tokens that the server issues.
#[derive(Serialize)]
struct ClaimsOut<'a> {
    iss: &'static str,
    sub: ApplicationId,
    org: OrgId,
    #[serde(skip_serializing_if = "<[Name]>::is_empty")]
    feature_flags: &'a [Name],
    capabilities: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
    iat: i64,
    nbf: i64,
    exp: i64,
}

impl Tokens {
    pub(crate) fn new(secret: String) -> Tokens {
        let mut rules = Validation::new(Algorithm::HS256);
        rules.required_spec_claims.clear();
        rules.validate_aud = false;
        // The library compares `exp` with the machine's clock. `verify` compares it with the store's clock.
        rules.validate_exp = false;
        rules.validate_nbf = false;
        let verify = DecodingKey::from_secret(secret.as_bytes());
        let sign = EncodingKey::from_secret(secret.as_bytes());
        Tokens { secret, verify, sign, rules }
    }

    pub(crate) fn verify(&self, token: &str, now: Timestamp) -> Result<Claims, ApiError> {
        let Ok(data) = jsonwebtoken::decode::<ClaimsIn>(token, &self.verify, &self.rules) else {
            // The hint reveals nothing, because this caller already has the secret.
            let is_secret = constant_time::verify_slices_are_equal(token.as_bytes(), self.secret.as_bytes()).is_ok();
            return Err(ApiError::unauthenticated(if is_secret { SECRET } else { "Invalid token" }));
        };
        if data.header.crit.is_some() {
            return Err(ApiError::unauthenticated("The token has a `crit` header: no extension is supported."));
        }
        let claims = data.claims;
        let (now, leeway) = (now.as_secs() as f64, TOKEN_LEEWAY.as_secs_f64());
        let Some(exp) = claims.exp else {
            return Err(ApiError::unauthenticated("The token has no `exp`: sign one that expires."));
        };
        if now >= exp + leeway || claims.nbf.is_some_and(|nbf| now < nbf - leeway) {
            return Err(ApiError::unauthenticated("The token has expired, or is not valid yet."));
        }
        read(claims)
    }

    /// Issues a token for one application.
    pub(crate) fn issue(&self, grant: &Grant, now: Timestamp) -> Option<String> {
        let iat = now.as_secs();
        let claims = ClaimsOut {
            iss: "everhook",
            sub: grant.id,
            org: grant.org,
            feature_flags: &grant.flags,
            capabilities: grant.capabilities.names(),
            session_id: grant.session.as_deref(),
            iat,
            nbf: iat,
            exp: now.plus(grant.expiry).as_secs(),
        };
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &self.sign).ok()
    }
}

fn read(claims: ClaimsIn) -> Result<Claims, ApiError> {
    let subject = claims.sub.ok_or_else(|| ApiError::unauthenticated("The token has no `sub`."))?;
    let bad = |_| ApiError::bad_request("bad_token", "The token contains an invalid id.");
    match claims.org {
        None => subject.parse().map(Claims::Environment).map_err(bad),
        Some(org) => Ok(Claims::Application {
            org: org.parse().map_err(bad)?,
            id: subject.parse().map_err(bad)?,
            flags: claims.feature_flags.unwrap_or_default().into(),
            capabilities: claims
                .capabilities
                .map_or(Capabilities::ALL, |names| Capabilities::of_token(names.iter().map(String::as_str))),
        }),
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens(redacted)")
    }
}
