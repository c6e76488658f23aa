//! The embedded store: one SQLite file, one writer.
//!
//! Every write goes to [`writer`], which commits many of them at once. Every read goes to [`readers`] and never waits
//! for a commit. Statements are in `queries/`, the schema in `migrations/`. The store makes no decisions: these are in
//! the core and in `everhook_store::append`.

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex};

use everhook_core::id::EnvironmentId;
use everhook_core::seal::SealRing;
use everhook_store::error::StoreError;
use everhook_store::ids::Ids;
use everhook_store::seal::{Seal, generate_key};
use everhook_store::sql::statement::Dialect;
use everhook_store::store::Op;
use everhook_store::worker::REMOTE;
use rusqlite::params;

mod append;
mod audit;
mod background;
mod backlog;
mod backup;
mod batch;
mod checkpoint;
mod clock;
mod connection;
mod dedup;
mod deliveries;
mod directory;
mod egress;
mod endpoints;
mod environment;
mod error;
mod examine;
mod failure;
mod feed;
mod history;
mod identity;
mod job;
mod lease;
mod migrate;
mod once;
mod open;
mod operational;
mod operations;
mod order;
mod outbox;
mod poll;
mod queue;
mod quota;
mod readers;
mod reads;
mod request;
mod resource;
mod retention;
mod schedule;
mod seal;
mod session;
mod settle;
mod sql;
mod steer;
mod token;
mod traffic;
mod transfer;
mod worker;
mod writer;

pub use backup::{BackupError, CopiedBytes, Existing, RestoredStore, back_up, restore};
pub use clock::TimeSource;
pub use examine::{SqliteFacts, examine};
pub use migrate::{SqliteMigrationReport, migrate};
pub use open::{FileHolder, OpenAs, SqliteOpenError};
pub use outbox::SqliteOutbox;
pub use seal::{SealSource, key_file};
pub use sql::statement_text;
pub use transfer::SqliteTransfer;

use crate::checkpoint::Checkpoints;
use crate::clock::{StoreClock, SystemSource};
use crate::connection::Connection;
use crate::error::{Fault, Refusal};
use crate::identity::Identity;
use crate::open::{Cause, ConnectionRole};
use crate::readers::Readers;
use crate::writer::{Tx, WriteAsk, WriteClass, Writer};

/// The dialect for query files.
const DIALECT: Dialect = Dialect::Sqlite;

/// A store in one SQLite file.
pub struct SqliteStore {
    writer: Writer,
    readers: Readers,
    clock: Arc<StoreClock>,
    /// Held while this process serves the folder.
    lock: Mutex<Option<File>>,
}

impl SqliteStore {
    /// Opens the store in `folder`. A server creates it if it does not exist, migrates it, and closes the sessions of
    /// earlier servers. A command beside a server needs an existing store with the schema of this binary.
    pub fn open(folder: &Path, open_as: OpenAs, ids: Arc<Ids>) -> Result<SqliteStore, SqliteOpenError> {
        SqliteStore::open_by(Arc::new(SystemSource::new()), folder, open_as, ids)
    }

    /// Opens the store with keys from another place than its folder.
    pub fn open_sealed(
        folder: &Path,
        open_as: OpenAs,
        ids: Arc<Ids>,
        source: &SealSource,
    ) -> Result<SqliteStore, SqliteOpenError> {
        SqliteStore::open_with(Arc::new(SystemSource::new()), folder, open_as, ids, source)
    }

    /// Opens the store with other clocks than the machine's, for tests.
    pub fn open_by(
        time: Arc<dyn TimeSource>,
        folder: &Path,
        open_as: OpenAs,
        ids: Arc<Ids>,
    ) -> Result<SqliteStore, SqliteOpenError> {
        SqliteStore::open_with(time, folder, open_as, ids, &SealSource::Folder)
    }

    fn open_with(
        time: Arc<dyn TimeSource>,
        folder: &Path,
        open_as: OpenAs,
        ids: Arc<Ids>,
        source: &SealSource,
    ) -> Result<SqliteStore, SqliteOpenError> {
        open::check_version()?;
        let (file, lock) = match open_as {
            OpenAs::Server => {
                let (file, lock) = (open::ensure_file(folder)?, open::lock(folder)?);
                open::warn_if_shared(folder);
                (file, Some(lock))
            }
            OpenAs::Beside => (open::existing_file(folder)?, None),
        };
        let named = |error: rusqlite::Error| Cause::from(error).at(&file);
        let mut conn = open::connect(&file, ConnectionRole::Write).map_err(named)?;
        match open_as {
            OpenAs::Beside => migrate::require(&conn, &file)?,
            OpenAs::Server => {
                migrate::apply(&mut conn, &file)?;
                open::mark_used(folder);
                open::sync_folder(folder).map_err(|error| Cause::from(error).at(folder))?;
            }
        }
        let seal = seal::load(&conn, folder, source, open_as)?;
        let mut conn = Connection::new(conn, &seal);
        let checkpoints = match open_as {
            OpenAs::Server => {
                seal::prepare(&conn, folder)?;
                close_node_sessions(&conn).map_err(named)?;
                Some(Checkpoints::start(&file, &mut conn).map_err(|cause| cause.at(&file))?)
            }
            // The server maintains the log. Without a server, SQLite empties it when the last connection closes.
            OpenAs::Beside => None,
        };
        let readers = Readers::open(&file, &seal).map_err(named)?;
        let clock = match open_as {
            OpenAs::Server => StoreClock::new(time),
            OpenAs::Beside => StoreClock::beside(time),
        };
        let clock = Arc::new(clock);
        let identity = Identity::of(&file).map_err(|error| Cause::from(error).at(&file))?;
        let writer = Writer::start(conn, ids, Arc::clone(&clock), checkpoints, Some(identity));
        let writer = writer.map_err(|error| Cause::from(error).at(&file))?;
        Ok(SqliteStore { writer, readers, clock, lock: Mutex::new(lock) })
    }

    /// Opens an empty store in memory, for tests.
    pub fn open_in_memory(ids: Arc<Ids>) -> Result<SqliteStore, SqliteOpenError> {
        let name = Path::new(":memory:");
        let mut conn = open::connect_in_memory().map_err(|error| Cause::from(error).at(name))?;
        migrate::apply(&mut conn, name)?;
        let conn = Connection::new(conn, &Seal::of(SealRing::new(generate_key())));
        seal::prepare(&conn, name)?;
        let clock = Arc::new(StoreClock::new(Arc::new(SystemSource::new())));
        let writer = Writer::start(conn, ids, Arc::clone(&clock), None, None);
        let writer = writer.map_err(|error| Cause::from(error).at(name))?;
        Ok(SqliteStore { writer, readers: Readers::Writer, clock, lock: Mutex::new(None) })
    }

    /// Finishes waiting writes, empties the log into the file and releases it. Repeatable; later calls are refused.
    pub fn close(&self) {
        self.readers.close();
        self.writer.close();
        self.lock.lock().expect("nothing panics while it holds this lock").take();
    }

    async fn write<T: Send + 'static>(
        &self,
        ask: WriteAsk,
        work: impl FnOnce(&Tx<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.writer.write(ask, work).await
    }

    /// Runs a small write for a caller.
    async fn change<T: Send + 'static>(
        &self,
        op: Op,
        work: impl FnOnce(&Tx<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.write(WriteAsk { op, class: WriteClass::Change, rows: 1 }, work).await
    }

    /// Runs a read of the store itself.
    async fn read<T: Send + 'static>(
        &self,
        op: Op,
        work: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.read_shared(op, None, work).await
    }

    /// Runs a read. A search waits for the turn of its environment first.
    async fn read_shared<T: Send + 'static>(
        &self,
        op: Op,
        share: Option<EnvironmentId>,
        work: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        // Another database may have replaced the file under the same name.
        if self.writer.refusal() == Some(Refusal::FileLost) {
            return Err(Refusal::FileLost.into_store_error(op));
        }
        self.readers.read(&self.writer, op, share, work).await
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.close();
    }
}

/// Closes the sessions of earlier servers. The lock proves that none of them is alive, so their tasks may be reclaimed
/// at once. Remote workers are processes of their own and keep their sessions.
fn close_node_sessions(conn: &rusqlite::Connection) -> Result<(), rusqlite::Error> {
    let close = "update session set closed_at = ?1 where closed_at is null and version <> ?2";
    conn.execute(close, params![clock::wall().as_micros(), REMOTE]).map(drop)
}
