//! Once-slots: claimed inside the transaction that appends the message; shown and reset for the API.
//!
//! A batch locks every slot that it wants, in key order and after its dedup keys, before it decides anything; so it decides
//! by what is committed, and nobody decides by what it might still take back. What is not there cannot be locked: slots are
//! made for the first member that wants them, and unmade if nobody gets them. A batch without claims sends nothing.

use std::collections::{BTreeMap, HashSet};

use everhook_core::id::{ApplicationId, EnvironmentId, MessageId};
use everhook_core::name::Name;
use everhook_core::once::{self, Claimed, OnceSlot, Phase};
use everhook_core::time::Timestamp;
use everhook_store::catalog::{Order, Slice};
use everhook_store::lease::NewMessage;
use everhook_store::once::{OnceRecord, Suppression, Suppressions};
use futures_util::future::try_join;
use tokio_postgres::Row;

use crate::catalog::{NAME_ABOVE, count};
use crate::error::Fault;
use crate::rows::Reader;
use crate::sql;
use crate::statement::{Params, Transaction, within};
use crate::store::PostgresStore;

/// The primary key of a slot, in the order of the index.
type SlotKey = (EnvironmentId, ApplicationId, Name);

/// A slot that this transaction has locked.
struct Held {
    /// As it was before; none if it was made here.
    before: Option<OnceSlot>,
    /// As it is in the table.
    kept: OnceSlot,
    /// As it is to be, if a member of the batch got it.
    decided: Option<OnceSlot>,
}

/// The slots that the members of a batch want.
#[derive(Default)]
pub(crate) struct Claims {
    held: BTreeMap<SlotKey, Held>,
    suppressed: Suppressions,
}

impl Claims {
    /// Locks every slot that one of these messages wants. It waits for whoever is just claiming or resetting one of them.
    pub(crate) async fn lock(
        transaction: &Transaction,
        messages: &[NewMessage],
        now: Timestamp,
    ) -> Result<Claims, Fault> {
        let mut wanted: BTreeMap<SlotKey, OnceSlot> = BTreeMap::new();
        for new in messages {
            let Some(claim) = &new.once else { continue };
            let key = (new.environment, new.message.application, claim.key.clone());
            if let Claimed::Won(slot) = once::claim(None, claim.phase, new.message.id) {
                wanted.entry(key).or_insert(slot);
            }
        }
        if wanted.is_empty() {
            return Ok(Claims::default());
        }
        let columns = Columns::new(wanted.iter().map(|(key, slot)| (key, Some(slot))));
        let now = now.as_micros();
        let (make, lock) =
            (transaction.prepare(&sql::APPEND_ONCE).await?, transaction.prepare(&sql::CLAIM_ONCE).await?);
        let (all, keys) = (columns.all(&now), columns.keys());
        // In one round trip, but each with a snapshot of its own: the second one sees whom the first one waited for.
        let (made, locked) = within(try_join(transaction.query(&make, &all), transaction.query(&lock, &keys))).await?;
        let made: HashSet<SlotKey> =
            made.iter().map(|row| read_key(&mut Reader::new(row, "once_slot"))).collect::<Result<_, _>>()?;
        let mut held = BTreeMap::new();
        for row in &locked {
            let mut row = Reader::new(row, "once_slot");
            let key = read_key(&mut row)?;
            let kept = read_slot(&mut row)?;
            let before = (!made.contains(&key)).then_some(kept);
            held.insert(key, Held { before, kept, decided: None });
        }
        if wanted.keys().any(|key| !held.contains_key(key)) {
            return Err(Fault::Contended("a slot was removed while it was looked at"));
        }
        Ok(Claims { held, suppressed: Suppressions::default() })
    }

    /// Gives a message that is accepted otherwise its slot; if it is another's, answers whose.
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

    /// Whether there is something to remember although nothing was accepted.
    pub(crate) fn has_suppressed(&self) -> bool {
        !self.suppressed.is_empty()
    }

    /// Makes the rows say what was decided, and logs what was suppressed.
    pub(crate) async fn write(&self, transaction: &Transaction, now: Timestamp) -> Result<(), Fault> {
        let wrong = self.held.iter().filter(|(_, held)| match held.decided {
            Some(decided) => decided != held.kept,
            None => held.before.is_none(),
        });
        let slots = Columns::new(wrong.map(|(key, held)| (key, held.decided.as_ref())));
        let now = now.as_micros();
        if !slots.is_empty() {
            transaction.change(&sql::REPLACE_ONCE, &slots.all(&now)).await?;
        }
        if self.has_suppressed() {
            log(transaction, &self.suppressed, now).await?;
        }
        Ok(())
    }
}

async fn log(transaction: &Transaction, suppressed: &Suppressions, now: i64) -> Result<(), Fault> {
    let (mut environments, mut applications, mut keys) = (Vec::new(), Vec::new(), Vec::new());
    let (mut winners, mut numbers) = (Vec::new(), Vec::new());
    for (suppression, calls) in suppressed.iter() {
        environments.push(suppression.environment.0);
        applications.push(suppression.application.as_bytes().as_slice());
        keys.push(suppression.key.as_str());
        winners.push(suppression.winner.as_bytes().as_slice());
        numbers.push(calls);
    }
    let params: Params<'_> = &[&environments, &applications, &keys, &winners, &numbers, &now];
    transaction.change(&sql::APPEND_ONCE_SUPPRESSION, params).await.map(drop)
}

/// Slots as the arrays that statements take; without a winner where nobody got one.
#[derive(Default)]
struct Columns<'a> {
    environments: Vec<i32>,
    applications: Vec<&'a [u8]>,
    keys: Vec<&'a str>,
    phases: Vec<Option<i64>>,
    winners: Vec<Option<&'a [u8]>>,
    winner_phases: Vec<Option<i64>>,
}

impl<'a> Columns<'a> {
    fn new(slots: impl Iterator<Item = (&'a SlotKey, Option<&'a OnceSlot>)>) -> Columns<'a> {
        let mut columns = Columns::default();
        for ((environment, application, key), slot) in slots {
            columns.environments.push(environment.0);
            columns.applications.push(application.as_bytes().as_slice());
            columns.keys.push(key.as_str());
            columns.phases.push(slot.map(|slot| slot.phase.to_db()));
            columns.winners.push(slot.map(|slot| slot.winner.as_bytes().as_slice()));
            columns.winner_phases.push(slot.map(|slot| slot.winner_phase.to_db()));
        }
        columns
    }

    fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    fn keys(&self) -> [&(dyn tokio_postgres::types::ToSql + Sync); 3] {
        [&self.environments, &self.applications, &self.keys]
    }

    fn all<'s>(&'s self, now: &'s i64) -> [&'s (dyn tokio_postgres::types::ToSql + Sync); 7] {
        let [environments, applications, keys] = self.keys();
        [environments, applications, keys, &self.phases, &self.winners, &self.winner_phases, now]
    }
}

impl PostgresStore {
    pub(crate) async fn find_slot(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        key: &Name,
    ) -> Result<Option<OnceRecord>, Fault> {
        let params: Params<'_> = &[&environment.0, &application.as_bytes().as_slice(), &key.as_str()];
        let found = self.database.read(&sql::FIND_ONCE, params).await?;
        found.first().map(read_record).transpose()
    }

    pub(crate) async fn list_slots(
        &self,
        environment: EnvironmentId,
        application: ApplicationId,
        slice: &Slice<Name>,
    ) -> Result<Vec<OnceRecord>, Fault> {
        let after = slice.after.as_ref().map(Name::as_str);
        let (low, high) = match slice.order {
            Order::Ascending => (after.unwrap_or(""), NAME_ABOVE),
            Order::Descending => ("", after.unwrap_or(NAME_ABOVE)),
        };
        let text = sql::directed(&sql::LIST_ONCE, slice.order);
        let application = application.as_bytes().as_slice();
        let params: Params<'_> = &[&environment.0, &application, &low, &high, &count(slice.limit)];
        let found = self.database.read_as(&sql::LIST_ONCE, &text, params).await?;
        found.iter().map(read_record).collect()
    }

    pub(crate) async fn reset_slot(&self, key: &SlotKey) -> Result<bool, Fault> {
        let transaction = self.database.transaction().await?;
        transaction.begin().await?;
        let locked = transaction.rows(&sql::CLAIM_ONCE, &Columns::new([(key, None)].into_iter()).keys()).await?;
        let Some(row) = locked.first() else {
            transaction.roll_back().await?;
            return Ok(false);
        };
        let mut row = Reader::new(row, "once_slot");
        read_key(&mut row)?;
        let slot = read_slot(&mut row)?;
        if slot.is_open() {
            transaction.roll_back().await?;
            return Ok(true);
        }
        let clock = transaction.rows(&sql::NOW, &[]).await?;
        let clock = clock.first().ok_or(Fault::Contended("the clock gave no answer"))?;
        let now: i64 = Reader::new(clock, "clock").get("now")?;
        let reset = slot.reset();
        let replace = transaction.prepare(&sql::REPLACE_ONCE).await?;
        let columns = Columns::new([(key, Some(&reset))].into_iter());
        let params = columns.all(&now);
        transaction.commit_with(transaction.execute(&replace, &params)).await?;
        Ok(true)
    }
}

fn read_key(row: &mut Reader<'_>) -> Result<SlotKey, Fault> {
    Ok((EnvironmentId(row.get("environment")?), ApplicationId(row.id("application")?), row.name("key")?))
}

fn read_slot(row: &mut Reader<'_>) -> Result<OnceSlot, Fault> {
    Ok(OnceSlot {
        phase: Phase::from_db(row.get("phase")?),
        winner: MessageId(row.id("winner")?),
        winner_phase: Phase::from_db(row.get("winner_phase")?),
    })
}

fn read_record(row: &Row) -> Result<OnceRecord, Fault> {
    let mut row = Reader::new(row, "once_slot");
    Ok(OnceRecord {
        key: row.name("key")?,
        slot: read_slot(&mut row)?,
        created_at: row.time("created_at")?,
        claimed_at: row.time("claimed_at")?,
        updated_at: row.time("updated_at")?,
        suppressed: row.get::<i64>("calls")?.unsigned_abs(),
    })
}
