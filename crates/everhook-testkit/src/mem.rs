//! The lease engine in memory: its executable specification.
//!
//! Plain collections behind one lock, every operation written as its definition and nothing for speed: the SQL stores have to
//! behave like this one, and the model test holds them to it. Time is the caller's function and ids are the caller's source,
//! so the same calls give the same rows; the simulator runs many nodes on one of these. Not a product: keeps nothing, and
//! knows of the catalogue and of history only what the lease engine needs.

mod append;
mod backlog;
mod batch;
mod catalog;
mod history;
mod job;
mod lease;
mod once;
mod queue;
mod retention;
mod schedule;
mod sessions;
mod settle;
mod tables;
mod worker;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use everhook_core::id::SessionId;
use everhook_core::time::Timestamp;
use everhook_store::backlog::Backlog;
use everhook_store::error::StoreError;
use everhook_store::ids::Ids;
use everhook_store::job::{Enqueued, JobAsk, JobGrant, LeasedJob, NewJob};
use everhook_store::lease::{
    Append, Appended, Holding, LeaseAsk, LeaseGrant, LeaseStore, NewSession, Reclaimed, Renewed, SessionRecord,
    Settled, Settlement,
};

pub use crate::mem::tables::{
    AttemptRow, EndpointRow, JobRow, KeyRow, LaneRow, LaneState, OnceRow, QueueRow, ScheduleRow, SessionRow, Tables,
    TaskPlace, TaskRow,
};

/// Reads the store's clock.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The lease engine in memory.
pub struct MemStore {
    ids: Ids,
    clock: Clock,
    tables: Mutex<Tables>,
}

impl MemStore {
    /// An empty store with this source of ids and this clock.
    pub fn new(ids: Ids, clock: Clock) -> MemStore {
        MemStore { ids, clock, tables: Mutex::default() }
    }

    /// Everything it holds, in the order of its keys.
    pub fn dump(&self) -> Tables {
        self.lock().0.clone()
    }

    /// Looks at everything it holds, at one instant.
    pub fn look<T>(&self, look: impl FnOnce(&Tables) -> T) -> T {
        look(&self.lock().0)
    }

    /// Begins an operation: nobody else is inside, and the clock is read once that is so.
    fn lock(&self) -> (MutexGuard<'_, Tables>, Timestamp) {
        let tables = self.tables.lock().expect("nothing panics while it holds this lock");
        let now = (self.clock)();
        (tables, now)
    }
}

impl fmt::Debug for MemStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemStore").finish_non_exhaustive()
    }
}

#[async_trait]
impl LeaseStore for MemStore {
    async fn now(&self) -> Result<Timestamp, StoreError> {
        Ok((self.clock)())
    }

    async fn open_session(&self, session: &NewSession) -> Result<Timestamp, StoreError> {
        let (mut tables, now) = self.lock();
        sessions::open(&mut tables, now, session);
        Ok(now)
    }

    async fn renew_session(&self, session: SessionId) -> Result<Renewed, StoreError> {
        let (mut tables, now) = self.lock();
        Ok(sessions::renew(&mut tables, now, session))
    }

    async fn close_session(&self, session: SessionId) -> Result<(), StoreError> {
        let (mut tables, now) = self.lock();
        sessions::close(&mut tables, now, session);
        Ok(())
    }

    async fn close_expired(&self, steady: Duration) -> Result<Vec<SessionId>, StoreError> {
        let (mut tables, now) = self.lock();
        Ok(sessions::close_expired(&mut tables, now, steady))
    }

    async fn list_sessions(&self, closed_within: Duration) -> Result<Vec<SessionRecord>, StoreError> {
        let (tables, now) = self.lock();
        Ok(sessions::list(&tables, now, closed_within))
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        let (tables, now) = self.lock();
        Ok(backlog::count(&tables, now))
    }

    async fn append(&self, append: Append) -> Result<Vec<Appended>, StoreError> {
        let (mut tables, now) = self.lock();
        Ok(append::append(&mut tables, &self.ids, now, append))
    }

    async fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>, StoreError> {
        let (mut tables, now) = self.lock();
        Ok(jobs.iter().map(|new| job::enqueue(&mut tables, &self.ids, now, new)).collect())
    }

    async fn lease_jobs(&self, ask: &JobAsk) -> Result<JobGrant, StoreError> {
        let (mut tables, now) = self.lock();
        Ok(queue::lease(&mut tables, now, ask))
    }

    async fn reclaim_overdue(&self, session: SessionId, limit: usize) -> Result<Vec<(LeasedJob, Holding)>, StoreError> {
        let (mut tables, now) = self.lock();
        Ok(queue::reclaim_overdue(&mut tables, now, session, limit))
    }

    async fn lease(&self, ask: LeaseAsk) -> Result<LeaseGrant, StoreError> {
        let (mut tables, now) = self.lock();
        Ok(lease::lease(&mut tables, now, &ask))
    }

    async fn settle(&self, batch: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        let (mut tables, now) = self.lock();
        Ok(settle::settle(&mut tables, &self.ids, now, batch))
    }

    async fn reclaim(&self, session: SessionId, limit: usize) -> Result<Vec<Reclaimed>, StoreError> {
        let (mut tables, now) = self.lock();
        Ok(sessions::reclaim(&mut tables, now, session, limit))
    }
}
