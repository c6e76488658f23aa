//! The operations of the seam. Each is retried until it succeeds or fails for good.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use everhook_core::application::Environment;
use everhook_core::audit::AuditFacts;
use everhook_core::id::{BatchId, Id, KeyId, OrgId, SessionId};
use everhook_core::job::LeaseLost;
use everhook_core::lane::Feed;
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
use everhook_store::hints::Hints;
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
use tokio::time::Instant;

use crate::lease_sizing::payload_bytes;
use crate::partition::Week;
use crate::store::PostgresStore;

#[async_trait]
impl Store for PostgresStore {
    async fn now(&self) -> Result<Timestamp, StoreError> {
        self.run_plain(Op::Now, || self.read_clock()).await
    }

    async fn open_session(&self, new: NewSession) -> Result<Timestamp, StoreError> {
        let open = || async {
            let Some(takes) = &new.takes else { return self.open_session_once(&new).await };
            self.open_worker_once(&new, takes).await?;
            self.read_clock().await
        };
        self.run_plain(Op::OpenSession, open).await
    }

    async fn renew_session(&self, id: SessionId) -> Result<Renewed, StoreError> {
        self.run_plain(Op::RenewSession, || self.renewals.renew(id)).await
    }

    async fn close_session(&self, id: SessionId) -> Result<(), StoreError> {
        self.run_plain(Op::CloseSession, || self.close_session_once(id)).await
    }

    async fn close_expired(&self, steady: Duration) -> Result<Vec<SessionId>, StoreError> {
        let decided = instant();
        self.run_plain(Op::CloseExpired, || self.close_expired_once(decided, steady)).await
    }

    async fn set_takes(&self, id: SessionId, takes: Takes) -> Result<(), StoreError> {
        self.run_plain(Op::SetTakes, || self.replace_takes_once(id, &takes)).await
    }

    async fn append(&self, append: Append) -> Result<Vec<Appended>, StoreError> {
        let append = &append;
        let weeks = || append.messages.iter().map(|new| Week::of(&new.message.id.0)).collect();
        self.run(Op::Append, weeks, || self.append_once(append)).await
    }

    async fn enqueue(&self, jobs: Arc<[NewJob]>) -> Result<Vec<Enqueued>, StoreError> {
        let weeks = || jobs.iter().map(|new| Week::of(&new.job.id.0)).collect();
        self.run(Op::Enqueue, weeks, || self.enqueue_once(&jobs)).await
    }

    async fn lease(&self, ask: LeaseAsk) -> Result<LeaseGrant, StoreError> {
        let is_of_deliveries = ask.feeds.iter().any(|asked| asked.feed == Feed::Deliveries);
        let sizing = if is_of_deliveries { &self.sizing.deliveries } else { &self.sizing.jobs };
        let ask = &LeaseAsk { limit: sizing.limit(ask.limit), ..ask };
        let weigh = |grant: &LeaseGrant| (grant.tasks.len(), payload_bytes(&grant.tasks));
        let lease = || async { sizing.learn(ask.limit, Box::pin(self.lease_once(ask)).await, weigh) };
        self.run_plain(Op::Lease, lease).await
    }

    async fn settle(&self, ends: Arc<[Settlement]>) -> Result<WithMade<Vec<Settled>>, StoreError> {
        let weeks = || ends.iter().map(|settlement| Week::of(&settlement.key.subject)).collect();
        self.run(Op::Settle, weeks, || self.settle_once(&ends)).await
    }

    async fn reclaim(&self, ask: ReclaimAsk) -> Result<Vec<Reclaimed>, StoreError> {
        self.run_plain(Op::Reclaim, || self.reclaim_once(ask)).await
    }

    async fn report_progress(&self, scope: Scope, report: ProgressReport) -> Result<Result<(), LeaseLost>, StoreError> {
        let report = || self.report_progress_once(scope.environment, &report);
        self.run_plain(Op::ReportProgress, report).await
    }

    async fn advance(&self, scope: Scope, advance: Advance) -> Result<Result<Option<Advanced>, LeaseLost>, StoreError> {
        self.run_plain(Op::Advance, || self.advance_once(scope.environment, &advance)).await
    }

    async fn resend(&self, scope: Scope, resend: Resend) -> Result<Resent, StoreError> {
        self.run_plain(Op::Resend, || self.resend_once(scope.environment, &resend)).await
    }

    async fn steer(&self, scope: Scope, steer: Steer) -> Result<WithMade<Steered>, StoreError> {
        let environment = scope.environment;
        match steer {
            Steer::Redrive(redrive) => {
                let redriven = self.run_plain(Op::Steer, || self.redrive_once(environment, &redrive)).await?;
                Ok(Made::default().with(Steered { redriven, ..Steered::default() }))
            }
            Steer::Deliveries { message, endpoint, command } => {
                let weeks = || [Week::of(&message.0)].into_iter().collect();
                let change = || self.steer_deliveries_once(environment, message, endpoint, command);
                let deliveries = self.run(Op::Steer, weeks, change).await?;
                Ok(Made::default().with(Steered { deliveries, ..Steered::default() }))
            }
            Steer::Correct { dead, message } => {
                let weeks = || [Week::of(&dead.message.0), Week::of(&message.id.0)].into_iter().collect();
                let corrected = self.run(Op::Steer, weeks, || self.correct_once(environment, dead, &message)).await?;
                let made = Made { messages: usize::from(corrected.is_some()), ..Made::default() };
                Ok(made.with(Steered { corrected, ..Steered::default() }))
            }
            Steer::Jobs { ids, command } => {
                let weeks = || ids.iter().map(|id| Week::of(&id.0)).collect();
                let plans = self.run(Op::Steer, weeks, || self.change_jobs_once(environment, &ids, command)).await?;
                Ok(plans.map(|plans| Steered { plans, ..Steered::default() }))
            }
        }
    }

    async fn mark_failures(&self, scope: Scope, note: FailureNote) -> Result<Timestamp, StoreError> {
        self.run_plain(Op::MarkFailures, || self.mark_failures_once(scope.environment, &note)).await
    }

    async fn expunge(&self, scope: AppScope, what: Expunge) -> Result<bool, StoreError> {
        let expunge = || async {
            match what {
                Expunge::Message(id) => self.expunge_message_once(scope, id).await,
                Expunge::Attempt { message, id } => self.expunge_attempt_once(scope.environment, message, id).await,
            }
        };
        self.run_plain(Op::Expunge, expunge).await
    }

    async fn reset_once(&self, scope: AppScope, key: Name) -> Result<bool, StoreError> {
        let key = (scope.environment, scope.application, key);
        self.run_plain(Op::ResetOnce, || self.reset_slot(&key)).await
    }

    async fn create_batch(&self, scope: Scope, new: NewBatch) -> Result<Created<BatchRecord>, StoreError> {
        let create = || self.create_batch_once(scope.environment, &new.batch, new.key.as_ref());
        self.run_plain(Op::CreateBatch, create).await
    }

    async fn seal_batch(&self, scope: Scope, id: BatchId) -> Result<WithMade<Option<BatchRecord>>, StoreError> {
        self.run_plain(Op::SealBatch, || self.seal_batch_once(scope.environment, id)).await
    }

    async fn resolve_batch(&self, scope: Scope, resolve: Resolve) -> Result<WithMade<Resolved>, StoreError> {
        let Resolve { batch, jobs, how } = resolve;
        let weeks = || jobs.iter().map(|id| Week::of(&id.0)).collect();
        self.run(Op::ResolveBatch, weeks, || self.resolve_batch_once(scope.environment, batch, &jobs, how)).await
    }

    async fn fire_due(&self, limit: usize) -> Result<FiredAll, StoreError> {
        self.run_plain(Op::FireDue, || self.fire_due_once(limit)).await
    }

    async fn run_schedule(&self, scope: Scope, name: Name) -> Result<WithMade<Option<Run>>, StoreError> {
        self.run_plain(Op::RunSchedule, || self.run_schedule_once(scope.environment, &name)).await
    }

    async fn create_resource(&self, scope: Scope, new: NewResource) -> Result<WithMade<Created<Resource>>, StoreError> {
        self.run_plain(Op::CreateResource, || self.create_resource_once(scope.environment, &new)).await
    }

    async fn replace_resource(
        &self,
        scope: Scope,
        changed: ChangedResource,
    ) -> Result<WithMade<Replaced<Resource>>, StoreError> {
        self.run_plain(Op::ReplaceResource, || self.replace_resource_once(scope.environment, &changed)).await
    }

    async fn delete_resource(&self, scope: Scope, key: ResourceKey) -> Result<WithMade<Deleted>, StoreError> {
        self.run_plain(Op::DeleteResource, || self.delete_resource_once(scope.environment, &key)).await
    }

    async fn ensure_environment(&self, org: OrgId, name: String) -> Result<Environment, StoreError> {
        self.run_plain(Op::EnsureEnvironment, || self.ensure_environment_once(org, &name)).await
    }

    async fn create_key(&self, key: NewKey) -> Result<(), StoreError> {
        self.run_plain(Op::CreateKey, || self.create_key_once(&key)).await
    }

    async fn change_key(&self, id: KeyId, change: KeyChange) -> Result<bool, StoreError> {
        self.run_plain(Op::ChangeKey, || self.change_key_once(id, change)).await
    }

    async fn append_audit(&self, scope: Scope, facts: AuditFacts) -> Result<(), StoreError> {
        self.run_plain(Op::AppendAudit, || self.append_audit_once(scope, &facts)).await
    }

    async fn set_egress_pause(&self, reason: Option<String>) -> Result<(), StoreError> {
        self.run_plain(Op::SetEgressPause, || self.set_egress_pause_once(reason.as_deref())).await
    }

    async fn put_token_key(&self, key: NewTokenKey, change: TokenKeyChange) -> Result<(), StoreError> {
        self.run_plain(Op::PutTokenKey, || self.put_token_key_once(&key, change)).await
    }

    async fn end_tokens(&self, scope: AppScope, ends: Vec<TokenEnd>) -> Result<(), StoreError> {
        self.run_plain(Op::EndTokens, || self.end_tokens_once(scope, &ends)).await
    }

    async fn poll(&self, scope: AppScope, ask: PollAsk) -> Result<Polled, StoreError> {
        self.run_plain(Op::Poll, || self.poll_once(scope, &ask)).await
    }

    async fn seek(&self, scope: AppScope, ask: SeekAsk) -> Result<Option<PollMark>, StoreError> {
        self.run_plain(Op::Seek, || self.seek_once(scope, &ask)).await
    }

    async fn claim_request(&self, scope: Scope, key: DedupKey, holder: Id) -> Result<RequestClaim, StoreError> {
        self.run_plain(Op::ClaimRequest, || self.claim_request_once(scope.environment, &key, holder)).await
    }

    async fn finish_request(&self, scope: Scope, end: RequestEnd) -> Result<(), StoreError> {
        let finish = || self.finish_request_once(scope.environment, &end);
        self.run_plain(Op::FinishRequest, finish).await
    }

    async fn prune(&self, prune: Prune) -> Result<usize, StoreError> {
        self.run_plain(Op::Prune, || self.prune_once(prune.what, prune.before, prune.limit)).await
    }

    async fn add_counts(&self, counts: Vec<QueueCount>) -> Result<(), StoreError> {
        self.run_plain(Op::AddCounts, || self.count_ended_once(&counts)).await
    }

    async fn put_traffic(&self, rows: Vec<TrafficRow>) -> Result<(), StoreError> {
        self.run_plain(Op::PutTraffic, || self.put_traffic_once(&rows)).await
    }

    async fn maintain(&self) -> Result<(), StoreError> {
        self.ensure_partitions().await
    }

    async fn answer(&self, query: Query) -> Result<Answer, StoreError> {
        self.run_read(&query).await
    }

    fn pool_use(&self) -> Option<PoolUse> {
        Some(self.connections())
    }

    fn endpoints_known(&self, scope: AppScope) -> Option<usize> {
        self.cache.count(scope)
    }

    fn hints(&self) -> Option<Arc<dyn Hints>> {
        self.wakeups.clone().map(|wakeups| wakeups as Arc<dyn Hints>)
    }
}

#[expect(clippy::disallowed_methods, reason = "measures durations of this node, independent of the database's clock")]
pub(crate) fn instant() -> Instant {
    Instant::now()
}
