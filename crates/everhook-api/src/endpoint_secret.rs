//! The secret that an endpoint's deliveries are signed with. Only its own route returns it; lists and logs never do.

use std::time::Duration;

use axum::Json;
use everhook_core::endpoint::Endpoint;
use everhook_core::signing::{BadSigningKey, SignatureKind, SigningKey, SigningKeys};
use everhook_core::violation::{self, Violation};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error::ApiError;
use crate::input::Input;
use crate::limits::{ROTATE_GRACE_DEFAULT, ROTATE_GRACE_MAX};
use crate::routes::{Answer, Routes};
use crate::scope::{ApplicationPath, AtEndpoint, EndpointPath};

/// The key that receivers verify signatures with.
#[derive(Serialize, ToSchema)]
pub(crate) struct EndpointSecretOut {
    /// The secret, or the public key of an ed25519 key pair.
    #[schema(example = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")]
    key: String,
}

/// A request to rotate the secret.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndpointSecretRotateIn {
    /// The new secret. Default: a random secret.
    key: Option<String>,
    /// Seconds for which deliveries are also signed with the old secret. Default: 86400 (one day).
    #[schema(minimum = 0, maximum = 604_800)]
    grace_period_seconds: Option<u64>,
}

pub(crate) fn routes() -> Routes {
    Routes::default().add(get, __path_get).add(rotate, __path_rotate)
}

/// Get the secret of an endpoint.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/secret", operation_id = "v1.endpoint.get-secret",
    tag = "Endpoint", params(ApplicationPath, EndpointPath), responses((status = 200, body = EndpointSecretOut))
)]
async fn get(AtEndpoint { endpoint, .. }: AtEndpoint) -> Json<EndpointSecretOut> {
    Json(EndpointSecretOut::of(&endpoint.keys))
}

/// Rotate the secret of an endpoint and return the new secret. Deliveries are signed with both secrets for a while.
///
/// Client libraries from 2.9 on read the secret from the response. Older libraries ignore the body.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/secret/rotate",
    operation_id = "v1.endpoint.rotate-secret", tag = "Endpoint",
    params(ApplicationPath, EndpointPath), request_body = EndpointSecretRotateIn,
    responses((status = 200, body = EndpointSecretOut))
)]
async fn rotate(at: AtEndpoint, input: Input) -> Answer<EndpointSecretOut> {
    rotate_at(&at, &input).await
}

/// Rotates the secret of an endpoint of any application.
pub(crate) async fn rotate_at(at: &AtEndpoint, input: &Input) -> Answer<EndpointSecretOut> {
    let wanted: EndpointSecretRotateIn = input.json()?;
    let grace = wanted.grace_period_seconds.map_or(ROTATE_GRACE_DEFAULT, Duration::from_secs);
    if grace > ROTATE_GRACE_MAX {
        let rule = format!("must be at most {}", ROTATE_GRACE_MAX.as_secs());
        return Err(violation::at("gracePeriodSeconds").breaks(rule).into());
    }
    // The receivers of the endpoint verify this kind of signature.
    let key = match wanted.key {
        Some(text) => given("key", &text)?,
        None => random(at.endpoint.keys.current.kind()),
    };
    let now = at.api.now();
    let change = |old: Endpoint| {
        let rotated = old.keys.rotate(key.clone(), grace, now);
        let keys = rotated.map_err(|error| ApiError::limit_reached(error.to_string()))?;
        Ok(Endpoint { keys, ..old })
    };
    Ok(Json(EndpointSecretOut::of(&at.change(input.key.as_ref(), change).await?.keys)))
}

impl EndpointSecretOut {
    pub(crate) fn of(keys: &SigningKeys) -> EndpointSecretOut {
        EndpointSecretOut { key: keys.current.shared() }
    }
}

/// Parses the secret in a field of the body.
pub(crate) fn given(field: &'static str, text: &str) -> Result<SigningKey, Violation> {
    violation::at(field).member("__all__").check(parse(text))
}

/// Parses a secret. Clients may leave the prefix out: a text without a known prefix is a shared secret.
fn parse(text: &str) -> Result<SigningKey, BadSigningKey> {
    match text.parse() {
        Err(BadSigningKey::Prefix) => format!("whsec_{text}").parse(),
        parsed => parsed,
    }
}

#[expect(clippy::disallowed_methods, reason = "a secret has to be unpredictable, and no decision depends on it")]
pub(crate) fn random(kind: SignatureKind) -> SigningKey {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    kind.generate(bytes)
}
