//! The idempotency key of POST requests whose handlers do not deduplicate by themselves.
//!
//! A request with a key claims it in the store before its handler runs, and stores its answer afterwards, so that all
//! replicas repeat the answer for 12 hours. Only successful answers are stored: a request that failed may be sent
//! again. Requests without a key pay nothing. Creations take their key inside their own transaction instead, which even
//! a crash cannot separate from the work.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{FromRequestParts, Request};
use axum::handler::Handler;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use everhook_core::id::Id;
use everhook_core::scope::Scope;
use everhook_store::dedup::DedupKey;
use everhook_store::request::{RequestAnswer, RequestClaim, RequestEnd};
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use tracing::warn;

use crate::auth::{Caller, Rights};
use crate::error::ApiError;
use crate::input;
use crate::limits::{ANSWER_BYTES_MAX, ANSWER_POLL, ANSWER_WAIT};
use crate::routes::{Answering, AnyHandler};
use crate::state::Api;

/// The routes whose handlers take the key inside the transaction of their work.
const DEDUPLICATING: [&str; 13] = [
    "/api/v1/app",
    "/api/v1/app/{app_id}/destination",
    "/api/v1/app/{app_id}/endpoint",
    "/api/v1/app/{app_id}/endpoint/{endpoint_id}/secret/rotate",
    "/api/v1/app/{app_id}/endpoint/{endpoint_id}/send-example",
    "/api/v1/app/{app_id}/msg",
    "/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/resend",
    "/api/v1/batch",
    "/api/v1/batch/{batch_id}/job",
    "/api/v1/event-type",
    "/api/v1/job",
    "/api/v1/job/bulk",
    "/api/v1/schedule",
];

/// Routes whose answers contain a new key. An answer that is stored to be repeated would keep the key readable.
const UNREPEATABLE: [&str; 1] = ["/api/v1/key"];

/// Returns whether the route refuses an idempotency key.
pub(crate) fn refuses(path: &str) -> bool {
    UNREPEATABLE.contains(&path)
}

/// Returns whether the POST handler of this path deduplicates by itself.
pub(crate) fn deduplicates(path: &str) -> bool {
    DEDUPLICATING.contains(&path) || refuses(path)
}

/// A handler whose answers are stored under the key of the request.
#[derive(Clone)]
pub(crate) struct Keyed(pub(crate) AnyHandler);

impl Handler<(), Arc<Api>> for Keyed {
    type Future = Answering;

    fn call(self, request: Request, api: Arc<Api>) -> Answering {
        Box::pin(async move {
            if !request.headers().contains_key("idempotency-key") {
                return self.0.call(request, api).await;
            }
            run(self.0, request, api).await.unwrap_or_else(IntoResponse::into_response)
        })
    }
}

/// The key that a request holds.
struct Held {
    scope: Scope,
    key: DedupKey,
    holder: Id,
}

async fn run(handler: AnyHandler, request: Request, api: Arc<Api>) -> Result<Response, ApiError> {
    let (mut parts, body) = request.into_parts();
    let Some(header) = input::idempotency_key(&parts)?.map(str::to_owned) else {
        return Ok(handler.call(Request::from_parts(parts, body), api).await);
    };
    let caller = Caller::from_request_parts(&mut parts, &api).await?;
    let bytes = input::read_in_time(&parts, body).await?;
    let key = key_of(&parts, &caller, &header, &bytes);
    let held = Held { scope: caller.scope(), key, holder: api.new_id() };
    if let Some(answer) = claim(&api, &held).await? {
        return repeat(answer);
    }
    let answer = handler.call(Request::from_parts(parts, Body::from(bytes)), Arc::clone(&api)).await;
    finish(&api, held, answer).await
}

/// The key of a request. The token of an application has keys of its own, so that it gets no answer of another caller.
fn key_of(parts: &Parts, caller: &Caller, header: &str, body: &[u8]) -> DedupKey {
    let path = parts.uri.path_and_query().map_or("", |path| path.as_str());
    match &caller.rights {
        Rights::Admin | Rights::Environment(_) => DedupKey::request(parts.method.as_str(), path, header, body),
        Rights::Application { id, .. } => {
            DedupKey::request(parts.method.as_str(), &format!("{id} {path}"), header, body)
        }
    }
}

/// Claims a key, or waits for the answer of the same request. Returns none if the key was claimed.
async fn claim(api: &Api, held: &Held) -> Result<Option<RequestAnswer>, ApiError> {
    let mut waited = Duration::ZERO;
    loop {
        match api.node.claim_request(held.scope, held.key.clone(), held.holder).await? {
            RequestClaim::Won => return Ok(None),
            RequestClaim::Answered(answer) => return Ok(Some(answer)),
            RequestClaim::Reused => return Err(ApiError::key_reused()),
            RequestClaim::Running if waited >= ANSWER_WAIT => {
                let detail = "The same request is still running: try again in a few seconds, with the same key.";
                return Err(ApiError::new(StatusCode::CONFLICT, "request_in_progress", detail));
            }
            RequestClaim::Running => tokio::time::sleep(ANSWER_POLL).await,
        }
        waited += ANSWER_POLL;
    }
}

fn repeat(RequestAnswer { status, body }: RequestAnswer) -> Result<Response, ApiError> {
    let Some(body) = body else {
        let detail = "The same request was done before, but its answer was too large to be kept.";
        return Err(ApiError::new(StatusCode::CONFLICT, "answer_not_kept", detail));
    };
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    if body.is_empty() {
        return Ok(status.into_response());
    }
    Ok((status, [(CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response())
}

/// Stores a successful answer. After a failure the key is free again.
async fn finish(api: &Api, held: Held, answer: Response) -> Result<Response, ApiError> {
    let (head, body) = answer.into_parts();
    let failed = |_| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", "Internal Server Error");
    let body: Bytes = to_bytes(body, usize::MAX).await.map_err(failed)?;
    let answer = head.status.is_success().then(|| RequestAnswer {
        status: head.status.as_u16(),
        body: (body.len() <= ANSWER_BYTES_MAX).then(|| body.clone()),
    });
    let end = RequestEnd { key: held.key, holder: held.holder, answer };
    if let Err(error) = api.node.finish_request(held.scope, end).await {
        // The work is done, so that its answer counts. The key stays claimed until the claim expires.
        warn!(error = &error as &dyn std::error::Error, "could not store the answer of a request");
    }
    Ok(Response::from_parts(head, Body::from(body)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes;

    #[test]
    fn every_deduplicating_route_exists() {
        let paths = routes::all().paths.paths;
        for path in DEDUPLICATING {
            assert!(paths.get(path).is_some_and(|item| item.post.is_some()), "{path}");
        }
    }
}
