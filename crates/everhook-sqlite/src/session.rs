//! Sessions, and reclaiming the tasks of closed ones. Called by the store, on the writer's thread.

use std::sync::Arc;
use std::time::Duration;

use everhook_core::id::SessionId;
use everhook_core::task::{Task, TaskKey};
use everhook_core::time::{Timestamp, micros};
use everhook_store::lease::{Holding, NewSession, Reclaim, ReclaimAsk, Reclaimed, Renewed};
use everhook_store::sql::param::StoreClock;
use everhook_store::sql::shared::{CloseSession, OpenSession};
use everhook_store::statement;

use crate::connection::Connection;
use crate::error::Fault;
use crate::job::query::find_record;
use crate::sql::run;
use crate::writer::Tx;

statement! {
    RenewSession = "renew_session" { id: SessionId, now: Timestamp };
    NextExpiredSession = "next_expired_session" { now: Timestamp, steady: Duration } -> Vec<SessionId>;
    // Returns whether the session was closed.
    CloseExpiredSession = "close_expired_session" { id: SessionId, now: Timestamp } -> Option<bool>;
    NextOrphan = "next_orphan" { limit: usize } -> Vec<Held>;
    NextOverdue = "next_overdue" { now: Timestamp, limit: usize } -> Vec<Held>;
    ReclaimTask = "reclaim_task" { key: TaskKey, session: SessionId, now: Timestamp } -> Option<Task>;
}

/// A task and its holder.
type Held = (TaskKey, Holding);

pub(crate) fn open(tx: &Tx<'_>, session: &NewSession) -> Result<Timestamp, Fault> {
    run(tx.conn, OpenSession::new(session, StoreClock::At(tx.now)))?;
    Ok(tx.now)
}

pub(crate) fn renew(tx: &Tx<'_>, session: SessionId) -> Result<Renewed, Fault> {
    let renewed = run(tx.conn, RenewSession { id: session, now: tx.now })?;
    Ok(if renewed == 1 { Renewed::Open(tx.now) } else { Renewed::Closed })
}

pub(crate) fn close(tx: &Tx<'_>, session: SessionId) -> Result<(), Fault> {
    run(tx.conn, CloseSession { id: session, now: StoreClock::At(tx.now) }).map(drop)
}

pub(crate) fn close_expired(tx: &Tx<'_>, steady: Duration) -> Result<Vec<SessionId>, Fault> {
    let now = tx.now;
    let mut closed = Vec::new();
    // Renewals run on the same thread, so none can come between the selection and the close.
    for id in run(tx.conn, NextExpiredSession { now, steady })? {
        if run(tx.conn, CloseExpiredSession { id, now })? == Some(true) {
            closed.push(id);
        }
    }
    Ok(closed)
}

/// Moves every open lease and every deadline by a step of the clock, so that none expires because of it.
pub(crate) fn move_leases(conn: &Connection, step: Duration) -> Result<(), rusqlite::Error> {
    let step = micros(step);
    conn.execute("update session set lease_until = lease_until + ?1 where closed_at is null", [step])?;
    let deadlines = "update task set deadline = deadline + ?1 where state = 1 and deadline is not null";
    conn.execute(deadlines, [step]).map(drop)
}

/// Gives tasks of lost holders to the asking session. The old holder may still be mid-request; the new epoch turns its
/// late settle into a no-op.
pub(crate) fn reclaim(tx: &Tx<'_>, ask: ReclaimAsk) -> Result<Vec<Reclaimed>, Fault> {
    let limit = ask.limit;
    let lost = match ask.what {
        Reclaim::Orphaned => run(tx.conn, NextOrphan { limit })?,
        Reclaim::Overdue => run(tx.conn, NextOverdue { now: tx.now, limit })?,
    };
    let mut taken = hand_over(tx, ask.session, lost)?;
    if ask.what == Reclaim::Overdue {
        for reclaimed in &mut taken {
            reclaimed.job = find_record(tx.conn, &reclaimed.task.key)?.map(Arc::new);
        }
    }
    Ok(taken)
}

/// Gives tasks to `session`, and returns those that still existed.
fn hand_over(tx: &Tx<'_>, session: SessionId, lost: Vec<Held>) -> Result<Vec<Reclaimed>, Fault> {
    let mut taken = Vec::with_capacity(lost.len());
    for (key, from) in lost {
        let task = run(tx.conn, ReclaimTask { key, session, now: tx.now })?;
        taken.extend(task.map(|task| Reclaimed { task, from, job: None }));
    }
    Ok(taken)
}
