//! Metrics of HTTP requests: how many, with which result, and how long they took.
//!
//! Labels are bounded: the route is the template of the path, and unknown paths and methods share one label.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use everhook_engine::node::Node;
use http::{Method, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// The buckets of durations, from 1 ms to 30 s.
const SECONDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0, 30.0];
/// The label of unknown paths and methods.
const OTHER: &str = "other";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: String,
    status: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MethodLabels {
    method: &'static str,
}

#[derive(Clone, Debug)]
pub struct HttpMetrics {
    requests: Family<RequestLabels, Counter>,
    seconds: Family<MethodLabels, Histogram>,
}

impl Default for HttpMetrics {
    fn default() -> HttpMetrics {
        let seconds = Family::new_with_constructor((|| Histogram::new(SECONDS)) as fn() -> Histogram);
        HttpMetrics { requests: Family::default(), seconds }
    }
}

impl HttpMetrics {
    /// Adds the metrics to a registry.
    pub fn register(&self, registry: &mut Registry) {
        let requests = "HTTP requests of the API that were answered, by route and class of status";
        registry.register("http_requests", requests, self.requests.clone());
        let seconds = "Time from the head of a request to the head of its response";
        registry.register_with_unit("http_request", seconds, Unit::Seconds, self.seconds.clone());
    }

    /// Counts one request, as an example for the reference of metrics.
    #[must_use]
    pub fn with_example(self) -> HttpMetrics {
        self.answered(&Method::GET, OTHER, StatusCode::OK, Duration::ZERO);
        self
    }

    fn answered(&self, method: &Method, route: &str, status: StatusCode, took: Duration) {
        let method = known(method);
        let labels = RequestLabels { method, route: route.to_owned(), status: class(status) };
        self.requests.get_or_create(&labels).inc();
        self.seconds.get_or_create(&MethodLabels { method }).observe(took.as_secs_f64());
    }
}

/// The metrics with the node whose clock measures.
pub(crate) type Observer = (HttpMetrics, Arc<Node>);

pub(crate) async fn observe(State((metrics, node)): State<Observer>, request: Request, next: Next) -> Response {
    let (begun, method) = (node.elapsed(), request.method().clone());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    // Every route exists with and without a trailing slash.
    let route = route.as_ref().map_or(OTHER, |path| path.as_str().trim_end_matches('/'));
    metrics.answered(&method, route, response.status(), node.elapsed().saturating_sub(begun));
    response
}

fn known(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => OTHER,
    }
}

fn class(status: StatusCode) -> &'static str {
    match status.as_u16() {
        100..=199 => "1xx",
        200..=299 => "2xx",
        300..=399 => "3xx",
        400..=499 => "4xx",
        _ => "5xx",
    }
}
