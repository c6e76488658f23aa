//! A store that loses or refuses replies: a layer around the in-memory store.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use everhook_core::id::SessionId;
use everhook_store::error::StoreError;
use everhook_store::hints::Hints;
use everhook_store::lease::{Renewed, Settled, Settlement};
use everhook_store::made::{Made, WithMade};
use everhook_store::store::{Layer, Layered, Op, Store};
use everhook_testkit::mem::MemStore;

use crate::engine::fixture::LEASE;

/// The fault of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The operation is not executed.
    NotDone,
    /// The operation is executed, and the reply is lost.
    ReplyLost,
    /// The operation is executed, and the reply comes after two leases.
    Late,
    /// The store refuses the operation for good.
    Refused,
    /// The call never returns.
    Hangs,
}

/// A call that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// Any call of the operation; for settle, a call with one settlement.
    Of(Op),
    /// A call of settle with several settlements.
    SettleGroup,
}

impl From<Op> for Call {
    fn from(op: Op) -> Call {
        Call::Of(op)
    }
}

/// The planned faults of each call, in order.
#[derive(Default)]
pub(crate) struct Faults {
    faults: Mutex<VecDeque<(Call, Fault)>>,
    calls: Mutex<Vec<Call>>,
    hints: OnceLock<Arc<dyn Hints>>,
    fail_over: AtomicBool,
    /// True after a lost settlement, until a renewal reports the failover.
    moved: AtomicBool,
}

pub(crate) type Faulty = Layered<MemStore, Faults>;

pub(crate) fn faulty(store: MemStore) -> Faulty {
    Layered { store: Arc::new(store), layer: Faults::default() }
}

impl Faults {
    /// Connects the nodes by a channel for hints.
    pub(crate) fn connect(&self, hints: Arc<dyn Hints>) {
        let _ = self.hints.set(hints);
    }

    /// Confirms the next settlement and then loses it, as in a failover to another server.
    pub(crate) fn fail_over(&self) {
        self.fail_over.store(true, Ordering::SeqCst);
    }

    /// Makes the next such call fail.
    pub(crate) fn plan(&self, call: impl Into<Call>, fault: Fault) {
        self.faults.lock().unwrap().push_back((call.into(), fault));
    }

    /// The number of such calls so far.
    pub(crate) fn calls(&self, call: impl Into<Call>) -> usize {
        let call = call.into();
        self.calls.lock().unwrap().iter().filter(|made| **made == call).count()
    }

    fn next_fault(&self, call: Call) -> Option<Fault> {
        self.calls.lock().unwrap().push(call);
        let mut faults = self.faults.lock().unwrap();
        let at = faults.iter().position(|(planned, _)| *planned == call)?;
        faults.remove(at).map(|(_, fault)| fault)
    }

    async fn run<T>(
        &self,
        (made, op): (Call, Op),
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match self.next_fault(made) {
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

impl Layer for Faults {
    async fn around<T: Send>(
        &self,
        op: Op,
        call: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        self.run((Call::Of(op), op), call).await
    }

    async fn renew_session(&self, store: &(impl Store + ?Sized), id: SessionId) -> Result<Renewed, StoreError> {
        let renewed = self.around(Op::RenewSession, store.renew_session(id)).await?;
        Ok(match renewed {
            Renewed::Open(at) if self.moved.swap(false, Ordering::SeqCst) => Renewed::Moved(at),
            other => other,
        })
    }

    async fn settle(
        &self,
        store: &(impl Store + ?Sized),
        ends: Arc<[Settlement]>,
    ) -> Result<WithMade<Vec<Settled>>, StoreError> {
        if self.fail_over.swap(false, Ordering::SeqCst) {
            self.moved.store(true, Ordering::SeqCst);
            return Ok(Made::default().with(vec![Settled::Done; ends.len()]));
        }
        let call = if ends.len() > 1 { Call::SettleGroup } else { Call::Of(Op::Settle) };
        self.run((call, Op::Settle), store.settle(ends)).await
    }

    fn hints(&self, _: &(impl Store + ?Sized)) -> Option<Arc<dyn Hints>> {
        self.hints.get().cloned()
    }
}
