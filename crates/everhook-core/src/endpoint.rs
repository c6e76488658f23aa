//! Endpoints: a URL with its filters, secret and policy.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::chat::{self, Chat};
use crate::endpoint_auth::EndpointAuth;
use crate::failing::Failing;
use crate::filter::TypePattern;
use crate::filter::expression::Expression;
use crate::id::{ApplicationId, BadId, EndpointId, Id};
use crate::lane::LaneState;
use crate::name::{Metadata, Name};
use crate::policy::effective::Levels;
use crate::policy::limit::LaneLimits;
use crate::policy::order::KeyRule;
use crate::policy::{Settings, WhileDisabled, with_throttle_rate};
use crate::poll::POLL_URL;
use crate::signing::SigningKeys;
use crate::task::stored_as;
use crate::time::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointState {
    Enabled,
    /// Switched off by a user; open deliveries are held.
    Disabled,
    /// Switched off by a `410` reply or after a long time of failures; open deliveries are held.
    Gone,
}

stored_as!(EndpointState { Enabled = 0, Disabled = 1, Gone = 2 });

/// The key of an endpoint in lists of all applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointKey {
    pub application: ApplicationId,
    pub endpoint: EndpointId,
}

impl fmt::Display for EndpointKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.application, self.endpoint)
    }
}

impl FromStr for EndpointKey {
    type Err = BadId;

    fn from_str(text: &str) -> Result<EndpointKey, BadId> {
        let (application, endpoint) = text.split_once('.').ok_or(BadId)?;
        Ok(EndpointKey { application: application.parse()?, endpoint: endpoint.parse()? })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Also the id of its lane.
    pub id: EndpointId,
    pub application: ApplicationId,
    /// The user's own id, unique in the application.
    pub uid: Option<Name>,
    /// Of a chat endpoint, the URL is a credential: show [`Endpoint::shown_url`].
    pub url: String,
    /// The platform and the text of a chat endpoint. Other endpoints get the payload itself.
    pub chat: Option<Arc<Chat>>,
    pub description: String,
    pub state: EndpointState,
    /// Wanted event types; `None` means all, an empty list none.
    pub event_types: Option<Vec<TypePattern>>,
    /// Channels the endpoint listens to; `None` means all.
    pub channels: Option<Vec<Name>>,
    /// An expression that messages must satisfy.
    pub filter: Option<Expression>,
    /// Extra headers of every delivery.
    pub headers: BTreeMap<String, String>,
    /// How requests prove who sends them, besides the signature.
    pub auth: Option<Arc<EndpointAuth>>,
    /// Deliveries per second, unless the policy has a rate.
    pub throttle_rate: Option<u16>,
    /// The endpoint's own delivery policy. Where endpoints are read for deliveries, it includes the throttle rate.
    pub policy: Option<Arc<Settings>>,
    /// The policy of its application, with the limits of the environment as defaults. Only endpoints that are read for
    /// deliveries have it.
    pub inherited: Option<Arc<Settings>>,
    /// The mark of an endpoint that had nothing but failures for some time.
    pub failing: Option<Failing>,
    pub metadata: Metadata,
    /// A number for the user's own purposes. Stored and shown.
    pub version: u16,
    pub keys: SigningKeys,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Raised by every change; a concurrent change is detected by it.
    pub revision: i64,
}

impl Endpoint {
    /// Returns an endpoint that gets all messages of its application, without settings of its own.
    pub fn new(id: EndpointId, application: ApplicationId, url: String, now: Timestamp) -> Endpoint {
        Endpoint {
            id,
            application,
            uid: None,
            url,
            chat: None,
            description: String::new(),
            state: EndpointState::Enabled,
            event_types: None,
            channels: None,
            filter: None,
            headers: BTreeMap::new(),
            auth: None,
            throttle_rate: None,
            policy: None,
            inherited: None,
            failing: None,
            metadata: Metadata::new(),
            version: 1,
            keys: SigningKeys::default(),
            created_at: now,
            updated_at: now,
            revision: 0,
        }
    }

    /// Whether the endpoint subscribes to nothing and gets only messages that name its URL.
    pub fn is_direct(&self) -> bool {
        self.event_types.as_ref().is_some_and(Vec::is_empty)
    }

    /// Returns the endpoint as deliveries need it: with the settings of its application, and with its throttle rate.
    #[must_use]
    pub fn inheriting(mut self, inherited: Option<Arc<Settings>>) -> Endpoint {
        self.policy = with_throttle_rate(self.policy, self.throttle_rate);
        self.inherited = inherited;
        self
    }

    /// The limits of its lane, if the endpoint was read for deliveries.
    pub fn limits(&self) -> LaneLimits {
        self.levels(None).limits()
    }

    /// The order of its deliveries by a key of the payload, if the endpoint was read for deliveries.
    pub fn key_rule(&self) -> Option<KeyRule<'_>> {
        self.levels(None).key_rule()
    }

    /// The settings that apply to the endpoint, with those of its environment.
    pub fn levels<'a>(&'a self, environment: Option<&'a Settings>) -> Levels<'a> {
        Levels { endpoint: self.policy.as_deref(), application: self.inherited.as_deref(), environment }
    }

    /// Whether a user has paused the endpoint: it takes messages, and their deliveries wait.
    pub fn is_paused(&self) -> bool {
        self.policy.as_ref().is_some_and(|policy| policy.paused == Some(true))
    }

    /// Whether new messages are for the endpoint. A disabled one may be set to hold their deliveries.
    pub fn accepts(&self) -> bool {
        let holds = |policy: &Arc<Settings>| policy.while_disabled == Some(WhileDisabled::Hold);
        self.state == EndpointState::Enabled || self.policy.as_ref().is_some_and(holds)
    }

    /// The state of its lane, unless the endpoint is deleted.
    pub fn lane_state(&self) -> LaneState {
        if self.state == EndpointState::Enabled && !self.is_paused() { LaneState::Open } else { LaneState::Held }
    }

    /// Returns the URL for people and logs.
    pub fn shown_url(&self) -> String {
        if self.chat.is_some() { chat::masked(&self.url) } else { self.url.clone() }
    }

    /// Whether readers fetch the messages, so that no requests are sent.
    pub fn is_polled(&self) -> bool {
        self.url == POLL_URL
    }
}

/// The uid of the endpoint for messages that name `url`: the same for the same URL.
pub fn direct_uid(url: &str) -> Name {
    format!("url_{}", Id::derived(&[url.as_bytes()])).parse().expect("an id has only letters and digits")
}
