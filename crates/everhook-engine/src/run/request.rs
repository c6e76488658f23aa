//! Builds the request of a delivery: to send it, and to show it to people later.
//!
//! A request depends only on the endpoint, the message, the policy, and the id, number and time of the attempt. The
//! attempt log therefore stores no request: the same code builds the headers again when someone looks at an attempt.

use bytes::Bytes;
use everhook_chat::notice::ChatFacts;
use everhook_chat::post::post;
use everhook_core::endpoint::Endpoint;
use everhook_core::id::{AttemptId, EnvironmentId};
use everhook_core::message::Message;
use everhook_core::outcome::SendFailure;
use everhook_core::policy::effective::AttemptPolicy;
use everhook_core::policy::legacy::SignedParts;
use everhook_core::time::Timestamp;
use everhook_core::trace::TraceContext;
use everhook_sender::Request;
use http::Method;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use crate::node::Node;
use crate::run::outbound::{self, EVERHOOK_EVENT_TYPE, SVIX_SIGNATURE, Signed, TRACEPARENT, WEBHOOK_SIGNATURE};
use crate::run::outbound::{header, internal};

/// The attempt that a request belongs to.
pub(crate) struct RequestOf<'a> {
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) message: &'a Message,
    pub(crate) attempt: AttemptId,
    /// 1 for the first attempt that the retry policy counts.
    pub(crate) number: u32,
    /// The time of the signature, on the clock of receivers.
    pub(crate) signed_at: Timestamp,
    pub(crate) policy: Option<&'a AttemptPolicy>,
    /// The trace that the receiver is told.
    pub(crate) trace: Option<TraceContext>,
}

/// A request to send.
pub(crate) struct Outgoing {
    pub(crate) request: Request,
    /// A remark for the attempt.
    pub(crate) note: Option<String>,
}

/// An attempt whose request is shown.
pub struct PastAttempt<'a> {
    pub environment: EnvironmentId,
    /// The endpoint with the settings of its application.
    pub endpoint: &'a Endpoint,
    pub message: &'a Message,
    /// The payload; none after its removal.
    pub payload: Option<&'a Bytes>,
    pub id: AttemptId,
    /// None if a server made the attempt that did not log its number.
    pub number: Option<u32>,
    pub signed_at: Timestamp,
}

/// A request as this server builds it now for an earlier attempt.
pub struct ShownRequest {
    /// The headers with their credentials. Without the payload, they lack the signatures.
    pub headers: HeaderMap,
    /// The body, if it is not the payload.
    pub body: Option<Bytes>,
}

impl Node {
    /// Builds the request of an earlier attempt from the current settings of its endpoint. Nothing is sent. Returns
    /// none if the settings allow no request.
    pub fn show_request(&self, past: &PastAttempt<'_>) -> Option<ShownRequest> {
        let PastAttempt { environment, endpoint, message, payload, id, number, signed_at } = *past;
        let policy = self.policies.of_attempt(environment, endpoint, &message.event_type, &self.config.retry);
        let of = RequestOf {
            endpoint,
            message,
            attempt: id,
            number: number.unwrap_or_default(),
            signed_at,
            policy: policy.as_ref(),
            trace: self.begin_span(message, id).header,
        };
        let Outgoing { request, .. } = self.outgoing(&of, payload.cloned().unwrap_or_default()).ok()?;
        let mut headers = request.headers;
        if number.is_none() {
            headers.remove(&outbound::EVERHOOK_ATTEMPT);
        }
        if payload.is_none() {
            let legacy = policy.as_ref().and_then(|policy| policy.legacy_signature.as_ref());
            let legacy = legacy.map(|legacy| legacy.header.as_str());
            for name in [WEBHOOK_SIGNATURE.as_str(), SVIX_SIGNATURE.as_str()].into_iter().chain(legacy) {
                headers.remove(name);
            }
        }
        if endpoint.auth.as_ref().is_some_and(|auth| auth.oauth.is_some() || auth.basic.is_some()) {
            headers.insert(AUTHORIZATION, HeaderValue::from_static(""));
        }
        let is_converted = endpoint.chat.is_some() && payload.is_some();
        Some(ShownRequest { headers, body: is_converted.then_some(request.body) })
    }

    /// Builds the request: the payload with its signatures, or the message of a chat platform.
    pub(crate) fn outgoing(&self, of: &RequestOf<'_>, body: Bytes) -> Result<Outgoing, SendFailure> {
        let RequestOf { endpoint, message, .. } = *of;
        let patience = of.policy.and_then(|policy| policy.timeout);
        let auth = endpoint.auth.clone();
        if let Some(chat) = &endpoint.chat {
            let facts = ChatFacts { message, payload: &body, public_url: self.config.public_url.as_deref() };
            let post = post(chat, &endpoint.url, &facts, of.signed_at);
            let mut headers = own_headers(endpoint)?;
            outbound::introduce(self, &mut headers);
            let failed = |failure| format!("the template failed, and the default text was sent ({failure})");
            let request = Request { method: Method::POST, url: post.url, headers, body: post.body, patience, auth };
            return Ok(Outgoing { request, note: post.failure.map(failed) });
        }
        let (headers, url) = (self.headers(of, &body)?, endpoint.url.clone());
        Ok(Outgoing { request: Request { method: Method::POST, url, headers, body, patience, auth }, note: None })
    }

    /// Builds the request headers. The endpoint's own headers come first, so that Everhook's headers replace them.
    fn headers(&self, of: &RequestOf<'_>, body: &[u8]) -> Result<HeaderMap, SendFailure> {
        let RequestOf { endpoint, message, attempt, number, signed_at, policy, trace } = *of;
        let mut headers = own_headers(endpoint)?;
        let signed = Signed { id: message.id.to_string(), keys: &endpoint.keys, body, attempt, number, at: signed_at };
        outbound::sign(self, &mut headers, signed)?;
        if let Some(legacy) = policy.and_then(|policy| policy.legacy_signature.as_ref()) {
            let parts = SignedParts { id: &message.id.to_string(), timestamp: signed_at.as_secs(), body };
            if let Some(value) = legacy.sign(&endpoint.keys.current, parts) {
                let name = HeaderName::from_bytes(legacy.header.as_bytes());
                let name = name.map_err(|_| internal("the legacy signature has no valid header name".to_owned()))?;
                headers.insert(name, header(value)?);
            }
        }
        headers.insert(&EVERHOOK_EVENT_TYPE, header(message.event_type.to_string())?);
        if let Some(content_type) = &message.rest.content_type {
            headers.insert(CONTENT_TYPE, header(content_type.clone())?);
        }
        if let Some(context) = trace {
            headers.insert(&TRACEPARENT, header(context.to_string())?);
        }
        Ok(headers)
    }
}

fn own_headers(endpoint: &Endpoint) -> Result<HeaderMap, SendFailure> {
    let mut headers = HeaderMap::with_capacity(endpoint.headers.len() + outbound::HEADERS_ROOM);
    for (name, value) in &endpoint.headers {
        let bad = || internal(format!("endpoint header {name:?} is not a valid HTTP header: change it"));
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        headers.insert(name, HeaderValue::from_str(value).map_err(|_| bad())?);
    }
    Ok(headers)
}
