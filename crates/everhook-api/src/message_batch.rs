//! Batches of messages: many messages of one application in one transaction.
//!
//! A message that breaks a rule refuses the whole request, because it is a mistake in the caller's code. A message
//! whose event id or once-slot is taken is an everyday result, and has an entry of its own in the answer.

use axum::Json;
use everhook_core::id::{ApplicationId, MessageId};
use everhook_core::limits::MESSAGE_BATCH_MAX;
use everhook_core::scope::Scope;
use everhook_core::violation::at;
use everhook_store::catalog::Locator;
use everhook_store::dedup::DedupKey;
use everhook_store::lease::{Appended, NewMessage};
use everhook_store::uids::Found;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::application::{self, ApplicationIn};
use crate::direct;
use crate::error::ApiError;
use crate::input::{self, Input};
use crate::message_in::{CheckedMessage, MessageIn};
use crate::routes::{Routes, StatusAnswer};
use crate::scope::{self, ApplicationPath, AtPath};
use crate::state::Api;

/// Messages to accept together.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MessageBatchIn<'a> {
    /// The messages, in the order of acceptance. The whole request may have 1 MiB.
    #[serde(borrow, deserialize_with = "input::objects")]
    #[schema(min_items = 1, max_items = 1000, example = json!([
        { "eventType": "user.signup", "payload": { "user": 1 } },
        { "eventType": "user.signup", "payload": { "user": 2 } },
    ]))]
    messages: Vec<MessageIn<'a>>,
    /// The application to create if none has the uid of the path. Messages of a batch cannot name one.
    #[serde(default, deserialize_with = "input::object")]
    application: Option<ApplicationIn>,
}

/// The results of a batch, in the order of its messages.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MessageBatchOut {
    data: Vec<BatchedMessageOut>,
}

/// The result of one message of a batch: an id, or an error.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct BatchedMessageOut {
    /// The id of the message that was accepted, now or earlier, or that holds the once-slot.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "msg_1srOrx2ZWZBpBUvZwXKQmoEYga2")]
    id: Option<MessageId>,
    /// True if an earlier request with the same idempotency key created the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    existing: Option<bool>,
    /// True if nothing was accepted, because the message with this id holds the once-slot.
    #[serde(skip_serializing_if = "Option::is_none")]
    suppressed: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<NotAcceptedOut>,
}

/// The reason why a message of a batch was not accepted.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NotAcceptedOut {
    /// A code for programs, such as `conflict`.
    #[schema(value_type = String)]
    code: &'static str,
    /// A text for people.
    #[schema(value_type = String)]
    detail: &'static str,
}

pub(crate) fn routes() -> Routes {
    Routes::default().add(create_batch, __path_create_batch)
}

/// Create up to 1,000 messages in one transaction. The answer comes when all of them are durable, and has a result for
/// each, in order. A message that breaks a rule refuses the whole request.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/msg/batch", operation_id = "v1.message.create-batch", tag = "Message",
    params(ApplicationPath), request_body = MessageBatchIn,
    responses((status = 202, body = MessageBatchOut))
)]
async fn create_batch(
    AtPath { api, scope, path }: AtPath<ApplicationPath>,
    input: Input,
) -> StatusAnswer<MessageBatchOut> {
    let locator = scope::application(&path.app_id)?;
    let MessageBatchIn { messages, application } = input.json()?;
    application::check_uid(application.as_ref(), &locator)?;
    if messages.is_empty() || messages.len() > MESSAGE_BATCH_MAX {
        return Err(at("messages").breaks(format!("must have 1 to {MESSAGE_BATCH_MAX} entries")).into());
    }
    let id = match &locator {
        Locator::Id(id) => *id,
        Locator::Uid(_) => application::find_or_create(&api, scope, &locator, application).await?.id,
    };
    let mut new = Vec::with_capacity(messages.len());
    for (index, message) in messages.into_iter().enumerate() {
        let key = input.key.as_ref().map(|key| key.entry(index));
        let checked = check(&api, scope, message, id, key).await;
        let mut checked = checked.map_err(|bad| bad.in_entry("messages", index))?;
        checked.message.rest.trace = input.trace;
        new.push(checked);
    }
    let ids: Vec<MessageId> = new.iter().map(|new| new.message.id).collect();
    let appended = api.node.accept_batch(new).await?;
    let absent = || scope::no_application(&path.app_id);
    let result = |(id, appended)| BatchedMessageOut::new(id, appended).ok_or_else(absent);
    let data = ids.into_iter().zip(appended).map(result).collect::<Result<_, ApiError>>()?;
    Ok((StatusCode::ACCEPTED, Json(MessageBatchOut { data })))
}

async fn check(
    api: &Api,
    scope: Scope,
    message: MessageIn<'_>,
    application: ApplicationId,
    key: Option<DedupKey>,
) -> Result<NewMessage, ApiError> {
    if message.has_application() {
        return Err(at("application").breaks("cannot be set here: set it beside the list of messages").into());
    }
    let found = Found { id: application, version: None };
    let CheckedMessage { mut new, url, .. } = message.check(api, scope, found, key)?;
    if let Some(url) = url {
        new.audience = direct::audience(api, scope.application(application), &url).await?;
    }
    Ok(new)
}

impl BatchedMessageOut {
    /// The result of the message with this id; none if there is no application.
    fn new(id: MessageId, appended: Appended) -> Option<BatchedMessageOut> {
        let of = |id| BatchedMessageOut { id: Some(id), ..BatchedMessageOut::default() };
        Some(match appended {
            Appended::Accepted { .. } => of(id),
            Appended::Repeated(id) => BatchedMessageOut { existing: Some(true), ..of(id) },
            Appended::Suppressed(winner) => BatchedMessageOut { suppressed: Some(true), ..of(winner) },
            Appended::EventIdTaken => {
                BatchedMessageOut::failed("conflict", "A message with this eventId exists already.")
            }
            Appended::KeyReused => BatchedMessageOut::failed(
                "idempotency_key_reused",
                "The idempotency key was used before with another body: use a new key for a new request.",
            ),
            Appended::NoApplication => return None,
        })
    }

    fn failed(code: &'static str, detail: &'static str) -> BatchedMessageOut {
        BatchedMessageOut { error: Some(NotAcceptedOut { code, detail }), ..BatchedMessageOut::default() }
    }
}
