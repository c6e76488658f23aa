//! Environments and API keys.

use everhook_core::application::Environment;
use everhook_core::id::{KeyId, OrgId};
use everhook_store::catalog::{KeyChange, NewKey};
use everhook_store::sql::param::StoreClock;
use everhook_store::sql::shared::{CreateKey, DeleteKey, FindEnvironment, UseKey};
use everhook_store::statement;

use crate::error::Fault;
use crate::store::PostgresStore;

statement! {
    CreateEnvironment<'a> = "create_environment" { org: OrgId, name: &'a str };
}

impl PostgresStore {
    pub(crate) async fn ensure_environment_once(&self, org: OrgId, name: &str) -> Result<Environment, Fault> {
        // Look first: every failed insert uses up a number of the identity column.
        if let Some(found) = self.database.read(FindEnvironment { org }).await? {
            return Ok(found);
        }
        self.database.write(CreateEnvironment { org, name }).await?;
        let found = self.database.read(FindEnvironment { org }).await?;
        found.ok_or(Fault::Refused("another environment already has this name"))
    }

    pub(crate) async fn create_key_once(&self, key: &NewKey) -> Result<(), Fault> {
        self.database.write(CreateKey::new(key, StoreClock::Database)).await.map(drop)
    }

    pub(crate) async fn change_key_once(&self, id: KeyId, change: KeyChange) -> Result<bool, Fault> {
        let changed = match change {
            KeyChange::Revoke => self.database.write(DeleteKey { id, now: StoreClock::Database }).await?,
            KeyChange::Use => self.database.write(UseKey { id, now: StoreClock::Database }).await?,
        };
        Ok(changed > 0)
    }
}
