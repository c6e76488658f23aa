//! Workers: sessions with the queues and kinds that they take.

use std::time::Duration;

use everhook_core::id::SessionId;
use everhook_core::scope::Scope;
use everhook_store::worker::WorkerRecord;

use crate::mem::{MemStore, sessions};

impl MemStore {
    /// Returns the workers of an environment whose sessions are open or were closed within this time, oldest first.
    pub(super) fn list_workers(&self, scope: Scope, closed_within: Duration) -> Vec<WorkerRecord> {
        let (tables, now) = self.lock();
        let worker = |session: everhook_store::lease::SessionRecord| {
            let takes = tables.workers.get(&session.id).filter(|takes| takes.environment == scope.environment)?;
            Some(WorkerRecord { takes: takes.clone(), session })
        };
        sessions::list(&tables, now, closed_within).into_iter().filter_map(worker).collect()
    }

    pub(super) fn find_worker(&self, scope: Scope, id: SessionId) -> Option<WorkerRecord> {
        self.list_workers(scope, Duration::MAX).into_iter().find(|worker| worker.session.id == id)
    }
}
