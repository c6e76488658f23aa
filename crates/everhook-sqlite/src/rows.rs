//! Decodes and encodes rows. A value that breaks a rule of the schema is reported, never guessed.

use everhook_core::id::{EnvironmentId, Id};
use everhook_core::name::Name;
use everhook_core::task::Task;
use everhook_core::time::Timestamp;
use everhook_store::sql::cell::FromCells as _;
use rusqlite::Row;
use rusqlite::types::{FromSql, ValueRef};
use serde::Serialize;

use crate::error::Fault;
use crate::sql::read_at;

/// Sorts before every id.
pub(crate) const BELOW_IDS: &[u8] = &[];
/// Sorts after every id.
pub(crate) const ABOVE_IDS: &[u8] = &[0xff; everhook_core::id::ID_BYTES + 1];

/// A row of a table, read by position; the column's name is for errors.
pub(crate) struct Reader<'r> {
    row: &'r Row<'r>,
    table: &'static str,
}

impl<'r> Reader<'r> {
    pub(crate) fn new(row: &'r Row<'r>, table: &'static str) -> Reader<'r> {
        Reader { row, table }
    }

    pub(crate) fn corrupt(&self, column: &'static str) -> Fault {
        Fault::Corrupt { table: self.table, column }
    }

    pub(crate) fn get<T: FromSql>(&self, index: usize, column: &'static str) -> Result<T, Fault> {
        self.row.get(index).map_err(|_| self.corrupt(column))
    }

    pub(crate) fn id(&self, index: usize, column: &'static str) -> Result<Id, Fault> {
        let value = self.row.get_ref(index)?;
        value.as_blob().ok().and_then(Id::from_slice).ok_or_else(|| self.corrupt(column))
    }

    pub(crate) fn optional_id(&self, index: usize, column: &'static str) -> Result<Option<Id>, Fault> {
        if self.is_null(index)? { Ok(None) } else { self.id(index, column).map(Some) }
    }

    pub(crate) fn environment(&self, index: usize) -> Result<EnvironmentId, Fault> {
        self.get(index, "environment").map(EnvironmentId)
    }

    pub(crate) fn time(&self, index: usize, column: &'static str) -> Result<Timestamp, Fault> {
        self.get(index, column).map(Timestamp::from_micros)
    }

    pub(crate) fn is_null(&self, index: usize) -> Result<bool, Fault> {
        Ok(self.row.get_ref(index)? == ValueRef::Null)
    }

    /// Decodes a number that stands for a variant.
    pub(crate) fn variant<T>(
        &self,
        index: usize,
        column: &'static str,
        from_db: impl FnOnce(i16) -> Option<T>,
    ) -> Result<T, Fault> {
        from_db(self.get(index, column)?).ok_or_else(|| self.corrupt(column))
    }
}

/// Encodes a value as JSON. The types of the core can always be encoded.
pub(crate) fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<String, Fault> {
    serde_json::to_string(value).map_err(|error| Fault::Sql(rusqlite::Error::ToSqlConversionFailure(Box::new(error))))
}

/// Encodes names as a JSON array; none if there are none.
pub(crate) fn names_to_json(names: &[Name]) -> Result<Option<String>, Fault> {
    if names.is_empty() { Ok(None) } else { to_json(names).map(Some) }
}

/// The number of columns that [`task`] reads.
pub(crate) const TASK_COLUMNS: usize = Task::WIDTH;

/// Decodes the columns of a task, from column `first` on.
pub(crate) fn task(row: &Row<'_>, first: usize) -> Result<Task, Fault> {
    read_at(row, first)
}
