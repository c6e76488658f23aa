//! Dedup keys inside a transaction. They are taken before anything is written, so that one of two equal requests waits
//! for the other.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use everhook_core::id::{EnvironmentId, Id};
use everhook_store::append::KeyHolder;
use everhook_store::dedup::{DedupKey, HASH_BYTES};
use everhook_store::{columns, statement};

use crate::error::Fault;
use crate::tx::{Database, Tx};

columns! {
    /// Keys to take, in key order.
    pub(crate) NewKeys of NewKey<'a> {
        environment: i32,
        scope: i16,
        hash: &'a [u8; HASH_BYTES],
        object: Id,
        body: &'a [u8; HASH_BYTES],
        kept_us: Duration,
    }

    KeyHashes of KeyHash<'a> { environment: i32, scope: i16, hash: &'a [u8; HASH_BYTES] }
}

statement! {
    AppendDedup<'a> = "append_dedup" { wanted: NewKeys<'a> } -> Vec<RowKey>;
    FindDedup<'a> = "find_dedup" { wanted: KeyHashes<'a> } -> Vec<(i32, i16, [u8; HASH_BYTES], Id, [u8; HASH_BYTES])>;
    DeleteDedup<'a> = "delete_dedup" { unwanted: KeyHashes<'a> };
}

/// The primary key of a dedup row.
pub(crate) type RowKey = (i32, i16, [u8; HASH_BYTES]);

pub(crate) fn row_key(environment: EnvironmentId, key: &DedupKey) -> RowKey {
    (environment.0, key.scope.to_db(), key.hash)
}

/// Keys to take, each for an object, in key order, so that two batches cannot deadlock.
pub(crate) type Claims<'a> = BTreeMap<RowKey, (&'a DedupKey, Id)>;

/// Collects the keys of a batch, each for the first object that wants it.
pub(crate) fn claims<'k>(wanted: impl Iterator<Item = (EnvironmentId, &'k [DedupKey], Id)>) -> Claims<'k> {
    let mut claims = Claims::new();
    for (environment, keys, object) in wanted {
        for key in keys {
            claims.entry(row_key(environment, key)).or_insert((key, object));
        }
    }
    claims
}

/// The holders of keys while a batch is decided: earlier requests, or members of the batch.
pub(crate) struct Owners<'k> {
    /// Keys of earlier requests.
    foreign: HashMap<RowKey, KeyHolder>,
    /// Keys of this transaction, as they were written: each for the first member that wants it.
    written: HashMap<RowKey, KeyHolder>,
    /// Keys of accepted members, each with its object.
    claimed: HashMap<RowKey, (&'k DedupKey, KeyHolder)>,
}

impl<'k> Owners<'k> {
    /// Takes every key of a batch.
    pub(crate) async fn take(tx: &Tx<'_>, claims: Claims<'k>) -> Result<Owners<'k>, Fault> {
        let mut owners = Owners { foreign: HashMap::new(), written: HashMap::new(), claimed: HashMap::new() };
        if claims.is_empty() {
            return Ok(owners);
        }
        let had = take(tx, &claims).await?;
        if had.len() < claims.len() {
            let missed = || claims.keys().filter(|key| !had.contains(*key));
            owners.foreign = holders(tx, missed()).await?;
            if missed().any(|key| !owners.foreign.contains_key(key)) {
                return Err(Fault::Contended("a dedup key was released while its holder was read"));
            }
        }
        for row_key in had {
            if let Some((key, object)) = claims.get(&row_key) {
                owners.written.insert(row_key, KeyHolder { object: *object, body: key.body });
            }
        }
        Ok(owners)
    }

    /// Returns the keys that an earlier request or member holds, with their holders.
    pub(crate) fn taken<'n>(&self, environment: EnvironmentId, keys: &'n [DedupKey]) -> Vec<(&'n DedupKey, KeyHolder)> {
        let mut taken = Vec::new();
        for key in keys {
            let row_key = row_key(environment, key);
            let holder = self.foreign.get(&row_key).or_else(|| self.claimed.get(&row_key).map(|(_, holder)| holder));
            taken.extend(holder.map(|holder| (key, *holder)));
        }
        taken
    }

    /// Assigns keys to an object: the member itself, or the winner that suppressed it.
    pub(crate) fn claim(&mut self, environment: EnvironmentId, keys: impl Iterator<Item = &'k DedupKey>, object: Id) {
        for key in keys {
            self.claimed.insert(row_key(environment, key), (key, KeyHolder { object, body: key.body }));
        }
    }

    /// Corrects the written rows after the decisions: a refused member releases its keys, or leaves them to a later
    /// member.
    pub(crate) async fn correct(&self, tx: &Tx<'_>) -> Result<(), Fault> {
        let is_right =
            |key: &RowKey, holder: &KeyHolder| self.claimed.get(key).is_some_and(|(_, claim)| claim == holder);
        let wrong: Vec<&RowKey> =
            self.written.iter().filter(|(key, holder)| !is_right(key, holder)).map(|(key, _)| key).collect();
        if wrong.is_empty() {
            return Ok(());
        }
        give_back(tx, wrong.iter().copied()).await?;
        let mut claims = Claims::new();
        for key in wrong {
            let claim = self.claimed.get(key);
            claims.extend(claim.map(|(claim, holder)| (*key, (*claim, holder.object))));
        }
        if claims.is_empty() || take(tx, &claims).await?.len() == claims.len() {
            return Ok(());
        }
        Err(Fault::Contended("a dedup key of this transaction was lost"))
    }
}

/// Takes keys and returns those that were free. Waits for a transaction that is taking the same key.
pub(crate) async fn take(tx: &Tx<'_>, claims: &Claims<'_>) -> Result<HashSet<RowKey>, Fault> {
    Ok(tx.run(AppendDedup { wanted: new_keys(claims) }).await?.into_iter().collect())
}

/// Finds the holders of keys that were not free. A separate statement, so that its snapshot includes the transaction
/// that `take` waited for.
pub(crate) async fn holders(
    tx: &Tx<'_>,
    keys: impl Iterator<Item = &RowKey>,
) -> Result<HashMap<RowKey, KeyHolder>, Fault> {
    let held = tx.run(FindDedup { wanted: hashes(keys) }).await?;
    let read = |(environment, scope, hash, object, body)| ((environment, scope, hash), KeyHolder { object, body });
    Ok(held.into_iter().map(read).collect())
}

/// Releases keys that this transaction took.
pub(crate) async fn give_back<'a>(tx: &Tx<'_>, keys: impl Iterator<Item = &'a RowKey>) -> Result<(), Fault> {
    tx.run(DeleteDedup { unwanted: hashes(keys) }).await.map(drop)
}

/// Takes one key for one object; returns the holder if the key is not free.
pub(crate) async fn take_one(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    key: &DedupKey,
    object: Id,
) -> Result<Option<KeyHolder>, Fault> {
    let row_key = row_key(environment, key);
    if take(tx, &Claims::from([(row_key, (key, object))])).await?.contains(&row_key) {
        return Ok(None);
    }
    let holder = holders(tx, [row_key].iter()).await?.remove(&row_key);
    holder.map(Some).ok_or(Fault::Contended("a dedup key was released while its holder was read"))
}

/// Finds the object of a key, outside of any transaction.
pub(crate) async fn find(database: &Database, environment: EnvironmentId, key: &DedupKey) -> Result<Option<Id>, Fault> {
    let row_key = row_key(environment, key);
    let found = database.read(FindDedup { wanted: hashes([&row_key].into_iter()) }).await?;
    Ok(found.first().map(|(_, _, _, object, _)| *object))
}

/// Converts keys to the rows of a statement.
pub(crate) fn new_keys<'k>(claims: &'k Claims<'_>) -> NewKeys<'k> {
    let new_key = |((environment, scope, hash), (key, object)): (&'k RowKey, &'k (&DedupKey, Id))| NewKey {
        environment: *environment,
        scope: *scope,
        hash,
        object: *object,
        body: &key.body,
        kept_us: key.kept,
    };
    claims.iter().map(new_key).collect()
}

fn hashes<'a>(keys: impl Iterator<Item = &'a RowKey>) -> KeyHashes<'a> {
    let key_hash = |(environment, scope, hash): &'a RowKey| KeyHash { environment: *environment, scope: *scope, hash };
    keys.map(key_hash).collect()
}
