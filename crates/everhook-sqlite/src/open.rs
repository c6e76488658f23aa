//! Opens the file: the folder, the lock against a second server, the connections and their settings.
//!
//! Refuses a SQLite version that can corrupt its log, a file that another process serves, and an unknown schema. Each
//! error names the file and the remedy.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use everhook_core::seal::{SealKeyId, SealRefusal};
use everhook_store::seal::KeyFileError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use tracing::warn;

/// The database file inside the folder.
const FILE: &str = "everhook.db";
/// Marks a folder that has held a store.
const USED_FILE: &str = "everhook.used";
const USED_TEXT: &str = "This folder holds an Everhook store. If everhook.db is missing or empty, Everhook refuses to start rather \
                         than begin an empty store: restore everhook.db from a backup. To start over, delete this file.\n";
/// Locked by the process that serves the folder; contains its process id for operators.
pub(crate) const LOCK_FILE: &str = "everhook.lock";
/// Earlier versions of SQLite can lose committed pages when the log starts again (fixed in 3.51.3).
const SQLITE_VERSION_MIN: i32 = 3_051_003;
/// The most time to wait for a command that writes beside the server.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Prepared statements per connection: enough for all of them, lists in both orders.
const STATEMENTS_CACHED: usize = 512;
/// The size to which the log is cut when it starts again: 64 MiB.
const LOG_BYTES_KEPT: i64 = 64 * 1024 * 1024;
/// The page cache of a connection, in KiB. A larger one costs more than it saves: after most commits SQLite scans all
/// of it.
const WRITER_CACHE_KIB: i64 = 16 * 1024;
const READER_CACHE_KIB: i64 = 4 * 1024;

/// The purpose of opening the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenAs {
    /// To serve: no other process may, and the sessions of earlier servers are closed.
    Server,
    /// For a command beside a running server: the store must exist, and nothing is created.
    Beside,
}

const KEY_FILE_REMEDY: &str = "put the file back from your copy, or set secrets_key_file to it";

/// The reason why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum SqliteOpenError {
    /// The folder or a file in it cannot be created or read.
    #[error("could not open {}: check that the folder exists and that this user may write to it", path.display())]
    Folder {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// The folder has no database.
    #[error("no Everhook database at {}: name the server's data folder with --data, or its PostgreSQL with --database",
            path.display())]
    Missing { path: PathBuf },
    /// Another process serves it.
    #[error("{} is in use by another `everhook serve`{holder}: stop that one, or give this one a folder of its own", path.display())]
    InUse {
        path: PathBuf,
        /// The other process, if it is known.
        holder: FileHolder,
    },
    /// The folder had a store, and its file is gone.
    #[error("{} is missing or empty, but the folder has held a store: restore the file from a backup; to start over with an empty \
             store, delete {} (and {}-wal, if it is there)", path.display(), marker.display(), path.display())]
    Lost {
        path: PathBuf,
        /// The file that marks the folder as used.
        marker: PathBuf,
    },
    /// SQLite could not open the file.
    #[error("could not open {}: restore it from a backup if it is damaged", path.display())]
    Database {
        path: PathBuf,
        #[source]
        source: rusqlite::Error,
    },
    /// The disk has no space to open it.
    #[error("could not open {}: the disk is full, make some room first", path.display())]
    Full {
        path: PathBuf,
        #[source]
        source: rusqlite::Error,
    },
    /// A newer binary wrote the file, and this one cannot use it.
    #[error("{}: schema is newer than this binary: it has version {found} and needs a binary that knows {needs}, this one \
             knows {known}; install a newer everhook", path.display())]
    NewerSchema {
        path: PathBuf,
        found: i64,
        /// The oldest version that a binary must know to use the file.
        needs: i64,
        known: i64,
    },
    /// The schema has steps that this binary does not know under these numbers.
    #[error("{}: the schema was made by a build from before the first release (its step {step:?} is unknown); start with a \
             new folder", path.display())]
    ForeignSchema { path: PathBuf, step: String },
    /// A command beside a server does not migrate the file that the server uses.
    #[error("{}: schema is older than this binary: it has version {found}, this one needs {known}; stop the server and run \
             `everhook migrate`", path.display())]
    OlderSchema { path: PathBuf, found: i64, known: i64 },
    /// The key file of the folder is gone, and secrets are sealed with its keys.
    #[error("{} is missing, and the secrets in the database are sealed with its key {key}: {KEY_FILE_REMEDY}", path.display())]
    KeyFileLost { path: PathBuf, key: SealKeyId },
    #[error(transparent)]
    KeyFile(KeyFileError),
    #[error("{}: {refusal}", path.display())]
    Keys { path: PathBuf, refusal: SealRefusal },
    #[error("could not seal the secrets in {}", path.display())]
    Secrets {
        path: PathBuf,
        #[source]
        source: everhook_store::error::BoxError,
    },
    /// The linked SQLite can lose data.
    #[error("SQLite {0} has a bug that can lose committed data: build everhook with the bundled SQLite")]
    BadSqlite(&'static str),
}

impl SqliteOpenError {
    /// Returns the remedy for missing or wrong keys of secrets; none for other errors.
    pub fn key_remedy(&self) -> Option<&'static str> {
        match self {
            SqliteOpenError::KeyFileLost { .. } => Some(KEY_FILE_REMEDY),
            SqliteOpenError::KeyFile(error) => Some(error.remedy()),
            SqliteOpenError::Keys { refusal, .. } => Some(refusal.remedy()),
            _ => None,
        }
    }
}

/// The process that holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHolder(Option<u32>);

impl std::fmt::Display for FileHolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(pid) => write!(f, " (pid {pid})"),
            None => Ok(()),
        }
    }
}

/// The failure of a step of opening, before the file is named.
#[derive(Debug)]
pub(crate) enum Cause {
    Sql(rusqlite::Error),
    Io(std::io::Error),
}

impl From<rusqlite::Error> for Cause {
    fn from(error: rusqlite::Error) -> Cause {
        Cause::Sql(error)
    }
}

impl From<std::io::Error> for Cause {
    fn from(error: std::io::Error) -> Cause {
        Cause::Io(error)
    }
}

impl Cause {
    pub(crate) fn at(self, path: &Path) -> SqliteOpenError {
        let path = path.to_owned();
        match self {
            Cause::Sql(source) if source.sqlite_error_code() == Some(ErrorCode::DiskFull) => {
                SqliteOpenError::Full { path, source }
            }
            Cause::Sql(source) => SqliteOpenError::Database { path, source },
            Cause::Io(source) => SqliteOpenError::Folder { path, source },
        }
    }
}

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionRole {
    Write,
    Read,
    Checkpoint,
}

/// Creates the folder and an empty file in it if they do not exist, for this user alone; returns the file.
pub(crate) fn ensure_file(folder: &Path) -> Result<PathBuf, SqliteOpenError> {
    ensure_folder(folder)?;
    let file = database_file(folder);
    check_not_lost(folder, &file)?;
    // SQLite would make the file readable by everyone. Its log and index get the mode of the file.
    open_private(&file).map_err(|error| Cause::Io(error).at(&file))?;
    Ok(file)
}

/// Creates the folder if it does not exist, for this user alone.
pub(crate) fn ensure_folder(folder: &Path) -> Result<(), SqliteOpenError> {
    if folder.is_dir() {
        return Ok(());
    }
    create_private(folder).map_err(|error| Cause::Io(error).at(folder))
}

/// The path of the database in a folder.
pub(crate) fn database_file(folder: &Path) -> PathBuf {
    folder.join(FILE)
}

/// Returns the file in the folder, which must exist.
pub(crate) fn existing_file(folder: &Path) -> Result<PathBuf, SqliteOpenError> {
    let file = database_file(folder);
    check_not_lost(folder, &file)?;
    match std::fs::metadata(&file) {
        Ok(metadata) if metadata.len() > 0 => Ok(file),
        Ok(_) => Err(missing(&file)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(missing(&file)),
        Err(error) => Err(Cause::Io(error).at(&file)),
    }
}

/// Returns the error for a missing database, with an absolute path.
pub(crate) fn missing(file: &Path) -> SqliteOpenError {
    SqliteOpenError::Missing { path: std::path::absolute(file).unwrap_or_else(|_| file.to_owned()) }
}

/// Opens a file for writing; creates a missing one for this user alone.
pub(crate) fn open_private(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Warns the operator if other users of this machine can read the folder.
pub(crate) fn warn_if_shared(folder: &Path) {
    #[cfg(unix)]
    if let Ok(metadata) = std::fs::metadata(folder) {
        let mode = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777;
        if mode & 0o077 != 0 {
            let folder = folder.display();
            warn!(
                "the data folder {folder} is open to other users (mode {mode:o}) and holds payloads and secrets: run \
                 `chmod -R go= {folder}`"
            );
        }
    }
}

/// Refuses to create an empty store where one existed: its file was deleted, or truncated. SQLite would treat either as
/// a new database, and would drop the remaining log of the old one.
fn check_not_lost(folder: &Path, file: &Path) -> Result<(), SqliteOpenError> {
    let length = |path: &Path| match std::fs::metadata(path) {
        Ok(found) => Ok(found.len()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(Cause::Io(error).at(path)),
    };
    let (marker, log) = (folder.join(USED_FILE), file.with_extension("db-wal"));
    if length(file)? > 0 || (length(&marker)? == 0 && length(&log)? == 0) {
        return Ok(());
    }
    Err(SqliteOpenError::Lost { path: file.to_owned(), marker })
}

/// Marks the folder as used. The server also runs if the disk has no space for the mark.
pub(crate) fn mark_used(folder: &Path) {
    let marker = folder.join(USED_FILE);
    if marker.exists() {
        return;
    }
    if let Err(error) = open_private(&marker).and_then(|mut file| file.write_all(USED_TEXT.as_bytes())) {
        warn!(error = &error as &dyn std::error::Error, "could not write {}", marker.display());
    }
}

pub(crate) fn create_private(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    sync_folder(folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")))
}

/// Makes new names in a folder survive a power failure. SQLite does this for its journals, not for the database file.
pub(crate) fn sync_folder(folder: &Path) -> std::io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Takes the lock of the folder. The lock lasts as long as the returned file.
pub(crate) fn lock(folder: &Path) -> Result<File, SqliteOpenError> {
    let path = folder.join(LOCK_FILE);
    let mut file = open_private(&path).map_err(|error| Cause::Io(error).at(&path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::Error(error)) => return Err(Cause::Io(error).at(&path)),
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            let pid = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
            return Err(SqliteOpenError::InUse { path: folder.join(FILE), holder: FileHolder(pid) });
        }
    }
    let write_pid = |file: &mut File| {
        file.set_len(0)?;
        file.rewind()?;
        write!(file, "{}", std::process::id())
    };
    write_pid(&mut file).map_err(|error| Cause::Io(error).at(&path))?;
    Ok(file)
}

/// Refuses a SQLite version that can lose data.
pub(crate) fn check_version() -> Result<(), SqliteOpenError> {
    if rusqlite::version_number() < SQLITE_VERSION_MIN {
        return Err(SqliteOpenError::BadSqlite(rusqlite::version()));
    }
    Ok(())
}

/// Opens a connection to an existing file, with the settings of its role.
pub(crate) fn connect(file: &Path, role: ConnectionRole) -> Result<Connection, rusqlite::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(file, flags)?;
    configure(&conn, role)?;
    Ok(conn)
}

/// Opens a database in memory, which only this connection sees.
pub(crate) fn connect_in_memory() -> Result<Connection, rusqlite::Error> {
    let conn = Connection::open_in_memory()?;
    configure(&conn, ConnectionRole::Write)?;
    Ok(conn)
}

/// Keeps the log when this connection closes.
pub(crate) fn keep_log(conn: &Connection) -> Result<(), rusqlite::Error> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map(drop)
}

fn configure(conn: &Connection, role: ConnectionRole) -> Result<(), rusqlite::Error> {
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    // Otherwise the values of parameters may change a plan, and SQLite compiles such a statement again for every run:
    // each one with a limit, and each one that compares another column with the id of the first environment.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    if role == ConnectionRole::Write {
        // Takes effect only on an empty file; retention returns pages later, a few at a time.
        conn.pragma_update(None, "auto_vacuum", "incremental")?;
        // Returns the mode in force; a database in memory stays "memory".
        conn.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    } else {
        keep_log(conn)?;
    }
    // A weaker setting can lose the last commits in a power failure.
    conn.pragma_update(None, "synchronous", "full")?;
    conn.pragma_update(None, "foreign_keys", false)?;
    conn.pragma_update(None, "temp_store", "memory")?;
    conn.pragma_update_and_check(None, "journal_size_limit", LOG_BYTES_KEPT, |_| Ok(()))?;
    conn.pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))?;
    let cache_kib = if role == ConnectionRole::Write { WRITER_CACHE_KIB } else { READER_CACHE_KIB };
    conn.pragma_update(None, "cache_size", -cache_kib)?;
    conn.pragma_update(None, "query_only", role == ConnectionRole::Read)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use rusqlite::{StatementStatus, params};

    use super::*;

    #[test]
    fn other_values_do_not_compile_a_statement_again() {
        let conn = connect_in_memory().unwrap();
        conn.execute_batch("create table t (a integer, b integer)").unwrap();
        let mut statement = conn.prepare("select a from t where a = ?1 and b = ?2 limit ?3").unwrap();
        for limit in 0..3 {
            let rows = statement.query_map(params![1, limit, limit], |row| row.get::<_, i64>(0)).unwrap();
            assert_eq!(rows.count(), 0);
        }
        assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
    }
}
