//! What users configure. Writes are jobs of the writer, reads go to the readers.
//!
//! One file per kind of object; here the trait is mapped to them, and what they share.

use everhook_core::id::{EnvironmentId, Id};
use everhook_store::catalog::Order;
use everhook_store::dedup::DedupKey;
use rusqlite::{Connection, ToSql};

use crate::dedup::{self, Claims};
use crate::error::Fault;
use crate::rows::Reader;
use crate::writer::Tx;

pub(crate) mod application;
pub(crate) mod endpoint;
pub(crate) mod environment;
pub(crate) mod event_type;

/// Who had a key first.
pub(crate) enum Claim {
    /// This request, or no key was sent.
    Won,
    /// The same request, for this object.
    Repeated(Id),
    /// Another request.
    Reused,
}

/// Takes the key of a request for `object`, if it has one.
pub(crate) fn claim(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    key: Option<&DedupKey>,
    object: Id,
) -> Result<Claim, Fault> {
    let Some(key) = key else { return Ok(Claim::Won) };
    Ok(match Claims::new(tx)?.claim(environment, key, object)? {
        None => Claim::Won,
        Some(holder) if holder.body == key.body => Claim::Repeated(holder.object),
        Some(_) => Claim::Reused,
    })
}

/// Gives the key of a request back that came to nothing.
pub(crate) fn release(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    key: Option<&DedupKey>,
    object: Id,
) -> Result<(), Fault> {
    key.map_or(Ok(()), |key| dedup::release(tx, environment, key, object))
}

/// Sort before and after every name.
pub(crate) const NAME_ENDS: (&str, &str) = ("", "\u{7f}");

/// A list statement in this direction; it is written for the ascending one.
pub(crate) fn directed(sql: &'static str, order: Order) -> String {
    match order {
        Order::Ascending => sql.to_owned(),
        Order::Descending => sql.replace(" asc\n", " desc\n"),
    }
}

/// What lies strictly beyond `after` in this direction, between two ends that lie outside of everything.
pub(crate) fn bounds<'k, K: ?Sized>(after: Option<&'k K>, order: Order, ends: (&'k K, &'k K)) -> (&'k K, &'k K) {
    match order {
        Order::Ascending => (after.unwrap_or(ends.0), ends.1),
        Order::Descending => (ends.0, after.unwrap_or(ends.1)),
    }
}

/// How far a search looks that looks at `scan` rows: the id of the last one, or none if there are not so many.
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

/// A number of rows as SQLite counts them.
pub(crate) fn limit(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}
