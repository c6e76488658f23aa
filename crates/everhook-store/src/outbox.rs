//! The outbox: rows that a customer's own transaction wrote, on their way to become messages.
//!
//! A source of rows, not a part of the store: it may be a table in the store's own database, in another one, or in a
//! file. A relay takes rows under a claim, makes them into messages while no transaction of the source is open, and
//! finishes the claim, which removes them. A message is accepted once by the key of its row
//! ([`crate::dedup::DedupKey::outbox`]), so that rows that are relayed and not removed are harmless. A row that cannot
//! be relayed is set aside with its error, and holds up no other row.

use std::time::Duration;

use async_trait::async_trait;
use everhook_core::id::Id;
use everhook_core::time::Timestamp;

use crate::error::StoreError;
use crate::piece::Piece;

/// Bytes that tell one outbox from every other.
pub const IDENTITY_BYTES: usize = 16;
/// Bytes that tell one claim from every other.
pub const CLAIM_BYTES: usize = 16;

/// What a row says, checked by nobody yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutboxRow {
    /// Its number; rows of one transaction have rising ones.
    pub id: i64,
    /// When it was written, by the clock of the source.
    pub created_at: Timestamp,
    /// How long ago that is, by the same clock.
    pub age: Duration,
    /// The environment's name; none means the one the outbox is for.
    pub environment: Option<String>,
    /// The application's id or uid.
    pub application: String,
    /// What kind of thing happened.
    pub event_type: String,
    /// What is sent, byte for byte.
    pub payload: String,
    /// The user's own id for it.
    pub event_id: Option<String>,
    /// Only endpoints that listen to one of these, or to all, get it.
    pub channels: Option<Vec<String>>,
    /// For finding it again.
    pub tags: Option<Vec<String>>,
    /// When it is to be delivered, if not at once.
    pub deliver_at: Option<Timestamp>,
    /// The once-slot it claims.
    pub once_key: Option<String>,
    /// In which phase.
    pub once_phase: Option<i64>,
}

/// Rows that are relayed together, in the order of their ids. One that cannot be read holds up none of the others.
#[derive(Clone, Debug, Default)]
pub struct OutboxBatch {
    /// Which outbox.
    pub identity: [u8; IDENTITY_BYTES],
    /// The largest id of a message made from a row so far.
    pub floor: Option<Id>,
    /// The rows.
    pub rows: Vec<OutboxRow>,
    /// Those between them that cannot be read, each with the reason: to be set aside.
    pub unreadable: Vec<(i64, String)>,
}

impl OutboxBatch {
    /// How many rows it is about.
    pub fn len(&self) -> usize {
        self.rows.len() + self.unreadable.len()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What became of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Rows that are messages now, or were already: to be deleted.
    pub relayed: Vec<i64>,
    /// Rows that cannot be relayed, each with the reason.
    pub set_aside: Vec<(i64, String)>,
    /// The largest id of a message made from these rows.
    pub floor: Option<Id>,
}

/// The right to relay an outbox, for `OUTBOX_CLAIM` at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim(pub [u8; CLAIM_BYTES]);

/// The result of one look at an outbox.
#[derive(Debug)]
pub enum Taken {
    /// The outbox is empty.
    Nothing,
    /// Another relay has the claim.
    Busy,
    /// Rows to relay. They stay in the outbox until the claim is finished.
    Rows(Claim, OutboxBatch),
}

/// Whether the end of a claim counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// The rows have left the outbox, and the claim is free.
    Done,
    /// The claim had expired and was given to another relay: nothing was changed.
    Lost,
}

/// How much waits in an outbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxStatus {
    /// Rows that wait, counted up to `OUTBOX_COUNTED_MAX`.
    pub depth: u64,
    /// How long the oldest of them has waited.
    pub oldest_age: Option<Duration>,
    /// Rows that were set aside, counted up to the same number.
    pub set_aside: u64,
}

/// A row that was set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AsideRow {
    /// What it says.
    pub row: OutboxRow,
    /// When it was set aside.
    pub set_aside_at: Timestamp,
    /// Why.
    pub error: String,
}

/// The bytes of a row that a page counts.
pub fn aside_bytes(aside: &AsideRow) -> usize {
    aside.row.payload.len()
}

/// What to change in a row that was set aside; none leaves it as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AsideChange {
    /// Another environment.
    pub environment: Option<String>,
    /// Another application.
    pub application: Option<String>,
    /// Another event type.
    pub event_type: Option<String>,
    /// Another payload.
    pub payload: Option<String>,
    /// Another event id.
    pub event_id: Option<String>,
}

/// Where rows wait.
#[async_trait]
pub trait Outbox: Send + Sync {
    /// Claims the outbox and reads its next rows, unless another relay has the claim.
    async fn take(&self) -> Result<Taken, StoreError>;

    /// Removes rows that are relayed, sets others aside, and gives the claim up. With nothing done the rows stay.
    async fn finish(&self, claim: Claim, done: Done) -> Result<Finished, StoreError>;

    /// How much waits.
    async fn status(&self) -> Result<OutboxStatus, StoreError>;

    /// Rows that were set aside, by id, beyond `after`.
    async fn list_aside(&self, after: i64, limit: usize) -> Result<Piece<AsideRow, i64>, StoreError>;

    /// Changes a row that was set aside, so that it can be tried again. False if there is none.
    async fn replace_aside(&self, id: i64, change: &AsideChange) -> Result<bool, StoreError>;

    /// Puts rows that were set aside back; answers how many there were.
    async fn retry_aside(&self, ids: &[i64]) -> Result<u64, StoreError>;

    /// Throws rows away that were set aside; answers how many there were.
    async fn discard_aside(&self, ids: &[i64]) -> Result<u64, StoreError>;
}
