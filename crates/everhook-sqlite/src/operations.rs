//! The operations of the seam. Each calls one function on the writer's thread.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use everhook_core::application::Environment;
use everhook_core::audit::AuditFacts;
use everhook_core::batch::BatchChange;
use everhook_core::id::{BatchId, Id, KeyId, OrgId, SessionId};
use everhook_core::job::LeaseLost;
use everhook_core::name::Name;
use everhook_core::poll::PollMark;
use everhook_core::scope::{AppScope, Scope};
use everhook_core::time::Timestamp;
use everhook_core::token::{TokenEnd, TokenKeyChange};
use everhook_core::traffic::TrafficRow;
use everhook_store::background::{Advance, Advanced};
use everhook_store::backlog::PoolUse;
use everhook_store::batch::{BatchRecord, NewBatch, Resolve, Resolved};
use everhook_store::catalog::{Created, KeyChange, NewKey, NewTokenKey, Replaced};
use everhook_store::dedup::DedupKey;
use everhook_store::error::StoreError;
use everhook_store::failure::FailureNote;
use everhook_store::history::{Expunge, Resend, Resent};
use everhook_store::job::{Enqueued, NewJob, ProgressReport};
use everhook_store::lease::{
    Append, Appended, LeaseAsk, LeaseGrant, NewSession, ReclaimAsk, Reclaimed, Renewed, Settled, Settlement,
};
use everhook_store::made::{Made, WithMade};
use everhook_store::poll::{PollAsk, Polled, SeekAsk};
use everhook_store::query::{Answer, Query};
use everhook_store::queue::QueueCount;
use everhook_store::request::{RequestClaim, RequestEnd};
use everhook_store::resource::{ChangedResource, Deleted, NewResource, Resource, ResourceKey};
use everhook_store::retention::Prune;
use everhook_store::schedule::{FiredAll, Run};
use everhook_store::steer::{Steer, Steered};
use everhook_store::store::{Op, Store};
use everhook_store::worker::Takes;

use crate::SqliteStore;
use crate::deliveries::redrive;
use crate::error::Fault;
use crate::history::{self, attempt};
use crate::job::{self, steer};
use crate::schedule::fire;
use crate::writer::{Tx, WriteAsk, WriteClass};
use crate::{
    append, audit, background, batch, deliveries, egress, environment, failure, lease, once, poll, queue, reads,
    request, resource, session, settle, token, traffic, worker,
};

#[async_trait]
impl Store for SqliteStore {
    async fn now(&self) -> Result<Timestamp, StoreError> {
        Ok(self.clock.now())
    }

    async fn open_session(&self, new: NewSession) -> Result<Timestamp, StoreError> {
        self.change(Op::OpenSession, move |tx| open_session(tx, &new)).await
    }

    async fn renew_session(&self, id: SessionId) -> Result<Renewed, StoreError> {
        self.change(Op::RenewSession, move |tx| session::renew(tx, id)).await
    }

    async fn close_session(&self, id: SessionId) -> Result<(), StoreError> {
        self.change(Op::CloseSession, move |tx| session::close(tx, id)).await
    }

    async fn close_expired(&self, steady: Duration) -> Result<Vec<SessionId>, StoreError> {
        self.change(Op::CloseExpired, move |tx| session::close_expired(tx, steady)).await
    }

    async fn set_takes(&self, id: SessionId, takes: Takes) -> Result<(), StoreError> {
        self.change(Op::SetTakes, move |tx| worker::replace(tx, id, &takes)).await
    }

    async fn append(&self, append: Append) -> Result<Vec<Appended>, StoreError> {
        let ask = WriteAsk { op: Op::Append, class: WriteClass::Append, rows: append.messages.len() };
        self.write(ask, move |tx| append::append(tx, append)).await
    }

    async fn enqueue(&self, jobs: Arc<[NewJob]>) -> Result<Vec<Enqueued>, StoreError> {
        let ask = WriteAsk { op: Op::Enqueue, class: WriteClass::Append, rows: jobs.len() };
        self.write(ask, move |tx| job::enqueue::enqueue(tx, &jobs)).await
    }

    async fn lease(&self, ask: LeaseAsk) -> Result<LeaseGrant, StoreError> {
        let write = WriteAsk { op: Op::Lease, class: WriteClass::Change, rows: ask.limit };
        self.write(write, move |tx| lease::lease(tx, &ask)).await
    }

    async fn settle(&self, ends: Arc<[Settlement]>) -> Result<WithMade<Vec<Settled>>, StoreError> {
        let ask = WriteAsk { op: Op::Settle, class: WriteClass::Settle, rows: ends.len() };
        self.write(ask, move |tx| settle::settle(tx, &ends)).await
    }

    async fn reclaim(&self, ask: ReclaimAsk) -> Result<Vec<Reclaimed>, StoreError> {
        let rows = ask.limit;
        let class = WriteClass::Maintenance;
        self.write(WriteAsk { op: Op::Reclaim, class, rows }, move |tx| session::reclaim(tx, ask)).await
    }

    async fn report_progress(&self, scope: Scope, report: ProgressReport) -> Result<Result<(), LeaseLost>, StoreError> {
        let report = move |tx: &Tx<'_>| steer::report_progress(tx, scope.environment, &report);
        self.change(Op::ReportProgress, report).await
    }

    async fn advance(&self, scope: Scope, advance: Advance) -> Result<Result<Option<Advanced>, LeaseLost>, StoreError> {
        let ask = WriteAsk { op: Op::Advance, class: WriteClass::Maintenance, rows: advance.limit };
        self.write(ask, move |tx| background::advance(tx, scope.environment, &advance)).await
    }

    async fn resend(&self, scope: Scope, resend: Resend) -> Result<Resent, StoreError> {
        self.change(Op::Resend, move |tx| redrive::resend(tx, scope.environment, &resend)).await
    }

    async fn steer(&self, scope: Scope, steer: Steer) -> Result<WithMade<Steered>, StoreError> {
        let rows = match &steer {
            Steer::Redrive(redrive) => redrive.limit,
            Steer::Jobs { ids, .. } => ids.len(),
            Steer::Deliveries { .. } | Steer::Correct { .. } => 1,
        };
        let steer = move |tx: &Tx<'_>| match steer {
            Steer::Redrive(redrive) => {
                let redriven = redrive::redrive(tx, scope.environment, &redrive)?;
                Ok(Made::default().with(Steered { redriven, ..Steered::default() }))
            }
            Steer::Deliveries { message, endpoint, command } => {
                let deliveries = deliveries::steer::change(tx, scope.environment, message, endpoint, command)?;
                Ok(Made::default().with(Steered { deliveries, ..Steered::default() }))
            }
            Steer::Correct { dead, message } => {
                let corrected = deliveries::steer::correct(tx, scope.environment, dead, message)?;
                let made = Made { messages: usize::from(corrected.is_some()), ..Made::default() };
                Ok(made.with(Steered { corrected, ..Steered::default() }))
            }
            Steer::Jobs { ids, command } => {
                let plans = steer::change(tx, scope.environment, &ids, command)?;
                Ok(plans.map(|plans| Steered { plans, ..Steered::default() }))
            }
        };
        self.write(WriteAsk { op: Op::Steer, class: WriteClass::Change, rows }, steer).await
    }

    async fn mark_failures(&self, scope: Scope, note: FailureNote) -> Result<Timestamp, StoreError> {
        self.change(Op::MarkFailures, move |tx| failure::mark(tx, scope.environment, &note)).await
    }

    async fn expunge(&self, scope: AppScope, what: Expunge) -> Result<bool, StoreError> {
        let expunge = move |tx: &Tx<'_>| match what {
            Expunge::Message(id) => history::expunge(tx, scope, id),
            Expunge::Attempt { message, id } => attempt::expunge(tx, scope.environment, message, id),
        };
        self.change(Op::Expunge, expunge).await
    }

    async fn reset_once(&self, scope: AppScope, key: Name) -> Result<bool, StoreError> {
        self.change(Op::ResetOnce, move |tx| once::reset(tx, scope, &key)).await
    }

    async fn create_batch(&self, scope: Scope, new: NewBatch) -> Result<Created<BatchRecord>, StoreError> {
        let create = move |tx: &Tx<'_>| batch::create(tx, scope.environment, &new.batch, new.key.as_ref());
        self.change(Op::CreateBatch, create).await
    }

    async fn seal_batch(&self, scope: Scope, id: BatchId) -> Result<WithMade<Option<BatchRecord>>, StoreError> {
        let seal = move |tx: &Tx<'_>| {
            let made = batch::tell(tx, scope.environment, id, BatchChange::Sealed)?;
            Ok(made.with(batch::find(tx.conn, scope.environment, id)?))
        };
        self.change(Op::SealBatch, seal).await
    }

    async fn resolve_batch(&self, scope: Scope, resolve: Resolve) -> Result<WithMade<Resolved>, StoreError> {
        let ask = WriteAsk { op: Op::ResolveBatch, class: WriteClass::Change, rows: resolve.jobs.len() };
        self.write(ask, move |tx| batch::resolve(tx, scope.environment, resolve.batch, &resolve.jobs, resolve.how))
            .await
    }

    async fn fire_due(&self, limit: usize) -> Result<FiredAll, StoreError> {
        let ask = WriteAsk { op: Op::FireDue, class: WriteClass::Change, rows: limit };
        self.write(ask, move |tx| fire::fire_due(tx, limit)).await
    }

    async fn run_schedule(&self, scope: Scope, name: Name) -> Result<WithMade<Option<Run>>, StoreError> {
        self.change(Op::RunSchedule, move |tx| fire::run(tx, scope.environment, &name)).await
    }

    async fn create_resource(&self, scope: Scope, new: NewResource) -> Result<WithMade<Created<Resource>>, StoreError> {
        self.change(Op::CreateResource, move |tx| resource::create(tx, scope.environment, &new)).await
    }

    async fn replace_resource(
        &self,
        scope: Scope,
        changed: ChangedResource,
    ) -> Result<WithMade<Replaced<Resource>>, StoreError> {
        self.change(Op::ReplaceResource, move |tx| resource::replace(tx, scope.environment, &changed)).await
    }

    async fn delete_resource(&self, scope: Scope, key: ResourceKey) -> Result<WithMade<Deleted>, StoreError> {
        match key {
            ResourceKey::Queue(name) => {
                self.delete_queue(scope.environment, &name).await.map(|deleted| Made::default().with(deleted))
            }
            key => {
                self.change(Op::DeleteResource, move |tx| {
                    resource::delete(tx, scope.environment, &key).map(|deleted| deleted.map(Deleted::from))
                })
                .await
            }
        }
    }

    async fn ensure_environment(&self, org: OrgId, name: String) -> Result<Environment, StoreError> {
        self.change(Op::EnsureEnvironment, move |tx| environment::ensure(tx, org, &name)).await
    }

    async fn create_key(&self, key: NewKey) -> Result<(), StoreError> {
        self.change(Op::CreateKey, move |tx| environment::create_key(tx, &key)).await
    }

    async fn change_key(&self, id: KeyId, change: KeyChange) -> Result<bool, StoreError> {
        self.change(Op::ChangeKey, move |tx| environment::change_key(tx, id, change)).await
    }

    async fn append_audit(&self, scope: Scope, facts: AuditFacts) -> Result<(), StoreError> {
        self.change(Op::AppendAudit, move |tx| audit::append(tx, scope, facts)).await
    }

    async fn set_egress_pause(&self, reason: Option<String>) -> Result<(), StoreError> {
        self.change(Op::SetEgressPause, move |tx| egress::set(tx, reason.as_deref())).await
    }

    async fn put_token_key(&self, key: NewTokenKey, change: TokenKeyChange) -> Result<(), StoreError> {
        self.change(Op::PutTokenKey, move |tx| token::put_key(tx, &key, change)).await
    }

    async fn end_tokens(&self, scope: AppScope, ends: Vec<TokenEnd>) -> Result<(), StoreError> {
        let ask = WriteAsk { op: Op::EndTokens, class: WriteClass::Change, rows: ends.len() };
        self.write(ask, move |tx| token::end(tx, scope, &ends)).await
    }

    async fn poll(&self, scope: AppScope, ask: PollAsk) -> Result<Polled, StoreError> {
        self.change(Op::Poll, move |tx| poll::poll(tx, scope, &ask)).await
    }

    async fn seek(&self, scope: AppScope, ask: SeekAsk) -> Result<Option<PollMark>, StoreError> {
        self.change(Op::Seek, move |tx| poll::seek(tx, scope, &ask)).await
    }

    async fn claim_request(&self, scope: Scope, key: DedupKey, holder: Id) -> Result<RequestClaim, StoreError> {
        self.change(Op::ClaimRequest, move |tx| request::claim(tx, scope.environment, &key, holder)).await
    }

    async fn finish_request(&self, scope: Scope, end: RequestEnd) -> Result<(), StoreError> {
        let finish = move |tx: &Tx<'_>| request::finish(tx, scope.environment, &end);
        self.change(Op::FinishRequest, finish).await
    }

    async fn prune(&self, prune: Prune) -> Result<usize, StoreError> {
        self.prune_rows(prune.what, prune.before, prune.limit).await
    }

    async fn add_counts(&self, counts: Vec<QueueCount>) -> Result<(), StoreError> {
        self.change(Op::AddCounts, move |tx| queue::count_ended(tx, &counts)).await
    }

    async fn put_traffic(&self, rows: Vec<TrafficRow>) -> Result<(), StoreError> {
        let ask = WriteAsk { op: Op::PutTraffic, class: WriteClass::Maintenance, rows: rows.len() };
        self.write(ask, move |tx| traffic::put(tx, &rows)).await
    }

    async fn maintain(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn answer(&self, query: Query) -> Result<Answer, StoreError> {
        let (op, share, now) = (Op::Read(query.name()), query.share(), self.clock.now());
        self.read_shared(op, share, move |conn| reads::answer(conn, now, query)).await
    }

    fn pool_use(&self) -> Option<PoolUse> {
        self.readers.pool_use()
    }

    fn broken(&self) -> Option<String> {
        self.writer.refusal().map(|refusal| refusal.to_string())
    }

    fn ahead(&self) -> Duration {
        self.clock.ahead()
    }
}

fn open_session(tx: &Tx<'_>, new: &NewSession) -> Result<Timestamp, Fault> {
    let opened_at = session::open(tx, new)?;
    if let Some(takes) = &new.takes {
        worker::replace(tx, new.id, takes)?;
    }
    Ok(opened_at)
}
