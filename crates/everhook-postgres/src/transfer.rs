//! Writes every table of a copied store, in one transaction: either all rows are there afterwards, or none.
//!
//! Refuses a database that has rows already, and tables or columns that this schema does not have. Counts every table
//! before it commits.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;

use everhook_store::error::BoxError;
use everhook_store::transfer::{TransferRow, TransferTable, TransferValue};
use tokio_postgres::Client;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};

use crate::connection::{Connector, Route, address, settings};
use crate::error::PostgresOpenError;
use crate::migrate;
use crate::partition::WEEK_SECS;

/// The columns of all tables that have values of their own. Partitions are left out.
const COLUMNS: &str = "select relation.relname::text, attribute.attname::text, attribute.atttypid \
    from pg_catalog.pg_class as relation \
    join pg_catalog.pg_attribute as attribute on attribute.attrelid = relation.oid \
    where relation.relnamespace = 'everhook'::regnamespace and relation.relkind in ('r', 'p') \
        and not relation.relispartition and attribute.attnum > 0 and not attribute.attisdropped \
        and attribute.attgenerated = ''";

/// The reason why a store could not be copied. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    #[error(transparent)]
    Open(#[from] PostgresOpenError),
    #[error("the database at {address} is not empty: its table {table} has rows; use a new database")]
    NotEmpty { address: String, table: String },
    #[error("the target has no column {column} in its table {table}: use the same version of everhook for both stores")]
    UnknownColumn { table: String, column: String },
    #[error("a value in {table}.{column} does not fit the column of the target")]
    BadValue { table: String, column: String },
    #[error("could not copy {table}")]
    Table {
        table: String,
        #[source]
        source: BoxError,
    },
    #[error("the target has {found} rows in {table}, the source has {wanted}: nothing was copied")]
    Count { table: String, wanted: u64, found: u64 },
}

/// The weeks that the rows of a copy need partitions for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransferWeeks(BTreeSet<u32>);

impl TransferWeeks {
    /// Adds the week of an id by the seconds at its start.
    pub fn add(&mut self, seconds: u32) {
        self.0.insert(seconds / WEEK_SECS);
    }
}

/// An empty database that a copy is written to. Without [`PostgresTransfer::commit`], it stays empty.
pub struct PostgresTransfer {
    client: Client,
    address: String,
    columns: BTreeMap<String, BTreeMap<String, Type>>,
}

/// Writes the rows of one table.
pub struct TransferWriter {
    table: String,
    columns: Vec<(String, Type)>,
    writer: Pin<Box<BinaryCopyInWriter>>,
}

impl PostgresTransfer {
    /// Connects to a database with the schema of this binary, and begins the transaction.
    pub async fn begin(url: &str) -> Result<PostgresTransfer, TransferError> {
        let config = settings(url, Route::Pooler)?;
        let address = address(&config);
        let client = Connector::new(url, &config)?.open_now(&config).await?;
        let failed = |source: tokio_postgres::Error| PostgresOpenError::Statement {
            address: address.clone(),
            what: "begin to copy",
            source: Box::new(source),
        };
        migrate::check(&address, &migrate::read_version(&client).await.map_err(failed)?)?;
        // A server that starts meanwhile waits for the lock, and finds all rows or none.
        let begin = "begin isolation level read committed; set local statement_timeout = 0; \
            set local idle_in_transaction_session_timeout = 0; set local lock_timeout = '10s'; \
            lock table everhook.session in exclusive mode";
        client.batch_execute(begin).await.map_err(failed)?;
        let mut columns: BTreeMap<String, BTreeMap<String, Type>> = BTreeMap::new();
        for row in client.query(COLUMNS, &[]).await.map_err(failed)? {
            let (table, column, kind): (String, String, u32) = (row.get(0), row.get(1), row.get(2));
            columns.entry(table).or_default().insert(column, Type::from_oid(kind).unwrap_or(Type::UNKNOWN));
        }
        Ok(PostgresTransfer { client, address, columns })
    }

    /// Refuses tables that the target lacks, and a target with rows in one of them. Creates the partitions.
    pub async fn prepare(&self, tables: &[TransferTable], weeks: &TransferWeeks) -> Result<(), TransferError> {
        for table in tables {
            self.columns_of(table)?;
            let first = format!("select count(*) from (select from everhook.{} limit 1) as first", table.name);
            if self.count(&table.name, &first).await? > 0 {
                return Err(TransferError::NotEmpty { address: self.address.clone(), table: table.name.clone() });
            }
        }
        for week in &weeks.0 {
            let week = i32::try_from(*week).unwrap_or(i32::MAX);
            let made = self.client.execute("select everhook.make_week($1)", &[&week]).await;
            made.map_err(|error| failed("partitions", error))?;
        }
        Ok(())
    }

    /// Starts the copy of one table.
    pub async fn table(&self, table: &TransferTable) -> Result<TransferWriter, TransferError> {
        let columns = self.columns_of(table)?;
        let names = table.columns.iter().map(|column| format!("\"{column}\"")).collect::<Vec<_>>().join(", ");
        let copy = format!("copy everhook.{} ({names}) from stdin binary", table.name);
        let sink = self.client.copy_in(&copy).await.map_err(|error| failed(&table.name, error))?;
        let types: Vec<Type> = columns.iter().map(|(_, kind)| kind.clone()).collect();
        let writer = Box::pin(BinaryCopyInWriter::new(sink, &types));
        Ok(TransferWriter { table: table.name.clone(), columns, writer })
    }

    /// Compares the number of rows in every table, and makes the copy durable.
    pub async fn commit(self, tables: &[TransferTable]) -> Result<(), TransferError> {
        for TransferTable { name, rows, .. } in tables {
            let found = self.count(name, &format!("select count(*) from everhook.{name}")).await?;
            if found != *rows {
                return Err(TransferError::Count { table: name.clone(), wanted: *rows, found });
            }
        }
        // New environments get numbers after the copied ones.
        let next = "select pg_catalog.setval(pg_catalog.pg_get_serial_sequence('everhook.environment', 'id'), max(id)) \
            from everhook.environment having max(id) > 0; commit; analyze";
        self.client.batch_execute(next).await.map_err(|error| failed("the end of the copy", error))
    }

    fn columns_of(&self, table: &TransferTable) -> Result<Vec<(String, Type)>, TransferError> {
        let known = self.columns.get(&table.name);
        let find = |column: &String| {
            let unknown = || TransferError::UnknownColumn { table: table.name.clone(), column: column.clone() };
            known.and_then(|known| known.get(column)).map(|kind| (column.clone(), kind.clone())).ok_or_else(unknown)
        };
        table.columns.iter().map(find).collect()
    }

    async fn count(&self, table: &str, sql: &str) -> Result<u64, TransferError> {
        let row = self.client.query_one(sql, &[]).await.map_err(|error| failed(table, error))?;
        Ok(row.get::<_, i64>(0).unsigned_abs())
    }
}

impl TransferWriter {
    pub async fn write(&mut self, rows: &[TransferRow]) -> Result<(), TransferError> {
        for row in rows {
            let mut values: Vec<Box<dyn ToSql + Sync + Send>> = Vec::with_capacity(row.len());
            for (value, (column, kind)) in row.iter().zip(&self.columns) {
                let bad = || TransferError::BadValue { table: self.table.clone(), column: column.clone() };
                values.push(converted(value, kind).ok_or_else(bad)?);
            }
            let values = values.iter().map(|value| &**value as &(dyn ToSql + Sync));
            self.writer.as_mut().write_raw(values).await.map_err(|error| failed(&self.table, error))?;
        }
        Ok(())
    }

    /// Ends the copy of the table.
    pub async fn finish(mut self) -> Result<(), TransferError> {
        self.writer.as_mut().finish().await.map(drop).map_err(|error| failed(&self.table, error))
    }
}

fn failed(table: &str, error: tokio_postgres::Error) -> TransferError {
    TransferError::Table { table: table.to_owned(), source: Box::new(error) }
}

/// Converts a value to the type of its column; none if it does not fit.
fn converted(value: &TransferValue, kind: &Type) -> Option<Box<dyn ToSql + Sync + Send>> {
    Some(match (value, kind) {
        (TransferValue::Null, &Type::INT2) => Box::new(None::<i16>),
        (TransferValue::Null, &Type::INT4) => Box::new(None::<i32>),
        (TransferValue::Null, &Type::INT8) => Box::new(None::<i64>),
        (TransferValue::Null, &Type::BOOL) => Box::new(None::<bool>),
        (TransferValue::Null, &Type::TEXT) => Box::new(None::<String>),
        (TransferValue::Null, &Type::BYTEA) => Box::new(None::<Vec<u8>>),
        (TransferValue::Int(number), &Type::INT2) => Box::new(i16::try_from(*number).ok()?),
        (TransferValue::Int(number), &Type::INT4) => Box::new(i32::try_from(*number).ok()?),
        (TransferValue::Int(number), &Type::INT8) => Box::new(*number),
        (TransferValue::Int(number @ (0 | 1)), &Type::BOOL) => Box::new(*number == 1),
        (TransferValue::Text(text), &Type::TEXT) => Box::new(text.clone()),
        (TransferValue::Bytes(bytes), &Type::BYTEA) => Box::new(bytes.clone()),
        _ => return None,
    })
}
