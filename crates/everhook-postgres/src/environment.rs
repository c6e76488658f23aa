//! Environments and API keys.

use everhook_core::api_key::{ApiKeyHash, KeyRecord};
use everhook_core::application::{Environment, EnvironmentPolicy};
use everhook_core::id::{ApplicationId, EnvironmentId, Id, KeyId, OrgId};
use everhook_core::resource::environment_policy_id;
use everhook_core::right::KeyScope;
use everhook_core::time::Timestamp;
use everhook_store::catalog::{KeyChange, NewKey};
use everhook_store::statement;

use crate::error::Fault;
use crate::store::PostgresStore;

statement! {
    CreateEnvironment<'a> = "create_environment" { org: OrgId, name: &'a str };
    FindEnvironment = "find_environment" { org: OrgId } -> Option<Environment>;
    ListEnvironment = "list_environment" {} -> Vec<Environment>;
    ListEnvironmentPolicy = "list_environment_policy" { id: Id } -> Vec<(EnvironmentId, EnvironmentPolicy)>;
    ListPausedGroup = "list_paused_group" {} -> Vec<(EnvironmentId, Id)>;
    CreateKey<'a> = "create_key" {
        id: KeyId, hash: &'a [u8], hint: &'a str, name: &'a str, environment: Option<EnvironmentId>,
        application: Option<ApplicationId>, scope: KeyScope, rights: i16, expires_at: Option<Timestamp>,
    };
    FindKey<'a> = "find_key" { hash: &'a [u8] } -> Option<KeyRecord>;
    ListKey = "list_key" {} -> Vec<KeyRecord>;
    DeleteKey = "delete_key" { id: KeyId };
    UseKey = "use_key" { id: KeyId };
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

    pub(crate) async fn list_environments_once(&self) -> Result<Vec<Environment>, Fault> {
        self.database.read(ListEnvironment {}).await
    }

    pub(crate) async fn list_environment_policies_once(
        &self,
    ) -> Result<Vec<(EnvironmentId, EnvironmentPolicy)>, Fault> {
        self.database.read(ListEnvironmentPolicy { id: environment_policy_id() }).await
    }

    pub(crate) async fn list_paused_groups_once(&self) -> Result<Vec<(EnvironmentId, Id)>, Fault> {
        self.database.read(ListPausedGroup {}).await
    }

    pub(crate) async fn create_key_once(&self, key: &NewKey) -> Result<(), Fault> {
        let new = CreateKey {
            id: key.id,
            hash: &key.hash,
            hint: &key.hint,
            name: &key.name,
            environment: key.access.environment,
            application: key.access.application,
            scope: key.access.grants.scope,
            rights: key.access.grants.extra.to_db(),
            expires_at: key.expires_at,
        };
        self.database.write(new).await.map(drop)
    }

    pub(crate) async fn list_keys_once(&self) -> Result<Vec<KeyRecord>, Fault> {
        self.database.read(ListKey {}).await
    }

    pub(crate) async fn change_key_once(&self, id: KeyId, change: KeyChange) -> Result<bool, Fault> {
        let changed = match change {
            KeyChange::Revoke => self.database.write(DeleteKey { id }).await?,
            KeyChange::Use => self.database.write(UseKey { id }).await?,
        };
        Ok(changed > 0)
    }

    pub(crate) async fn find_key_once(&self, hash: &ApiKeyHash) -> Result<Option<KeyRecord>, Fault> {
        self.database.read(FindKey { hash }).await
    }
}
