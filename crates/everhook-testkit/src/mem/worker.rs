//! Workers: sessions with the queues and kinds that they take.

use std::time::Duration;

use everhook_core::id::{EnvironmentId, SessionId};
use everhook_store::error::StoreError;
use everhook_store::worker::WorkerRecord;

use crate::mem::{MemStore, sessions};

impl MemStore {
    /// Returns the workers of an environment whose sessions are open or were closed within this time, oldest first.
    fn workers(&self, environment: EnvironmentId, closed_within: Duration) -> Vec<WorkerRecord> {
        let (tables, now) = self.lock();
        let worker = |session: everhook_store::lease::SessionRecord| {
            let takes = tables.workers.get(&session.id).filter(|takes| takes.environment == environment)?;
            Some(WorkerRecord { takes: takes.clone(), session })
        };
        sessions::list(&tables, now, closed_within).into_iter().filter_map(worker).collect()
    }
}

impl MemStore {
    pub(super) fn find_worker(
        &self,
        environment: EnvironmentId,
        id: SessionId,
    ) -> Result<Option<WorkerRecord>, StoreError> {
        let workers = self.workers(environment, Duration::MAX);
        Ok(workers.into_iter().find(|worker| worker.session.id == id))
    }

    pub(super) fn list_workers(&self, environment: EnvironmentId) -> Result<Vec<WorkerRecord>, StoreError> {
        Ok(self.workers(environment, Duration::ZERO))
    }
}
