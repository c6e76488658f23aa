//! Operational webhooks: endpoints of the environment itself, which get events about its endpoints and deliveries.
//!
//! They are endpoints of a hidden application, so that secrets, headers, deliveries and retries work as everywhere
//! else. Only keys and tokens of the environment may use these routes.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::FromRequestParts;
use everhook_core::chat::ChatKind;
use everhook_core::endpoint::{Endpoint, EndpointState};
use everhook_core::filter::TypePattern;
use everhook_core::id::EndpointId;
use everhook_core::name::{Metadata, Name};
use everhook_core::operational::OPERATIONAL_APPLICATION;
use everhook_core::time::Timestamp;
use everhook_store::catalog::Order;
use everhook_store::query;
use everhook_store::resource::New;
use http::request::Parts;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::chat::{ChatIn, ChatOut};
use crate::endpoint::{Checks, EndpointIn};
use crate::endpoint_headers::{self, EndpointHeadersIn, EndpointHeadersOut};
use crate::endpoint_secret::{self, EndpointSecretOut, EndpointSecretRotateIn};
use crate::error::ApiError;
use crate::input::{self, Input};
use crate::page::{Listing, OrderParams, Page, PageParams};
use crate::resource;
use crate::routes::{Answer, EmptyAnswer, Routes, StatusAnswer, routes_of};
use crate::scope::{self, AtEndpoint, AtPath, EndpointPath, InEnvironment};
use crate::state::Api;

/// An operational endpoint to create or to replace. When an endpoint is replaced, absent headers stay, and a secret
/// must be the current one, because another route rotates it.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = OperationalWebhookEndpointIn)]
pub(crate) struct OperationalIn {
    /// The URL that receives the events.
    #[schema(format = "uri")]
    url: String,
    /// A text for people.
    description: Option<String>,
    /// Whether the endpoint receives no events. Events that happen meanwhile are not delivered later.
    disabled: Option<bool>,
    /// The wanted events, for example `endpoint.disabled`; absent or null means all events.
    event_types: Option<Vec<String>>,
    /// The older name of `eventTypes`.
    #[schema(deprecated)]
    filter_types: Option<Vec<String>>,
    /// The secret that signs the deliveries; random if absent.
    #[schema(example = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")]
    secret: Option<String>,
    /// The user's own id for the endpoint, unique among the operational endpoints of the environment.
    #[serde(default, deserialize_with = "input::present")]
    #[schema(value_type = Option<String>, max_length = 256, pattern = "^[a-zA-Z0-9\\-_.]+$")]
    uid: Option<Option<String>>,
    /// Deliveries per second.
    #[schema(minimum = 1)]
    throttle_rate: Option<u16>,
    /// The older name of `throttleRate`.
    #[schema(minimum = 1, deprecated)]
    rate_limit: Option<u16>,
    /// The user's own data, which Everhook never interprets.
    #[schema(value_type = Option<BTreeMap<String, String>>)]
    metadata: Option<Metadata>,
    /// Extra headers of every delivery.
    headers: Option<BTreeMap<String, String>>,
    /// `http`, or the chat platform that gets a readable message, such as `slack`. The URL of a chat endpoint is a
    /// credential and is never shown again. Absent: an existing endpoint keeps its kind.
    kind: Option<String>,
    /// The text of a chat endpoint. Absent: an existing endpoint keeps it. Null: the default text.
    #[serde(default, deserialize_with = "input::present")]
    #[schema(value_type = Option<ChatIn>)]
    chat: Option<Option<ChatIn>>,
}

/// An operational endpoint. Other routes show its secret and headers.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = OperationalWebhookEndpointOut)]
pub(crate) struct OperationalOut {
    #[schema(value_type = String, example = "ep_1srOrx2ZWZBpBUvZwXKQmoEYga2")]
    id: EndpointId,
    /// The URL that receives the events; of a chat endpoint only its host, because the rest is a credential.
    url: String,
    /// The platform of a chat endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    kind: Option<ChatKind>,
    /// The text of a chat endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    chat: Option<ChatOut>,
    /// A text for people.
    description: String,
    /// Whether the endpoint receives no events.
    disabled: bool,
    /// The user's own id for the endpoint.
    #[schema(value_type = Option<String>)]
    uid: Option<Name>,
    /// Deliveries per second.
    throttle_rate: Option<u16>,
    /// The older name of `throttleRate`.
    #[schema(deprecated)]
    rate_limit: Option<u16>,
    /// The wanted events; null means all events.
    #[schema(value_type = Option<Vec<String>>)]
    event_types: Option<Vec<TypePattern>>,
    /// The older name of `eventTypes`.
    #[schema(value_type = Option<Vec<String>>, deprecated)]
    filter_types: Option<Vec<TypePattern>>,
    /// The user's own data.
    #[schema(value_type = BTreeMap<String, String>)]
    metadata: Metadata,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

/// Routes of one operational endpoint.
struct AtOperational(AtEndpoint);

pub(crate) fn routes() -> Routes {
    routes_of![
        list __path_list, create __path_create, get __path_get, put __path_put, delete __path_delete,
        get_secret __path_get_secret, rotate_secret __path_rotate_secret, get_headers __path_get_headers,
        put_headers __path_put_headers,
    ]
}

/// List the operational endpoints of the environment.
#[utoipa::path(
    get, path = "/api/v1/operational-webhook/endpoint", operation_id = "v1.operational-webhook.endpoint.list",
    tag = "Operational Webhook", params(PageParams, OrderParams),
    responses((status = 200, body = Page<OperationalOut>))
)]
async fn list(InEnvironment { api, scope }: InEnvironment, listing: Listing) -> Answer<Page<OperationalOut>> {
    let scope = scope.application(OPERATIONAL_APPLICATION);
    listing.answer(&api, Order::Descending, |slice| query::Endpoints { scope, slice }, |row| row.id).await
}

/// Create an operational endpoint.
#[utoipa::path(
    post, path = "/api/v1/operational-webhook/endpoint", operation_id = "v1.operational-webhook.endpoint.create",
    tag = "Operational Webhook", request_body = OperationalIn,
    responses((status = 201, body = OperationalOut))
)]
async fn create(InEnvironment { api, scope }: InEnvironment, input: Input) -> StatusAnswer<OperationalOut> {
    let wanted = EndpointIn::from(input.json::<OperationalIn>()?);
    let checks = Checks::of_operational(&api, &wanted)?;
    let record = wanted.check(&checks, OPERATIONAL_APPLICATION, None)?;
    let new = New { record, max: api.config.endpoints_max };
    let scope = scope.application(OPERATIONAL_APPLICATION);
    resource::create(&api, scope, new, input.key.as_ref()).await?.answer()
}

/// Get an operational endpoint.
#[utoipa::path(
    get, path = "/api/v1/operational-webhook/endpoint/{endpoint_id}",
    operation_id = "v1.operational-webhook.endpoint.get", tag = "Operational Webhook", params(EndpointPath),
    responses((status = 200, body = OperationalOut))
)]
async fn get(AtOperational(at): AtOperational) -> Json<OperationalOut> {
    Json(at.endpoint.into())
}

/// Replace the operational endpoint with this id or uid, or create it under this uid.
#[utoipa::path(
    put, path = "/api/v1/operational-webhook/endpoint/{endpoint_id}",
    operation_id = "v1.operational-webhook.endpoint.update", tag = "Operational Webhook", params(EndpointPath),
    request_body = OperationalIn,
    responses(
        (status = 200, body = OperationalOut),
        (status = 201, body = OperationalOut, description = "The endpoint is new."),
    )
)]
async fn put(AtPath { api, scope, path }: AtPath<EndpointPath>, input: Input) -> StatusAnswer<OperationalOut> {
    let locator = scope::locator("endpoint", &path.endpoint_id, EndpointId::PREFIX)?;
    let mut wanted = input.json::<OperationalIn>()?;
    scope::fill_uid(&mut wanted.uid, &locator);
    let wanted = EndpointIn::from(wanted);
    let checks = Checks::of_operational(&api, &wanted)?;
    let check = |old| wanted.clone().check(&checks, OPERATIONAL_APPLICATION, old);
    let new = || Ok(New { record: check(None)?, max: api.config.endpoints_max });
    let scope = scope.application(OPERATIONAL_APPLICATION);
    resource::put(&api, scope, &locator, |old| Ok(check(Some(old))?), new).await
}

/// Delete an operational endpoint. Its open deliveries are cancelled.
#[utoipa::path(
    delete, path = "/api/v1/operational-webhook/endpoint/{endpoint_id}",
    operation_id = "v1.operational-webhook.endpoint.delete", tag = "Operational Webhook", params(EndpointPath),
    responses((status = 204))
)]
async fn delete(AtOperational(at): AtOperational) -> EmptyAnswer {
    at.delete().await
}

/// Get the secret of an operational endpoint.
#[utoipa::path(
    get, path = "/api/v1/operational-webhook/endpoint/{endpoint_id}/secret",
    operation_id = "v1.operational-webhook.endpoint.get-secret", tag = "Operational Webhook", params(EndpointPath),
    responses((status = 200, body = EndpointSecretOut))
)]
async fn get_secret(AtOperational(at): AtOperational) -> Json<EndpointSecretOut> {
    Json(EndpointSecretOut::of(&at.endpoint.keys))
}

/// Rotate the secret of an operational endpoint. The old secret also signs for a while. Returns the new secret.
#[utoipa::path(
    post, path = "/api/v1/operational-webhook/endpoint/{endpoint_id}/secret/rotate",
    operation_id = "v1.operational-webhook.endpoint.rotate-secret", tag = "Operational Webhook", params(EndpointPath),
    request_body = EndpointSecretRotateIn, responses((status = 200, body = EndpointSecretOut))
)]
async fn rotate_secret(AtOperational(at): AtOperational, input: Input) -> Answer<EndpointSecretOut> {
    endpoint_secret::rotate_at(&at, &input).await
}

/// Get the headers of an operational endpoint.
#[utoipa::path(
    get, path = "/api/v1/operational-webhook/endpoint/{endpoint_id}/headers",
    operation_id = "v1.operational-webhook.endpoint.get-headers", tag = "Operational Webhook", params(EndpointPath),
    responses((status = 200, body = EndpointHeadersOut))
)]
async fn get_headers(AtOperational(at): AtOperational) -> Json<EndpointHeadersOut> {
    Json(EndpointHeadersOut::of(at.endpoint))
}

/// Set the headers of an operational endpoint.
#[utoipa::path(
    put, path = "/api/v1/operational-webhook/endpoint/{endpoint_id}/headers",
    operation_id = "v1.operational-webhook.endpoint.update-headers", tag = "Operational Webhook",
    params(EndpointPath), request_body = EndpointHeadersIn, responses((status = 204))
)]
async fn put_headers(AtOperational(at): AtOperational, input: Input) -> EmptyAnswer {
    endpoint_headers::put_at(&at, &input).await
}

impl FromRequestParts<Arc<Api>> for AtOperational {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<AtOperational, ApiError> {
        let AtPath { api, scope, path } = AtPath::<EndpointPath>::from_request_parts(parts, api).await?;
        let scope = scope.application(OPERATIONAL_APPLICATION);
        let endpoint = scope::endpoint(&api, scope, &path.endpoint_id).await?;
        Ok(AtOperational(AtEndpoint { api, scope, endpoint }))
    }
}

impl From<OperationalIn> for EndpointIn {
    fn from(wanted: OperationalIn) -> EndpointIn {
        EndpointIn {
            url: wanted.url,
            description: wanted.description,
            disabled: wanted.disabled,
            event_types: wanted.event_types,
            filter_types: wanted.filter_types,
            secret: wanted.secret,
            uid: wanted.uid,
            throttle_rate: wanted.throttle_rate,
            rate_limit: wanted.rate_limit,
            metadata: wanted.metadata,
            headers: wanted.headers,
            kind: wanted.kind,
            chat: wanted.chat,
            ..EndpointIn::default()
        }
    }
}

impl From<Endpoint> for OperationalOut {
    fn from(endpoint: Endpoint) -> OperationalOut {
        OperationalOut {
            id: endpoint.id,
            url: endpoint.shown_url(),
            kind: endpoint.chat.as_ref().map(|chat| chat.kind),
            chat: endpoint.chat.as_deref().map(ChatOut::from),
            description: endpoint.description,
            disabled: endpoint.state != EndpointState::Enabled,
            uid: endpoint.uid,
            throttle_rate: endpoint.throttle_rate,
            rate_limit: endpoint.throttle_rate,
            event_types: endpoint.event_types.clone(),
            filter_types: endpoint.event_types,
            metadata: endpoint.metadata,
            created_at: endpoint.created_at,
            updated_at: endpoint.updated_at,
        }
    }
}
