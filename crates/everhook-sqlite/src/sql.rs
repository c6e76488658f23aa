//! Runs statements: prepared once per connection, with rows decoded as they come.

use everhook_core::id::Id;
use everhook_store::catalog::Order;
use everhook_store::seal::Seal;
use everhook_store::sql::answer::Answer;
use everhook_store::sql::cell::{Cells, Read};
use everhook_store::sql::param::{Scalar, Value};
use everhook_store::sql::statement::{Statement, Text};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Row, ToSql, params_from_iter};

use crate::connection::Connection;
use crate::error::Fault;
use crate::rows::Reader;
use crate::{
    append, background, backlog, deliveries, directory, egress, environment, failure, feed, history, operational, poll,
    queue, quota, request, resource, schedule, seal, settle, token, traffic,
};

pub(crate) fn run<S: Statement>(conn: &Connection, statement: S) -> Result<S::Answer, Fault> {
    run_with(conn, conn.seal(), statement)
}

/// Runs a statement that reads no secrets.
pub(crate) fn run_plain<S: Statement>(conn: &rusqlite::Connection, statement: S) -> Result<S::Answer, Fault> {
    run_with(conn, Seal::NONE, statement)
}

fn run_with<S: Statement>(conn: &rusqlite::Connection, seal: &Seal, statement: S) -> Result<S::Answer, Fault> {
    let call = statement.call();
    let mut prepared = conn.prepare_cached(call.sql())?;
    let mut rows = prepared.query(params_from_iter(call.values.iter().map(Bound)))?;
    let mut answer = S::Answer::default();
    while let Some(row) = rows.next()? {
        answer.add(&mut Cursor { row, table: call.text.name(), at: 0, seal })?;
    }
    answer.set_changed(conn.changes());
    Ok(answer)
}

/// Decodes a value without secrets that starts at a column of a row.
pub(crate) fn read_at<T: Read>(row: &Row<'_>, at: usize) -> Result<T, Fault> {
    T::read(&mut Cursor { row, table: "row", at, seal: Seal::NONE }, "1st")
}

struct Bound<'c>(&'c Value<'c>);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let Value::One(scalar) = self.0 else {
            let refused = "SQLite has no arrays";
            return Err(rusqlite::Error::ToSqlConversionFailure(refused.into()));
        };
        Ok(match scalar {
            Scalar::Null => ToSqlOutput::Borrowed(ValueRef::Null),
            Scalar::Bool(value) => ToSqlOutput::Borrowed(ValueRef::Integer((*value).into())),
            Scalar::Int(value) => ToSqlOutput::Borrowed(ValueRef::Integer(*value)),
            Scalar::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Scalar::Bytes(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
            Scalar::Id(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
        })
    }
}

/// Reads the cells of one row from left to right.
struct Cursor<'r> {
    row: &'r Row<'r>,
    table: &'static str,
    at: usize,
    seal: &'r Seal,
}

impl<'r> Cursor<'r> {
    fn next(&mut self) -> Option<ValueRef<'r>> {
        let value = self.row.get_ref(self.at).ok();
        self.at += 1;
        value
    }
}

impl Cells for Cursor<'_> {
    type Fault = Fault;

    fn is_null(&self) -> bool {
        matches!(self.row.get_ref(self.at), Ok(ValueRef::Null))
    }

    fn skip(&mut self, cells: usize) {
        self.at += cells;
    }

    fn set_table(&mut self, table: &'static str) {
        self.table = table;
    }

    fn corrupt(&self, column: &'static str) -> Fault {
        Fault::Corrupt { table: self.table, column }
    }

    fn seal(&self) -> &Seal {
        self.seal
    }

    fn bool(&mut self) -> Option<bool> {
        self.int().map(|number| number != 0)
    }

    fn int(&mut self) -> Option<i64> {
        self.next()?.as_i64().ok()
    }

    fn text(&mut self) -> Option<&str> {
        self.next()?.as_str().ok()
    }

    fn bytes(&mut self) -> Option<&[u8]> {
        self.next()?.as_blob().ok()
    }

    fn texts(&mut self) -> Option<Vec<String>> {
        self.text().and_then(|text| serde_json::from_str(text).ok())
    }
}

/// Returns a list statement for a direction; the file has the ascending one.
pub(crate) fn directed(sql: &'static str, order: Order) -> String {
    match order {
        Order::Ascending => sql.to_owned(),
        Order::Descending => sql.replace(" asc\n", " desc\n"),
    }
}

/// Returns the exclusive bounds of a slice; `ends` lie outside of all keys.
pub(crate) fn bounds<'k, K: ?Sized>(after: Option<&'k K>, order: Order, ends: (&'k K, &'k K)) -> (&'k K, &'k K) {
    match order {
        Order::Ascending => (after.unwrap_or(ends.0), ends.1),
        Order::Descending => (ends.0, after.unwrap_or(ends.1)),
    }
}

/// Returns the id of the last of `scan` rows, or none if there are fewer.
pub(crate) fn scan_end(
    conn: &Connection,
    sql: &'static str,
    order: Order,
    params: &[&dyn ToSql],
    scan: usize,
) -> Result<Option<Id>, Fault> {
    let offset = limit(scan.saturating_sub(1));
    let mut all = params.to_vec();
    all.push(&offset);
    let mut find = conn.prepare_cached(&directed(sql, order))?;
    let mut rows = find.query(all.as_slice())?;
    rows.next()?.map(|row| Reader::new(row, "scan").id(0, "id")).transpose()
}

/// Converts a number of rows to SQLite's integer.
pub(crate) fn limit(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

/// The statements of every module.
const ALL: &[&[fn() -> &'static Text]] = &[
    append::STATEMENTS,
    background::STATEMENTS,
    backlog::STATEMENTS,
    deliveries::STATEMENTS,
    deliveries::steer::STATEMENTS,
    egress::STATEMENTS,
    directory::STATEMENTS,
    environment::STATEMENTS,
    history::delivery::STATEMENTS,
    failure::STATEMENTS,
    feed::STATEMENTS,
    operational::STATEMENTS,
    poll::STATEMENTS,
    queue::STATEMENTS,
    quota::STATEMENTS,
    request::STATEMENTS,
    resource::STATEMENTS,
    resource::PROJECTION_STATEMENTS,
    schedule::fire::STATEMENTS,
    seal::STATEMENTS,
    settle::STATEMENTS,
    token::STATEMENTS,
    traffic::STATEMENTS,
];

/// Returns the text of a declared statement, for tests; lists in ascending order.
pub fn statement_text(name: &str) -> Option<&'static str> {
    let mut texts = ALL.iter().flat_map(|texts| texts.iter()).map(|text| text());
    texts.find(|text| text.name() == name).map(|text| text.sql(Order::Ascending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_declared_query_can_be_expanded() {
        assert!(ALL.concat().iter().all(|text| !text().name().is_empty()));
    }
}
