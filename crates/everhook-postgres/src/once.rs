//! Once-slots: claimed in the transaction that appends the message; read and reset for the API.
//!
//! A batch locks all of its slots before it decides anything, in key order and after its dedup keys. It therefore
//! decides on committed rows only. A row that does not exist cannot be locked: missing slots are created for the first
//! member that wants them, and deleted if no member wins them. A batch without claims sends no statement.

use std::collections::{BTreeMap, HashSet};

use everhook_core::id::{ApplicationId, EnvironmentId, MessageId};
use everhook_core::name::Name;
use everhook_core::once::{self, Claimed, OnceSlot, Phase};
use everhook_core::time::Timestamp;
use everhook_store::lease::NewMessage;
use everhook_store::once::{Suppression, Suppressions};
use everhook_store::{columns, statement};

use crate::error::Fault;
use crate::store::PostgresStore;
use crate::tx::Tx;

columns! {
    SlotKeys of SlotKeyRow<'a> { environment: EnvironmentId, application: ApplicationId, key: &'a str }

    /// Slots; those without a winner are to be deleted.
    Slots of SlotRow<'a> {
        environment: EnvironmentId,
        application: ApplicationId,
        key: &'a str,
        phase: Option<Phase>,
        winner: Option<MessageId>,
        winner_phase: Option<Phase>,
    }

    /// Calls that slots suppressed.
    SuppressedCalls of SuppressedCall<'a> {
        environment: EnvironmentId,
        application: ApplicationId,
        key: &'a str,
        winner: MessageId,
        calls: i64,
    }
}

statement! {
    AppendOnce<'a> = "append_once" { fresh: Slots<'a>, now: Timestamp } -> Vec<SlotKey>;
    ClaimOnce<'a> = "claim_once" { wanted: SlotKeys<'a> } -> Vec<(EnvironmentId, ApplicationId, Name, OnceSlot)>;
    ReplaceOnce<'a> = "replace_once" { decided: Slots<'a>, now: Timestamp };
    AppendOnceSuppression<'a> = "append_once_suppression" { suppressed: SuppressedCalls<'a>, created_at: Timestamp };
}

/// The primary key of a slot, in the order of the index.
type SlotKey = (EnvironmentId, ApplicationId, Name);

/// A slot that this transaction has locked.
struct HeldSlot {
    /// The slot before this transaction; none if this transaction created it.
    before: Option<OnceSlot>,
    /// The slot in the table.
    kept: OnceSlot,
    /// The new slot, if a member of the batch won it.
    decided: Option<OnceSlot>,
}

/// The slots that the members of a batch want.
#[derive(Default)]
pub(crate) struct SlotClaims {
    held: BTreeMap<SlotKey, HeldSlot>,
    suppressed: Suppressions,
}

impl SlotClaims {
    /// Locks every slot that one of these messages wants. Waits for a transaction that is claiming or resetting one of
    /// them.
    pub(crate) async fn lock(tx: &Tx<'_>, messages: &[NewMessage], now: Timestamp) -> Result<SlotClaims, Fault> {
        let mut wanted: BTreeMap<SlotKey, OnceSlot> = BTreeMap::new();
        for new in messages {
            let Some(claim) = &new.once else { continue };
            let key = (new.environment, new.message.application, claim.key.clone());
            if let Claimed::Won(slot) = once::claim(None, claim.phase, new.message.id) {
                wanted.entry(key).or_insert(slot);
            }
        }
        if wanted.is_empty() {
            return Ok(SlotClaims::default());
        }
        let make = AppendOnce { fresh: slots(wanted.iter().map(|(key, slot)| (key, Some(slot)))), now };
        // One round trip, but two snapshots: the second statement sees the transactions that the first one waited for.
        let (made, locked) = tx.run((make, ClaimOnce { wanted: slot_keys(wanted.keys()) })).await?;
        let made: HashSet<SlotKey> = made.into_iter().collect();
        let mut held = BTreeMap::new();
        for (environment, application, key, kept) in locked {
            let key = (environment, application, key);
            let before = (!made.contains(&key)).then_some(kept);
            held.insert(key, HeldSlot { before, kept, decided: None });
        }
        if wanted.keys().any(|key| !held.contains_key(key)) {
            return Err(Fault::Contended("a once-slot was deleted while it was locked"));
        }
        Ok(SlotClaims { held, suppressed: Suppressions::default() })
    }

    /// Assigns the slot to an otherwise accepted message. Returns the winner if another message has the slot.
    pub(crate) fn take(&mut self, new: &NewMessage) -> Option<MessageId> {
        let claim = new.once.as_ref()?;
        let (environment, application, key) = (new.environment, new.message.application, claim.key.clone());
        let held = self.held.get_mut(&(environment, application, key.clone()))?;
        match once::claim(held.decided.or(held.before), claim.phase, new.message.id) {
            Claimed::Won(slot) => {
                held.decided = Some(slot);
                None
            }
            Claimed::Suppressed(winner) => {
                self.suppressed.add(Suppression { environment, application, key, winner });
                Some(winner)
            }
        }
    }

    /// Whether suppressed calls must be logged although nothing was accepted.
    pub(crate) fn has_suppressed(&self) -> bool {
        !self.suppressed.is_empty()
    }

    /// Writes the decided slots, and logs the suppressed calls.
    pub(crate) async fn write(&self, tx: &Tx<'_>, now: Timestamp) -> Result<(), Fault> {
        let wrong = self.held.iter().filter(|(_, held)| match held.decided {
            Some(decided) => decided != held.kept,
            None => held.before.is_none(),
        });
        let decided = slots(wrong.map(|(key, held)| (key, held.decided.as_ref())));
        let mut suppressed = SuppressedCalls::default();
        for (Suppression { environment, application, key, winner }, calls) in self.suppressed.iter() {
            let (environment, application, winner) = (*environment, *application, *winner);
            suppressed.push(SuppressedCall { environment, application, key: key.as_str(), winner, calls });
        }
        tx.run((
            decided.nonempty().map(|decided| ReplaceOnce { decided, now }),
            suppressed.nonempty().map(|suppressed| AppendOnceSuppression { suppressed, created_at: now }),
        ))
        .await
        .map(drop)
    }
}

/// Converts slots to the rows of a statement.
fn slots<'a>(wanted: impl Iterator<Item = (&'a SlotKey, Option<&'a OnceSlot>)>) -> Slots<'a> {
    let row = |((environment, application, key), slot): (&'a SlotKey, Option<&'a OnceSlot>)| SlotRow {
        environment: *environment,
        application: *application,
        key: key.as_str(),
        phase: slot.map(|slot| slot.phase),
        winner: slot.map(|slot| slot.winner),
        winner_phase: slot.map(|slot| slot.winner_phase),
    };
    wanted.map(row).collect()
}

fn slot_keys<'a>(keys: impl Iterator<Item = &'a SlotKey>) -> SlotKeys<'a> {
    let row = |(environment, application, key): &'a SlotKey| SlotKeyRow {
        environment: *environment,
        application: *application,
        key: key.as_str(),
    };
    keys.map(row).collect()
}

impl PostgresStore {
    pub(crate) async fn reset_slot(&self, key: &SlotKey) -> Result<bool, Fault> {
        let tx = self.database.tx().await?;
        tx.begin(()).await?;
        let locked = tx.run(ClaimOnce { wanted: slot_keys([key].into_iter()) }).await?;
        let Some((_, _, _, slot)) = locked.first() else {
            tx.roll_back().await?;
            return Ok(false);
        };
        if slot.is_open() {
            tx.roll_back().await?;
            return Ok(true);
        }
        let now = tx.now().await?;
        let reset = slot.reset();
        tx.finish(ReplaceOnce { decided: slots([(key, Some(&reset))].into_iter()), now }).await?;
        Ok(true)
    }
}
