//! Outcomes of attempts, in the terms that decide what follows.
//!
//! Pure. `classify` maps a receiver's reply or the sender's failure. No other code interprets a status code.

use std::time::Duration;

use bytes::Bytes;

use crate::dispatch::health::Sign;
use crate::limits::RETRY_DELAY_MAX;
use crate::name::named_as;
use crate::policy::statuses::FinalStatuses;
use crate::task::stored_as;
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    /// The `Retry-After` header, unparsed.
    pub retry_after: Option<String>,
    /// The wish in the header `webhook-delivery`, which only deliveries obey.
    pub wish: Option<Wish>,
    /// The first `REPLY_BYTES_MAX` bytes of the body.
    pub body: Bytes,
}

/// The wish of a receiver about further deliveries, in the header [`Wish::HEADER`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// `disable`: disables the endpoint.
    Disable,
    /// `abort-message`: ends the retries of this delivery.
    AbortMessage,
}

impl Wish {
    pub const HEADER: &str = "webhook-delivery";

    /// Parses the value of the header. Other values are ignored.
    pub fn parse(text: &str) -> Option<Wish> {
        match text.trim().to_ascii_lowercase().as_str() {
            "disable" => Some(Wish::Disable),
            "abort-message" => Some(Wish::AbortMessage),
            _ => None,
        }
    }
}

/// Why a request got no complete reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendFailure {
    pub class: Class,
    /// One line for people, without secrets and internal addresses.
    pub detail: String,
    pub blame: Blame,
}

/// The side that caused a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// Receiver or network: the attempt counts.
    Receiver,
    /// This node has run out of files, ports or memory. Nothing was sent, and the attempt does not count.
    Node,
}

impl SendFailure {
    /// A failure of the receiver or the network.
    pub fn new(class: Class, detail: impl Into<String>) -> SendFailure {
        SendFailure { class, detail: detail.into(), blame: Blame::Receiver }
    }
}

/// The end of an attempt, for lists, logs and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    Success,
    /// Any status except 2xx, 410, 429, 502 and 504.
    Status,
    /// 429, 502 or 504: the receiver is overloaded.
    Throttled,
    /// 410, or a failure with the wish to disable the endpoint: the receiver wants no more requests.
    Gone,
    Dns,
    Connect,
    Tls,
    Timeout,
    /// The connection broke after the request had started.
    Reset,
    /// Egress rules refused the address.
    Blocked,
    /// The holder crashed. The request may or may not have been sent.
    Abandoned,
    /// The holder shut down before the reply arrived.
    Interrupted,
    /// Ended without a request: the endpoint was deleted, or a user cancelled.
    Cancelled,
    /// The holder could not build a request from the task: a defect of Everhook.
    Internal,
    /// The job handler returned an error.
    Failed,
    Panicked,
    /// The job handler asked for a later attempt.
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

named_as!(Class, BadClass {
    Success = "success", Status = "status", Throttled = "throttled", Gone = "gone",
    Dns = "dns", Connect = "connect", Tls = "tls", Timeout = "timeout", Reset = "reset", Blocked = "blocked",
    Abandoned = "abandoned", Interrupted = "interrupted", Cancelled = "cancelled", Internal = "internal",
    Failed = "failed", Panicked = "panicked", Snoozed = "snoozed",
});

/// Error of a text that names no class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not the class of an attempt")]
pub struct BadClass;

/// The meaning of an attempt for its task and lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Success,
    /// Succeeded, and the receiver wants no further requests.
    LastSuccess,
    /// The receiver refuses this endpoint for good.
    Gone,
    /// Failed; the whole lane backs off.
    Throttled {
        /// Delay requested by the receiver.
        retry_after: Option<Duration>,
    },
    /// Failed; only this task backs off.
    Failure {
        /// Delay requested by the receiver.
        retry_after: Option<Duration>,
    },
    /// Failed; the receiver wants no further attempt.
    Aborted,
    /// Failed with a status after which the policy allows no further attempt.
    Rejected,
    /// Postponed by the handler, without using a try.
    Snoozed {
        wait: Duration,
    },
    /// The queue's target refuses all jobs until an operator resumes the queue.
    Stopped,
    /// The holder crashed during the attempt.
    Abandoned,
    /// The holder shut down during the attempt.
    Interrupted,
    Cancelled,
}

/// Returns the meaning of an outcome for the speed of its lane.
pub fn sign(class: Class, outcome: Outcome) -> Sign {
    match (outcome, class) {
        (Outcome::Success | Outcome::LastSuccess, _) => Sign::Well,
        (_, Class::Timeout | Class::Throttled) => Sign::Overloaded,
        (_, Class::Dns | Class::Connect | Class::Tls) => Sign::Unreachable,
        _ => Sign::Neutral,
    }
}

/// Classifies the result of a delivery's request. `now` resolves a `Retry-After` date.
pub fn classify(sent: &Result<Reply, SendFailure>, now: Timestamp, finals: &FinalStatuses) -> (Class, Outcome) {
    let (class, outcome) = classify_status(sent, now);
    let outcome = match outcome {
        // The lane of an endpoint slows down by its window, see `sign`. A single timeout does not hold it.
        Outcome::Throttled { retry_after: None } => Outcome::Failure { retry_after: None },
        // A receiver that asks for a delay means all requests.
        Outcome::Failure { retry_after: Some(wait) } => Outcome::Throttled { retry_after: Some(wait) },
        outcome => outcome,
    };
    let wish = sent.as_ref().ok().and_then(|reply| reply.wish);
    match (wish, outcome) {
        (Some(Wish::Disable), Outcome::Success) => (class, Outcome::LastSuccess),
        (Some(Wish::Disable), _) => (Class::Gone, Outcome::Gone),
        (Some(Wish::AbortMessage), Outcome::Throttled { .. } | Outcome::Failure { .. }) => (class, Outcome::Aborted),
        (_, Outcome::Throttled { .. } | Outcome::Failure { .. })
            if sent.as_ref().is_ok_and(|reply| finals.contains(reply.status)) =>
        {
            (class, Outcome::Rejected)
        }
        (Some(Wish::AbortMessage) | None, outcome) => (class, outcome),
    }
}

fn classify_status(sent: &Result<Reply, SendFailure>, now: Timestamp) -> (Class, Outcome) {
    let reply = match sent {
        Ok(reply) => reply,
        // A hanging receiver is probably overloaded, as after 429.
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

/// Classifies the result of a push.
///
/// Differs from [`classify`] for 410: a gone endpoint ends its deliveries, but a queue keeps its jobs and stops. Wishes
/// about deliveries are ignored.
pub fn classify_push(sent: &Result<Reply, SendFailure>, now: Timestamp) -> (Class, Outcome) {
    match classify_status(sent, now) {
        (class, Outcome::Gone) => (class, Outcome::Stopped),
        other => other,
    }
}

/// Parses seconds or an HTTP date, capped. Unreadable values are ignored.
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
        let reply = Reply { status, retry_after, wish: None, body: Bytes::new() };
        // 1994-11-15 08:12:00 UTC
        let (class, outcome) = classify(&Ok(reply), Timestamp::from_millis(784_887_120_000), &FinalStatuses::default());
        assert_eq!(format!("{class} {outcome:?}"), want, "{status}");
    }

    #[test]
    fn only_2xx_is_success() {
        check(200, "", "success Success");
        check(299, "9", "success Success");
        for status in [199, 301, 404, 500] {
            check(status, "", "status Failure { retry_after: None }");
        }
    }

    #[test]
    fn a_class_is_read_by_its_name() {
        for class in [Class::Success, Class::Timeout, Class::Snoozed] {
            assert_eq!(class.to_string().parse(), Ok(class));
        }
        assert_eq!("fine".parse::<Class>(), Err(BadClass));
    }

    #[test]
    fn gone_and_throttled_are_their_own_outcomes() {
        check(410, "", "gone Gone");
        check(502, "7", "throttled Throttled { retry_after: Some(7s) }");
        for status in [429, 504] {
            check(status, "", "throttled Failure { retry_after: None }");
        }
    }

    #[test]
    fn a_push_differs_in_what_gone_means() {
        let push = |status| {
            let reply = Reply { status, retry_after: None, wish: Some(Wish::Disable), body: Bytes::new() };
            classify_push(&Ok(reply), Timestamp::default())
        };
        assert_eq!(push(410), (Class::Gone, Outcome::Stopped));
        assert_eq!(push(204), (Class::Success, Outcome::Success));
        assert_eq!(push(500), (Class::Status, Outcome::Failure { retry_after: None }));
    }

    #[test]
    fn a_receiver_can_disable_its_endpoint_and_abort_a_message() {
        let with = |status, header: &str| {
            let reply = Reply { status, retry_after: None, wish: Wish::parse(header), body: Bytes::new() };
            classify(&Ok(reply), Timestamp::default(), &FinalStatuses::default())
        };
        assert_eq!(with(204, "disable"), (Class::Success, Outcome::LastSuccess));
        assert_eq!(with(500, " Disable "), (Class::Gone, Outcome::Gone));
        assert_eq!(with(200, "abort-message"), (Class::Success, Outcome::Success));
        assert_eq!(with(500, "abort-message"), (Class::Status, Outcome::Aborted));
        assert_eq!(with(429, "abort-message"), (Class::Throttled, Outcome::Aborted));
        assert_eq!(with(410, "abort-message"), (Class::Gone, Outcome::Gone));
        assert_eq!(with(500, "abort"), (Class::Status, Outcome::Failure { retry_after: None }));
    }

    #[test]
    fn retry_after_is_read_as_seconds_or_date_and_capped() {
        for (header, wait) in [
            ("120", "120s"),
            ("Tue, 15 Nov 1994 08:12:31 GMT", "31s"),
            ("Tue, 15 Nov 1994 08:00:00 GMT", "0ns"),
            ("99999999", "86400s"),
        ] {
            check(503, header, &format!("status Throttled {{ retry_after: Some({wait}) }}"));
        }
        for header in ["-1", "soon"] {
            check(503, header, "status Failure { retry_after: None }");
        }
    }

    #[test]
    fn a_final_status_ends_the_retries() {
        let finals: FinalStatuses = serde_json::from_str(r#"["4xx", 502]"#).unwrap();
        let with = |status, retry_after: Option<&str>| {
            let retry_after = retry_after.map(str::to_owned);
            let reply = Reply { status, retry_after, wish: None, body: Bytes::new() };
            classify(&Ok(reply), Timestamp::default(), &finals)
        };
        assert_eq!(with(404, Some("60")), (Class::Status, Outcome::Rejected));
        assert_eq!(with(502, None), (Class::Throttled, Outcome::Rejected));
        assert_eq!(with(410, None), (Class::Gone, Outcome::Gone));
        assert_eq!(with(429, None), (Class::Throttled, Outcome::Failure { retry_after: None }));
        assert_eq!(with(500, None), (Class::Status, Outcome::Failure { retry_after: None }));
        assert_eq!(with(204, None), (Class::Success, Outcome::Success));
    }

    #[test]
    fn a_timeout_holds_the_lane_and_a_refused_connection_does_not() {
        let fail =
            |class| classify(&Err(SendFailure::new(class, "")), Timestamp::default(), &FinalStatuses::default()).1;
        assert_eq!(fail(Class::Timeout), Outcome::Failure { retry_after: None });
        assert_eq!(fail(Class::Connect), Outcome::Failure { retry_after: None });
        assert_eq!(fail(Class::Blocked), Outcome::Failure { retry_after: None });
    }
}
