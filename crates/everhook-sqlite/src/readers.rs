//! Reads: a few connections that cannot write, each used by one caller at a time.
//!
//! A database in memory lives in one connection, so there the writer reads too.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use everhook_store::backlog::PoolUse;
use everhook_store::error::StoreError;
use rusqlite::Connection;
use tokio::sync::Semaphore;

use crate::failure::{Fault, Refusal};
use crate::open::{self, Role};
use crate::writer::{Ask, Class, Writer};

/// Reads at once; past it, callers wait.
const READERS_MAX: usize = 4;

/// Where reads are done.
pub(crate) enum Readers {
    /// On connections of their own, beside the writer.
    Pool(Arc<Pool>),
    /// By the writer, in between.
    Writer,
}

/// Connections that nobody uses at the moment.
pub(crate) struct Pool {
    file: PathBuf,
    idle: Mutex<Vec<Connection>>,
    room: Arc<Semaphore>,
}

impl Readers {
    /// Opens the first connection, so that a file that cannot be read is found out now.
    pub(crate) fn open(file: &Path) -> Result<Readers, rusqlite::Error> {
        let first = open::connect(file, Role::Read)?;
        let room = Arc::new(Semaphore::new(READERS_MAX));
        Ok(Readers::Pool(Arc::new(Pool { file: file.to_owned(), idle: Mutex::new(vec![first]), room })))
    }

    /// Runs `work` on a connection that sees everything committed before.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        writer: &Writer,
        op: &'static str,
        work: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let Readers::Pool(pool) = self else {
            return writer.write(Ask { op, class: Class::Change, rows: 1 }, move |tx| work(tx.conn)).await;
        };
        let permit = Arc::clone(&pool.room).acquire_owned().await.map_err(|_| Refusal::Closed.during(op))?;
        let pool = Arc::clone(pool);
        let read = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            pool.with(work).map_err(|fault| fault.during(op))
        });
        read.await.unwrap_or_else(|_| Err(Refusal::Panicked.during(op)))
    }

    /// How many reads are under way. Who waits for one is not counted.
    pub(crate) fn pool_use(&self) -> Option<PoolUse> {
        let Readers::Pool(pool) = self else { return None };
        let busy = READERS_MAX.saturating_sub(pool.room.available_permits());
        Some(PoolUse { max: READERS_MAX, busy, waiting: 0 })
    }

    /// Closes the connections that are not in use, and refuses further reads.
    pub(crate) fn close(&self) {
        if let Readers::Pool(pool) = self {
            pool.room.close();
            pool.lock().clear();
        }
    }
}

impl Pool {
    fn with<T>(&self, work: impl FnOnce(&Connection) -> Result<T, Fault>) -> Result<T, Fault> {
        let idle = self.lock().pop();
        let conn = match idle {
            Some(conn) => conn,
            None => open::connect(&self.file, Role::Read)?,
        };
        let done = work(&conn);
        // One that failed may be broken; the next reader opens another.
        if done.is_ok() && !self.room.is_closed() {
            self.lock().push(conn);
        }
        done
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().expect("nothing panics while it holds this lock")
    }
}
