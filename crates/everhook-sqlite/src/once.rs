//! Once-slots: claimed in the transaction that appends the message; read and reset for the API.

use everhook_core::id::{ApplicationId, EnvironmentId, MessageId};
use everhook_core::message::Message;
use everhook_core::name::Name;
use everhook_core::once::{self, Claimed, OnceClaim, OnceSlot, Phase};
use everhook_store::catalog::Slice;
use everhook_store::once::{OnceRecord, Suppressions};
use everhook_store::piece::names_beyond;
use rusqlite::{Row, params};

use crate::connection::Connection;
use crate::error::Fault;
use crate::rows::Reader;
use crate::sql::{directed, limit};
use crate::writer::Tx;

const FIND_ONCE: &str = include_str!("../queries/find_once.sql");
const LIST_ONCE: &str = include_str!("../queries/list_once.sql");
const CLAIM_ONCE: &str = include_str!("../queries/claim_once.sql");
const APPEND_ONCE: &str = include_str!("../queries/append_once.sql");
const REPLACE_ONCE: &str = include_str!("../queries/replace_once.sql");
const APPEND_ONCE_SUPPRESSION: &str = include_str!("../queries/append_once_suppression.sql");

/// Claims a slot for an otherwise accepted message; returns the winner if another message has the slot.
pub(crate) fn take(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    message: &Message,
    claim: &OnceClaim,
) -> Result<Option<MessageId>, Fault> {
    let known = read(tx, environment, message.application, &claim.key)?;
    match once::claim(known, claim.phase, message.id) {
        Claimed::Won(slot) => {
            let write = if known.is_some() { REPLACE_ONCE } else { APPEND_ONCE };
            keep(tx, write, environment, message.application, &claim.key, slot)?;
            Ok(None)
        }
        Claimed::Suppressed(winner) => Ok(Some(winner)),
    }
}

/// Logs the suppressed calls of this transaction.
pub(crate) fn log(tx: &Tx<'_>, suppressed: &Suppressions) -> Result<(), Fault> {
    for (suppression, calls) in suppressed.iter() {
        tx.conn.prepare_cached(APPEND_ONCE_SUPPRESSION)?.execute(params![
            suppression.environment.0,
            suppression.application.as_bytes(),
            suppression.key.as_str(),
            suppression.winner.as_bytes(),
            calls,
            tx.now.as_micros(),
        ])?;
    }
    Ok(())
}

fn read(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    application: ApplicationId,
    key: &Name,
) -> Result<Option<OnceSlot>, Fault> {
    let mut claim = tx.conn.prepare_cached(CLAIM_ONCE)?;
    let mut rows = claim.query(params![environment.0, application.as_bytes(), key.as_str()])?;
    rows.next()?.map(|row| slot(&Reader::new(row, "once_slot"), 0)).transpose()
}

fn keep(
    tx: &Tx<'_>,
    write: &str,
    environment: EnvironmentId,
    application: ApplicationId,
    key: &Name,
    slot: OnceSlot,
) -> Result<(), Fault> {
    tx.conn.prepare_cached(write)?.execute(params![
        environment.0,
        application.as_bytes(),
        key.as_str(),
        slot.phase.to_db(),
        slot.winner.as_bytes(),
        slot.winner_phase.to_db(),
        tx.now.as_micros(),
    ])?;
    Ok(())
}

pub(crate) fn find(
    conn: &Connection,
    environment: EnvironmentId,
    application: ApplicationId,
    key: &Name,
) -> Result<Option<OnceRecord>, Fault> {
    let mut find = conn.prepare_cached(FIND_ONCE)?;
    let mut rows = find.query(params![environment.0, application.as_bytes(), key.as_str()])?;
    rows.next()?.map(record).transpose()
}

pub(crate) fn list(
    conn: &Connection,
    environment: EnvironmentId,
    application: ApplicationId,
    slice: &Slice<Name>,
) -> Result<Vec<OnceRecord>, Fault> {
    let (above, below) = names_beyond(slice);
    let mut list = conn.prepare_cached(&directed(LIST_ONCE, slice.order))?;
    let params = params![environment.0, application.as_bytes(), above, below, limit(slice.limit)];
    let rows = list.query_and_then(params, record)?;
    rows.collect()
}

pub(crate) fn reset(
    tx: &Tx<'_>,
    environment: EnvironmentId,
    application: ApplicationId,
    key: &Name,
) -> Result<bool, Fault> {
    let Some(slot) = read(tx, environment, application, key)? else { return Ok(false) };
    if !slot.is_open() {
        keep(tx, REPLACE_ONCE, environment, application, key, slot.reset())?;
    }
    Ok(true)
}

/// Decodes phase, winner and winner's phase, from column `first` on.
fn slot(record: &Reader<'_>, first: usize) -> Result<OnceSlot, Fault> {
    Ok(OnceSlot {
        phase: Phase::from_db(record.get(first, "phase")?),
        winner: MessageId(record.id(first + 1, "winner")?),
        winner_phase: Phase::from_db(record.get(first + 2, "winner_phase")?),
    })
}

fn record(row: &Row<'_>) -> Result<OnceRecord, Fault> {
    let record = Reader::new(row, "once_slot");
    Ok(OnceRecord {
        key: record.name(0, "key")?,
        slot: slot(&record, 1)?,
        created_at: record.time(4, "created_at")?,
        claimed_at: record.time(5, "claimed_at")?,
        updated_at: record.time(6, "updated_at")?,
        suppressed: record.get::<i64>(7, "calls")?.unsigned_abs(),
    })
}
