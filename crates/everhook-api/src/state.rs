//! The state of every handler: the node and the rules.

use std::sync::Arc;

use everhook_core::id::Id;
use everhook_core::signing::SignatureKind;
use everhook_core::time::Timestamp;
use everhook_engine::node::Node;
use everhook_sender::egress::Egress;
use everhook_store::error::StoreError;
use everhook_store::query::Read;
use everhook_store::uids::Uids;

use crate::auth::environments::Environments;
use crate::auth::keys::Keys;
use crate::auth::token::Tokens;
use crate::outbox::NamedOutbox;
use crate::strict::KnownByRoute;

/// How the API behaves.
#[derive(Clone)]
pub struct ApiConfig {
    /// The secret that tokens are signed with (HS256); without it there are only API keys.
    pub jwt_secret: Option<String>,
    /// The kind of signing key for endpoints that are created without a secret.
    pub default_signature: SignatureKind,
    /// Where endpoints may be.
    pub egress: Egress,
    /// The binary's version, shown by the readiness route and the documentation.
    pub version: &'static str,
    /// The outboxes that the node relays.
    pub outboxes: Vec<NamedOutbox>,
    /// Whether there are jobs; if not, their routes say so.
    pub jobs: bool,
    /// Whether there are schedules; if not, their routes say so.
    pub schedules: bool,
    /// Endpoints that one application may have.
    pub endpoints_max: usize,
}

/// What every handler gets.
pub(crate) struct Api {
    /// The door for every read and write.
    pub(crate) node: Arc<Node>,
    pub(crate) default_signature: SignatureKind,
    pub(crate) egress: Egress,
    pub(crate) version: &'static str,
    pub(crate) keys: Keys,
    pub(crate) tokens: Option<Tokens>,
    pub(crate) environments: Environments,
    pub(crate) uids: Uids,
    pub(crate) outboxes: Vec<NamedOutbox>,
    pub(crate) own_routes: KnownByRoute,
    pub(crate) has_jobs: bool,
    pub(crate) has_schedules: bool,
    pub(crate) endpoints_max: usize,
}

impl Api {
    pub(crate) fn new(node: Arc<Node>, own_routes: KnownByRoute, config: ApiConfig) -> Api {
        Api {
            node,
            default_signature: config.default_signature,
            egress: config.egress,
            version: config.version,
            keys: Keys::default(),
            tokens: config.jwt_secret.map(Tokens::new),
            environments: Environments::default(),
            uids: Uids::default(),
            outboxes: config.outboxes,
            own_routes,
            has_jobs: config.jobs,
            has_schedules: config.schedules,
            endpoints_max: config.endpoints_max,
        }
    }

    /// Answers a read of the store.
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
