//! The endpoints of applications inside a transaction: cached ones if their version is current, otherwise read.

use std::collections::BTreeMap;
use std::sync::Arc;

use everhook_core::endpoint::Endpoint;
use everhook_core::fanout;
use everhook_core::id::{ApplicationId, EnvironmentId, Id};
use everhook_core::name::Name;
use everhook_core::resource::environment_policy_id;
use everhook_core::scope::AppScope;
use everhook_store::cache::EndpointSet;
use everhook_store::resource::encoding;
use everhook_store::statement;

use crate::append::FindGroupVersion;
use crate::connection::Connection;
use crate::error::Fault;
use crate::sql::run;
use crate::writer::Tx;

statement! {
    ListEndpointApplication = "list_endpoint_application" { scope: AppScope, policy: Id }
        -> Vec<(Endpoint, Option<String>, Option<String>)>;
}

/// The endpoints of applications as of this transaction. Each application is read once.
#[derive(Default)]
pub(crate) struct Applications(BTreeMap<(EnvironmentId, ApplicationId), Option<Arc<EndpointSet>>>);

impl Applications {
    /// Returns the endpoints of an application; none if it does not exist.
    pub(crate) fn endpoints(
        &mut self,
        tx: &Tx<'_>,
        environment: EnvironmentId,
        application: ApplicationId,
    ) -> Result<Option<Arc<EndpointSet>>, Fault> {
        if let Some(known) = self.0.get(&(environment, application)) {
            return Ok(known.clone());
        }
        let endpoints = read(tx, environment, application)?;
        self.0.insert((environment, application), endpoints.clone());
        Ok(endpoints)
    }
}

/// Returns whether an endpoint of the application wants such a message.
pub(crate) fn has_subscriber(
    conn: &Connection,
    scope: AppScope,
    event_type: &Name,
    channels: &[Name],
) -> Result<bool, Fault> {
    let endpoints = run(conn, ListEndpointApplication { scope, policy: environment_policy_id() })?;
    Ok(endpoints.iter().any(|(endpoint, ..)| fanout::wants(endpoint, event_type, channels)))
}

/// Returns the endpoints of an application, from the cache if its version is current; none if it does not exist.
pub(crate) fn read(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    application: ApplicationId,
) -> Result<Option<Arc<EndpointSet>>, Fault> {
    let version = run(tx.conn, FindGroupVersion { environment, id: application })?;
    let Some(version) = version else { return Ok(None) };
    if let Some(known) = tx.cache.get(environment, application, version) {
        return Ok(Some(known));
    }
    let (scope, policy) = (AppScope::of(environment, application), environment_policy_id());
    let endpoints = run(tx.conn, ListEndpointApplication { scope, policy })?;
    let specs = endpoints.first();
    let inherited = specs.and_then(|(_, spec, outer)| encoding::inherited(spec.as_deref(), outer.as_deref()));
    let endpoints = endpoints.into_iter().map(|(endpoint, ..)| endpoint).collect();
    let endpoints = Arc::new(EndpointSet::new(version, inherited, endpoints));
    tx.cache.put(environment, application, Arc::clone(&endpoints));
    Ok(Some(endpoints))
}
