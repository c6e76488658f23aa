//! Objects of all applications: the endpoints of an environment, and the object that has an id.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use everhook_core::endpoint::{EndpointKey, EndpointState};
use everhook_core::failing::Failing;
use everhook_core::id::{
    ApplicationId, BackgroundTaskId, BatchId, EndpointId, EnvironmentId, JobId, MessageId, SERVER_ENVIRONMENT,
};
use everhook_core::name::Name;
use everhook_core::scope::Scope;
use everhook_store::catalog::{Locator, Order};
use everhook_store::directory::PlacedEndpoint;
use everhook_store::query;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::background_task::is_task_of;
use crate::endpoint::EndpointOut;
use crate::error::ApiError;
use crate::page::{Cursor, OrderParams, Page, PageParams};
use crate::query::Query;
use crate::routes::Routes;
use crate::scope::{InEnvironment, PathParams, named};
use crate::state::Api;

/// An endpoint with its application.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlacedEndpointOut {
    #[serde(flatten)]
    endpoint: EndpointOut,
    #[schema(value_type = String)]
    app_id: ApplicationId,
    /// The name of the application.
    app_name: String,
    /// The uid of the application.
    #[schema(value_type = Option<String>)]
    app_uid: Option<Name>,
    /// `enabled`, `disabled` or `gone`.
    #[schema(value_type = String)]
    state: &'static str,
    /// Why the endpoint gets no deliveries: `user` disabled it, the `receiver` answered 410, or all attempts were
    /// `failures` for too long. Null if it is enabled.
    #[schema(value_type = Option<String>)]
    reason: Option<&'static str>,
}

/// The object that has an id.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LookupOut {
    /// `application`, `endpoint`, `message`, `job`, `batch` or `backgroundTask`.
    #[schema(value_type = String)]
    kind: &'static str,
    id: String,
    /// The application of an endpoint or a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    app_id: Option<ApplicationId>,
    /// The path of the route that returns the object.
    path: String,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct LookupPath {
    /// The id of an application, endpoint, message, job, batch or background task.
    id: String,
}

pub(crate) fn routes() -> Routes {
    Routes::default().add(list_endpoints, __path_list_endpoints).add(lookup, __path_lookup)
}

/// List the endpoints of all applications, ordered by application and id.
#[utoipa::path(
    get, path = "/api/v1/endpoint", operation_id = "v1.overview.list-endpoints", tag = "Overview",
    params(PageParams, OrderParams), responses((status = 200, body = Page<PlacedEndpointOut>))
)]
async fn list_endpoints(
    State(api): State<Arc<Api>>,
    InEnvironment { environment }: InEnvironment,
    Query(page): Query<PageParams>,
    Query(order): Query<OrderParams>,
) -> Result<Json<Page<PlacedEndpointOut>>, ApiError> {
    let cursor: Cursor<EndpointKey> = Cursor::new(&page, order.or(Order::Descending))?;
    let rows = api.read(query::AllEndpoints { scope: Scope::of(environment), slice: cursor.slice() }).await?;
    Ok(Json(cursor.page(rows, PlacedEndpoint::key, PlacedEndpointOut::from)))
}

/// Find the object that has an id, and the path that returns it.
///
/// A message is found among the 10000 newest applications.
#[utoipa::path(
    get, path = "/api/v1/lookup/{id}", operation_id = "v1.overview.lookup", tag = "Overview", params(LookupPath),
    responses((status = 200, body = LookupOut))
)]
async fn lookup(
    State(api): State<Arc<Api>>,
    InEnvironment { environment }: InEnvironment,
    PathParams(LookupPath { id }): PathParams<LookupPath>,
) -> Result<Json<LookupOut>, ApiError> {
    let found = find(&api, environment, &id).await?;
    found.map(Json).ok_or_else(|| ApiError::not_found(named("object", &id)))
}

async fn find(api: &Api, environment: EnvironmentId, text: &str) -> Result<Option<LookupOut>, ApiError> {
    let scope = Scope::of(environment);
    let out = |kind, app_id, path| LookupOut { kind, id: text.to_owned(), app_id, path: format!("/api/v1/{path}") };
    if let Ok(id) = text.parse::<ApplicationId>() {
        let found = api.read(query::FindApplication { scope, locator: Locator::Id(id) }).await?;
        return Ok(found.map(|_| out("application", None, format!("app/{id}"))));
    }
    if let Ok(id) = text.parse::<EndpointId>() {
        let found = api.read(query::FindEndpoints { scope, ids: vec![id] }).await?.pop();
        let application = found.map(|placed| placed.application.id);
        return Ok(application.map(|app| out("endpoint", Some(app), format!("app/{app}/endpoint/{id}"))));
    }
    if let Ok(message) = text.parse::<MessageId>() {
        let application = api.read(query::FindMessageApplication { scope, message }).await?;
        return Ok(application.map(|app| out("message", Some(app), format!("app/{app}/msg/{message}"))));
    }
    if !api.has_jobs {
        return Ok(None);
    }
    if let Ok(id) = text.parse::<JobId>() {
        let found = api.read(query::FindJob { scope, id }).await?;
        return Ok(found.map(|_| out("job", None, format!("job/{id}"))));
    }
    if let Ok(id) = text.parse::<BatchId>() {
        let found = api.read(query::FindBatch { scope, id }).await?;
        return Ok(found.map(|_| out("batch", None, format!("batch/{id}"))));
    }
    if let Ok(id) = text.parse::<BackgroundTaskId>() {
        let found = api.read(query::FindJob { scope: Scope::of(SERVER_ENVIRONMENT), id: JobId(id.0) }).await?;
        return Ok(found
            .filter(|record| is_task_of(record, environment))
            .map(|_| out("backgroundTask", None, format!("background-task/{id}"))));
    }
    Ok(None)
}

impl From<PlacedEndpoint> for PlacedEndpointOut {
    fn from(PlacedEndpoint { application, endpoint }: PlacedEndpoint) -> PlacedEndpointOut {
        let (state, reason) = match endpoint.state {
            EndpointState::Enabled => ("enabled", None),
            EndpointState::Disabled => ("disabled", Some("user")),
            EndpointState::Gone => match endpoint.failing {
                Some(Failing { disabled_at: Some(_), .. }) => ("disabled", Some("failures")),
                _ => ("gone", Some("receiver")),
            },
        };
        let (app_id, app_name, app_uid) = (application.id, application.name, application.uid);
        PlacedEndpointOut { endpoint: endpoint.into(), app_id, app_name, app_uid, state, reason }
    }
}
