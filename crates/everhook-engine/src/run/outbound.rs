//! Signs and sends requests, for deliveries and pushed jobs alike.

use bytes::Bytes;
use everhook_core::exchange::Exchange;
use everhook_core::id::{AttemptId, MessageId};
use everhook_core::name::Name;
use everhook_core::outcome::{Blame, Class, Reply, SendFailure};
use everhook_core::signing::SigningKeys;
use everhook_core::time::Timestamp;
use everhook_sender::Request;
use http::Method;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};

use crate::node::Node;
use crate::session::Session;

// Parsed once; a name given as text would be parsed for every request.
static WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
static WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
pub(crate) static WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
static SVIX_ID: HeaderName = HeaderName::from_static("svix-id");
static SVIX_TIMESTAMP: HeaderName = HeaderName::from_static("svix-timestamp");
pub(crate) static SVIX_SIGNATURE: HeaderName = HeaderName::from_static("svix-signature");
static IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
static WEBHOOK_ATTEMPT_ID: HeaderName = HeaderName::from_static("webhook-attempt-id");
pub(crate) static EVERHOOK_ATTEMPT: HeaderName = HeaderName::from_static("everhook-attempt");
pub(crate) static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
pub(crate) static EVERHOOK_EVENT_TYPE: HeaderName = HeaderName::from_static("everhook-event-type");

/// Room for all headers of a request that are not the endpoint's own, including those of the sender. A map that grows
/// computes the hash of every name again.
pub(crate) const HEADERS_ROOM: usize = 18;

/// The end of a request.
pub(crate) enum Sent {
    Answered(Result<Reply, SendFailure>),
    /// This node has no files, ports or memory left; no request was sent.
    Exhausted(SendFailure),
    Interrupted,
    SessionClosed,
    /// Egress is paused; no request was sent.
    Paused,
}

pub(crate) struct Signed<'a> {
    /// The same id for every attempt.
    pub(crate) id: String,
    pub(crate) keys: &'a SigningKeys,
    pub(crate) body: &'a [u8],
    pub(crate) attempt: AttemptId,
    /// 1 for the first attempt that the retry policy counts.
    pub(crate) number: u32,
    /// The signed time, on the clock of receivers.
    pub(crate) at: Timestamp,
}

/// Adds the headers of every request; they replace headers of the same name.
pub(crate) fn sign(node: &Node, headers: &mut HeaderMap, signed: Signed<'_>) -> Result<(), SendFailure> {
    let Signed { id, keys, body, attempt, number, at } = signed;
    let signature = header(keys.sign(&id, at, body))?;
    let id = header(id)?;
    let timestamp = HeaderValue::from(at.as_secs());
    headers.insert(&WEBHOOK_ID, id.clone());
    headers.insert(&WEBHOOK_TIMESTAMP, timestamp.clone());
    headers.insert(&WEBHOOK_SIGNATURE, signature.clone());
    headers.insert(&SVIX_ID, id.clone());
    headers.insert(&SVIX_TIMESTAMP, timestamp);
    headers.insert(&SVIX_SIGNATURE, signature);
    headers.insert(&IDEMPOTENCY_KEY, id);
    headers.insert(&WEBHOOK_ATTEMPT_ID, header(attempt.to_string())?);
    headers.insert(&EVERHOOK_ATTEMPT, HeaderValue::from(number));
    introduce(node, headers);
    Ok(())
}

/// Adds the headers of every request with JSON, signed or not.
pub(crate) fn introduce(node: &Node, headers: &mut HeaderMap) {
    headers.insert(USER_AGENT, node.user_agent.clone());
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
}

/// Sends a request and notes its steps. Returns early if the session is closed or the grace period of a drain ends.
pub(crate) async fn send(node: &Node, request: Request, session: &Session, exchange: &mut Exchange) -> Sent {
    // The task may have been leased before the pause.
    if node.egress.is_closed() {
        return Sent::Paused;
    }
    tokio::select! {
        biased;
        answer = node.transport.send(request, exchange) => match answer {
            Err(failure) if failure.blame == Blame::Node => Sent::Exhausted(failure),
            answer => Sent::Answered(answer),
        },
        () = session.closed() => Sent::SessionClosed,
        () = node.interrupt.cancelled() => Sent::Interrupted,
    }
}

/// A request of a delivery that does not exist.
pub struct WebhookTrial<'a> {
    pub url: String,
    pub id: MessageId,
    pub event_type: Name,
    pub keys: &'a SigningKeys,
    pub body: String,
}

/// The headers that a trial sent, and the answer.
pub struct TriedWebhook {
    pub headers: HeaderMap,
    pub answer: Result<Reply, SendFailure>,
}

impl Node {
    /// The time to sign. Receivers compare it with their own clocks, so the amount by which the store's clock runs
    /// ahead is subtracted.
    pub(crate) fn receivers_time(&self) -> Timestamp {
        self.clock.now().minus(self.store.ahead())
    }

    /// Sends the signed request of a delivery once, for a test by an operator. Nothing is stored.
    pub async fn try_webhook(&self, trial: &WebhookTrial<'_>) -> TriedWebhook {
        let mut headers = HeaderMap::new();
        let (body, attempt) = (trial.body.as_bytes(), AttemptId(self.new_id()));
        let signed =
            Signed { id: trial.id.to_string(), keys: trial.keys, body, attempt, number: 1, at: self.receivers_time() };
        if let Err(failure) = self.sign_trial(&mut headers, signed, &trial.event_type) {
            return TriedWebhook { headers, answer: Err(failure) };
        }
        let (url, body) = (trial.url.clone(), Bytes::copy_from_slice(body));
        let request = Request { method: Method::POST, url, headers: headers.clone(), body, patience: None, auth: None };
        TriedWebhook { answer: self.try_send(request).await, headers }
    }

    fn sign_trial(&self, headers: &mut HeaderMap, signed: Signed<'_>, event_type: &Name) -> Result<(), SendFailure> {
        sign(self, headers, signed)?;
        headers.insert(&EVERHOOK_EVENT_TYPE, header(event_type.to_string())?);
        Ok(())
    }

    /// Sends JSON once, for a test by an operator. Nothing is stored.
    pub async fn try_post(&self, url: String, body: Bytes) -> Result<Reply, SendFailure> {
        let mut headers = HeaderMap::new();
        introduce(self, &mut headers);
        self.try_send(Request { method: Method::POST, url, headers, body, patience: None, auth: None }).await
    }

    /// Sends a request of an operator, for whom nothing is leased.
    pub(crate) async fn try_send(&self, request: Request) -> Result<Reply, SendFailure> {
        if self.egress.is_closed() {
            return Err(SendFailure::new(Class::Blocked, "egress is paused: resume it first"));
        }
        self.transport.send(request, &mut Exchange::default()).await
    }
}

pub(crate) fn header(text: String) -> Result<HeaderValue, SendFailure> {
    HeaderValue::try_from(text).map_err(|_| internal("a header value contains invalid characters".to_owned()))
}

pub(crate) fn internal(detail: String) -> SendFailure {
    SendFailure::new(Class::Internal, detail)
}
