//! The embedded store: one SQLite file, one writer.
//!
//! Everything that writes becomes a job of [`writer`], which commits many of them at once; everything that only reads goes to
//! [`readers`] and never waits for a commit. Statements are in `queries/`, the schema in `migrations/`. Decides nothing: what a
//! settlement means is decided in the core, who wins a key in `everhook_store::append`.

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use everhook_core::id::{EnvironmentId, SessionId};
use everhook_core::time::Timestamp;
use everhook_store::backlog::{Backlog, PoolUse};
use everhook_store::error::StoreError;
use everhook_store::ids::Ids;
use everhook_store::job::{Enqueued, JobAsk, JobGrant, LeasedJob, NewJob};
use everhook_store::lease::{
    Append, Appended, Holding, LeaseAsk, LeaseGrant, LeaseStore, NewSession, Reclaimed, Renewed, SessionRecord,
    Settled, Settlement,
};
use everhook_store::sql::statement::Dialect;
use everhook_store::worker::REMOTE;
use rusqlite::{Connection, params};

mod append;
mod backlog;
mod batch;
mod catalog;
mod checkpoint;
mod clock;
mod dedup;
mod failure;
mod history;
mod identity;
mod job;
mod lease;
mod migrate;
mod once;
mod open;
mod outbox;
mod queue;
mod readers;
mod retention;
mod rows;
mod schedule;
mod session;
mod settle;
mod sql;
mod worker;
mod writer;

pub use clock::TimeSource;
pub use migrate::{MigrationReport, migrate};
pub use open::{Holder, OpenAs, OpenError};
pub use outbox::SqliteOutbox;

use crate::checkpoint::Checkpoints;
use crate::clock::{Clock, SystemSource};
use crate::failure::{Fault, Refusal};
use crate::identity::Identity;
use crate::open::{Cause, Role};
use crate::readers::Readers;
use crate::writer::{Ask, Class, Tx, Writer};

/// How query files are expanded.
const DIALECT: Dialect = Dialect::Sqlite;

/// A store in one SQLite file.
pub struct SqliteStore {
    writer: Writer,
    readers: Readers,
    clock: Arc<Clock>,
    /// Held while this process serves the folder.
    lock: Mutex<Option<File>>,
}

impl SqliteStore {
    /// Opens the store in `folder`. A server makes it if it is not there, migrates it and ends the sessions of earlier servers;
    /// beside a server it has to be there, with the schema of this binary.
    pub fn open(folder: &Path, open_as: OpenAs, ids: Arc<Ids>) -> Result<SqliteStore, OpenError> {
        SqliteStore::open_by(Arc::new(SystemSource::new()), folder, open_as, ids)
    }

    /// The same by other clocks than the machine's, for tests.
    pub fn open_by(
        time: Arc<dyn TimeSource>,
        folder: &Path,
        open_as: OpenAs,
        ids: Arc<Ids>,
    ) -> Result<SqliteStore, OpenError> {
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
        let mut conn = open::connect(&file, Role::Write).map_err(named)?;
        match open_as {
            OpenAs::Beside => migrate::require(&conn, &file)?,
            OpenAs::Server => {
                migrate::apply(&mut conn, &file)?;
                open::mark_used(folder);
                open::sync_folder(folder).map_err(|error| Cause::from(error).at(folder))?;
            }
        }
        let checkpoints = match open_as {
            OpenAs::Server => {
                close_node_sessions(&conn).map_err(named)?;
                Some(Checkpoints::start(&file, &mut conn).map_err(|cause| cause.at(&file))?)
            }
            // The server sees to the log; without one, SQLite empties it when the last connection is closed.
            OpenAs::Beside => None,
        };
        let readers = Readers::open(&file).map_err(named)?;
        let clock = match open_as {
            OpenAs::Server => Clock::new(time),
            OpenAs::Beside => Clock::beside(time),
        };
        let clock = Arc::new(clock);
        let identity = Identity::of(&file).map_err(|error| Cause::from(error).at(&file))?;
        let writer = Writer::start(conn, ids, Arc::clone(&clock), checkpoints, Some(identity));
        let writer = writer.map_err(|error| Cause::from(error).at(&file))?;
        Ok(SqliteStore { writer, readers, clock, lock: Mutex::new(lock) })
    }

    /// Opens an empty store that lives in memory, for tests.
    pub fn open_in_memory(ids: Arc<Ids>) -> Result<SqliteStore, OpenError> {
        let name = Path::new(":memory:");
        let mut conn = open::connect_in_memory().map_err(|error| Cause::from(error).at(name))?;
        migrate::apply(&mut conn, name)?;
        let clock = Arc::new(Clock::new(Arc::new(SystemSource::new())));
        let writer = Writer::start(conn, ids, Arc::clone(&clock), None, None);
        let writer = writer.map_err(|error| Cause::from(error).at(name))?;
        Ok(SqliteStore { writer, readers: Readers::Writer, clock, lock: Mutex::new(None) })
    }

    /// Finishes what waits to be written, empties the log into the file and lets go of it. Repeating it is harmless; whatever
    /// is asked afterwards is refused.
    pub fn close(&self) {
        self.readers.close();
        self.writer.close();
        self.lock.lock().expect("nothing panics while it holds this lock").take();
    }

    async fn write<T: Send + 'static>(
        &self,
        ask: Ask,
        work: impl FnOnce(&Tx<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.writer.write(ask, work).await
    }

    /// A write of a few rows that somebody asked for.
    async fn change<T: Send + 'static>(
        &self,
        op: &'static str,
        work: impl FnOnce(&Tx<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.write(Ask { op, class: Class::Change, rows: 1 }, work).await
    }

    async fn read<T: Send + 'static>(
        &self,
        op: &'static str,
        work: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        // What is under the name now may be another database.
        if self.writer.refusal() == Some(Refusal::FileLost) {
            return Err(Refusal::FileLost.during(op));
        }
        self.readers.read(&self.writer, op, work).await
    }
}

impl SqliteStore {
    /// A read whose length depends on what is asked for: it has its turn among those of all environments, and a deadline.
    async fn search<T: Send + 'static>(
        &self,
        environment: EnvironmentId,
        op: &'static str,
        work: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.readers.search(&self.writer, environment, op, work).await
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.close();
    }
}

/// Ends the sessions of earlier servers: the lock says that none of them lives, so their tasks may be taken over at once. Remote
/// workers live in processes of their own and keep their sessions.
fn close_node_sessions(conn: &Connection) -> Result<(), rusqlite::Error> {
    let close = "update session set closed_at = ?1 where closed_at is null and version <> ?2";
    conn.execute(close, params![clock::wall().as_micros(), REMOTE]).map(drop)
}

#[async_trait]
impl LeaseStore for SqliteStore {
    async fn now(&self) -> Result<Timestamp, StoreError> {
        Ok(self.clock.now())
    }

    async fn open_session(&self, session: &NewSession) -> Result<Timestamp, StoreError> {
        let session = session.clone();
        self.change("open_session", move |tx| session::open(tx, &session)).await
    }

    async fn renew_session(&self, session: SessionId) -> Result<Renewed, StoreError> {
        self.change("renew_session", move |tx| session::renew(tx, session)).await
    }

    async fn close_session(&self, session: SessionId) -> Result<(), StoreError> {
        self.change("close_session", move |tx| session::close(tx, session)).await
    }

    async fn close_expired(&self, steady: Duration) -> Result<Vec<SessionId>, StoreError> {
        self.change("close_expired", move |tx| session::close_expired(tx, steady)).await
    }

    async fn list_sessions(&self, closed_within: Duration) -> Result<Vec<SessionRecord>, StoreError> {
        let closed_after = self.clock.now().minus(closed_within);
        self.read("list_sessions", move |conn| session::list(conn, closed_after)).await
    }

    fn broken(&self) -> Option<String> {
        self.writer.refusal().map(|refusal| refusal.to_string())
    }

    fn ahead(&self) -> Duration {
        self.clock.ahead()
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        let now = self.clock.now();
        self.read("count_backlog", move |conn| backlog::count(conn, now)).await
    }

    fn pool_use(&self) -> Option<PoolUse> {
        self.readers.pool_use()
    }

    async fn append(&self, append: Append) -> Result<Vec<Appended>, StoreError> {
        let ask = Ask { op: "append", class: Class::Append, rows: append.messages.len() };
        self.write(ask, move |tx| append::append(tx, append)).await
    }

    async fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>, StoreError> {
        let jobs = jobs.to_vec();
        let ask = Ask { op: "enqueue", class: Class::Append, rows: jobs.len() };
        self.write(ask, move |tx| job::enqueue::enqueue(tx, &jobs)).await
    }

    async fn lease_jobs(&self, ask: &JobAsk) -> Result<JobGrant, StoreError> {
        let ask = ask.clone();
        let rows = ask.limit;
        self.write(Ask { op: "lease_jobs", class: Class::Change, rows }, move |tx| job::lease::lease(tx, &ask)).await
    }

    async fn reclaim_overdue(&self, session: SessionId, limit: usize) -> Result<Vec<(LeasedJob, Holding)>, StoreError> {
        let ask = Ask { op: "reclaim_overdue", class: Class::Maintenance, rows: limit };
        self.write(ask, move |tx| job::lease::reclaim_overdue(tx, session, limit)).await
    }

    async fn lease(&self, ask: LeaseAsk) -> Result<LeaseGrant, StoreError> {
        let rows = ask.limit;
        self.write(Ask { op: "lease", class: Class::Change, rows }, move |tx| lease::lease(tx, &ask)).await
    }

    async fn settle(&self, batch: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        let batch = batch.to_vec();
        let ask = Ask { op: "settle", class: Class::Settle, rows: batch.len() };
        self.write(ask, move |tx| settle::settle(tx, &batch)).await
    }

    async fn reclaim(&self, session: SessionId, limit: usize) -> Result<Vec<Reclaimed>, StoreError> {
        let ask = Ask { op: "reclaim", class: Class::Maintenance, rows: limit };
        self.write(ask, move |tx| session::reclaim(tx, session, limit)).await
    }
}
