//! The endpoints of applications inside a transaction: from the cache where their revision is known, else read.

use std::collections::HashMap;
use std::sync::Arc;

use everhook_core::endpoint::Endpoint;
use everhook_core::id::{ApplicationId, EnvironmentId};
use everhook_store::cache::{EndpointCache, EndpointSet};
use tokio_postgres::Row;

use crate::error::Fault;
use crate::rows::{self, Reader};
use crate::sql;
use crate::statement::Transaction;

/// An application of an environment.
pub(crate) type AppKey = (EnvironmentId, ApplicationId);
/// Endpoint sets by application; one that does not exist is not there.
pub(crate) type EndpointSets = HashMap<AppKey, Arc<EndpointSet>>;

/// Applications as two columns.
pub(crate) fn columns<'a>(keys: impl IntoIterator<Item = &'a AppKey>) -> (Vec<i32>, Vec<&'a [u8]>) {
    keys.into_iter().map(|(environment, application)| (environment.0, application.as_bytes().as_slice())).unzip()
}

/// The endpoints of applications at revisions that were read in this transaction.
pub(crate) async fn load(
    transaction: &Transaction,
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
        let (environments, applications) = columns(&unknown);
        let rows = transaction.rows(&sql::LIST_ENDPOINT_APPLICATION, &[&environments, &applications]).await?;
        for (key, set) in group(&rows)? {
            let set = Arc::new(set);
            cache.put(key.0, key.1, Arc::clone(&set));
            sets.insert(key, set);
        }
    }
    Ok(sets)
}

fn group(rows: &[Row]) -> Result<HashMap<AppKey, EndpointSet>, Fault> {
    let mut grouped: HashMap<AppKey, (i64, Vec<Endpoint>)> = HashMap::new();
    for row in rows {
        let mut reader = Reader::new(row, "application");
        let key = (EnvironmentId(reader.get("environment")?), ApplicationId(reader.id("id")?));
        let revision = reader.get("revision")?;
        let (_, endpoints) = grouped.entry(key).or_insert_with(|| (revision, Vec::new()));
        // An application without endpoints is one row without an endpoint.
        if reader.get::<Option<&[u8]>>("endpoint")?.is_some() {
            endpoints.push(rows::endpoint(row, 3)?);
        }
    }
    Ok(grouped.into_iter().map(|(key, (revision, endpoints))| (key, EndpointSet::new(revision, endpoints))).collect())
}
