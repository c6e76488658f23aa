//! The audit log as the stores read it.

use everhook_core::audit::AuditEntry;
use everhook_core::id::EnvironmentId;
use everhook_core::time::Timestamp;

use crate::catalog::{Order, Slice};
use crate::sql::shared::{AppendAudit, ListAudit};

/// The entries that a list shows. All conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    pub actor: Option<String>,
    pub action: Option<String>,
    /// The beginning of the object's path.
    pub object: Option<String>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
}

impl AuditFilter {
    /// Lists the entries of a slice.
    pub fn list(&self, environment: EnvironmentId, slice: &Slice<i64>) -> ListAudit<'_> {
        let (above, below) = match (slice.after, slice.order) {
            (Some(after), Order::Ascending) => (after, i64::MAX),
            (Some(after), Order::Descending) => (0, after),
            (None, _) => (0, i64::MAX),
        };
        ListAudit {
            environment,
            above,
            below,
            since: self.since.unwrap_or_default(),
            until: self.until.unwrap_or(Timestamp::NEVER),
            actor: self.actor.as_deref(),
            action: self.action.as_deref(),
            object: self.object.as_deref(),
            limit: slice.limit,
            order: slice.order,
        }
    }
}

impl<'a> AppendAudit<'a> {
    pub fn new(environment: EnvironmentId, entry: &'a AuditEntry) -> AppendAudit<'a> {
        let AuditEntry { seq, at, facts, hash } = entry;
        AppendAudit {
            environment,
            seq: *seq,
            at: *at,
            operation: facts.operation,
            phase: facts.phase,
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
            hash,
        }
    }
}
