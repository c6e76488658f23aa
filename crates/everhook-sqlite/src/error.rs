//! What goes wrong inside, and what the caller is told.
//!
//! Statements fail with a [`Fault`]; the write that ran them knows the operation's name and makes a `StoreError` of it. Only a
//! failed commit is ever in doubt.

use std::sync::Arc;

use everhook_store::error::StoreError;
use everhook_store::store::Op;
use rusqlite::ErrorCode;

/// Why a write or a read came to nothing.
#[derive(Debug)]
pub(crate) enum Fault {
    /// SQLite said so.
    Sql(rusqlite::Error),
    /// A row breaks a promise of the schema.
    Corrupt { table: &'static str, column: &'static str },
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Fault {
        Fault::Sql(error)
    }
}

impl Fault {
    /// Whether a statement was stopped because its time was over.
    pub(crate) fn is_interrupted(&self) -> bool {
        matches!(self, Fault::Sql(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted))
    }

    /// The error that the caller of `op` gets: nothing of this was written.
    pub(crate) fn into_store_error(self, op: Op) -> StoreError {
        match self {
            Fault::Corrupt { table, column } => StoreError::Corrupt { table, column },
            Fault::Sql(error) => {
                let code = error.sqlite_error_code();
                let source = Box::new(error);
                match code {
                    Some(ErrorCode::DiskFull) => StoreError::Full { op, source },
                    Some(ErrorCode::OperationInterrupted) => StoreError::Slow { op, source },
                    Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch) => {
                        StoreError::Refused { op, source }
                    }
                    _ => StoreError::Unavailable { op, source },
                }
            }
        }
    }
}

/// Why a whole transaction came to nothing, for each of its writes.
#[derive(Clone, Debug)]
pub(crate) enum Aborted {
    /// It was rolled back.
    RolledBack(Arc<rusqlite::Error>),
    /// The disk failed during the commit: nobody knows what a later reader of the file will find.
    InDoubt(Arc<rusqlite::Error>),
    /// It was not begun.
    Refused(Refusal),
}

/// Why nothing is written at all any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// Somebody closed the store.
    #[error("the store is closed")]
    Closed,
    /// What the disk did not take is gone from memory too: only reading the file anew tells what is there.
    #[error("reopen needed: the disk failed during an earlier write, restart to go on with what it kept")]
    DiskFailed,
    /// A file of the store was deleted or replaced: the open one has no name, and ends with this process.
    #[error(
        "the database file was deleted or replaced while the server runs: restore it from a backup, then restart the server"
    )]
    FileLost,
    /// A mistake of ours; the write's changes were undone.
    #[error("the operation panicked")]
    Panicked,
}

impl Refusal {
    /// What the caller is told.
    pub(crate) fn into_store_error(self, op: Op) -> StoreError {
        StoreError::Unavailable { op, source: Box::new(self) }
    }
}

impl Aborted {
    /// What the caller is told.
    pub(crate) fn to_store_error(&self, op: Op) -> StoreError {
        match self {
            Aborted::Refused(refusal) => refusal.into_store_error(op),
            Aborted::InDoubt(cause) => StoreError::InDoubt { op, source: Box::new(Arc::clone(cause)) },
            Aborted::RolledBack(cause) => {
                let source = Box::new(Arc::clone(cause));
                match cause.sqlite_error_code() {
                    Some(ErrorCode::DiskFull) => StoreError::Full { op, source },
                    _ => StoreError::Unavailable { op, source },
                }
            }
        }
    }
}

/// Reads the failure of a commit. Full and busy are known before anything is durable; whatever else happens is doubt.
pub(crate) fn commit_failed(error: rusqlite::Error) -> Aborted {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::OutOfMemory) => {
            Aborted::RolledBack(Arc::new(error))
        }
        _ => Aborted::InDoubt(Arc::new(error)),
    }
}
