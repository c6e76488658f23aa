//! Reads every table for a copy to another store. No server may use the file meanwhile.

use std::fs::File;
use std::path::{Path, PathBuf};

use everhook_store::transfer::{TransferRow, TransferTable, TransferValue};
use rusqlite::Connection;
use rusqlite::types::ValueRef;

use crate::error::Fault;
use crate::open::{self, Cause, ConnectionRole, SqliteOpenError};
use crate::{clock, close_node_sessions, egress, migrate};

/// Rows that are passed on together.
const ROWS_PER_BATCH: usize = 500;
/// Bytes of texts and blobs after which a batch ends early.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A store that is being read. It keeps servers out as long as it exists.
pub struct SqliteTransfer {
    conn: Connection,
    file: PathBuf,
    _lock: File,
}

impl SqliteTransfer {
    /// Opens the store in `folder`, which must have the schema of this binary, and closes the sessions of its servers.
    pub fn open(folder: &Path) -> Result<SqliteTransfer, SqliteOpenError> {
        open::check_version()?;
        let file = open::existing_file(folder)?;
        let lock = open::lock(folder)?;
        let named = |error: rusqlite::Error| Cause::from(error).at(&file);
        let conn = open::connect(&file, ConnectionRole::Write).map_err(named)?;
        migrate::require(&conn, &file)?;
        // The lock proves that no server is alive. Other nodes may take over the tasks of a closed session at once.
        close_node_sessions(&conn).map_err(named)?;
        Ok(SqliteTransfer { conn, file, _lock: lock })
    }

    /// Lists the tables in a fixed order.
    pub fn tables(&self) -> Result<Vec<TransferTable>, SqliteOpenError> {
        self.read_tables().map_err(|error| Cause::from(error).at(&self.file))
    }

    /// Passes on all rows of a table in batches, until `each` returns false.
    pub fn read(
        &self,
        table: &TransferTable,
        each: impl FnMut(Vec<TransferRow>) -> bool,
    ) -> Result<(), SqliteOpenError> {
        self.read_rows(table, each).map_err(|error| Cause::from(error).at(&self.file))
    }

    /// Passes on the seconds at the start of the id of every message and job, also of those that only attempts name.
    pub fn id_seconds(&self, mut each: impl FnMut(u32)) -> Result<(), SqliteOpenError> {
        let mut read = |sql: &str| -> Result<(), rusqlite::Error> {
            let mut ids = self.conn.prepare(sql)?;
            let mut rows = ids.query([])?;
            while let Some(row) = rows.next()? {
                if let Some(start) = row.get_ref(0)?.as_blob()?.first_chunk() {
                    each(u32::from_be_bytes(*start));
                }
            }
            Ok(())
        };
        ["select id from message", "select id from job", "select subject from attempt"]
            .into_iter()
            .try_for_each(&mut read)
            .map_err(|error| Cause::from(error).at(&self.file))
    }

    /// Pauses the egress of this store, whose tasks now belong to its copy.
    pub fn retire(&self, reason: &str) -> Result<(), SqliteOpenError> {
        let paused = egress::start(&self.conn, reason, clock::wall()).map_err(|fault| match fault {
            Fault::Sql(error) => error,
            // The statement reads no row that could be corrupt.
            Fault::Corrupt { .. } => rusqlite::Error::InvalidQuery,
        });
        paused.map_err(|error| Cause::from(error).at(&self.file))
    }

    fn read_tables(&self) -> Result<Vec<TransferTable>, rusqlite::Error> {
        let names = "select name from sqlite_schema where type = 'table' and name <> 'schema_version' \
                     and name not like 'sqlite~_%' escape '~' order by name";
        let names: Vec<String> =
            self.conn.prepare(names)?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        let table = |name: String| {
            // Generated columns are not in this list.
            let mut columns = self.conn.prepare("select name from pragma_table_info(?1) order by cid")?;
            let columns = columns.query_map([&name], |row| row.get(0))?.collect::<Result<_, _>>()?;
            let rows: i64 = self.conn.query_row(&format!("select count(*) from {name}"), [], |row| row.get(0))?;
            Ok(TransferTable { name, columns, rows: rows.unsigned_abs() })
        };
        names.into_iter().map(table).collect()
    }

    fn read_rows(
        &self,
        table: &TransferTable,
        mut each: impl FnMut(Vec<TransferRow>) -> bool,
    ) -> Result<(), rusqlite::Error> {
        let columns = table.columns.iter().map(|column| format!("\"{column}\"")).collect::<Vec<_>>().join(", ");
        let mut select = self.conn.prepare(&format!("select {columns} from {}", table.name))?;
        let mut rows = select.query([])?;
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(row) = rows.next()? {
            let values =
                (0..table.columns.len()).map(|column| row.get_ref(column).and_then(|value| Ok(copied(value)?)));
            let values = values.collect::<Result<TransferRow, _>>()?;
            bytes += values.iter().map(size).sum::<usize>();
            batch.push(values);
            if batch.len() >= ROWS_PER_BATCH || bytes >= BATCH_BYTES_MAX {
                bytes = 0;
                if !each(std::mem::take(&mut batch)) {
                    return Ok(());
                }
            }
        }
        if !batch.is_empty() {
            each(batch);
        }
        Ok(())
    }
}

fn copied(value: ValueRef<'_>) -> Result<TransferValue, rusqlite::types::FromSqlError> {
    Ok(match value {
        ValueRef::Null => TransferValue::Null,
        ValueRef::Integer(number) => TransferValue::Int(number),
        ValueRef::Text(_) => TransferValue::Text(value.as_str()?.to_owned()),
        ValueRef::Blob(bytes) => TransferValue::Bytes(bytes.to_vec()),
        // No strict table of the store has such a column.
        ValueRef::Real(_) => return Err(rusqlite::types::FromSqlError::InvalidType),
    })
}

fn size(value: &TransferValue) -> usize {
    match value {
        TransferValue::Null | TransferValue::Int(_) => 8,
        TransferValue::Text(text) => text.len(),
        TransferValue::Bytes(bytes) => bytes.len(),
    }
}
