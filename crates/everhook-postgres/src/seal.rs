//! The keys that seal secrets: which one seals, and the rotation to another one.
//!
//! All replicas need the same keys. A new database seals from its first start with a key. An existing one stays as it
//! is until `everhook secrets rotate`, because replicas without the key could not read sealed secrets.

use everhook_core::id::EnvironmentId;
use everhook_core::seal::{NeededKey, OpenError, SealKeyId};
use everhook_store::dedup::HASH_BYTES;
use everhook_store::error::StoreError;
use everhook_store::seal::{RESEAL_PAGE, ResourceAt, Rotated, answer_place, token_place};
use everhook_store::sql::param::StoreClock;
use everhook_store::sql::shared::{
    DeleteSealKey, ListSealKey, ListSealedRequest, ListSealedResource, ListSealedToken, PutSealKey, ResealRequest,
    ResealResource, ResealToken, RetireSealKey,
};
use everhook_store::statement;
use everhook_store::store::Op;
use tracing::info;

use crate::error::{Fault, PostgresOpenError};
use crate::store::PostgresStore;

/// Waits for every transaction that reads the table for a write, and keeps later ones waiting.
const LOCK: &str = "lock table everhook.seal_key in exclusive mode";

statement! {
    // The lock lets a rotation wait for this transaction.
    pub(crate) FindSealKey = ("find_seal_key", "select id from everhook.seal_key where state = 0 for share") {}
        -> Option<SealKeyId>;
    HasSecrets = (
        "has_secrets",
        "select 1 where exists (select 1 from everhook.resource) or exists (select 1 from everhook.token_key)"
    ) {} -> Option<i32>;
}

/// The error for a secret that could not be sealed or opened.
pub(crate) fn corrupt(table: &'static str) -> impl Fn(OpenError) -> Fault {
    move |error| Fault::Corrupt { table, column: error.column() }
}

impl PostgresStore {
    /// Returns the keys that the store needs. Empty: secrets are plain text.
    pub async fn needed_keys(&self) -> Result<Vec<NeededKey>, StoreError> {
        self.run_plain(Op::Maintain, || async { self.database.read(ListSealKey {}).await }).await
    }

    /// Refuses to go on without a key that the store needs. A database without secrets seals from now on.
    pub(crate) async fn start_sealing(&self, address: &str) -> Result<(), PostgresOpenError> {
        let needed = self.run_plain(Op::Maintain, || self.start_sealing_once()).await;
        let needed = needed.map_err(|source| {
            let (address, what) = (address.to_owned(), "read the keys of secrets");
            PostgresOpenError::Statement { address, what, source: Box::new(source) }
        })?;
        let refused = |refusal| PostgresOpenError::Keys { address: address.to_owned(), refusal };
        self.database.seal.check(&needed).map_err(refused)
    }

    async fn start_sealing_once(&self) -> Result<Vec<NeededKey>, Fault> {
        let (needed, has_secrets) = self.database.read((ListSealKey {}, HasSecrets {})).await?;
        let Some(ring) = self.database.seal.ring() else { return Ok(needed) };
        if !needed.is_empty() || has_secrets.is_some() {
            return Ok(needed);
        }
        let tx = self.database.tx().await?;
        tx.begin(()).await?;
        tx.run_text(LOCK).await?;
        // Another replica may have been first.
        let (needed, has_secrets) = tx.run((ListSealKey {}, HasSecrets {})).await?;
        if needed.is_empty() && has_secrets.is_none() {
            tx.run(PutSealKey { id: &ring.first(), now: StoreClock::Database }).await?;
            info!("secrets are sealed with the key {}", ring.first());
        }
        let needed = tx.run(ListSealKey {}).await?;
        tx.commit().await?;
        Ok(needed)
    }

    /// Seals every secret with the first key, row by row beside other work. Repeatable: an interrupted rotation
    /// continues.
    pub async fn rotate_secrets(&self) -> Result<Rotated, StoreError> {
        let (key, before) = self.run_plain(Op::Maintain, || self.begin_rotation_once()).await?;
        let resources = self.run_plain(Op::Maintain, || self.reseal_resources_once(key)).await?;
        let requests = self.run_plain(Op::Maintain, || self.reseal_requests_once(key)).await?;
        let tokens = self.run_plain(Op::Maintain, || self.reseal_tokens_once(key)).await?;
        let retired: Vec<SealKeyId> = before.iter().map(|needed| needed.id).filter(|id| *id != key).collect();
        for id in &retired {
            let delete = || async { self.database.write(DeleteSealKey { id }).await };
            self.run_plain(Op::Maintain, delete).await?;
        }
        Ok(Rotated { key, sealed: resources + requests + tokens, retired })
    }

    /// Makes the first key the one that seals, for every write that begins after the commit.
    async fn begin_rotation_once(&self) -> Result<(SealKeyId, Vec<NeededKey>), Fault> {
        let ring = self.database.seal.ring();
        let ring =
            ring.ok_or(Fault::Refused("no keys are configured: set secrets_key_file or EVERHOOK_SECRETS_KEYS"))?;
        let (id, tx) = (ring.first(), self.database.tx().await?);
        tx.begin(()).await?;
        tx.run_text(LOCK).await?;
        let before = tx.run(ListSealKey {}).await?;
        tx.finish((PutSealKey { id: &id, now: StoreClock::Database }, RetireSealKey { id: &id })).await?;
        Ok((id, before))
    }

    async fn reseal_resources_once(&self, key: SealKeyId) -> Result<u64, Fault> {
        let (mut at, mut changed) = (ResourceAt::START, 0);
        loop {
            let ResourceAt { environment, kind, parent, id } = at;
            let list = ListSealedResource { environment, kind, parent, id, limit: RESEAL_PAGE };
            let rows = self.database.read(list).await?;
            let Some((environment, kind, parent, id, _)) = rows.last() else { return Ok(changed) };
            at = ResourceAt { environment: *environment, kind: *kind, parent: *parent, id: *id };
            for (environment, kind, parent, id, old) in rows.iter().filter(|(_, kind, ..)| kind.has_secrets()) {
                let at = ResourceAt { environment: *environment, kind: *kind, parent: *parent, id: *id };
                let sealed = self.database.seal.reseal(key, at.place(&at.row()), old.as_bytes());
                if let Some(sealed) = sealed.map_err(corrupt("resource"))? {
                    let sealed = &String::from_utf8_lossy(&sealed);
                    let ResourceAt { environment, kind, parent, id } = at;
                    let reseal = ResealResource { environment, kind, parent, id, old, sealed };
                    changed += self.database.write(reseal).await?;
                }
            }
        }
    }

    async fn reseal_requests_once(&self, key: SealKeyId) -> Result<u64, Fault> {
        let (mut at, mut changed) = ((EnvironmentId(i32::MIN), [0; HASH_BYTES]), 0);
        loop {
            let (environment, hash) = (at.0, &at.1);
            let rows = self.database.read(ListSealedRequest { environment, hash, limit: RESEAL_PAGE }).await?;
            let Some((environment, hash, _)) = rows.last() else { return Ok(changed) };
            at = (*environment, *hash);
            for (environment, hash, old) in &rows {
                let sealed = self.database.seal.reseal(key, answer_place(*environment, hash), old);
                if let Some(sealed) = sealed.map_err(corrupt("request"))? {
                    let reseal = ResealRequest { environment: *environment, hash, old, sealed: &sealed };
                    changed += self.database.write(reseal).await?;
                }
            }
        }
    }

    async fn reseal_tokens_once(&self, key: SealKeyId) -> Result<u64, Fault> {
        let mut changed = 0;
        for (id, old) in self.database.read(ListSealedToken {}).await? {
            let sealed = self.database.seal.reseal(key, token_place(&id), &old).map_err(corrupt("token_key"))?;
            if let Some(sealed) = &sealed {
                changed += self.database.write(ResealToken { id, old: &old, sealed }).await?;
            }
        }
        Ok(changed)
    }
}
