//! The audit log, on the writer's thread.

use everhook_core::audit::{AuditFacts, AuditLink};
use everhook_core::scope::Scope;
use everhook_store::sql::shared::{AppendAudit, FindAuditEntry, FindAuditLast};

use crate::error::Fault;
use crate::sql::run;
use crate::writer::Tx;

pub(crate) fn append(tx: &Tx<'_>, scope: Scope, facts: AuditFacts) -> Result<(), Fault> {
    let environment = scope.environment;
    let (operation, phase) = (facts.operation, facts.phase);
    if run(tx.conn, FindAuditEntry { environment, operation, phase })?.is_some() {
        return Ok(());
    }
    let last = run(tx.conn, FindAuditLast { environment })?;
    let link = last.map_or(AuditLink::START, |(seq, hash)| AuditLink { seq, hash });
    let entry = link.append(environment, tx.now, facts);
    let entry = AppendAudit::new(environment, &entry);
    run(tx.conn, entry).map(drop)
}
