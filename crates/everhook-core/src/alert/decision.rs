//! The state of an alert, and its next step.
//!
//! Pure. A condition that holds makes the alert *pending*, and after `forSeconds` *triggered*. A triggered alert pages
//! again after each cooldown, and is resolved after its condition was gone for `resolveAfterSeconds`. A value that
//! crosses the threshold to and fro therefore causes one page, not many. The caller stores the new state together with
//! the page: where that fails, the old state decides again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::alert::{AlertCondition, AlertRule, Amount};
use crate::limits::ALERT_SAMPLES_MAX;
use crate::time::Timestamp;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AlertState {
    pub phase: AlertPhase,
    /// Past values of a rule with the condition `change`, oldest first; at most one beyond `ALERT_SAMPLES_MAX`.
    #[serde(default)]
    pub samples: Vec<AlertSample>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "name")]
pub enum AlertPhase {
    #[default]
    Quiet,
    /// The condition holds, but not for long enough.
    Pending { since: Timestamp },
    Triggered {
        since: Timestamp,
        /// The time since which the condition does not hold any more.
        clear_since: Option<Timestamp>,
        paged_at: Timestamp,
        /// The number of `alert.ongoing` pages.
        ongoing: u32,
        /// Whether pages also go to the destinations of the escalation.
        escalated: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertSample {
    pub at: Timestamp,
    pub value: Amount,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PageKind {
    Triggered,
    Ongoing,
    Resolved,
}

impl PageKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            PageKind::Triggered => "triggered",
            PageKind::Ongoing => "ongoing",
            PageKind::Resolved => "resolved",
        }
    }
}

/// A page that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DuePage {
    pub kind: PageKind,
    pub escalated: bool,
    /// The time at which the alert was triggered.
    pub triggered_at: Timestamp,
}

impl AlertPhase {
    /// The name of the phase in answers and tables.
    pub const fn as_str(&self) -> &'static str {
        match self {
            AlertPhase::Quiet => "quiet",
            AlertPhase::Pending { .. } => "pending",
            AlertPhase::Triggered { .. } => "triggered",
        }
    }
}

/// Returns the state after a measurement, and the page that is due. A signal without a value, such as the failure rate
/// without attempts, fulfils no condition.
pub fn decide(
    rule: &AlertRule,
    state: &AlertState,
    value: Option<Amount>,
    now: Timestamp,
) -> (AlertState, Option<DuePage>) {
    if rule.disabled {
        return (AlertState::default(), None);
    }
    let samples = sampled(rule, &state.samples, value, now);
    let (phase, page) = next_phase(rule, &state.phase, holds(rule, &samples, value), now);
    (AlertState { phase, samples }, page)
}

fn holds(rule: &AlertRule, samples: &[AlertSample], value: Option<Amount>) -> bool {
    let Some(value) = value else { return false };
    match rule.condition {
        AlertCondition::Above => value > rule.threshold,
        AlertCondition::Below => value < rule.threshold,
        AlertCondition::Change => samples.iter().any(|sample| value.distance(sample.value) > rule.threshold),
    }
}

/// Returns the past values in the window. A value is added when the last one is old enough, so that most evaluations
/// write nothing.
fn sampled(rule: &AlertRule, old: &[AlertSample], value: Option<Amount>, now: Timestamp) -> Vec<AlertSample> {
    let (AlertCondition::Change, Some(window)) = (rule.condition, rule.window_seconds) else { return Vec::new() };
    let window = Duration::from_secs(window.into());
    let mut samples: Vec<_> = old.iter().copied().filter(|sample| now.since(sample.at) <= window).collect();
    let step = window / ALERT_SAMPLES_MAX;
    if let Some(value) = value
        && samples.last().is_none_or(|last| now.since(last.at) >= step)
    {
        samples.push(AlertSample { at: now, value });
    }
    samples
}

fn next_phase(rule: &AlertRule, phase: &AlertPhase, holds: bool, now: Timestamp) -> (AlertPhase, Option<DuePage>) {
    match *phase {
        AlertPhase::Quiet if holds => pending(rule, now, now),
        AlertPhase::Pending { since } if holds => pending(rule, since, now),
        AlertPhase::Quiet | AlertPhase::Pending { .. } => (AlertPhase::Quiet, None),
        AlertPhase::Triggered { since, paged_at, ongoing, escalated, .. } if holds => {
            let still = AlertPhase::Triggered { since, clear_since: None, paged_at, ongoing, escalated };
            still_triggered(rule, still, now)
        }
        AlertPhase::Triggered { since, clear_since, paged_at, ongoing, escalated } => {
            let clear = clear_since.unwrap_or(now);
            if now.since(clear) >= seconds(rule.resolve_after_seconds) {
                let page = DuePage { kind: PageKind::Resolved, escalated, triggered_at: since };
                return (AlertPhase::Quiet, Some(page));
            }
            (AlertPhase::Triggered { since, clear_since: Some(clear), paged_at, ongoing, escalated }, None)
        }
    }
}

fn pending(rule: &AlertRule, since: Timestamp, now: Timestamp) -> (AlertPhase, Option<DuePage>) {
    if now.since(since) < seconds(rule.for_seconds) {
        return (AlertPhase::Pending { since }, None);
    }
    let phase = AlertPhase::Triggered { since: now, clear_since: None, paged_at: now, ongoing: 0, escalated: false };
    (phase, Some(DuePage { kind: PageKind::Triggered, escalated: false, triggered_at: now }))
}

fn still_triggered(rule: &AlertRule, phase: AlertPhase, now: Timestamp) -> (AlertPhase, Option<DuePage>) {
    let AlertPhase::Triggered { since, paged_at, ongoing, escalated, .. } = phase else { return (phase, None) };
    let escalation = rule.escalation.as_ref();
    let by_time = escalation.and_then(|escalation| escalation.after_seconds);
    let is_late = by_time.is_some_and(|after| now.since(since) >= seconds(after));
    // The time of an escalation does not wait for the cooldown: it is there to reach more people soon.
    let is_due = now.since(paged_at) >= seconds(rule.cooldown_seconds) || (is_late && !escalated);
    if !is_due {
        return (phase, None);
    }
    let ongoing = ongoing.saturating_add(1);
    let by_count = escalation.and_then(|escalation| escalation.after_ongoing).is_some_and(|after| ongoing >= after);
    let escalated = escalation.is_some() && (escalated || is_late || by_count);
    let phase = AlertPhase::Triggered { since, clear_since: None, paged_at: now, ongoing, escalated };
    (phase, Some(DuePage { kind: PageKind::Ongoing, escalated, triggered_at: since }))
}

fn seconds(seconds: u32) -> Duration {
    Duration::from_secs(seconds.into())
}

#[cfg(test)]
mod tests;
