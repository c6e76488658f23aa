//! Finds the environment of a token or an admin key.

use std::collections::HashMap;
use std::sync::Mutex;

use everhook_core::id::{DEFAULT_ORG, EnvironmentId, OrgId};

use crate::error::ApiError;
use crate::limits::ENVIRONMENTS_CACHED_MAX;
use everhook_engine::node::Node;
use everhook_store::query;

/// The name of the environment for requests that do not name one.
const DEFAULT_NAME: &str = "default";

/// A cache of environments. Environments are never deleted, so entries do not become outdated.
#[derive(Default)]
pub(crate) struct Environments(Mutex<HashMap<OrgId, EnvironmentId>>);

impl Environments {
    /// Returns the environment of an `org_` id, and creates it on first use.
    pub(crate) async fn ensure(&self, node: &Node, org: OrgId) -> Result<EnvironmentId, ApiError> {
        if let Some(known) = self.lock().get(&org) {
            return Ok(*known);
        }
        let text = org.to_string();
        let name = if text == DEFAULT_ORG { DEFAULT_NAME } else { &text };
        let environment = node.ensure_environment(org, name.to_owned()).await?.id;
        let mut known = self.lock();
        if known.len() >= ENVIRONMENTS_CACHED_MAX {
            known.clear();
        }
        known.insert(org, environment);
        Ok(environment)
    }

    /// Returns the environment for requests with an admin key that do not name one.
    pub(crate) async fn default_one(&self, node: &Node) -> Result<EnvironmentId, ApiError> {
        self.ensure(node, DEFAULT_ORG.parse().expect("a valid id, checked by a test of the core")).await
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<OrgId, EnvironmentId>> {
        self.0.lock().expect("nothing panics while it holds this lock")
    }
}

/// Finds an environment by its name or its `org_` id.
pub(crate) async fn find(node: &Node, wanted: &str) -> Result<Option<EnvironmentId>, ApiError> {
    let org = wanted.parse::<OrgId>().ok();
    let all = node.read(query::Environments {}).await?;
    let found = all.iter().find(|environment| Some(environment.org) == org || environment.name == wanted);
    Ok(found.map(|environment| environment.id))
}

/// Finds the `org_` id of an environment.
pub(crate) async fn org(node: &Node, id: EnvironmentId) -> Result<Option<OrgId>, ApiError> {
    let all = node.read(query::Environments {}).await?;
    Ok(all.iter().find(|environment| environment.id == id).map(|environment| environment.org))
}
