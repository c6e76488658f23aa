//! The outbox: rows that a customer's own transaction wrote, to be relayed into messages.
//!
//! An outbox is a source of rows, not a part of the store. It may be a table in the store's own database, in another
//! database, or in a file. A relay takes rows under a claim and makes them into messages while no transaction of the
//! source is open. Then it finishes the claim, which removes the rows. A message is accepted once by the key of its row
//! ([`crate::dedup::DedupKey::outbox`]), so a row that is relayed but not removed does no harm. A row that cannot be
//! relayed is set aside with its error, and holds up no other row.

use std::time::Duration;

use async_trait::async_trait;
use everhook_core::id::Id;
use everhook_core::time::Timestamp;

use crate::error::StoreError;
use crate::fields;
use crate::piece::Piece;

/// Bytes that identify an outbox.
pub const IDENTITY_BYTES: usize = 16;
/// Bytes that identify a claim.
pub const CLAIM_BYTES: usize = 16;

/// The content of a row, not validated yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutboxRow {
    /// The row number. Rows of one transaction have increasing numbers.
    pub id: i64,
    /// The time of writing, by the clock of the source.
    pub created_at: Timestamp,
    /// The time since then, by the same clock.
    pub age: Duration,
    /// The environment's name; none means the default environment of the outbox.
    pub environment: Option<String>,
    pub application: String,
    pub event_type: String,
    /// Sent byte for byte.
    pub payload: String,
    /// The user's own id of the message.
    pub event_id: Option<String>,
    /// Only endpoints that listen to one of these channels, or to all, receive it.
    pub channels: Option<Vec<String>>,
    /// Words to find it by.
    pub tags: Option<Vec<String>>,
    /// The time from which it is delivered; none means at once.
    pub deliver_at: Option<Timestamp>,
    pub once_key: Option<String>,
    /// The phase of the claim.
    pub once_phase: Option<i64>,
}

/// Rows that are relayed together, in the order of their numbers.
#[derive(Clone, Debug, Default)]
pub struct OutboxBatch {
    pub identity: [u8; IDENTITY_BYTES],
    /// The largest message id made from a row so far.
    pub floor: Option<Id>,
    pub rows: Vec<OutboxRow>,
    /// Rows that cannot be decoded, each with the reason. They are set aside and hold up no other row.
    pub unreadable: Vec<(i64, String)>,
}

impl OutboxBatch {
    /// Returns the number of rows, with unreadable ones.
    pub fn len(&self) -> usize {
        self.rows.len() + self.unreadable.len()
    }

    /// Whether the batch has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Rows that have become messages, now or earlier: to be deleted.
    pub relayed: Vec<i64>,
    /// Rows that cannot be relayed, each with the reason.
    pub set_aside: Vec<(i64, String)>,
    /// The largest message id made from these rows.
    pub floor: Option<Id>,
}

/// The right to relay an outbox. It expires after `OUTBOX_CLAIM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim(pub [u8; CLAIM_BYTES]);

/// The result of taking rows from an outbox.
#[derive(Debug)]
pub enum Taken {
    /// The outbox is empty.
    Nothing,
    /// Another relay has the claim.
    Busy,
    /// Rows to relay. They stay in the outbox until the claim is finished.
    Rows(Claim, OutboxBatch),
}

/// The result of finishing a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// The rows are removed, and the claim is free.
    Done,
    /// The claim had expired and another relay took it; nothing was changed.
    Lost,
}

/// The number of rows in an outbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxStatus {
    /// Waiting rows, counted up to `OUTBOX_COUNTED_MAX`.
    pub depth: u64,
    /// The waiting time of the oldest row.
    pub oldest_age: Option<Duration>,
    /// Rows that were set aside, counted up to the same number.
    pub set_aside: u64,
}

impl OutboxStatus {
    /// Decodes the answer of `find_outbox_status`: the waiting rows, the age of the oldest, and the rows set aside.
    pub fn of((depth, oldest, set_aside): (i64, Option<i64>, i64)) -> OutboxStatus {
        let count = |rows: i64| u64::try_from(rows).unwrap_or_default();
        OutboxStatus { depth: count(depth), oldest_age: oldest.map(row_age), set_aside: count(set_aside) }
    }
}

/// Returns the age of a row from microseconds. They are negative if the clock was set back; then the age is zero.
pub fn row_age(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or_default())
}

/// A row that was set aside, with its error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AsideRow {
    pub row: OutboxRow,
    /// The time at which it was set aside.
    pub set_aside_at: Timestamp,
    pub error: String,
}

/// Returns the bytes of a row that count towards the size of a page.
pub fn aside_bytes(aside: &AsideRow) -> usize {
    aside.row.payload.len()
}

/// New values for a row that was set aside; a member that is none stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AsideChange {
    pub environment: Option<String>,
    pub application: Option<String>,
    pub event_type: Option<String>,
    pub payload: Option<String>,
    pub event_id: Option<String>,
}

fields! {
    /// The parameters of `replace_outbox_aside`.
    pub AsideFields<'a> {
        id: i64,
        environment: Option<&'a str>,
        application: Option<&'a str>,
        event_type: Option<&'a str>,
        payload: Option<&'a str>,
        event_id: Option<&'a str>,
    }
}

impl<'a> AsideFields<'a> {
    pub fn new(id: i64, change: &'a AsideChange) -> AsideFields<'a> {
        let AsideChange { environment, application, event_type, payload, event_id } = change;
        AsideFields {
            id,
            environment: environment.as_deref(),
            application: application.as_deref(),
            event_type: event_type.as_deref(),
            payload: payload.as_deref(),
            event_id: event_id.as_deref(),
        }
    }
}

#[async_trait]
pub trait Outbox: Send + Sync {
    /// Claims the outbox and reads its next rows, unless another relay has the claim.
    async fn take(&self) -> Result<Taken, StoreError>;

    /// Deletes relayed rows, sets bad ones aside, and releases the claim. Rows that are in neither list stay.
    async fn finish(&self, claim: Claim, done: Done) -> Result<Finished, StoreError>;

    /// Counts the rows.
    async fn status(&self) -> Result<OutboxStatus, StoreError>;

    /// Lists rows that were set aside, by number, beyond `after`.
    async fn list_aside(&self, after: i64, limit: usize) -> Result<Piece<AsideRow, i64>, StoreError>;

    /// Corrects a row that was set aside, so that it can be retried. Returns false if the row does not exist.
    async fn replace_aside(&self, id: i64, change: &AsideChange) -> Result<bool, StoreError>;

    /// Puts rows that were set aside back into the outbox; returns how many.
    async fn retry_aside(&self, ids: &[i64]) -> Result<u64, StoreError>;

    /// Deletes rows that were set aside; returns how many.
    async fn discard_aside(&self, ids: &[i64]) -> Result<u64, StoreError>;
}
