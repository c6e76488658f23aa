//! Runs statements: prepared once per connection, with rows decoded as they come.

use everhook_core::id::ID_BYTES;
use everhook_store::catalog::Order;
use everhook_store::seal::Seal;
use everhook_store::sql::answer::FromRows;
use everhook_store::sql::cell::{Cells, FromCells};
use everhook_store::sql::param::{Scalar, Sink, Value};
use everhook_store::sql::shared::SHARED;
use everhook_store::sql::statement::{Statement, Text, TextOf};
use rusqlite::types::{Null, ValueRef};
use rusqlite::{CachedStatement, Row, ToSql};

use crate::DIALECT;
use crate::connection::Connection;
use crate::error::Fault;
use crate::{
    append, background, backlog, batch, dedup, deliveries, directory, endpoints, environment, failure, feed, history,
    job, lease, once, order, outbox, poll, queue, resource, retention, schedule, seal, session, settle, steer, token,
    traffic, worker,
};

pub(crate) fn run<S: Statement>(conn: &Connection, statement: S) -> Result<S::Answer, Fault> {
    run_with(conn, conn.seal(), statement)
}

/// Runs a statement that reads no secrets.
pub(crate) fn run_plain<S: Statement>(conn: &rusqlite::Connection, statement: S) -> Result<S::Answer, Fault> {
    run_with(conn, Seal::NONE, statement)
}

fn run_with<S: Statement>(conn: &rusqlite::Connection, seal: &Seal, statement: S) -> Result<S::Answer, Fault> {
    Prepared::new(conn, seal, S::text(DIALECT), statement.order())?.run(statement)
}

/// Prepares a statement that runs many times.
pub(crate) fn prepare<S: Statement>(conn: &Connection) -> Result<Prepared<'_>, Fault> {
    Prepared::new(conn, conn.seal(), S::text(DIALECT), Order::Ascending)
}

/// A statement that is looked up once and run many times, each time with values of another lifetime.
pub(crate) struct Prepared<'c> {
    conn: &'c rusqlite::Connection,
    seal: &'c Seal,
    text: &'static Text,
    inner: CachedStatement<'c>,
}

impl<'c> Prepared<'c> {
    fn new(
        conn: &'c rusqlite::Connection,
        seal: &'c Seal,
        text: &'static Text,
        order: Order,
    ) -> Result<Prepared<'c>, Fault> {
        Ok(Prepared { conn, seal, text, inner: conn.prepare_cached(text.sql(order))? })
    }

    /// Runs it with the values of `statement`, which must be the prepared one.
    pub(crate) fn run<S: Statement>(&mut self, statement: S) -> Result<S::Answer, Fault> {
        self.bind(statement)?;
        let mut answer = S::Answer::default();
        let mut rows = self.inner.raw_query();
        while let Some(row) = rows.next()? {
            answer.add(&mut Cursor { row, table: self.text.name(), at: 0, seal: self.seal })?;
        }
        answer.set_changed(self.conn.changes());
        Ok(answer)
    }

    /// Runs a list, and gives its rows to `take` one by one. Rows that `take` does not ask for are not read.
    pub(crate) fn stream<T: FromCells, S: Statement<Answer = Vec<T>>, R>(
        &mut self,
        statement: S,
        take: impl FnOnce(&mut dyn Iterator<Item = Result<T, Fault>>) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        self.bind(statement)?;
        let (table, seal) = (self.text.name(), self.seal);
        let mut rows = self.inner.raw_query();
        take(&mut std::iter::from_fn(|| match rows.next() {
            Ok(row) => row.map(|row| T::read(&mut Cursor { row, table, at: 0, seal }, "1st")),
            Err(error) => Some(Err(error.into())),
        }))
    }

    fn bind<S: Statement>(&mut self, statement: S) -> Result<(), Fault> {
        assert!(std::ptr::eq(S::text(DIALECT), self.text), "{} is not {}", S::text(DIALECT).name(), self.text.name());
        let mut binder = Binder { statement: &mut self.inner, bound: 0, refused: Ok(()) };
        statement.bind(&mut binder);
        binder.refused.map_err(Fault::Sql)
    }
}

/// As [`Prepared::stream`], for a statement that runs once.
pub(crate) fn stream<T: FromCells, S: Statement<Answer = Vec<T>>, R>(
    conn: &Connection,
    statement: S,
    take: impl FnOnce(&mut dyn Iterator<Item = Result<T, Fault>>) -> Result<R, Fault>,
) -> Result<R, Fault> {
    Prepared::new(conn, conn.seal(), S::text(DIALECT), statement.order())?.stream(statement, take)
}

/// Binds the values of a statement without collecting them. SQLite copies texts and bytes.
struct Binder<'s, 'c> {
    statement: &'s mut rusqlite::Statement<'c>,
    bound: usize,
    refused: Result<(), rusqlite::Error>,
}

impl<'v> Sink<'v> for Binder<'_, '_> {
    fn push(&mut self, value: Value<'v>) {
        match value {
            Value::One(scalar) => self.one(scalar),
            Value::Many(_) => {
                let refused = "SQLite has no arrays";
                self.refused = Err(rusqlite::Error::ToSqlConversionFailure(refused.into()));
            }
        }
    }

    #[inline]
    fn one(&mut self, scalar: Scalar<'v>) {
        match scalar {
            Scalar::Null => self.bind(Null),
            Scalar::Bool(value) => self.bind(value),
            Scalar::Int(value) => self.bind(value),
            Scalar::Text(text) => self.bind(&*text),
            Scalar::Bytes(bytes) => self.bind(bytes),
            Scalar::Id(bytes) => self.bind(&bytes[..]),
        }
    }
}

impl Binder<'_, '_> {
    #[inline]
    fn bind(&mut self, value: impl ToSql) {
        self.bound += 1;
        if self.refused.is_ok() {
            self.refused = self.statement.raw_bind_parameter(self.bound, value);
        }
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

/// Sorts before every id.
pub(crate) const BELOW_IDS: &[u8] = &[];
/// Sorts after every id.
pub(crate) const ABOVE_IDS: &[u8] = &[0xff; ID_BYTES + 1];

/// The statements of every module.
const ALL: &[&[TextOf]] = &[
    SHARED,
    append::STATEMENTS,
    background::STATEMENTS,
    backlog::STATEMENTS,
    batch::STATEMENTS,
    dedup::STATEMENTS,
    deliveries::STATEMENTS,
    deliveries::redrive::STATEMENTS,
    deliveries::steer::STATEMENTS,
    directory::STATEMENTS,
    endpoints::STATEMENTS,
    environment::STATEMENTS,
    failure::STATEMENTS,
    feed::STATEMENTS,
    history::STATEMENTS,
    history::attempt::STATEMENTS,
    job::enqueue::STATEMENTS,
    job::query::STATEMENTS,
    job::steer::STATEMENTS,
    lease::STATEMENTS,
    once::STATEMENTS,
    order::STATEMENTS,
    outbox::STATEMENTS,
    poll::STATEMENTS,
    queue::STATEMENTS,
    resource::STATEMENTS,
    resource::PROJECTION_STATEMENTS,
    retention::STATEMENTS,
    schedule::fire::STATEMENTS,
    seal::STATEMENTS,
    session::STATEMENTS,
    settle::STATEMENTS,
    steer::STATEMENTS,
    token::STATEMENTS,
    traffic::STATEMENTS,
    worker::STATEMENTS,
];

/// Returns the text of a declared statement, for tests; lists in ascending order.
pub fn statement_text(name: &str) -> Option<&'static str> {
    let mut texts = ALL.iter().flat_map(|texts| texts.iter()).map(|text| text(DIALECT));
    texts.find(|text| text.name() == name).map(|text| text.sql(Order::Ascending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_declared_query_can_be_expanded() {
        assert!(ALL.concat().iter().all(|text| !text(DIALECT).name().is_empty()));
    }
}
