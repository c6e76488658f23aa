//! Calls from pages of other origins (CORS).
//!
//! Pages in browsers hold application tokens, so only the routes that such tokens may use answer other origins. Keys of
//! an environment belong on servers: routes that need one stay closed to pages. Cookies are never accepted from other
//! origins.

use std::time::Duration;

use http::header::ACCESS_CONTROL_REQUEST_METHOD;
use http::request::Parts;
use http::{HeaderValue, Method};
use tower_http::cors::{AllowHeaders, AllowOrigin, Any, CorsLayer};

use crate::access;

/// Time for which a browser may cache the answer to a preflight request.
const MAX_AGE: Duration = Duration::from_secs(600);
/// The origin in the settings that means every origin.
const EVERY: &str = "*";

/// Returns the layer for these origins. No origins: pages of other origins cannot call.
pub(crate) fn layer(origins: Vec<String>) -> CorsLayer {
    let is_allowed = move |origin: &HeaderValue, parts: &Parts| {
        let is_listed = |listed: &String| listed == EVERY || listed.as_bytes() == origin.as_bytes();
        origins.iter().any(is_listed) && is_open(parts)
    };
    CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(is_allowed))
        .allow_methods(Any)
        .allow_headers(AllowHeaders::mirror_request())
        .max_age(MAX_AGE)
}

/// Whether application tokens may use the route. A preflight request names the method of the request that follows.
fn is_open(parts: &Parts) -> bool {
    let asked = parts.headers.get(ACCESS_CONTROL_REQUEST_METHOD).and_then(|method| method.to_str().ok());
    let method = match (&parts.method, asked) {
        (&Method::OPTIONS, Some(asked)) => asked,
        (method, _) => method.as_str(),
    };
    access::is_for_tokens(method, parts.uri.path())
}
