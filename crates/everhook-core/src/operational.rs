//! Operational events: news about an environment's endpoints, deliveries and alerts, for its operator.
//!
//! Pure. An event is a message of a hidden application, so that storage, delivery, retries and signatures are those of
//! every other message. The stores append it in the transaction of the change that it reports. Deliveries of the hidden
//! application cause no events, because each of these could cause the next one.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::alert::page::AlertNews;
use crate::endpoint::{Endpoint, EndpointState};
use crate::id::{ApplicationId, AttemptId, BackgroundTaskId, EndpointId, Id, MessageId};
use crate::name::Name;
use crate::time::Timestamp;

/// The application that owns the operational endpoints of its environment. It has a lane group but no resource, so that
/// no list shows it and no path finds it.
pub const OPERATIONAL_APPLICATION: ApplicationId = ApplicationId(Id::from_bytes(*b"operational-webhooks"));

/// The number of failed tries after which a delivery is reported as failing.
pub const FAILING_TRIES: u32 = 4;

macro_rules! events {
    ($($name:ident = $text:literal,)*) => {
        /// A kind of event, which is also the event type of its message.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum OperationalEvent {
            $($name,)*
        }

        impl OperationalEvent {
            pub const ALL: &[OperationalEvent] = &[$(OperationalEvent::$name,)*];

            pub const fn as_str(self) -> &'static str {
                match self {
                    $(OperationalEvent::$name => $text,)*
                }
            }
        }
    };
}

events! {
    EndpointCreated = "endpoint.created",
    EndpointUpdated = "endpoint.updated",
    EndpointDeleted = "endpoint.deleted",
    EndpointDisabled = "endpoint.disabled",
    EndpointEnabled = "endpoint.enabled",
    EndpointFailing = "endpoint.failing",
    AttemptFailing = "message.attempt.failing",
    AttemptExhausted = "message.attempt.exhausted",
    AttemptRecovered = "message.attempt.recovered",
    BackgroundTaskFinished = "background_task.finished",
    AlertTriggered = "alert.triggered",
    AlertOngoing = "alert.ongoing",
    AlertResolved = "alert.resolved",
}

impl OperationalEvent {
    /// Returns the event type of the message.
    pub fn event_type(self) -> Name {
        self.as_str().parse().expect("names of events are valid")
    }

    /// Returns the event with this name.
    pub fn find(name: &Name) -> Option<OperationalEvent> {
        OperationalEvent::ALL.iter().copied().find(|event| event.as_str() == name.as_str())
    }
}

impl fmt::Display for OperationalEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The cause of a disabled endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DisabledBy {
    /// A call of the API.
    Manual,
    /// The receiver, which wants no more requests or has failed for too long.
    Automatic,
}

/// The data of an event about an endpoint.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointNews {
    pub app_id: ApplicationId,
    pub app_uid: Option<Name>,
    pub endpoint_id: EndpointId,
    pub endpoint_uid: Option<Name>,
    /// The cause, if the endpoint was disabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger: Option<DisabledBy>,
    /// The first failure without a success since, if the event is about failures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<Timestamp>,
}

impl EndpointNews {
    /// Returns the data of an event of this endpoint, as it is after the event.
    pub fn new(event: OperationalEvent, endpoint: &Endpoint, app_uid: Option<Name>) -> EndpointNews {
        let is_disabled = event == OperationalEvent::EndpointDisabled;
        let failing = endpoint.failing.filter(|failing| match event {
            OperationalEvent::EndpointFailing => true,
            OperationalEvent::EndpointDisabled => failing.disabled_at.is_some(),
            _ => false,
        });
        EndpointNews {
            app_id: endpoint.application,
            app_uid,
            endpoint_id: endpoint.id,
            endpoint_uid: endpoint.uid.clone(),
            trigger: is_disabled.then_some(match endpoint.state {
                EndpointState::Gone => DisabledBy::Automatic,
                EndpointState::Enabled | EndpointState::Disabled => DisabledBy::Manual,
            }),
            failing_since: failing.map(|failing| failing.since),
        }
    }
}

/// The data of an event about a delivery.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptNews {
    pub app_id: ApplicationId,
    pub app_uid: Option<Name>,
    pub msg_id: MessageId,
    pub msg_event_id: Option<Name>,
    pub endpoint_id: EndpointId,
    pub last_attempt: ReportedAttempt,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportedAttempt {
    pub id: AttemptId,
    /// The HTTP status; 0 if the receiver sent none.
    pub response_status_code: u16,
    pub timestamp: Timestamp,
}

/// The data of an event about a background task.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackgroundNews {
    pub task_id: BackgroundTaskId,
    pub task: &'static str,
    pub status: &'static str,
    /// The result of the task.
    pub data: Value,
}

/// An event with its data.
#[derive(Clone, Debug)]
pub enum News {
    Endpoint(OperationalEvent, EndpointNews),
    Attempt(OperationalEvent, AttemptNews),
    /// A background task has finished.
    Background(BackgroundNews),
    Alert(OperationalEvent, AlertNews),
}

impl News {
    pub fn event(&self) -> OperationalEvent {
        match self {
            News::Endpoint(event, _) | News::Attempt(event, _) | News::Alert(event, _) => *event,
            News::Background(_) => OperationalEvent::BackgroundTaskFinished,
        }
    }

    /// Returns the payload of the message.
    pub fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct Body<'a, T> {
            r#type: &'static str,
            data: &'a T,
        }
        let r#type = self.event().as_str();
        let text = match self {
            News::Endpoint(_, data) => serde_json::to_string(&Body { r#type, data }),
            News::Attempt(_, data) => serde_json::to_string(&Body { r#type, data }),
            News::Background(data) => serde_json::to_string(&Body { r#type, data }),
            News::Alert(_, data) => serde_json::to_string(&Body { r#type, data }),
        };
        text.expect("ids, names and times are always JSON")
    }
}

/// Returns the events of an endpoint that was replaced. Headers are left out: they often contain credentials that are
/// renewed every few minutes. The server's own marks and switches are no updates.
pub fn changed(old: &Endpoint, new: &Endpoint) -> Vec<OperationalEvent> {
    let mut events = Vec::new();
    let comparable = Endpoint {
        headers: old.headers.clone(),
        failing: old.failing,
        state: if new.state == EndpointState::Gone { old.state } else { new.state },
        created_at: old.created_at,
        updated_at: old.updated_at,
        revision: old.revision,
        ..new.clone()
    };
    if comparable != *old {
        events.push(OperationalEvent::EndpointUpdated);
    }
    match (old.state == EndpointState::Enabled, new.state == EndpointState::Enabled) {
        (true, false) => events.push(OperationalEvent::EndpointDisabled),
        (false, true) => events.push(OperationalEvent::EndpointEnabled),
        (true, true) | (false, false) => {}
    }
    let is_warned = |endpoint: &Endpoint| endpoint.failing.is_some_and(|failing| failing.warned_at.is_some());
    if is_warned(new) && !is_warned(old) {
        events.push(OperationalEvent::EndpointFailing);
    }
    events
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::failing::Failing;

    fn endpoint() -> Endpoint {
        let (id, application) = (EndpointId(Id::MIN), ApplicationId(Id::MIN));
        Endpoint::new(id, application, "https://example.com".to_owned(), Timestamp::default())
    }

    #[track_caller]
    fn check(old: &Endpoint, new: &Endpoint, want: &str) {
        let events: Vec<_> = changed(old, new).iter().map(|event| event.as_str()).collect();
        assert_eq!(events.join(" "), want);
    }

    #[test]
    fn a_change_is_reported_and_a_repetition_is_not() {
        let old = endpoint();
        check(&old, &Endpoint { revision: 2, updated_at: Timestamp::from_millis(5), ..old.clone() }, "");
        check(&old, &Endpoint { url: "https://example.org".to_owned(), ..old.clone() }, "endpoint.updated");
        let headers = BTreeMap::from([("x-a".to_owned(), "b".to_owned())]);
        check(&old, &Endpoint { headers, ..old.clone() }, "");
    }

    #[test]
    fn a_switched_endpoint_is_reported_twice() {
        let old = endpoint();
        let disabled = Endpoint { state: EndpointState::Disabled, ..old.clone() };
        let gone = Endpoint { state: EndpointState::Gone, ..old.clone() };
        check(&old, &disabled, "endpoint.updated endpoint.disabled");
        check(&gone, &old, "endpoint.updated endpoint.enabled");
        check(&gone, &disabled, "endpoint.updated");
    }

    #[test]
    fn every_event_has_a_valid_name() {
        for event in OperationalEvent::ALL {
            assert_eq!(OperationalEvent::find(&event.event_type()), Some(*event));
        }
        assert_eq!(OperationalEvent::find(&"endpoint.painted".parse().unwrap()), None);
    }

    #[test]
    fn failures_are_reported_and_their_marks_are_not() {
        let at = Timestamp::from_millis(86_400_000);
        let marked = Failing { since: at, warned_at: None, disabled_at: None };
        let with = |failing| Endpoint { failing: Some(failing), ..endpoint() };
        let warned = with(Failing { warned_at: Some(at), ..marked });
        let disabled = with(Failing { warned_at: Some(at), disabled_at: Some(at), ..marked });
        let disabled = Endpoint { state: EndpointState::Gone, ..disabled };
        check(&endpoint(), &with(marked), "");
        check(&with(marked), &warned, "endpoint.failing");
        check(&warned, &endpoint(), "");
        check(&warned, &disabled, "endpoint.disabled");
        check(&disabled, &endpoint(), "endpoint.updated endpoint.enabled");
        let event = OperationalEvent::EndpointDisabled;
        assert_eq!(
            News::Endpoint(event, EndpointNews::new(event, &disabled, None)).to_json(),
            concat!(
                r#"{"type":"endpoint.disabled","data":{"appId":"app_000000000000000000000000000","appUid":null,"#,
                r#""endpointId":"ep_000000000000000000000000000","endpointUid":null,"trigger":"automatic","#,
                r#""failingSince":"1970-01-02T00:00:00.000000Z"}}"#
            )
        );
    }

    #[test]
    fn the_hidden_application_has_an_ordinary_id() {
        let text = OPERATIONAL_APPLICATION.to_string();
        assert_eq!(text.parse(), Ok(OPERATIONAL_APPLICATION));
    }

    #[test]
    fn an_event_names_its_type_and_its_data() {
        let disabled = Endpoint { state: EndpointState::Disabled, ..endpoint() };
        let event = OperationalEvent::EndpointDisabled;
        let news = News::Endpoint(event, EndpointNews::new(event, &disabled, Some("acme".parse().unwrap())));
        assert_eq!(
            news.to_json(),
            concat!(
                r#"{"type":"endpoint.disabled","data":{"appId":"app_000000000000000000000000000","appUid":"acme","#,
                r#""endpointId":"ep_000000000000000000000000000","endpointUid":null,"trigger":"manual"}}"#
            )
        );
    }
}
