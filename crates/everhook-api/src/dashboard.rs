//! The dashboard: the files of `web/dist`, compiled in.
//!
//! Every path that no other route has answers with the page, which shows the screen of the path. Only browsers get it:
//! a program that asks for an unknown path gets a JSON error.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{Method, StatusCode, Uri};
use rust_embed::{Embed, EmbeddedFile};

use crate::error::ApiError;
use crate::state::Api;

#[derive(Embed)]
#[folder = "../../web/dist"]
struct Files;

const PAGE: &str = "index.html";
/// The beginnings of paths that are not screens of the dashboard.
const OTHERS: [&str; 4] = ["/api/", "/auth/", "/docs/", "/metrics"];

/// No inline scripts or styles, and nothing from elsewhere. The sites that may frame the page follow.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors ";
/// The beginning of the paths of portals, the only screens that other sites may frame.
const PORTAL: &str = "/portal/";

/// Answers a request that no route has.
pub(crate) async fn fallback(State(api): State<Arc<Api>>, method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path();
    let is_read = matches!(method, Method::GET | Method::HEAD);
    if is_read && let Some(found) = Files::get(path.trim_start_matches('/')) {
        return file(&api, path, found);
    }
    let accepts_html =
        headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).is_some_and(|accept| accept.contains("text/html"));
    let is_screen = is_read && accepts_html && !OTHERS.iter().any(|other| path.starts_with(other));
    match Files::get(PAGE) {
        Some(page) if is_screen || is_read && path == "/" => file(&api, path, page),
        _ => ApiError::new(StatusCode::NOT_FOUND, "not_found", format!("route {path} not found")).into_response(),
    }
}

fn file(api: &Api, path: &str, file: EmbeddedFile) -> Response {
    // The names in this folder contain a hash of the content.
    let cache = if path.starts_with("/assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
    let framed_by = match &*api.config.embed_origins {
        [_, ..] if path.starts_with(PORTAL) => api.config.embed_origins.join(" "),
        _ => "'none'".to_owned(),
    };
    let headers = [
        (CONTENT_TYPE, file.metadata.mimetype().to_owned()),
        (CONTENT_SECURITY_POLICY, format!("{POLICY}{framed_by}")),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (REFERRER_POLICY, "no-referrer".to_owned()),
        (CACHE_CONTROL, cache.to_owned()),
    ];
    (headers, file.data).into_response()
}
