//! Errors, by their effect: the store retries, or the caller learns that nothing was written, or that the write is in
//! doubt.

use deadpool_postgres::PoolError;
use everhook_core::seal::SealRefusal;
use everhook_store::error::StoreError;
use everhook_store::store::Op;
use tokio_postgres::error::{Severity, SqlState};

/// The reason why a store could not be opened or migrated.
#[derive(Debug, thiserror::Error)]
pub enum PostgresOpenError {
    #[error("not a PostgreSQL connection URL, such as postgres://user:password@host:5432/database")]
    BadUrl(#[source] tokio_postgres::Error),
    #[error("the PostgreSQL URL names no host: use the form postgres://user:password@host:5432/database")]
    NoHost,
    #[error("sslrootcert in the PostgreSQL URL has no effect: add sslmode=verify-full")]
    RootsUnused,
    /// The file of `sslrootcert` has no certificates.
    #[error("could not read certificates in PEM from {path}, the sslrootcert of the PostgreSQL URL")]
    Roots {
        path: String,
        #[source]
        source: everhook_store::error::BoxError,
    },
    /// The server did not answer, or refused the connection.
    #[error("could not connect to postgres at {address}")]
    Connect {
        address: String,
        #[source]
        source: everhook_store::error::BoxError,
    },
    /// The database has no schema of Everhook.
    #[error(
        "the database at {address} has no Everhook schema: check that it is the server's, and start the server or run \
         `everhook migrate`"
    )]
    NoSchema { address: String },
    #[error("the schema at {address} has version {found}, this binary needs {needed}: run `everhook migrate`")]
    SchemaTooOld { address: String, found: i32, needed: i32 },
    #[error(
        "the schema at {address} has version {found} and needs a binary that knows version {oldest}, \
         this one knows {known}: upgrade everhook"
    )]
    SchemaTooNew {
        address: String,
        found: i32,
        /// The oldest version that a binary must know.
        oldest: i32,
        known: i32,
    },
    /// The schema has steps that this binary does not know under these numbers.
    #[error(
        "the schema at {address} was made by a build from before the first release (its step {step:?} is unknown): \
         use a new database"
    )]
    ForeignSchema { address: String, step: String },
    #[error("postgres at {address} runs with {setting} = off and could lose accepted messages: turn it on")]
    UnsafeSetting { address: String, setting: String },
    /// The store's own database already has an outbox.
    #[error("the database at {address} is Everhook's own and has an outbox already: call everhook.send in it")]
    OwnOutbox { address: String },
    /// The tenant role cannot read a table, or sees rows that it should not.
    #[error(
        "the role {role} of database_tenant_role has no grant or no policy for the table {table} at {address}: repeat \
         the statements of docs/row-level-security.md"
    )]
    Unguarded { address: String, role: String, table: String },
    /// The role may not call the functions that create and drop partitions.
    #[error(
        "the user may not create partitions at {address}: as the owner of the schema, `grant execute on function \
         everhook.make_week(integer), everhook.drop_week(text, integer) to` that user"
    )]
    NotGranted {
        address: String,
        #[source]
        source: everhook_store::error::BoxError,
    },
    #[error("the database at {address}: {refusal}")]
    Keys { address: String, refusal: SealRefusal },
    #[error("could not {what} at {address}")]
    Statement {
        address: String,
        what: &'static str,
        #[source]
        source: everhook_store::error::BoxError,
    },
}

impl PostgresOpenError {
    /// Returns the remedy for missing or wrong keys of secrets; none for other errors.
    pub fn key_remedy(&self) -> Option<&'static str> {
        match self {
            PostgresOpenError::Keys { refusal, .. } => Some(refusal.remedy()),
            _ => None,
        }
    }

    /// Whether a retry may succeed without an operator: the server does not answer, is starting, stopping, out of
    /// connections, or not the primary yet.
    pub fn may_pass(&self) -> bool {
        let source = match self {
            PostgresOpenError::Connect { source, .. } | PostgresOpenError::Statement { source, .. } => source,
            PostgresOpenError::BadUrl(_)
            | PostgresOpenError::NoHost
            | PostgresOpenError::RootsUnused
            | PostgresOpenError::Roots { .. }
            | PostgresOpenError::NoSchema { .. }
            | PostgresOpenError::SchemaTooOld { .. }
            | PostgresOpenError::SchemaTooNew { .. }
            | PostgresOpenError::ForeignSchema { .. }
            | PostgresOpenError::UnsafeSetting { .. }
            | PostgresOpenError::NotGranted { .. }
            | PostgresOpenError::Keys { .. }
            | PostgresOpenError::OwnOutbox { .. }
            | PostgresOpenError::Unguarded { .. } => return false,
        };
        let mut causes = std::iter::successors(Some(&**source as &dyn std::error::Error), |cause| cause.source());
        match causes.find_map(|cause| cause.downcast_ref::<tokio_postgres::Error>()?.code()) {
            // Classes of SQLSTATE: connection, transaction state, rollback, resources, operator, system.
            Some(code) => ["08", "25", "40", "53", "57", "58"].iter().any(|class| code.code().starts_with(class)),
            None => true,
        }
    }
}

/// Whether the server refused the call because of the role's rights.
pub(crate) fn refused_to_role(error: &StoreError) -> bool {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |cause| cause.source());
    let mut codes = causes.filter_map(|cause| cause.downcast_ref::<tokio_postgres::Error>()?.code());
    codes.any(|code| *code == SqlState::INSUFFICIENT_PRIVILEGE)
}

/// The reason why one run of a transaction failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The pool had no connection in time.
    #[error("could not get a connection")]
    NoConnection(#[source] PoolError),
    /// A statement failed before the commit was sent: nothing was written.
    #[error("a statement failed{}", sqlstate(.0))]
    Statement(#[source] tokio_postgres::Error),
    /// A statement exceeded its deadline before the commit was sent: nothing will be written.
    #[error("a statement took too long")]
    Slow,
    /// The commit failed, or a statement that commits by itself.
    #[error("a commit failed{}", sqlstate(.0))]
    Commit(#[source] tokio_postgres::Error),
    /// A statement undid itself with `everhook.expect`, because its precondition does not hold: nothing was written.
    #[error("a statement was undone because its precondition does not hold")]
    Undone,
    /// A row breaks a rule of the schema.
    #[error("corrupt {table} row: bad {column}")]
    Corrupt { table: &'static str, column: &'static str },
    /// The request contradicts existing rows.
    #[error("{0}")]
    Refused(&'static str),
    /// Other transactions interfered repeatedly, or the rows contradict each other.
    #[error("{0}")]
    Contended(&'static str),
}

/// The reaction to a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Nothing was written: run the transaction again.
    Repeat,
    /// Create the missing partition, then run it again.
    AddPartition,
    /// Return the error to the caller.
    Tell,
}

impl Fault {
    /// Classifies the failure of a statement before the commit was sent.
    pub(crate) fn statement(error: tokio_postgres::Error) -> Fault {
        if undid_itself(&error) { Fault::Undone } else { Fault::Statement(error) }
    }

    /// Classifies the failure of a commit, or of a statement that commits by itself.
    pub(crate) fn commit(error: tokio_postgres::Error) -> Fault {
        if undid_itself(&error) { Fault::Undone } else { Fault::Commit(error) }
    }

    pub(crate) fn remedy(&self) -> Remedy {
        if self.is_in_doubt() {
            return Remedy::Tell;
        }
        let error = match self {
            Fault::Statement(error) | Fault::Commit(error) => error,
            Fault::Undone | Fault::Contended(_) => return Remedy::Repeat,
            Fault::NoConnection(_) | Fault::Slow | Fault::Corrupt { .. } | Fault::Refused(_) => return Remedy::Tell,
        };
        let Some(db) = error.as_db_error() else {
            return if is_lost(error) { Remedy::Repeat } else { Remedy::Tell };
        };
        match *db.code() {
            SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED => Remedy::Repeat,
            // The server ended the connection; another one may work.
            SqlState::ADMIN_SHUTDOWN | SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => Remedy::Repeat,
            // The statement was prepared for an earlier form of a table; another connection prepares it again.
            SqlState::FEATURE_NOT_SUPPORTED | SqlState::INVALID_SQL_STATEMENT_NAME => Remedy::Repeat,
            SqlState::CHECK_VIOLATION => Remedy::AddPartition,
            _ => Remedy::Tell,
        }
    }

    /// Whether the write may have been committed despite the error.
    pub(crate) fn is_in_doubt(&self) -> bool {
        let Fault::Commit(error) = self else { return false };
        match error.as_db_error() {
            // With severity ERROR the server has rolled back. A FATAL error may have occurred after the commit.
            Some(db) => !matches!(db.parsed_severity(), Some(Severity::Error)),
            None => true,
        }
    }

    /// Whether a statement was stopped at its deadline, by this process or by the server.
    pub(crate) fn is_slow(&self) -> bool {
        matches!(self, Fault::Slow) || self.code() == SqlState::QUERY_CANCELED.code()
    }

    fn is_full(&self) -> bool {
        self.code() == SqlState::DISK_FULL.code()
    }

    /// Bad data, broken constraints, unknown names or too large values: the same statement fails again.
    fn is_refused(&self) -> bool {
        let class = self.code().get(..2).unwrap_or_default();
        matches!(self, Fault::Refused(_)) || ["21", "22", "23", "42", "54"].contains(&class)
    }

    fn code(&self) -> &str {
        match self {
            Fault::Statement(error) | Fault::Commit(error) => error.code().map_or("", SqlState::code),
            _ => "",
        }
    }

    /// Converts the fault to the error that the caller of `op` gets.
    pub(crate) fn into_store_error(self, op: Op) -> StoreError {
        if let Fault::Corrupt { table, column } = self {
            return StoreError::Corrupt { table, column };
        }
        if self.is_in_doubt() {
            return StoreError::InDoubt { op, source: Box::new(self) };
        }
        let (full, refused) = (self.is_full(), self.is_refused());
        let source = Box::new(self);
        match () {
            () if full => StoreError::Full { op, source },
            () if refused => StoreError::Refused { op, source },
            () => StoreError::Unavailable { op, source },
        }
    }
}

/// Whether `everhook.expect` ended the statement.
fn undid_itself(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| code.code() == "EH001")
}

/// Returns the server's error code. The server's message is left out: it may quote a value of the statement.
fn sqlstate(error: &tokio_postgres::Error) -> String {
    error.code().map(|code| format!(" with SQLSTATE {}", code.code())).unwrap_or_default()
}

/// Whether the connection broke, so that another one may work.
fn is_lost(error: &tokio_postgres::Error) -> bool {
    error.is_closed() || std::error::Error::source(error).is_some_and(|source| source.is::<std::io::Error>())
}
