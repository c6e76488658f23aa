//! What happened in an attempt, in the words that decide what follows.
//!
//! Pure. `classify` reads a receiver's reply or the sender's failure; nobody else interprets a status code.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use crate::limits::RETRY_DELAY_MAX;
use crate::task::stored_as;
use crate::time::Timestamp;

/// A receiver's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// The `Retry-After` header, as it came.
    pub retry_after: Option<String>,
    /// At most `REPLY_BYTES_MAX` of the body.
    pub body: Bytes,
}

/// Why no complete answer came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendFailure {
    /// Which step failed.
    pub class: Class,
    /// One line for people; no secrets, no addresses of the inside.
    pub detail: String,
    /// Whose attempt it was.
    pub blame: Blame,
}

/// Who is to blame that no answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The receiver or the way to it: the attempt counts.
    Receiver,
    /// This node, which has no files, ports or memory left: nothing was sent, and the receiver has lost no attempt.
    Node,
}

impl SendFailure {
    /// A failure that counts.
    pub fn new(class: Class, detail: impl Into<String>) -> SendFailure {
        SendFailure { class, detail: detail.into(), blame: Blame::Receiver }
    }
}

/// How an attempt ended, for lists, logs and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// 2xx.
    Success,
    /// Any status that is neither success nor throttling nor 410.
    Status,
    /// 429, 502 or 504: the receiver asks for less.
    Throttled,
    /// 410: the receiver asks for no more at all.
    Gone,
    /// The name did not resolve.
    Dns,
    /// No connection could be made.
    Connect,
    /// The TLS handshake failed.
    Tls,
    /// A deadline passed.
    Timeout,
    /// The connection broke after the request was begun.
    Reset,
    /// The address is one we do not send to.
    Blocked,
    /// The holder died; nobody knows whether the request was sent.
    Abandoned,
    /// The holder was stopped before the reply came.
    Interrupted,
    /// Ended without a request: the endpoint is gone, or someone asked for it.
    Cancelled,
    /// The holder could not make a request of the task; our fault.
    Internal,
    /// The handler of a job said that it failed.
    Failed,
    /// The handler of a job panicked.
    Panicked,
    /// The handler of a job asked to be called again later.
    Snoozed,
}

stored_as!(Class {
    Success = 0,
    Status = 1,
    Throttled = 2,
    Gone = 3,
    Dns = 4,
    Connect = 5,
    Tls = 6,
    Timeout = 7,
    Reset = 8,
    Blocked = 9,
    Abandoned = 10,
    Interrupted = 11,
    Cancelled = 12,
    Internal = 13,
    Failed = 14,
    Panicked = 15,
    Snoozed = 16,
});

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::Success => "success",
            Class::Status => "status",
            Class::Throttled => "throttled",
            Class::Gone => "gone",
            Class::Dns => "dns",
            Class::Connect => "connect",
            Class::Tls => "tls",
            Class::Timeout => "timeout",
            Class::Reset => "reset",
            Class::Blocked => "blocked",
            Class::Abandoned => "abandoned",
            Class::Interrupted => "interrupted",
            Class::Cancelled => "cancelled",
            Class::Internal => "internal",
            Class::Failed => "failed",
            Class::Panicked => "panicked",
            Class::Snoozed => "snoozed",
        })
    }
}

/// What an attempt means for its task and lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Success,
    /// Done with this endpoint.
    Gone,
    /// Not done; the whole lane is to wait.
    Throttled {
        /// How long the receiver asked us to wait.
        retry_after: Option<Duration>,
    },
    /// Not done; this task is to wait.
    Failure {
        /// How long the receiver asked us to wait.
        retry_after: Option<Duration>,
    },
    /// Not done, and nobody's fault: it is to be tried again later.
    Snoozed {
        /// How much later.
        wait: Duration,
    },
    /// Not done; the receiver takes nothing of this lane until someone lets it go on.
    Stopped,
    /// The holder died with it.
    Abandoned,
    /// The holder was stopped with it.
    Interrupted,
    /// It is not to be done any more.
    Cancelled,
}

/// Reads what the sender brought back. `now` is for a `Retry-After` that is a date.
pub fn classify(sent: &Result<Reply, SendFailure>, now: Timestamp) -> (Class, Outcome) {
    let reply = match sent {
        Ok(reply) => reply,
        Err(failure) if failure.class == Class::Timeout => {
            return (Class::Timeout, Outcome::Throttled { retry_after: None });
        }
        Err(failure) => return (failure.class, Outcome::Failure { retry_after: None }),
    };
    let retry_after = reply.retry_after.as_deref().and_then(|text| parse_retry_after(text, now));
    match reply.status {
        200..=299 => (Class::Success, Outcome::Success),
        410 => (Class::Gone, Outcome::Gone),
        429 | 502 | 504 => (Class::Throttled, Outcome::Throttled { retry_after }),
        _ => (Class::Status, Outcome::Failure { retry_after }),
    }
}

/// Reads what the sender brought back from the target of a queue.
///
/// The same, but for 410: an endpoint that is gone takes its deliveries with it, a queue keeps its jobs and is paused.
pub fn classify_push(sent: &Result<Reply, SendFailure>, now: Timestamp) -> (Class, Outcome) {
    match classify(sent, now) {
        (class, Outcome::Gone) => (class, Outcome::Stopped),
        other => other,
    }
}

/// Seconds or an HTTP date; nonsense is ignored, and no more than the cap is granted.
fn parse_retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    let wait = match text.parse::<u64>() {
        Ok(secs) => Duration::from_secs(secs),
        Err(_) => {
            let at = httpdate::parse_http_date(text).ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
            Timestamp::from_micros(crate::time::micros(at)).since(now)
        }
    };
    Some(wait.min(RETRY_DELAY_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(status: u16, retry_after: &str, want: &str) {
        let retry_after = (!retry_after.is_empty()).then(|| retry_after.to_owned());
        let reply = Reply { status, retry_after, body: Bytes::new() };
        // 1994-11-15 08:12:00 UTC
        let (class, outcome) = classify(&Ok(reply), Timestamp::from_millis(784_887_120_000));
        assert_eq!(format!("{class} {outcome:?}"), want);
    }

    #[test]
    fn only_2xx_is_success() {
        check(200, "", "success Success");
        check(299, "9", "success Success");
        check(199, "", "status Failure { retry_after: None }");
        check(301, "", "status Failure { retry_after: None }");
        check(404, "", "status Failure { retry_after: None }");
        check(500, "", "status Failure { retry_after: None }");
    }

    #[test]
    fn gone_and_throttled_are_their_own_outcomes() {
        check(410, "", "gone Gone");
        check(429, "", "throttled Throttled { retry_after: None }");
        check(502, "7", "throttled Throttled { retry_after: Some(7s) }");
        check(504, "", "throttled Throttled { retry_after: None }");
    }

    #[test]
    fn a_push_differs_in_what_gone_means() {
        let push = |status| {
            let reply = Reply { status, retry_after: None, body: Bytes::new() };
            classify_push(&Ok(reply), Timestamp::default())
        };
        assert_eq!(push(410), (Class::Gone, Outcome::Stopped));
        assert_eq!(push(204), (Class::Success, Outcome::Success));
        assert_eq!(push(500), (Class::Status, Outcome::Failure { retry_after: None }));
    }

    #[test]
    fn retry_after_is_read_as_seconds_or_date_and_capped() {
        check(503, "120", "status Failure { retry_after: Some(120s) }");
        check(503, "Tue, 15 Nov 1994 08:12:31 GMT", "status Failure { retry_after: Some(31s) }");
        check(503, "Tue, 15 Nov 1994 08:00:00 GMT", "status Failure { retry_after: Some(0ns) }");
        check(503, "99999999", "status Failure { retry_after: Some(86400s) }");
        check(503, "-1", "status Failure { retry_after: None }");
        check(503, "soon", "status Failure { retry_after: None }");
    }

    #[test]
    fn a_timeout_holds_the_lane_and_a_refused_connection_does_not() {
        let fail = |class| classify(&Err(SendFailure::new(class, "")), Timestamp::default()).1;
        assert_eq!(fail(Class::Timeout), Outcome::Throttled { retry_after: None });
        assert_eq!(fail(Class::Connect), Outcome::Failure { retry_after: None });
        assert_eq!(fail(Class::Blocked), Outcome::Failure { retry_after: None });
    }
}
