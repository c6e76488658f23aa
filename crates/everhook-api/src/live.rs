//! Live updates of the dashboard: hints that the environment of a session changed, as server-sent events.
//!
//! A hint has no content: the page reads its lists again. Pages poll as well, because a hint tells only about changes
//! on this node. A stream ends with its session, with the key of the session, and when the node stops. The route is not
//! part of the API document: it is for the dashboard, and it does not end by itself.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use everhook_engine::activity::ActivityWatch;
use futures_util::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, Method, StatusCode};
use tokio::time::sleep;

use crate::auth;
use crate::error::ApiError;
use crate::limits::{LIVE_CHECK, LIVE_PAUSE, LIVE_STREAMS_MAX, LIVE_TICK};
use crate::state::Api;

const BEGIN: Bytes = Bytes::from_static(b"retry: 5000\nevent: ready\ndata: {}\n\n");
const CHANGE: Bytes = Bytes::from_static(b"event: change\ndata: {}\n\n");
/// A comment. It finds connections that are gone.
const ALIVE: Bytes = Bytes::from_static(b": alive\n\n");
const END: Bytes = Bytes::from_static(b"event: end\ndata: {}\n\n");

pub(crate) fn routes() -> Router<Arc<Api>> {
    Router::new().route("/auth/stream", get(stream))
}

/// The number of open streams of this node.
#[derive(Debug, Default)]
pub(crate) struct LiveStreams(Arc<AtomicUsize>);

/// One of the streams that a node may have.
#[derive(Debug)]
struct Place(Arc<AtomicUsize>);

impl LiveStreams {
    fn take(&self) -> Option<Place> {
        let add = |open: usize| (open < LIVE_STREAMS_MAX).then_some(open + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok().map(|_| Place(Arc::clone(&self.0)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Live {
    api: Arc<Api>,
    headers: HeaderMap,
    watch: ActivityWatch,
    /// The node's time of the last check.
    checked: Duration,
    state: LiveState,
    _place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LiveState {
    Begins,
    Runs,
    Ended,
}

async fn stream(State(api): State<Arc<Api>>, method: Method, headers: HeaderMap) -> Result<Response, ApiError> {
    let caller = auth::by_session(&api, &method, &headers).await?;
    let Some(place) = api.live.take() else {
        let detail = "This node has too many live pages: they refresh by polling.";
        return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_streams", detail));
    };
    let watch = api.node.watch(caller.environment);
    let checked = api.node.elapsed();
    let live = Live { api, headers, watch, checked, state: LiveState::Begins, _place: place };
    let body = Body::from_stream(stream::unfold(live, |live| async {
        let (bytes, live) = live.next().await?;
        Some((Ok::<Bytes, Infallible>(bytes), live))
    }));
    Ok(([(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")], body).into_response())
}

impl Live {
    /// Waits for the next event; returns none after the last one.
    async fn next(mut self) -> Option<(Bytes, Live)> {
        match self.state {
            LiveState::Ended => return None,
            LiveState::Begins => {
                self.state = LiveState::Runs;
                return Some((BEGIN, self));
            }
            LiveState::Runs => {}
        }
        loop {
            let is_change = tokio::select! {
                () = self.watch.changed() => true,
                () = sleep(LIVE_TICK) => false,
            };
            let is_check = self.api.node.elapsed().saturating_sub(self.checked) >= LIVE_CHECK;
            if self.api.node.ready().is_err() || is_check && !self.is_allowed().await {
                self.state = LiveState::Ended;
                return Some((END, self));
            }
            if is_change {
                // Changes that follow closely become one hint.
                sleep(LIVE_PAUSE).await;
                return Some((CHANGE, self));
            }
            if is_check {
                return Some((ALIVE, self));
            }
        }
    }

    /// Whether the session and its key are still valid. A store that does not answer ends the stream: the page asks
    /// again.
    async fn is_allowed(&mut self) -> bool {
        self.checked = self.api.node.elapsed();
        auth::by_session(&self.api, &Method::GET, &self.headers).await.is_ok()
    }
}
