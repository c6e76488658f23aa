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
use everhook_core::id::SessionId;
use everhook_core::task::Task;
use everhook_core::time::Timestamp;
use everhook_store::backlog::{Backlog, PoolUse};
use everhook_store::error::StoreError;
use everhook_store::ids::Ids;
use everhook_store::job::{Enqueued, JobAsk, JobGrant, LeasedJob, NewJob};
use everhook_store::lease::{
    Append, Appended, LeaseAsk, LeaseGrant, LeaseStore, NewSession, Renewed, SessionRecord, Settled, Settlement,
};
use rusqlite::Connection;

mod append;
mod backlog;
mod batch;
mod catalog;
mod checkpoint;
mod clock;
mod dedup;
mod failure;
mod history;
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
mod worker;
mod writer;

pub use migrate::{MigrationReport, migrate};
pub use open::{Holder, OpenAs, OpenError};
pub use outbox::SqliteOutbox;

use crate::checkpoint::Checkpoints;
use crate::failure::Fault;
use crate::open::{Cause, Role};
use crate::readers::Readers;
use crate::writer::{Ask, Class, Tx, Writer};

/// A store in one SQLite file.
pub struct SqliteStore {
    writer: Writer,
    readers: Readers,
    /// Held while this process serves the folder.
    lock: Mutex<Option<File>>,
}

impl SqliteStore {
    /// Opens the store in `folder`. A server makes it if it is not there, migrates it and ends the sessions of earlier lives;
    /// beside a server it has to be there, with the schema of this binary.
    pub fn open(folder: &Path, open_as: OpenAs, ids: Arc<Ids>) -> Result<SqliteStore, OpenError> {
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
                open::sync_folder(folder).map_err(|error| Cause::from(error).at(folder))?;
            }
        }
        let checkpoints = match open_as {
            OpenAs::Server => {
                close_all_sessions(&conn).map_err(named)?;
                Some(Checkpoints::start(&file, &mut conn).map_err(|cause| cause.at(&file))?)
            }
            // The server sees to the log; without one, SQLite empties it when the last connection is closed.
            OpenAs::Beside => None,
        };
        let readers = Readers::open(&file).map_err(named)?;
        let writer = Writer::start(conn, ids, checkpoints).map_err(|error| Cause::from(error).at(&file))?;
        Ok(SqliteStore { writer, readers, lock: Mutex::new(lock) })
    }

    /// Opens an empty store that lives in memory, for tests.
    pub fn open_in_memory(ids: Arc<Ids>) -> Result<SqliteStore, OpenError> {
        let name = Path::new(":memory:");
        let mut conn = open::connect_in_memory().map_err(|error| Cause::from(error).at(name))?;
        migrate::apply(&mut conn, name)?;
        let writer = Writer::start(conn, ids, None).map_err(|error| Cause::from(error).at(name))?;
        Ok(SqliteStore { writer, readers: Readers::Writer, lock: Mutex::new(None) })
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
        self.readers.read(&self.writer, op, work).await
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.close();
    }
}

/// Ends the sessions of earlier lives: the lock says that none of them lives, so what they hold may be taken over at once.
fn close_all_sessions(conn: &Connection) -> Result<(), rusqlite::Error> {
    let close = "update session set closed_at = ?1 where closed_at is null";
    conn.execute(close, [clock::now().as_micros()]).map(drop)
}

#[async_trait]
impl LeaseStore for SqliteStore {
    async fn now(&self) -> Result<Timestamp, StoreError> {
        Ok(clock::now())
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

    async fn close_expired(&self) -> Result<Vec<SessionId>, StoreError> {
        self.change("close_expired", session::close_expired).await
    }

    async fn list_sessions(&self, closed_within: Duration) -> Result<Vec<SessionRecord>, StoreError> {
        let closed_after = clock::now().minus(closed_within);
        self.read("list_sessions", move |conn| session::list(conn, closed_after)).await
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        let now = clock::now();
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

    async fn reclaim_overdue(&self, session: SessionId, limit: usize) -> Result<Vec<LeasedJob>, StoreError> {
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

    async fn reclaim(&self, session: SessionId, limit: usize) -> Result<Vec<Task>, StoreError> {
        let ask = Ask { op: "reclaim", class: Class::Maintenance, rows: limit };
        self.write(ask, move |tx| session::reclaim(tx, session, limit)).await
    }
}
