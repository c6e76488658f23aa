//! Environments and the keys that open them.

use everhook_core::api_key::{ApiKeyHash, KeyRecord, KeyScope};
use everhook_core::application::Environment;
use everhook_core::id::{EnvironmentId, KeyId, OrgId};
use everhook_store::catalog::NewKey;
use rusqlite::{Connection, params};

use crate::failure::Fault;
use crate::rows::{self, Record};
use crate::writer::Tx;

const CREATE_ENVIRONMENT: &str = include_str!("../../queries/create_environment.sql");
const FIND_ENVIRONMENT: &str = include_str!("../../queries/find_environment.sql");
const LIST_ENVIRONMENT: &str = include_str!("../../queries/list_environment.sql");
const CREATE_KEY: &str = include_str!("../../queries/create_key.sql");
const LIST_KEY: &str = include_str!("../../queries/list_key.sql");
const DELETE_KEY: &str = include_str!("../../queries/delete_key.sql");
const FIND_KEY: &str = include_str!("../../queries/find_key.sql");

pub(crate) fn ensure(tx: &Tx<'_>, org: OrgId, name: &str) -> Result<Environment, Fault> {
    let mut create = tx.conn.prepare_cached(CREATE_ENVIRONMENT)?;
    create.execute(params![org.as_bytes(), name, tx.now.as_micros()])?;
    let mut find = tx.conn.prepare_cached(FIND_ENVIRONMENT)?;
    let mut rows = find.query([org.as_bytes()])?;
    rows::environment(rows.next()?.ok_or(Fault::Corrupt { table: "environment", column: "org" })?)
}

pub(crate) fn list(conn: &Connection) -> Result<Vec<Environment>, Fault> {
    let mut list = conn.prepare_cached(LIST_ENVIRONMENT)?;
    list.query_and_then([], rows::environment)?.collect()
}

pub(crate) fn create_key(tx: &Tx<'_>, key: &NewKey) -> Result<(), Fault> {
    let environment = match key.scope {
        KeyScope::Environment(environment) => Some(environment.0),
        KeyScope::Admin => None,
    };
    let mut create = tx.conn.prepare_cached(CREATE_KEY)?;
    create.execute(params![key.id.as_bytes(), key.hash, key.hint, environment, tx.now.as_micros()])?;
    Ok(())
}

pub(crate) fn list_keys(conn: &Connection) -> Result<Vec<KeyRecord>, Fault> {
    let mut list = conn.prepare_cached(LIST_KEY)?;
    let read = |row: &rusqlite::Row<'_>| {
        let record = Record::new(row, "api_key");
        Ok(KeyRecord {
            id: KeyId(record.id(0, "id")?),
            scope: scope(record.get(1, "environment")?),
            hint: record.get(2, "hint")?,
            created_at: record.time(3, "created_at")?,
            revoked_at: if record.is_null(4)? { None } else { Some(record.time(4, "revoked_at")?) },
        })
    };
    list.query_and_then([], read)?.collect()
}

pub(crate) fn revoke_key(tx: &Tx<'_>, key: KeyId) -> Result<bool, Fault> {
    let mut delete = tx.conn.prepare_cached(DELETE_KEY)?;
    Ok(delete.execute(params![key.as_bytes(), tx.now.as_micros()])? == 1)
}

pub(crate) fn find_key(conn: &Connection, hash: &ApiKeyHash) -> Result<Option<KeyScope>, Fault> {
    let mut find = conn.prepare_cached(FIND_KEY)?;
    let mut rows = find.query([hash])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(scope(Record::new(row, "api_key").get(0, "environment")?)))
}

fn scope(environment: Option<i32>) -> KeyScope {
    environment.map_or(KeyScope::Admin, |number| KeyScope::Environment(EnvironmentId(number)))
}
