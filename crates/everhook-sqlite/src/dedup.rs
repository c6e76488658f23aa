//! Dedup keys, taken inside the transaction that accepts the object.

use everhook_core::id::{EnvironmentId, Id};
use everhook_store::append::KeyHolder;
use everhook_store::dedup::DedupKey;
use rusqlite::{CachedStatement, params};

use crate::error::Fault;
use crate::rows::Reader;
use crate::writer::Tx;

const APPEND_DEDUP: &str = include_str!("../queries/append_dedup.sql");
const FIND_DEDUP: &str = include_str!("../queries/find_dedup.sql");
const DELETE_DEDUP: &str = include_str!("../queries/delete_dedup.sql");

/// Takes keys. The statement is prepared once for all of them.
pub(crate) struct Claims<'t> {
    tx: &'t Tx<'t>,
    append: CachedStatement<'t>,
}

impl<'t> Claims<'t> {
    pub(crate) fn new(tx: &'t Tx<'t>) -> Result<Claims<'t>, Fault> {
        Ok(Claims { tx, append: tx.conn.prepare_cached(APPEND_DEDUP)? })
    }

    /// Takes `key` for `object`; returns the holder if the key is not free.
    pub(crate) fn claim(
        &mut self,
        environment: EnvironmentId,
        key: &DedupKey,
        object: Id,
    ) -> Result<Option<KeyHolder>, Fault> {
        let (tx, scope) = (self.tx, key.scope.to_db());
        let expires_at = tx.now.plus(key.kept).as_micros();
        let taken = self.append.execute(params![
            environment.0,
            scope,
            key.hash,
            object.as_bytes(),
            key.body,
            expires_at,
            tx.now.as_micros(),
        ])?;
        if taken == 1 {
            return Ok(None);
        }
        let mut find = tx.conn.prepare_cached(FIND_DEDUP)?;
        let mut rows = find.query(params![environment.0, scope, key.hash])?;
        let row = rows.next()?.ok_or(Fault::Corrupt { table: "dedup", column: "hash" })?;
        let record = Reader::new(row, "dedup");
        Ok(Some(KeyHolder { object: record.id(0, "object")?, body: record.get(1, "body")? }))
    }
}

/// Releases `key`, if `object` holds it.
pub(crate) fn release(tx: &Tx<'_>, environment: EnvironmentId, key: &DedupKey, object: Id) -> Result<(), Fault> {
    let mut delete = tx.conn.prepare_cached(DELETE_DEDUP)?;
    delete.execute(params![environment.0, key.scope.to_db(), key.hash, object.as_bytes()])?;
    Ok(())
}

/// The result of taking the key of a request.
pub(crate) enum Claim {
    /// The key was free, or the request has none.
    Won,
    /// The same request took it earlier, for this object.
    Repeated(Id),
    /// Another request took it.
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

/// Releases the key of a refused request, if it has one.
pub(crate) fn unclaim(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    key: Option<&DedupKey>,
    object: Id,
) -> Result<(), Fault> {
    key.map_or(Ok(()), |key| release(tx, environment, key, object))
}
