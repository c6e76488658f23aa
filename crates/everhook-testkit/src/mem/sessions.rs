//! Sessions, and the closing of expired ones.

use std::time::Duration;

use everhook_core::id::SessionId;
use everhook_core::limits::SESSIONS_LISTED_MAX;
use everhook_core::time::Timestamp;
use everhook_store::lease::{NewSession, Renewed, SessionRecord};

use crate::mem::tables::{SessionRow, Tables, TaskPlace};

/// Opens a session. A used id keeps its state, so that a closed session is never opened again.
pub(super) fn open(tables: &mut Tables, now: Timestamp, session: &NewSession) {
    let NewSession { id, node, role, version, lease, takes } = session.clone();
    let row = SessionRow { node, role, version, lease, started_at: now, lease_until: now.plus(lease), closed_at: None };
    tables.sessions.entry(id).or_insert(row);
    if let Some(takes) = takes {
        tables.workers.insert(id, takes);
    }
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

/// Returns open and recently closed sessions, oldest first.
pub(super) fn list(tables: &Tables, now: Timestamp, closed_within: Duration) -> Vec<SessionRecord> {
    let lately = |row: &SessionRow| row.closed_at.is_none_or(|at| now.since(at) < closed_within);
    let held = |id| tables.tasks.values().filter(|task| task.place == TaskPlace::Leased(id)).count();
    let record = |(id, row): (&SessionId, &SessionRow)| SessionRecord {
        id: *id,
        node: row.node.clone(),
        role: row.role,
        version: row.version.clone(),
        lease: row.lease,
        started_at: row.started_at,
        renewed_at: row.lease_until.minus(row.lease),
        closed_at: row.closed_at,
        held: u32::try_from(held(*id)).unwrap_or(u32::MAX),
    };
    let mut sessions: Vec<_> = tables.sessions.iter().filter(|(_, row)| lately(row)).map(record).collect();
    sessions.sort_by_key(|session| (session.started_at, session.id));
    sessions.truncate(SESSIONS_LISTED_MAX);
    sessions
}
