//! The audit log, on the writer's thread.

use everhook_core::audit::{AuditEntry, AuditFacts, AuditLink};
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_store::audit::AuditFilter;
use everhook_store::catalog::Slice;
use everhook_store::sql::shared::{AppendAudit, FindAuditEntry, FindAuditLast, ListAudit};

use crate::connection::Connection;
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
    let AuditEntry { seq, at, facts, hash } = link.append(environment, tx.now, facts);
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
    run(tx.conn, entry).map(drop)
}

pub(crate) fn list(
    conn: &Connection,
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
    run(conn, list)
}
