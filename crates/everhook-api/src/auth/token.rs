//! Tokens: JSON Web Tokens (HS256) that the server signs with a key of its own, or users with the configured secret.
//!
//! A token with `sub` = `org_…` is for an environment; only the configured secret signs it. A token with `org` =
//! `org_…` and `sub` = `app_…` is for one application. It has the rights that `capabilities` lists, or all rights
//! without the claim. The header of the server's own tokens names their key in `kid`. `exp` is required; `exp` and
//! `nbf` are compared with the store's clock. The issuer is not checked. A header with `crit` is refused: it names
//! extensions that the server must support, and the server supports none.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::{constant_time, digest};
use everhook_core::capability::Capabilities;
use everhook_core::id::{ApplicationId, Id, OrgId, TokenKeyId};
use everhook_core::limits::TOKEN_LIFE_MAX;
use everhook_core::name::Name;
use everhook_core::scope::AppScope;
use everhook_core::time::Timestamp;
use everhook_core::token::{TOKEN_SECRET_BYTES, TokenHash, TokenKey, TokenKeyChange, TokenMark, TokenSecret};
use everhook_engine::node::Node;
use everhook_store::catalog::NewTokenKey;
use everhook_store::error::StoreError;
use everhook_store::query;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::auth::recent::Recent;
use crate::error::ApiError;
use crate::limits::TOKEN_LEEWAY;

/// Signs and verifies tokens.
pub(crate) struct Tokens {
    /// The configured secret, with which users sign tokens.
    secret: Option<String>,
    rules: Validation,
    keys: Recent<TokenKeyId, TokenKey>,
    /// The times at which application tokens end before they expire, if they do.
    ends: Recent<TokenHash, Option<Timestamp>>,
}

/// The claims of a valid token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Claims {
    /// The token allows all operations in this environment.
    Environment(OrgId),
    /// The token allows operations on this application.
    Application(ApplicationClaims),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApplicationClaims {
    pub(crate) org: OrgId,
    pub(crate) id: ApplicationId,
    pub(crate) flags: Arc<[Name]>,
    pub(crate) capabilities: Capabilities,
    pub(crate) mark: TokenMark,
    pub(crate) expires_at: Timestamp,
}

/// A token to issue.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) token: Id,
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
const INVALID: &str = "Invalid token";

/// The claims that the server reads. Times may have fractions.
#[derive(Deserialize)]
struct ClaimsIn {
    sub: Option<String>,
    org: Option<String>,
    feature_flags: Option<Vec<Name>>,
    capabilities: Option<Vec<String>>,
    session_id: Option<String>,
    iat: Option<f64>,
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
    /// Tokens with equal claims differ by it.
    jti: String,
    /// To the microsecond: a token of the same second as a call that ends all tokens is older or newer than the call.
    iat: f64,
    nbf: i64,
    exp: i64,
}

impl Tokens {
    pub(crate) fn new(secret: Option<String>) -> Tokens {
        let mut rules = Validation::new(Algorithm::HS256);
        rules.required_spec_claims.clear();
        rules.validate_aud = false;
        // The library compares `exp` with the machine's clock. `verify` compares it with the store's clock.
        rules.validate_exp = false;
        rules.validate_nbf = false;
        Tokens { secret, rules, keys: Recent::default(), ends: Recent::default() }
    }

    /// Checks the signature and the times of a token. `is_ended` tells whether it was ended before it expired.
    pub(crate) async fn verify(&self, node: &Node, token: &str, now: Timestamp) -> Result<Claims, ApiError> {
        let own = own_key(token);
        let claims: Option<ClaimsIn> = match own {
            Some(_) => self.verify_own(node, token, now).await?,
            None => self.secret.as_ref().and_then(|secret| self.decode(token, secret.as_bytes())).transpose()?,
        };
        let claims = claims.ok_or_else(|| ApiError::unauthenticated(self.refusal(token)))?;
        check_times(&claims, now)?;
        match read(claims, token)? {
            // The server signs no tokens of environments.
            Claims::Environment(_) if own.is_some() => Err(ApiError::unauthenticated(INVALID)),
            claims => Ok(claims),
        }
    }

    /// Whether a valid application token was ended before it expired.
    pub(crate) async fn is_ended(
        &self,
        node: &Node,
        scope: AppScope,
        mark: &TokenMark,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let read = async { node.read(query::FindTokenEnd { scope, mark: mark.clone() }).await.map(Some) };
        let ends_at = self.ends.get(mark.hash, now, read).await?.flatten();
        Ok(ends_at.is_some_and(|ends_at| ends_at <= now))
    }

    /// Lets this node see at once that tokens were ended.
    pub(crate) fn forget_ends(&self) {
        self.ends.clear();
    }

    /// Issues a token for one application.
    pub(crate) async fn issue(&self, node: &Node, grant: &Grant, now: Timestamp) -> Result<String, ApiError> {
        let claims = ClaimsOut {
            iss: "everhook",
            sub: grant.id,
            org: grant.org,
            feature_flags: &grant.flags,
            capabilities: grant.capabilities.names(),
            session_id: grant.session.as_deref(),
            jti: grant.token.to_string(),
            iat: now.as_micros() as f64 / 1e6,
            nbf: now.as_secs(),
            exp: now.plus(grant.expiry).as_secs(),
        };
        self.sign(node, &claims).await
    }

    /// Signs claims with the server's own key. The first token creates the key.
    pub(crate) async fn sign<C: Serialize + Sync>(&self, node: &Node, claims: &C) -> Result<String, ApiError> {
        let key = match signing_key(node).await? {
            Some(key) => key,
            None => {
                let key = NewTokenKey { id: TokenKeyId(node.new_id()), secret: random() };
                node.put_token_key(key, TokenKeyChange::First).await?;
                signing_key(node).await?.ok_or_else(|| ApiError::conflict("The signing key was removed: try again."))?
            }
        };
        let header = Header { kid: Some(key.id.to_string()), ..Header::new(Algorithm::HS256) };
        let signed = jsonwebtoken::encode(&header, claims, &EncodingKey::from_secret(&key.secret.0));
        Ok(signed.expect("the claims are texts and numbers, and HS256 takes any key"))
    }

    /// Returns the claims of a token that the server signed, whatever their times; none for any other text.
    pub(crate) async fn verify_own<C: DeserializeOwned>(
        &self,
        node: &Node,
        token: &str,
        now: Timestamp,
    ) -> Result<Option<C>, ApiError> {
        let Some(id) = own_key(token) else { return Ok(None) };
        let key = self.keys.get(id, now, find_key(node, id)).await?.filter(|key| key.verifies(now));
        key.and_then(|key| self.decode(token, &key.secret.0)).transpose()
    }

    /// Returns the claims if the signature is right; fails on a header that the server does not support.
    fn decode<C: DeserializeOwned>(&self, token: &str, secret: &[u8]) -> Option<Result<C, ApiError>> {
        let data = jsonwebtoken::decode::<C>(token, &DecodingKey::from_secret(secret), &self.rules).ok()?;
        if data.header.crit.is_some() {
            let detail = "The token has a `crit` header: no extension is supported.";
            return Some(Err(ApiError::unauthenticated(detail)));
        }
        Some(Ok(data.claims))
    }

    /// The hint reveals nothing, because this caller already has the secret.
    fn refusal(&self, token: &str) -> &'static str {
        let is = |secret: &String| constant_time::verify_slices_are_equal(token.as_bytes(), secret.as_bytes()).is_ok();
        if self.secret.as_ref().is_some_and(is) { SECRET } else { INVALID }
    }
}

/// Returns the hash by which a token is ended. The signature is left out: it could be written in more than one way.
pub(crate) fn hash(token: &str) -> TokenHash {
    let signed = token.rsplit_once('.').map_or(token, |(signed, _)| signed);
    digest::digest(&digest::SHA256, signed.as_bytes()).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// Returns the key of the server's own that the header of a token names.
fn own_key(token: &str) -> Option<TokenKeyId> {
    jsonwebtoken::decode_header(token).ok()?.kid?.parse().ok()
}

async fn find_key(node: &Node, id: TokenKeyId) -> Result<Option<TokenKey>, StoreError> {
    Ok(node.read(query::TokenKeys {}).await?.into_iter().find(|key| key.id == id))
}

/// Returns the newest key, unless there is none. It is not cached: a key that was replaced must not sign any more.
async fn signing_key(node: &Node) -> Result<Option<TokenKey>, StoreError> {
    Ok(node.read(query::TokenKeys {}).await?.into_iter().find(|key| key.superseded_at.is_none()))
}

fn check_times(claims: &ClaimsIn, now: Timestamp) -> Result<(), ApiError> {
    let (now, leeway) = (now.as_secs() as f64, TOKEN_LEEWAY.as_secs_f64());
    let Some(exp) = claims.exp else {
        return Err(ApiError::unauthenticated("The token has no `exp`: sign one that expires."));
    };
    if now >= exp + leeway || claims.nbf.is_some_and(|nbf| now < nbf - leeway) {
        return Err(ApiError::unauthenticated("The token has expired, or is not valid yet."));
    }
    Ok(())
}

fn read(claims: ClaimsIn, token: &str) -> Result<Claims, ApiError> {
    let subject = claims.sub.ok_or_else(|| ApiError::unauthenticated("The token has no `sub`."))?;
    let bad = |_| ApiError::bad_request("bad_token", "The token contains an invalid id.");
    let Some(org) = claims.org else {
        return subject.parse().map(Claims::Environment).map_err(bad);
    };
    let expires_at = time(claims.exp.unwrap_or_default());
    // A token without a time of issue is older than every call that ends tokens.
    let issued_at = claims.iat.or(claims.nbf).map_or(Timestamp::default(), time);
    if claims.session_id.is_some() && expires_at > issued_at.plus(TOKEN_LIFE_MAX).plus(TOKEN_LEEWAY) {
        let detail = "The token has a `session_id` and lives for more than 7 days after its `iat`: sign a shorter one.";
        return Err(ApiError::unauthenticated(detail));
    }
    let hash = hash(token);
    Ok(Claims::Application(ApplicationClaims {
        org: org.parse().map_err(bad)?,
        id: subject.parse().map_err(bad)?,
        flags: claims.feature_flags.unwrap_or_default().into(),
        capabilities: claims
            .capabilities
            .map_or(Capabilities::ALL, |names| Capabilities::of_token(names.iter().map(String::as_str))),
        mark: TokenMark { hash, session: claims.session_id, issued_at },
        expires_at,
    }))
}

/// A number of seconds as a time; numbers out of range become the nearest time.
fn time(seconds: f64) -> Timestamp {
    Timestamp::from_micros((seconds * 1e6).round() as i64)
}

#[expect(clippy::disallowed_methods, reason = "a signing key has to be unpredictable, and no decision depends on it")]
fn random() -> TokenSecret {
    let mut bytes = [0; TOKEN_SECRET_BYTES];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    TokenSecret(bytes)
}

/// Returns a text that nobody can guess.
pub(crate) fn random_text() -> String {
    random().0.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens(redacted)")
    }
}
