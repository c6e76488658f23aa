//! Environments and API keys.

use everhook_core::api_key::{ApiKeyHash, KeyRecord, KeyScope};
use everhook_core::application::Environment;
use everhook_core::id::{KeyId, OrgId};
use everhook_store::catalog::NewKey;

use crate::error::Fault;
use crate::rows::{self, Reader};
use crate::sql;
use crate::store::PostgresStore;

impl PostgresStore {
    pub(crate) async fn ensure_environment_once(&self, org: OrgId, name: &str) -> Result<Environment, Fault> {
        let org: &[u8] = org.as_bytes();
        // Looked for first: every insert that is in vain uses up a number.
        let found = self.database.read(&sql::FIND_ENVIRONMENT, &[&org]).await?;
        if let Some(row) = found.first() {
            return rows::environment(row);
        }
        self.database.change(&sql::CREATE_ENVIRONMENT, &[&org, &name]).await?;
        let found = self.database.read(&sql::FIND_ENVIRONMENT, &[&org]).await?;
        found.first().map_or(Err(Fault::Refused("the name is another environment's")), rows::environment)
    }

    pub(crate) async fn list_environments_once(&self) -> Result<Vec<Environment>, Fault> {
        self.database.read(&sql::LIST_ENVIRONMENT, &[]).await?.iter().map(rows::environment).collect()
    }

    pub(crate) async fn create_key_once(&self, key: &NewKey) -> Result<(), Fault> {
        let environment = match key.scope {
            KeyScope::Environment(environment) => Some(environment.0),
            KeyScope::Admin => None,
        };
        let (id, hash): (&[u8], &[u8]) = (key.id.as_bytes(), &key.hash);
        self.database.change(&sql::CREATE_KEY, &[&id, &hash, &key.hint, &environment]).await.map(drop)
    }

    pub(crate) async fn list_keys_once(&self) -> Result<Vec<KeyRecord>, Fault> {
        self.database.read(&sql::LIST_KEY, &[]).await?.iter().map(rows::key).collect()
    }

    pub(crate) async fn revoke_key_once(&self, key: KeyId) -> Result<bool, Fault> {
        self.database.change(&sql::DELETE_KEY, &[&key.as_bytes().as_slice()]).await.map(|revoked| revoked > 0)
    }

    pub(crate) async fn find_key_once(&self, hash: &ApiKeyHash) -> Result<Option<KeyScope>, Fault> {
        let found = self.database.read(&sql::FIND_KEY, &[&hash.as_slice()]).await?;
        let Some(row) = found.first() else { return Ok(None) };
        Reader::new(row, "api_key").get("environment").map(|environment| Some(rows::scope(environment)))
    }
}
