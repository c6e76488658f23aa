//! The operations of the storage seam; each calls the module that defines it.
//!
//! Operations that neither the simulator nor the model test needs fail with `Refused`, and the conformance suite does
//! not run their cases on this store. Rows that only operators see are not kept: counts, runs of schedules, and the
//! queues of workers. Nothing is pruned.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use everhook_core::application::Environment;
use everhook_core::audit::AuditFacts;
use everhook_core::egress::EgressPause;
use everhook_core::id::{BatchId, EnvironmentId, Id, KeyId, OrgId, SessionId};
use everhook_core::job::LeaseLost;
use everhook_core::name::Name;
use everhook_core::poll::PollMark;
use everhook_core::scope::{AppScope, Scope};
use everhook_core::time::Timestamp;
use everhook_core::token::{TokenEnd, TokenKeyChange};
use everhook_core::traffic::TrafficRow;

use crate::mem::{LaneRow, MemStore, append, backlog, job, lease, queue, sessions, settle};
use everhook_store::answers;
use everhook_store::background::{Advance, Advanced};
use everhook_store::batch::{BatchRecord, NewBatch, Resolve, Resolved};
use everhook_store::catalog::{Created, KeyChange, NewKey, NewTokenKey, Replaced};
use everhook_store::dedup::DedupKey;
use everhook_store::delivery::BreakerRecord;
use everhook_store::error::StoreError;
use everhook_store::failure::FailureNote;
use everhook_store::history::{AttemptsOf, Expunge, Resend, Resent};
use everhook_store::job::{Enqueued, NewJob, ProgressReport};
use everhook_store::lease::{
    Append, Appended, LeaseAsk, LeaseGrant, NewSession, ReclaimAsk, Reclaimed, Renewed, Settled, Settlement,
};
use everhook_store::made::{Made, WithMade};
use everhook_store::piece::Piece;
use everhook_store::poll::{PollAsk, Polled, SeekAsk};
use everhook_store::query::{Answer, Query};
use everhook_store::queue::QueueCount;
use everhook_store::request::{RequestClaim, RequestEnd};
use everhook_store::resource::{ChangedResource, Deleted, NewResource, Resource, ResourceKey, ResourcePlace};
use everhook_store::retention::Prune;
use everhook_store::schedule::{FiredAll, Run};
use everhook_store::steer::{Steer, Steered};
use everhook_store::store::{Op, Store};
use everhook_store::worker::Takes;

#[async_trait]
impl Store for MemStore {
    async fn now(&self) -> Result<Timestamp, StoreError> {
        Ok((self.clock)())
    }

    async fn open_session(&self, new: NewSession) -> Result<Timestamp, StoreError> {
        let (mut tables, now) = self.lock();
        sessions::open(&mut tables, now, &new);
        Ok(now)
    }

    async fn renew_session(&self, id: SessionId) -> Result<Renewed, StoreError> {
        let (mut tables, now) = self.lock();
        Ok(sessions::renew(&mut tables, now, id))
    }

    async fn close_session(&self, id: SessionId) -> Result<(), StoreError> {
        let (mut tables, now) = self.lock();
        sessions::close(&mut tables, now, id);
        Ok(())
    }

    async fn close_expired(&self, steady: Duration) -> Result<Vec<SessionId>, StoreError> {
        let (mut tables, now) = self.lock();
        Ok(sessions::close_expired(&mut tables, now, steady))
    }

    async fn set_takes(&self, _: SessionId, _: Takes) -> Result<(), StoreError> {
        Ok(())
    }

    async fn append(&self, append: Append) -> Result<Vec<Appended>, StoreError> {
        let (mut tables, now) = self.lock();
        Ok(append::append(&mut tables, &self.ids, now, append))
    }

    async fn enqueue(&self, jobs: Arc<[NewJob]>) -> Result<Vec<Enqueued>, StoreError> {
        let (mut tables, now) = self.lock();
        Ok(jobs.iter().map(|new| job::enqueue(&mut tables, &self.ids, now, new)).collect())
    }

    async fn lease(&self, ask: LeaseAsk) -> Result<LeaseGrant, StoreError> {
        let (mut tables, now) = self.lock();
        Ok(lease::lease(&mut tables, now, &ask))
    }

    async fn settle(&self, ends: Arc<[Settlement]>) -> Result<WithMade<Vec<Settled>>, StoreError> {
        let (mut tables, now) = self.lock();
        Ok(settle::settle(&mut tables, &self.ids, now, &ends))
    }

    async fn reclaim(&self, ask: ReclaimAsk) -> Result<Vec<Reclaimed>, StoreError> {
        let (mut tables, now) = self.lock();
        Ok(lease::reclaim(&mut tables, now, ask))
    }

    async fn report_progress(&self, scope: Scope, report: ProgressReport) -> Result<Result<(), LeaseLost>, StoreError> {
        Ok(self.report_progress_now(scope.environment, report))
    }

    async fn resend(&self, scope: Scope, resend: Resend) -> Result<Resent, StoreError> {
        Ok(self.resend_now(scope.environment, &resend))
    }

    async fn advance(&self, _: Scope, _: Advance) -> Result<Result<Option<Advanced>, LeaseLost>, StoreError> {
        Err(refused(Op::Advance))
    }

    async fn steer(&self, scope: Scope, steer: Steer) -> Result<WithMade<Steered>, StoreError> {
        Ok(match steer {
            Steer::Redrive(redrive) => {
                let redriven = self.redrive_now(scope.environment, &redrive);
                Made::default().with(Steered { redriven, ..Steered::default() })
            }
            Steer::Deliveries { .. } | Steer::Correct { .. } => return Err(refused(Op::Steer)),
            Steer::Jobs { ids, command } => {
                let plans = self.change_jobs(scope.environment, &ids, command);
                plans.map(|plans| Steered { plans, ..Steered::default() })
            }
        })
    }

    async fn mark_failures(&self, _: Scope, _: FailureNote) -> Result<Timestamp, StoreError> {
        Err(refused(Op::MarkFailures))
    }

    async fn expunge(&self, scope: AppScope, what: Expunge) -> Result<bool, StoreError> {
        match what {
            Expunge::Message(id) => Ok(self.expunge_message_now(scope.environment, scope.application, id)),
            Expunge::Attempt { .. } => Err(refused(Op::Expunge)),
        }
    }

    async fn reset_once(&self, scope: AppScope, key: Name) -> Result<bool, StoreError> {
        Ok(self.reset_once_now(scope, &key))
    }

    async fn create_batch(&self, scope: Scope, new: NewBatch) -> Result<Created<BatchRecord>, StoreError> {
        Ok(self.create_batch_now(scope.environment, &new.batch, new.key.as_ref()))
    }

    async fn seal_batch(&self, scope: Scope, id: BatchId) -> Result<WithMade<Option<BatchRecord>>, StoreError> {
        Ok(self.seal_batch_now(scope.environment, id))
    }

    async fn resolve_batch(&self, scope: Scope, resolve: Resolve) -> Result<WithMade<Resolved>, StoreError> {
        self.resolve_batch_now(scope.environment, resolve.batch, &resolve.jobs, resolve.how)
    }

    async fn fire_due(&self, limit: usize) -> Result<FiredAll, StoreError> {
        Ok(self.fire_due_now(limit))
    }

    async fn run_schedule(&self, scope: Scope, name: Name) -> Result<WithMade<Option<Run>>, StoreError> {
        Ok(self.run_schedule_now(scope.environment, &name))
    }

    async fn create_resource(&self, scope: Scope, new: NewResource) -> Result<WithMade<Created<Resource>>, StoreError> {
        let created = self.create_resource_now(scope, new).ok_or(refused(Op::CreateResource))?;
        Ok(Made::default().with(created))
    }

    async fn replace_resource(
        &self,
        scope: Scope,
        changed: ChangedResource,
    ) -> Result<WithMade<Replaced<Resource>>, StoreError> {
        let replaced = self.replace_resource_now(scope, changed).ok_or(refused(Op::ReplaceResource))?;
        Ok(Made::default().with(replaced))
    }

    async fn delete_resource(&self, scope: Scope, key: ResourceKey) -> Result<WithMade<Deleted>, StoreError> {
        let ResourceKey::Endpoint(application, id) = key else { return Err(refused(Op::DeleteResource)) };
        let found = self.delete_endpoint(scope.environment, application, id);
        Ok(Made::default().with(found.into()))
    }

    async fn ensure_environment(&self, org: OrgId, name: String) -> Result<Environment, StoreError> {
        // There is no table of environments. The number is derived from the name, so that another name gets another
        // number.
        let id = EnvironmentId(name.bytes().fold(0, |number, byte| number * 31 % 1_000_003 + i32::from(byte)));
        Ok(Environment { id, org, name })
    }

    async fn create_key(&self, _: NewKey) -> Result<(), StoreError> {
        Err(refused(Op::CreateKey))
    }

    async fn change_key(&self, _: KeyId, _: KeyChange) -> Result<bool, StoreError> {
        Err(refused(Op::ChangeKey))
    }

    async fn append_audit(&self, _: Scope, _: AuditFacts) -> Result<(), StoreError> {
        Err(refused(Op::AppendAudit))
    }

    async fn set_egress_pause(&self, reason: Option<String>) -> Result<(), StoreError> {
        let (mut tables, now) = self.lock();
        let since = tables.egress_pause.as_ref().map_or(now, |pause| pause.since);
        tables.egress_pause = reason.map(|reason| EgressPause { since, reason });
        Ok(())
    }

    async fn put_token_key(&self, _: NewTokenKey, _: TokenKeyChange) -> Result<(), StoreError> {
        Err(refused(Op::PutTokenKey))
    }

    async fn end_tokens(&self, _: AppScope, _: Vec<TokenEnd>) -> Result<(), StoreError> {
        Err(refused(Op::EndTokens))
    }

    async fn poll(&self, _: AppScope, _: PollAsk) -> Result<Polled, StoreError> {
        Err(refused(Op::Poll))
    }

    async fn seek(&self, _: AppScope, _: SeekAsk) -> Result<Option<PollMark>, StoreError> {
        Err(refused(Op::Seek))
    }

    async fn claim_request(&self, _: Scope, _: DedupKey, _: Id) -> Result<RequestClaim, StoreError> {
        Err(refused(Op::ClaimRequest))
    }

    async fn finish_request(&self, _: Scope, _: RequestEnd) -> Result<(), StoreError> {
        Err(refused(Op::FinishRequest))
    }

    async fn prune(&self, _: Prune) -> Result<usize, StoreError> {
        Ok(0)
    }

    async fn add_counts(&self, _: Vec<QueueCount>) -> Result<(), StoreError> {
        Ok(())
    }

    async fn put_traffic(&self, _: Vec<TrafficRow>) -> Result<(), StoreError> {
        Ok(())
    }

    async fn maintain(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn endpoints_known(&self, scope: AppScope) -> Option<usize> {
        let known = self.lock().0.endpoint_sets.get(&(scope.environment, scope.application)).cloned();
        known.map(|set| set.endpoints.len())
    }

    async fn answer(&self, query: Query) -> Result<Answer, StoreError> {
        let op = Op::Read(query.name());
        Ok(answers!(query;
            FindEnvironmentPolicy(q) => self.find_resource(q.scope, &ResourcePlace::environment_policy()),
            FindApplication(q) => self.find_resource(q.scope, &ResourcePlace::application(&q.locator)),
            FindEndpoint(q) => {
                self.find_resource(q.scope.scope(), &ResourcePlace::endpoint(q.scope.application, &q.locator))
            },
            FindQueue(q) => queue::find(&self.lock().0, q.scope.environment, &q.name),
            EnvironmentPolicies(_) => self.list_environment_policies(),
            PausedGroups(_) => self.list_paused_groups(),
            FindBreaker(q) => {
                let tables = &self.lock().0;
                let lane = tables.lanes.get(&(q.scope.environment, q.endpoint.lane()));
                lane.map(|lane| {
                    let LaneRow { breaker, hold_until, hold_kind, .. } = *lane;
                    BreakerRecord { breaker, hold_until, hold_kind }
                })
            },
            FindEgressPause(_) => self.lock().0.egress_pause.clone(),
            Attempts(q) => {
                let AttemptsOf::Message(message, None) = q.filter.of else { return Err(refused(op)) };
                Piece { rows: self.attempts(q.scope.environment, message), next: None }
            },
            Destinations(q) => self.destinations(q.scope.environment, q.message),
            FindOnce(q) => self.find_once(q.scope, &q.key),
            OnceSlots(q) => self.list_once(q.scope, &q.slice),
            FindJob(q) => self.find_job(q.scope, q.id),
            Jobs(q) => {
                if q.filter.is_selective() || q.filter.state.is_some() || q.filter.batch.is_some() {
                    return Err(refused(op));
                }
                Piece { rows: self.list_jobs(q.scope.environment, &q.filter.slice), next: None }
            },
            JobAttempts(q) => self.list_job_attempts(q.scope, q.id, q.limit),
            HeldJobs(q) => self.list_held(q.session),
            PushQueues(_) => self.list_targets(),
            FindBatch(q) => self.lock().0.batches.get(&(q.scope.environment, q.id)).cloned(),
            CountBacklog(_) => {
                let (tables, now) = self.lock();
                backlog::count(&tables, now)
            },
            _ => return Err(refused(op)),
        ))
    }
}

/// The error for operations that neither the simulator nor the model test needs.
fn refused(op: Op) -> StoreError {
    StoreError::Refused { op, source: "the store in memory does not have this operation".into() }
}
