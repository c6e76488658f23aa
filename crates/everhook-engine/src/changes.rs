//! The reads and writes that the API and other callers ask of a node.
//!
//! Callers hold the node, not the store. If a write makes tasks ready, the node counts them and wakes the dispatcher
//! that leases them. The calls of remote workers are in `remote`.

use std::time::Duration;

use everhook_core::application::Environment;
use everhook_core::audit::AuditFacts;
use everhook_core::batch::Resolution;
use everhook_core::delivery::DeliveryAction;
use everhook_core::id::{BatchId, Id, KeyId, OrgId};
use everhook_core::job::{JobAction, LeaseLost};
use everhook_core::lane::LaneState;
use everhook_core::name::Name;
use everhook_core::poll::PollMark;
use everhook_core::scope::{AppScope, Scope};
use everhook_core::time::Timestamp;
use everhook_core::token::{TokenEnd, TokenKeyChange};
use everhook_store::batch::{BatchRecord, NewBatch, Resolve, Resolved};
use everhook_store::catalog::{Created, KeyChange, NewKey, NewTokenKey, Replaced};
use everhook_store::dedup::DedupKey;
use everhook_store::error::StoreError;
use everhook_store::failure::FailureNote;
use everhook_store::history::{Expunge, Resend, Resent};
use everhook_store::job::{Enqueued, NewJob, ProgressReport};
use everhook_store::lease::{Appended, NewMessage};
use everhook_store::made::WithMade;
use everhook_store::poll::{PollAsk, Polled, SeekAsk};
use everhook_store::query::Read;
use everhook_store::request::{RequestClaim, RequestEnd};
use everhook_store::resource::{Change, ChangedResource, Create, Deleted, NewResource, Resource, ResourceKey};
use everhook_store::schedule::Run;
use everhook_store::steer::{Steer, Steered};
use everhook_store::store::{Op, Reads, of_kind};

use crate::intake::AcceptError;
use crate::node::Node;

/// Reads, and new work.
impl Node {
    pub async fn read<Q: Read>(&self, query: Q) -> Result<Q::Answer, StoreError> {
        self.store.read(query).await
    }

    /// Commits a message with all its deliveries; returns when they are durable.
    pub fn accept(&self, message: NewMessage) -> impl Future<Output = Result<Appended, AcceptError>> + Send {
        let begun = self.clock.elapsed();
        let submitted = self.admit(&message, 1, begun).map(|()| self.accepting.submit(message));
        async move {
            let appended = submitted?.await?;
            self.trace_accepted(begun, std::slice::from_ref(&appended));
            Ok(appended)
        }
    }

    /// Commits messages of one application in one transaction, all of them or none, and returns one result for each, in
    /// order.
    pub async fn accept_batch(&self, messages: Vec<NewMessage>) -> Result<Vec<Appended>, AcceptError> {
        let Some(first) = messages.first() else { return Ok(Vec::new()) };
        let begun = self.clock.elapsed();
        self.admit(first, messages.len(), begun)?;
        let appended = self.batching.submit(messages).await?;
        self.trace_accepted(begun, &appended);
        Ok(appended)
    }

    /// Checks the quotas of the environment and application of a request for new messages.
    fn admit(&self, first: &NewMessage, messages: usize, now: Duration) -> Result<(), AcceptError> {
        let admitted = self.quotas.admit(first.environment, first.message.application, messages, now);
        admitted.map_err(|refused| {
            self.metrics.over_quota(refused.kind);
            AcceptError::OverQuota(refused)
        })
    }

    /// Commits jobs in one transaction and returns one result for each; returns when they are durable.
    pub async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, AcceptError> {
        self.check_jobs(Op::Enqueue).map_err(AcceptError::Store)?;
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        self.enqueueing.submit(jobs).await
    }
}

/// Polled endpoints.
impl Node {
    /// Returns messages of a polled endpoint, and stores the position that a consumer has confirmed.
    pub async fn poll(&self, scope: AppScope, ask: PollAsk) -> Result<Polled, StoreError> {
        self.store.poll(scope, ask).await
    }

    /// Moves a consumer to a time. Returns none if the poller has too many consumers.
    pub async fn seek(&self, scope: AppScope, ask: SeekAsk) -> Result<Option<PollMark>, StoreError> {
        self.store.seek(scope, ask).await
    }
}

/// Requests with an idempotency key.
impl Node {
    /// Claims the key of a request for `holder`.
    pub async fn claim_request(&self, scope: Scope, key: DedupKey, holder: Id) -> Result<RequestClaim, StoreError> {
        self.store.claim_request(scope, key, holder).await
    }

    /// Stores the answer of a request, or releases its key if there is no answer to keep.
    pub async fn finish_request(&self, scope: Scope, end: RequestEnd) -> Result<(), StoreError> {
        self.store.finish_request(scope, end).await
    }
}

/// Resources and environments.
impl Node {
    pub async fn create<R: Create>(
        &self,
        scope: Scope,
        new: R,
        key: Option<DedupKey>,
    ) -> Result<Created<R::Record>, StoreError> {
        let created = self.counted(self.store.create_resource(scope, NewResource { key, ..new.into() }).await?);
        self.changed(scope);
        Ok(created.map(of_kind))
    }

    /// Replaces a resource if its revision is unchanged.
    pub async fn replace<R: Change>(&self, scope: Scope, changed: R) -> Result<Replaced<R::Record>, StoreError> {
        let changed: ChangedResource = changed.into();
        let is_queue = matches!(changed.resource, Resource::Queue(_));
        let is_quota = matches!(changed.resource, Resource::Quota(_));
        let is_policy = matches!(changed.resource, Resource::EnvironmentPolicy(_) | Resource::Application(_));
        let enables = match &changed.resource {
            Resource::Endpoint(endpoint) => endpoint.lane_state() == LaneState::Open,
            // A new rate limit may let deliveries go.
            _ => is_policy,
        };
        let replaced = self.counted(self.store.replace_resource(scope, changed).await?).map(of_kind);
        let is_done = matches!(replaced, Replaced::Done(_));
        self.changed(scope);
        if is_done && is_queue {
            self.queue_changed();
        }
        if is_done && is_policy && self.delivers {
            // Other nodes read the change at their next interval; so does this one, if the store does not respond.
            let _ = self.read_policies().await;
        }
        if is_done && is_quota && self.quota_interval().is_some() {
            let _ = self.read_quotas().await;
        }
        if is_done && enables {
            self.wakeups.hint_deliveries();
        }
        Ok(replaced)
    }

    pub async fn delete(&self, scope: Scope, key: ResourceKey) -> Result<Deleted, StoreError> {
        let is_queue = matches!(key, ResourceKey::Queue(_));
        let deleted = self.counted(self.store.delete_resource(scope, key).await?);
        self.changed(scope);
        if is_queue {
            self.queue_changed();
        }
        Ok(deleted)
    }

    /// Returns the environment with this public id; creates it with `name` if it does not exist.
    pub async fn ensure_environment(&self, org: OrgId, name: String) -> Result<Environment, StoreError> {
        self.store.ensure_environment(org, name).await
    }

    pub async fn create_key(&self, key: NewKey) -> Result<(), StoreError> {
        self.store.create_key(key).await
    }

    /// Changes an API key. Returns false if no active key has this id.
    pub async fn change_key(&self, id: KeyId, change: KeyChange) -> Result<bool, StoreError> {
        self.store.change_key(id, change).await
    }

    /// Appends an entry to the audit log of an environment.
    pub async fn append_audit(&self, scope: Scope, facts: AuditFacts) -> Result<(), StoreError> {
        self.store.append_audit(scope, facts).await
    }

    /// Stores a key that signs application tokens.
    pub async fn put_token_key(&self, key: NewTokenKey, change: TokenKeyChange) -> Result<(), StoreError> {
        self.store.put_token_key(key, change).await
    }

    /// Ends tokens of an application before they expire.
    pub async fn end_tokens(&self, scope: AppScope, ends: Vec<TokenEnd>) -> Result<(), StoreError> {
        self.store.end_tokens(scope, ends).await
    }

    /// Handles a changed queue: it may have a new target, or capacity for more jobs.
    fn queue_changed(&self) {
        self.push_queues.refresh();
        self.wakeups.hint_jobs();
    }
}

/// Operations of operators.
impl Node {
    pub async fn resend(&self, scope: Scope, resend: Resend) -> Result<Resent, StoreError> {
        let resent = self.store.resend(scope, resend).await?;
        self.changed(scope);
        if matches!(resent, Resent::Pending) {
            self.wakeups.hint_deliveries();
        }
        Ok(resent)
    }

    /// Changes tasks as an operator asks, in one transaction.
    pub async fn steer(&self, scope: Scope, steer: Steer) -> Result<Steered, StoreError> {
        let steered = self.counted(self.store.steer(scope, steer).await?);
        self.changed(scope);
        let is_due = |action: &DeliveryAction| matches!(action, DeliveryAction::RunNow | DeliveryAction::Redrive);
        if steered.redriven > 0 || steered.deliveries.iter().any(is_due) {
            self.wakeups.hint_deliveries();
        }
        if steered.plans.iter().flatten().any(|plan| is_ready_after(*plan)) {
            self.wakeups.hint_jobs();
        }
        Ok(steered)
    }

    /// Notes the state of a failure group. Returns the time of the note.
    pub async fn mark_failures(&self, scope: Scope, note: FailureNote) -> Result<Timestamp, StoreError> {
        self.store.mark_failures(scope, note).await
    }

    /// Removes the content of an object for good. Returns false if the object does not exist.
    pub async fn expunge(&self, scope: AppScope, what: Expunge) -> Result<bool, StoreError> {
        self.store.expunge(scope, what).await
    }

    /// Opens the next phase of a once-slot. Returns false if the slot does not exist.
    pub async fn reset_once(&self, scope: AppScope, key: Name) -> Result<bool, StoreError> {
        self.store.reset_once(scope, key).await
    }
}

/// Batches and schedules.
impl Node {
    /// Creates a batch without jobs.
    pub async fn create_batch(&self, scope: Scope, new: NewBatch) -> Result<Created<BatchRecord>, StoreError> {
        self.store.create_batch(scope, new).await
    }

    /// Closes a batch for further jobs. Returns none if the batch does not exist.
    pub async fn seal_batch(&self, scope: Scope, id: BatchId) -> Result<Option<BatchRecord>, StoreError> {
        Ok(self.counted(self.store.seal_batch(scope, id).await?))
    }

    /// Retries or skips dead jobs of a batch, all of them or none.
    pub async fn resolve_batch(&self, scope: Scope, resolve: Resolve) -> Result<Resolved, StoreError> {
        let retries = resolve.how == Resolution::Retried;
        let resolved = self.counted(self.store.resolve_batch(scope, resolve).await?);
        self.changed(scope);
        if retries && matches!(resolved, Resolved::Done(_)) {
            self.wakeups.hint_jobs();
        }
        Ok(resolved)
    }

    /// Starts a schedule now, whatever its state. Returns none if the schedule does not exist.
    pub async fn run_schedule(&self, scope: Scope, name: Name) -> Result<Option<Run>, StoreError> {
        let run = self.store.run_schedule(scope, name).await?;
        self.traffic.accepted(std::iter::repeat_n(scope.environment, run.made.messages));
        self.changed(scope);
        Ok(self.counted(run))
    }

    /// Tells the pages that show this environment.
    fn changed(&self, scope: Scope) {
        self.activity.changed(std::iter::once(scope.environment));
    }

    /// Counts the messages and jobs that a write created, and wakes the dispatchers that lease them.
    fn counted<T>(&self, answer: WithMade<T>) -> T {
        self.metrics.made(answer.made);
        self.wakeups.hint_made(answer.made);
        answer.answer
    }
}

/// Jobs that a worker holds.
impl Node {
    /// Stores the progress of a job, if `by` still holds its lease.
    pub async fn report_progress(
        &self,
        scope: Scope,
        report: ProgressReport,
    ) -> Result<Result<(), LeaseLost>, StoreError> {
        let reported = self.store.report_progress(scope, report).await?;
        self.changed(scope);
        Ok(reported)
    }
}

/// Returns whether the action may make the job ready to lease.
fn is_ready_after(plan: JobAction) -> bool {
    match plan {
        JobAction::RunNow | JobAction::Redrive | JobAction::Reschedule(_) => true,
        JobAction::Cancel | JobAction::Delete | JobAction::RequestCancel | JobAction::Nothing | JobAction::Refuse => {
            false
        }
    }
}
