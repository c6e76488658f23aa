//! Dedup keys inside a transaction: taken before anything is written, so that of two equal requests one waits.

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
    foreign: HashMap<RowKey, KeyHolder>,
    /// Had, as it was written: for the first member that wants it.
    written: HashMap<RowKey, KeyHolder>,
    /// Which key a member has, and for which object.
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
                return Err(Fault::Contended("a key was given back while it was looked at"));
            }
        }
        for row_key in had {
            if let Some((key, object)) = claims.get(&row_key) {
                owners.written.insert(row_key, KeyHolder { object: *object, body: key.body });
            }
        }
        Ok(owners)
    }

    /// Which of these keys are someone else's, and whose.
    pub(crate) fn taken<'n>(&self, environment: EnvironmentId, keys: &'n [DedupKey]) -> Vec<(&'n DedupKey, KeyHolder)> {
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
            self.claimed.insert(row_key(environment, key), (key, KeyHolder { object, body: key.body }));
        }
    }

    /// Makes the rows say what was decided: a member that was not accepted gives its keys back or leaves them to a later one.
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
        Err(Fault::Contended("a key was lost that this transaction held"))
    }
}

/// Takes keys; answers which were had. It waits for whoever is just taking the same one.
pub(crate) async fn take(tx: &Tx<'_>, claims: &Claims<'_>) -> Result<HashSet<RowKey>, Fault> {
    Ok(tx.run(AppendDedup { wanted: new_keys(claims) }).await?.into_iter().collect())
}

/// Who holds keys that could not be had. By a statement of its own, so that it sees whom `take` waited for.
pub(crate) async fn holders(
    tx: &Tx<'_>,
    keys: impl Iterator<Item = &RowKey>,
) -> Result<HashMap<RowKey, KeyHolder>, Fault> {
    let held = tx.run(FindDedup { wanted: hashes(keys) }).await?;
    let read = |(environment, scope, hash, object, body)| ((environment, scope, hash), KeyHolder { object, body });
    Ok(held.into_iter().map(read).collect())
}

/// Gives keys back that were taken in this transaction.
pub(crate) async fn give_back<'a>(tx: &Tx<'_>, keys: impl Iterator<Item = &'a RowKey>) -> Result<(), Fault> {
    tx.run(DeleteDedup { unwanted: hashes(keys) }).await.map(drop)
}

/// Takes one key for one object; answers its holder if it is someone else's.
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
    holder.map(Some).ok_or(Fault::Contended("a key was given back while it was looked at"))
}

/// The object that a key stands for, outside of any transaction.
pub(crate) async fn find(database: &Database, environment: EnvironmentId, key: &DedupKey) -> Result<Option<Id>, Fault> {
    let row_key = row_key(environment, key);
    let found = database.read(FindDedup { wanted: hashes([&row_key].into_iter()) }).await?;
    Ok(found.first().map(|(_, _, _, object, _)| *object))
}

/// Keys to take, as a statement takes them.
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
