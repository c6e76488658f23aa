//! Runs one delivery: build the request, sign it, send it, read what came back.
//!
//! Decides nothing about the task: the reply is classified by the core and settled by `settle`. Sends nothing under a tenure
//! that fails its self-check, and aborts when the tenure is closed by another node.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use everhook_core::endpoint::Endpoint;
use everhook_core::message::Message;
use everhook_core::outcome::{Class, Outcome, Reply, SendFailure, classify};
use everhook_core::time::Timestamp;
use everhook_sender::Request;
use everhook_store::lease::Leased;
use everhook_store::slots::Slot;
use futures_util::FutureExt;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::clock::Clock;
use crate::session::{Sessions, Tenure};
use crate::settle::{End, Ended, Held, Record, Settler};
use crate::transport::Transport;

/// What a delivery needs besides its task.
pub(crate) struct Deliverer {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) settler: Arc<Settler>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) user_agent: HeaderValue,
    /// Fires when the grace period of a stop is over.
    pub(crate) interrupt: CancellationToken,
}

/// How a send ended, if not by itself.
enum Sent {
    Answered(Result<Reply, SendFailure>),
    Interrupted,
    TenureClosed,
}

impl Deliverer {
    /// Runs one leased delivery to its settlement.
    pub(crate) async fn run(&self, leased: Leased, slot: Slot, tenure: Arc<Tenure>) {
        let task = leased.task;
        let started_at = self.clock.now();
        // One task that panics must not stay leased for as long as this node lives: it is settled like any other failure.
        let attempt = AssertUnwindSafe(self.attempt(&leased, &tenure)).catch_unwind().await;
        let Some(end) = attempt.unwrap_or_else(|_| Some(End::Attempted(panicked(&leased, started_at)))) else {
            // Fenced: another node has the task. Nothing that happens here counts any more.
            warn!(task.id = %task.key.id, task.epoch = task.epoch, session.id = %tenure.id, "aborted {}", task.key.id);
            return;
        };
        self.settler.settle(Ended { task, tenure, slot: Held::Slot { _slot: slot }, end }).await;
    }

    async fn attempt(&self, leased: &Leased, tenure: &Tenure) -> Option<End> {
        let started_at = self.clock.now();
        let target = leased.endpoint.as_ref().zip(leased.message.as_ref());
        let target = target.and_then(|(endpoint, message)| Some((endpoint, message, message.payload.clone()?)));
        let Some((endpoint, message, body)) = target else {
            return Some(End::Attempted(cancelled(leased, started_at)));
        };
        if leased.task.cancel {
            return Some(End::Attempted(cancelled(leased, started_at)));
        }
        if !self.sessions.may_send(tenure) {
            return if tenure.is_closed() { None } else { Some(End::HandedBack) };
        }
        let headers = self.headers(endpoint, message, &body, leased.task.tries + 1);
        let begun = self.clock.elapsed();
        let sent = match headers {
            Ok(headers) => self.send(Request { url: endpoint.url.clone(), headers, body }, tenure).await,
            Err(failure) => Sent::Answered(Err(failure)),
        };
        let duration = self.clock.elapsed().saturating_sub(begun);
        let url = endpoint.url.clone();
        match sent {
            Sent::TenureClosed => None,
            Sent::Interrupted => Some(End::Attempted(interrupted(url, started_at, duration))),
            Sent::Answered(answer) => Some(End::Attempted(self.record(answer, url, started_at, duration))),
        }
    }

    async fn send(&self, request: Request, tenure: &Tenure) -> Sent {
        tokio::select! {
            biased;
            answer = self.transport.send(request) => Sent::Answered(answer),
            () = tenure.closed() => Sent::TenureClosed,
            () = self.interrupt.cancelled() => Sent::Interrupted,
        }
    }

    fn record(
        &self,
        answer: Result<Reply, SendFailure>,
        url: String,
        started_at: Timestamp,
        duration: Duration,
    ) -> Record {
        let (class, outcome) = classify(&answer, self.clock.now());
        let (status, reply) = match answer {
            Ok(reply) => (reply.status, reply.body),
            Err(failure) => (0, Bytes::from(failure.detail)),
        };
        Record { outcome, class, url, status, reply, started_at, duration }
    }

    /// The endpoint's own headers first: ours win.
    fn headers(
        &self,
        endpoint: &Endpoint,
        message: &Message,
        body: &[u8],
        attempt: u32,
    ) -> Result<HeaderMap, SendFailure> {
        let mut headers = HeaderMap::with_capacity(endpoint.headers.len() + 12);
        for (name, value) in &endpoint.headers {
            let bad = || internal(format!("endpoint header {name:?} cannot be sent: change it"));
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
            headers.insert(name, HeaderValue::from_str(value).map_err(|_| bad())?);
        }
        let now = self.clock.now();
        let webhook_id = message.id.to_string();
        let signature = header(endpoint.keys.sign(&webhook_id, now, body))?;
        let webhook_id = header(webhook_id)?;
        let timestamp = HeaderValue::from(now.as_secs());
        headers.insert("webhook-id", webhook_id.clone());
        headers.insert("webhook-timestamp", timestamp.clone());
        headers.insert("webhook-signature", signature.clone());
        headers.insert("svix-id", webhook_id.clone());
        headers.insert("svix-timestamp", timestamp);
        headers.insert("svix-signature", signature);
        headers.insert("idempotency-key", webhook_id);
        headers.insert("everhook-event-type", header(message.event_type.to_string())?);
        headers.insert("everhook-attempt", HeaderValue::from(attempt));
        headers.insert(USER_AGENT, self.user_agent.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(headers)
    }
}

fn header(text: String) -> Result<HeaderValue, SendFailure> {
    HeaderValue::try_from(text).map_err(|_| internal("a header cannot be sent".to_owned()))
}

fn internal(detail: String) -> SendFailure {
    SendFailure { class: Class::Internal, detail }
}

fn cancelled(leased: &Leased, started_at: Timestamp) -> Record {
    let reason = match (&leased.endpoint, &leased.message) {
        (None, _) => "the endpoint was deleted",
        (_, None) => "the message was pruned",
        _ => "the payload was removed",
    };
    Record {
        outcome: Outcome::Cancelled,
        class: Class::Cancelled,
        url: leased.endpoint.as_ref().map(|endpoint| endpoint.url.clone()).unwrap_or_default(),
        status: 0,
        reply: Bytes::from_static(reason.as_bytes()),
        started_at,
        duration: Duration::ZERO,
    }
}

fn panicked(leased: &Leased, started_at: Timestamp) -> Record {
    Record {
        outcome: Outcome::Failure { retry_after: None },
        class: Class::Internal,
        url: leased.endpoint.as_ref().map(|endpoint| endpoint.url.clone()).unwrap_or_default(),
        status: 0,
        reply: Bytes::from_static(b"the server failed while it made the request; its log says why"),
        started_at,
        duration: Duration::ZERO,
    }
}

fn interrupted(url: String, started_at: Timestamp, duration: Duration) -> Record {
    Record {
        outcome: Outcome::Interrupted,
        class: Class::Interrupted,
        url,
        status: 0,
        reply: Bytes::from_static(b"the server was stopped before the reply came"),
        started_at,
        duration,
    }
}
