//! Copies of the database file: made while a server runs, and put back into a folder.
//!
//! A backup is one file, the state of the store at one moment. It contains a pause of egress, so that a restored copy
//! sends nothing before an operator resumes it. Unfinished files have another name, and only a checked file gets its
//! own.

use std::fs::File;
use std::path::{Path, PathBuf};

use everhook_store::store::Op;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension};

use crate::error::Fault;
use crate::open::{self, Cause, ConnectionRole, SqliteOpenError};
use crate::{clock, egress, migrate};

/// Pages copied between two reports of progress.
const PAGES_PER_STEP: i32 = 1024;

/// The reason why a backup could not be made or restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error(transparent)]
    Open(#[from] SqliteOpenError),
    /// An earlier backup is never overwritten.
    #[error("{} already exists: choose another name, or delete it first", path.display())]
    Exists { path: PathBuf },
    /// The folder of the restored store is in use.
    #[error("{} holds a store: restore to an empty folder, or add --replace to move the old files aside", path.display())]
    Occupied { path: PathBuf },
    #[error("could not write {}: check the permissions and the free space", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("could not read {}: check the name and the permissions", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// The backup is a part of a database only.
    #[error("{} has a log beside it ({}-wal), so it is a database in use and no backup: make one with `everhook backup`",
            path.display(), path.display())]
    HasLog { path: PathBuf },
    #[error("{} is not a backup of Everhook", path.display())]
    NoBackup { path: PathBuf },
    #[error("{} is damaged: {detail}; use another backup", path.display())]
    Damaged { path: PathBuf, detail: String },
    #[error("could not copy to {}", path.display())]
    Copy {
        path: PathBuf,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The number of copied bytes, and of all bytes to copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopiedBytes {
    pub done: u64,
    pub total: u64,
}

/// A store that was put back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredStore {
    pub file: PathBuf,
    /// The folder of the files that the store has replaced.
    pub replaced: Option<PathBuf>,
}

/// The treatment of a store that is in the folder already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    Refuse,
    /// Moved to a folder inside the data folder.
    MoveAside,
}

/// Copies the store in `folder` to the new file `target`, also while a server uses it. Returns the size of the copy.
pub fn back_up(folder: &Path, target: &Path, mut progress: impl FnMut(CopiedBytes)) -> Result<u64, BackupError> {
    open::check_version()?;
    if target.exists() {
        return Err(BackupError::Exists { path: target.to_owned() });
    }
    let file = open::existing_file(folder)?;
    let source = open::connect(&file, ConnectionRole::Read).map_err(|error| Cause::from(error).at(&file))?;
    migrate::check(&source, &file)?;
    let unfinished = beside(target, ".unfinished");
    let copied = copy_to(&source, &unfinished, &mut progress)
        .and_then(|()| check_copy(&unfinished, target))
        .and_then(|()| finish(&unfinished, target));
    if copied.is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
    copied
}

/// Puts the backup into `folder`, which no server may use. The restored store has a pause of egress.
pub fn restore(backup: &Path, folder: &Path, existing: Existing) -> Result<RestoredStore, BackupError> {
    open::check_version()?;
    if file_len(&beside(backup, "-wal")) > 0 {
        return Err(BackupError::HasLog { path: backup.to_owned() });
    }
    let mut source = File::open(backup).map_err(|source| BackupError::Read { path: backup.to_owned(), source })?;
    open::ensure_folder(folder)?;
    let _lock = open::lock(folder)?;
    let file = open::database_file(folder);
    let old = [file.clone(), beside(&file, "-wal"), beside(&file, "-shm")];
    let is_occupied = old.iter().any(|path| file_len(path) > 0);
    if is_occupied && existing == Existing::Refuse {
        return Err(BackupError::Occupied { path: folder.to_owned() });
    }
    let unfinished = beside(&file, ".unfinished");
    let restored = copy_file(&mut source, &unfinished)
        .and_then(|()| prepare(&unfinished, backup))
        .and_then(|()| if is_occupied { move_aside(folder, &old).map(Some) } else { Ok(None) })
        .and_then(|replaced| finish(&unfinished, &file).map(|_| replaced));
    if restored.is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
    let replaced = restored?;
    open::mark_used(folder);
    open::sync_folder(folder).map_err(|source| BackupError::Write { path: folder.to_owned(), source })?;
    Ok(RestoredStore { file, replaced })
}

fn copy_to(source: &Connection, unfinished: &Path, progress: &mut dyn FnMut(CopiedBytes)) -> Result<(), BackupError> {
    let failed = |error: rusqlite::Error| copy_failed(unfinished, error);
    let _ = std::fs::remove_file(unfinished);
    open::open_private(unfinished).map_err(|source| BackupError::Write { path: unfinished.to_owned(), source })?;
    // Without a transaction, each commit of the server would make SQLite begin the copy again.
    let snapshot = source.unchecked_transaction().map_err(failed)?;
    let page_bytes: u32 = snapshot.query_row("pragma page_size", [], |row| row.get(0)).map_err(failed)?;
    snapshot.query_row("select count(*) from sqlite_schema", [], |_| Ok(())).map_err(failed)?;
    let mut target = connect(unfinished).map_err(failed)?;
    let backup = Backup::new(&snapshot, &mut target).map_err(failed)?;
    loop {
        let step = backup.step(PAGES_PER_STEP).map_err(failed)?;
        let pages = backup.progress();
        let bytes = |pages: i32| u64::from(pages.unsigned_abs()) * u64::from(page_bytes);
        progress(CopiedBytes { done: bytes(pages.pagecount - pages.remaining), total: bytes(pages.pagecount) });
        match step {
            StepResult::Done => return Ok(()),
            StepResult::More => {}
            // Only another process that opened the unfinished file could lock it.
            _ => return Err(copy_failed(unfinished, "another process uses the file")),
        }
    }
}

/// Adds the pause to a new copy, and reads all of it.
fn check_copy(unfinished: &Path, name: &Path) -> Result<(), BackupError> {
    let conn = connect(unfinished).map_err(|error| copy_failed(name, error))?;
    // A file without a schema has no place for the pause. `restore` adds it after it has created the schema.
    if has_table(&conn, "egress_pause").map_err(|error| copy_failed(name, error))? {
        pause(&conn, name)?;
    }
    check_pages(&conn, name)?;
    close(conn, name)
}

/// Brings a restored copy up to date and pauses its egress.
fn prepare(unfinished: &Path, backup: &Path) -> Result<(), BackupError> {
    let no_backup = || BackupError::NoBackup { path: backup.to_owned() };
    let mut conn = connect(unfinished).map_err(|error| copy_failed(unfinished, error))?;
    // SQLite takes an empty file for an empty database, and tells a damaged one from another format.
    match has_table(&conn, "schema_version") {
        Ok(false) => return Err(no_backup()),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => return Err(no_backup()),
        // The check of all pages names the damage.
        Ok(true) | Err(_) => check_pages(&conn, backup)?,
    }
    migrate::apply(&mut conn, backup)?;
    pause(&conn, backup)?;
    close(conn, backup)
}

fn pause(conn: &Connection, name: &Path) -> Result<(), BackupError> {
    let now = clock::wall();
    let paused = match egress::find(conn) {
        // The reason and the time of the backup say more than those of the restore.
        Ok(Some(_)) => Ok(()),
        Ok(None) => egress::start(conn, &format!("a copy of the store, made at {now}"), now),
        Err(fault) => Err(fault),
    };
    paused.map_err(|fault: Fault| copy_failed(name, fault.into_store_error(Op::SetEgressPause)))
}

fn check_pages(conn: &Connection, name: &Path) -> Result<(), BackupError> {
    let found: Result<String, _> = conn.query_row("pragma quick_check(1)", [], |row| row.get(0));
    match found {
        Ok(found) if found == "ok" => Ok(()),
        Ok(detail) => Err(BackupError::Damaged { path: name.to_owned(), detail }),
        Err(error) => Err(BackupError::Damaged { path: name.to_owned(), detail: error.to_string() }),
    }
}

/// Gives a complete file its name. The file and its name survive a power failure afterwards.
fn finish(unfinished: &Path, target: &Path) -> Result<u64, BackupError> {
    let write = |source| BackupError::Write { path: target.to_owned(), source };
    let file = File::open(unfinished).map_err(write)?;
    file.sync_all().map_err(write)?;
    let bytes = file.metadata().map_err(write)?.len();
    std::fs::rename(unfinished, target).map_err(write)?;
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    open::sync_folder(folder).map_err(write)?;
    Ok(bytes)
}

fn copy_file(source: &mut File, target: &Path) -> Result<(), BackupError> {
    let write = |source| BackupError::Write { path: target.to_owned(), source };
    let _ = std::fs::remove_file(target);
    let mut file = open::open_private(target).map_err(write)?;
    std::io::copy(source, &mut file).map(drop).map_err(write)
}

/// Moves the files of the old store to a new folder beside them.
fn move_aside(folder: &Path, old: &[PathBuf]) -> Result<PathBuf, BackupError> {
    let aside = folder.join(format!("replaced-{}", clock::wall().as_secs()));
    let write = |source| BackupError::Write { path: aside.clone(), source };
    open::create_private(&aside).map_err(write)?;
    for path in old.iter().filter(|path| path.exists()) {
        let name = path.file_name().expect("the files of a store have names");
        std::fs::rename(path, aside.join(name)).map_err(write)?;
    }
    Ok(aside)
}

fn connect(file: &Path) -> Result<Connection, rusqlite::Error> {
    Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)
}

/// Closes the last connection, which empties the log into the file.
fn close(conn: Connection, name: &Path) -> Result<(), BackupError> {
    conn.close().map_err(|(_, error)| copy_failed(name, error))
}

fn has_table(conn: &Connection, name: &str) -> Result<bool, rusqlite::Error> {
    let table = "select 1 from sqlite_schema where type = 'table' and name = ?1";
    Ok(conn.query_row(table, [name], |_| Ok(())).optional()?.is_some())
}

fn copy_failed(path: &Path, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> BackupError {
    BackupError::Copy { path: path.to_owned(), source: source.into() }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn file_len(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |found| found.len())
}
