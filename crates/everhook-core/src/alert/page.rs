//! A page: one message to each operational endpoint that a rule names.
//!
//! Pure. Endpoints that a rule names get the page whatever events they want. A rule without destinations reaches the
//! endpoints that want the event.

use serde::{Deserialize, Serialize};

use crate::alert::decision::{DuePage, PageKind};
use crate::alert::{Alert, AlertCondition, AlertRule, AlertSignal, Amount};
use crate::endpoint::Endpoint;
use crate::fanout;
use crate::id::{AlertId, EndpointId, MessageId};
use crate::limits::ALERT_PAGES_KEPT;
use crate::name::Name;
use crate::operational::OperationalEvent;
use crate::time::Timestamp;

/// A page in the history of an alert.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AlertPage {
    pub kind: PageKind,
    pub at: Timestamp,
    /// The value of the signal; none without a value.
    pub value: Option<Amount>,
    pub escalated: bool,
    /// Empty if the rule reached no endpoint.
    pub messages: Vec<PageMessage>,
}

/// The message of a page to one operational endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PageMessage {
    pub endpoint_id: EndpointId,
    pub msg_id: MessageId,
}

/// The data of an event about an alert.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AlertNews {
    /// One sentence for people.
    pub title: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    pub alert_id: AlertId,
    pub alert: Name,
    pub signal: AlertSignal,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Name>,
    /// The endpoint of the rule, if it watches one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint_id: Option<EndpointId>,
    pub condition: AlertCondition,
    pub threshold: Amount,
    pub value: Option<Amount>,
    pub triggered_at: Timestamp,
    pub escalated: bool,
    /// Whether an operator asked for the page, to try the destinations.
    pub test: bool,
    /// The alert in the dashboard, if the server has a public URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

/// How a page came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageCause {
    Measured,
    /// An operator tries the destinations.
    Test,
}

impl PageKind {
    pub const fn event(self) -> OperationalEvent {
        match self {
            PageKind::Triggered => OperationalEvent::AlertTriggered,
            PageKind::Ongoing => OperationalEvent::AlertOngoing,
            PageKind::Resolved => OperationalEvent::AlertResolved,
        }
    }
}

impl AlertNews {
    pub fn new(
        alert: &Alert,
        due: DuePage,
        value: Option<Amount>,
        cause: PageCause,
        public_url: Option<&str>,
    ) -> AlertNews {
        let rule = &alert.rule;
        let test = cause == PageCause::Test;
        let begin = if test { "Test: " } else { "" };
        AlertNews {
            title: format!("{begin}{} is {}: {}", alert.name, due.kind.as_str(), sentence(rule, value)),
            description: rule.description.clone(),
            alert_id: alert.id,
            alert: alert.name.clone(),
            signal: rule.signal,
            queue: rule.queue.clone(),
            endpoint_id: rule.endpoint,
            condition: rule.condition,
            threshold: rule.threshold,
            value,
            triggered_at: due.triggered_at,
            escalated: due.escalated,
            test,
            link: public_url.map(|url| format!("{}/alerts/{}", url.trim_end_matches('/'), alert.name)),
        }
    }
}

/// Names the value of a signal and the limit.
fn sentence(rule: &AlertRule, value: Option<Amount>) -> String {
    let what = match (rule.signal, &rule.queue) {
        (AlertSignal::Dead, _) => "dead tasks".to_owned(),
        (AlertSignal::Due, _) => "due tasks".to_owned(),
        (AlertSignal::OldestDueAge, _) => "seconds of the oldest due task".to_owned(),
        (AlertSignal::FailureRate, _) => "failure rate".to_owned(),
        (AlertSignal::QueueDepth, Some(queue)) => format!("waiting jobs in {queue}"),
        (AlertSignal::QueueDepth, None) => "waiting jobs".to_owned(),
    };
    let what = rule.endpoint.map_or(what.clone(), |endpoint| format!("{what} of {endpoint}"));
    let value = value.map_or_else(|| "unknown".to_owned(), |value| value.to_string());
    let limit = match (rule.condition, rule.window_seconds) {
        (AlertCondition::Change, Some(window)) => format!("change of {} in {window} s", rule.threshold),
        (condition, _) => format!("{} {}", condition.as_str(), rule.threshold),
    };
    format!("{what} {value} ({limit})")
}

/// Returns the operational endpoints that get a page, each once.
pub fn recipients(rule: &AlertRule, due: DuePage, endpoints: &[Endpoint]) -> Vec<EndpointId> {
    let event_type = due.kind.event().event_type();
    let is_named = |endpoint: &Endpoint, names: &[Name]| {
        let id = endpoint.id.to_string();
        names.iter().any(|name| name.as_str() == id || endpoint.uid.as_ref() == Some(name))
    };
    let escalation = rule.escalation.as_ref().filter(|_| due.escalated);
    let gets_it = |endpoint: &&Endpoint| {
        let by_rule = match &rule.destinations {
            Some(names) => is_named(endpoint, names),
            None => fanout::wants(endpoint, &event_type, &[]),
        };
        let by_escalation = escalation.is_some_and(|escalation| is_named(endpoint, &escalation.destinations));
        endpoint.accepts() && (by_rule || by_escalation)
    };
    endpoints.iter().filter(gets_it).map(|endpoint| endpoint.id).collect()
}

impl Alert {
    /// Adds a page to the history, and drops the oldest one of a full history.
    pub fn remember(&mut self, page: AlertPage) {
        self.pages.insert(0, page);
        self.pages.truncate(ALERT_PAGES_KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alert::decision::AlertState;
    use crate::alert::tests::rule;
    use crate::fanout::tests::endpoint;
    use crate::id::Id;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn due(kind: PageKind, escalated: bool) -> DuePage {
        DuePage { kind, escalated, triggered_at: NOW }
    }

    fn named(uid: &str, types: Option<&str>) -> Endpoint {
        let id = EndpointId(Id::derived(&[uid.as_bytes()]));
        Endpoint { id, uid: Some(uid.parse().unwrap()), ..endpoint(types, None, None) }
    }

    #[track_caller]
    fn check(json: &str, escalated: bool, want: &str) {
        let endpoints = [named("all", None), named("ops", Some("alert.*")), named("other", Some("endpoint.disabled"))];
        let got = recipients(&rule(json), due(PageKind::Ongoing, escalated), &endpoints);
        let uid = |id: &EndpointId| {
            let found = endpoints.iter().find(|endpoint| endpoint.id == *id);
            found.and_then(|endpoint| endpoint.uid.clone()).unwrap().to_string()
        };
        assert_eq!(got.iter().map(uid).collect::<Vec<_>>().join(" "), want, "{json}");
    }

    #[test]
    fn a_page_goes_to_the_named_endpoints_or_to_all_that_want_it() {
        check("{}", false, "all ops");
        check(r#"{"destinations": ["other"]}"#, false, "other");
        let id = named("ops", None).id;
        check(&format!(r#"{{"destinations": ["{id}", "gone"]}}"#), false, "ops");
        let escalating =
            r#"{"destinations": ["ops"], "escalation": {"afterOngoing": 1, "destinations": ["other", "ops"]}}"#;
        check(escalating, false, "ops");
        check(escalating, true, "ops other");
    }

    #[test]
    fn a_page_says_what_is_wrong_and_where_to_look() {
        let alert = Alert {
            id: AlertId(Id::MIN),
            name: "dead-letters".parse().unwrap(),
            rule: rule("{}"),
            state: AlertState::default(),
            pages: Vec::new(),
            created_at: NOW,
            updated_at: NOW,
            revision: 1,
        };
        let news = |kind, cause| {
            let value = Amount::new(12.0);
            AlertNews::new(&alert, due(kind, false), value, cause, Some("https://hooks.example.com/"))
        };
        let measured = news(PageKind::Triggered, PageCause::Measured);
        assert_eq!(measured.title, "dead-letters is triggered: dead tasks 12 (above 10)");
        assert_eq!(measured.link.as_deref(), Some("https://hooks.example.com/alerts/dead-letters"));
        let test = news(PageKind::Resolved, PageCause::Test);
        assert_eq!(test.title, "Test: dead-letters is resolved: dead tasks 12 (above 10)");
    }
}
