//! Polled endpoints: readers fetch messages instead of receiving requests.
//!
//! A polled endpoint is an endpoint whose URL is `poll:`. A reader keeps its position itself, as an iterator, or has a
//! name, under which the server keeps the position.

use axum::Json;
use axum::response::{IntoResponse, Response};
use everhook_core::endpoint::Endpoint;
use everhook_core::filter::TypePattern;
use everhook_core::id::EndpointId;
use everhook_core::limits::POLL_CONSUMERS_MAX;
use everhook_core::name::Name;
use everhook_core::poll::{PollIterator, PollMark};
use everhook_core::scope::AppScope;
use everhook_core::time::Timestamp;
use everhook_core::violation::at;
use everhook_store::poll::{PollAsk, PollPage, PollReader, Polled, SeekAsk};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::endpoint::{Checks, EndpointIn};
use crate::error::ApiError;
use crate::input::Input;
use crate::message::{ContentParams, MessageOut};
use crate::page;
use crate::query::Query;
use crate::quota;
use crate::routes::{Answer, Routes, StatusAnswer, routes_of};
use crate::scope::{self, ApplicationPath, InApplication, PathParams};
use crate::state::Api;

/// The path parameter of a polled endpoint.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct PollerPath {
    /// The id or uid of the polled endpoint.
    sink_id: String,
}

/// The path parameter of a consumer.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct ConsumerPath {
    /// The name of the consumer, chosen by the reader: letters, digits, `-`, `_` and `.`. One reader per name.
    consumer_id: String,
}

/// The size of a page, and its begin.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct PollParams {
    /// The number of messages, at most 250. The default is 50.
    #[serde(deserialize_with = "crate::query::one")]
    #[param(minimum = 1, maximum = 250)]
    limit: Option<usize>,
    /// The iterator of the page before.
    #[serde(deserialize_with = "crate::query::one")]
    iterator: Option<String>,
}

/// The messages that a reader without a name wants.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct ChoiceParams {
    /// Only messages of this event type.
    #[serde(deserialize_with = "crate::query::one")]
    #[param(value_type = Option<String>)]
    event_type: Option<Name>,
    /// Only messages on this channel.
    #[serde(deserialize_with = "crate::query::one")]
    #[param(value_type = Option<String>)]
    channel: Option<Name>,
    /// Without an iterator: only messages that were accepted at this time or later.
    #[serde(deserialize_with = "crate::query::time")]
    #[param(value_type = Option<String>, format = DateTime)]
    after: Option<Timestamp>,
}

/// A page of messages, in the order of acceptance.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PollingEndpointOut<'a> {
    data: Vec<MessageOut<'a>>,
    /// The position behind the page. Send it with the next request.
    iterator: String,
    /// Whether there are no further messages now. Wait before the next request then.
    done: bool,
}

/// The time to continue at.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct PollingEndpointConsumerSeekIn {
    /// The consumer continues with the messages that were accepted at this time or later.
    #[schema(value_type = String, format = DateTime)]
    after: Timestamp,
}

/// The new position of a consumer.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PollingEndpointConsumerSeekOut {
    iterator: String,
}

/// A destination to create. Polled endpoints are the only type.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DestinationIn {
    /// Must be `pollingEndpoint`.
    #[serde(rename = "type")]
    #[schema(example = "pollingEndpoint")]
    kind: String,
    #[serde(flatten)]
    endpoint: PolledIn,
}

/// The settings of a polled endpoint.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PolledIn {
    /// The user's own id, unique in the application.
    #[schema(max_length = 256, pattern = "^[a-zA-Z0-9\\-_.]+$")]
    uid: Option<String>,
    /// The event types that it gets; none means all.
    event_types: Option<Vec<String>>,
    /// The channels that it listens to; none means all.
    #[schema(max_items = 10)]
    channels: Option<Vec<String>>,
}

/// A polled endpoint.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DestinationOut {
    #[schema(value_type = String, example = "ep_1srOrx2ZWZBpBUvZwXKQmoEYga2")]
    id: EndpointId,
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    kind: &'static str,
    #[schema(value_type = Option<String>)]
    uid: Option<Name>,
    #[schema(value_type = Option<Vec<String>>)]
    event_types: Option<Vec<TypePattern>>,
    #[schema(value_type = Option<Vec<String>>)]
    channels: Option<Vec<Name>>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

const POLLING_ENDPOINT: &str = "pollingEndpoint";

pub(crate) fn routes() -> Routes {
    routes_of![
        create __path_create, poll __path_poll, consumer_poll __path_consumer_poll,
        consumer_seek __path_consumer_seek,
    ]
}

/// Create a polled endpoint. It is an endpoint with the URL `poll:`, which the routes of endpoints list and change.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/destination", operation_id = "v1.destination.create", tag = "Poller",
    params(ApplicationPath), request_body = DestinationIn, responses((status = 201, body = DestinationOut))
)]
async fn create(InApplication { api, scope, .. }: InApplication, input: Input) -> StatusAnswer<DestinationOut> {
    let DestinationIn { kind, endpoint: PolledIn { uid, event_types, channels } } = input.json()?;
    if kind != POLLING_ENDPOINT {
        return Err(at("type").breaks(format!("must be {POLLING_ENDPOINT:?}, the only type")).into());
    }
    // An empty list is what some clients send for all.
    let channels = channels.filter(|channels| !channels.is_empty());
    let wanted = EndpointIn::polled(uid, event_types, channels);
    let checks = Checks::of(&api, scope.scope(), &wanted).await?;
    let endpoint = wanted.check(&checks, scope.application, None)?;
    quota::create_endpoint(&api, scope, endpoint, input.key.as_ref()).await?.answer()
}

/// Read the messages of a polled endpoint, in the order of acceptance. Without an iterator, the first page is returned.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/poller/{sink_id}", operation_id = "v1.message.poller.poll", tag = "Poller",
    params(ApplicationPath, PollerPath, PollParams, ChoiceParams),
    responses((status = 200, body = PollingEndpointOut))
)]
async fn poll(
    InApplication { api, scope, .. }: InApplication,
    path: PathParams<PollerPath>,
    Query(params): Query<PollParams>,
    Query(choice): Query<ChoiceParams>,
) -> Result<Response, ApiError> {
    let endpoint = find(&api, scope, &path).await?;
    let reader = match (params.mark(endpoint.id)?, choice.after) {
        (Some(mark), _) => PollReader::From(mark),
        (None, Some(after)) => PollReader::Since(after),
        (None, None) => PollReader::From(PollMark::default()),
    };
    let ChoiceParams { event_type, channel, .. } = choice;
    let ask = PollAsk { endpoint: endpoint.id, reader, limit: page::limit(params.limit)?, event_type, channel };
    answer(&api, scope, ask).await
}

/// Read as a named consumer. The server keeps the position: a request with an iterator confirms the page before, and a
/// request without one returns the first page that is not confirmed.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/poller/{sink_id}/consumer/{consumer_id}",
    operation_id = "v1.message.poller.consumer-poll", tag = "Poller",
    params(ApplicationPath, PollerPath, ConsumerPath, PollParams),
    responses((status = 200, body = PollingEndpointOut))
)]
async fn consumer_poll(
    InApplication { api, scope, .. }: InApplication,
    path: PathParams<PollerPath>,
    PathParams(consumer): PathParams<ConsumerPath>,
    Query(params): Query<PollParams>,
) -> Result<Response, ApiError> {
    let endpoint = find(&api, scope, &path).await?;
    let reader = PollReader::Consumer { name: consumer.name()?, confirmed: params.mark(endpoint.id)? };
    let ask =
        PollAsk { endpoint: endpoint.id, reader, limit: page::limit(params.limit)?, event_type: None, channel: None };
    answer(&api, scope, ask).await
}

/// Move a named consumer to a time. Its earlier iterators become invalid.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/poller/{sink_id}/consumer/{consumer_id}/seek",
    operation_id = "v1.message.poller.consumer-seek", tag = "Poller",
    params(ApplicationPath, PollerPath, ConsumerPath), request_body = PollingEndpointConsumerSeekIn,
    responses((status = 200, body = PollingEndpointConsumerSeekOut))
)]
async fn consumer_seek(
    InApplication { api, scope, .. }: InApplication,
    path: PathParams<PollerPath>,
    PathParams(consumer): PathParams<ConsumerPath>,
    input: Input,
) -> Answer<PollingEndpointConsumerSeekOut> {
    let endpoint = find(&api, scope, &path).await?.id;
    let PollingEndpointConsumerSeekIn { after } = input.json()?;
    let seek = SeekAsk { endpoint, consumer: consumer.name()?, after };
    let mark = api.node.seek(scope, seek).await?;
    let mark = mark.ok_or_else(too_many_consumers)?;
    Ok(Json(PollingEndpointConsumerSeekOut { iterator: PollIterator { endpoint, mark }.to_string() }))
}

/// Finds a polled endpoint. Other endpoints are not found here.
async fn find(api: &Api, scope: AppScope, path: &PollerPath) -> Result<Endpoint, ApiError> {
    let found = scope::find_endpoint(api, scope, &path.sink_id).await?;
    let found = found.filter(Endpoint::is_polled);
    found.ok_or_else(|| ApiError::not_found(scope::named("polled endpoint", &path.sink_id)))
}

async fn answer(api: &Api, scope: AppScope, ask: PollAsk) -> Result<Response, ApiError> {
    let endpoint = ask.endpoint;
    let PollPage { messages, mark, done } = match api.node.poll(scope, ask).await? {
        Polled::Page(page) => page,
        Polled::OutOfStep => {
            return Err(invalid_iterator("The iterator is older than the consumer's last seek: ask without one."));
        }
        Polled::TooManyConsumers => return Err(too_many_consumers()),
    };
    let now = api.now();
    let data = messages.iter().map(|message| MessageOut::new(message, now, &ContentParams::ALL, None)).collect();
    let iterator = PollIterator { endpoint, mark }.to_string();
    Ok(Json(PollingEndpointOut { data, iterator, done }).into_response())
}

fn invalid_iterator(detail: &'static str) -> ApiError {
    ApiError::bad_request("invalid_iterator", detail)
}

fn too_many_consumers() -> ApiError {
    let detail = format!("A polled endpoint has at most {POLL_CONSUMERS_MAX} consumers: use one of the known names.");
    ApiError::limit_reached(detail)
}

impl PollParams {
    /// The position that the iterator holds.
    fn mark(&self, endpoint: EndpointId) -> Result<Option<PollMark>, ApiError> {
        let Some(text) = &self.iterator else { return Ok(None) };
        let iterator = text.parse::<PollIterator>().ok().filter(|iterator| iterator.endpoint == endpoint);
        let iterator =
            iterator.ok_or_else(|| invalid_iterator("The iterator is not of this poller: ask without one."))?;
        Ok(Some(iterator.mark))
    }
}

impl ConsumerPath {
    fn name(&self) -> Result<Name, ApiError> {
        at("consumer_id").check(self.consumer_id.parse()).map_err(ApiError::in_path)
    }
}

impl From<Endpoint> for DestinationOut {
    fn from(endpoint: Endpoint) -> DestinationOut {
        DestinationOut {
            id: endpoint.id,
            kind: POLLING_ENDPOINT,
            uid: endpoint.uid,
            event_types: endpoint.event_types,
            channels: endpoint.channels,
            created_at: endpoint.created_at,
            updated_at: endpoint.updated_at,
        }
    }
}
