//! A simulated node: the real engine behind a gate.

use std::sync::Arc;
use std::time::Duration;

use everhook_core::dispatch::DispatchConfig;
use everhook_core::retry::RetryPolicy;
use everhook_core::role::Role;
use everhook_engine::config::JobsConfig;
use everhook_engine::config::NodeConfig;
use everhook_engine::entropy::Entropy;
use everhook_engine::node;
use everhook_engine::retention::Ages;
use everhook_engine::session::NodeName;
use everhook_store::ids::Ids;

use crate::gate::{Gate, Health};
use crate::job::NodeHandler;
use crate::network::NodeNetwork;
use crate::store::connect;
use crate::world::Shared;

/// The lease of simulated nodes.
pub(crate) const LEASE: Duration = Duration::from_secs(4);

/// A node between its start and its crash or stop.
pub(crate) struct Node {
    pub(crate) engine: Arc<node::Node>,
    pub(crate) gate: Arc<Gate>,
}

impl Node {
    /// Starts a node; retries until the database accepts it.
    pub(crate) async fn start(shared: &Arc<Shared>, node: usize) -> Node {
        loop {
            let gate = Arc::new(Gate::new());
            let seed = shared.rng.next();
            let handler = NodeHandler { shared: Arc::clone(shared), gate: Arc::clone(&gate), node };
            let store = Arc::new(connect(shared, &gate, node));
            let network = Arc::new(NodeNetwork { shared: Arc::clone(shared), gate: Arc::clone(&gate), node });
            let (ids, entropy) = (Arc::new(Ids::seeded(seed)), Entropy::seeded(seed));
            let config = NodeConfig {
                dispatch: DispatchConfig { slots: 12, slots_per_lane: 4, poll_interval: Duration::from_millis(500) },
                lease: LEASE,
                retry: retry_policy(),
                name: NodeName { node: format!("node {node}"), version: "0".to_owned() },
                role: Role::All,
                wakeups: true,
                jobs: Some(JobsConfig {
                    slots: 8,
                    slots_per_queue: 4,
                    ahead: 8,
                    handlers: Some(Arc::new(handler.into_handlers())),
                    ..JobsConfig::default()
                }),
                retention: Ages::default(),
                public_url: None,
                alert_interval: None,
                quota_interval: None,
            };
            if let Ok(engine) = node::Node::start(store, Some(network), ids, entropy, config).await {
                shared.trace.event(format_args!("node {node} started"));
                return Node { engine, gate };
            }
            gate.set(Health::Dead);
        }
    }
}

/// The retry policy of all simulated nodes.
pub(crate) fn retry_policy() -> RetryPolicy {
    RetryPolicy::new([1, 2, 3, 5, 8, 13].map(Duration::from_secs).to_vec()).expect("a valid schedule")
}
