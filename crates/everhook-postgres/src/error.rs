//! What can go wrong, by what follows: tried again here, told to the caller as certain, or told as in doubt.

use deadpool_postgres::PoolError;
use everhook_store::error::StoreError;
use everhook_store::store::Op;
use tokio_postgres::error::{Severity, SqlState};

/// Why a store could not be opened or migrated.
#[derive(Debug, thiserror::Error)]
pub enum PostgresOpenError {
    /// The text is no URL of a PostgreSQL.
    #[error("not a PostgreSQL connection URL, such as postgres://user:password@host:5432/database")]
    BadUrl(#[source] tokio_postgres::Error),
    /// The URL leaves open where the server is.
    #[error("the PostgreSQL URL names no host: use the form postgres://user:password@host:5432/database")]
    NoHost,
    /// Nobody answered, or not us.
    #[error("could not connect to postgres at {address}")]
    Connect {
        /// Host and port.
        address: String,
        /// What the driver said.
        #[source]
        source: everhook_store::error::BoxError,
    },
    /// The database has no schema of ours.
    #[error(
        "the database at {address} has no Everhook schema: check that it is the server's, and start the server or run \
         `everhook migrate`"
    )]
    NoSchema {
        /// Host and port.
        address: String,
    },
    /// The schema is old.
    #[error("the schema at {address} has version {found}, this binary needs {needed}: run `everhook migrate`")]
    SchemaTooOld {
        /// Host and port.
        address: String,
        /// What is there.
        found: i32,
        /// What is needed.
        needed: i32,
    },
    /// A newer binary changed the schema beyond what this one can work with.
    #[error(
        "the schema at {address} has version {found} and needs a binary that knows version {oldest}, \
         this one knows {known}: upgrade everhook"
    )]
    SchemaTooNew {
        /// Host and port.
        address: String,
        /// What is there.
        found: i32,
        /// The oldest version a binary has to know.
        oldest: i32,
        /// What this binary knows.
        known: i32,
    },
    /// The schema has steps that this binary does not know under these numbers.
    #[error(
        "the schema at {address} was made by a build from before the first release (its step {step:?} is unknown): \
         use a new database"
    )]
    ForeignSchema {
        /// Host and port.
        address: String,
        /// The name of the first unknown step.
        step: String,
    },
    /// The server would lose what it has confirmed.
    #[error("postgres at {address} runs with {setting} = off and could lose accepted messages: turn it on")]
    UnsafeSetting {
        /// Host and port.
        address: String,
        /// Which setting.
        setting: String,
    },
    /// There is an outbox already: the store's.
    #[error("the database at {address} is Everhook's own and has an outbox already: call everhook.send in it")]
    OwnOutbox {
        /// Host and port.
        address: String,
    },
    /// The role may not use the functions that make and drop partitions.
    #[error(
        "the database user may not make partitions at {address}: as the owner of the schema, `grant execute on function \
         everhook.make_week(integer), everhook.drop_week(text, integer) to` that user"
    )]
    NotGranted {
        /// Host and port.
        address: String,
        /// What the driver said.
        #[source]
        source: everhook_store::error::BoxError,
    },
    /// A statement failed.
    #[error("could not {what} at {address}")]
    Statement {
        /// Host and port.
        address: String,
        /// What was being done.
        what: &'static str,
        /// What the driver said.
        #[source]
        source: everhook_store::error::BoxError,
    },
}

impl PostgresOpenError {
    /// Whether the same may succeed later without anyone's doing: nobody answers, or the server is starting, stopping, full
    /// of connections or not the primary yet.
    pub fn may_pass(&self) -> bool {
        let source = match self {
            PostgresOpenError::Connect { source, .. } | PostgresOpenError::Statement { source, .. } => source,
            PostgresOpenError::BadUrl(_)
            | PostgresOpenError::NoHost
            | PostgresOpenError::NoSchema { .. }
            | PostgresOpenError::SchemaTooOld { .. }
            | PostgresOpenError::SchemaTooNew { .. }
            | PostgresOpenError::ForeignSchema { .. }
            | PostgresOpenError::UnsafeSetting { .. }
            | PostgresOpenError::NotGranted { .. }
            | PostgresOpenError::OwnOutbox { .. } => return false,
        };
        let mut causes = std::iter::successors(Some(&**source as &dyn std::error::Error), |cause| cause.source());
        match causes.find_map(|cause| cause.downcast_ref::<tokio_postgres::Error>()?.code()) {
            // The server's own word: connection, transaction state, rollback, resources, operator, system.
            Some(code) => ["08", "25", "40", "53", "57", "58"].iter().any(|class| code.code().starts_with(class)),
            None => true,
        }
    }
}

/// Whether the server refused because of who asked.
pub(crate) fn refused_to_role(error: &StoreError) -> bool {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |cause| cause.source());
    let mut codes = causes.filter_map(|cause| cause.downcast_ref::<tokio_postgres::Error>()?.code());
    codes.any(|code| *code == SqlState::INSUFFICIENT_PRIVILEGE)
}

/// Why one run of a transaction did not succeed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// No connection was to be had.
    #[error("no connection")]
    NoConnection(#[source] PoolError),
    /// A statement failed before the commit was sent: nothing was written.
    #[error("a statement failed{}", sqlstate(.0))]
    Statement(#[source] tokio_postgres::Error),
    /// A statement took too long before the commit was sent: nothing will be written.
    #[error("a statement took too long")]
    Slow,
    /// The commit, or a statement that commits by itself, failed.
    #[error("a commit failed{}", sqlstate(.0))]
    Commit(#[source] tokio_postgres::Error),
    /// A statement undid itself, because what it relied on was gone: nothing was written.
    #[error("a statement undid itself")]
    Undone,
    /// A row breaks a promise of the schema.
    #[error("corrupt {table} row: bad {column}")]
    Corrupt { table: &'static str, column: &'static str },
    /// It contradicts what is there.
    #[error("{0}")]
    Refused(&'static str),
    /// Someone was faster again and again, or the data contradicts itself.
    #[error("{0}")]
    Contended(&'static str),
}

/// What a fault calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Nothing was written: the same again may succeed.
    Repeat,
    /// A partition is missing.
    AddPartition,
    /// Tell the caller.
    Tell,
}

impl Fault {
    /// The failure of a statement before the commit was sent.
    pub(crate) fn statement(error: tokio_postgres::Error) -> Fault {
        if undid_itself(&error) { Fault::Undone } else { Fault::Statement(error) }
    }

    /// The failure of a commit, or of a statement that commits by itself.
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
            // The connection was ended by the server; another one may be had.
            SqlState::ADMIN_SHUTDOWN | SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => Remedy::Repeat,
            // Prepared against an earlier form of a table; the next connection prepares it anew.
            SqlState::FEATURE_NOT_SUPPORTED | SqlState::INVALID_SQL_STATEMENT_NAME => Remedy::Repeat,
            SqlState::CHECK_VIOLATION => Remedy::AddPartition,
            _ => Remedy::Tell,
        }
    }

    /// Whether it may have been written all the same.
    pub(crate) fn is_in_doubt(&self) -> bool {
        let Fault::Commit(error) = self else { return false };
        match error.as_db_error() {
            // An error is the server's own word that it rolled back. A fatal one may have struck behind the commit.
            Some(db) => !matches!(db.parsed_severity(), Some(Severity::Error)),
            None => true,
        }
    }

    /// Whether a statement was stopped because its time was over, by us or by the server.
    pub(crate) fn is_slow(&self) -> bool {
        matches!(self, Fault::Slow) || self.code() == SqlState::QUERY_CANCELED.code()
    }

    fn is_full(&self) -> bool {
        self.code() == SqlState::DISK_FULL.code()
    }

    /// Bad data, broken constraints, unknown names, too large: the same statement fails again.
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

    /// The error that the caller of `op` gets.
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

/// Whether `everhook.expect` ended the statement, by which it undoes itself.
fn undid_itself(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| code.code() == "EH001")
}

/// The server's code for what went wrong. Its message stays out of the text: it may quote a value of the statement.
fn sqlstate(error: &tokio_postgres::Error) -> String {
    error.code().map(|code| format!(" with SQLSTATE {}", code.code())).unwrap_or_default()
}

/// Whether the connection broke, so that another one may do.
fn is_lost(error: &tokio_postgres::Error) -> bool {
    error.is_closed() || std::error::Error::source(error).is_some_and(|source| source.is::<std::io::Error>())
}
