//! Traffic of an environment: accepted messages, delivered and failed attempts, dead deliveries, times to delivery.
//!
//! Pure. A node counts into a [`Traffic`] in memory. [`Ledger`](ledger::Ledger) folds it into spans of time, which
//! `engine::traffic` writes to the store. [`Overview`](overview::Overview) folds the stored spans of all nodes into the
//! numbers that an operator sees. Counts are statistics: no decision depends on them.

pub mod latency;
pub mod ledger;
pub mod overview;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::{EndpointId, EnvironmentId, Id};
use crate::lifecycle::EndState;
use crate::limits::TRAFFIC_ENDPOINTS_MAX;
use crate::name::named_as;
use crate::outcome::Class;
use crate::task::{Task, Trigger};
use crate::time::Timestamp;
use crate::traffic::latency::Latencies;

/// The length of a stored span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Span {
    Minute,
    /// 15 minutes.
    Quarter,
    Hour,
}

impl Span {
    pub const ALL: [Span; 3] = [Span::Minute, Span::Quarter, Span::Hour];

    pub const fn secs(self) -> i64 {
        match self {
            Span::Minute => 60,
            Span::Quarter => 900,
            Span::Hour => 3600,
        }
    }

    /// Returns the span with this number of seconds.
    pub fn from_secs(secs: i64) -> Option<Span> {
        Span::ALL.into_iter().find(|span| span.secs() == secs)
    }

    /// The start of the span that contains `at`.
    pub fn start(self, at: Timestamp) -> Timestamp {
        let secs = at.as_secs().div_euclid(self.secs()) * self.secs();
        Timestamp::from_millis(secs * 1000)
    }
}

/// The stored counts of one node in one span.
#[derive(Clone, Debug, PartialEq)]
pub struct TrafficRow {
    pub environment: EnvironmentId,
    pub span: Span,
    pub start: Timestamp,
    /// The run of a node that counted. Each run has rows of its own and replaces them, so that a write can be repeated.
    pub source: Id,
    pub counts: Traffic,
}

/// The kind of a failed attempt. Replies are divided by their status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureClass {
    /// 429.
    TooMany,
    /// 4xx, except 410 and 429.
    Client,
    /// 5xx.
    Server,
    /// Another status, such as a redirect.
    Status,
    /// 410, or the wish to disable the endpoint.
    Gone,
    Dns,
    Connect,
    Tls,
    Timeout,
    Reset,
    Blocked,
    Abandoned,
    Internal,
}

impl FailureClass {
    /// Returns none if the attempt did not fail: it succeeded, was cancelled, was interrupted by a stop, or belongs to
    /// a job.
    pub fn of(class: Class, status: u16) -> Option<FailureClass> {
        Some(match class {
            Class::Status | Class::Throttled => match status {
                429 => FailureClass::TooMany,
                400..=499 => FailureClass::Client,
                500..=599 => FailureClass::Server,
                _ => FailureClass::Status,
            },
            Class::Gone => FailureClass::Gone,
            Class::Dns => FailureClass::Dns,
            Class::Connect => FailureClass::Connect,
            Class::Tls => FailureClass::Tls,
            Class::Timeout => FailureClass::Timeout,
            Class::Reset => FailureClass::Reset,
            Class::Blocked => FailureClass::Blocked,
            Class::Abandoned => FailureClass::Abandoned,
            Class::Internal => FailureClass::Internal,
            Class::Success
            | Class::Interrupted
            | Class::Cancelled
            | Class::Failed
            | Class::Panicked
            | Class::Snoozed => return None,
        })
    }
}

named_as!(FailureClass, BadFailureClass {
    TooMany = "429", Client = "4xx", Server = "5xx", Status = "status", Gone = "gone",
    Dns = "dns", Connect = "connect", Tls = "tls", Timeout = "timeout", Reset = "reset", Blocked = "blocked",
    Abandoned = "abandoned", Internal = "internal",
});

impl Serialize for FailureClass {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for FailureClass {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<FailureClass, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Error of a text that names no class of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be 4xx, 5xx, 429 or the class of a failed attempt")]
pub struct BadFailureClass;

/// The failed attempts to one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointFailures {
    pub failures: u64,
    /// The class of the last failure.
    pub class: FailureClass,
    pub last_at: Timestamp,
}

/// The end of one attempt of a delivery.
#[derive(Clone, Copy, Debug)]
pub struct AttemptEnd {
    pub class: Class,
    pub status: u16,
    pub end: EndState,
    /// The end of the attempt.
    pub at: Timestamp,
}

/// Counts of one environment in some span of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traffic {
    pub accepted: u64,
    pub delivered: u64,
    pub dead: u64,
    failed: [u64; FailureClass::ALL.len()],
    /// Times from acceptance to delivery.
    pub latencies: Latencies,
    /// The endpoints with the most failures; at most `TRAFFIC_ENDPOINTS_MAX`.
    endpoints: BTreeMap<EndpointId, EndpointFailures>,
}

impl Traffic {
    /// Counts the end of an attempt of a delivery.
    pub fn attempted(&mut self, task: &Task, ended: AttemptEnd) {
        match ended.end {
            EndState::Succeeded => {
                self.delivered += 1;
                if let Some(took) = time_to_delivery(task, ended.at) {
                    self.latencies.add(took);
                }
            }
            EndState::Dead => self.dead += 1,
            EndState::Open | EndState::Cancelled => {}
        }
        if let Some(class) = FailureClass::of(ended.class, ended.status) {
            self.failed[class as usize] += 1;
            let one = EndpointFailures { failures: 1, class, last_at: ended.at };
            self.add_endpoint(EndpointId(task.lane.0), one);
        }
    }

    /// Adds the counts of another node or span.
    pub fn merge(&mut self, other: &Traffic) {
        self.accepted += other.accepted;
        self.delivered += other.delivered;
        self.dead += other.dead;
        for (mine, theirs) in self.failed.iter_mut().zip(other.failed) {
            *mine += theirs;
        }
        self.latencies.merge(&other.latencies);
        for (endpoint, failures) in &other.endpoints {
            self.add_endpoint(*endpoint, *failures);
        }
    }

    /// The number of failed attempts.
    pub fn failed(&self) -> u64 {
        self.failed.iter().sum()
    }

    /// Failed attempts by class, most first, without empty classes.
    pub fn failures(&self) -> Vec<(FailureClass, u64)> {
        let mut failures: Vec<_> =
            FailureClass::ALL.into_iter().zip(self.failed).filter(|(_, count)| *count > 0).collect();
        failures.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        failures
    }

    /// The endpoints with the most failures, most first.
    pub fn endpoints(&self) -> Vec<(EndpointId, EndpointFailures)> {
        let mut endpoints: Vec<_> = self.endpoints.iter().map(|(id, failures)| (*id, *failures)).collect();
        endpoints.sort_by_key(|(_, found)| std::cmp::Reverse((found.failures, found.last_at)));
        endpoints
    }

    /// Adds failures of an endpoint. A full list gives up its endpoint with the fewest failures. An endpoint that fails
    /// often stays, because its count grows; the counts of the others are lower bounds.
    fn add_endpoint(&mut self, endpoint: EndpointId, more: EndpointFailures) {
        if let Some(known) = self.endpoints.get_mut(&endpoint) {
            known.failures += more.failures;
            if known.last_at <= more.last_at {
                (known.class, known.last_at) = (more.class, more.last_at);
            }
            return;
        }
        if self.endpoints.len() >= TRAFFIC_ENDPOINTS_MAX {
            let least = self.endpoints.iter().min_by_key(|(_, found)| (found.failures, found.last_at));
            let Some((id, least)) = least.map(|(id, found)| (*id, *found)) else { return };
            if least.failures > more.failures {
                return;
            }
            self.endpoints.remove(&id);
        }
        self.endpoints.insert(endpoint, more);
    }

    /// The counts as JSON, as the stores keep them.
    pub fn to_json(&self) -> String {
        let counts = |latencies: &Latencies| latencies.counts().collect();
        let stored = Stored {
            accepted: self.accepted,
            delivered: self.delivered,
            dead: self.dead,
            failed: self.failures().into_iter().map(|(class, count)| (class.to_string(), count)).collect(),
            latencies: counts(&self.latencies),
            endpoints: self.endpoints().into_iter().map(StoredEndpoint::from).collect(),
        };
        serde_json::to_string(&stored).unwrap_or_default()
    }

    /// Reads stored counts. Classes that this version does not know are left out, because a later version may have
    /// written them.
    pub fn from_json(text: &str) -> Option<Traffic> {
        let stored: Stored = serde_json::from_str(text).ok()?;
        let mut traffic =
            Traffic { accepted: stored.accepted, delivered: stored.delivered, dead: stored.dead, ..Traffic::default() };
        for (class, count) in stored.failed {
            if let Ok(class) = class.parse::<FailureClass>() {
                traffic.failed[class as usize] += count;
            }
        }
        traffic.latencies = Latencies::from_counts(stored.latencies);
        for found in stored.endpoints {
            if let Ok(class) = found.class.parse() {
                let last_at = Timestamp::from_millis(found.last_at);
                traffic.add_endpoint(found.id, EndpointFailures { failures: found.failures, class, last_at });
            }
        }
        Some(traffic)
    }
}

/// The time from acceptance until `at`. A delivery for later counts from the time for which it was planned, as long as
/// it was not tried before. A manual attempt has none: its message may have been delivered long ago.
pub fn time_to_delivery(task: &Task, at: Timestamp) -> Option<Duration> {
    let accepted = task.key.subject.timestamp();
    match task.trigger {
        Trigger::Manual => None,
        Trigger::Scheduled if task.tries == 0 && task.crashes == 0 => Some(at.since(accepted.max(task.due_at))),
        Trigger::Scheduled => Some(at.since(accepted)),
    }
}

#[derive(Serialize, Deserialize)]
struct Stored {
    #[serde(default)]
    accepted: u64,
    #[serde(default)]
    delivered: u64,
    #[serde(default)]
    dead: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    failed: BTreeMap<String, u64>,
    /// Buckets with their counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    latencies: Vec<(usize, u64)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    endpoints: Vec<StoredEndpoint>,
}

#[derive(Serialize, Deserialize)]
struct StoredEndpoint {
    id: EndpointId,
    failures: u64,
    class: String,
    /// Milliseconds since the Unix epoch.
    last_at: i64,
}

impl From<(EndpointId, EndpointFailures)> for StoredEndpoint {
    fn from((id, found): (EndpointId, EndpointFailures)) -> StoredEndpoint {
        let (class, last_at) = (found.class.to_string(), found.last_at.as_millis());
        StoredEndpoint { id, failures: found.failures, class, last_at }
    }
}

#[cfg(test)]
mod tests;
