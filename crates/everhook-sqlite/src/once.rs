//! Once-slots: claimed in the transaction that appends the message; read and reset for the API.

use everhook_core::id::{EnvironmentId, MessageId};
use everhook_core::message::Message;
use everhook_core::name::Name;
use everhook_core::once::{self, Claimed, OnceClaim, OnceSlot, Phase};
use everhook_core::scope::AppScope;
use everhook_core::time::Timestamp;
use everhook_store::once::{Suppression, Suppressions};
use everhook_store::{fields, statement};

use crate::error::Fault;
use crate::sql::run;
use crate::writer::Tx;

fields! {
    /// The primary key of a slot.
    #[derive(Clone, Copy)]
    SlotKey<'a> { scope: AppScope, key: &'a Name }

    SlotFields { phase: Phase, winner: MessageId, winner_phase: Phase, now: Timestamp }
}

statement! {
    ClaimOnce<'a> = "claim_once" { at: SlotKey<'a> } -> Option<OnceSlot>;
    AppendOnce<'a> = "append_once" { at: SlotKey<'a>, slot: SlotFields };
    ReplaceOnce<'a> = "replace_once" { at: SlotKey<'a>, slot: SlotFields };
    AppendOnceSuppression<'a> = "append_once_suppression" {
        at: SlotKey<'a>, winner: MessageId, calls: i64, now: Timestamp,
    };
}

/// Claims a slot for an otherwise accepted message; returns the winner if another message has the slot.
pub(crate) fn take(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    message: &Message,
    claim: &OnceClaim,
) -> Result<Option<MessageId>, Fault> {
    let at = SlotKey { scope: AppScope::of(environment, message.application), key: &claim.key };
    let known = run(tx.conn, ClaimOnce { at })?;
    match once::claim(known, claim.phase, message.id) {
        Claimed::Won(slot) => {
            let slot = slot_fields(tx, slot);
            match known {
                Some(_) => run(tx.conn, ReplaceOnce { at, slot })?,
                None => run(tx.conn, AppendOnce { at, slot })?,
            };
            Ok(None)
        }
        Claimed::Suppressed(winner) => Ok(Some(winner)),
    }
}

fn slot_fields(tx: &Tx<'_>, slot: OnceSlot) -> SlotFields {
    SlotFields { phase: slot.phase, winner: slot.winner, winner_phase: slot.winner_phase, now: tx.now }
}

/// Logs the suppressed calls of this transaction.
pub(crate) fn log(tx: &Tx<'_>, suppressed: &Suppressions) -> Result<(), Fault> {
    for (Suppression { environment, application, key, winner }, calls) in suppressed.iter() {
        let at = SlotKey { scope: AppScope::of(*environment, *application), key };
        run(tx.conn, AppendOnceSuppression { at, winner: *winner, calls, now: tx.now })?;
    }
    Ok(())
}

pub(crate) fn reset(tx: &Tx<'_>, scope: AppScope, key: &Name) -> Result<bool, Fault> {
    let at = SlotKey { scope, key };
    let Some(slot) = run(tx.conn, ClaimOnce { at })? else { return Ok(false) };
    if !slot.is_open() {
        run(tx.conn, ReplaceOnce { at, slot: slot_fields(tx, slot.reset()) })?;
    }
    Ok(true)
}
