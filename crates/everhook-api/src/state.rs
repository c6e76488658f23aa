//! The state that all handlers share: the node, the configuration and the caches.

use std::sync::Arc;
use std::time::Duration;

use everhook_core::api_key::{ApiKeyHash, KeyRecord};
use everhook_core::id::Id;
use everhook_core::integration::Integration;
use everhook_core::signing::SignatureKind;
use everhook_core::time::Timestamp;
use everhook_engine::node::Node;
use everhook_sender::egress::Egress;
use everhook_store::error::StoreError;
use everhook_store::query::Read;
use everhook_store::uids::Uids;

use crate::auth::environments::Environments;
use crate::auth::failures::Failures;
use crate::auth::key_uses::KeyUses;
use crate::auth::recent::Recent;
use crate::auth::token::Tokens;
use crate::configuration::ShownSetting;
use crate::live::LiveStreams;
use crate::outbox::NamedOutbox;
use crate::strict::KnownByRoute;

/// The configuration of the API.
#[derive(Clone)]
pub struct ApiConfig {
    /// The secret with which users sign tokens (HS256). Without it only the server signs tokens.
    pub jwt_secret: Option<String>,
    /// The beginning of links to this server, without a slash at the end. Without it links begin with the host of the
    /// request.
    pub public_url: Option<String>,
    /// Whether the listener has TLS.
    pub tls: bool,
    /// Origins of pages that may show the portal in a frame.
    pub embed_origins: Vec<String>,
    /// Origins of pages that may call the routes of application tokens; `*` for every origin.
    pub cors_origins: Vec<String>,
    /// Further hosts of chat endpoints, beside those of the platforms.
    pub chat_hosts: Vec<String>,
    /// The kind of signing key for endpoints that are created without a secret.
    pub default_signature: SignatureKind,
    /// The rules for the URLs of endpoints and targets.
    pub egress: Egress,
    /// The version of the binary, which the readiness route returns.
    pub version: &'static str,
    /// The outboxes that the node relays.
    pub outboxes: Vec<NamedOutbox>,
    /// Whether jobs are enabled. If not, their routes answer 503.
    pub jobs: bool,
    /// Whether schedules are enabled. If not, their routes answer 503.
    pub schedules: bool,
    /// Maximum number of endpoints of one application.
    pub endpoints_max: usize,
    /// Maximum number of failed authentications of one client address in a minute; 0 for no limit.
    pub auth_failures_per_minute: u32,
    /// The time for a receiver to answer, unless a policy sets another one.
    pub delivery_timeout: Duration,
    /// The settings of the node as operators see them, without secrets.
    pub settings: Vec<ShownSetting>,
}

pub(crate) struct Api {
    /// Every read and write goes through the node.
    pub(crate) node: Arc<Node>,
    pub(crate) config: ApiConfig,
    pub(crate) keys: Recent<ApiKeyHash, Arc<KeyRecord>>,
    pub(crate) key_uses: KeyUses,
    pub(crate) failures: Failures,
    pub(crate) integrations: Recent<ApiKeyHash, Arc<Integration>>,
    pub(crate) tokens: Tokens,
    pub(crate) environments: Environments,
    pub(crate) uids: Uids,
    pub(crate) live: LiveStreams,
    pub(crate) own_routes: KnownByRoute,
}

impl Api {
    pub(crate) fn new(node: Arc<Node>, own_routes: KnownByRoute, config: ApiConfig) -> Api {
        Api {
            node,
            keys: Recent::default(),
            key_uses: KeyUses::default(),
            failures: Failures::new(config.auth_failures_per_minute),
            integrations: Recent::default(),
            tokens: Tokens::new(config.jwt_secret.clone()),
            environments: Environments::default(),
            uids: Uids::default(),
            live: LiveStreams::default(),
            own_routes,
            config,
        }
    }

    pub(crate) async fn read<Q: Read>(&self, query: Q) -> Result<Q::Answer, StoreError> {
        self.node.read(query).await
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.node.now()
    }

    pub(crate) fn new_id(&self) -> Id {
        self.node.new_id()
    }
}
