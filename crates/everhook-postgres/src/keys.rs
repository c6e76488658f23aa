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
use crate::statement::Statements;

/// The primary key of a dedup row.
pub(crate) type RowKey = (i32, i16, [u8; HASH_BYTES]);

pub(crate) fn row_key(environment: EnvironmentId, key: &DedupKey) -> RowKey {
    (environment.0, key.scope.to_db(), key.hash)
}

/// Keys to take, each for an object; in key order, so that two batches cannot deadlock.
pub(crate) type Claims<'a> = BTreeMap<RowKey, (&'a DedupKey, Id)>;

/// The keys of a batch, each for the first object that wants it.
pub(crate) fn claims<'k>(wanted: impl Iterator<Item = (EnvironmentId, &'k [DedupKey], Id)>) -> Claims<'k> {
    let mut claims = Claims::new();
    for (environment, keys, object) in wanted {
        for key in keys {
            claims.entry(row_key(environment, key)).or_insert((key, object));
        }
    }
    claims
}

/// Who has which key while a batch is decided: someone before it, or a member of it.
pub(crate) struct Owners<'k> {
    /// Not had.
    foreign: HashMap<RowKey, Holder>,
    /// Had, as it was written: for the first member that wants it.
    written: HashMap<RowKey, Holder>,
    /// Which key a member has, and for which object.
    claimed: HashMap<RowKey, (&'k DedupKey, Holder)>,
}

impl<'k> Owners<'k> {
    /// Takes every key of a batch.
    pub(crate) async fn take(transaction: &impl Statements, claims: Claims<'k>) -> Result<Owners<'k>, Fault> {
        let mut owners = Owners { foreign: HashMap::new(), written: HashMap::new(), claimed: HashMap::new() };
        if claims.is_empty() {
            return Ok(owners);
        }
        let had = take(transaction, &claims).await?;
        if had.len() < claims.len() {
            let missed = || claims.keys().filter(|key| !had.contains(*key));
            owners.foreign = holders(transaction, missed()).await?;
            if missed().any(|key| !owners.foreign.contains_key(key)) {
                return Err(Fault::Contended("a key was given back while it was looked at"));
            }
        }
        for row_key in had {
            if let Some((key, object)) = claims.get(&row_key) {
                owners.written.insert(row_key, Holder { object: *object, body: key.body });
            }
        }
        Ok(owners)
    }

    /// Which of these keys are someone else's, and whose.
    pub(crate) fn taken<'n>(&self, environment: EnvironmentId, keys: &'n [DedupKey]) -> Vec<(&'n DedupKey, Holder)> {
        let mut taken = Vec::new();
        for key in keys {
            let row_key = row_key(environment, key);
            let holder = self.foreign.get(&row_key).or_else(|| self.claimed.get(&row_key).map(|(_, holder)| holder));
            taken.extend(holder.map(|holder| (key, *holder)));
        }
        taken
    }

    /// Has a member keep keys, for itself or for another object.
    pub(crate) fn claim(&mut self, environment: EnvironmentId, keys: impl Iterator<Item = &'k DedupKey>, object: Id) {
        for key in keys {
            self.claimed.insert(row_key(environment, key), (key, Holder { object, body: key.body }));
        }
    }

    /// Makes the rows say what was decided: a member that was not accepted gives its keys back or leaves them to a later one.
    pub(crate) async fn correct(&self, transaction: &impl Statements) -> Result<(), Fault> {
        let is_right = |key: &RowKey, holder: &Holder| self.claimed.get(key).is_some_and(|(_, claim)| claim == holder);
        let wrong: Vec<&RowKey> =
            self.written.iter().filter(|(key, holder)| !is_right(key, holder)).map(|(key, _)| key).collect();
        if wrong.is_empty() {
            return Ok(());
        }
        give_back(transaction, wrong.iter().copied()).await?;
        let mut claims = Claims::new();
        for key in wrong {
            let claim = self.claimed.get(key);
            claims.extend(claim.map(|(claim, holder)| (*key, (*claim, holder.object))));
        }
        if claims.is_empty() || take(transaction, &claims).await?.len() == claims.len() {
            return Ok(());
        }
        Err(Fault::Contended("a key was lost that this transaction held"))
    }
}

/// Takes keys; answers which were had. It waits for whoever is just taking the same one.
pub(crate) async fn take(transaction: &impl Statements, claims: &Claims<'_>) -> Result<HashSet<RowKey>, Fault> {
    let columns = KeyColumns::new(claims);
    let rows = transaction.rows(&sql::APPEND_DEDUP, &columns.params()).await?;
    rows.iter().map(|row| read_key(&mut Reader::new(row, "dedup"))).collect()
}

/// Who holds keys that could not be had. By a statement of its own, so that it sees whom `take` waited for.
pub(crate) async fn holders(
    transaction: &impl Statements,
    keys: impl Iterator<Item = &RowKey>,
) -> Result<HashMap<RowKey, Holder>, Fault> {
    let (environments, scopes, hashes) = columns(keys);
    let rows = transaction.rows(&sql::FIND_DEDUP, &[&environments, &scopes, &hashes]).await?;
    rows.iter().map(read_holder).collect()
}

/// Gives keys back that were taken in this transaction.
pub(crate) async fn give_back<'a>(
    transaction: &impl Statements,
    keys: impl Iterator<Item = &'a RowKey>,
) -> Result<(), Fault> {
    let (environments, scopes, hashes) = columns(keys);
    transaction.rows(&sql::DELETE_DEDUP, &[&environments, &scopes, &hashes]).await.map(drop)
}

/// Takes one key for one object; answers its holder if it is someone else's.
pub(crate) async fn take_one(
    transaction: &impl Statements,
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
