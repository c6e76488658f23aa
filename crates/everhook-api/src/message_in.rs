//! A new message as a request describes it, and the checks before it is accepted.
//!
//! The routes that send one message or many call it. The payload keeps the bytes of the body; no rule changes them.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use everhook_core::draft::{self, Draft};
use everhook_core::fanout::Audience;
use everhook_core::id::{ApplicationId, MessageId};
use everhook_core::limits::CONTENT_TYPE_BYTES_MAX;
use everhook_core::message::{self, Message, Rest};
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_core::violation::{Violation, at};
use everhook_store::dedup::DedupKey;
use everhook_store::lease::NewMessage;
use everhook_store::uids::Found;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::application::ApplicationIn;
use crate::error::ApiError;
use crate::input;
use crate::once::OnceIn;
use crate::state::Api;

/// A message to accept.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageIn<'a> {
    /// The event type. It need not be in the catalogue.
    #[schema(max_length = 256, pattern = "^[a-zA-Z0-9\\-_.]+$", example = "user.signup")]
    event_type: String,
    /// The JSON object to deliver, byte for byte.
    #[serde(borrow)]
    #[schema(value_type = Object)]
    payload: Option<&'a RawValue>,
    /// An alias of `payload`.
    #[serde(borrow)]
    #[schema(ignore)]
    data: Option<&'a RawValue>,
    /// The URL to deliver this message to, in the place of the endpoints that subscribe to it.
    #[schema(format = "uri")]
    url: Option<String>,
    /// Your own id for the message. An application accepts each id once.
    #[schema(max_length = 256, pattern = "^[a-zA-Z0-9\\-_.]+$")]
    event_id: Option<String>,
    /// The channels of the message. Only endpoints that listen to one of them, or to all channels, get the message.
    #[schema(min_items = 1, max_items = 10)]
    channels: Option<Vec<String>>,
    /// Tags, by which lists can be filtered.
    #[schema(max_items = 8)]
    tags: Option<Vec<String>>,
    /// Days for which the payload is kept, if shorter than the retention of messages.
    #[schema(minimum = 5, maximum = 90)]
    payload_retention_period: Option<u16>,
    /// Hours for which the payload is kept, in the place of `payloadRetentionPeriod`.
    #[schema(minimum = 1, maximum = 2160)]
    payload_retention_hours: Option<u16>,
    /// The time of delivery, at most 30 days ahead. A time in the past means now. The message is accepted at once.
    #[schema(value_type = Option<String>, format = DateTime)]
    deliver_at: Option<Timestamp>,
    /// Accept the message only if no other message has this once-slot. Otherwise the response is 200 with the other
    /// message and `suppressed`.
    #[serde(default, deserialize_with = "input::object")]
    once: Option<OnceIn>,
    /// The application to create if no application has the uid of the path.
    #[serde(default, deserialize_with = "input::object")]
    pub(crate) application: Option<ApplicationIn>,
    /// Options for the payload.
    #[serde(default, deserialize_with = "input::object")]
    transformations_params: Option<TransformationsParams>,
}

/// Options for the payload of a message.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TransformationsParams {
    /// A text that is delivered byte for byte instead of the payload.
    raw_payload: Option<String>,
    /// The `content-type` of the payload. No other header is allowed here.
    headers: Option<BTreeMap<String, String>>,
}

/// A message that can be accepted once its endpoint is known.
pub(crate) struct CheckedMessage<'a> {
    pub(crate) new: NewMessage,
    /// The URL of the only endpoint that gets the message.
    pub(crate) url: Option<String>,
    /// The payload, if it is JSON.
    pub(crate) payload: Option<&'a RawValue>,
}

/// The content to deliver.
enum Payload<'a> {
    /// A JSON object, byte for byte as in the body.
    Verbatim(&'a RawValue),
    /// Any text.
    Raw(String),
}

impl<'a> Payload<'a> {
    /// Copies the payload, because the body shares its buffer with other data of the connection.
    fn bytes(&self) -> Bytes {
        match self {
            Payload::Verbatim(json) => Bytes::copy_from_slice(json.get().as_bytes()),
            Payload::Raw(text) => Bytes::copy_from_slice(text.as_bytes()),
        }
    }

    fn verbatim(&self) -> Option<&'a RawValue> {
        match self {
            Payload::Verbatim(json) => Some(json),
            Payload::Raw(_) => None,
        }
    }
}

impl<'a> MessageIn<'a> {
    /// Checks the message, which is for the subscribers of its application or for the endpoint of a URL.
    pub(crate) fn check(
        mut self,
        api: &Api,
        scope: Scope,
        found: Found,
        key: Option<DedupKey>,
    ) -> Result<CheckedMessage<'a>, ApiError> {
        let content_type = self.content_type()?;
        let payload = self.payload()?;
        let once = self.once.take().map(OnceIn::check).transpose()?;
        let deliver_at = draft::check_deliver_at(self.deliver_at, api.now())?;
        let payload_until = self.payload_until(api.now())?;
        if payload_until.is_some() && deliver_at > payload_until {
            return Err(at("deliverAt").breaks("must be before the payload's retention ends").into());
        }
        let rest = Rest { deliver_at, payload_until, content_type, ..Rest::default() };
        let Found { id: application, version } = found;
        let url = self.url.take();
        let message = self.into_new(api, application, payload.bytes(), rest)?;
        let mut keys = Vec::with_capacity(2);
        keys.extend(key);
        keys.extend(message.event_id.as_ref().map(|event_id| DedupKey::event_id(application, event_id)));
        let (environment, audience) = (scope.environment, Audience::Subscribers);
        let new = NewMessage { environment, message, keys, version, once, deliver_at, audience };
        Ok(CheckedMessage { new, url, payload: payload.verbatim() })
    }

    /// Whether the message asks for an application to be created.
    pub(crate) fn has_application(&self) -> bool {
        self.application.is_some()
    }

    fn payload(&mut self) -> Result<Payload<'a>, ApiError> {
        let raw = self.transformations_params.take().and_then(|params| params.raw_payload);
        let json = self.payload.or(self.data);
        if let Some(json) = json {
            at("payload").check(message::check_payload(json.get()))?;
        }
        match (raw, json) {
            (Some(text), _) => Ok(Payload::Raw(text)),
            (None, Some(json)) => Ok(Payload::Verbatim(json)),
            (None, None) => Err(at("payload").breaks("is required").into()),
        }
    }

    /// Returns the content type that the request sets for its payload.
    fn content_type(&self) -> Result<Option<String>, Violation> {
        let refuse = |name: &str, rule: String| {
            at("transformationsParams").member("headers").member(name.to_owned()).breaks(rule)
        };
        let mut content_type = None;
        let headers = self.transformations_params.as_ref().and_then(|params| params.headers.as_ref());
        for (name, value) in headers.into_iter().flatten() {
            if !name.eq_ignore_ascii_case(CONTENT_TYPE.as_str()) || content_type.is_some() {
                return Err(refuse(
                    name,
                    "only one content-type is allowed here: set other headers on the endpoint".to_owned(),
                ));
            }
            if value.len() > CONTENT_TYPE_BYTES_MAX || HeaderValue::from_str(value).is_err() {
                let rule = format!("must have at most {CONTENT_TYPE_BYTES_MAX} bytes and no control characters");
                return Err(refuse(name, rule));
            }
            content_type = Some(value.clone());
        }
        Ok(content_type)
    }

    /// Returns the time until which the payload is kept, if the request sets it.
    fn payload_until(&self, now: Timestamp) -> Result<Option<Timestamp>, ApiError> {
        const HOUR: Duration = Duration::from_secs(3600);
        let (days, hours) = (self.payload_retention_period, self.payload_retention_hours);
        if days.is_some_and(|days| !(5..=90).contains(&days)) {
            return Err(at("payloadRetentionPeriod").breaks("must be from 5 to 90").into());
        }
        if hours.is_some_and(|hours| !(1..=90 * 24).contains(&hours)) {
            return Err(at("payloadRetentionHours").breaks("must be from 1 to 2160").into());
        }
        match (days, hours) {
            (None, None) => Ok(None),
            (Some(days), None) => Ok(Some(now.plus(24 * HOUR * u32::from(days)))),
            (None, Some(hours)) => Ok(Some(now.plus(HOUR * u32::from(hours)))),
            (Some(_), Some(_)) => {
                let rule = "cannot be combined with payloadRetentionPeriod";
                Err(at("payloadRetentionHours").breaks(rule).into())
            }
        }
    }

    fn into_new(self, api: &Api, application: ApplicationId, payload: Bytes, rest: Rest) -> Result<Message, ApiError> {
        let (event_type, event_id) = (self.event_type, self.event_id);
        let checked = Draft { event_type, event_id, channels: self.channels, tags: self.tags }.check()?;
        Ok(Message {
            id: MessageId(api.new_id()),
            application,
            event_type: checked.event_type,
            event_id: checked.event_id,
            channels: checked.channels,
            tags: checked.tags,
            payload: Some(payload),
            created_at: api.now(),
            rest,
        })
    }
}
