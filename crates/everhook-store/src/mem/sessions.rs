//! Sessions, and taking over what closed ones held.

use everhook_core::id::SessionId;
use everhook_core::task::Task;
use everhook_core::time::Timestamp;

use crate::lease::{NewSession, Renewed};
use crate::mem::tables::{SessionRow, Tables, TaskPlace};

/// Begins a tenure. An id that was used before stays what it is: a closed session does not come back.
pub(super) fn open(tables: &mut Tables, now: Timestamp, session: &NewSession) {
    let lease_until = now.plus(session.lease);
    let row = SessionRow { lease: session.lease, lease_until, closed_at: None };
    tables.sessions.entry(session.id).or_insert(row);
}

/// Extends a tenure, also one past its lease: expiry is eligibility, closing is the act.
pub(super) fn renew(tables: &mut Tables, now: Timestamp, session: SessionId) -> Renewed {
    match tables.sessions.get_mut(&session) {
        Some(row) if row.closed_at.is_none() => {
            row.lease_until = now.plus(row.lease);
            Renewed::Open(now)
        }
        _ => Renewed::Closed,
    }
}

/// Ends a tenure.
pub(super) fn close(tables: &mut Tables, now: Timestamp, session: SessionId) {
    if let Some(row) = tables.sessions.get_mut(&session) {
        row.closed_at.get_or_insert(now);
    }
}

/// Ends every tenure past its lease.
pub(super) fn close_expired(tables: &mut Tables, now: Timestamp) -> Vec<SessionId> {
    let mut closed = Vec::new();
    for (id, row) in &mut tables.sessions {
        // A lease that ends further off than it is long was written by a clock that ran ahead.
        let lease_until = row.lease_until.min(now.plus(row.lease));
        if row.closed_at.is_none() && lease_until < now {
            row.closed_at = Some(now);
            closed.push(*id);
        }
    }
    closed
}

/// Takes over tasks whose owner is not an open session.
pub(super) fn reclaim(tables: &mut Tables, session: SessionId, limit: usize) -> Vec<Task> {
    let orphaned = |place| matches!(place, TaskPlace::Leased(owner) if !tables.is_open(owner));
    let found: Vec<_> =
        tables.tasks.iter().filter(|(_, row)| orphaned(row.place)).map(|(key, _)| *key).take(limit).collect();
    let mut taken = Vec::new();
    for key in found {
        if let Some(row) = tables.tasks.get_mut(&key) {
            row.task.epoch += 1;
            row.place = TaskPlace::Leased(session);
            taken.push(row.task);
        }
    }
    taken
}
