//! The documentation of the API at `/docs`: a page that shows the OpenAPI document.
//!
//! All files are compiled in, and the page may load nothing from elsewhere. It needs no key: the document is public,
//! and the page sends no other request.

use std::sync::Arc;

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::get;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};

use crate::state::Api;

const PAGE: &str = include_str!("../assets/docs/index.html");
const STYLE: &str = include_str!("../assets/docs/viewer.css");
const SCRIPT: &str = include_str!("../assets/docs/viewer.js");

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

pub(crate) fn routes() -> Router<Arc<Api>> {
    let page = get(|| async { file("text/html; charset=utf-8", PAGE) });
    Router::new()
        .route("/docs", page.clone())
        .route("/docs/", page)
        .route("/docs/viewer.css", get(|| async { file("text/css; charset=utf-8", STYLE) }))
        .route("/docs/viewer.js", get(|| async { file("text/javascript; charset=utf-8", SCRIPT) }))
}

fn file(kind: &'static str, content: &'static str) -> impl IntoResponse {
    let headers: [(HeaderName, &'static str); 5] = [
        (CONTENT_TYPE, kind),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        // A new binary may have other files under the same names.
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, content)
}
