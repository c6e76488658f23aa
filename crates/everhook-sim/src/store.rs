//! The database as one node sees it: late, stalled, gone, or doing what was asked without saying so.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use everhook_core::id::SessionId;
use everhook_core::time::Timestamp;
use everhook_store::backlog::Backlog;
use everhook_store::error::StoreError;
use everhook_store::job::{Enqueued, JobAsk, JobGrant, LeasedJob, NewJob};
use everhook_store::lease::{
    Append, Appended, Holding, LeaseAsk, LeaseGrant, LeaseStore, NewSession, Reclaimed, Renewed, SessionRecord,
    Settled, Settlement,
};
use everhook_store::made::WithMade;

use crate::gate::Gate;
use crate::world::Shared;

mod jobs;

/// One node's connection.
pub(crate) struct NodeStore {
    pub(crate) shared: Arc<Shared>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) node: usize,
}

/// What goes wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    NotDone,
    ReplyLost,
    /// The same to the caller as a lost reply, but nothing was done.
    RequestLost,
}

impl NodeStore {
    async fn call<T>(
        &self,
        op: &'static str,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let fault = self.draw_fault();
        self.travel().await;
        if fault == Some(Fault::RequestLost) {
            self.shared.trace.event(format_args!("node {} {op}: request lost", self.node));
            return Err(StoreError::InDoubt { op, source: "the simulated request was lost".into() });
        }
        if fault == Some(Fault::NotDone) {
            self.shared.trace.event(format_args!("node {} {op}: not done", self.node));
            return Err(StoreError::Unavailable { op, source: "the simulated database is away".into() });
        }
        self.shared.stall().await;
        self.gate.pass().await;
        let done = call.await;
        self.shared.trace.event(format_args!(
            "node {} {op}: {}",
            self.node,
            if done.is_ok() { "ok" } else { "refused" }
        ));
        // A node that dies or pauses here has done it and does not know.
        self.travel().await;
        if fault == Some(Fault::ReplyLost) {
            self.shared.trace.event(format_args!("node {} {op}: reply lost", self.node));
            return Err(StoreError::InDoubt { op, source: "the simulated reply was lost".into() });
        }
        done
    }

    /// A call that changes jobs: what it leaves is looked at, also if its reply is lost.
    async fn watched<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let done = call.await?;
        self.shared.store.look(|tables| self.shared.witness().inspect(tables));
        Ok(done)
    }

    fn draw_fault(&self) -> Option<Fault> {
        if !self.shared.rng.once_in(self.shared.store_fault_odds()) {
            return None;
        }
        Some(*self.shared.rng.pick(&[Fault::NotDone, Fault::ReplyLost, Fault::ReplyLost, Fault::RequestLost]))
    }

    async fn travel(&self) {
        self.gate.pass().await;
        let latency = self.shared.rng.between(Duration::from_micros(50), Duration::from_millis(3));
        tokio::time::sleep(latency).await;
        self.gate.pass().await;
    }
}

#[async_trait]
impl LeaseStore for NodeStore {
    async fn now(&self) -> Result<Timestamp, StoreError> {
        self.call("now", self.shared.store.now()).await
    }

    async fn list_sessions(&self, closed_within: Duration) -> Result<Vec<SessionRecord>, StoreError> {
        self.call("list sessions", self.shared.store.list_sessions(closed_within)).await
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        // Nothing is decided by it, so that no fault in it can matter.
        self.shared.store.backlog().await
    }

    async fn open_session(&self, session: &NewSession) -> Result<Timestamp, StoreError> {
        self.call("open", self.shared.store.open_session(session)).await
    }

    async fn renew_session(&self, session: SessionId) -> Result<Renewed, StoreError> {
        let renew = async {
            let renewed = self.shared.store.renew_session(session).await?;
            if matches!(renewed, Renewed::Open(_)) {
                self.shared.witness().renewed(session);
            }
            Ok(renewed)
        };
        self.call("renew", renew).await
    }

    async fn close_session(&self, session: SessionId) -> Result<(), StoreError> {
        let close = async {
            self.shared.store.close_session(session).await?;
            self.shared.witness().closed(session);
            Ok(())
        };
        self.call("close", close).await
    }

    async fn close_expired(&self, steady: Duration) -> Result<Vec<SessionId>, StoreError> {
        let close = async {
            let closed = self.shared.store.close_expired(steady).await?;
            closed.iter().for_each(|session| self.shared.witness().closed(*session));
            Ok(closed)
        };
        self.call("close expired", close).await
    }

    async fn append(&self, append: Append) -> Result<Vec<Appended>, StoreError> {
        let session = append.fast.as_ref().map(|fast| fast.session);
        let append = async {
            let appended = self.shared.store.append(append).await?;
            self.shared.witness().appended(session, &appended, &self.shared.enabled());
            Ok(appended)
        };
        self.call("append", append).await
    }

    async fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>, StoreError> {
        self.call("enqueue", self.watched(self.shared.store.enqueue(jobs))).await
    }

    async fn lease_jobs(&self, ask: &JobAsk) -> Result<JobGrant, StoreError> {
        let lease = async {
            let grant = self.shared.store.lease_jobs(ask).await?;
            grant.jobs.iter().for_each(|leased| self.shared.witness().holds(ask.session, &leased.task));
            Ok(grant)
        };
        self.call("lease jobs", self.watched(lease)).await
    }

    async fn reclaim_overdue(&self, session: SessionId, limit: usize) -> Result<Vec<(LeasedJob, Holding)>, StoreError> {
        let reclaim = async {
            let jobs = self.shared.store.reclaim_overdue(session, limit).await?;
            // From sessions that are open: their time is over, and they are told.
            jobs.iter().for_each(|(leased, _)| self.shared.witness().holds(session, &leased.task));
            Ok(jobs)
        };
        self.call("reclaim overdue", self.watched(reclaim)).await
    }

    async fn lease(&self, ask: LeaseAsk) -> Result<LeaseGrant, StoreError> {
        let session = ask.session;
        let lease = async {
            let grant = self.shared.store.lease(ask).await?;
            grant.tasks.iter().for_each(|leased| self.shared.witness().holds(session, &leased.task));
            Ok(grant)
        };
        self.call("lease", lease).await
    }

    async fn settle(&self, batch: &[Settlement]) -> Result<WithMade<Vec<Settled>>, StoreError> {
        self.call("settle", self.watched(self.shared.store.settle(batch))).await
    }

    async fn reclaim(&self, session: SessionId, limit: usize) -> Result<Vec<Reclaimed>, StoreError> {
        let reclaim = async {
            let tasks = self.shared.store.reclaim(session, limit).await?;
            tasks.iter().for_each(|taken| self.shared.witness().reclaimed(session, taken));
            Ok(tasks)
        };
        self.call("reclaim", reclaim).await
    }
}
