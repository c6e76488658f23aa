//! Attempts of deliveries: lists, single attempts, and the removal of stored replies.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::FromRequestParts;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use everhook_core::exchange::{Exchange, ReplyHeader};
use everhook_core::id::{AttemptId, EndpointId, MessageId};
use everhook_core::limits::SCAN_ROWS_MAX;
use everhook_core::outcome::{Class, Reply, SendFailure};
use everhook_core::scope::AppScope;
use everhook_core::task::Trigger;
use everhook_core::time::Timestamp;
use everhook_core::violation::at;
use everhook_store::catalog::Locator;
use everhook_store::history::{Attempt, AttemptFilter, AttemptResult, AttemptsOf, Expunge};
use everhook_store::query;
use http::StatusCode;
use http::request::Parts;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::attempt_request::{self, AttemptRequestOut};
use crate::error::ApiError;
use crate::message::{ContentParams, FilterParams, MessageOut};
use crate::page::{Page, PageParams};
use crate::query::Query;
use crate::routes::{Answer, EmptyAnswer, Routes, routes_of};
use crate::scope::{
    self, ApplicationPath, AtEndpoint, EndpointPath, InApplication, InEnvironment, MessagePath, OfMessage, PathParams,
};
use crate::state::Api;

/// One attempt to deliver a message to an endpoint.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageAttemptOut {
    #[schema(value_type = String, example = "atmpt_1srOrx2ZWZBpBUvZwXKQmoEYga2")]
    id: AttemptId,
    #[schema(value_type = String)]
    msg_id: MessageId,
    #[schema(value_type = String)]
    endpoint_id: EndpointId,
    /// The URL of the request.
    url: String,
    /// The stored part of the reply body, in base64 if it is not text. Without a reply, the error.
    response: String,
    /// The HTTP status of the reply, or 0 without a reply.
    response_status_code: u16,
    /// Duration of the attempt in milliseconds. An abandoned attempt lasts until another node takes over its task.
    response_duration_ms: u64,
    /// 0 = success, 2 = fail, 4 = canceled.
    status: u8,
    #[schema(value_type = String)]
    status_text: &'static str,
    /// 0 = scheduled, 1 = manual.
    trigger_type: u8,
    /// The outcome: success, status, throttled, gone, dns, connect, tls, timeout, reset, blocked, abandoned,
    /// interrupted, cancelled or internal.
    class: String,
    /// Start of the attempt. For an abandoned attempt, the time of its lease.
    #[schema(value_type = String, format = DateTime)]
    timestamp: Timestamp,
    /// The steps of the request. Absent if no request was sent, and for attempts of older servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    phases: Option<PhasesOut>,
    /// The first headers of the reply. Absent without a reply, and if the policy or the request excludes replies.
    #[serde(skip_serializing_if = "Option::is_none")]
    response_headers: Option<Vec<ReplyHeaderOut>>,
    /// The number of the attempt: 1 for the first one that the retry policy counts. Absent if no request was sent, and
    /// for attempts of older servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u32>,
    /// The request, computed from the message and the current settings of the endpoint. Only single attempts have it.
    /// Absent if no request was sent, if its reply was expunged, and if the endpoint was deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<AttemptRequestOut>,
    /// The message without its payload. Present only with `with_msg`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<MessageOut>)]
    msg: Option<Value>,
}

/// The steps of a request, in milliseconds. A step that did not happen is absent; the last step may have failed.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PhasesOut {
    /// Whether an open connection carried the request. Such a request has no DNS look-up, connection and handshake.
    reused: bool,
    /// The wait for a free connection to the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_ms: Option<f64>,
    /// The DNS look-up.
    #[serde(skip_serializing_if = "Option::is_none")]
    dns_ms: Option<f64>,
    /// The TCP connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    connect_ms: Option<f64>,
    /// The TLS handshake.
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_ms: Option<f64>,
    /// From the start of the request to the head of the reply. Absent if no reply arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_byte_ms: Option<f64>,
    /// From the head to the end of the reply. Absent if the reply did not end.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_ms: Option<f64>,
}

/// A header of a reply.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReplyHeaderOut {
    /// The name in lower case.
    name: String,
    /// The value, cut if it is long. Null unless the name is known to be harmless: the value may be a credential.
    value: Option<String>,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct AttemptParams {
    /// Only attempts with this status: 0 = success, 2 = fail. The values 1, 3 and 4 match no attempt.
    #[serde(deserialize_with = "crate::query::one")]
    #[param(minimum = 0, maximum = 4)]
    status: Option<u8>,
    /// Only attempts with an HTTP status in this class: 100, 200, 300, 400 or 500. 0 means no reply.
    #[serde(deserialize_with = "crate::query::one")]
    status_code_class: Option<u16>,
    /// Whether the client supports status 4 (canceled). Otherwise cancelled attempts have status 2.
    #[serde(deserialize_with = "crate::query::one")]
    expanded_statuses: Option<bool>,
    /// Include the message of each attempt, without its payload.
    #[serde(deserialize_with = "crate::query::one")]
    with_msg: Option<bool>,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct ToEndpointParams {
    /// Only attempts to the endpoint with this id or uid.
    #[serde(deserialize_with = "crate::query::one")]
    endpoint_id: Option<String>,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct AttemptPath {
    /// The attempt's id.
    attempt_id: String,
}

#[expect(deprecated, reason = "old clients use the old paths")]
pub(crate) fn routes() -> Routes {
    routes_of![
        list_by_endpoint __path_list_by_endpoint, list_by_message __path_list_by_message,
        list_by_message_deprecated __path_list_by_message_deprecated,
        list_by_both_deprecated __path_list_by_both_deprecated, get __path_get, expunge __path_expunge,
    ]
}

type Attempts = Answer<Page<MessageAttemptOut>>;

/// List the attempts to an endpoint, newest first.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/attempt/endpoint/{endpoint_id}",
    operation_id = "v1.message-attempt.list-by-endpoint", tag = "Message Attempt",
    params(ApplicationPath, EndpointPath, PageParams, AttemptParams, FilterParams, ContentParams),
    responses((status = 200, body = Page<MessageAttemptOut>))
)]
async fn list_by_endpoint(at: AtEndpoint, asked: Asked) -> Attempts {
    asked.list(&at.api, at.scope, AttemptsOf::Endpoint(at.endpoint.id)).await
}

/// List the attempts of a message, newest first.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/attempt/msg/{msg_id}",
    operation_id = "v1.message-attempt.list-by-msg", tag = "Message Attempt",
    params(ApplicationPath, MessagePath, ToEndpointParams, PageParams, AttemptParams, FilterParams, ContentParams),
    responses((status = 200, body = Page<MessageAttemptOut>))
)]
async fn list_by_message(of: OfMessage, Query(to): Query<ToEndpointParams>, asked: Asked) -> Attempts {
    let scope = of.scope;
    let endpoint = scope::some_endpoint(&of.api, scope, to.endpoint_id.as_deref()).await?;
    asked.list(&of.api, scope, AttemptsOf::Message(of.message.id, endpoint.map(|endpoint| endpoint.id))).await
}

/// List the attempts of a message. This is the older path of the operation.
#[deprecated]
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/msg/{msg_id}/attempt",
    operation_id = "v1.message-attempt.list-by-msg-deprecated", tag = "Message Attempt",
    params(ApplicationPath, MessagePath, ToEndpointParams, PageParams, AttemptParams, FilterParams, ContentParams),
    responses((status = 200, body = Page<MessageAttemptOut>))
)]
async fn list_by_message_deprecated(of: OfMessage, to: Query<ToEndpointParams>, asked: Asked) -> Attempts {
    list_by_message(of, to, asked).await
}

/// List the attempts of a message to an endpoint. This is the older path of the operation.
#[deprecated]
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/attempt",
    operation_id = "v1.message-attempt.list-by-endpoint-deprecated", tag = "Message Attempt",
    params(ApplicationPath, MessagePath, EndpointPath, PageParams, AttemptParams, FilterParams, ContentParams),
    responses((status = 200, body = Page<MessageAttemptOut>))
)]
async fn list_by_both_deprecated(of: OfMessage, at: AtEndpoint, asked: Asked) -> Attempts {
    asked.list(&of.api, of.scope, AttemptsOf::Message(of.message.id, Some(at.endpoint.id))).await
}

/// Get an attempt.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/msg/{msg_id}/attempt/{attempt_id}", operation_id = "v1.message-attempt.get",
    tag = "Message Attempt", params(ApplicationPath, MessagePath, AttemptPath, AttemptParams),
    responses((status = 200, body = MessageAttemptOut))
)]
async fn get(
    InApplication { api, application, .. }: InApplication,
    of: OfMessage,
    path: PathParams<AttemptPath>,
    Query(params): Query<AttemptParams>,
) -> Answer<MessageAttemptOut> {
    let found =
        api.read(query::FindAttempt { scope: of.scope.scope(), message: of.message.id, id: path.id()? }).await?;
    let found = found.ok_or_else(|| path.not_found())?;
    let request = attempt_request::of(&api, (of.scope, &application), &of.message, &found).await?;
    Ok(Json(MessageAttemptOut { request, ..MessageAttemptOut::new(found, &params, &ContentParams::default()) }))
}

/// Remove the stored reply of an attempt.
#[utoipa::path(
    delete, path = "/api/v1/app/{app_id}/msg/{msg_id}/attempt/{attempt_id}/content",
    operation_id = "v1.message-attempt.expunge-content", tag = "Message Attempt",
    params(ApplicationPath, MessagePath, AttemptPath), responses((status = 204))
)]
async fn expunge(_: InEnvironment, of: OfMessage, path: PathParams<AttemptPath>) -> EmptyAnswer {
    let what = Expunge::Attempt { message: of.message.id, id: path.id()? };
    let found = of.api.node.expunge(of.scope, what).await?;
    if found { Ok(StatusCode::NO_CONTENT) } else { Err(path.not_found()) }
}

/// The parameters that all lists of attempts have in common.
struct Asked {
    page: PageParams,
    params: AttemptParams,
    filter: FilterParams,
    content: ContentParams,
}

impl FromRequestParts<Arc<Api>> for Asked {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Asked, ApiError> {
        Ok(Asked {
            page: Query::from_request_parts(parts, api).await?.0,
            params: Query::from_request_parts(parts, api).await?.0,
            filter: Query::from_request_parts(parts, api).await?.0,
            content: Query::from_request_parts(parts, api).await?.0,
        })
    }
}

impl Asked {
    async fn list(self, api: &Api, scope: AppScope, of: AttemptsOf) -> Attempts {
        let Asked { page, params, filter, content } = self;
        let cursor = filter.cursor(&page)?;
        let show = |row| MessageAttemptOut::new(row, &params, &content);
        let Some(result) = params.result()? else {
            return Ok(Json(cursor.page(Vec::new(), |row: &Attempt| row.id, show)));
        };
        let filter = AttemptFilter {
            of,
            slice: cursor.slice(),
            result,
            status_class: params.status_class()?,
            before: filter.before,
            after: filter.after,
            channel: filter.channel,
            tag: filter.tag,
            event_types: filter.event_types,
            scan: SCAN_ROWS_MAX,
        };
        let piece = api.read(query::Attempts { scope, filter }).await?;
        let mut page = cursor.page_of(piece, |row| row.id, show);
        if params.with_msg == Some(true) {
            add_messages(api, scope, &mut page.data).await?;
        }
        Ok(Json(page))
    }
}

/// Adds the message of each attempt. Messages that have been pruned since are left out.
async fn add_messages(api: &Api, scope: AppScope, attempts: &mut [MessageAttemptOut]) -> Result<(), ApiError> {
    let mut known = BTreeMap::new();
    for attempt in attempts {
        if let Entry::Vacant(unknown) = known.entry(attempt.msg_id) {
            let found = api.read(query::FindMessage { scope, locator: Locator::Id(attempt.msg_id) }).await?;
            unknown.insert(found.map(|found| MessageOut::without_content(&found)));
        }
        attempt.msg = known.get(&attempt.msg_id).cloned().flatten();
    }
    Ok(())
}

impl AttemptParams {
    /// Returns the result to filter by, `Some(None)` without a filter, or `None` for a status that no attempt has.
    fn result(&self) -> Result<Option<Option<AttemptResult>>, ApiError> {
        match self.status {
            None => Ok(Some(None)),
            Some(0) => Ok(Some(Some(AttemptResult::Succeeded))),
            Some(2) => Ok(Some(Some(AttemptResult::Failed))),
            Some(1 | 3 | 4) => Ok(None),
            Some(_) => Err(ApiError::in_query(at("status").breaks("must be from 0 to 4"))),
        }
    }

    fn status_class(&self) -> Result<Option<u16>, ApiError> {
        match self.status_code_class {
            None | Some(0 | 100 | 200 | 300 | 400 | 500) => Ok(self.status_code_class),
            Some(_) => Err(ApiError::in_query(at("status_code_class").breaks("must be 0, 100, 200, 300, 400 or 500"))),
        }
    }
}

impl AttemptPath {
    fn id(&self) -> Result<AttemptId, ApiError> {
        self.attempt_id.parse().map_err(|_| self.not_found())
    }

    fn not_found(&self) -> ApiError {
        ApiError::not_found(scope::named("attempt", &self.attempt_id))
    }
}

impl MessageAttemptOut {
    fn new(attempt: Attempt, params: &AttemptParams, content: &ContentParams) -> MessageAttemptOut {
        let (status, status_text) = match attempt.class {
            Class::Success => (0, "success"),
            Class::Cancelled if params.expanded_statuses == Some(true) => (4, "canceled"),
            _ => (2, "fail"),
        };
        MessageAttemptOut {
            id: attempt.id,
            msg_id: attempt.message,
            endpoint_id: attempt.endpoint,
            url: attempt.url,
            response: if content.is_wanted() { reply_text(&attempt.reply) } else { "{}".to_owned() },
            response_status_code: attempt.status,
            response_duration_ms: millis(attempt.duration),
            status,
            status_text,
            trigger_type: match attempt.trigger {
                Trigger::Scheduled => 0,
                Trigger::Manual => 1,
            },
            class: attempt.class.to_string(),
            timestamp: attempt.started_at,
            phases: attempt.exchange.as_ref().and_then(PhasesOut::of),
            number: attempt.exchange.as_ref().and_then(|exchange| exchange.number),
            request: None,
            response_headers: attempt.exchange.filter(|_| content.is_wanted()).and_then(reply_headers),
            msg: None,
        }
    }
}

impl PhasesOut {
    /// Returns none if no step happened.
    pub(crate) fn of(exchange: &Exchange) -> Option<PhasesOut> {
        let ms = |span: Option<Duration>| span.map(|span| span.as_micros() as f64 / 1000.0);
        exchange.has_steps().then(|| PhasesOut {
            reused: exchange.reused,
            wait_ms: ms(exchange.wait),
            dns_ms: ms(exchange.dns),
            connect_ms: ms(exchange.connect),
            tls_ms: ms(exchange.tls),
            first_byte_ms: ms(exchange.first_byte),
            body_ms: ms(exchange.body),
        })
    }
}

pub(crate) fn reply_headers(exchange: Exchange) -> Option<Vec<ReplyHeaderOut>> {
    let out = |ReplyHeader(name, value)| ReplyHeaderOut { name: name.into_owned(), value };
    (!exchange.headers.is_empty()).then(|| exchange.headers.into_iter().map(out).collect())
}

pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the status and the body of the answer to a test request: 0 and an empty text without a reply.
pub(crate) fn tried(answer: &Result<Reply, SendFailure>) -> (u16, String) {
    answer.as_ref().map_or_else(|_| (0, String::new()), |reply| (reply.status, reply_text(&reply.body)))
}

fn reply_text(reply: &[u8]) -> String {
    match std::str::from_utf8(reply) {
        Ok(text) => text.to_owned(),
        // The stored reply may end in the middle of a character. Such a reply is still text.
        Err(error) if error.error_len().is_none() => {
            String::from_utf8_lossy(&reply[..error.valid_up_to()]).into_owned()
        }
        Err(_) => BASE64.encode(reply),
    }
}
