//! The outbox in a PostgreSQL database: the store's own, or another one.
//!
//! The holder in the single row of `outbox_relay` relays. No transaction is open meanwhile; `finish` deletes rows only
//! if the claim is still held. Neither commit waits for the disk. A lost claim lets a second relay in, and rows that
//! reappear are relayed again. Both are harmless, because the messages were already accepted under the keys of the
//! rows.

use async_trait::async_trait;
use bytes::Bytes;
use everhook_core::id::Id;
use everhook_core::limits::{
    OUTBOX_BATCH_BYTES_MAX, OUTBOX_BATCH_MAX, OUTBOX_CLAIM, OUTBOX_COUNTED_MAX, OUTBOX_ROW_BYTES_MAX, PAGE_BYTES_MAX,
};
use everhook_core::time::{Timestamp, micros};
use everhook_outbox::schema;
use everhook_store::error::StoreError;
use everhook_store::outbox::{
    AsideChange, AsideFields, AsideRow, CLAIM_BYTES, Claim, Done, Finished, IDENTITY_BYTES, Outbox, OutboxBatch,
    OutboxRow, OutboxStatus, Taken, aside_bytes, row_age,
};
use everhook_store::piece::Piece;
use everhook_store::seal::Seal;
use everhook_store::sql::shared::{OUTBOX_ASIDE, OUTBOX_CORRECTION};
use everhook_store::store::Op;
use everhook_store::{columns, row, statement};

use crate::connection::{Connector, Route, address, settings};
use crate::error::{Fault, PostgresOpenError};
use crate::migrate;
use crate::store::pool;
use crate::tx::Database;

columns! {
    /// Rows to set aside, each with the reason.
    BadRows of BadRow<'a> { id: i64, error: &'a str }
}

row! {
    /// The columns of a row after its number.
    struct Said in "outbox" {
        created_at: Timestamp,
        age: i64,
        environment: Option<String>,
        application: String,
        event_type: String,
        payload: String,
        event_id: Option<String>,
        channels: Option<Vec<String>>,
        tags: Option<Vec<String>>,
        deliver_at: Option<Timestamp>,
        once_key: Option<String>,
        once_phase: Option<i64>,
    }
}

statement! {
    AnyOutbox = ("any_outbox", "select 1 from everhook.outbox limit 1") {} -> Option<i32>;
    LockOutbox = (
        "lock_outbox",
        "select uuid_send(identity), floor from everhook.outbox_relay \
         where held_until is null or held_until < clock_timestamp() for no key update skip locked"
    ) {} -> Option<([u8; IDENTITY_BYTES], Option<Bytes>)>;
    ClaimOutbox = (
        "claim_outbox",
        "update everhook.outbox_relay set holder = gen_random_uuid(), \
         held_until = clock_timestamp() + :span_us * interval '1 microsecond' returning uuid_send(holder)"
    ) { span_us: i64 } -> Option<[u8; CLAIM_BYTES]>;
    LockClaim<'a> = (
        "lock_claim",
        "select 1 from everhook.outbox_relay where uuid_send(holder) = :holder for no key update"
    ) { holder: &'a [u8; CLAIM_BYTES] } -> Option<i32>;
    // A row with a flaw has no content.
    ListOutbox = "list_outbox" { rows_max: usize, bytes_max: usize, row_bytes_max: usize }
        -> Vec<(i64, Option<String>, Option<Said>)>;
    NoSync = ("no_sync", "set local synchronous_commit = off") {};
    ReleaseOutbox = (
        "release_outbox",
        "update everhook.outbox_relay set floor = greatest(floor, :floor), holder = null, held_until = null"
    ) { floor: Option<Id> };
    DeleteOutbox = ("delete_outbox", "delete from everhook.outbox where id = any (:ids)") { ids: Vec<i64> };
    SetAsideOutbox<'a> = ["set_aside_outbox", OUTBOX_ASIDE] { judged: BadRows<'a> };
    // Returns the number of rows, the age of the oldest, and the number of rows set aside.
    FindOutboxStatus = "find_outbox_status" { counted_max: usize } -> Option<(i64, Option<i64>, i64)>;
    ListOutboxAside = "list_outbox_aside" { after: i64, limit: usize, bytes_max: usize }
        -> Vec<(i64, Said, Timestamp, String)>;
    ReplaceOutboxAside<'a> = ["replace_outbox_aside", OUTBOX_CORRECTION] { fields: AsideFields<'a> };
    RetryOutboxAside = "retry_outbox_aside" { ids: Vec<i64> };
    DeleteOutboxAside = ("delete_outbox_aside", "delete from everhook.outbox_aside where id = any (:ids)") {
        ids: Vec<i64>,
    };
}

/// An outbox in a PostgreSQL database.
pub struct PostgresOutbox {
    pub(crate) database: Database,
}

/// Connections to a database that holds only an outbox: one for the relay, one for status and operators.
const POOL_SIZE: usize = 2;

impl PostgresOutbox {
    /// Opens an outbox. The database may be unreachable: the first connection is made at the first use.
    pub fn in_database(url: &str, pooler: bool) -> Result<PostgresOutbox, PostgresOpenError> {
        let settings = settings(url, if pooler { Route::Pooler } else { Route::Direct })?;
        let connector = Connector::new(url, &settings)?;
        Ok(PostgresOutbox {
            database: Database {
                pool: pool(settings, connector, POOL_SIZE)?,
                tenants: None,
                pooler,
                seal: Seal::default(),
            },
        })
    }

    /// Creates an outbox in a database that is not Everhook's own. Repeatable.
    pub async fn install(url: &str) -> Result<(), PostgresOpenError> {
        let config = settings(url, Route::Pooler)?;
        let client = Connector::new(url, &config)?.open_now(&config).await?;
        let failed = |source| PostgresOpenError::Statement {
            address: address(&config),
            what: "install the outbox",
            source: Box::new(source),
        };
        if migrate::read_version(&client).await.map_err(failed)?.version > 0 {
            return Err(PostgresOpenError::OwnOutbox { address: address(&config) });
        }
        client.batch_execute(&format!("begin; {} commit", schema::POSTGRES)).await.map_err(failed)
    }

    /// Grants a role the right to call `everhook.send`, and nothing else.
    pub async fn grant(url: &str, role: &str) -> Result<(), PostgresOpenError> {
        let config = settings(url, Route::Pooler)?;
        let client = Connector::new(url, &config)?.open_now(&config).await?;
        client.batch_execute(&format!("begin; {} commit", schema::grant(role))).await.map_err(|source| {
            PostgresOpenError::Statement {
                address: address(&config),
                what: "grant the right to send",
                source: Box::new(source),
            }
        })
    }

    async fn take_once(&self) -> Result<Taken, Fault> {
        // Most polls find an empty outbox: they cost one short statement and no transaction.
        if self.database.read(AnyOutbox {}).await?.is_none() {
            return Ok(Taken::Nothing);
        }
        let tx = self.database.tx().await?;
        let Some((identity, floor)) = tx.begin(LockOutbox {}).await? else {
            tx.roll_back().await?;
            return Ok(Taken::Busy);
        };
        let (rows_max, bytes_max) = (OUTBOX_BATCH_MAX, OUTBOX_BATCH_BYTES_MAX);
        let list = ListOutbox { rows_max, bytes_max, row_bytes_max: OUTBOX_ROW_BYTES_MAX };
        let (_, rows, claim) = tx.finish((NoSync {}, list, ClaimOutbox { span_us: micros(OUTBOX_CLAIM) })).await?;
        let claim = Claim(claim.ok_or(Fault::Contended("the claim of the outbox returned no row"))?);
        let floor = floor.and_then(|floor| Id::from_slice(&floor));
        let mut batch = OutboxBatch { identity, floor, ..OutboxBatch::default() };
        for (id, flaw, said) in rows {
            match (flaw, said) {
                (None, Some(said)) => batch.rows.push(said.row(id)),
                (flaw, _) => {
                    batch.unreadable.push((id, flaw.unwrap_or_else(|| "the row cannot be read".to_owned())));
                }
            }
        }
        if batch.is_empty() {
            // Another transaction has locked the rows.
            self.finish_once(claim, &Done::default()).await?;
            return Ok(Taken::Nothing);
        }
        Ok(Taken::Rows(claim, batch))
    }

    /// Deletes relayed rows and sets bad ones aside, if the claim is still held.
    async fn finish_once(&self, claim: Claim, done: &Done) -> Result<Finished, Fault> {
        let tx = self.database.tx().await?;
        // The lock prevents other relays from taking the claim until the commit, even if the claim has expired.
        if tx.begin(LockClaim { holder: &claim.0 }).await?.is_none() {
            tx.roll_back().await?;
            return Ok(Finished::Lost);
        }
        let mut judged = BadRows::default();
        for (id, error) in &done.set_aside {
            judged.push(BadRow { id: *id, error });
        }
        let set_aside = judged.nonempty().map(|judged| SetAsideOutbox { judged });
        let delete = (!done.relayed.is_empty()).then(|| DeleteOutbox { ids: done.relayed.clone() });
        tx.finish((NoSync {}, delete, set_aside, ReleaseOutbox { floor: done.floor })).await?;
        Ok(Finished::Done)
    }

    async fn status_once(&self) -> Result<OutboxStatus, Fault> {
        let found = self.database.read(FindOutboxStatus { counted_max: OUTBOX_COUNTED_MAX }).await?;
        found.map(OutboxStatus::of).ok_or(Fault::Contended("the status of the outbox returned no row"))
    }

    async fn list_aside_once(&self, after: i64, limit: usize) -> Result<Piece<AsideRow, i64>, Fault> {
        let rows = self.database.read(ListOutboxAside { after, limit, bytes_max: PAGE_BYTES_MAX }).await?;
        let read = |(id, said, set_aside_at, error): (i64, Said, Timestamp, String)| {
            Ok(AsideRow { row: said.row(id), set_aside_at, error })
        };
        Piece::gather(rows.into_iter().map(read), limit, aside_bytes, |aside| aside.row.id, None)
    }

    async fn replace_aside_once(&self, id: i64, change: &AsideChange) -> Result<bool, Fault> {
        let fields = AsideFields::new(id, change);
        self.database.write(ReplaceOutboxAside { fields }).await.map(|changed| changed > 0)
    }
}

impl Said {
    fn row(self, id: i64) -> OutboxRow {
        OutboxRow {
            id,
            created_at: self.created_at,
            age: row_age(self.age),
            environment: self.environment,
            application: self.application,
            event_type: self.event_type,
            payload: self.payload,
            event_id: self.event_id,
            channels: self.channels,
            tags: self.tags,
            deliver_at: self.deliver_at,
            once_key: self.once_key,
            once_phase: self.once_phase,
        }
    }
}

#[async_trait]
impl Outbox for PostgresOutbox {
    async fn take(&self) -> Result<Taken, StoreError> {
        // Not retried here: the relay polls again soon.
        self.take_once().await.map_err(|fault| fault.into_store_error(Op::TakeOutbox))
    }

    async fn finish(&self, claim: Claim, done: Done) -> Result<Finished, StoreError> {
        self.finish_once(claim, &done).await.map_err(|fault| fault.into_store_error(Op::FinishOutbox))
    }

    async fn status(&self) -> Result<OutboxStatus, StoreError> {
        self.status_once().await.map_err(|fault| fault.into_store_error(Op::OutboxStatus))
    }

    async fn list_aside(&self, after: i64, limit: usize) -> Result<Piece<AsideRow, i64>, StoreError> {
        self.list_aside_once(after, limit).await.map_err(|fault| fault.into_store_error(Op::ListAside))
    }

    async fn replace_aside(&self, id: i64, change: &AsideChange) -> Result<bool, StoreError> {
        self.replace_aside_once(id, change).await.map_err(|fault| fault.into_store_error(Op::ReplaceAside))
    }

    async fn retry_aside(&self, ids: &[i64]) -> Result<u64, StoreError> {
        let retried = self.database.write(RetryOutboxAside { ids: ids.to_vec() }).await;
        retried.map_err(|fault| fault.into_store_error(Op::RetryAside))
    }

    async fn discard_aside(&self, ids: &[i64]) -> Result<u64, StoreError> {
        let discarded = self.database.write(DeleteOutboxAside { ids: ids.to_vec() }).await;
        discarded.map_err(|fault| fault.into_store_error(Op::DiscardAside))
    }
}
