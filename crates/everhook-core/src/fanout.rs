//! Fan-out: the choice of endpoints for a message.
//!
//! Pure. The stores call it inside the transaction that appends the message, with the endpoints as of that transaction.

use crate::endpoint::Endpoint;
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
    /// Whether `endpoint` gets a message of this type on these channels.
    pub fn includes(self, endpoint: &Endpoint, event_type: &Name, channels: &[Name]) -> bool {
        match self {
            Audience::Subscribers => wants(endpoint, event_type, channels),
            Audience::Only(id) => endpoint.id == id && endpoint.accepts(),
        }
    }
}

/// Whether `endpoint` gets a message of this type on these channels.
pub fn wants(endpoint: &Endpoint, event_type: &Name, channels: &[Name]) -> bool {
    endpoint.accepts() && listens(endpoint, event_type, channels)
}

/// Whether a message passes the filters of an endpoint, in any state of the endpoint.
pub fn listens(endpoint: &Endpoint, event_type: &Name, channels: &[Name]) -> bool {
    endpoint.event_types.as_ref().is_none_or(|wanted| wanted.contains(event_type))
        && endpoint.channels.as_ref().is_none_or(|wanted| channels.iter().any(|channel| wanted.contains(channel)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::EndpointState;
    use crate::id::{ApplicationId, EndpointId, Id};
    use crate::policy::{Settings, WhileDisabled};
    use crate::signing::SigningKeys;
    use crate::time::Timestamp;

    fn names(list: &str) -> Vec<Name> {
        list.split(',').filter(|name| !name.is_empty()).map(|name| name.parse().unwrap()).collect()
    }

    fn some(list: &str) -> Option<Vec<Name>> {
        (!list.is_empty()).then(|| names(list))
    }

    #[track_caller]
    fn check(types: &str, endpoint_channels: &str, message_channels: &str, want: bool) {
        let endpoint = Endpoint {
            id: EndpointId(Id::MIN),
            application: ApplicationId(Id::MIN),
            uid: None,
            url: String::new(),
            description: String::new(),
            state: EndpointState::Enabled,
            event_types: some(types),
            channels: some(endpoint_channels),
            headers: Default::default(),
            throttle_rate: None,
            policy: None,
            inherited: None,
            metadata: Default::default(),
            version: 1,
            keys: SigningKeys::default(),
            created_at: Timestamp::default(),
            updated_at: Timestamp::default(),
            revision: 1,
        };
        let included = |audience: Audience, endpoint: &Endpoint| {
            audience.includes(endpoint, &"a.b".parse().unwrap(), &names(message_channels))
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

    #[test]
    fn no_filter_means_everything() {
        check("", "", "", true);
        check("", "", "x", true);
    }

    #[test]
    fn event_types_match_whole() {
        check("a.b,c", "", "", true);
        check("a", "", "", false);
    }

    #[test]
    fn an_endpoint_with_channels_hears_only_those() {
        check("", "x,y", "y,z", true);
        check("", "x,y", "z", false);
        check("", "x,y", "", false);
    }
}
