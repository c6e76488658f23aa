//! Sends jobs as requests to the target of their queue, signed like deliveries.

use std::time::Duration;

use bytes::Bytes;
use everhook_core::exchange::{Exchange, StoredExchange};
use everhook_core::id::AttemptId;
use everhook_core::job::Job;
use everhook_core::job::report::{Note, Report};
use everhook_core::limits::PUSH_TIMEOUT_DEFAULT;
use everhook_core::outcome::{Class, Outcome, SendFailure, classify_push};
use everhook_core::queue::Target;
use everhook_core::task::Task;
use everhook_core::time::Timestamp;
use everhook_sender::Request;
use http::Method;
use http::header::HeaderMap;

use crate::node::Node;
use crate::run::job::record;
use crate::run::outbound::{self, Sent, Signed, header};
use crate::session::Session;
use crate::settle::{AttemptEnd, AttemptRecord};

/// Sends a job to the target of its queue. Returns none if the session was closed meanwhile.
pub(crate) async fn push(
    node: &Node,
    job: &Job,
    target: &Target,
    task: &Task,
    session: &Session,
) -> Option<AttemptEnd> {
    let (started_at, begun) = (node.clock.now(), node.clock.elapsed());
    let body = job.payload.clone().unwrap_or_default();
    let id = AttemptId(node.new_id());
    let mut exchange = Exchange::default();
    let sent = match headers(node, job, target, &body, (id, task.tries + 1)) {
        Ok(headers) => {
            // A push occupies a slot until the reply, so the push timeout limits it even if the job itself may take
            // longer.
            let timeout = job.timeout.min(push_timeout(node));
            let request = Request {
                method: Method::POST,
                url: target.url.clone(),
                headers,
                body,
                patience: Some(timeout),
                auth: None,
            };
            let sent = tokio::time::timeout(timeout, outbound::send(node, request, session, &mut exchange)).await;
            sent.unwrap_or_else(|_| Sent::Answered(Err(too_slow(timeout))))
        }
        Err(failure) => Sent::Answered(Err(failure)),
    };
    let duration = node.clock.elapsed().saturating_sub(begun);
    let exchange = StoredExchange::of(&exchange);
    match sent {
        Sent::SessionClosed => None,
        Sent::Paused => Some(AttemptEnd::HandedBack),
        Sent::Exhausted(failure) => {
            node.jobs.pause(&failure.detail, node.clock.elapsed());
            Some(AttemptEnd::HandedBack)
        }
        Sent::Interrupted => {
            let note = Note::new("the server stopped before the reply arrived", []).to_bytes();
            Some(AttemptEnd::Attempted(AttemptRecord {
                id: Some(id),
                duration,
                exchange,
                ..record(Report::Interrupted, note, started_at)
            }))
        }
        Sent::Answered(answer) => {
            let (class, outcome) = classify_push(&answer, node.clock.now());
            let (status, reply) = match answer {
                Ok(reply) => (reply.status, reply.body),
                Err(failure) => (0, Bytes::from(failure.detail)),
            };
            let record = answered(class, outcome, status, &reply, started_at, duration);
            Some(AttemptEnd::Attempted(AttemptRecord { id: Some(id), exchange, ..record }))
        }
    }
}

fn headers(
    node: &Node,
    job: &Job,
    target: &Target,
    body: &[u8],
    (attempt, number): (AttemptId, u32),
) -> Result<HeaderMap, SendFailure> {
    let mut headers = HeaderMap::with_capacity(outbound::HEADERS_ROOM);
    let (id, at) = (job.id.to_string(), node.receivers_time());
    let signed = Signed { id, keys: &target.keys, body, attempt, number, at };
    outbound::sign(node, &mut headers, signed)?;
    headers.insert("everhook-queue", header(job.queue.to_string())?);
    headers.insert("everhook-kind", header(job.kind.to_string())?);
    Ok(headers)
}

fn push_timeout(node: &Node) -> Duration {
    node.config.jobs.as_ref().map_or(PUSH_TIMEOUT_DEFAULT, |jobs| jobs.push_timeout)
}

fn answered(
    class: Class,
    outcome: Outcome,
    status: u16,
    reply: &[u8],
    started_at: Timestamp,
    duration: Duration,
) -> AttemptRecord {
    // A successful reply is not an error and is not stored. Other replies may have no body; the note then contains the
    // status.
    let reply = match (outcome, status, String::from_utf8_lossy(reply).trim()) {
        (Outcome::Success, _, _) => Bytes::new(),
        (_, 0, failure) => Note::new(failure, []).to_bytes(),
        (_, status, "") => Note::new(&format!("the target answered {status}"), []).to_bytes(),
        (_, status, said) => Note::new(&format!("the target answered {status}: {said}"), []).to_bytes(),
    };
    AttemptRecord { status, duration, ..AttemptRecord::new((class, outcome), reply, started_at) }
}

fn too_slow(timeout: Duration) -> SendFailure {
    SendFailure::new(Class::Timeout, format!("the target did not answer within {} s", timeout.as_secs()))
}
