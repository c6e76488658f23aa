//! The endpoints of applications inside a transaction: cached ones if their version is current, otherwise read.

use std::collections::HashMap;
use std::sync::Arc;

use everhook_core::endpoint::Endpoint;
use everhook_core::fanout;
use everhook_core::id::{ApplicationId, EnvironmentId, Id};
use everhook_core::name::Name;
use everhook_core::policy::Settings;
use everhook_core::resource::environment_policy_id;
use everhook_core::scope::AppScope;
use everhook_store::cache::{EndpointCache, EndpointSet};
use everhook_store::resource::encoding;
use everhook_store::statement;

use crate::columns::Keys;
use crate::error::Fault;
use crate::store::PostgresStore;
use crate::tx::Tx;

statement! {
    // An application without endpoints yields one row without an endpoint.
    ListEndpointApplication = ["list_endpoint_application", "resource_by_id"] { wanted: Keys, policy: Id }
        -> Vec<EndpointRow>;
}

/// The application, its version, an endpoint, and the specs of the application and of the environment's policy.
type EndpointRow = (EnvironmentId, ApplicationId, i64, Option<Endpoint>, Option<String>, Option<String>);

pub(crate) type AppKey = (EnvironmentId, ApplicationId);
/// Endpoint sets by application. Applications that do not exist are missing.
pub(crate) type EndpointSets = HashMap<AppKey, Arc<EndpointSet>>;

/// The version, the inherited settings and the endpoints of an application.
type Group = (i64, Option<Arc<Settings>>, Vec<Endpoint>);

/// Returns the endpoints of applications at the versions that this transaction has read.
pub(crate) async fn load(
    tx: &Tx<'_>,
    cache: &EndpointCache,
    versions: &HashMap<AppKey, i64>,
) -> Result<EndpointSets, Fault> {
    let mut sets = EndpointSets::with_capacity(versions.len());
    let mut unknown = Vec::new();
    for (key, version) in versions {
        match cache.get(key.0, key.1, *version) {
            Some(set) => drop(sets.insert(*key, set)),
            None => unknown.push(*key),
        }
    }
    if !unknown.is_empty() {
        let wanted = Keys::of(unknown.iter().map(|(environment, application)| (*environment, application.0)));
        let mut grouped: HashMap<AppKey, Group> = HashMap::new();
        let list = ListEndpointApplication { wanted, policy: environment_policy_id() };
        for (environment, application, version, endpoint, spec, outer) in tx.run(list).await? {
            let (_, _, endpoints) = grouped
                .entry((environment, application))
                .or_insert_with(|| (version, encoding::inherited(spec.as_deref(), outer.as_deref()), Vec::new()));
            endpoints.extend(endpoint);
        }
        for (key, (version, inherited, endpoints)) in grouped {
            let set = EndpointSet::new(version, inherited, endpoints);
            let set = Arc::new(set);
            cache.put(key.0, key.1, Arc::clone(&set));
            sets.insert(key, set);
        }
    }
    Ok(sets)
}

impl PostgresStore {
    /// Returns whether an endpoint of the application wants such a message.
    pub(crate) async fn has_subscriber_once(
        &self,
        scope: AppScope,
        event_type: &Name,
        channels: &[Name],
    ) -> Result<bool, Fault> {
        let wanted = Keys::of([(scope.environment, scope.application.0)]);
        let rows = self.database.read(ListEndpointApplication { wanted, policy: environment_policy_id() }).await?;
        let mut endpoints = rows.iter().filter_map(|(_, _, _, endpoint, ..)| endpoint.as_ref());
        Ok(endpoints.any(|endpoint| fanout::wants(endpoint, event_type, channels)))
    }
}
