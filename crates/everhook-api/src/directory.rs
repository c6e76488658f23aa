//! Objects of all applications: the endpoints of an environment, and the object that has an id.

use std::collections::BTreeMap;

use axum::Json;
use everhook_core::endpoint::EndpointState;
use everhook_core::failing::Failing;
use everhook_core::id::{ApplicationId, BackgroundTaskId, BatchId, EndpointId, JobId, MessageId, SERVER_ENVIRONMENT};
use everhook_core::name::Name;
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_store::catalog::{Locator, Order};
use everhook_store::directory::{PlacedEndpoint, PlacedMessage};
use everhook_store::query;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::background_task::is_task_of;
use crate::delivery;
use crate::endpoint::EndpointOut;
use crate::error::ApiError;
use crate::message::{DeliveryTallyOut, FilterParams, TallyParams};
use crate::message_search::{self, TextParams};
use crate::page::{Listing, OrderParams, Page, PageParams};
use crate::query::Query;
use crate::routes::{Answer, Routes, routes_of};
use crate::scope::{AtPath, InEnvironment, named};
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

/// A message with its application, without its payload.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlacedMessageOut {
    #[schema(value_type = String, example = "msg_1srOrx2ZWZBpBUvZwXKQmoEYga2")]
    id: MessageId,
    #[schema(value_type = String)]
    app_id: ApplicationId,
    /// The name of the application.
    app_name: String,
    /// The uid of the application.
    #[schema(value_type = Option<String>)]
    app_uid: Option<Name>,
    #[schema(value_type = String)]
    event_type: Name,
    #[schema(value_type = Option<String>)]
    event_id: Option<Name>,
    #[schema(value_type = Vec<String>)]
    channels: Vec<Name>,
    #[schema(value_type = Vec<String>)]
    tags: Vec<Name>,
    #[schema(value_type = String, format = DateTime)]
    timestamp: Timestamp,
    /// The time of delivery, if the request set one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    deliver_at: Option<Timestamp>,
    /// The deliveries of the message, by state; only with `with_deliveries`.
    #[serde(skip_serializing_if = "Option::is_none")]
    deliveries: Option<DeliveryTallyOut>,
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
    routes_of![list_endpoints __path_list_endpoints, list_messages __path_list_messages, lookup __path_lookup]
}

/// List the endpoints of all applications, ordered by application and id.
#[utoipa::path(
    get, path = "/api/v1/endpoint", operation_id = "v1.overview.list-endpoints", tag = "Overview",
    params(PageParams, OrderParams), responses((status = 200, body = Page<PlacedEndpointOut>))
)]
async fn list_endpoints(
    InEnvironment { api, scope }: InEnvironment,
    listing: Listing,
) -> Answer<Page<PlacedEndpointOut>> {
    let query = |slice| query::AllEndpoints { scope, slice };
    listing.answer(&api, Order::Descending, query, PlacedEndpoint::key).await
}

/// List the messages of all applications, newest first, without payloads.
///
/// The list contains the messages of the 10000 newest applications.
#[utoipa::path(
    get, path = "/api/v1/message", operation_id = "v1.overview.list-messages", tag = "Overview",
    params(PageParams, FilterParams, TextParams, TallyParams), responses((status = 200, body = Page<PlacedMessageOut>))
)]
async fn list_messages(
    InEnvironment { api, scope }: InEnvironment,
    Query(page): Query<PageParams>,
    Query(filter): Query<FilterParams>,
    Query(text): Query<TextParams>,
    Query(wanted): Query<TallyParams>,
) -> Answer<Page<PlacedMessageOut>> {
    let cursor = filter.cursor(&page)?;
    let filter = text.search(filter.of_messages(cursor.slice()))?;
    let query = |filter| query::AllMessages { scope, filter };
    let piece = message_search::find(&api, filter, query, |row: &PlacedMessage| &row.message).await?;
    let mut page = cursor.page_of(piece, |row| row.message.id, PlacedMessageOut::from);
    for row in page.data.iter_mut().filter(|_| wanted.is_wanted()) {
        row.deliveries = Some(delivery::tally(&api, scope.application(row.app_id), row.id).await?.into());
    }
    Ok(Json(page))
}

/// Find the object that has an id, and the path that returns it.
///
/// A message is found among the 10000 newest applications.
#[utoipa::path(
    get, path = "/api/v1/lookup/{id}", operation_id = "v1.overview.lookup", tag = "Overview", params(LookupPath),
    responses((status = 200, body = LookupOut))
)]
async fn lookup(AtPath { api, scope, path }: AtPath<LookupPath>) -> Answer<LookupOut> {
    let found = find(&api, scope, &path.id).await?;
    found.map(Json).ok_or_else(|| ApiError::not_found(named("object", &path.id)))
}

/// Finds endpoints with their applications. Endpoints that were deleted are left out.
pub(crate) async fn endpoints(
    api: &Api,
    scope: Scope,
    ids: Vec<EndpointId>,
) -> Result<BTreeMap<EndpointId, PlacedEndpoint>, ApiError> {
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    let found = api.read(query::FindEndpoints { scope, ids }).await?;
    Ok(found.into_iter().map(|placed| (placed.endpoint.id, placed)).collect())
}

async fn find(api: &Api, scope: Scope, text: &str) -> Result<Option<LookupOut>, ApiError> {
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
    if !api.config.jobs {
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
            .filter(|record| is_task_of(record, scope))
            .map(|_| out("backgroundTask", None, format!("background-task/{id}"))));
    }
    Ok(None)
}

impl From<PlacedMessage> for PlacedMessageOut {
    fn from(PlacedMessage { application, message }: PlacedMessage) -> PlacedMessageOut {
        PlacedMessageOut {
            id: message.id,
            app_id: application.id,
            app_name: application.name,
            app_uid: application.uid,
            event_type: message.event_type,
            event_id: message.event_id,
            channels: message.channels,
            tags: message.tags,
            timestamp: message.created_at,
            deliver_at: message.rest.deliver_at,
            deliveries: None,
        }
    }
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
