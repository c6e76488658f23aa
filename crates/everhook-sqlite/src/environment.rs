//! Environments and API keys.

use everhook_core::application::Environment;
use everhook_core::id::{KeyId, OrgId};
use everhook_core::time::Timestamp;
use everhook_store::catalog::{KeyChange, NewKey};
use everhook_store::sql::param::StoreClock;
use everhook_store::sql::shared::{CreateKey, DeleteKey, FindEnvironment, UseKey};
use everhook_store::statement;

use crate::error::Fault;
use crate::sql::run;
use crate::writer::Tx;

statement! {
    CreateEnvironment<'a> = "create_environment" { org: OrgId, name: &'a str, now: Timestamp };
}

pub(crate) fn ensure(tx: &Tx<'_>, org: OrgId, name: &str) -> Result<Environment, Fault> {
    run(tx.conn, CreateEnvironment { org, name, now: tx.now })?;
    run(tx.conn, FindEnvironment { org })?.ok_or(Fault::Corrupt { table: "environment", column: "org" })
}

pub(crate) fn create_key(tx: &Tx<'_>, key: &NewKey) -> Result<(), Fault> {
    run(tx.conn, CreateKey::new(key, StoreClock::At(tx.now))).map(drop)
}

pub(crate) fn change_key(tx: &Tx<'_>, id: KeyId, change: KeyChange) -> Result<bool, Fault> {
    let changed = match change {
        KeyChange::Revoke => run(tx.conn, DeleteKey { id, now: StoreClock::At(tx.now) })?,
        KeyChange::Use => run(tx.conn, UseKey { id, now: StoreClock::At(tx.now) })?,
    };
    Ok(changed == 1)
}
