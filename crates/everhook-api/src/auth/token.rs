//! Tokens: JSON Web Tokens signed with the server's secret (HS256).
//!
//! `sub` = `org_…` stands for an environment; `org` = `org_…` with `sub` = `app_…` for one application of it. `exp` and
//! `nbf` are checked where they are present, by the store's clock. The issuer is not looked at.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::constant_time;
use everhook_core::id::{ApplicationId, OrgId};
use everhook_core::name::Name;
use everhook_core::time::Timestamp;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};

use crate::error::ApiError;
use crate::limits::{TOKEN_LEEWAY, TOKEN_VALID};

/// Signs and verifies.
pub(crate) struct Tokens {
    secret: String,
    verify: DecodingKey,
    sign: EncodingKey,
    rules: Validation,
}

/// What a valid token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Claims {
    /// Its holder may do everything in this environment.
    Environment(OrgId),
    /// Its holder may do what concerns this application.
    Application { org: OrgId, id: ApplicationId, flags: Arc<[Name]> },
}

const SECRET: &str =
    "This is the secret that tokens are signed with, not a token: create an API key, or sign a token with it.";

/// What a token may say. Times may have fractions.
#[derive(Deserialize)]
struct ClaimsIn {
    sub: Option<String>,
    org: Option<String>,
    feature_flags: Option<Vec<Name>>,
    nbf: Option<f64>,
    exp: Option<f64>,
}

/// What our tokens say.
#[derive(Serialize)]
struct ClaimsOut<'a> {
    iss: &'static str,
    sub: ApplicationId,
    org: OrgId,
    #[serde(skip_serializing_if = "<[Name]>::is_empty")]
    feature_flags: &'a [Name],
    iat: i64,
    nbf: i64,
    exp: i64,
}

impl Tokens {
    pub(crate) fn new(secret: String) -> Tokens {
        let mut rules = Validation::new(Algorithm::HS256);
        rules.required_spec_claims.clear();
        rules.validate_aud = false;
        // Its own check reads the machine's clock.
        rules.validate_exp = false;
        rules.validate_nbf = false;
        let verify = DecodingKey::from_secret(secret.as_bytes());
        let sign = EncodingKey::from_secret(secret.as_bytes());
        Tokens { secret, verify, sign, rules }
    }

    /// Reads a token.
    pub(crate) fn verify(&self, token: &str, now: Timestamp) -> Result<Claims, ApiError> {
        let Ok(data) = jsonwebtoken::decode::<ClaimsIn>(token, &self.verify, &self.rules) else {
            // Whoever holds the secret gains nothing from being told.
            let is_secret = constant_time::verify_slices_are_equal(token.as_bytes(), self.secret.as_bytes()).is_ok();
            return Err(ApiError::unauthenticated(if is_secret { SECRET } else { "Invalid token" }));
        };
        let claims = data.claims;
        let (now, leeway) = (now.as_secs() as f64, TOKEN_LEEWAY.as_secs_f64());
        if claims.exp.is_some_and(|exp| now >= exp + leeway) || claims.nbf.is_some_and(|nbf| now < nbf - leeway) {
            return Err(ApiError::unauthenticated("The token has expired, or is not valid yet."));
        }
        read(claims)
    }

    /// A token for one application.
    pub(crate) fn issue(&self, org: OrgId, id: ApplicationId, flags: &[Name], now: Timestamp) -> Option<String> {
        let (iat, exp) = (now.as_secs(), now.plus(TOKEN_VALID).as_secs());
        let claims = ClaimsOut { iss: "everhook", sub: id, org, feature_flags: flags, iat, nbf: iat, exp };
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &self.sign).ok()
    }
}

fn read(claims: ClaimsIn) -> Result<Claims, ApiError> {
    let subject = claims.sub.ok_or_else(|| ApiError::unauthenticated("The token has no `sub`."))?;
    let bad = |_| ApiError::bad_request("bad_token", "The token names something that is no valid id.");
    match claims.org {
        None => subject.parse().map(Claims::Environment).map_err(bad),
        Some(org) => Ok(Claims::Application {
            org: org.parse().map_err(bad)?,
            id: subject.parse().map_err(bad)?,
            flags: claims.feature_flags.unwrap_or_default().into(),
        }),
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens(redacted)")
    }
}
