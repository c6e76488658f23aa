//! Workers: sessions that say what they take.

use std::time::Duration;

use async_trait::async_trait;
use everhook_core::id::{EnvironmentId, SessionId};
use everhook_store::error::StoreError;
use everhook_store::lease::NewSession;
use everhook_store::worker::{Takes, WorkerRecord, WorkerStore};

use crate::mem::MemStore;
use crate::mem::sessions;

impl MemStore {
    /// Workers of an environment whose sessions are open or were closed within this, oldest first.
    fn workers(&self, environment: EnvironmentId, closed_within: Duration) -> Vec<WorkerRecord> {
        let (tables, now) = self.lock();
        let worker = |session: everhook_store::lease::SessionRecord| {
            let takes = tables.workers.get(&session.id).filter(|takes| takes.environment == environment)?;
            Some(WorkerRecord { takes: takes.clone(), session })
        };
        sessions::list(&tables, now, closed_within).into_iter().filter_map(worker).collect()
    }
}

#[async_trait]
impl WorkerStore for MemStore {
    async fn open_worker(&self, session: &NewSession, takes: &Takes) -> Result<(), StoreError> {
        let (mut tables, now) = self.lock();
        sessions::open(&mut tables, now, session);
        tables.workers.insert(session.id, takes.clone());
        Ok(())
    }

    async fn replace_takes(&self, session: SessionId, takes: &Takes) -> Result<(), StoreError> {
        self.lock().0.workers.insert(session, takes.clone());
        Ok(())
    }

    async fn find_worker(&self, environment: EnvironmentId, id: SessionId) -> Result<Option<WorkerRecord>, StoreError> {
        let workers = self.workers(environment, Duration::MAX);
        Ok(workers.into_iter().find(|worker| worker.session.id == id))
    }

    async fn list_workers(&self, environment: EnvironmentId) -> Result<Vec<WorkerRecord>, StoreError> {
        Ok(self.workers(environment, Duration::ZERO))
    }
}
