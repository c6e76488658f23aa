//! Brings a file's schema to the version of this binary: forward only, one transaction per step.
//!
//! The schema records its version and the oldest version that a binary must know, so that an older binary refuses only
//! a schema that it cannot use.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use tracing::info;

use crate::clock;
use crate::open::{self, Cause, ConnectionRole, SqliteOpenError};

struct Migration {
    version: i64,
    /// The oldest version that a binary must know to use a file with this step.
    compatible_from: i64,
    name: &'static str,
    sql: &'static str,
}

macro_rules! migrations {
    ($($version:literal $name:literal compatible from $from:literal;)*) => {
        &[$(Migration {
            version: $version,
            compatible_from: $from,
            name: $name,
            sql: include_str!(concat!("../migrations/", $name, ".sql")),
        }),*]
    };
}

const MIGRATIONS: &[Migration] = migrations! {
    1 "0001_catalog" compatible from 1;
    2 "0002_history" compatible from 2;
    3 "0003_work" compatible from 3;
};

const CREATE_SCHEMA_VERSION: &str = "create table if not exists schema_version (
    version integer primary key,
    compatible_from integer not null,
    name text not null,
    applied_at integer not null
) strict";

/// The result of a migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqliteMigrationReport {
    /// The version before; 0 for a new file.
    pub from: i64,
    /// The version afterwards.
    pub to: i64,
    /// The names of the applied steps.
    pub applied: Vec<&'static str>,
}

/// Brings the file in `folder` up to date; creates it if it does not exist. No process may serve it meanwhile.
pub fn migrate(folder: &Path) -> Result<SqliteMigrationReport, SqliteOpenError> {
    open::check_version()?;
    let file = open::ensure_file(folder)?;
    let _lock = open::lock(folder)?;
    let mut conn = open::connect(&file, ConnectionRole::Write).map_err(|error| Cause::from(error).at(&file))?;
    let report = apply(&mut conn, &file)?;
    open::mark_used(folder);
    open::sync_folder(folder).map_err(|error| Cause::Io(error).at(folder))?;
    Ok(report)
}

/// The newest version that this binary knows.
pub(crate) const fn known() -> i64 {
    MIGRATIONS[MIGRATIONS.len() - 1].version
}

/// Applies every step that the file lacks.
pub(crate) fn apply(conn: &mut Connection, file: &Path) -> Result<SqliteMigrationReport, SqliteOpenError> {
    let named = |error: rusqlite::Error| Cause::from(error).at(file);
    conn.execute_batch(CREATE_SCHEMA_VERSION).map_err(named)?;
    let from = check(conn, file)?;
    let mut applied = Vec::new();
    for step in MIGRATIONS.iter().filter(|step| step.version > from) {
        if apply_step(conn, step).map_err(named)? {
            info!(migration = step.name, "applied migration {}", step.name);
            applied.push(step.name);
        }
    }
    Ok(SqliteMigrationReport { from, to: from.max(known()), applied })
}

/// Applies one step, unless another process has done so in the meantime.
fn apply_step(conn: &mut Connection, step: &Migration) -> Result<bool, rusqlite::Error> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let has = "select 1 from schema_version where version = ?1";
    if tx.query_row(has, [step.version], |_| Ok(())).optional()?.is_some() {
        return Ok(false);
    }
    tx.execute_batch(step.sql)?;
    let applied = "insert into schema_version (version, compatible_from, name, applied_at) values (?1, ?2, ?3, ?4)";
    tx.execute(applied, params![step.version, step.compatible_from, step.name, clock::wall().as_micros()])?;
    tx.commit()?;
    Ok(true)
}

/// Accepts a schema that this binary can use without a migration.
pub(crate) fn require(conn: &Connection, file: &Path) -> Result<(), SqliteOpenError> {
    let found = check(conn, file)?;
    if found == 0 {
        return Err(open::missing(file));
    }
    if found < known() {
        return Err(SqliteOpenError::OlderSchema { path: file.to_owned(), found, known: known() });
    }
    Ok(())
}

/// Returns the schema's version, 0 for a new file; refuses a schema that is too new.
pub(crate) fn check(conn: &Connection, file: &Path) -> Result<i64, SqliteOpenError> {
    let (found, needs) = read_version(conn).map_err(|error| Cause::from(error).at(file))?;
    if let Some(step) = foreign_step(conn).map_err(|error| Cause::from(error).at(file))? {
        return Err(SqliteOpenError::ForeignSchema { path: file.to_owned(), step });
    }
    if needs > known() {
        return Err(SqliteOpenError::NewerSchema { path: file.to_owned(), found, needs, known: known() });
    }
    Ok(found)
}

/// The name of the first step that has another name in this binary.
fn foreign_step(conn: &Connection) -> Result<Option<String>, rusqlite::Error> {
    if !has_versions(conn)? {
        return Ok(None);
    }
    for step in MIGRATIONS {
        let other = "select name from schema_version where version = ?1 and name <> ?2";
        if let Some(name) = conn.query_row(other, params![step.version, step.name], |row| row.get(0)).optional()? {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

fn has_versions(conn: &Connection) -> Result<bool, rusqlite::Error> {
    let table = "select 1 from sqlite_schema where name = 'schema_version'";
    Ok(conn.query_row(table, [], |_| Ok(())).optional()?.is_some())
}

fn read_version(conn: &Connection) -> Result<(i64, i64), rusqlite::Error> {
    if !has_versions(conn)? {
        return Ok((0, 0));
    }
    let version = "select coalesce(max(version), 0), coalesce(max(compatible_from), 0) from schema_version";
    conn.query_row(version, [], |row| Ok((row.get(0)?, row.get(1)?)))
}
