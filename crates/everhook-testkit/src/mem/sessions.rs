//! Sessions, and the closing of expired ones.

use std::time::Duration;

use everhook_core::id::SessionId;
use everhook_core::time::Timestamp;
use everhook_store::lease::{NewSession, Renewed};

use crate::mem::tables::{SessionRow, Tables};

/// Opens a session. A used id keeps its state, so that a closed session is never opened again.
pub(super) fn open(tables: &mut Tables, now: Timestamp, session: &NewSession) {
    let NewSession { id, node, role, version, lease, .. } = session.clone();
    let row = SessionRow { node, role, version, lease, started_at: now, lease_until: now.plus(lease), closed_at: None };
    tables.sessions.entry(id).or_insert(row);
}

/// Renews a session, even after its lease has expired. An expired session only *may* be closed; closing ends it.
pub(super) fn renew(tables: &mut Tables, now: Timestamp, session: SessionId) -> Renewed {
    match tables.sessions.get_mut(&session) {
        Some(row) if row.closed_at.is_none() => {
            row.lease_until = now.plus(row.lease);
            Renewed::Open(now)
        }
        _ => Renewed::Closed,
    }
}

pub(super) fn close(tables: &mut Tables, now: Timestamp, session: SessionId) {
    if let Some(row) = tables.sessions.get_mut(&session) {
        row.closed_at.get_or_insert(now);
    }
}

/// Closes all sessions past their lease, except those with a lease longer than `steady`.
pub(super) fn close_expired(tables: &mut Tables, now: Timestamp, steady: Duration) -> Vec<SessionId> {
    let mut closed = Vec::new();
    for (id, row) in &mut tables.sessions {
        // A lease that ends later than now plus its length was written by a clock that ran ahead.
        let lease_until = row.lease_until.min(now.plus(row.lease));
        if row.closed_at.is_none() && lease_until < now && row.lease <= steady {
            row.closed_at = Some(now);
            closed.push(*id);
        }
    }
    closed
}
