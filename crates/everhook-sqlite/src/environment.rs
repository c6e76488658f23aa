//! Environments and API keys.

use everhook_core::api_key::{ApiKeyHash, KeyRecord, KeyScope};
use everhook_core::application::{Environment, EnvironmentPolicy};
use everhook_core::id::{EnvironmentId, Id, KeyId, OrgId};
use everhook_core::resource::environment_policy_id;
use everhook_core::time::Timestamp;
use everhook_store::catalog::NewKey;
use everhook_store::statement;
use rusqlite::Connection;

use crate::error::Fault;
use crate::sql::run;
use crate::writer::Tx;

statement! {
    CreateEnvironment<'a> = "create_environment" { org: OrgId, name: &'a str, now: Timestamp };
    FindEnvironment = "find_environment" { org: OrgId } -> Option<Environment>;
    ListEnvironment = "list_environment" {} -> Vec<Environment>;
    ListEnvironmentPolicy = "list_environment_policy" { id: Id } -> Vec<(EnvironmentId, EnvironmentPolicy)>;
    ListPausedGroup = "list_paused_group" {} -> Vec<(EnvironmentId, Id)>;
    CreateKey<'a> = "create_key" {
        id: KeyId, hash: &'a [u8], hint: &'a str, environment: Option<EnvironmentId>, now: Timestamp,
    };
    FindKey<'a> = "find_key" { hash: &'a [u8] } -> Option<KeyScope>;
    ListKey = "list_key" {} -> Vec<KeyRecord>;
    DeleteKey = "delete_key" { id: KeyId, now: Timestamp };
}

pub(crate) fn ensure(tx: &Tx<'_>, org: OrgId, name: &str) -> Result<Environment, Fault> {
    run(tx.conn, CreateEnvironment { org, name, now: tx.now })?;
    run(tx.conn, FindEnvironment { org })?.ok_or(Fault::Corrupt { table: "environment", column: "org" })
}

pub(crate) fn list(conn: &Connection) -> Result<Vec<Environment>, Fault> {
    run(conn, ListEnvironment {})
}

pub(crate) fn list_policies(conn: &Connection) -> Result<Vec<(EnvironmentId, EnvironmentPolicy)>, Fault> {
    run(conn, ListEnvironmentPolicy { id: environment_policy_id() })
}

pub(crate) fn list_paused_groups(conn: &Connection) -> Result<Vec<(EnvironmentId, Id)>, Fault> {
    run(conn, ListPausedGroup {})
}

pub(crate) fn create_key(tx: &Tx<'_>, key: &NewKey) -> Result<(), Fault> {
    let environment = match key.scope {
        KeyScope::Environment(environment) => Some(environment),
        KeyScope::Admin => None,
    };
    run(tx.conn, CreateKey { id: key.id, hash: &key.hash, hint: &key.hint, environment, now: tx.now }).map(drop)
}

pub(crate) fn list_keys(conn: &Connection) -> Result<Vec<KeyRecord>, Fault> {
    run(conn, ListKey {})
}

pub(crate) fn revoke_key(tx: &Tx<'_>, key: KeyId) -> Result<bool, Fault> {
    run(tx.conn, DeleteKey { id: key, now: tx.now }).map(|revoked| revoked == 1)
}

pub(crate) fn find_key(conn: &Connection, hash: &ApiKeyHash) -> Result<Option<KeyScope>, Fault> {
    run(conn, FindKey { hash })
}
