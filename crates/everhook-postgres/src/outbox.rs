//! The outbox in a PostgreSQL: the store's own, or one that belongs to someone else.
//!
//! Who has locked the one row of `outbox_relay` relays; the lock lives as long as the transaction, so that a node that dies lets
//! go of it at once. The commit that deletes what was relayed does not wait for the disk: rows that come back are relayed again
//! and found accepted.

use std::time::Duration;

use async_trait::async_trait;
use everhook_core::id::Id;
use everhook_core::limits::{
    OUTBOX_BATCH_BYTES_MAX, OUTBOX_BATCH_MAX, OUTBOX_COUNTED_MAX, OUTBOX_ROW_BYTES_MAX, PAGE_BYTES_MAX,
};
use everhook_core::time::Timestamp;
use everhook_outbox::schema;
use everhook_store::error::StoreError;
use everhook_store::outbox::{
    AsideChange, AsideRow, Batch, Done, IDENTITY_BYTES, Outbox, OutboxRow, OutboxStatus, Relayed, Relayer, aside_bytes,
};
use everhook_store::piece::Piece;
use everhook_store::store::Op;
use futures_util::future::try_join4;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::catalog::count;
use crate::connection::{Connector, Route, address, settings};
use crate::error::{Fault, OpenError};
use crate::migrate;
use crate::rows::Reader;
use crate::sql;
use crate::statement::{Database, Transaction};
use crate::store::pool;

type Value<'a> = &'a (dyn ToSql + Sync);

/// Rows of customers' transactions.
pub struct PostgresOutbox {
    pub(crate) database: Database,
}

/// Connections to a database that only holds an outbox: one that relays, one for those who look.
const POOL_SIZE: usize = 2;

impl PostgresOutbox {
    /// The outbox in a database that need not be there yet: it is connected to when it is looked into.
    pub fn in_database(url: &str, pooler: bool) -> Result<PostgresOutbox, OpenError> {
        let settings = settings(url, if pooler { Route::Pooler } else { Route::Direct })?;
        let connector = Connector::new(&settings)?;
        Ok(PostgresOutbox { database: Database { pool: pool(settings, connector, POOL_SIZE)?, pooler } })
    }

    /// Makes an outbox in a database that is not Everhook's own. Doing it again is harmless.
    pub async fn install(url: &str) -> Result<(), OpenError> {
        let config = settings(url, Route::Pooler)?;
        let client = Connector::new(&config)?.open_now(&config).await?;
        let failed = |source| OpenError::Statement {
            address: address(&config),
            what: "install the outbox",
            source: Box::new(source),
        };
        if migrate::read_version(&client).await.map_err(failed)?.version > 0 {
            return Err(OpenError::OwnOutbox { address: address(&config) });
        }
        client.batch_execute(&format!("begin; {} commit", schema::POSTGRES)).await.map_err(failed)
    }

    /// Lets a role call `everhook.send`, and nothing else.
    pub async fn grant(url: &str, role: &str) -> Result<(), OpenError> {
        let config = settings(url, Route::Pooler)?;
        let client = Connector::new(&config)?.open_now(&config).await?;
        client.batch_execute(&format!("begin; {} commit", schema::grant(role))).await.map_err(|source| {
            OpenError::Statement {
                address: address(&config),
                what: "grant the right to send",
                source: Box::new(source),
            }
        })
    }

    async fn relay_once(&self, relayer: &dyn Relayer) -> Result<Relayed, Fault> {
        // Most looks find nothing: they cost one short statement, and no transaction.
        if self.database.read(&sql::ANY_OUTBOX, &[]).await?.is_empty() {
            return Ok(Relayed::Nothing);
        }
        let transaction = self.database.transaction().await?;
        let lock = transaction.prepare(&sql::LOCK_OUTBOX).await?;
        let locked = transaction.begin_with(transaction.query(&lock, &[])).await?;
        let Some(control) = locked.first() else {
            transaction.roll_back().await?;
            return Ok(Relayed::Busy);
        };
        let [rows, bytes, row_bytes] =
            [OUTBOX_BATCH_MAX, OUTBOX_BATCH_BYTES_MAX, OUTBOX_ROW_BYTES_MAX].map(|limit| limit as i64);
        let rows = transaction.rows(&sql::LIST_OUTBOX, &[&rows, &bytes, &row_bytes]).await?;
        let batch = read_batch(control, &rows)?;
        if batch.is_empty() {
            transaction.roll_back().await?;
            return Ok(Relayed::Nothing);
        }
        match relayer.relay(&batch).await {
            Ok(done) => finish(&transaction, &done).await.map(|()| Relayed::Rows(batch.len())),
            Err(error) => {
                transaction.roll_back().await?;
                Ok(Relayed::Failed(error))
            }
        }
    }

    async fn status_once(&self) -> Result<OutboxStatus, Fault> {
        let rows = self.database.read(&sql::FIND_OUTBOX_STATUS, &[&(OUTBOX_COUNTED_MAX as i64)]).await?;
        let row = rows.first().ok_or(Fault::Contended("the outbox gave no answer"))?;
        let mut row = Reader::new(row, "outbox");
        let count = |rows: i64| u64::try_from(rows).unwrap_or_default();
        let depth = count(row.get("depth")?);
        let oldest: Option<i64> = row.get("oldest")?;
        Ok(OutboxStatus { depth, oldest_age: oldest.map(span), set_aside: count(row.get("set_aside")?) })
    }

    async fn list_aside_once(&self, after: i64, limit: usize) -> Result<Piece<AsideRow, i64>, Fault> {
        let params: [Value<'_>; 3] = [&after, &count(limit), &count(PAGE_BYTES_MAX)];
        let rows = self.database.read(&sql::LIST_OUTBOX_ASIDE, &params).await?;
        let read = |row: &Row| {
            let mut row = Reader::new(row, "outbox_aside");
            let id = row.get("id")?;
            let said = read_row(id, &mut row)?;
            Ok(AsideRow { row: said, set_aside_at: row.time("set_aside_at")?, error: row.get("error")? })
        };
        Piece::gather(rows.iter().map(read), limit, aside_bytes, |aside| aside.row.id, None)
    }

    async fn replace_aside_once(&self, id: i64, change: &AsideChange) -> Result<bool, Fault> {
        let AsideChange { environment, application, event_type, payload, event_id } = change;
        let params: [Value<'_>; 6] = [&id, environment, application, event_type, payload, event_id];
        self.database.change(&sql::REPLACE_OUTBOX_ASIDE, &params).await.map(|changed| changed > 0)
    }
}

/// Removes what was relayed, moves the rest aside, and commits; in one round trip.
async fn finish(transaction: &Transaction, done: &Done) -> Result<(), Fault> {
    let floor = done.floor.as_ref().map(|floor| floor.as_bytes().as_slice());
    let (aside, errors): (Vec<i64>, Vec<&str>) = done.set_aside.iter().map(|(id, error)| (*id, error.as_str())).unzip();
    let (delete, set_aside, raise) = (
        transaction.prepare(&sql::DELETE_OUTBOX).await?,
        transaction.prepare(&sql::SET_ASIDE_OUTBOX).await?,
        transaction.prepare(&sql::RAISE_OUTBOX).await?,
    );
    let delete_params: [Value<'_>; 1] = [&done.relayed];
    let aside_params: [Value<'_>; 2] = [&aside, &errors];
    let raise_params: [Value<'_>; 1] = [&floor];
    let writes = try_join4(
        transaction.client().batch_execute("set local synchronous_commit = off"),
        transaction.execute(&delete, &delete_params),
        async {
            if aside.is_empty() {
                return Ok(0);
            }
            transaction.execute(&set_aside, &aside_params).await
        },
        transaction.execute(&raise, &raise_params),
    );
    transaction.commit_with(writes).await.map(drop)
}

fn read_batch(control: &Row, rows: &[Row]) -> Result<Batch, Fault> {
    let mut control = Reader::new(control, "outbox_relay");
    let identity: &[u8] = control.get("identity")?;
    let identity: [u8; IDENTITY_BYTES] =
        identity.try_into().map_err(|_| Fault::Corrupt { table: "outbox_relay", column: "identity" })?;
    let floor: Option<&[u8]> = control.get("floor")?;
    let floor = floor.and_then(Id::from_slice);
    let mut batch = Batch { identity, floor, ..Batch::default() };
    for row in rows {
        let mut row = Reader::new(row, "outbox");
        let (id, flaw): (i64, Option<String>) = (row.get("id")?, row.get("flaw")?);
        match flaw.map_or_else(|| read_row(id, &mut row).map_err(|fault| format!("it cannot be read: {fault}")), Err) {
            Ok(row) => batch.rows.push(row),
            Err(reason) => batch.unreadable.push((id, reason)),
        }
    }
    Ok(batch)
}

/// What a row says after its number.
fn read_row(id: i64, row: &mut Reader<'_>) -> Result<OutboxRow, Fault> {
    Ok(OutboxRow {
        id,
        created_at: row.time("created_at")?,
        age: span(row.get("age")?),
        environment: row.get("environment")?,
        application: row.get("application")?,
        event_type: row.get("event_type")?,
        payload: row.get("payload")?,
        event_id: row.get("event_id")?,
        channels: row.get("channels")?,
        tags: row.get("tags")?,
        deliver_at: row.get::<Option<i64>>("deliver_at")?.map(Timestamp::from_micros),
        once_key: row.get("once_key")?,
        once_phase: row.get("once_phase")?,
    })
}

/// Its clock may have been set back.
fn span(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or_default())
}

#[async_trait]
impl Outbox for PostgresOutbox {
    async fn relay(&self, relayer: &dyn Relayer) -> Result<Relayed, StoreError> {
        // Not run again here: the relay looks again soon enough.
        self.relay_once(relayer).await.map_err(|fault| fault.told(Op::RelayOutbox))
    }

    async fn status(&self) -> Result<OutboxStatus, StoreError> {
        self.status_once().await.map_err(|fault| fault.told(Op::OutboxStatus))
    }

    async fn list_aside(&self, after: i64, limit: usize) -> Result<Piece<AsideRow, i64>, StoreError> {
        self.list_aside_once(after, limit).await.map_err(|fault| fault.told(Op::ListAside))
    }

    async fn replace_aside(&self, id: i64, change: &AsideChange) -> Result<bool, StoreError> {
        self.replace_aside_once(id, change).await.map_err(|fault| fault.told(Op::ReplaceAside))
    }

    async fn retry_aside(&self, ids: &[i64]) -> Result<u64, StoreError> {
        let retried = self.database.change(&sql::RETRY_OUTBOX_ASIDE, &[&ids]).await;
        retried.map_err(|fault| fault.told(Op::RetryAside))
    }

    async fn discard_aside(&self, ids: &[i64]) -> Result<u64, StoreError> {
        let discarded = self.database.change(&sql::DELETE_OUTBOX_ASIDE, &[&ids]).await;
        discarded.map_err(|fault| fault.told(Op::DiscardAside))
    }
}
