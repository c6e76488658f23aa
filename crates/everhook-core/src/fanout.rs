//! Fan-out: the choice of endpoints for a message.
//!
//! Pure. The stores call it inside the transaction that appends the message, with the endpoints as of that transaction.

use crate::endpoint::Endpoint;
use crate::filter::{self, Facts};
use crate::id::EndpointId;
use crate::name::Name;

/// The endpoints that a message may go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Audience {
    /// Every endpoint that wants the message.
    #[default]
    Subscribers,
    /// This endpoint, whatever its filters; no endpoint while it is disabled, unless it holds deliveries.
    Only(EndpointId),
}

impl Audience {
    /// Whether `endpoint` gets the message.
    pub fn includes(self, endpoint: &Endpoint, facts: &Facts<'_>) -> bool {
        match self {
            Audience::Subscribers => endpoint.accepts() && filter::passes(endpoint, facts),
            Audience::Only(id) => endpoint.id == id && endpoint.accepts(),
        }
    }

    /// Whether `endpoint` may get a message of this type on these channels. Its expression decides with the message.
    pub fn may_include(self, endpoint: &Endpoint, event_type: &Name, channels: &[Name]) -> bool {
        match self {
            Audience::Subscribers => wants(endpoint, event_type, channels),
            Audience::Only(id) => endpoint.id == id && endpoint.accepts(),
        }
    }
}

/// Whether `endpoint` may get a message of this type on these channels.
pub fn wants(endpoint: &Endpoint, event_type: &Name, channels: &[Name]) -> bool {
    endpoint.accepts() && filter::passes_plain(endpoint, event_type, channels)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::endpoint::EndpointState;
    use crate::filter::expression::Expression;
    use crate::id::{ApplicationId, EndpointId, Id, MessageId};
    use crate::message::{Message, Rest};
    use crate::policy::{Settings, WhileDisabled};
    use crate::time::Timestamp;

    fn names(list: &str) -> Vec<Name> {
        list.split(',').filter(|name| !name.is_empty()).map(|name| name.parse().unwrap()).collect()
    }

    pub(crate) fn endpoint(types: Option<&str>, channels: Option<&str>, filter: Option<Expression>) -> Endpoint {
        Endpoint {
            event_types: types.map(|list| list.split(',').map(|pattern| pattern.parse().unwrap()).collect()),
            channels: channels.map(names),
            filter,
            ..Endpoint::new(EndpointId(Id::MIN), ApplicationId(Id::MIN), String::new(), Timestamp::default())
        }
    }

    pub(crate) fn message(event_type: &str, channels: &str, payload: &str) -> Message {
        Message {
            id: MessageId(Id::MIN),
            application: ApplicationId(Id::MIN),
            event_type: event_type.parse().unwrap(),
            event_id: None,
            channels: names(channels),
            tags: Vec::new(),
            payload: Some(payload.to_owned().into()),
            created_at: Timestamp::default(),
            rest: Rest::default(),
        }
    }

    #[track_caller]
    fn check(types: &str, endpoint_channels: &str, message_channels: &str, want: bool) {
        let some = |list: &'static str| (!list.is_empty()).then_some(list);
        let endpoint = endpoint(some(leak(types)), some(leak(endpoint_channels)), None);
        let message = message("a.b", message_channels, "{}");
        let included = |audience: Audience, endpoint: &Endpoint| {
            let plain = audience.may_include(endpoint, &message.event_type, &message.channels);
            assert_eq!(audience.includes(endpoint, &Facts::of(&message)), plain, "without an expression");
            plain
        };
        let only = |byte| Audience::Only(EndpointId(Id::from_bytes([byte; crate::id::ID_BYTES])));
        assert_eq!(included(Audience::Subscribers, &endpoint), want);
        assert!(included(Audience::Only(endpoint.id), &endpoint), "filters do not matter");
        assert!(!included(only(1), &endpoint));
        let disabled = Endpoint { state: EndpointState::Disabled, ..endpoint };
        assert!(!included(Audience::Subscribers, &disabled) && !included(Audience::Only(disabled.id), &disabled));
        let policy = Settings { while_disabled: Some(WhileDisabled::Hold), ..Settings::default() };
        let holding = Endpoint { policy: Some(std::sync::Arc::new(policy)), ..disabled };
        assert_eq!(included(Audience::Subscribers, &holding), want, "its deliveries are held");
    }

    fn leak(text: &str) -> &'static str {
        text.to_owned().leak()
    }

    #[test]
    fn no_filter_means_everything() {
        check("", "", "", true);
        check("", "", "x", true);
    }

    #[test]
    fn event_types_match_whole() {
        check("a.b,c", "", "", true);
        check("a", "", "", false);
        check("c,a.*", "", "", true);
    }

    #[test]
    fn an_endpoint_with_channels_hears_only_those() {
        check("", "x,y", "y,z", true);
        check("", "x,y", "z", false);
        check("", "x,y", "", false);
    }

    #[test]
    fn an_expression_decides_with_the_payload() {
        let expression = Expression::compile("payload.amount > 100").unwrap();
        let endpoint = endpoint(Some("a.*"), None, Some(expression));
        let included = |event_type: &str, payload: &str| {
            Audience::Subscribers.includes(&endpoint, &Facts::of(&message(event_type, "", payload)))
        };
        assert!(included("a.b", r#"{"amount": 101}"#));
        assert!(!included("a.b", r#"{"amount": 100}"#));
        assert!(!included("b.b", r#"{"amount": 101}"#));
        assert!(!included("a.b", "{}"), "an error does not match");
        assert!(Audience::Only(endpoint.id).includes(&endpoint, &Facts::of(&message("b", "", "{}"))));
    }
}
