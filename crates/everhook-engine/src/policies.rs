//! The delivery policies of environments, as this node knows them.
//!
//! Policies of endpoints and applications arrive with each leased task. The policy of an environment applies to all of
//! its applications, so each node reads all of them every few seconds instead of once per task. If the store does not
//! respond, the known policies stay in force.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use everhook_core::application::EnvironmentPolicy;
use everhook_core::endpoint::Endpoint;
use everhook_core::id::EnvironmentId;
use everhook_core::name::Name;
use everhook_core::policy::Settings;
use everhook_core::policy::effective::AttemptPolicy;
use everhook_core::retry::RetryPolicy;
use everhook_store::query;
use everhook_store::store::{Reads, Store};
use tracing::warn;

/// The interval at which a node reads the policies. A change applies on every node within five seconds.
const READ_INTERVAL: Duration = Duration::from_secs(2);

/// The policies of all environments that have one.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    known: RwLock<HashMap<EnvironmentId, Arc<Settings>>>,
    /// Most servers have no such policy; their deliveries take no lock.
    any: AtomicBool,
}

impl Policies {
    /// Reads the policies until it is dropped.
    pub(crate) async fn run(&self, store: &dyn Store) {
        loop {
            self.read(store).await;
            tokio::time::sleep(READ_INTERVAL).await;
        }
    }

    pub(crate) async fn read(&self, store: &dyn Store) {
        match store.read(query::EnvironmentPolicies {}).await {
            Ok(policies) => self.replace(policies),
            Err(error) => {
                warn!(error = &error as &dyn std::error::Error, "could not read the policies of environments");
            }
        }
    }

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
