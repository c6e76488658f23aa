//! The outbox in a customer's own SQLite file, which `everhook-outbox` writes to.
//!
//! The store is a guest in this file. It reads without locks, and writes only to delete relayed rows or to set rows
//! aside, in one short transaction. It neither creates nor migrates the file.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use everhook_core::id::Id;
use everhook_core::limits::{OUTBOX_BATCH_BYTES_MAX, OUTBOX_BATCH_MAX, OUTBOX_COUNTED_MAX, OUTBOX_ROW_BYTES_MAX};
use everhook_core::time::Timestamp;
use everhook_outbox::schema;
use everhook_store::error::StoreError;
use everhook_store::outbox::{
    AsideChange, AsideFields, AsideRow, CLAIM_BYTES, Claim, Done, Finished, IDENTITY_BYTES, Outbox, OutboxBatch,
    OutboxRow, OutboxStatus, Taken, aside_bytes, row_age,
};
use everhook_store::piece::Piece;
use everhook_store::sql::shared::{OUTBOX_ASIDE, OUTBOX_CORRECTION};
use everhook_store::statement;
use everhook_store::store::Op;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row, Transaction, TransactionBehavior, params};

use crate::error::{Fault, Refusal};
use crate::open::{Cause, SqliteOpenError, open_private};
use crate::sql::run_plain;

// Rows with texts that are not UTF-8 are read by hand.
const LIST_OUTBOX: &str = include_str!("../queries/list_outbox.sql");
const LIST_OUTBOX_ASIDE: &str = include_str!("../queries/list_outbox_aside.sql");

statement! {
    AnyOutbox = ("any_outbox", "select 1 from everhook_outbox limit 1") {} -> Option<i32>;
    FindOutboxRelay = ("find_outbox_relay", "select identity, floor from everhook_outbox_relay") {}
        -> Option<([u8; IDENTITY_BYTES], Option<Bytes>)>;
    RaiseOutbox = (
        "raise_outbox",
        "update everhook_outbox_relay set floor = max(coalesce(floor, :floor), :floor)"
    ) { floor: Id };
    DeleteOutbox = ("delete_outbox", "delete from everhook_outbox where id = :id") { id: i64 };
    SetAsideOutbox<'a> = ["set_aside_outbox", OUTBOX_ASIDE] { id: i64, error: &'a str };
    // Returns the number of rows, the age of the oldest, and the number of rows set aside.
    FindOutboxStatus = "find_outbox_status" { counted_max: usize } -> Option<(i64, Option<i64>, i64)>;
    ReplaceOutboxAside<'a> = ["replace_outbox_aside", OUTBOX_CORRECTION] { fields: AsideFields<'a> };
    RetryOutboxAside = "retry_outbox_aside" { id: i64 };
    DeleteOutboxAside = ("delete_outbox_aside", "delete from everhook_outbox_aside where id = :id") { id: i64 };
}

/// A file has no claims, because only finished rows are written to it. A second process that relays the same file
/// repeats work without effect: its messages were already accepted.
const NO_CLAIM: Claim = Claim([0; CLAIM_BYTES]);
/// The most time to wait for the customer's own transactions.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// An outbox in a customer's SQLite file.
#[derive(Clone)]
pub struct SqliteOutbox {
    file: PathBuf,
    /// Opened at first use, and again after a failure.
    connection: Arc<Mutex<Option<Connection>>>,
}

impl SqliteOutbox {
    /// Opens an outbox. The file may be missing: it is opened at the first use.
    pub fn in_file(file: &Path) -> SqliteOutbox {
        SqliteOutbox { file: file.to_owned(), connection: Arc::default() }
    }

    /// Creates an outbox in a file. Repeatable.
    pub fn install(file: &Path) -> Result<(), SqliteOpenError> {
        // A new file is readable by this user alone, because its rows contain payloads.
        open_private(file).map_err(|error| Cause::from(error).at(file))?;
        let install = || {
            let connection = Connection::open(file)?;
            connection.busy_timeout(BUSY_TIMEOUT)?;
            connection.execute_batch(schema::SQLITE)
        };
        install().map_err(|error: rusqlite::Error| Cause::from(error).at(file))
    }

    /// Runs `work` on the connection, on a thread that may block.
    async fn with<T: Send + 'static>(
        &self,
        op: Op,
        work: impl FnOnce(&mut Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let this = self.clone();
        let done = tokio::task::spawn_blocking(move || {
            let mut slot = this.connection.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let mut connection = match slot.take() {
                Some(connection) => connection,
                None => connect(&this.file)?,
            };
            let done = work(&mut connection);
            // A connection that failed may be broken; the next call opens another.
            *slot = done.is_ok().then_some(connection);
            done
        });
        match done.await {
            Ok(done) => done.map_err(|fault: Fault| fault.into_store_error(op)),
            Err(_) => Err(Refusal::Panicked.into_store_error(op)),
        }
    }
}

fn connect(file: &Path) -> Result<Connection, Fault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    Ok(connection)
}

/// Reads floor and rows in one snapshot. If another relay has deleted rows, it has also raised the floor.
fn read_batch(connection: &mut Connection) -> Result<Option<OutboxBatch>, Fault> {
    if run_plain(connection, AnyOutbox {})?.is_none() {
        return Ok(None);
    }
    let snapshot = connection.transaction()?;
    let relay = run_plain(&snapshot, FindOutboxRelay {})?;
    let (identity, floor) = relay.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    let floor = floor.and_then(|floor| Id::from_slice(&floor));
    let mut statement = snapshot.prepare_cached(LIST_OUTBOX)?;
    let limits = [OUTBOX_BATCH_MAX, OUTBOX_BATCH_BYTES_MAX, OUTBOX_ROW_BYTES_MAX].map(|limit| limit as i64);
    let mut rows = statement.query(limits)?;
    let mut batch = OutboxBatch { identity, floor, ..OutboxBatch::default() };
    while let Some(row) = rows.next()? {
        match row.get::<_, Option<String>>(13)?.map_or_else(|| check_texts(row), Err) {
            Ok(()) => batch.rows.push(read_row(row)?),
            Err(reason) => batch.unreadable.push((row.get(0)?, reason)),
        }
    }
    Ok((!batch.is_empty()).then_some(batch))
}

/// Checks that every text of a row is UTF-8: SQLite stores any bytes.
fn check_texts(row: &Row<'_>) -> Result<(), String> {
    for column in 3..=11 {
        if let Ok(ValueRef::Text(bytes)) = row.get_ref(column)
            && std::str::from_utf8(bytes).is_err()
        {
            let name = row.as_ref().column_name(column).unwrap_or_default();
            return Err(format!("{name} is not UTF-8"));
        }
    }
    Ok(())
}

/// Deletes relayed rows, and sets bad ones aside.
fn finish(connection: &mut Connection, done: &Done) -> Result<(), Fault> {
    if *done == Done::default() {
        return Ok(());
    }
    write(connection, |transaction| {
        for (id, error) in &done.set_aside {
            run_plain(transaction, SetAsideOutbox { id: *id, error })?;
        }
        let gone = done.relayed.iter().chain(done.set_aside.iter().map(|(id, _)| id));
        for id in gone {
            run_plain(transaction, DeleteOutbox { id: *id })?;
        }
        if let Some(floor) = done.floor {
            run_plain(transaction, RaiseOutbox { floor })?;
        }
        Ok(())
    })
}

fn write<T>(connection: &mut Connection, work: impl FnOnce(&Transaction<'_>) -> Result<T, Fault>) -> Result<T, Fault> {
    // The write lock is taken at once: SQLite may refuse to upgrade a lock later without waiting.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let done = work(&transaction)?;
    transaction.commit()?;
    Ok(done)
}

fn read_row(row: &Row<'_>) -> Result<OutboxRow, rusqlite::Error> {
    Ok(OutboxRow {
        id: row.get(0)?,
        created_at: Timestamp::from_micros(row.get(1)?),
        age: row_age(row.get(2)?),
        environment: text(row, 3)?,
        application: text(row, 4)?.unwrap_or_default(),
        event_type: text(row, 5)?.unwrap_or_default(),
        payload: text(row, 6)?.unwrap_or_default(),
        event_id: text(row, 7)?,
        channels: text(row, 8)?.map(list),
        tags: text(row, 9)?.map(list),
        deliver_at: row.get::<_, Option<i64>>(10)?.map(Timestamp::from_micros),
        once_key: text(row, 11)?,
        once_phase: row.get(12)?,
    })
}

/// Reads a text, with invalid bytes replaced.
fn text(row: &Row<'_>, column: usize) -> Result<Option<String>, rusqlite::Error> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    })
}

/// Reads a list. A text that is no list becomes one entry, which is no valid name, so the row is set aside.
fn list(text: String) -> Vec<String> {
    serde_json::from_str(&text).unwrap_or_else(|_| vec![text])
}

#[async_trait]
impl Outbox for SqliteOutbox {
    async fn take(&self) -> Result<Taken, StoreError> {
        let batch = self.with(Op::TakeOutbox, read_batch).await?;
        Ok(batch.map_or(Taken::Nothing, |batch| Taken::Rows(NO_CLAIM, batch)))
    }

    async fn finish(&self, _: Claim, done: Done) -> Result<Finished, StoreError> {
        self.with(Op::FinishOutbox, move |connection| finish(connection, &done)).await?;
        Ok(Finished::Done)
    }

    async fn status(&self) -> Result<OutboxStatus, StoreError> {
        self.with(Op::OutboxStatus, |connection| {
            let found = run_plain(connection, FindOutboxStatus { counted_max: OUTBOX_COUNTED_MAX })?;
            Ok(found.map(OutboxStatus::of).ok_or(rusqlite::Error::QueryReturnedNoRows)?)
        })
        .await
    }

    async fn list_aside(&self, after: i64, limit: usize) -> Result<Piece<AsideRow, i64>, StoreError> {
        self.with(Op::ListAside, move |connection| {
            let mut statement = connection.prepare_cached(LIST_OUTBOX_ASIDE)?;
            let rows = statement.query_map(params![after, limit as i64], |row| {
                let set_aside_at = Timestamp::from_micros(row.get(13)?);
                Ok(AsideRow { row: read_row(row)?, set_aside_at, error: text(row, 14)?.unwrap_or_default() })
            })?;
            Ok(Piece::gather(rows, limit, aside_bytes, |aside| aside.row.id, None)?)
        })
        .await
    }

    async fn replace_aside(&self, id: i64, change: &AsideChange) -> Result<bool, StoreError> {
        let change = change.clone();
        self.with(Op::ReplaceAside, move |connection| {
            Ok(run_plain(connection, ReplaceOutboxAside { fields: AsideFields::new(id, &change) })? > 0)
        })
        .await
    }

    async fn retry_aside(&self, ids: &[i64]) -> Result<u64, StoreError> {
        let ids = ids.to_vec();
        self.with(Op::RetryAside, move |connection| {
            write(connection, |transaction| {
                let mut retried = 0;
                for id in ids {
                    if run_plain(transaction, RetryOutboxAside { id })? > 0 {
                        retried += run_plain(transaction, DeleteOutboxAside { id })?;
                    }
                }
                Ok(retried)
            })
        })
        .await
    }

    async fn discard_aside(&self, ids: &[i64]) -> Result<u64, StoreError> {
        let ids = ids.to_vec();
        self.with(Op::DiscardAside, move |connection| {
            write(connection, |transaction| {
                let mut discarded = 0;
                for id in ids {
                    discarded += run_plain(transaction, DeleteOutboxAside { id })?;
                }
                Ok(discarded)
            })
        })
        .await
    }
}
