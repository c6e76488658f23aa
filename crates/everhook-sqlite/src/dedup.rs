//! Dedup keys, taken inside the transaction that accepts the object.

use everhook_core::id::{EnvironmentId, Id};
use everhook_core::time::Timestamp;
use everhook_store::append::KeyHolder;
use everhook_store::dedup::{DedupKey, DedupScope, HASH_BYTES};
use everhook_store::statement;

use crate::connection::Connection;
use crate::error::Fault;
use crate::sql::{Prepared, prepare, run};
use crate::writer::Tx;

statement! {
    AppendDedup<'a> = "append_dedup" {
        environment: EnvironmentId, scope: DedupScope, hash: &'a [u8; HASH_BYTES], object: Id,
        body: &'a [u8; HASH_BYTES], expires_at: Timestamp, now: Timestamp,
    };
    // Returns the object and the hash of the body.
    FindDedup<'a> = "find_dedup" { environment: EnvironmentId, scope: DedupScope, hash: &'a [u8; HASH_BYTES] }
        -> Option<(Id, [u8; HASH_BYTES])>;
    DeleteDedup<'a> = "delete_dedup" {
        environment: EnvironmentId, scope: DedupScope, hash: &'a [u8; HASH_BYTES], object: Id,
    };
}

/// Takes keys. The statement is prepared once for all of them.
pub(crate) struct Claims<'t> {
    tx: &'t Tx<'t>,
    append: Prepared<'t>,
}

impl<'t> Claims<'t> {
    pub(crate) fn new(tx: &'t Tx<'t>) -> Result<Claims<'t>, Fault> {
        Ok(Claims { tx, append: prepare::<AppendDedup<'_>>(tx.conn)? })
    }

    /// Takes `key` for `object`; returns the holder if the key is not free.
    pub(crate) fn claim(
        &mut self,
        environment: EnvironmentId,
        key: &DedupKey,
        object: Id,
    ) -> Result<Option<KeyHolder>, Fault> {
        let (tx, DedupKey { scope, hash, body, kept }) = (self.tx, key);
        let (scope, expires_at, now) = (*scope, tx.now.plus(*kept), tx.now);
        if self.append.run(AppendDedup { environment, scope, hash, object, body, expires_at, now })? == 1 {
            return Ok(None);
        }
        find(tx.conn, environment, key)?.ok_or(Fault::Corrupt { table: "dedup", column: "hash" }).map(Some)
    }
}

/// Finds the object that holds `key`.
pub(crate) fn find(conn: &Connection, environment: EnvironmentId, key: &DedupKey) -> Result<Option<KeyHolder>, Fault> {
    let found = run(conn, FindDedup { environment, scope: key.scope, hash: &key.hash })?;
    Ok(found.map(|(object, body)| KeyHolder { object, body }))
}

/// Releases `key`, if `object` holds it.
pub(crate) fn release(tx: &Tx<'_>, environment: EnvironmentId, key: &DedupKey, object: Id) -> Result<(), Fault> {
    run(tx.conn, DeleteDedup { environment, scope: key.scope, hash: &key.hash, object }).map(drop)
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
