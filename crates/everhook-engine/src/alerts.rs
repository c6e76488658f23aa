//! Evaluates alert rules, and pages the operators of environments.
//!
//! The core decides (`core::alert`). A step is a change of the alert with compare-and-set. The messages of its page are
//! accepted in the same transaction, so that a page is neither lost nor sent by two replicas: a step that fails leaves
//! the old state, which decides again. Only the node with the oldest session measures; see [`evaluator`].

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use everhook_core::alert::decision::{DuePage, PageKind, decide};
use everhook_core::alert::page::{AlertNews, AlertPage, PageCause, PageMessage, recipients};
use everhook_core::alert::{Alert, AlertRule, AlertSignal, Amount};
use everhook_core::fanout::Audience;
use everhook_core::id::{EndpointId, EnvironmentId, Id, MessageId};
use everhook_core::limits::ENDPOINTS_MAX;
use everhook_core::operational::{News, OPERATIONAL_APPLICATION};
use everhook_core::scope::{AppScope, Scope};
use everhook_core::time::Timestamp;
use everhook_core::traffic::overview::failure_rate;
use everhook_core::traffic::{Span, TrafficRow};
use everhook_store::backlog::OpenCounts;
use everhook_store::catalog::{Order, Replaced, Slice};
use everhook_store::delivery::Period;
use everhook_store::error::StoreError;
use everhook_store::lease::{Append, NewMessage, SessionRecord};
use everhook_store::made::Made;
use everhook_store::operational;
use everhook_store::query;
use everhook_store::resource::Changed;
use everhook_store::store::Reads;
use tracing::{info, warn};

use crate::node::Node;

/// The values of one round, each read once.
#[derive(Default)]
struct Signals {
    open: HashMap<EnvironmentId, OpenCounts>,
    traffic: HashMap<(EnvironmentId, u32), Vec<TrafficRow>>,
}

impl Node {
    /// Evaluates all alert rules at an interval until it is dropped.
    pub(crate) async fn watch_alerts(&self, interval: Duration) {
        loop {
            tokio::time::sleep(interval).await;
            if let Err(error) = self.evaluate_alerts().await {
                warn!(error = &error as &dyn std::error::Error, "could not evaluate the alert rules");
            }
        }
    }

    /// Sends a test page of an alert to all its destinations, also those of its escalation. Returns the messages.
    pub async fn test_alert(&self, scope: Scope, alert: &Alert) -> Result<Vec<PageMessage>, StoreError> {
        let (environment, now) = (scope.environment, self.clock.now());
        let mut signals = Signals::default();
        let value = self.measure(&mut signals, environment, &alert.rule, now).await?;
        let due = DuePage { kind: PageKind::Triggered, escalated: true, triggered_at: now };
        let news = self.news(alert, due, value, PageCause::Test);
        let (told, messages) = self.page(environment, &alert.rule, due, &news).await?;
        if !messages.is_empty() {
            let appended = self.store.append(Append { fast: None, messages }).await?;
            let made = Made::messages(&appended);
            self.metrics.made(made);
            self.wakeups.hint_made(made);
        }
        Ok(told)
    }

    async fn evaluate_alerts(&self) -> Result<(), StoreError> {
        let alerts = self.store.read(query::AllAlerts {}).await?;
        if alerts.is_empty() {
            return Ok(());
        }
        let sessions = self.store.read(query::Sessions { closed_within: Duration::ZERO }).await?;
        if evaluator(&sessions, self.clock.now()).is_none_or(|node| node != self.config.name.node) {
            return Ok(());
        }
        let mut signals = Signals::default();
        for (environment, alert) in alerts {
            let name = alert.name.clone();
            if let Err(error) = self.evaluate(&mut signals, environment, alert).await {
                // The next round decides again from the same state.
                warn!(error = &error as &dyn std::error::Error, "could not evaluate alert {name}");
            }
        }
        Ok(())
    }

    async fn evaluate(
        &self,
        signals: &mut Signals,
        environment: EnvironmentId,
        mut alert: Alert,
    ) -> Result<(), StoreError> {
        let now = self.clock.now();
        let value = match alert.rule.disabled {
            true => None,
            false => self.measure(signals, environment, &alert.rule, now).await?,
        };
        let (state, due) = decide(&alert.rule, &alert.state, value, now);
        if state == alert.state && due.is_none() {
            return Ok(());
        }
        let mut messages = Vec::new();
        if let Some(due) = due {
            let news = self.news(&alert, due, value, PageCause::Measured);
            let (told, new) = self.page(environment, &alert.rule, due, &news).await?;
            messages = new;
            let (kind, escalated) = (due.kind, due.escalated);
            alert.remember(AlertPage { kind, at: now, value, escalated, messages: told });
        }
        alert.state = state;
        let name = alert.name.clone();
        let told = messages.len();
        let replaced = self.replace(Scope::of(environment), Changed { record: alert, key: None, messages }).await;
        if due.is_some() && replaced.is_err() {
            self.metrics.paged(None);
        }
        match replaced? {
            Replaced::Done(_) => {
                if let Some(due) = due {
                    self.metrics.paged(Some(told));
                    info!(endpoints = told, "alert {name} is {}: paged {told} endpoints", due.kind.as_str());
                }
            }
            // Another node took the step, or an operator changed the rule.
            Replaced::Stale | Replaced::Repeated | Replaced::Taken | Replaced::KeyReused => {}
        }
        Ok(())
    }

    fn news(&self, alert: &Alert, due: DuePage, value: Option<Amount>, cause: PageCause) -> News {
        let news = AlertNews::new(alert, due, value, cause, self.config.public_url.as_deref());
        News::Alert(due.kind.event(), news)
    }

    /// Returns the endpoints that get a page, and the message to each.
    async fn page(
        &self,
        environment: EnvironmentId,
        rule: &AlertRule,
        due: DuePage,
        news: &News,
    ) -> Result<(Vec<PageMessage>, Vec<NewMessage>), StoreError> {
        let scope = AppScope::of(environment, OPERATIONAL_APPLICATION);
        let slice = Slice { after: None, order: Order::Ascending, limit: ENDPOINTS_MAX };
        let endpoints = self.store.read(query::Endpoints { scope, slice }).await?;
        let message = |endpoint_id| {
            let msg_id = MessageId(self.new_id());
            let message = operational::message(environment, news, msg_id);
            (PageMessage { endpoint_id, msg_id }, NewMessage { audience: Audience::Only(endpoint_id), ..message })
        };
        Ok(recipients(rule, due, &endpoints).into_iter().map(message).unzip())
    }

    /// Returns the value of a signal; none without a value.
    async fn measure(
        &self,
        signals: &mut Signals,
        environment: EnvironmentId,
        rule: &AlertRule,
        now: Timestamp,
    ) -> Result<Option<Amount>, StoreError> {
        let scope = Scope::of(environment);
        if let Some(endpoint) = rule.endpoint {
            return self.measure_endpoint(scope, endpoint, rule, now).await;
        }
        Ok(match rule.signal {
            AlertSignal::Dead => Some(Amount::count(self.open(signals, scope).await?.dead)),
            AlertSignal::Due => Some(Amount::count(self.open(signals, scope).await?.due)),
            AlertSignal::OldestDueAge => {
                let oldest = self.open(signals, scope).await?.oldest_due.unwrap_or_default();
                Amount::new(oldest.as_secs_f64())
            }
            AlertSignal::FailureRate => {
                let window = rule.window_seconds.unwrap_or_default();
                let rows = self.traffic(signals, scope, window, now).await?;
                failure_rate(rows).and_then(Amount::new)
            }
            AlertSignal::QueueDepth => match &rule.queue {
                Some(name) if self.has_jobs() => {
                    let stats = self.store.read(query::CountQueue { scope, name: name.clone() }).await?;
                    Some(Amount::count(stats.pending))
                }
                Some(_) | None => None,
            },
        })
    }

    /// Returns the value of a signal for one endpoint; none without a value.
    async fn measure_endpoint(
        &self,
        scope: Scope,
        endpoint: EndpointId,
        rule: &AlertRule,
        now: Timestamp,
    ) -> Result<Option<Amount>, StoreError> {
        if rule.signal == AlertSignal::FailureRate {
            let since = now.minus(Duration::from_secs(rule.window_seconds.unwrap_or_default().into()));
            let period = Period { since, until: now };
            let counts = self.store.read(query::CountEndpoint { scope, endpoint, period }).await?;
            let all = counts.succeeded + counts.failed;
            return Ok((all > 0).then(|| counts.failed as f64 / all as f64).and_then(Amount::new));
        }
        let counts = self.store.read(query::CountLane { scope, endpoint }).await?;
        Ok(match rule.signal {
            AlertSignal::Dead => Some(Amount::count(counts.dead)),
            AlertSignal::Due => Some(Amount::count(counts.due)),
            AlertSignal::OldestDueAge => Amount::new(counts.oldest_due.unwrap_or_default().as_secs_f64()),
            AlertSignal::FailureRate | AlertSignal::QueueDepth => None,
        })
    }

    async fn open(&self, signals: &mut Signals, scope: Scope) -> Result<OpenCounts, StoreError> {
        if let Some(known) = signals.open.get(&scope.environment) {
            return Ok(*known);
        }
        let open = self.store.read(query::CountOpen { scope }).await?;
        signals.open.insert(scope.environment, open);
        Ok(open)
    }

    /// Reads the traffic of a window, with the counts of this node that are not yet written.
    async fn traffic<'s>(
        &self,
        signals: &'s mut Signals,
        scope: Scope,
        window: u32,
        now: Timestamp,
    ) -> Result<&'s [TrafficRow], StoreError> {
        let environment = scope.environment;
        Ok(match signals.traffic.entry((environment, window)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let since = Span::Minute.start(now.minus(Duration::from_secs(window.into())));
                let mut rows = self.store.read(query::Traffic { scope, span: Span::Minute, since }).await?;
                let counts = self.traffic.fresh(environment);
                let (span, start) = (Span::Minute, Span::Minute.start(now));
                rows.push(TrafficRow { environment, span, start, source: Id::MIN, counts });
                place.insert(rows)
            }
        })
    }
}

/// Returns the node that evaluates: the one with the oldest session among those that serve the API. The sessions are
/// the leases, so that another node follows when this one is gone. While two nodes disagree, compare-and-set still lets
/// each step happen once.
fn evaluator(sessions: &[SessionRecord], now: Timestamp) -> Option<&str> {
    let is_alive = |session: &&SessionRecord| {
        session.closed_at.is_none() && session.role.accepts() && now.since(session.renewed_at) < session.lease
    };
    let oldest = sessions.iter().filter(is_alive).min_by_key(|session| (session.started_at, session.id))?;
    Some(&oldest.node)
}

#[cfg(test)]
mod tests {
    use everhook_core::id::{Id, SessionId};
    use everhook_core::role::Role;

    use super::*;

    fn session(node: &str, role: Role, started: u64, renewed: u64) -> SessionRecord {
        let at = |second: u64| Timestamp::default().plus(Duration::from_secs(second));
        SessionRecord {
            id: SessionId(Id::MIN),
            node: node.to_owned(),
            role,
            version: String::new(),
            lease: Duration::from_secs(20),
            started_at: at(started),
            renewed_at: at(renewed),
            closed_at: None,
            held: 0,
        }
    }

    #[test]
    fn the_oldest_live_node_with_the_api_evaluates() {
        let now = Timestamp::default().plus(Duration::from_secs(100));
        let mut sessions = vec![
            session("worker", Role::Worker, 1, 100),
            session("crashed", Role::All, 2, 80),
            session("closed", Role::All, 3, 100),
            session("second", Role::Api, 5, 99),
            session("first", Role::All, 4, 81),
        ];
        sessions[2].closed_at = Some(now);
        assert_eq!(evaluator(&sessions, now), Some("first"));
        assert_eq!(evaluator(&sessions[..3], now), None);
    }
}
