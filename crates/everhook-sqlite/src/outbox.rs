//! The outbox in a customer's own SQLite file, which `everhook-outbox` writes to.
//!
//! The store is a guest in this file. It reads without locks, and writes only to delete relayed rows or to set rows
//! aside, in one short transaction. It neither creates nor migrates the file.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use everhook_core::id::Id;
use everhook_core::limits::{OUTBOX_BATCH_BYTES_MAX, OUTBOX_BATCH_MAX, OUTBOX_COUNTED_MAX, OUTBOX_ROW_BYTES_MAX};
use everhook_core::time::Timestamp;
use everhook_outbox::schema;
use everhook_store::error::StoreError;
use everhook_store::outbox::{
    AsideChange, AsideRow, CLAIM_BYTES, Claim, Done, Finished, Outbox, OutboxBatch, OutboxRow, OutboxStatus, Taken,
    aside_bytes,
};
use everhook_store::piece::Piece;
use everhook_store::store::Op;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, Transaction, TransactionBehavior, params};

use crate::error::{Fault, Refusal};
use crate::open::{Cause, SqliteOpenError, open_private};

const LIST_OUTBOX: &str = include_str!("../queries/list_outbox.sql");
const SET_ASIDE_OUTBOX: &str = include_str!("../queries/set_aside_outbox.sql");
const LIST_OUTBOX_ASIDE: &str = include_str!("../queries/list_outbox_aside.sql");
const RETRY_OUTBOX_ASIDE: &str = include_str!("../queries/retry_outbox_aside.sql");
const REPLACE_OUTBOX_ASIDE: &str = include_str!("../queries/replace_outbox_aside.sql");
const FIND_OUTBOX_STATUS: &str = include_str!("../queries/find_outbox_status.sql");
const ANY_OUTBOX: &str = "select 1 from everhook_outbox limit 1";
const FIND_OUTBOX_RELAY: &str = "select identity, floor from everhook_outbox_relay";
const RAISE_OUTBOX: &str = "update everhook_outbox_relay set floor = max(coalesce(floor, ?1), ?1)";
const DELETE_OUTBOX: &str = "delete from everhook_outbox where id = ?1";
const DELETE_OUTBOX_ASIDE: &str = "delete from everhook_outbox_aside where id = ?1";

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
    if connection.prepare_cached(ANY_OUTBOX)?.query_row([], |_| Ok(())).optional()?.is_none() {
        return Ok(None);
    }
    let snapshot = connection.transaction()?;
    let (identity, floor) = snapshot
        .query_row(FIND_OUTBOX_RELAY, [], |row| Ok((row.get::<_, [u8; 16]>(0)?, row.get::<_, Option<Vec<u8>>>(1)?)))?;
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
            transaction.prepare_cached(SET_ASIDE_OUTBOX)?.execute(params![id, error])?;
        }
        let gone = done.relayed.iter().chain(done.set_aside.iter().map(|(id, _)| id));
        for id in gone {
            transaction.prepare_cached(DELETE_OUTBOX)?.execute(params![id])?;
        }
        if let Some(floor) = done.floor {
            transaction.prepare_cached(RAISE_OUTBOX)?.execute(params![floor.as_bytes()])?;
        }
        Ok(())
    })
}

fn write<T>(
    connection: &mut Connection,
    work: impl FnOnce(&Transaction<'_>) -> Result<T, rusqlite::Error>,
) -> Result<T, Fault> {
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
        age: span(row.get(2)?),
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

/// Negative if the clock was set back; then the age is zero.
fn span(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or_default())
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
            let mut statement = connection.prepare_cached(FIND_OUTBOX_STATUS)?;
            let status = statement.query_row(params![OUTBOX_COUNTED_MAX as i64], |row| {
                let count = |rows: i64| u64::try_from(rows).unwrap_or_default();
                let oldest: Option<i64> = row.get(1)?;
                Ok(OutboxStatus {
                    depth: count(row.get(0)?),
                    oldest_age: oldest.map(span),
                    set_aside: count(row.get(2)?),
                })
            })?;
            Ok(status)
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
        let AsideChange { environment, application, event_type, payload, event_id } = change.clone();
        self.with(Op::ReplaceAside, move |connection| {
            let params = params![id, environment, application, event_type, payload, event_id];
            Ok(connection.prepare_cached(REPLACE_OUTBOX_ASIDE)?.execute(params)? > 0)
        })
        .await
    }

    async fn retry_aside(&self, ids: &[i64]) -> Result<u64, StoreError> {
        let ids = ids.to_vec();
        self.with(Op::RetryAside, move |connection| {
            write(connection, |transaction| {
                let mut retried = 0;
                for id in ids {
                    if transaction.prepare_cached(RETRY_OUTBOX_ASIDE)?.execute(params![id])? > 0 {
                        retried += transaction.prepare_cached(DELETE_OUTBOX_ASIDE)?.execute(params![id])? as u64;
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
                    discarded += transaction.prepare_cached(DELETE_OUTBOX_ASIDE)?.execute(params![id])? as u64;
                }
                Ok(discarded)
            })
        })
        .await
    }
}
