//! The endpoints of applications inside a transaction: from the cache where their revision is known, else read.

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

/// The endpoints of applications at revisions that were read in this transaction.
pub(crate) async fn load(
    tx: &Tx<'_>,
    cache: &EndpointCache,
    revisions: &HashMap<AppKey, i64>,
) -> Result<EndpointSets, Fault> {
    let mut sets = EndpointSets::with_capacity(revisions.len());
    let mut unknown = Vec::new();
    for (key, revision) in revisions {
        match cache.get(key.0, key.1, *revision) {
            Some(set) => drop(sets.insert(*key, set)),
            None => unknown.push(*key),
        }
    }
    if !unknown.is_empty() {
        let wanted = Keys::of(unknown.iter().map(|(environment, application)| (*environment, application.0)));
        let mut grouped: HashMap<AppKey, (i64, Vec<Endpoint>)> = HashMap::new();
        for (environment, application, revision, endpoint) in tx.run(ListEndpointApplication { wanted }).await? {
            let (_, endpoints) = grouped.entry((environment, application)).or_insert_with(|| (revision, Vec::new()));
            endpoints.extend(endpoint);
        }
        for (key, (revision, endpoints)) in grouped {
            let set = EndpointSet::new(revision, endpoints);
            let set = Arc::new(set);
            cache.put(key.0, key.1, Arc::clone(&set));
            sets.insert(key, set);
        }
    }
    Ok(sets)
}
