//! The endpoints of applications inside a transaction: from the cache where their version is known, else read.

use std::collections::HashMap;
use std::sync::Arc;

use everhook_core::endpoint::Endpoint;
use everhook_core::id::{ApplicationId, EnvironmentId};
use everhook_store::cache::{EndpointCache, EndpointSet};
use everhook_store::statement;

use crate::columns::Keys;
use crate::error::Fault;
use crate::tx::Tx;

statement! {
    // An application without endpoints is one row without an endpoint.
    ListEndpointApplication = "list_endpoint_application" { wanted: Keys }
        -> Vec<(EnvironmentId, ApplicationId, i64, Option<Endpoint>)>;
}

/// An application of an environment.
pub(crate) type AppKey = (EnvironmentId, ApplicationId);
/// Endpoint sets by application; one that does not exist is not there.
pub(crate) type EndpointSets = HashMap<AppKey, Arc<EndpointSet>>;

/// The endpoints of applications at versions that were read in this transaction.
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
        let mut grouped: HashMap<AppKey, (i64, Vec<Endpoint>)> = HashMap::new();
        for (environment, application, version, endpoint) in tx.run(ListEndpointApplication { wanted }).await? {
            let (_, endpoints) = grouped.entry((environment, application)).or_insert_with(|| (version, Vec::new()));
            endpoints.extend(endpoint);
        }
        for (key, (version, endpoints)) in grouped {
            let set = EndpointSet::new(version, endpoints);
            let set = Arc::new(set);
            cache.put(key.0, key.1, Arc::clone(&set));
            sets.insert(key, set);
        }
    }
    Ok(sets)
}
