//! Dedup keys inside a transaction: taken before anything is written, so that of two equal requests one waits.

use std::collections::{BTreeMap, HashMap, HashSet};

use everhook_core::id::{EnvironmentId, ID_BYTES, Id};
use everhook_store::append::Holder;
use everhook_store::dedup::{DedupKey, HASH_BYTES};
use tokio_postgres::Row;

use crate::columns::KeyColumns;
use crate::error::Fault;
use crate::rows::Reader;
use crate::sql;
use crate::statement::Transaction;

/// The primary key of a dedup row.
pub(crate) type RowKey = (i32, i16, [u8; HASH_BYTES]);

pub(crate) fn row_key(environment: EnvironmentId, key: &DedupKey) -> RowKey {
    (environment.0, key.scope.to_db(), key.hash)
}

/// Keys to take, each for an object; in key order, so that two batches cannot deadlock.
pub(crate) type Claims<'a> = BTreeMap<RowKey, (&'a DedupKey, Id)>;

/// Takes keys; answers which were had. It waits for whoever is just taking the same one.
pub(crate) async fn take(transaction: &Transaction, claims: &Claims<'_>) -> Result<HashSet<RowKey>, Fault> {
    let columns = KeyColumns::new(claims);
    let rows = transaction.rows(&sql::APPEND_DEDUP, &columns.params()).await?;
    rows.iter().map(|row| read_key(&mut Reader::new(row, "dedup"))).collect()
}

/// Who holds keys that could not be had. By a statement of its own, so that it sees whom `take` waited for.
pub(crate) async fn holders(
    transaction: &Transaction,
    keys: impl Iterator<Item = &RowKey>,
) -> Result<HashMap<RowKey, Holder>, Fault> {
    let (environments, scopes, hashes) = columns(keys);
    let rows = transaction.rows(&sql::FIND_DEDUP, &[&environments, &scopes, &hashes]).await?;
    rows.iter().map(read_holder).collect()
}

/// Gives keys back that were taken in this transaction.
pub(crate) async fn give_back<'a>(
    transaction: &Transaction,
    keys: impl Iterator<Item = &'a RowKey>,
) -> Result<(), Fault> {
    let (environments, scopes, hashes) = columns(keys);
    transaction.rows(&sql::DELETE_DEDUP, &[&environments, &scopes, &hashes]).await.map(drop)
}

/// Takes one key for one object; answers its holder if it is someone else's.
pub(crate) async fn take_one(
    transaction: &Transaction,
    environment: EnvironmentId,
    key: &DedupKey,
    object: Id,
) -> Result<Option<Holder>, Fault> {
    let row_key = row_key(environment, key);
    if take(transaction, &Claims::from([(row_key, (key, object))])).await?.contains(&row_key) {
        return Ok(None);
    }
    let holder = holders(transaction, [row_key].iter()).await?.remove(&row_key);
    holder.map(Some).ok_or(Fault::Contended("a key was given back while it was looked at"))
}

pub(crate) fn columns<'a>(keys: impl Iterator<Item = &'a RowKey>) -> (Vec<i32>, Vec<i16>, Vec<&'a [u8]>) {
    let (mut environments, mut scopes, mut hashes) = (Vec::new(), Vec::new(), Vec::new());
    for (environment, scope, hash) in keys {
        environments.push(*environment);
        scopes.push(*scope);
        hashes.push(hash.as_slice());
    }
    (environments, scopes, hashes)
}

fn read_key(row: &mut Reader<'_>) -> Result<RowKey, Fault> {
    Ok((row.get("environment")?, row.get("scope")?, read_hash(row, "hash")?))
}

fn read_holder(row: &Row) -> Result<(RowKey, Holder), Fault> {
    let mut row = Reader::new(row, "dedup");
    let key = read_key(&mut row)?;
    Ok((key, Holder { object: row.id("object")?, body: read_hash(&mut row, "body")? }))
}

fn read_hash(row: &mut Reader<'_>, column: &'static str) -> Result<[u8; HASH_BYTES], Fault> {
    const { assert!(HASH_BYTES == ID_BYTES, "hashes are read like ids") };
    row.id(column).map(|id| *id.as_bytes())
}
