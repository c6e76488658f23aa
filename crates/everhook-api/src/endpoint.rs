//! Endpoints: where an application's deliveries go.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use everhook_core::endpoint::{Endpoint, EndpointState};
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId};
use everhook_core::limits::{
    DESCRIPTION_CHARS_MAX, ENDPOINT_CHANNELS_MAX, ENDPOINT_EVENT_TYPES_BYTES_MAX, ENDPOINT_EVENT_TYPES_MAX,
};
use everhook_core::name::{Metadata, Name};
use everhook_core::scope::{AppScope, Scope};
use everhook_core::signing::SigningKeys;
use everhook_core::time::Timestamp;
use everhook_store::catalog::{Locator, Order};
use everhook_store::query;
use everhook_store::resource::{NewEndpoint, ResourceKey};

use http::StatusCode;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::endpoint_headers;
use crate::endpoint_secret;
use crate::error::ApiError;
use crate::input::{self, At, Input};
use crate::page::{Cursor, OrderParams, Page, PageParams};
use crate::query::Query;
use crate::resource;
use crate::routes::Routes;
use crate::scope::{self, ApplicationPath, AtEndpoint, EndpointPath, InApplication, PathParams};
use crate::state::Api;

/// An endpoint to create, or to put in the place of another. Absent headers stay, and a secret must be the one it has: it is rotated
/// on a route of its own.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndpointIn {
    /// Where deliveries go.
    #[schema(format = "uri")]
    url: String,
    /// A text for people.
    description: Option<String>,
    /// Whether it gets nothing: open deliveries wait until it is enabled, and messages accepted meanwhile are not delivered to it.
    disabled: Option<bool>,
    /// The event types it wants; none means all.
    event_types: Option<Vec<String>>,
    /// The same as `eventTypes`, under an older name.
    #[schema(deprecated)]
    filter_types: Option<Vec<String>>,
    /// The channels it listens to; none means all.
    #[schema(min_items = 1, max_items = 10)]
    channels: Option<Vec<String>>,
    /// What deliveries are signed with; random where none is given.
    #[schema(example = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")]
    secret: Option<String>,
    /// The user's own id for it, unique in the application.
    #[serde(default, deserialize_with = "input::present")]
    #[schema(value_type = Option<String>, max_length = 256, pattern = "^[a-zA-Z0-9\\-_.]+$")]
    uid: Option<Option<String>>,
    /// Deliveries per second. Stored and shown; deliveries are not slowed down yet.
    #[schema(minimum = 1)]
    throttle_rate: Option<u16>,
    /// The same as `throttleRate`, under an older name.
    #[schema(minimum = 1, deprecated)]
    rate_limit: Option<u16>,
    /// Never interpreted.
    #[schema(value_type = Option<BTreeMap<String, String>>)]
    metadata: Option<Metadata>,
    /// Sent along with every delivery.
    headers: Option<BTreeMap<String, String>>,
    /// A number of the user's.
    version: Option<u16>,
}

/// A change of an endpoint: what is absent stays.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndpointPatch {
    #[serde(default, deserialize_with = "input::present")]
    url: Option<String>,
    #[serde(default, deserialize_with = "input::present")]
    description: Option<String>,
    #[serde(default, deserialize_with = "input::present")]
    disabled: Option<bool>,
    #[serde(default, deserialize_with = "input::present")]
    #[schema(value_type = Option<Vec<String>>)]
    event_types: Option<Option<Vec<String>>>,
    #[serde(default, deserialize_with = "input::present")]
    #[schema(value_type = Option<Vec<String>>, deprecated)]
    filter_types: Option<Option<Vec<String>>>,
    #[serde(default, deserialize_with = "input::present")]
    #[schema(value_type = Option<Vec<String>>)]
    channels: Option<Option<Vec<String>>>,
    #[serde(default, deserialize_with = "input::present")]
    #[schema(value_type = Option<String>)]
    uid: Option<Option<String>>,
    /// Deliveries per second. Stored and shown; deliveries are not slowed down yet.
    #[serde(default, deserialize_with = "input::present")]
    #[schema(value_type = Option<u16>, minimum = 1)]
    throttle_rate: Option<Option<u16>>,
    /// The same as `throttleRate`, under an older name.
    #[serde(default, deserialize_with = "input::present")]
    #[schema(value_type = Option<u16>, minimum = 1, deprecated)]
    rate_limit: Option<Option<u16>>,
    #[schema(value_type = Option<BTreeMap<String, String>>)]
    metadata: Option<Metadata>,
    #[serde(default, deserialize_with = "input::present")]
    version: Option<u16>,
    /// Refused: rotate the secret instead.
    #[schema(ignore)]
    secret: Option<IgnoredAny>,
    /// Refused: headers have a route of their own.
    #[schema(ignore)]
    headers: Option<IgnoredAny>,
}

/// An endpoint. Its secret and headers have routes of their own.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndpointOut {
    #[serde(flatten)]
    common: EndpointCommonOut,
    #[schema(value_type = BTreeMap<String, String>)]
    metadata: Metadata,
}

/// What is shown of an endpoint everywhere.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndpointCommonOut {
    #[schema(value_type = String, example = "ep_1srOrx2ZWZBpBUvZwXKQmoEYga2")]
    id: EndpointId,
    url: String,
    description: String,
    disabled: bool,
    #[schema(value_type = Option<String>)]
    uid: Option<Name>,
    /// Deliveries per second. Deliveries are not slowed down yet.
    throttle_rate: Option<u16>,
    #[schema(deprecated)]
    rate_limit: Option<u16>,
    #[schema(value_type = Option<Vec<String>>)]
    event_types: Option<Vec<Name>>,
    #[schema(value_type = Option<Vec<String>>, deprecated)]
    filter_types: Option<Vec<Name>>,
    #[schema(value_type = Option<Vec<String>>)]
    channels: Option<Vec<Name>>,
    version: u16,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

pub(crate) fn routes() -> Routes {
    Routes::default()
        .add(list, __path_list)
        .add(create, __path_create)
        .add(get, __path_get)
        .add(put, __path_put)
        .add(patch, __path_patch)
        .add(delete, __path_delete)
}

/// List the endpoints of an application.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/endpoint", operation_id = "v1.endpoint.list", tag = "Endpoint",
    params(ApplicationPath, PageParams, OrderParams),
    responses((status = 200, body = Page<EndpointOut>))
)]
async fn list(
    State(api): State<Arc<Api>>,
    InApplication { environment, application }: InApplication,
    Query(page): Query<PageParams>,
    Query(order): Query<OrderParams>,
) -> Result<Json<Page<EndpointOut>>, ApiError> {
    let cursor = Cursor::new(&page, order.or(Order::Descending))?;
    let rows =
        api.read(query::Endpoints { scope: AppScope::of(environment, application.id), slice: cursor.slice() }).await?;
    Ok(Json(cursor.page(rows, |row| row.id, EndpointOut::from)))
}

/// Create an endpoint.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint", operation_id = "v1.endpoint.create", tag = "Endpoint",
    params(ApplicationPath), request_body = EndpointIn,
    responses((status = 201, body = EndpointOut))
)]
async fn create(
    State(api): State<Arc<Api>>,
    InApplication { environment, application }: InApplication,
    input: Input,
) -> Result<(StatusCode, Json<EndpointOut>), ApiError> {
    let wanted = input.json::<EndpointIn>()?.into_new(&api, environment, application.id).await?;
    let new = NewEndpoint { endpoint: wanted, max: api.endpoints_max };
    let new = resource::create(&api, environment, new, input.key.as_ref()).await?.done()?;
    Ok((StatusCode::CREATED, Json(new.into())))
}

/// Get an endpoint.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}", operation_id = "v1.endpoint.get", tag = "Endpoint",
    params(ApplicationPath, EndpointPath), responses((status = 200, body = EndpointOut))
)]
async fn get(AtEndpoint { endpoint, .. }: AtEndpoint) -> Json<EndpointOut> {
    Json(endpoint.into())
}

/// Put an endpoint in the place of what has this id or uid, or create it under this uid.
#[utoipa::path(
    put, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}", operation_id = "v1.endpoint.update", tag = "Endpoint",
    params(ApplicationPath, EndpointPath), request_body = EndpointIn,
    responses(
        (status = 200, body = EndpointOut),
        (status = 201, body = EndpointOut, description = "It is new."),
    )
)]
async fn put(
    State(api): State<Arc<Api>>,
    InApplication { environment, application }: InApplication,
    PathParams(EndpointPath { endpoint_id }): PathParams<EndpointPath>,
    input: Input,
) -> Result<(StatusCode, Json<EndpointOut>), ApiError> {
    let locator = scope::locator("endpoint", &endpoint_id, EndpointId::PREFIX)?;
    let mut wanted = input.json::<EndpointIn>()?;
    if let (Locator::Uid(uid), None) = (&locator, &wanted.uid) {
        // Without this, the same request again would create another one.
        wanted.uid = Some(Some(uid.as_str().to_owned()));
    }
    let (has_secret, has_headers) = (wanted.secret.is_some(), wanted.headers.is_some());
    let wanted = wanted.into_new(&api, environment, application.id).await?;
    let change = |old: Endpoint| {
        // A success answer would promise a change that this route does not make.
        if has_secret && old.keys.current != wanted.keys.current {
            return Err(ApiError::invalid(["body", "secret"], "cannot be changed here: use POST …/secret/rotate"));
        }
        Ok(Endpoint {
            id: old.id,
            state: switched(old.state, wanted.state != EndpointState::Enabled),
            headers: if has_headers { wanted.headers.clone() } else { old.headers },
            keys: old.keys,
            created_at: old.created_at,
            revision: old.revision,
            ..wanted.clone()
        })
    };
    let place = (application.id, locator);
    if let Some(changed) = resource::change(&api, environment, &place, None, change).await? {
        return Ok((StatusCode::OK, Json(changed.into())));
    }
    if let Locator::Id(_) = place.1 {
        return Err(scope::no_endpoint(&endpoint_id));
    }
    let new = NewEndpoint { endpoint: wanted, max: api.endpoints_max };
    let new = resource::create(&api, environment, new, None).await?.done()?;
    Ok((StatusCode::CREATED, Json(new.into())))
}

/// Change an endpoint: what is absent stays.
#[utoipa::path(
    patch, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}", operation_id = "v1.endpoint.patch", tag = "Endpoint",
    params(ApplicationPath, EndpointPath), request_body = EndpointPatch,
    responses((status = 200, body = EndpointOut))
)]
async fn patch(State(api): State<Arc<Api>>, at: AtEndpoint, input: Input) -> Result<Json<EndpointOut>, ApiError> {
    let patch: EndpointPatch = input.json()?;
    // A success answer would promise a change that this route does not make.
    if patch.secret.is_some() {
        return Err(ApiError::invalid(["body", "secret"], "cannot be changed here: use POST …/secret/rotate"));
    }
    if patch.headers.is_some() {
        return Err(ApiError::invalid(["body", "headers"], "cannot be changed here: use PATCH …/headers"));
    }
    let url = patch.url.map(|url| check_url(&api, &url)).transpose()?;
    let description = patch
        .description
        .map(|description| input::text("description", description, DESCRIPTION_CHARS_MAX))
        .transpose()?;
    let event_types = match patch.event_types.or(patch.filter_types) {
        Some(types) => Some(check_event_types(&api, at.environment, types).await?),
        None => None,
    };
    let channels = patch.channels.map(|list| input::some_names("channels", list, ENDPOINT_CHANNELS_MAX)).transpose()?;
    let uid = patch.uid.map(|uid| input::uid(uid, EndpointId::PREFIX)).transpose()?;
    let throttle_rate = patch.throttle_rate.or(patch.rate_limit).map(input::throttle_rate).transpose()?;
    let metadata = patch.metadata.map(input::metadata).transpose()?;
    let change = |old: Endpoint| {
        Ok(Endpoint {
            url: url.clone().unwrap_or(old.url),
            description: description.clone().unwrap_or(old.description),
            state: patch.disabled.map_or(old.state, |disabled| switched(old.state, disabled)),
            event_types: event_types.clone().unwrap_or(old.event_types),
            channels: channels.clone().unwrap_or(old.channels),
            uid: uid.clone().unwrap_or(old.uid),
            throttle_rate: throttle_rate.unwrap_or(old.throttle_rate),
            metadata: metadata.clone().unwrap_or(old.metadata),
            version: patch.version.unwrap_or(old.version),
            ..old
        })
    };
    let place = (at.application, Locator::Id(at.endpoint.id));
    let changed = resource::change(&api, at.environment, &place, None, change).await?;
    changed.map(|changed| Json(changed.into())).ok_or_else(|| scope::missing("endpoint", &place.1))
}

/// Delete an endpoint; its open deliveries are cancelled.
#[utoipa::path(
    delete, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}", operation_id = "v1.endpoint.delete",
    tag = "Endpoint", params(ApplicationPath, EndpointPath), responses((status = 204))
)]
async fn delete(State(api): State<Arc<Api>>, at: AtEndpoint) -> Result<StatusCode, ApiError> {
    let key = ResourceKey::Endpoint(at.application, at.endpoint.id);
    let deleted = api.node.delete(Scope::of(at.environment), key).await?.is_done();
    if deleted { Ok(StatusCode::NO_CONTENT) } else { Err(scope::no_endpoint(&at.endpoint.id.to_string())) }
}

fn check_url(api: &Api, url: &str) -> Result<String, ApiError> {
    api.egress.check_url(url).at("url").map(String::from)
}

/// An endpoint may ask for event types that exist and are not archived. An empty list is what some clients send for all.
async fn check_event_types(
    api: &Api,
    environment: EnvironmentId,
    types: Option<Vec<String>>,
) -> Result<Option<Vec<Name>>, ApiError> {
    let Some(types) = types.filter(|types| !types.is_empty()) else { return Ok(None) };
    let types = input::names("eventTypes", types, ENDPOINT_EVENT_TYPES_MAX)?;
    if types.iter().map(|name| name.as_str().len()).sum::<usize>() > ENDPOINT_EVENT_TYPES_BYTES_MAX {
        let rule = format!("must have at most {ENDPOINT_EVENT_TYPES_BYTES_MAX} characters in all its names");
        return Err(ApiError::invalid(["body", "eventTypes"], rule));
    }
    let unknown = api.read(query::UnknownEventTypes { scope: Scope::of(environment), names: types.to_vec() }).await?;
    match unknown.first() {
        None => Ok(Some(types)),
        Some(name) => {
            Err(ApiError::invalid(["body", "eventTypes"], format!("there is no event type {:?}", name.as_str())))
        }
    }
}

/// The state after someone switched an endpoint on or off; one that is gone stays gone until it is switched on.
fn switched(state: EndpointState, disabled: bool) -> EndpointState {
    match (disabled, state) {
        (false, _) => EndpointState::Enabled,
        (true, EndpointState::Gone) => EndpointState::Gone,
        (true, EndpointState::Enabled | EndpointState::Disabled) => EndpointState::Disabled,
    }
}

impl EndpointIn {
    async fn into_new(
        self,
        api: &Api,
        environment: EnvironmentId,
        application: ApplicationId,
    ) -> Result<Endpoint, ApiError> {
        let now = api.now();
        Ok(Endpoint {
            id: EndpointId(api.new_id()),
            application,
            uid: input::uid(self.uid.flatten(), EndpointId::PREFIX)?,
            url: check_url(api, &self.url)?,
            description: input::text("description", self.description.unwrap_or_default(), DESCRIPTION_CHARS_MAX)?,
            state: switched(EndpointState::Enabled, self.disabled.unwrap_or(false)),
            channels: input::some_names("channels", self.channels, ENDPOINT_CHANNELS_MAX)?,
            headers: endpoint_headers::check(self.headers.unwrap_or_default())?,
            throttle_rate: input::throttle_rate(self.throttle_rate.or(self.rate_limit))?,
            metadata: input::metadata(self.metadata.unwrap_or_default())?,
            version: self.version.unwrap_or(1),
            keys: SigningKeys::new(endpoint_secret::given_or_random("secret", self.secret, api.default_signature)?),
            event_types: check_event_types(api, environment, self.event_types.or(self.filter_types)).await?,
            created_at: now,
            updated_at: now,
            revision: 0,
        })
    }
}

impl From<Endpoint> for EndpointOut {
    fn from(mut endpoint: Endpoint) -> EndpointOut {
        let metadata = std::mem::take(&mut endpoint.metadata);
        EndpointOut { common: endpoint.into(), metadata }
    }
}

impl From<Endpoint> for EndpointCommonOut {
    fn from(endpoint: Endpoint) -> EndpointCommonOut {
        EndpointCommonOut {
            id: endpoint.id,
            url: endpoint.url,
            description: endpoint.description,
            disabled: endpoint.state != EndpointState::Enabled,
            uid: endpoint.uid,
            throttle_rate: endpoint.throttle_rate,
            rate_limit: endpoint.throttle_rate,
            event_types: endpoint.event_types.clone(),
            filter_types: endpoint.event_types,
            channels: endpoint.channels,
            version: endpoint.version,
            created_at: endpoint.created_at,
            updated_at: endpoint.updated_at,
        }
    }
}
