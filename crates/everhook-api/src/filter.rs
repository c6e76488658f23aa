//! Filter expressions of endpoints, and the tester: does this endpoint get that message, and why?

use axum::Json;
use everhook_core::draft::Draft;
use everhook_core::endpoint::Endpoint;
use everhook_core::filter::expression::Expression;
use everhook_core::filter::{Facts, FilterCheck, FilterPart, explain};
use everhook_core::id::MessageId;
use everhook_core::message::{Message, Rest};
use everhook_core::violation::{Violation, at};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::error::ApiError;
use crate::input::Input;
use crate::routes::{Answer, Routes};
use crate::scope::{self, ApplicationPath, AtEndpoint, EndpointPath};

/// A message to test an endpoint's filters with: an accepted one, or one that is described here.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct FilterTestIn<'a> {
    /// The id or event id of an accepted message, in the place of the other fields of a message.
    msg_id: Option<String>,
    /// The event type of the message.
    event_type: Option<String>,
    /// The payload of the message.
    #[serde(borrow)]
    #[schema(value_type = Option<Object>)]
    payload: Option<&'a RawValue>,
    /// The channels of the message.
    #[schema(min_items = 1, max_items = 10)]
    channels: Option<Vec<String>>,
    /// The tags of the message.
    #[schema(max_items = 8)]
    tags: Option<Vec<String>>,
    /// The event id of the message.
    event_id: Option<String>,
    /// The expression to test in the place of the endpoint's own.
    #[schema(max_length = 1024, example = "payload.amount > 100")]
    filter: Option<String>,
}

/// The result of a test.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FilterTestOut {
    /// Whether the message passes every check.
    matches: bool,
    /// All checks, in the order in which they run.
    checks: Vec<FilterCheckOut>,
}

/// One check of an endpoint's filters.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FilterCheckOut {
    /// `eventTypes`, `channels` or `filter`.
    #[schema(value_type = String, example = "filter")]
    check: &'static str,
    /// Whether the message passes the check.
    passes: bool,
    /// The reason, for people.
    #[schema(example = "the expression is false")]
    reason: String,
}

pub(crate) fn routes() -> Routes {
    Routes::default().add(test, __path_test)
}

/// Test whether a message passes the filters of an endpoint, and why. Nothing is sent.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/filter/test", operation_id = "v1.policy.test-filter",
    tag = "Policy", params(ApplicationPath, EndpointPath), request_body = FilterTestIn,
    responses((status = 200, body = FilterTestOut))
)]
async fn test(to: AtEndpoint, input: Input) -> Answer<FilterTestOut> {
    let wanted: FilterTestIn<'_> = input.json()?;
    let filter = changed(wanted.filter.clone().map(Some), to.endpoint.filter.clone())?;
    let message = message(&to, wanted).await?;
    let endpoint = Endpoint { filter, ..to.endpoint };
    Ok(Json(FilterTestOut::new(explain(&endpoint, &Facts::of(&message)))))
}

async fn message(to: &AtEndpoint, wanted: FilterTestIn<'_>) -> Result<Message, ApiError> {
    if let Some(id) = &wanted.msg_id {
        let others = [
            ("eventType", wanted.event_type.is_some()),
            ("payload", wanted.payload.is_some()),
            ("channels", wanted.channels.is_some()),
            ("tags", wanted.tags.is_some()),
            ("eventId", wanted.event_id.is_some()),
        ];
        if let Some((name, _)) = others.into_iter().find(|(_, is_set)| *is_set) {
            return Err(at(name).breaks("cannot be combined with msgId").into());
        }
        return scope::message(&to.api, to.scope, id).await;
    }
    let event_type = wanted.event_type.ok_or_else(|| at("eventType").breaks("is required, or msgId"))?;
    let draft = Draft { event_type, event_id: wanted.event_id, channels: wanted.channels, tags: wanted.tags };
    let checked = draft.check()?;
    Ok(Message {
        id: MessageId(to.api.new_id()),
        application: to.scope.application,
        event_type: checked.event_type,
        event_id: checked.event_id,
        channels: checked.channels,
        tags: checked.tags,
        payload: wanted.payload.map(|payload| payload.get().to_owned().into()),
        created_at: to.api.now(),
        rest: Rest::default(),
    })
}

/// Returns the expression after a request: an absent one stays, and null removes it.
pub(crate) fn changed(
    wanted: Option<Option<String>>,
    old: Option<Expression>,
) -> Result<Option<Expression>, Violation> {
    match wanted {
        None => Ok(old),
        Some(None) => Ok(None),
        // A stored expression stays valid, although a later version may be stricter.
        Some(Some(text)) if old.as_ref().is_some_and(|old| old.as_str() == text) => Ok(old),
        Some(Some(text)) => at("filter").check(Expression::compile(&text)).map(Some),
    }
}

impl FilterTestOut {
    fn new(checks: Vec<FilterCheck>) -> FilterTestOut {
        let checked = |FilterCheck { part, passes, reason }| {
            let check = match part {
                FilterPart::EventTypes => "eventTypes",
                FilterPart::Channels => "channels",
                FilterPart::Expression => "filter",
            };
            FilterCheckOut { check, passes, reason }
        };
        FilterTestOut {
            matches: checks.iter().all(|checked| checked.passes),
            checks: checks.into_iter().map(checked).collect(),
        }
    }
}
