//! Metrics of HTTP requests: how many, with which result, and how long they took.
//!
//! Labels are bounded: the route is the template of the path, and unknown paths and methods share one label.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::extract::{MatchedPath, Request};
use axum::response::Response;
use everhook_engine::node::Node;
use http::{Method, StatusCode};
use pin_project_lite::pin_project;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tower::{Layer, Service};

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
        self.answered("GET", OTHER, StatusCode::OK, Duration::ZERO);
        self
    }

    fn answered(&self, method: &'static str, route: &str, status: StatusCode, took: Duration) {
        let labels = RequestLabels { method, route: route.to_owned(), status: class(status) };
        self.requests.get_or_create(&labels).inc();
        self.seconds.get_or_create(&MethodLabels { method }).observe(took.as_secs_f64());
    }
}

/// Counts the requests of all routes.
///
/// A layer of its own and no function of axum's: it lies around every route, and such a function would allocate twice
/// for each request.
#[derive(Clone)]
pub(crate) struct Observe(Arc<Observer>);

struct Observer {
    metrics: HttpMetrics,
    /// The node whose clock measures.
    node: Arc<Node>,
}

impl Observe {
    /// Adds the metrics to those of the node.
    pub(crate) fn new(node: Arc<Node>) -> Observe {
        let metrics = HttpMetrics::default();
        node.add_metrics(|registry| metrics.register(registry));
        Observe(Arc::new(Observer { metrics, node }))
    }
}

impl<S> Layer<S> for Observe {
    type Service = Observed<S>;

    fn layer(&self, inner: S) -> Observed<S> {
        Observed { inner, observe: self.clone() }
    }
}

#[derive(Clone)]
pub(crate) struct Observed<S> {
    inner: S,
    observe: Observe,
}

impl<S: Service<Request, Response = Response>> Service<Request> for Observed<S> {
    type Response = Response;
    type Error = S::Error;
    type Future = Observing<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Observing<S::Future> {
        let begun = self.observe.0.node.elapsed();
        let method = known(request.method());
        let route = request.extensions().get::<MatchedPath>().cloned();
        Observing { answer: self.inner.call(request), observe: self.observe.clone(), begun, method, route }
    }
}

pin_project! {
    /// A request that is being answered.
    pub(crate) struct Observing<F> {
        #[pin]
        answer: F,
        observe: Observe,
        begun: Duration,
        method: &'static str,
        route: Option<MatchedPath>,
    }
}

impl<F: Future<Output = Result<Response, E>>, E> Future for Observing<F> {
    type Output = Result<Response, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Response, E>> {
        let this = self.project();
        let response = ready!(this.answer.poll(context))?;
        // Every route exists with and without a trailing slash.
        let route = this.route.as_ref().map_or(OTHER, |path| path.as_str().trim_end_matches('/'));
        let Observer { metrics, node } = &*this.observe.0;
        let took = node.elapsed().saturating_sub(*this.begun);
        metrics.answered(this.method, route, response.status(), took);
        Poll::Ready(Ok(response))
    }
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
