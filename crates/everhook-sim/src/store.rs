//! The database as one node sees it: slow, stalled, unavailable, or with lost replies.
//!
//! This is a layer around the in-memory store. The witness sees every call at the moment it takes effect.

use std::sync::Arc;
use std::time::Duration;

use everhook_core::id::SessionId;
use everhook_store::error::StoreError;
use everhook_store::lease::{Append, Appended, LeaseAsk, LeaseGrant, Reclaim, ReclaimAsk, Reclaimed, Renewed};
use everhook_store::query::{Answer, Query};
use everhook_store::store::{Layer, Layered, Op, Store};
use everhook_testkit::mem::MemStore;

use crate::gate::Gate;
use crate::world::Shared;

pub(crate) type NodeStore = Layered<MemStore, Line>;

/// The connection between one node and the database.
pub(crate) struct Line {
    shared: Arc<Shared>,
    gate: Arc<Gate>,
    node: usize,
}

/// The faults of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    NotDone,
    ReplyLost,
    /// The caller sees the same error as after a lost reply, but the operation did not happen.
    RequestLost,
}

pub(crate) fn connect(shared: &Arc<Shared>, gate: &Arc<Gate>, node: usize) -> NodeStore {
    let line = Line { shared: Arc::clone(shared), gate: Arc::clone(gate), node };
    Layered { store: Arc::clone(&shared.store), layer: line }
}

/// Returns whether the operation changes jobs or batches. The witness then inspects the new state.
const fn changes_jobs(op: Op) -> bool {
    matches!(op, Op::Enqueue | Op::Lease | Op::Settle | Op::Reclaim | Op::Steer | Op::SealBatch | Op::ResolveBatch)
}

impl Line {
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

impl Layer for Line {
    async fn around<T: Send>(
        &self,
        op: Op,
        call: impl Future<Output = Result<T, StoreError>> + Send,
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
        if done.is_ok() && changes_jobs(op) {
            self.shared.store.look(|tables| self.shared.witness().inspect(tables));
        }
        let outcome = if done.is_ok() { "ok" } else { "refused" };
        self.shared.trace.event(format_args!("node {} {op}: {outcome}", self.node));
        // If the node dies or is paused here, the operation has happened but the node does not know.
        self.travel().await;
        if fault == Some(Fault::ReplyLost) {
            self.shared.trace.event(format_args!("node {} {op}: reply lost", self.node));
            return Err(StoreError::InDoubt { op, source: "the simulated reply was lost".into() });
        }
        done
    }

    async fn renew_session(&self, store: &(impl Store + ?Sized), id: SessionId) -> Result<Renewed, StoreError> {
        let renew = async {
            let renewed = store.renew_session(id).await?;
            if matches!(renewed, Renewed::Open(_)) {
                self.shared.witness().renewed(id);
            }
            Ok(renewed)
        };
        self.around(Op::RenewSession, renew).await
    }

    async fn close_session(&self, store: &(impl Store + ?Sized), id: SessionId) -> Result<(), StoreError> {
        let close = async {
            store.close_session(id).await?;
            self.shared.witness().closed(id);
            Ok(())
        };
        self.around(Op::CloseSession, close).await
    }

    async fn close_expired(
        &self,
        store: &(impl Store + ?Sized),
        steady: Duration,
    ) -> Result<Vec<SessionId>, StoreError> {
        let close = async {
            let closed = store.close_expired(steady).await?;
            closed.iter().for_each(|session| self.shared.witness().closed(*session));
            Ok(closed)
        };
        self.around(Op::CloseExpired, close).await
    }

    async fn append(&self, store: &(impl Store + ?Sized), append: Append) -> Result<Vec<Appended>, StoreError> {
        let session = append.fast.as_ref().map(|fast| fast.session);
        let append = async {
            let appended = store.append(append).await?;
            self.shared.witness().appended(session, &appended, &self.shared.enabled());
            Ok(appended)
        };
        self.around(Op::Append, append).await
    }

    async fn lease(&self, store: &(impl Store + ?Sized), ask: LeaseAsk) -> Result<LeaseGrant, StoreError> {
        let session = ask.session;
        let lease = async {
            let grant = store.lease(ask).await?;
            grant.tasks.iter().for_each(|leased| self.shared.witness().holds(session, &leased.task));
            self.shared.store.look(|tables| self.shared.witness().probes(tables, &grant.tasks));
            Ok(grant)
        };
        self.around(Op::Lease, lease).await
    }

    async fn reclaim(&self, store: &(impl Store + ?Sized), ask: ReclaimAsk) -> Result<Vec<Reclaimed>, StoreError> {
        let reclaim = async {
            let tasks = store.reclaim(ask).await?;
            for taken in &tasks {
                match ask.what {
                    Reclaim::Orphaned => self.shared.witness().reclaimed(ask.session, taken),
                    // Overdue jobs may be taken from open sessions, because the job's timeout has passed.
                    Reclaim::Overdue => self.shared.witness().holds(ask.session, &taken.task),
                }
            }
            Ok(tasks)
        };
        self.around(Op::Reclaim, reclaim).await
    }

    async fn answer(&self, store: &(impl Store + ?Sized), query: Query) -> Result<Answer, StoreError> {
        match query {
            // The backlog only feeds metrics, so no faults are injected.
            Query::CountBacklog(_) => store.answer(query).await,
            query => self.around(Op::Read(query.name()), store.answer(query)).await,
        }
    }

    async fn maintain(&self, store: &(impl Store + ?Sized)) -> Result<(), StoreError> {
        // The in-memory store needs no maintenance.
        store.maintain().await
    }
}
