//! The form of an alert in requests, for creation and change.

use everhook_core::alert::decision::AlertState;
use everhook_core::alert::{Alert, AlertCondition, AlertEscalation, AlertRule, AlertSignal, Amount};
use everhook_core::id::{AlertId, EndpointId};
use everhook_core::limits::{ALERT_DESCRIPTION_CHARS_MAX, ALERT_DESTINATIONS_MAX};
use everhook_core::name::Name;
use everhook_core::time::Timestamp;
use everhook_core::violation::{Field, Violation, at};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::input;
use crate::limits::{ALERT_COOLDOWN_SECONDS, ALERT_FOR_SECONDS, ALERT_RESOLVE_SECONDS};
use crate::merge::Form;

/// An alert to create or to replace, or a change of an alert. In a change, absent members keep their values.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AlertIn {
    /// The name, unique in the environment. Required for creation, and cannot be changed.
    #[schema(max_length = 256, pattern = "^[a-zA-Z0-9\\-_.]+$", example = "dead-letters")]
    name: Option<String>,
    /// A text for the reader of a page, such as the steps to take.
    #[schema(max_length = 1000)]
    description: Option<String>,
    /// The number to watch. Required.
    #[schema(value_type = Option<AlertSignalForm>)]
    signal: Option<AlertSignal>,
    /// The queue of the signal `queue-depth`.
    #[schema(max_length = 256, pattern = "^[a-zA-Z0-9\\-_.]+$")]
    queue: Option<String>,
    /// The id of an endpoint: the rule watches the deliveries to it instead of the whole environment. Not for
    /// `queue-depth`. The window of its failure rate is at most an hour.
    #[schema(value_type = Option<String>, example = "ep_1srOrx2ZWZBpBUvZwXKQmoEYga2")]
    endpoint_id: Option<EndpointId>,
    /// Default: `above`.
    #[schema(value_type = Option<AlertConditionForm>)]
    condition: Option<AlertCondition>,
    /// The limit for the condition. Required. Tasks are counted up to 10000, and jobs of a queue up to 100000.
    #[schema(value_type = Option<f64>, minimum = 0, maximum = 9_000_000_000_i64, example = 100)]
    threshold: Option<Amount>,
    /// The time over which a failure rate or a change is measured. Required for these, and refused for others.
    #[schema(minimum = 60, maximum = 21_600)]
    window_seconds: Option<u32>,
    /// The condition must hold this long before the first page. Default: 60.
    #[schema(maximum = 604_800)]
    for_seconds: Option<u32>,
    /// The condition must be gone this long before the alert is resolved. Default: 300.
    #[schema(maximum = 604_800)]
    resolve_after_seconds: Option<u32>,
    /// The time between two pages while the alert is triggered. Default: 3600.
    #[schema(minimum = 1, maximum = 604_800)]
    cooldown_seconds: Option<u32>,
    /// Ids or uids of the operational endpoints that get the pages, even if their event types exclude these events.
    /// Default: all that want the event.
    #[schema(min_items = 1, max_items = 20)]
    destinations: Option<Vec<String>>,
    /// Further destinations while the alert stays triggered.
    escalation: Option<AlertEscalationForm>,
    /// If true, the rule is not evaluated. Disabling a triggered alert sends no page.
    disabled: Option<bool>,
}

/// Further destinations of an alert that stays triggered. `afterSeconds` or `afterOngoing` is required.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = AlertEscalation)]
pub(crate) struct AlertEscalationForm {
    /// Seconds after the alert was triggered. A page is sent at that time, even during the cooldown.
    #[schema(minimum = 1, maximum = 604_800)]
    after_seconds: Option<u32>,
    /// The number of `alert.ongoing` pages, the last of which also goes to these destinations.
    #[schema(minimum = 1, maximum = 1000)]
    after_ongoing: Option<u32>,
    /// Ids or uids of operational endpoints. Later pages and the end of the alert go to them, too.
    #[schema(min_items = 1, max_items = 20)]
    destinations: Vec<String>,
}

/// The number that an alert watches.
#[derive(ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = AlertSignal)]
#[allow(dead_code, reason = "describes the signal of the core")]
pub(crate) enum AlertSignalForm {
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

/// How the value is compared with the threshold.
#[derive(ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = AlertCondition)]
#[allow(dead_code, reason = "describes the condition of the core")]
pub(crate) enum AlertConditionForm {
    Above,
    Below,
    /// The value differs by more than the threshold from an earlier value in the window.
    Change,
}

impl Form for AlertIn {
    type Record = Alert;

    fn of(alert: &Alert) -> AlertIn {
        let rule = &alert.rule;
        let texts = |names: &[Name]| names.iter().map(Name::to_string).collect::<Vec<_>>();
        AlertIn {
            name: Some(alert.name.to_string()),
            description: Some(rule.description.clone()),
            signal: Some(rule.signal),
            queue: rule.queue.as_ref().map(Name::to_string),
            endpoint_id: rule.endpoint,
            condition: Some(rule.condition),
            threshold: Some(rule.threshold),
            window_seconds: rule.window_seconds,
            for_seconds: Some(rule.for_seconds),
            resolve_after_seconds: Some(rule.resolve_after_seconds),
            cooldown_seconds: Some(rule.cooldown_seconds),
            destinations: rule.destinations.as_deref().map(texts),
            escalation: rule.escalation.as_ref().map(AlertEscalationForm::from),
            disabled: Some(rule.disabled),
        }
    }
}

impl AlertIn {
    /// Takes the name of the path. The body may repeat it.
    pub(crate) fn named(self, name: &Name) -> Result<AlertIn, Violation> {
        match &self.name {
            Some(other) if other != name.as_str() => Err(at("name").breaks("cannot be changed")),
            Some(_) | None => Ok(AlertIn { name: Some(name.to_string()), ..self }),
        }
    }

    /// The destinations of this form, each with its path.
    pub(crate) fn destinations(&self) -> impl Iterator<Item = (Field, &str)> {
        let own = self.destinations.iter().flatten().enumerate();
        let own = own.map(|(index, name)| (at("destinations").index(index), name.as_str()));
        let further = self.escalation.iter().flat_map(|escalation| &escalation.destinations).enumerate();
        let path = |index| at("escalation").member("destinations").index(index);
        own.chain(further.map(move |(index, name)| (path(index), name.as_str()))).take(2 * ALERT_DESTINATIONS_MAX)
    }

    pub(crate) const fn endpoint(&self) -> Option<EndpointId> {
        self.endpoint_id
    }

    /// Builds a new alert, or the replacement of `old`, which keeps its state and its pages.
    pub(crate) fn check(self, id: AlertId, old: Option<Alert>) -> Result<Alert, Violation> {
        let name = self.name.clone().ok_or_else(|| at("name").breaks("is required"))?;
        let name = input::own_name("name", name)?;
        let rule = self.rule()?;
        rule.check()?;
        let Some(old) = old else {
            return Ok(Alert {
                id,
                name,
                rule,
                state: AlertState::default(),
                pages: Vec::new(),
                created_at: Timestamp::default(),
                updated_at: Timestamp::default(),
                revision: 0,
            });
        };
        // Past values belong to the signal that was measured.
        let measured = |rule: &AlertRule| (rule.signal, rule.queue.clone(), rule.endpoint);
        let is_same = measured(&old.rule) == measured(&rule);
        let samples = if is_same { old.state.samples } else { Vec::new() };
        let state = if rule.disabled { AlertState::default() } else { AlertState { samples, ..old.state } };
        Ok(Alert { rule, state, ..old })
    }

    fn rule(self) -> Result<AlertRule, Violation> {
        let names = |list| input::some_names("destinations", list, ALERT_DESTINATIONS_MAX);
        let escalation = self.escalation.map(|form| {
            let destinations = names(Some(form.destinations)).map_err(|bad| bad.under(at("escalation")))?;
            let (after_seconds, after_ongoing) = (form.after_seconds, form.after_ongoing);
            Ok(AlertEscalation { after_seconds, after_ongoing, destinations: destinations.unwrap_or_default() })
        });
        Ok(AlertRule {
            description: input::text("description", self.description.unwrap_or_default(), ALERT_DESCRIPTION_CHARS_MAX)?,
            signal: self.signal.ok_or_else(|| at("signal").breaks("is required"))?,
            queue: self.queue.map(|queue| at("queue").check(Name::try_from(queue))).transpose()?,
            endpoint: self.endpoint_id,
            condition: self.condition.unwrap_or(AlertCondition::Above),
            threshold: self.threshold.ok_or_else(|| at("threshold").breaks("is required"))?,
            window_seconds: self.window_seconds,
            for_seconds: self.for_seconds.unwrap_or(ALERT_FOR_SECONDS),
            resolve_after_seconds: self.resolve_after_seconds.unwrap_or(ALERT_RESOLVE_SECONDS),
            cooldown_seconds: self.cooldown_seconds.unwrap_or(ALERT_COOLDOWN_SECONDS),
            destinations: names(self.destinations)?,
            escalation: escalation.transpose()?,
            disabled: self.disabled.unwrap_or_default(),
        })
    }
}

impl From<&AlertEscalation> for AlertEscalationForm {
    fn from(escalation: &AlertEscalation) -> AlertEscalationForm {
        AlertEscalationForm {
            after_seconds: escalation.after_seconds,
            after_ongoing: escalation.after_ongoing,
            destinations: escalation.destinations.iter().map(Name::to_string).collect(),
        }
    }
}
