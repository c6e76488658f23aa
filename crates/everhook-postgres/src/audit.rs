//! The audit log.

use everhook_core::audit::{AuditEntry, AuditFacts, AuditLink};
use everhook_core::id::EnvironmentId;
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_store::audit::AuditFilter;
use everhook_store::catalog::Slice;
use everhook_store::sql::shared::{AppendAudit, FindAuditEntry, FindAuditLast, ListAudit};
use everhook_store::statement;

use crate::error::Fault;
use crate::store::PostgresStore;

statement! {
    LockAudit = "lock_audit" { environment: EnvironmentId } -> Option<Timestamp>;
}

impl PostgresStore {
    pub(crate) async fn append_audit_once(&self, scope: Scope, facts: &AuditFacts) -> Result<(), Fault> {
        let environment = scope.environment;
        let (operation, phase) = (facts.operation, facts.phase);
        let tx = self.database.tx().await?;
        tx.begin(()).await?;
        let now = tx.run(LockAudit { environment }).await?.ok_or(Fault::Refused("the environment does not exist"))?;
        if tx.run(FindAuditEntry { environment, operation, phase }).await?.is_some() {
            return tx.commit().await;
        }
        let last = tx.run(FindAuditLast { environment }).await?;
        let link = last.map_or(AuditLink::START, |(seq, hash)| AuditLink { seq, hash });
        let AuditEntry { seq, at, facts, hash } = link.append(environment, now, facts.clone());
        let entry = AppendAudit {
            environment,
            seq,
            at,
            operation,
            phase,
            actor: &facts.actor,
            key: facts.key,
            principal: facts.principal.as_deref(),
            action: &facts.action,
            object: &facts.object,
            reason: facts.reason.as_deref(),
            status: facts.status,
            request: facts.request.as_ref(),
            before: facts.before.as_ref(),
            after: facts.after.as_ref(),
            hash: &hash,
        };
        tx.finish(entry).await.map(drop)
    }

    pub(crate) async fn list_audit_once(
        &self,
        scope: Scope,
        filter: &AuditFilter,
        slice: &Slice<i64>,
    ) -> Result<Vec<AuditEntry>, Fault> {
        let (above, below) = filter.bounds(slice);
        let list = ListAudit {
            environment: scope.environment,
            above,
            below,
            since: filter.since.unwrap_or_default(),
            until: filter.until.unwrap_or(Timestamp::NEVER),
            actor: filter.actor.as_deref(),
            action: filter.action.as_deref(),
            object: filter.object.as_deref(),
            limit: slice.limit,
            order: slice.order,
        };
        self.database.read(list).await
    }
}
