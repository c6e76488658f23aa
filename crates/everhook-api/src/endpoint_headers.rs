//! Headers that Everhook adds to every delivery to an endpoint.
//!
//! Three groups of headers are refused: headers that Everhook or the connection sets, headers of cloud providers, and
//! headers of the signature. Values may be credentials, so they are returned only for names known to be harmless.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use everhook_core::endpoint::Endpoint;
use everhook_core::limits::{HEADER_NAME_BYTES_MAX, HEADER_VALUE_BYTES_MAX, HEADERS_BYTES_MAX, HEADERS_MAX};
use everhook_core::violation::{self, Violation};
use http::{HeaderName, HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::endpoint_auth;
use crate::input::Input;
use crate::routes::{EmptyAnswer, Routes};
use crate::scope::{ApplicationPath, AtEndpoint, EndpointPath};

/// Headers whose values are returned. Any other header may carry a credential under a name that nobody can foresee.
const HARMLESS: [&str; 21] = [
    "accept",
    "accept-language",
    "x-api-version",
    "x-app",
    "x-application",
    "x-env",
    "x-environment",
    "x-namespace",
    "x-origin",
    "x-priority",
    "x-project",
    "x-region",
    "x-service",
    "x-source",
    "x-stage",
    "x-team",
    "x-tenant",
    "x-tenant-id",
    "x-version",
    "x-webhook-source",
    "x-webhook-version",
];

const FORBIDDEN: [&str; 30] = [
    "accept-encoding",
    "age",
    "cache-control",
    "clear-site-data",
    "connection",
    "cookie",
    "cookie2",
    "date",
    "expect",
    "expires",
    "forwarded",
    "host",
    "http2-settings",
    "idempotency-key",
    "keep-alive",
    // Metadata services of cloud machines demand these headers from programs on the machine.
    "metadata",
    "metadata-flavor",
    "pragma",
    "range",
    "set-cookie",
    "set-cookie2",
    "te",
    "trailer",
    "trailers",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "via",
    "warning",
    "x-metadata-token",
];

const FORBIDDEN_PREFIXES: [&str; 15] = [
    "content-",
    "everhook-",
    "proxy-",
    "svix-",
    "webhook-",
    "x-amz-",
    "x-amzn-",
    "x-aws-",
    "x-azure-",
    "x-fd-",
    "x-gfe",
    "x-goog-",
    "x-google",
    "x-svix-",
    "x-forwarded-",
];

/// The headers of an endpoint. They replace its current headers.
#[derive(Deserialize, ToSchema)]
pub(crate) struct EndpointHeadersIn {
    headers: BTreeMap<String, String>,
}

/// A change of the headers of an endpoint. Absent headers keep their values, and null removes a header.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndpointHeadersPatchIn {
    #[serde(default)]
    headers: BTreeMap<String, Option<String>>,
    /// Names of more headers to remove.
    #[serde(default)]
    delete_headers: Vec<String>,
}

/// The headers of an endpoint.
#[derive(Serialize, ToSchema)]
pub(crate) struct EndpointHeadersOut {
    headers: BTreeMap<String, String>,
    /// Names of headers whose values are not returned: all except some that are known to be harmless.
    sensitive: BTreeSet<String>,
}

impl EndpointHeadersOut {
    /// Shows the values of harmless headers, and the names of the others.
    pub(crate) fn of(endpoint: Endpoint) -> EndpointHeadersOut {
        let (headers, sensitive): (_, BTreeMap<_, _>) =
            endpoint.headers.into_iter().partition(|(name, _)| is_harmless(name));
        EndpointHeadersOut { headers, sensitive: sensitive.into_keys().collect() }
    }
}

pub(crate) fn routes() -> Routes {
    Routes::default().add(get, __path_get).add(put, __path_put).add(patch, __path_patch)
}

/// Get the headers of an endpoint.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/headers", operation_id = "v1.endpoint.get-headers",
    tag = "Endpoint", params(ApplicationPath, EndpointPath), responses((status = 200, body = EndpointHeadersOut))
)]
async fn get(AtEndpoint { endpoint, .. }: AtEndpoint) -> Json<EndpointHeadersOut> {
    Json(EndpointHeadersOut::of(endpoint))
}

/// Replace the headers of an endpoint.
#[utoipa::path(
    put, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/headers", operation_id = "v1.endpoint.update-headers",
    tag = "Endpoint", params(ApplicationPath, EndpointPath), request_body = EndpointHeadersIn,
    responses((status = 204))
)]
async fn put(at: AtEndpoint, input: Input) -> EmptyAnswer {
    put_at(&at, &input).await
}

/// Sets the headers of an endpoint of any application.
pub(crate) async fn put_at(at: &AtEndpoint, input: &Input) -> EmptyAnswer {
    let headers = check(input.json::<EndpointHeadersIn>()?.headers)?;
    change(at, |_| Ok(headers.clone())).await
}

/// Change the headers of an endpoint. Absent headers keep their values, and null removes a header.
#[utoipa::path(
    patch, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/headers", operation_id = "v1.endpoint.patch-headers",
    tag = "Endpoint", params(ApplicationPath, EndpointPath), request_body = EndpointHeadersPatchIn,
    responses((status = 204))
)]
async fn patch(at: AtEndpoint, input: Input) -> EmptyAnswer {
    let patch: EndpointHeadersPatchIn = input.json()?;
    check_changes(&patch)?;
    let is_touched = |name: &str| {
        patch.headers.keys().chain(&patch.delete_headers).any(|touched| touched.eq_ignore_ascii_case(name))
    };
    change(&at, |mut headers| {
        headers.retain(|name, _| !is_touched(name));
        let set = patch.headers.iter().filter_map(|(name, value)| Some((name.clone(), value.clone()?)));
        headers.extend(set);
        check(headers)
    })
    .await
}

async fn change(
    at: &AtEndpoint,
    change: impl Fn(BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Violation>,
) -> EmptyAnswer {
    let change = |mut old: Endpoint| {
        let headers = change(std::mem::take(&mut old.headers))?;
        endpoint_auth::check_headers(&headers, old.auth.as_ref())?;
        Ok(Endpoint { headers, ..old })
    };
    at.change(None, change).await.map(|_| StatusCode::NO_CONTENT)
}

/// Limits the number of changes to the number of headers that an endpoint can have. Names that cannot be headers are
/// accepted, because they remove nothing.
fn check_changes(patch: &EndpointHeadersPatchIn) -> Result<(), Violation> {
    let refuse = |field: &'static str, rule: String| Err(violation::at(field).breaks(rule));
    if patch.headers.len() > HEADERS_MAX {
        return refuse("headers", format!("must have at most {HEADERS_MAX} entries"));
    }
    if patch.delete_headers.len() > HEADERS_MAX {
        return refuse("deleteHeaders", format!("must have at most {HEADERS_MAX} entries"));
    }
    if patch.delete_headers.iter().any(|name| name.len() > HEADER_NAME_BYTES_MAX) {
        return refuse("deleteHeaders", format!("must have names of at most {HEADER_NAME_BYTES_MAX} characters"));
    }
    Ok(())
}

/// Checks headers that a request sets.
pub(crate) fn check(headers: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Violation> {
    if headers.len() > HEADERS_MAX {
        return Err(violation::at("headers").breaks(format!("must have at most {HEADERS_MAX} entries")));
    }
    if headers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() > HEADERS_BYTES_MAX {
        return Err(violation::at("headers").breaks(format!("must have at most {HEADERS_BYTES_MAX} bytes in total")));
    }
    let mut seen = BTreeSet::new();
    for (name, value) in &headers {
        let wrong = match () {
            () if name.len() > HEADER_NAME_BYTES_MAX => Some("has a name that is too long"),
            () if HeaderName::from_bytes(name.as_bytes()).is_err() => Some("is not the name of a header"),
            () if is_forbidden(name) => Some("is a header that cannot be set"),
            () if !seen.insert(name.to_ascii_lowercase()) => Some("is a duplicate that differs only in case"),
            () if value.len() > HEADER_VALUE_BYTES_MAX => Some("has a value that is too long"),
            () if HeaderValue::from_str(value).is_err() => Some("has a value with control characters"),
            () => None,
        };
        if let Some(wrong) = wrong {
            return Err(violation::at("headers").member(name.clone()).breaks(wrong));
        }
    }
    Ok(headers)
}

fn is_forbidden(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    FORBIDDEN.contains(&&*name) || FORBIDDEN_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether the value of a header may be shown.
pub(crate) fn is_harmless(name: &str) -> bool {
    HARMLESS.iter().any(|listed| listed.eq_ignore_ascii_case(name))
}
