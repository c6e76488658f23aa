//! Messages: the routes that create, list, show and expunge them.
//!
//! Creation is the hot path. The body is parsed once, and the payload is copied from it byte for byte and given to the
//! node, which answers when the message is durable. The application is read only if its uid is not cached; the append
//! checks that the application still exists.

use std::borrow::Cow;
use std::collections::BTreeMap;

use axum::Json;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use everhook_core::delivery::{DeliveryKey, DeliveryTally};
use everhook_core::id::{ApplicationId, MessageId};
use everhook_core::limits::SCAN_ROWS_MAX;
use everhook_core::message::Message;
use everhook_core::name::Name;
use everhook_core::scope::{AppScope, Scope};
use everhook_core::time::Timestamp;
use everhook_store::catalog::{Locator, Order, Slice};
use everhook_store::delivery::DeliveryFilter;
use everhook_store::history::{Expunge, MessageFilter};
use everhook_store::lease::Appended;
use everhook_store::piece::Piece;
use everhook_store::query;
use everhook_store::uids::Found;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use crate::application;
use crate::delivery;
use crate::direct;
use crate::error::ApiError;
use crate::input::Input;
use crate::message_in::{CheckedMessage, MessageIn};
use crate::message_search::{TextParams, find};
use crate::page::{Cursor, Page, PageParams};
use crate::query::Query;
use crate::routes::{EmptyAnswer, Routes, routes_of};
use crate::scope::{self, ApplicationPath, InApplication, InEnvironment, MessagePath, OfMessage, PathParams};
use crate::state::Api;

/// A message.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageOut<'a> {
    #[schema(value_type = String, example = "msg_1srOrx2ZWZBpBUvZwXKQmoEYga2")]
    id: MessageId,
    #[schema(value_type = String)]
    event_type: &'a Name,
    #[schema(value_type = Option<String>)]
    event_id: Option<&'a Name>,
    #[schema(value_type = Option<Vec<String>>)]
    channels: Option<&'a [Name]>,
    #[schema(value_type = Option<Vec<String>>)]
    tags: Option<&'a [Name]>,
    #[schema(value_type = Object)]
    payload: Cow<'a, RawValue>,
    #[schema(value_type = String, format = DateTime)]
    timestamp: Timestamp,
    /// The time of delivery, if the request set one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    deliver_at: Option<Timestamp>,
    /// The message whose dead delivery this message replaces with a corrected payload.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    redrive_of: Option<MessageId>,
    /// True in a response with status 200: the request was suppressed, and this message has the once-slot.
    #[serde(skip_serializing_if = "is_false")]
    #[schema(required = false)]
    suppressed: bool,
    /// The deliveries of the message, by state; only in a list with `with_deliveries`.
    #[serde(skip_serializing_if = "Option::is_none")]
    deliveries: Option<DeliveryTallyOut>,
}

/// The deliveries of a message, by state.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(crate) struct DeliveryTallyOut {
    /// Waiting for the first attempt.
    pending: u64,
    /// Waiting after a failed attempt.
    retrying: u64,
    /// Being sent now.
    sending: u64,
    /// Waiting because the endpoint is disabled.
    held: u64,
    /// Delivered.
    succeeded: u64,
    dead: u64,
    cancelled: u64,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct TallyParams {
    /// Include the number of deliveries of each message, by state. Default: false.
    #[serde(deserialize_with = "crate::query::one")]
    with_deliveries: Option<bool>,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct ContentParams {
    /// Include the payload of messages and the response of attempts. Default: true.
    #[serde(deserialize_with = "crate::query::one")]
    with_content: Option<bool>,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct FilterParams {
    /// Only messages on this channel, or their attempts.
    #[serde(deserialize_with = "crate::query::one")]
    #[param(value_type = Option<String>)]
    pub(crate) channel: Option<Name>,
    /// Only messages with this tag, or their attempts.
    #[serde(deserialize_with = "crate::query::one")]
    #[param(value_type = Option<String>)]
    pub(crate) tag: Option<Name>,
    /// Only items before this time.
    #[serde(deserialize_with = "crate::query::time")]
    #[param(value_type = Option<String>, format = DateTime)]
    pub(crate) before: Option<Timestamp>,
    /// Only items at this time or later.
    #[serde(deserialize_with = "crate::query::time")]
    #[param(value_type = Option<String>, format = DateTime)]
    pub(crate) after: Option<Timestamp>,
    /// Only messages of one of these event types, or their attempts.
    #[serde(deserialize_with = "crate::query::names")]
    #[param(value_type = Option<Vec<String>>, style = Form)]
    pub(crate) event_types: Vec<Name>,
}

pub(crate) fn routes() -> Routes {
    routes_of![create __path_create, list __path_list, get __path_get, expunge __path_expunge]
}

/// Create a message. The response follows when the message and its deliveries are durable.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/msg", operation_id = "v1.message.create", tag = "Message",
    params(ApplicationPath, ContentParams), request_body = MessageIn,
    responses((status = 202, body = MessageOut), (status = 200, body = MessageOut, description = "Suppressed: another message has the once-slot."))
)]
async fn create(
    InEnvironment { api, scope }: InEnvironment,
    PathParams(ApplicationPath { app_id }): PathParams<ApplicationPath>,
    Query(content): Query<ContentParams>,
    input: Input,
) -> Result<Response, ApiError> {
    let locator = scope::application(&app_id)?;
    let guess = match &locator {
        Locator::Id(id) => Some(Found { id: *id, version: None }),
        Locator::Uid(uid) => api.uids.guess(scope.environment, uid),
    };
    if let Some(guess) = guess
        && let Some(answer) = send(&api, scope, &locator, guess, &input, &content).await?
    {
        return Ok(answer);
    }
    // Boxed, because most requests do not come here, but all of them would carry the future.
    let id = Box::pin(resolve(&api, scope, &locator, &input)).await?.ok_or_else(|| scope::no_application(&app_id))?;
    let answer = Box::pin(send(&api, scope, &locator, Found { id, version: None }, &input, &content)).await?;
    answer.ok_or_else(|| scope::no_application(&app_id))
}

/// Finds the application of a uid that is not cached, or whose application has changed since. Creates it if the message
/// says so.
async fn resolve(
    api: &Api,
    scope: Scope,
    locator: &Locator<ApplicationId>,
    input: &Input,
) -> Result<Option<ApplicationId>, ApiError> {
    let Locator::Uid(uid) = locator else { return Ok(None) };
    let found = api.read(query::ResolveApplication { scope, uid: uid.clone() }).await?;
    Ok(Some(match found {
        Some(found) => api.uids.remember(scope.environment, uid, found).id,
        None => {
            let wanted: MessageIn<'_> = input.json()?;
            application::find_or_create(api, scope, locator, wanted.application).await?.id
        }
    }))
}

/// Sends a message of an application. Returns none if the application does not exist or has changed since `found`.
async fn send(
    api: &Api,
    scope: Scope,
    locator: &Locator<ApplicationId>,
    found: Found,
    input: &Input,
    content: &ContentParams,
) -> Result<Option<Response>, ApiError> {
    let wanted: MessageIn<'_> = input.json()?;
    application::check_uid(wanted.application.as_ref(), locator)?;
    let application = found.id;
    let CheckedMessage { mut new, url, payload } = wanted.check(api, scope, found, input.key.clone())?;
    new.message.rest.trace = input.trace;
    if let Some(url) = url {
        new.audience = Box::pin(direct::audience(api, scope.application(application), &url)).await?;
    }
    match api.node.accept(new).await? {
        Appended::Accepted { message: new, .. } => Ok(Some(show(&new, api.now(), content, payload))),
        Appended::Repeated(id) => {
            Box::pin(show_repeated(api, scope.application(application), id, content)).await.map(Some)
        }
        Appended::KeyReused => Err(ApiError::key_reused()),
        Appended::EventIdTaken => Err(ApiError::conflict("A message with this eventId already exists.")),
        Appended::Suppressed(winner) => {
            Box::pin(show_suppressed(api, scope, application, winner, content)).await.map(Some)
        }
        Appended::NoApplication => Ok(None),
    }
}

/// Shows the message that an earlier request with the same key created.
pub(crate) async fn show_repeated(
    api: &Api,
    scope: AppScope,
    id: MessageId,
    content: &ContentParams,
) -> Result<Response, ApiError> {
    let found = api.read(query::FindMessage { scope, locator: Locator::Id(id) }).await?;
    let found = found.ok_or_else(|| ApiError::not_found(format_args!("message {id}")))?;
    Ok(show(&found, api.now(), content, None))
}

/// List the messages of an application, newest first.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/msg", operation_id = "v1.message.list", tag = "Message",
    params(ApplicationPath, PageParams, FilterParams, TextParams, ContentParams, TallyParams),
    responses((status = 200, body = Page<MessageOut>))
)]
async fn list(
    InApplication { api, scope, .. }: InApplication,
    Query(page): Query<PageParams>,
    Query(filter): Query<FilterParams>,
    Query(text): Query<TextParams>,
    Query(content): Query<ContentParams>,
    Query(wanted): Query<TallyParams>,
) -> Result<Response, ApiError> {
    let cursor = filter.cursor(&page)?;
    let filter = text.search(filter.of_messages(cursor.slice()))?;
    let Piece { rows, next } = find(&api, filter, |filter| query::Messages { scope, filter }, |row| row).await?;
    let mut tallies = BTreeMap::new();
    for row in rows.iter().filter(|_| wanted.is_wanted()) {
        tallies.insert(row.id, delivery::tally(&api, scope, row.id).await?);
    }
    let piece = Piece { rows: rows.iter().collect::<Vec<&Message>>(), next };
    let now = api.now();
    let show = |row: &'_ Message| tallies.get(&row.id).copied().map(DeliveryTallyOut::from);
    let page = cursor.page_of(
        piece,
        |row| row.id,
        |row| MessageOut { deliveries: show(row), ..MessageOut::new(row, now, &content, None) },
    );
    Ok(Json(page).into_response())
}

/// Get a message.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/msg/{msg_id}", operation_id = "v1.message.get", tag = "Message",
    params(ApplicationPath, MessagePath, ContentParams), responses((status = 200, body = MessageOut))
)]
async fn get(OfMessage { api, message, .. }: OfMessage, Query(content): Query<ContentParams>) -> Response {
    Json(MessageOut::new(&message, api.now(), &content, None)).into_response()
}

/// Remove the payload of a message permanently. Its open deliveries are cancelled.
#[utoipa::path(
    delete, path = "/api/v1/app/{app_id}/msg/{msg_id}/content", operation_id = "v1.message.expunge-content",
    tag = "Message", params(ApplicationPath, MessagePath), responses((status = 204))
)]
async fn expunge(_: InEnvironment, of: OfMessage) -> EmptyAnswer {
    let found = of.api.node.expunge(of.scope, Expunge::Message(of.message.id)).await?;
    if found { Ok(StatusCode::NO_CONTENT) } else { Err(ApiError::not_found(format_args!("message {}", of.message.id))) }
}

pub(crate) fn show(message: &Message, now: Timestamp, content: &ContentParams, payload: Option<&RawValue>) -> Response {
    (StatusCode::ACCEPTED, Json(MessageOut::new(message, now, content, payload))).into_response()
}

/// Answers a suppressed request with the message that has the once-slot.
async fn show_suppressed(
    api: &Api,
    scope: Scope,
    application: ApplicationId,
    winner: MessageId,
    content: &ContentParams,
) -> Result<Response, ApiError> {
    let found =
        api.read(query::FindMessage { scope: scope.application(application), locator: Locator::Id(winner) }).await?;
    Ok(match &found {
        Some(message) => {
            Json(MessageOut { suppressed: true, ..MessageOut::new(message, api.now(), content, None) }).into_response()
        }
        // The message has been pruned since. Its id is known and contains the time of acceptance.
        None => Json(serde_json::json!({
            "id": winner,
            "payload": { "expired": true },
            "timestamp": winner.0.timestamp(),
            "suppressed": true,
        }))
        .into_response(),
    })
}

impl MessageOut<'_> {
    /// Shows a message without its payload, as a part of another object.
    pub(crate) fn without_content(message: &Message) -> serde_json::Value {
        let content = ContentParams { with_content: Some(false) };
        serde_json::to_value(MessageOut::new(message, message.created_at, &content, None))
            .expect("a message is always JSON")
    }
}

impl<'a> MessageOut<'a> {
    /// Shows a message. `payload` saves a second parse if the caller already has the payload as JSON.
    pub(crate) fn new(
        message: &'a Message,
        now: Timestamp,
        content: &ContentParams,
        payload: Option<&'a RawValue>,
    ) -> MessageOut<'a> {
        let payload = match (payload, message.payload_at(now)) {
            _ if !content.is_wanted() => json(r"{}"),
            (Some(payload), _) => Cow::Borrowed(payload),
            (None, Some(bytes)) => stored_payload(bytes),
            (None, None) => json(r#"{"expired":true}"#),
        };
        let some = |list: &'a Vec<Name>| (!list.is_empty()).then_some(list.as_slice());
        MessageOut {
            id: message.id,
            event_type: &message.event_type,
            event_id: message.event_id.as_ref(),
            channels: some(&message.channels),
            tags: some(&message.tags),
            payload,
            timestamp: message.created_at,
            deliver_at: message.rest.deliver_at,
            redrive_of: message.rest.redrive_of,
            suppressed: false,
            deliveries: None,
        }
    }
}

/// Returns a payload as a JSON object, because clients expect one. Other payloads are wrapped in an object.
fn stored_payload(bytes: &Bytes) -> Cow<'_, RawValue> {
    match serde_json::from_slice::<&RawValue>(bytes) {
        Ok(payload) if payload.get().starts_with('{') => Cow::Borrowed(payload),
        _ => {
            let text = String::from_utf8_lossy(bytes);
            let wrapped = serde_json::json!({ "rawPayload": text });
            Cow::Owned(serde_json::value::to_raw_value(&wrapped).expect("a string is always JSON"))
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_false(suppressed: &bool) -> bool {
    !suppressed
}

fn json(text: &'static str) -> Cow<'static, RawValue> {
    Cow::Borrowed(serde_json::from_str(text).expect("a literal that is JSON"))
}

impl ContentParams {
    pub(crate) const ALL: ContentParams = ContentParams { with_content: Some(true) };

    pub(crate) fn is_wanted(&self) -> bool {
        self.with_content.unwrap_or(true)
    }
}

impl TallyParams {
    pub(crate) fn is_wanted(&self) -> bool {
        self.with_deliveries == Some(true)
    }
}

impl FilterParams {
    pub(crate) fn of_messages(self, slice: Slice<MessageId>) -> MessageFilter {
        let FilterParams { channel, tag, before, after, event_types } = self;
        MessageFilter { slice, before, after, channel, tag, event_types, text: None, scan: SCAN_ROWS_MAX }
    }

    pub(crate) fn of_deliveries(self, application: Option<ApplicationId>, slice: Slice<DeliveryKey>) -> DeliveryFilter {
        let FilterParams { channel, tag, before, after, event_types } = self;
        let all = DeliveryFilter::of(application, slice, SCAN_ROWS_MAX);
        DeliveryFilter { channel, tag, before, after, event_types, ..all }
    }

    /// Lists newest first. A request with only `after` gets the page next to that time.
    pub(crate) fn cursor<K: std::str::FromStr + Clone>(&self, page: &PageParams) -> Result<Cursor<K>, ApiError> {
        let cursor = Cursor::new(page, Order::Descending)?;
        let starts_after = self.after.is_some() && self.before.is_none();
        Ok(if starts_after { cursor.or_last() } else { cursor })
    }
}

impl From<DeliveryTally> for DeliveryTallyOut {
    fn from(tally: DeliveryTally) -> DeliveryTallyOut {
        let DeliveryTally { pending, retrying, sending, held, succeeded, dead, cancelled } = tally;
        DeliveryTallyOut { pending, retrying, sending, held, succeeded, dead, cancelled }
    }
}
