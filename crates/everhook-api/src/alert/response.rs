//! The form of an alert in responses: its rule, its state and its pages.

use everhook_core::alert::decision::{AlertPhase, PageKind};
use everhook_core::alert::page::{AlertPage, PageMessage};
use everhook_core::alert::{Alert, AlertCondition, AlertSignal, Amount};
use everhook_core::id::{AlertId, EndpointId, MessageId};
use everhook_core::name::Name;
use everhook_core::time::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use crate::alert::request::{AlertConditionForm, AlertEscalationForm, AlertSignalForm};

/// An alert with its state.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AlertOut {
    #[schema(value_type = String, example = "alert_1srOrx2ZWZBpBUvZwXKQmoEYga2")]
    id: AlertId,
    #[schema(value_type = String)]
    name: Name,
    description: String,
    #[schema(value_type = AlertSignalForm)]
    signal: AlertSignal,
    /// The queue of the signal `queue-depth`.
    #[schema(value_type = Option<String>)]
    queue: Option<Name>,
    /// The endpoint whose deliveries are watched. Null: all of the environment.
    #[schema(value_type = Option<String>)]
    endpoint_id: Option<EndpointId>,
    #[schema(value_type = AlertConditionForm)]
    condition: AlertCondition,
    #[schema(value_type = f64)]
    threshold: Amount,
    window_seconds: Option<u32>,
    for_seconds: u32,
    resolve_after_seconds: u32,
    cooldown_seconds: u32,
    /// Ids or uids of operational endpoints. Null: every one that wants the event.
    #[schema(value_type = Option<Vec<String>>)]
    destinations: Option<Vec<Name>>,
    escalation: Option<AlertEscalationForm>,
    disabled: bool,
    /// `quiet`; `pending`, while the condition holds for less than `forSeconds`; `triggered`; or `disabled`.
    #[schema(value_type = String, pattern = "^(quiet|pending|triggered|disabled)$")]
    state: &'static str,
    /// The time at which the alert became pending or was triggered.
    #[schema(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// The time since which the condition of a triggered alert does not hold.
    #[schema(value_type = Option<String>, format = DateTime)]
    clear_since: Option<Timestamp>,
    /// Whether pages also go to the destinations of the escalation.
    escalated: bool,
    /// The latest page.
    last_page: Option<AlertPageOut>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// The latest change of the rule or of its state.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

/// A page of an alert.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AlertPageOut {
    /// `triggered`, `ongoing` or `resolved`.
    #[schema(value_type = String, pattern = "^(triggered|ongoing|resolved)$", example = "triggered")]
    kind: PageKind,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// The value of the signal; null if it had none.
    #[schema(value_type = Option<f64>)]
    value: Option<Amount>,
    /// Whether the page also went to the destinations of the escalation.
    escalated: bool,
    /// The message to each endpoint; empty if the rule reached none.
    messages: Vec<AlertMessageOut>,
}

/// The message of a page to one operational endpoint. `GET /api/v1/delivery` shows its delivery.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AlertMessageOut {
    #[schema(value_type = String)]
    endpoint_id: EndpointId,
    #[schema(value_type = String)]
    msg_id: MessageId,
}

/// The latest pages of an alert, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AlertHistoryOut {
    data: Vec<AlertPageOut>,
}

/// The messages of a test page.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AlertTestOut {
    messages: Vec<AlertMessageOut>,
}

impl From<Alert> for AlertOut {
    fn from(alert: Alert) -> AlertOut {
        let Alert { rule, state, pages, .. } = alert;
        let (since, clear_since, escalated) = match state.phase {
            AlertPhase::Quiet => (None, None, false),
            AlertPhase::Pending { since } => (Some(since), None, false),
            AlertPhase::Triggered { since, clear_since, escalated, .. } => (Some(since), clear_since, escalated),
        };
        AlertOut {
            id: alert.id,
            name: alert.name,
            description: rule.description,
            signal: rule.signal,
            queue: rule.queue,
            endpoint_id: rule.endpoint,
            condition: rule.condition,
            threshold: rule.threshold,
            window_seconds: rule.window_seconds,
            for_seconds: rule.for_seconds,
            resolve_after_seconds: rule.resolve_after_seconds,
            cooldown_seconds: rule.cooldown_seconds,
            destinations: rule.destinations,
            escalation: rule.escalation.as_ref().map(AlertEscalationForm::from),
            disabled: rule.disabled,
            state: if rule.disabled { "disabled" } else { state.phase.as_str() },
            since,
            clear_since,
            escalated,
            last_page: pages.into_iter().next().map(AlertPageOut::from),
            created_at: alert.created_at,
            updated_at: alert.updated_at,
        }
    }
}

impl From<AlertPage> for AlertPageOut {
    fn from(AlertPage { kind, at, value, escalated, messages }: AlertPage) -> AlertPageOut {
        AlertPageOut { kind, at, value, escalated, messages: shown(&messages) }
    }
}

impl AlertHistoryOut {
    pub(crate) fn of(alert: Alert) -> AlertHistoryOut {
        AlertHistoryOut { data: alert.pages.into_iter().map(AlertPageOut::from).collect() }
    }
}

impl AlertTestOut {
    pub(crate) fn of(messages: &[PageMessage]) -> AlertTestOut {
        AlertTestOut { messages: shown(messages) }
    }
}

fn shown(messages: &[PageMessage]) -> Vec<AlertMessageOut> {
    let show = |&PageMessage { endpoint_id, msg_id }: &PageMessage| AlertMessageOut { endpoint_id, msg_id };
    messages.iter().map(show).collect()
}
