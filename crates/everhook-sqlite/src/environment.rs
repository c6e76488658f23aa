//! Environments and API keys.

use everhook_core::api_key::{ApiKeyHash, KeyRecord};
use everhook_core::application::{Environment, EnvironmentPolicy};
use everhook_core::id::{ApplicationId, EnvironmentId, Id, KeyId, OrgId};
use everhook_core::resource::environment_policy_id;
use everhook_core::right::KeyScope;
use everhook_core::time::Timestamp;
use everhook_store::catalog::{KeyChange, NewKey};
use everhook_store::statement;

use crate::connection::Connection;
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
        id: KeyId, hash: &'a [u8], hint: &'a str, name: &'a str, environment: Option<EnvironmentId>,
        application: Option<ApplicationId>, scope: KeyScope, rights: i16, expires_at: Option<Timestamp>, now: Timestamp,
    };
    FindKey<'a> = "find_key" { hash: &'a [u8] } -> Option<KeyRecord>;
    ListKey = "list_key" {} -> Vec<KeyRecord>;
    DeleteKey = "delete_key" { id: KeyId, now: Timestamp };
    UseKey = "use_key" { id: KeyId, now: Timestamp };
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
        now: tx.now,
    };
    run(tx.conn, new).map(drop)
}

pub(crate) fn list_keys(conn: &Connection) -> Result<Vec<KeyRecord>, Fault> {
    run(conn, ListKey {})
}

pub(crate) fn change_key(tx: &Tx<'_>, id: KeyId, change: KeyChange) -> Result<bool, Fault> {
    let changed = match change {
        KeyChange::Revoke => run(tx.conn, DeleteKey { id, now: tx.now })?,
        KeyChange::Use => run(tx.conn, UseKey { id, now: tx.now })?,
    };
    Ok(changed == 1)
}

pub(crate) fn find_key(conn: &Connection, hash: &ApiKeyHash) -> Result<Option<KeyRecord>, Fault> {
    run(conn, FindKey { hash })
}
