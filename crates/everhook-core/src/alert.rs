//! Alerts: rules about the numbers of an environment, and the pages that tell its operator.
//!
//! Pure. A rule is a resource. [`decision`] moves its state and asks for pages; [`page`] chooses the operational
//! endpoints that get a page, and writes its content. The engine measures signals, and stores the new state with the
//! messages of the page in one transaction (`engine::alerts`).

pub mod decision;
pub mod page;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::alert::decision::AlertState;
use crate::alert::page::AlertPage;
use crate::id::{AlertId, EndpointId};
use crate::limits::{
    ALERT_DESTINATIONS_MAX, ALERT_ENDPOINT_WINDOW_SECONDS_MAX, ALERT_SECONDS_MAX, ALERT_WINDOW_SECONDS_MAX,
    ALERT_WINDOW_SECONDS_MIN, OVERVIEW_TASKS_MAX, QUEUE_COUNTED_MAX,
};
use crate::name::Name;
use crate::time::Timestamp;
use crate::violation::{Violation, at};

/// An alert rule of an environment with its state and its latest pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    pub id: AlertId,
    pub name: Name,
    pub rule: AlertRule,
    pub state: AlertState,
    /// Newest first; at most `ALERT_PAGES_KEPT`.
    pub pages: Vec<AlertPage>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub revision: i64,
}

/// The configured part of an alert.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AlertRule {
    pub description: String,
    pub signal: AlertSignal,
    /// The queue of the signal `queue-depth`.
    pub queue: Option<Name>,
    /// Watches the deliveries to one endpoint instead of the whole environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointId>,
    pub condition: AlertCondition,
    pub threshold: Amount,
    /// The time over which a failure rate is measured, or a change is looked for.
    pub window_seconds: Option<u32>,
    /// The condition must hold this long before the first page.
    pub for_seconds: u32,
    /// The condition must be gone this long before the alert is resolved.
    pub resolve_after_seconds: u32,
    /// The time between two pages of a triggered alert.
    pub cooldown_seconds: u32,
    /// Ids or uids of operational endpoints. Without it, every one that wants the event gets a page.
    pub destinations: Option<Vec<Name>>,
    pub escalation: Option<AlertEscalation>,
    pub disabled: bool,
}

/// Further destinations of an alert that stays triggered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AlertEscalation {
    /// Seconds after the alert was triggered.
    pub after_seconds: Option<u32>,
    /// The number of `alert.ongoing` pages, the last of which also goes to these destinations.
    pub after_ongoing: Option<u32>,
    pub destinations: Vec<Name>,
}

/// The number that a rule watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AlertSignal {
    /// Dead deliveries and jobs.
    Dead,
    /// Deliveries and jobs that are due and not held back.
    Due,
    /// The seconds for which the oldest due task has waited.
    OldestDueAge,
    /// The share of attempts of deliveries that failed in the window, from 0 to 1.
    FailureRate,
    /// Waiting jobs of a queue.
    QueueDepth,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AlertCondition {
    Above,
    Below,
    /// The value differs from a value in the window by more than the threshold.
    Change,
}

/// A number with six decimal places, so that rules and pages can be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amount(i64);

impl Amount {
    const UNIT: f64 = 1_000_000.0;
    /// The largest amount that is exact as a JSON number.
    const MAX: f64 = 9_000_000_000.0;

    /// Rounds to six decimal places. Returns none for numbers that are negative, too large or not finite.
    pub fn new(value: f64) -> Option<Amount> {
        let fits = value.is_finite() && (0.0..=Amount::MAX).contains(&value);
        fits.then(|| Amount((value * Amount::UNIT).round() as i64))
    }

    /// Returns a count, at most the largest amount.
    pub fn count(count: u64) -> Amount {
        Amount::new(count as f64).unwrap_or(Amount((Amount::MAX * Amount::UNIT) as i64))
    }

    pub fn to_f64(self) -> f64 {
        self.0 as f64 / Amount::UNIT
    }

    pub fn distance(self, other: Amount) -> Amount {
        Amount((self.0 - other.0).abs())
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_f64().fmt(f)
    }
}

impl Serialize for Amount {
    /// Writes whole numbers without a decimal point.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let unit = Amount::UNIT as i64;
        if self.0 % unit == 0 {
            serializer.serialize_i64(self.0 / unit)
        } else {
            serializer.serialize_f64(self.to_f64())
        }
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Amount, D::Error> {
        let value = f64::deserialize(deserializer)?;
        Amount::new(value).ok_or_else(|| serde::de::Error::custom("must be from 0 to 9000000000"))
    }
}

impl AlertSignal {
    pub const fn as_str(self) -> &'static str {
        match self {
            AlertSignal::Dead => "dead",
            AlertSignal::Due => "due",
            AlertSignal::OldestDueAge => "oldest-due-age",
            AlertSignal::FailureRate => "failure-rate",
            AlertSignal::QueueDepth => "queue-depth",
        }
    }

    /// The largest value that the signal can have; none if it has no bound. Counting stops at a bound, so a higher
    /// threshold would never be reached.
    fn max(self) -> Option<f64> {
        match self {
            AlertSignal::Dead | AlertSignal::Due => Some(OVERVIEW_TASKS_MAX as f64),
            AlertSignal::QueueDepth => Some(QUEUE_COUNTED_MAX as f64),
            AlertSignal::FailureRate => Some(1.0),
            AlertSignal::OldestDueAge => None,
        }
    }
}

impl AlertCondition {
    pub const fn as_str(self) -> &'static str {
        match self {
            AlertCondition::Above => "above",
            AlertCondition::Below => "below",
            AlertCondition::Change => "change",
        }
    }
}

impl AlertRule {
    /// Whether the rule reads past values.
    pub fn needs_window(&self) -> bool {
        self.signal == AlertSignal::FailureRate || self.condition == AlertCondition::Change
    }

    /// Checks that the members fit each other; the violation names the member.
    pub fn check(&self) -> Result<(), Violation> {
        if (self.signal == AlertSignal::QueueDepth) != self.queue.is_some() {
            let required = self.queue.is_none();
            let rule = if required { "is required for queue-depth" } else { "is only for the signal queue-depth" };
            return Err(at("queue").breaks(rule));
        }
        if self.endpoint.is_some() {
            self.check_endpoint()?;
        }
        self.check_threshold()?;
        match self.window_seconds {
            None if self.needs_window() => {
                return Err(at("windowSeconds").breaks("is required for failure-rate, and for the condition change"));
            }
            Some(_) if !self.needs_window() => {
                return Err(at("windowSeconds").breaks("is only for failure-rate, and for the condition change"));
            }
            Some(seconds) if !(ALERT_WINDOW_SECONDS_MIN..=ALERT_WINDOW_SECONDS_MAX).contains(&seconds) => {
                let rule = format!("must be from {ALERT_WINDOW_SECONDS_MIN} to {ALERT_WINDOW_SECONDS_MAX}");
                return Err(at("windowSeconds").breaks(rule));
            }
            Some(_) | None => {}
        }
        let seconds = [
            ("forSeconds", self.for_seconds),
            ("resolveAfterSeconds", self.resolve_after_seconds),
            ("cooldownSeconds", self.cooldown_seconds),
        ];
        if let Some((name, _)) = seconds.into_iter().find(|(_, seconds)| *seconds > ALERT_SECONDS_MAX) {
            return Err(at(name).breaks(format!("must be at most {ALERT_SECONDS_MAX}")));
        }
        if self.cooldown_seconds == 0 {
            return Err(at("cooldownSeconds").breaks("must be at least 1"));
        }
        if let Some(destinations) = &self.destinations {
            check_destinations(destinations)?;
        }
        self.escalation.as_ref().map_or(Ok(()), AlertEscalation::check)
    }

    fn check_endpoint(&self) -> Result<(), Violation> {
        if self.signal == AlertSignal::QueueDepth {
            return Err(at("endpointId").breaks("is not for the signal queue-depth"));
        }
        // The attempts of one endpoint have no counters: each evaluation reads them.
        let is_long = self.window_seconds.is_some_and(|seconds| seconds > ALERT_ENDPOINT_WINDOW_SECONDS_MAX);
        if self.signal == AlertSignal::FailureRate && is_long {
            let rule =
                format!("must be at most {ALERT_ENDPOINT_WINDOW_SECONDS_MAX} for the failure rate of an endpoint");
            return Err(at("windowSeconds").breaks(rule));
        }
        Ok(())
    }

    fn check_threshold(&self) -> Result<(), Violation> {
        let threshold = self.threshold.to_f64();
        match (self.signal.max(), self.condition) {
            (Some(max), AlertCondition::Above | AlertCondition::Change) if threshold >= max => {
                let signal = self.signal.as_str();
                Err(at("threshold").breaks(format!("must be less than {max}: {signal} is never larger than that")))
            }
            (_, AlertCondition::Below) if threshold <= 0.0 => {
                Err(at("threshold").breaks("must be more than 0: no signal is below 0"))
            }
            _ => Ok(()),
        }
    }
}

impl AlertEscalation {
    fn check(&self) -> Result<(), Violation> {
        let outer = || at("escalation");
        let in_range = |value: u32| (1..=ALERT_SECONDS_MAX).contains(&value);
        if self.after_seconds.is_none() && self.after_ongoing.is_none() {
            return Err(outer().member("afterSeconds").breaks("is required, or afterOngoing"));
        }
        if self.after_seconds.is_some_and(|value| !in_range(value)) {
            return Err(outer().member("afterSeconds").breaks(format!("must be from 1 to {ALERT_SECONDS_MAX}")));
        }
        if self.after_ongoing.is_some_and(|value| !(1..=1000).contains(&value)) {
            return Err(outer().member("afterOngoing").breaks("must be from 1 to 1000"));
        }
        check_destinations(&self.destinations).map_err(|violation| violation.under(outer()))
    }
}

fn check_destinations(destinations: &[Name]) -> Result<(), Violation> {
    if destinations.is_empty() || destinations.len() > ALERT_DESTINATIONS_MAX {
        return Err(at("destinations").breaks(format!("must have 1 to {ALERT_DESTINATIONS_MAX} items")));
    }
    for (index, name) in destinations.iter().enumerate() {
        if destinations.iter().take(index).any(|earlier| earlier == name) {
            return Err(at("destinations").index(index).breaks("is listed twice"));
        }
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn rule(json: &str) -> AlertRule {
        let mut whole = serde_json::json!({
            "description": "", "signal": "dead", "condition": "above", "threshold": 10, "forSeconds": 60,
            "resolveAfterSeconds": 300, "cooldownSeconds": 3600, "disabled": false,
        });
        let changes: serde_json::Map<_, _> = serde_json::from_str(json).unwrap();
        whole.as_object_mut().unwrap().extend(changes);
        serde_json::from_value(whole).unwrap()
    }

    #[track_caller]
    fn check(json: &str, want: &str) {
        let got = rule(json).check().map_or_else(|violation| violation.to_string(), |()| "fine".to_owned());
        assert_eq!(got, want, "{json}");
    }

    #[test]
    fn a_rule_names_the_member_that_breaks_it() {
        check("{}", "fine");
        check(r#"{"queue": "mail"}"#, "queue is only for the signal queue-depth");
        check(r#"{"signal": "queue-depth"}"#, "queue is required for queue-depth");
        check(r#"{"signal": "queue-depth", "queue": "mail"}"#, "fine");
        check(
            r#"{"signal": "failure-rate", "threshold": 0.5}"#,
            "windowSeconds is required for failure-rate, and for the condition change",
        );
        check(r#"{"windowSeconds": 300}"#, "windowSeconds is only for failure-rate, and for the condition change");
        check(r#"{"condition": "change", "windowSeconds": 300}"#, "fine");
        check(r#"{"condition": "change", "windowSeconds": 59}"#, "windowSeconds must be from 60 to 21600");
        let endpoint = EndpointId(crate::id::Id::MIN).to_string();
        let of = |rest: &str| format!(r#"{{"endpoint": "{endpoint}", {rest}}}"#);
        check(&of(r#""signal": "due""#), "fine");
        check(&of(r#""signal": "queue-depth", "queue": "mail""#), "endpointId is not for the signal queue-depth");
        check(
            &of(r#""signal": "failure-rate", "threshold": 0.5, "windowSeconds": 3601"#),
            "windowSeconds must be at most 3600 for the failure rate of an endpoint",
        );
        check(r#"{"cooldownSeconds": 0}"#, "cooldownSeconds must be at least 1");
        check(r#"{"forSeconds": 604801}"#, "forSeconds must be at most 604800");
        check(r#"{"destinations": []}"#, "destinations must have 1 to 20 items");
        check(r#"{"destinations": ["a", "b", "a"]}"#, "destinations[2] is listed twice");
        check(r#"{"escalation": {"destinations": ["a"]}}"#, "escalation.afterSeconds is required, or afterOngoing");
        check(
            r#"{"escalation": {"afterOngoing": 2, "destinations": []}}"#,
            "escalation.destinations must have 1 to 20 items",
        );
        check(r#"{"escalation": {"afterSeconds": 600, "destinations": ["boss"]}}"#, "fine");
    }

    #[test]
    fn a_threshold_that_no_value_reaches_is_refused() {
        check(r#"{"threshold": 9999}"#, "fine");
        check(r#"{"threshold": 10000}"#, "threshold must be less than 10000: dead is never larger than that");
        check(
            r#"{"signal": "failure-rate", "threshold": 1, "windowSeconds": 300}"#,
            "threshold must be less than 1: failure-rate is never larger than that",
        );
        check(r#"{"condition": "below", "threshold": 0}"#, "threshold must be more than 0: no signal is below 0");
        check(r#"{"signal": "oldest-due-age", "threshold": 86400}"#, "fine");
    }

    #[test]
    fn amounts_are_exact_to_six_places() {
        let text = |value| serde_json::to_string(&Amount::new(value).unwrap()).unwrap();
        assert_eq!(text(0.05), "0.05");
        assert_eq!(text(120.0), "120");
        assert_eq!(text(0.000_000_4), "0");
        assert_eq!(Amount::new(f64::NAN), None);
        assert_eq!(Amount::new(-1.0), None);
        assert!(serde_json::from_str::<Amount>("1e99").is_err());
    }
}
