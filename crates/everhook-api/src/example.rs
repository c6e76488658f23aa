//! Example messages: one message of an event type to one endpoint, to test a receiver.
//!
//! The example is a message like any other, but it goes to this endpoint only, whatever its filters are. Its payload
//! comes from the request, or from the schema of the event type.

use axum::response::Response;
use bytes::Bytes;
use everhook_core::endpoint::EndpointState;
use everhook_core::example::{self, NoExample};
use everhook_core::fanout::Audience;
use everhook_core::id::MessageId;
use everhook_core::message::{self, Message, Rest};
use everhook_core::name::Name;
use everhook_core::scope::Scope;
use everhook_core::violation::at;
use everhook_store::lease::{Appended, NewMessage};
use everhook_store::query;
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::event_type;
use crate::input::Input;
use crate::message::{ContentParams, MessageOut, show, show_repeated};
use crate::routes::Routes;
use crate::scope::{self, ApplicationPath, AtEndpoint, EndpointPath};
use crate::state::Api;

/// An event type that need not be in the catalogue, and its payload.
const PING: (&str, &str) = ("svix.ping", r#"{"success":true}"#);

/// An example message to send.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventExampleIn<'a> {
    /// The event type, which must be in the catalogue. `svix.ping` need not be.
    #[schema(max_length = 256, pattern = "^[a-zA-Z0-9\\-_.]+$", example = "user.signup")]
    event_type: String,
    /// The position of the example in the list `examples` of the schema. The default is 0, the first one.
    #[schema(minimum = 0)]
    example_index: Option<usize>,
    /// The payload to send instead of an example.
    #[serde(borrow)]
    #[schema(value_type = Option<Object>)]
    payload: Option<&'a RawValue>,
}

pub(crate) fn routes() -> Routes {
    Routes::default().add(send_example, __path_send_example)
}

/// Send an example message to this endpoint only, whatever its filters are. The payload is an example of the event
/// type's schema, or is built from the schema.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/send-example",
    operation_id = "v1.endpoint.send-example", tag = "Endpoint",
    params(ApplicationPath, EndpointPath), request_body = EventExampleIn,
    responses((status = 202, body = MessageOut))
)]
async fn send_example(caller: Caller, at_endpoint: AtEndpoint, input: Input) -> Result<Response, ApiError> {
    let wanted: EventExampleIn<'_> = input.json()?;
    let event_type: Name = at("eventType").check(wanted.event_type.parse())?;
    let payload = payload(&at_endpoint.api, &caller, at_endpoint.scope.scope(), &event_type, &wanted).await?;
    if at_endpoint.endpoint.state != EndpointState::Enabled {
        let detail = "The endpoint is disabled: enable it, then send the example again.";
        return Err(ApiError::bad_request("endpoint_disabled", detail));
    }
    let AtEndpoint { api, scope, endpoint } = at_endpoint;
    let message = Message {
        id: MessageId(api.new_id()),
        application: scope.application,
        event_type,
        event_id: None,
        channels: Vec::new(),
        tags: Vec::new(),
        payload: Some(Bytes::from(payload)),
        created_at: api.now(),
        rest: Rest::default(),
    };
    let audience = Audience::Only(endpoint.id);
    let keys = input.key.clone().into_iter().collect();
    let new = NewMessage { keys, audience, ..NewMessage::new(scope.environment, message) };
    match api.node.accept(new).await? {
        Appended::Accepted { message, .. } => Ok(show(&message, api.now(), &ContentParams::ALL, None)),
        Appended::Repeated(id) => show_repeated(&api, scope, id, &ContentParams::ALL).await,
        Appended::KeyReused => Err(ApiError::key_reused()),
        // The application was deleted since it was found. The other results need an event id or a once-slot.
        Appended::NoApplication | Appended::EventIdTaken | Appended::Suppressed(_) => {
            Err(scope::no_application(&scope.application.to_string()))
        }
    }
}

/// Returns the payload of an example.
async fn payload(
    api: &Api,
    caller: &Caller,
    scope: Scope,
    event_type: &Name,
    wanted: &EventExampleIn<'_>,
) -> Result<String, ApiError> {
    if let Some(payload) = wanted.payload {
        at("payload").check(message::check_payload(payload.get()))?;
    }
    if event_type.as_str() == PING.0 {
        return Ok(wanted.payload.map_or(PING.1, RawValue::get).to_owned());
    }
    let found = api.read(query::FindEventType { scope, name: event_type.clone() }).await?;
    let found = found.filter(|found| event_type::is_visible(caller, found));
    let found = found.ok_or_else(|| ApiError::not_found(scope::named("event type", event_type.as_str())))?;
    if let Some(payload) = wanted.payload {
        return Ok(payload.get().to_owned());
    }
    match example::payload(found.schemas.as_deref(), wanted.example_index.unwrap_or_default()) {
        Ok(payload) => at("payload").check(message::check_payload(&payload)).map(|()| payload).map_err(Into::into),
        Err(bad @ NoExample::NoSuchIndex(_)) => Err(at("exampleIndex").breaks(bad).into()),
        Err(bad @ NoExample::NoSchema) => {
            Err(ApiError::bad_request("invalid_scheme", format!("There is no example: {bad}.")))
        }
    }
}
