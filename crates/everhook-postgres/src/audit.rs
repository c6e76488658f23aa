//! The audit log.

use everhook_core::audit::{AuditFacts, AuditLink};
use everhook_core::id::EnvironmentId;
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_store::sql::shared::{AppendAudit, FindAuditEntry, FindAuditLast};
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
        let entry = link.append(environment, now, facts.clone());
        let entry = AppendAudit::new(environment, &entry);
        tx.finish(entry).await.map(drop)
    }
}
