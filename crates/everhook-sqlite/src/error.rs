//! Internal failures, and the errors that callers get.
//!
//! Statements fail with a [`Fault`]. The write that ran them adds the operation's name and makes a `StoreError`. Only a
//! failed commit can be in doubt.

use std::sync::Arc;

use everhook_store::error::StoreError;
use everhook_store::store::Op;
use rusqlite::ErrorCode;

/// The reason why a write or a read failed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// SQLite refused a statement.
    Sql(rusqlite::Error),
    /// A row breaks a rule of the schema.
    Corrupt { table: &'static str, column: &'static str },
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Fault {
        Fault::Sql(error)
    }
}

impl Fault {
    /// Whether a statement was stopped at its deadline.
    pub(crate) fn is_interrupted(&self) -> bool {
        matches!(self, Fault::Sql(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted))
    }

    /// Converts the fault to the error that the caller of `op` gets. Nothing was written.
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

/// The reason why a whole transaction failed, for each of its writes.
#[derive(Clone, Debug)]
pub(crate) enum Aborted {
    /// Rolled back.
    RolledBack(Arc<rusqlite::Error>),
    /// The disk failed during the commit. The state of the file is unknown until it is opened again.
    InDoubt(Arc<rusqlite::Error>),
    /// Never begun.
    Refused(Refusal),
}

/// The reason why all further writes are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// The disk lost pages that memory no longer has: only opening the file again shows its content.
    #[error("reopen needed: the disk failed during an earlier write, restart the server to continue from the file")]
    DiskFailed,
    /// A file of the store was deleted or replaced. The open file has no name, and disappears with this process.
    #[error(
        "the database file was deleted or replaced while the server runs: restore it from a backup, then restart the server"
    )]
    FileLost,
    /// A bug in Everhook; the changes of the write were undone.
    #[error("the operation panicked")]
    Panicked,
}

impl Refusal {
    pub(crate) fn into_store_error(self, op: Op) -> StoreError {
        StoreError::Unavailable { op, source: Box::new(self) }
    }
}

impl Aborted {
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

/// Classifies the failure of a commit. A full or busy database is detected before anything is durable; every other
/// error leaves the commit in doubt.
pub(crate) fn commit_failed(error: rusqlite::Error) -> Aborted {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::OutOfMemory) => {
            Aborted::RolledBack(Arc::new(error))
        }
        _ => Aborted::InDoubt(Arc::new(error)),
    }
}
