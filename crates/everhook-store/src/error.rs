//! What can go wrong in a store, by what the caller does next.

use crate::store::Op;

/// The cause, kept for the log.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A store could not tell.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Certainly not written: try again later.
    #[error("store unavailable during {op}")]
    Unavailable {
        /// Which operation.
        op: Op,
        /// What the driver said.
        #[source]
        source: BoxError,
    },
    /// It may or may not have been written: repeat it with the same keys, and retire the session it was for.
    #[error("{op} is in doubt: the reply to the commit was lost")]
    InDoubt {
        /// Which operation.
        op: Op,
        /// What the driver said.
        #[source]
        source: BoxError,
    },
    /// There is no room to write: someone has to make some.
    #[error("storage is full during {op}")]
    Full {
        /// Which operation.
        op: Op,
        /// What the driver said.
        #[source]
        source: BoxError,
    },
    /// The statement itself was refused: alone it will be refused again.
    #[error("store refused {op}")]
    Refused {
        /// Which operation.
        op: Op,
        /// What the driver said.
        #[source]
        source: BoxError,
    },
    /// A search took too long, or others did: ask for less, or try again later. Nothing was to be written.
    #[error("{op} took too long")]
    Slow {
        /// Which operation.
        op: Op,
        /// What the driver said.
        #[source]
        source: BoxError,
    },
    /// A row breaks a promise of the schema: stop and tell a human.
    #[error("corrupt {table} row: bad {column}")]
    Corrupt {
        /// Which table.
        table: &'static str,
        /// Which column.
        column: &'static str,
    },
}

impl StoreError {
    /// Whether what was asked for may have happened all the same.
    pub fn is_in_doubt(&self) -> bool {
        matches!(self, StoreError::InDoubt { .. })
    }

    /// The same error for another caller that shared the transaction; of the cause only the text.
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
