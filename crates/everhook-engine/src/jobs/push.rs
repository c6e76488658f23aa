//! Jobs that leave as requests: to the target of their queue, signed like deliveries.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use everhook_core::job::Job;
use everhook_core::job::report::{Note, Report};
use everhook_core::outcome::{Class, Outcome, SendFailure, classify_push};
use everhook_core::queue::Target;
use everhook_core::task::Task;
use everhook_core::time::Timestamp;
use everhook_sender::Request;
use http::header::HeaderMap;

use crate::clock::Clock;
use crate::dispatcher::NodeCapacity;
use crate::jobs::runner::{Work, record};
use crate::outbound::{Outbound, Sent, Signed, header};
use crate::session::Session;
use crate::settle::{AttemptEnd, AttemptRecord};

/// Sends jobs to the target of their queue.
pub(crate) struct Pusher {
    pub(crate) outbound: Arc<Outbound>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) capacity: Arc<NodeCapacity<Work>>,
    /// How long a target may take, however long the job itself may: a push keeps its slot until then.
    pub(crate) timeout: Duration,
}

impl Pusher {
    /// Sends one; none if the session was closed meanwhile.
    pub(crate) async fn push(&self, job: &Job, target: &Target, task: &Task, session: &Session) -> Option<AttemptEnd> {
        let (started_at, begun) = (self.clock.now(), self.clock.elapsed());
        let body = job.payload.clone().unwrap_or_default();
        let sent = match self.headers(job, target, &body, task.tries + 1) {
            Ok(headers) => {
                let timeout = job.timeout.min(self.timeout);
                let request = Request { url: target.url.clone(), headers, body, patience: Some(timeout) };
                let sent = tokio::time::timeout(timeout, self.outbound.send(request, session)).await;
                sent.unwrap_or_else(|_| Sent::Answered(Err(too_slow(timeout))))
            }
            Err(failure) => Sent::Answered(Err(failure)),
        };
        let duration = self.clock.elapsed().saturating_sub(begun);
        match sent {
            Sent::SessionClosed => None,
            Sent::Exhausted(failure) => {
                self.capacity.pause(&failure.detail, self.clock.elapsed());
                Some(AttemptEnd::HandedBack)
            }
            Sent::Interrupted => {
                let note = Note::new("the server was stopped before the reply came", []).to_bytes();
                Some(AttemptEnd::Attempted(AttemptRecord { duration, ..record(Report::Interrupted, note, started_at) }))
            }
            Sent::Answered(answer) => {
                let (class, outcome) = classify_push(&answer, self.clock.now());
                let (status, reply) = match answer {
                    Ok(reply) => (reply.status, reply.body),
                    Err(failure) => (0, Bytes::from(failure.detail)),
                };
                Some(AttemptEnd::Attempted(answered(class, outcome, status, &reply, started_at, duration)))
            }
        }
    }

    fn headers(&self, job: &Job, target: &Target, body: &[u8], attempt: u32) -> Result<HeaderMap, SendFailure> {
        let mut headers = HeaderMap::with_capacity(16);
        self.outbound.sign(&mut headers, Signed { id: job.id.to_string(), keys: &target.keys, body, attempt })?;
        headers.insert("everhook-queue", header(job.queue.to_string())?);
        headers.insert("everhook-kind", header(job.kind.to_string())?);
        Ok(headers)
    }
}

fn answered(
    class: Class,
    outcome: Outcome,
    status: u16,
    reply: &[u8],
    started_at: Timestamp,
    duration: Duration,
) -> AttemptRecord {
    // What a target says when all is well is no error; what it says otherwise may be nothing but its status.
    let reply = match (outcome, status, String::from_utf8_lossy(reply).trim()) {
        (Outcome::Success, _, _) => Bytes::new(),
        (_, 0, failure) => Note::new(failure, []).to_bytes(),
        (_, status, "") => Note::new(&format!("the target answered {status}"), []).to_bytes(),
        (_, status, said) => Note::new(&format!("the target answered {status}: {said}"), []).to_bytes(),
    };
    AttemptRecord {
        outcome,
        class,
        url: String::new(),
        status,
        reply,
        started_at,
        duration,
        result: None,
        holder: None,
    }
}

fn too_slow(timeout: Duration) -> SendFailure {
    SendFailure::new(Class::Timeout, format!("the target did not answer within {} s", timeout.as_secs()))
}
