//! Errors of a store. Each variant stands for one reaction of the caller.

use crate::store::Op;

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The store failed. Expected results, such as "not found", are values instead.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing was written: try again later.
    #[error("store unavailable during {op}")]
    Unavailable {
        op: Op,
        #[source]
        source: BoxError,
    },
    /// The write may or may not be committed: repeat it with the same keys, and retire the session that it was made
    /// for.
    #[error("{op} is in doubt: the reply to the commit was lost")]
    InDoubt {
        op: Op,
        #[source]
        source: BoxError,
    },
    /// The storage has no free space: an operator must add some.
    #[error("storage is full during {op}")]
    Full {
        op: Op,
        #[source]
        source: BoxError,
    },
    /// The database refused the statement, and will refuse it again if it is sent alone.
    #[error("store refused {op}")]
    Refused {
        op: Op,
        #[source]
        source: BoxError,
    },
    /// A search, or the wait for its turn, took too long: ask for less, or try again later. A search writes nothing.
    #[error("{op} took too long")]
    Slow {
        op: Op,
        #[source]
        source: BoxError,
    },
    /// A row breaks a rule of the schema: a human must look at it.
    #[error("corrupt {table} row: bad {column}")]
    Corrupt { table: &'static str, column: &'static str },
}

impl StoreError {
    /// Whether the write may have been committed despite the error.
    pub fn is_in_doubt(&self) -> bool {
        matches!(self, StoreError::InDoubt { .. })
    }

    /// Returns the error for another caller that shared the transaction. Only the text of the cause is copied.
    #[must_use]
    pub fn for_another(&self) -> StoreError {
        let copy = |source: &BoxError| BoxError::from(source.to_string());
        match self {
            StoreError::Unavailable { op, source } => StoreError::Unavailable { op: *op, source: copy(source) },
            StoreError::InDoubt { op, source } => StoreError::InDoubt { op: *op, source: copy(source) },
            StoreError::Full { op, source } => StoreError::Full { op: *op, source: copy(source) },
            StoreError::Refused { op, source } => StoreError::Refused { op: *op, source: copy(source) },
            StoreError::Slow { op, source } => StoreError::Slow { op: *op, source: copy(source) },
            StoreError::Corrupt { table, column } => StoreError::Corrupt { table, column },
        }
    }
}
