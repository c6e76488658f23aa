//! Brings the schema to the version of this binary: forward only, one transaction per step, under a lock.
//!
//! The schema records the oldest version that a binary must know to work with it. An older binary keeps running while a
//! newer one is rolled out, and a binary that is too old is refused instead of damaging data.

use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

use crate::connection::{Connector, Route, address, settings};
use crate::error::PostgresOpenError;

struct Migration {
    name: &'static str,
    /// The version that a binary must know to work with the schema after this step.
    compatible_from: i32,
    sql: &'static str,
}

/// In order; the first one is version 1.
const MIGRATIONS: &[Migration] = &[
    Migration { name: "0001_catalog", compatible_from: 1, sql: include_str!("../migrations/0001_catalog.sql") },
    Migration { name: "0002_history", compatible_from: 2, sql: include_str!("../migrations/0002_history.sql") },
    Migration { name: "0003_work", compatible_from: 3, sql: include_str!("../migrations/0003_work.sql") },
    Migration { name: "0004_outbox", compatible_from: 4, sql: include_str!("../migrations/0004_outbox.sql") },
];

/// The version that this binary knows and needs.
pub(crate) const SCHEMA_VERSION: i32 = MIGRATIONS.len() as i32;

/// The lock of all migrations; "everhook" in ASCII.
const SCHEMA_LOCK: i64 = 0x6576_6572_686f_6f6b;

/// The result of a migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresMigrationReport {
    /// The version before; 0 if there was no schema.
    pub from: i32,
    /// The version afterwards.
    pub to: i32,
    /// The names of the applied steps.
    pub applied: Vec<&'static str>,
}

/// Creates or upgrades the schema. Repeated or concurrent calls are harmless.
pub async fn migrate(url: &str) -> Result<PostgresMigrationReport, PostgresOpenError> {
    // The migration also works through a pooler, which may be the only route.
    let config = settings(url, Route::Pooler)?;
    let address = address(&config);
    let client = Connector::new(url, &config)?.open_now(&config).await?;
    let failed = |source| PostgresOpenError::Statement {
        address: address.clone(),
        what: "migrate the schema",
        source: Box::new(source),
    };
    let mut report = PostgresMigrationReport { from: 0, to: 0, applied: Vec::new() };
    for round in 0..=MIGRATIONS.len() {
        begin(&client).await.map_err(failed)?;
        let found = read_version(&client).await.map_err(failed)?;
        check_known(&address, &found)?;
        if round == 0 {
            report.from = found.version;
        }
        report.to = found.version;
        let next = usize::try_from(found.version).ok().and_then(|version| MIGRATIONS.get(version));
        let Some(migration) = next else {
            client.batch_execute("commit").await.map_err(failed)?;
            break;
        };
        apply(&client, found.version + 1, migration).await.map_err(failed)?;
        report.applied.push(migration.name);
    }
    Ok(report)
}

/// The version of a schema, and the oldest binary version that can use it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SchemaVersion {
    pub(crate) version: i32,
    pub(crate) compatible_from: i32,
    /// The name of a step that has another name in this binary.
    foreign_step: Option<String>,
}

/// Refuses a schema that this binary cannot use.
pub(crate) fn check(address: &str, found: &SchemaVersion) -> Result<(), PostgresOpenError> {
    if found.version == 0 {
        return Err(PostgresOpenError::NoSchema { address: address.to_owned() });
    }
    check_known(address, found)?;
    if found.version < SCHEMA_VERSION {
        let (address, found) = (address.to_owned(), found.version);
        return Err(PostgresOpenError::SchemaTooOld { address, found, needed: SCHEMA_VERSION });
    }
    Ok(())
}

/// Refuses a schema that is too new, or that has other steps than this binary.
pub(crate) fn check_known(address: &str, found: &SchemaVersion) -> Result<(), PostgresOpenError> {
    if let Some(step) = &found.foreign_step {
        return Err(PostgresOpenError::ForeignSchema { address: address.to_owned(), step: step.clone() });
    }
    if found.compatible_from <= SCHEMA_VERSION {
        return Ok(());
    }
    Err(PostgresOpenError::SchemaTooNew {
        address: address.to_owned(),
        found: found.version,
        oldest: found.compatible_from,
        known: SCHEMA_VERSION,
    })
}

/// Reads the version of the schema; 0 if there is none.
pub(crate) async fn read_version(client: &Client) -> Result<SchemaVersion, tokio_postgres::Error> {
    let absent = "select to_regclass('everhook.schema_version') is null";
    // Unnamed statements, because the query may go through a pooler.
    let rows = client.query_typed(absent, &[]).await?;
    if rows.first().map_or(Ok(true), |row| row.try_get(0))? {
        return Ok(SchemaVersion::default());
    }
    let names: Vec<&str> = MIGRATIONS.iter().map(|migration| migration.name).collect();
    let sql = "select coalesce(max(version), 0), coalesce(max(compatible_from), 0), \
        min(name) filter (where name <> ($1::text[])[version]) from everhook.schema_version";
    let rows = client.query_typed(sql, &[(&names, Type::TEXT_ARRAY)]).await?;
    match rows.first() {
        Some(row) => Ok(SchemaVersion {
            version: row.try_get(0)?,
            compatible_from: row.try_get(1)?,
            foreign_step: row.try_get(2)?,
        }),
        None => Ok(SchemaVersion::default()),
    }
}

async fn begin(client: &Client) -> Result<(), tokio_postgres::Error> {
    client.batch_execute("begin isolation level read committed").await?;
    client.batch_execute(&format!("select pg_advisory_xact_lock({SCHEMA_LOCK})")).await
}

async fn apply(client: &Client, version: i32, migration: &Migration) -> Result<(), tokio_postgres::Error> {
    if version == 1 {
        client
            .batch_execute(
                "create schema if not exists everhook;
                create table everhook.schema_version (
                    version integer primary key,
                    name text not null,
                    compatible_from integer not null,
                    applied_at timestamptz not null default now()
                )",
            )
            .await?;
    }
    client.batch_execute(migration.sql).await?;
    let record = "insert into everhook.schema_version (version, name, compatible_from) values ($1, $2, $3)";
    let values: [(&(dyn ToSql + Sync), Type); 3] =
        [(&version, Type::INT4), (&migration.name, Type::TEXT), (&migration.compatible_from, Type::INT4)];
    client.execute_typed(record, &values).await?;
    client.batch_execute("commit").await
}
