//! The delivery policies and pauses of environments and applications, as this node knows them.
//!
//! Policies of endpoints and applications arrive with each leased task. The policy of an environment applies to all of
//! its applications, so each node reads all of them every few seconds instead of once per task. Paused applications are
//! read with them: neither leases nor the fast path take their tasks. If the store does not respond, the known policies
//! and pauses stay in force.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use everhook_core::application::EnvironmentPolicy;
use everhook_core::endpoint::Endpoint;
use everhook_core::fair::GroupId;
use everhook_core::id::EnvironmentId;
use everhook_core::name::Name;
use everhook_core::policy::Settings;
use everhook_core::policy::effective::AttemptPolicy;
use everhook_core::retry::RetryPolicy;
use everhook_store::error::StoreError;
use everhook_store::query;
use everhook_store::store::Reads;
use tracing::{info, warn};

use crate::node::Node;

/// The interval at which a node reads the policies. A change applies on every node within five seconds.
const READ_INTERVAL: Duration = Duration::from_secs(2);

/// The policies of all environments that have one.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    known: RwLock<HashMap<EnvironmentId, Arc<Settings>>>,
    /// Most servers have no such policy; their deliveries take no lock.
    any: AtomicBool,
}

/// The environments and applications whose deliveries wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pauses {
    pub(crate) environments: BTreeSet<EnvironmentId>,
    pub(crate) groups: BTreeSet<GroupId>,
}

impl Pauses {
    pub(crate) fn has(&self, group: GroupId) -> bool {
        self.environments.contains(&group.environment) || self.groups.contains(&group)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.environments.is_empty() && self.groups.is_empty()
    }
}

impl Node {
    /// Reads the policies and pauses until it is dropped.
    pub(crate) async fn watch_policies(&self) {
        loop {
            tokio::time::sleep(READ_INTERVAL).await;
            if let Err(error) = self.read_policies().await {
                warn!(error = &error as &dyn std::error::Error, "could not read the policies of environments");
            }
        }
    }

    pub(crate) async fn read_policies(&self) -> Result<(), StoreError> {
        let policies = self.store.read(query::EnvironmentPolicies {}).await?;
        let groups = self.store.read(query::PausedGroups {}).await?;
        let is_paused = |(_, policy): &&(EnvironmentId, EnvironmentPolicy)| policy.settings.paused == Some(true);
        let pauses = Pauses {
            environments: policies.iter().filter(is_paused).map(|(environment, _)| *environment).collect(),
            groups: groups.into_iter().map(|(environment, id)| GroupId { environment, id }).collect(),
        };
        self.policies.replace(policies);
        if self.deliveries.set_pauses(pauses) {
            info!("the paused applications or environments have changed");
            // Deliveries of resumed ones are due.
            self.deliveries.hint(self.clock.elapsed());
        }
        Ok(())
    }
}

impl Policies {
    fn replace(&self, policies: Vec<(EnvironmentId, EnvironmentPolicy)>) {
        let used = policies.into_iter().filter(|(_, policy)| !policy.settings.is_empty());
        let used: HashMap<_, _> = used.map(|(environment, policy)| (environment, Arc::new(policy.settings))).collect();
        self.any.store(!used.is_empty(), Ordering::Relaxed);
        *self.known.write().expect("nothing panics while it holds this lock") = used;
    }

    /// Returns the settings of an environment.
    pub(crate) fn of(&self, environment: EnvironmentId) -> Option<Arc<Settings>> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        self.known.read().expect("nothing panics while it holds this lock").get(&environment).cloned()
    }

    /// Returns the policy of an attempt; none if no level has settings, so that the server's defaults apply.
    pub(crate) fn of_attempt(
        &self,
        environment: EnvironmentId,
        endpoint: &Endpoint,
        event_type: &Name,
        server: &RetryPolicy,
    ) -> Option<AttemptPolicy> {
        let outer = self.of(environment);
        let levels = endpoint.levels(outer.as_deref());
        (!levels.is_empty()).then(|| levels.attempt_policy(event_type, server))
    }
}
