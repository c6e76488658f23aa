//! Requests on their way out, for deliveries and pushed jobs alike: signed the same way, sent the same way, cut short the same way.

use everhook_core::outcome::{Blame, Class, Reply, SendFailure};
use everhook_core::signing::SigningKeys;
use everhook_sender::Request;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, USER_AGENT};

use crate::node::Node;
use crate::session::Session;

/// How a send ended, if not by itself.
pub(crate) enum Sent {
    Answered(Result<Reply, SendFailure>),
    /// This node has no files, ports or memory left; nothing was sent.
    Exhausted(SendFailure),
    Interrupted,
    SessionClosed,
}

/// The parts of a request that are signed.
pub(crate) struct Signed<'a> {
    /// The same for every attempt.
    pub(crate) id: String,
    pub(crate) keys: &'a SigningKeys,
    pub(crate) body: &'a [u8],
    pub(crate) attempt: u32,
}

/// Adds the headers that every request has; ours win.
pub(crate) fn sign(node: &Node, headers: &mut HeaderMap, signed: Signed<'_>) -> Result<(), SendFailure> {
    let Signed { id, keys, body, attempt } = signed;
    // Receivers compare it with their own clocks.
    let now = node.clock.now().minus(node.store.ahead());
    let signature = header(keys.sign(&id, now, body))?;
    let id = header(id)?;
    let timestamp = HeaderValue::from(now.as_secs());
    headers.insert("webhook-id", id.clone());
    headers.insert("webhook-timestamp", timestamp.clone());
    headers.insert("webhook-signature", signature.clone());
    headers.insert("svix-id", id.clone());
    headers.insert("svix-timestamp", timestamp);
    headers.insert("svix-signature", signature);
    headers.insert("idempotency-key", id);
    headers.insert("everhook-attempt", HeaderValue::from(attempt));
    headers.insert(USER_AGENT, node.user_agent.clone());
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(())
}

/// Sends a request, unless the session is closed or the node's grace period ends before it is answered.
pub(crate) async fn send(node: &Node, request: Request, session: &Session) -> Sent {
    tokio::select! {
        biased;
        answer = node.transport.send(request) => match answer {
            Err(failure) if failure.blame == Blame::Node => Sent::Exhausted(failure),
            answer => Sent::Answered(answer),
        },
        () = session.closed() => Sent::SessionClosed,
        () = node.interrupt.cancelled() => Sent::Interrupted,
    }
}

pub(crate) fn header(text: String) -> Result<HeaderValue, SendFailure> {
    HeaderValue::try_from(text).map_err(|_| internal("a header cannot be sent".to_owned()))
}

pub(crate) fn internal(detail: String) -> SendFailure {
    SendFailure::new(Class::Internal, detail)
}
