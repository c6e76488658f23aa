//! The router with every route, with and without a trailing slash.
//!
//! The path and method of a route come from the description at its handler, so that the OpenAPI document always matches
//! the served routes.

use std::pin::Pin;
use std::sync::Arc;

use axum::extract::Request;
use axum::handler::Handler;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, get, on};
use axum::{Json, Router};
use everhook_engine::node::Node;
use http::StatusCode;
use tower_http::compression::CompressionLayer;
use utoipa::openapi::path::{HttpMethod, Operation, PathItem};
use utoipa::openapi::schema::Schema;
use utoipa::openapi::{Paths, RefOr};

use crate::access;
use crate::audit::Audited;
use crate::error::ApiError;
use crate::http_metrics::Observe;
use crate::idempotency::{self, Keyed};
use crate::state::{Api, ApiConfig};
use crate::strict::{self, Known, KnownByRoute};
use crate::{
    alert, application, attempt, audit, background_task, batch, bounds, chat, chat_app, configuration, cors, dashboard,
    delivery, delivery_steer, destination, directory, document, endpoint, endpoint_auth, endpoint_headers,
    endpoint_message, endpoint_replay, endpoint_secret, endpoint_stats, environment, event_type, event_type_import,
    example, failure_group, filter, health, integration, job, job_end, key, live, message, message_batch,
    message_content, node, once, operational_webhook, outbox, overview, policy, policy_levels, poller, portal,
    portal_settings, precheck, queue, quota, redrive, schedule, session, statistics, token_end, viewer, webhook_test,
    worker,
};

/// Returns all routes of the API and the documentation. A worker node serves only health checks and metrics.
pub fn router(node: Arc<Node>, config: ApiConfig) -> Router {
    let Routes { router, own_router, own, .. } = all();
    let cors = cors::layer(config.cors_origins.clone());
    let api = Arc::new(Api::new(node, own, config));
    if !api.node.role().accepts() {
        return health::routes()
            .router
            .route("/metrics", get(health::metrics))
            .fallback(not_served_here)
            .with_state(api);
    }
    let observe = Observe::new(Arc::clone(&api.node));
    router
        .merge(own_router.layer(from_fn_with_state(Arc::clone(&api), strict::check)))
        .route("/metrics", get(health::metrics))
        .merge(viewer::routes())
        .merge(session::routes())
        .merge(live::routes())
        .route("/api/v1/openapi.json", get(document::serve))
        .fallback(dashboard::fallback.layer(CompressionLayer::new()))
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(api)
        // One layer for both, because each layer allocates for each request.
        .layer((cors, observe))
}

/// Collects the routes of all resources.
pub(crate) fn all() -> Routes {
    application::routes()
        .merge(endpoint::routes())
        .merge(endpoint_headers::routes())
        .merge(endpoint_auth::routes())
        .merge(endpoint_secret::routes())
        .merge(endpoint_replay::routes())
        .merge(event_type::routes())
        .merge(event_type_import::routes())
        .merge(environment::routes())
        .merge(policy::routes())
        .merge(policy_levels::routes())
        .merge(filter::routes())
        .merge(chat::routes())
        .merge(webhook_test::routes())
        .merge(message::routes())
        .merge(message_batch::routes())
        .merge(precheck::routes())
        .merge(poller::routes())
        .merge(example::routes())
        .merge(message_content::routes())
        .merge(once::routes())
        .merge(attempt::routes())
        .merge(destination::routes())
        .merge(endpoint_message::routes())
        .merge(endpoint_stats::routes())
        .merge(delivery::routes())
        .merge(delivery_steer::routes())
        .merge(redrive::routes())
        .merge(operational_webhook::routes())
        .merge(alert::routes())
        .merge(background_task::routes())
        .merge(statistics::routes())
        .merge(portal::routes())
        .merge(portal_settings::routes())
        .merge(quota::routes())
        .merge(chat_app::routes())
        .merge(token_end::routes())
        .merge(integration::routes())
        .merge(key::routes())
        .merge(audit::routes())
        .merge(node::routes())
        .merge(configuration::routes())
        .merge(overview::routes())
        .merge(directory::routes())
        .merge(failure_group::routes())
        .merge(outbox::routes())
        .merge(job::routes())
        .merge(job_end::routes())
        .merge(worker::routes())
        .merge(queue::routes())
        .merge(batch::routes())
        .merge(schedule::routes())
        .merge(health::routes())
}

async fn not_served_here() -> impl IntoResponse {
    let detail = "This node is a worker: it serves /api/v1/health and /metrics only. Send this to a node with the role api or all.";
    ApiError::new(StatusCode::NOT_FOUND, "worker", detail)
}

async fn method_not_allowed() -> impl IntoResponse {
    let detail = "The route does not take this method.";
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}

/// Routes with their OpenAPI descriptions.
#[derive(Default)]
pub(crate) struct Routes {
    pub(crate) router: Router<Arc<Api>>,
    /// Everhook's own routes, which refuse unknown parameters and fields.
    own_router: Router<Arc<Api>>,
    own: KnownByRoute,
    pub(crate) paths: Paths,
    /// Adds the schemas of one route each. Only the document needs them, so a server does not build them when it
    /// starts.
    pub(crate) schemas: Vec<AddSchemas>,
}

/// Adds named schemas to a list.
pub(crate) type AddSchemas = fn(&mut Vec<(String, RefOr<Schema>)>);

/// The routes of handlers, each with the description that `#[utoipa::path]` made of it.
macro_rules! routes_of {
    ($($handler:ident $description:ident),+ $(,)?) => {
        $crate::routes::Routes::default()$(.add($handler, $description))+
    };
}
pub(crate) use routes_of;

/// The description of a handler, generated by `#[utoipa::path]`.
pub(crate) trait Description:
    utoipa::Path + utoipa::__dev::SchemaReferences + for<'t> utoipa::__dev::Tags<'t>
{
}

impl<D: utoipa::Path + utoipa::__dev::SchemaReferences + for<'t> utoipa::__dev::Tags<'t>> Description for D {}

/// The answer of a handler: a representation with status 200, or an error.
pub(crate) type Answer<O> = Result<Json<O>, ApiError>;

/// The answer of a handler that chooses the status.
pub(crate) type StatusAnswer<O> = Result<(StatusCode, Json<O>), ApiError>;

/// The answer of a handler: a status without a body.
pub(crate) type EmptyAnswer = Result<StatusCode, ApiError>;

/// The future of a handler.
pub(crate) type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

/// A handler whose type is erased. What wraps handlers and enters them in the router is then compiled once, and not
/// again for each of two hundred handlers.
#[derive(Clone)]
pub(crate) struct AnyHandler(Arc<dyn Fn(Request, Arc<Api>) -> Answering + Send + Sync>);

impl AnyHandler {
    fn of<T: 'static, H: Handler<T, Arc<Api>, Future = Answering>>(handler: H) -> AnyHandler {
        AnyHandler(Arc::new(move |request, api| handler.clone().call(request, api)))
    }
}

impl Handler<(), Arc<Api>> for AnyHandler {
    type Future = Answering;

    fn call(self, request: Request, api: Arc<Api>) -> Answering {
        (self.0)(request, api)
    }
}

/// The description of a handler as a value.
struct Described {
    path: String,
    methods: Vec<HttpMethod>,
    operation: Operation,
    schemas: AddSchemas,
}

impl Described {
    fn of<D: Description>() -> Described {
        let mut operation = D::operation();
        operation.tags = Some(D::tags().into_iter().map(str::to_owned).collect());
        Described { path: D::path(), methods: D::methods(), operation, schemas: D::schemas }
    }
}

impl Routes {
    /// Adds a route that needs a caller, with the failures of all such routes.
    pub(crate) fn add<T, D>(self, handler: impl Handler<T, Arc<Api>, Future = Answering>, _description: D) -> Routes
    where
        T: 'static,
        D: Description,
    {
        self.add_guarded(AnyHandler::of(handler), Described::of::<D>())
    }

    /// Adds a route without authentication.
    pub(crate) fn add_open<T, D>(
        self,
        handler: impl Handler<T, Arc<Api>, Future = Answering>,
        _description: D,
    ) -> Routes
    where
        T: 'static,
        D: Description,
    {
        let handler = AnyHandler::of(handler);
        self.insert(Described::of::<D>(), document::without_security, |filter| on(filter, handler.clone()))
    }

    fn add_guarded(self, handler: AnyHandler, described: Described) -> Routes {
        let path = &described.path;
        let action = described.operation.operation_id.as_ref().unwrap_or(path).as_str().into();
        let is_keyed = described.methods.contains(&HttpMethod::Post) && !idempotency::deduplicates(path);
        let is_audited = described.methods.iter().any(|method| access::is_audited(name(method), path));
        let handler = if is_audited { AnyHandler::of(Audited { handler, action }) } else { handler };
        self.insert(described, document::add_failures, |filter| match is_keyed {
            true => on(filter, Keyed(handler.clone())),
            false => on(filter, handler.clone()),
        })
    }

    fn insert(
        mut self,
        described: Described,
        finish: fn(&mut Operation),
        route: impl Fn(MethodFilter) -> MethodRouter<Arc<Api>>,
    ) -> Routes {
        let Described { path, methods, mut operation, schemas } = described;
        finish(&mut operation);
        document::describe_responses(&mut operation);
        if methods.contains(&HttpMethod::Post) && !idempotency::refuses(&path) {
            document::add_idempotency_key(&mut operation);
        }
        if methods.contains(&HttpMethod::Patch) {
            document::require_body(&mut operation);
        }
        bounds::add_to_parameters(&mut operation);
        self.schemas.push(schemas);
        for method in methods {
            let route = route(filter(&method));
            match Known::of(&operation) {
                Some(known) => {
                    self.own.insert((name(&method), path.clone()), known);
                    self.own_router = self.own_router.route(&path, route.clone()).route(&format!("{path}/"), route);
                }
                None => self.router = self.router.route(&path, route.clone()).route(&format!("{path}/"), route),
            }
            let mut operation = operation.clone();
            document::add_capability(&mut operation, access::needed(name(&method), &path));
            if operation.security.is_none() {
                document::add_right(&mut operation, access::right(name(&method), &path));
            }
            let item = PathItem::new(method, operation);
            match self.paths.paths.get_mut(&path) {
                Some(known) => known.merge_operations(item),
                None => {
                    self.paths.paths.insert(path.clone(), item);
                }
            }
        }
        self
    }

    fn merge(mut self, other: Routes) -> Routes {
        self.router = self.router.merge(other.router);
        self.own_router = self.own_router.merge(other.own_router);
        self.own.extend(other.own);
        self.paths.merge(other.paths);
        self.schemas.extend(other.schemas);
        self
    }
}

fn name(method: &HttpMethod) -> &'static str {
    match method {
        HttpMethod::Get => "GET",
        HttpMethod::Post => "POST",
        HttpMethod::Put => "PUT",
        HttpMethod::Delete => "DELETE",
        HttpMethod::Options => "OPTIONS",
        HttpMethod::Head => "HEAD",
        HttpMethod::Patch => "PATCH",
        HttpMethod::Trace => "TRACE",
    }
}

fn filter(method: &HttpMethod) -> MethodFilter {
    match method {
        HttpMethod::Get => MethodFilter::GET,
        HttpMethod::Post => MethodFilter::POST,
        HttpMethod::Put => MethodFilter::PUT,
        HttpMethod::Delete => MethodFilter::DELETE,
        HttpMethod::Options => MethodFilter::OPTIONS,
        HttpMethod::Head => MethodFilter::HEAD,
        HttpMethod::Patch => MethodFilter::PATCH,
        HttpMethod::Trace => MethodFilter::TRACE,
    }
}
