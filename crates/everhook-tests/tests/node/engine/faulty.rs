//! A store whose replies can be lost or refused, around the one in memory.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use everhook_core::id::SessionId;
use everhook_core::time::Timestamp;
use everhook_store::backlog::Backlog;
use everhook_store::error::StoreError;
use everhook_store::hints::Hints;
use everhook_store::job::{Enqueued, JobAsk, JobGrant, LeasedJob, NewJob};
use everhook_store::lease::{
    Append, Appended, Holding, LeaseAsk, LeaseGrant, LeaseStore, NewSession, Reclaimed, Renewed, SessionRecord,
    Settled, Settlement,
};
use everhook_testkit::mem::MemStore;

use crate::engine::fixture::LEASE;

/// What goes wrong with one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is not done.
    NotDone,
    /// It is done, and nobody hears of it.
    ReplyLost,
    /// It is done, and answered after two leases.
    Late,
    /// It is not done, and never will be.
    Refused,
    /// It is never answered.
    Hangs,
}

/// Faults to come, by operation; an empty list means all is well.
pub(crate) struct Faulty {
    pub(crate) inner: Arc<MemStore>,
    faults: Mutex<VecDeque<(&'static str, Fault)>>,
    calls: Mutex<Vec<&'static str>>,
    hints: OnceLock<Arc<dyn Hints>>,
    fail_over: AtomicBool,
}

impl Faulty {
    pub(crate) fn new(inner: MemStore) -> Faulty {
        Faulty {
            inner: Arc::new(inner),
            faults: Mutex::default(),
            calls: Mutex::default(),
            hints: OnceLock::new(),
            fail_over: AtomicBool::new(false),
        }
    }

    /// Lays a line between the nodes.
    pub(crate) fn connect(&self, hints: Arc<dyn Hints>) {
        let _ = self.hints.set(hints);
    }

    /// The next settlement is confirmed and then lost, with the server that took it: another one takes over.
    pub(crate) fn fail_over(&self) {
        self.fail_over.store(true, Ordering::SeqCst);
    }

    /// The next call of `op` goes wrong.
    pub(crate) fn plan(&self, op: &'static str, fault: Fault) {
        self.faults.lock().unwrap().push_back((op, fault));
    }

    /// How often `op` was called.
    pub(crate) fn calls(&self, op: &'static str) -> usize {
        self.calls.lock().unwrap().iter().filter(|call| **call == op).count()
    }

    fn next_fault(&self, op: &'static str) -> Option<Fault> {
        self.calls.lock().unwrap().push(op);
        let mut faults = self.faults.lock().unwrap();
        let at = faults.iter().position(|(planned, _)| *planned == op)?;
        faults.remove(at).map(|(_, fault)| fault)
    }

    async fn call<T>(
        &self,
        op: &'static str,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match self.next_fault(op) {
            None => call.await,
            Some(Fault::NotDone) => Err(StoreError::Unavailable { op, source: "planned".into() }),
            Some(Fault::Refused) => Err(StoreError::Refused { op, source: "planned".into() }),
            Some(Fault::Hangs) => std::future::pending().await,
            Some(Fault::Late) => {
                let answer = call.await;
                tokio::time::sleep(LEASE * 2).await;
                answer
            }
            Some(Fault::ReplyLost) => {
                call.await?;
                Err(StoreError::InDoubt { op, source: "planned".into() })
            }
        }
    }
}

#[async_trait]
impl LeaseStore for Faulty {
    async fn now(&self) -> Result<Timestamp, StoreError> {
        self.inner.now().await
    }

    async fn open_session(&self, session: &NewSession) -> Result<Timestamp, StoreError> {
        self.call("open", self.inner.open_session(session)).await
    }

    async fn renew_session(&self, session: SessionId) -> Result<Renewed, StoreError> {
        let renewed = self.call("renew", self.inner.renew_session(session)).await?;
        let moved = self.calls("settle lost") == 1 && self.calls("moved") == 0;
        Ok(match renewed {
            Renewed::Open(at) if moved => {
                self.calls.lock().unwrap().push("moved");
                Renewed::Moved(at)
            }
            other => other,
        })
    }

    async fn close_session(&self, session: SessionId) -> Result<(), StoreError> {
        self.call("close", self.inner.close_session(session)).await
    }

    async fn close_expired(&self, steady: Duration) -> Result<Vec<SessionId>, StoreError> {
        self.call("close_expired", self.inner.close_expired(steady)).await
    }

    async fn list_sessions(&self, closed_within: Duration) -> Result<Vec<SessionRecord>, StoreError> {
        self.inner.list_sessions(closed_within).await
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        self.inner.backlog().await
    }

    fn hints(&self) -> Option<Arc<dyn Hints>> {
        self.hints.get().cloned()
    }

    async fn append(&self, append: Append) -> Result<Vec<Appended>, StoreError> {
        self.call("append", self.inner.append(append)).await
    }

    async fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>, StoreError> {
        self.call("enqueue", self.inner.enqueue(jobs)).await
    }

    async fn lease_jobs(&self, ask: &JobAsk) -> Result<JobGrant, StoreError> {
        self.call("lease jobs", self.inner.lease_jobs(ask)).await
    }

    async fn reclaim_overdue(&self, session: SessionId, limit: usize) -> Result<Vec<(LeasedJob, Holding)>, StoreError> {
        self.call("reclaim overdue", self.inner.reclaim_overdue(session, limit)).await
    }

    async fn lease(&self, ask: LeaseAsk) -> Result<LeaseGrant, StoreError> {
        self.call("lease", self.inner.lease(ask)).await
    }

    async fn settle(&self, batch: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        if self.fail_over.swap(false, Ordering::SeqCst) {
            self.calls.lock().unwrap().push("settle lost");
            return Ok(vec![Settled::Done; batch.len()]);
        }
        let op = if batch.len() > 1 { "settle group" } else { "settle" };
        self.call(op, self.inner.settle(batch)).await
    }

    async fn reclaim(&self, session: SessionId, limit: usize) -> Result<Vec<Reclaimed>, StoreError> {
        self.call("reclaim", self.inner.reclaim(session, limit)).await
    }
}
