//! Reads: a few read-only connections, each used by one caller at a time.
//!
//! A database in memory has a single connection, so there the writer also reads.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everhook_core::id::EnvironmentId;
use everhook_core::limits::SEARCH_TIME_MAX;
use everhook_store::backlog::PoolUse;
use everhook_store::error::StoreError;
use everhook_store::seal::Seal;
use everhook_store::shares::SearchShares;
use everhook_store::store::Op;
use tokio::sync::Semaphore;

use crate::clock;
use crate::connection::Connection;
use crate::error::{Fault, Refusal};
use crate::open::{self, ConnectionRole};
use crate::writer::{WriteAsk, WriteClass, Writer};

/// The most concurrent reads; further callers wait.
const READERS_MAX: usize = 4;
/// The deadline of a read that is no search. Such reads are the node's own, which cannot ask for less.
const READ_TIME_MAX: Duration = Duration::from_secs(60);
/// Steps of SQLite between two checks of the deadline: about a tenth of a millisecond.
const PROGRESS_STEPS: i32 = 10_000;

/// The place where reads run.
pub(crate) enum Readers {
    /// On connections of their own, beside the writer.
    Pool(Arc<Pool>),
    /// On the writer's connection, between its writes.
    Writer,
}

/// Idle connections.
pub(crate) struct Pool {
    file: PathBuf,
    seal: Seal,
    idle: Mutex<Vec<Connection>>,
    capacity: Arc<Semaphore>,
    shares: SearchShares,
}

impl Readers {
    /// Opens the first connection, so that an unreadable file is detected at start.
    pub(crate) fn open(file: &Path, seal: &Seal) -> Result<Readers, rusqlite::Error> {
        let first = Connection::new(open::connect(file, ConnectionRole::Read)?, seal);
        let capacity = Arc::new(Semaphore::new(READERS_MAX));
        let (file, idle, shares) = (file.to_owned(), Mutex::new(vec![first]), SearchShares::of(READERS_MAX));
        Ok(Readers::Pool(Arc::new(Pool { file, seal: seal.clone(), idle, capacity, shares })))
    }

    /// Runs `work` on a connection that sees everything committed before. A read with a share waits for the turn of its
    /// environment, and has the deadline of searches.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        writer: &Writer,
        op: Op,
        share: Option<EnvironmentId>,
        work: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let _share = match (self, share) {
            (Readers::Pool(pool), Some(environment)) => Some(pool.shares.wait(environment, op).await?),
            _ => None,
        };
        let time = if share.is_some() { SEARCH_TIME_MAX } else { READ_TIME_MAX };
        self.read_within(time, writer, op, work).await
    }

    async fn read_within<T: Send + 'static>(
        &self,
        time: Duration,
        writer: &Writer,
        op: Op,
        work: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let Readers::Pool(pool) = self else {
            return writer.write(WriteAsk { op, class: WriteClass::Change, rows: 1 }, move |tx| work(tx.conn)).await;
        };
        let permit =
            Arc::clone(&pool.capacity).acquire_owned().await.map_err(|_| Refusal::Closed.into_store_error(op))?;
        let pool = Arc::clone(pool);
        let read = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            pool.with(time, work).map_err(|fault| fault.into_store_error(op))
        });
        read.await.unwrap_or_else(|_| Err(Refusal::Panicked.into_store_error(op)))
    }

    /// Returns the number of running reads. Waiting callers are not counted.
    pub(crate) fn pool_use(&self) -> Option<PoolUse> {
        let Readers::Pool(pool) = self else { return None };
        let busy = READERS_MAX.saturating_sub(pool.capacity.available_permits());
        Some(PoolUse { max: READERS_MAX, busy, waiting: 0 })
    }

    /// Closes idle connections, and refuses further reads.
    pub(crate) fn close(&self) {
        if let Readers::Pool(pool) = self {
            pool.capacity.close();
            pool.lock().clear();
        }
    }
}

/// Runs `work`, and stops its statements at the deadline.
fn within<T>(
    conn: &mut Connection,
    time: Duration,
    work: impl FnOnce(&Connection) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let until = clock::ticks() + time;
    conn.progress_handler(PROGRESS_STEPS, Some(move || clock::ticks() >= until))?;
    let done = work(conn);
    conn.progress_handler(0, None::<fn() -> bool>)?;
    done
}

impl Pool {
    fn with<T>(&self, time: Duration, work: impl FnOnce(&Connection) -> Result<T, Fault>) -> Result<T, Fault> {
        let idle = self.lock().pop();
        let mut conn = match idle {
            Some(conn) => conn,
            None => Connection::new(open::connect(&self.file, ConnectionRole::Read)?, &self.seal),
        };
        let done = within(&mut conn, time, work);
        // A connection that failed may be broken; the next reader opens another. One that was stopped at the deadline
        // is usable.
        let is_fine = done.as_ref().map_or_else(Fault::is_interrupted, |_| true);
        if is_fine && !self.capacity.is_closed() {
            self.lock().push(conn);
        }
        done
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().expect("nothing panics while it holds this lock")
    }
}

#[cfg(test)]
mod tests {
    use everhook_store::query::QueryName;

    use super::*;

    const LIST: Op = Op::Read(QueryName::Messages);

    #[test]
    fn a_read_is_stopped_when_its_time_is_over_and_its_connection_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.db");
        rusqlite::Connection::open(&file).unwrap().execute_batch("create table t (a)").unwrap();
        let Readers::Pool(pool) = Readers::open(&file, Seal::NONE).unwrap() else { panic!("a file has readers") };
        let endless = "with recursive n (a) as (select 1 union all select a + 1 from n) select count(*) from n";
        let ask = |sql: &'static str| move |conn: &Connection| Ok(conn.query_row(sql, [], |row| row.get::<_, i64>(0))?);
        let fault = pool.with(Duration::ZERO, ask(endless)).unwrap_err();
        assert!(fault.is_interrupted(), "{fault:?}");
        assert!(matches!(fault.into_store_error(LIST), StoreError::Slow { op: LIST, .. }));
        assert_eq!(pool.lock().len(), 1, "the connection is kept");
        assert_eq!(pool.with(READ_TIME_MAX, ask("select 7")).unwrap(), 7);
    }
}
