//! Sessions, and reclaiming the tasks of closed ones. Called by the store, on the writer's thread.

use std::sync::Arc;
use std::time::Duration;

use everhook_core::id::{SessionId, TaskId};
use everhook_core::limits::{RECLAIM_BATCH_MAX, SESSIONS_LISTED_MAX};
use everhook_core::task::TaskKey;
use everhook_core::time::{Timestamp, micros};
use everhook_store::lease::{Holding, NewSession, Reclaim, ReclaimAsk, Reclaimed, Renewed, SessionRecord};
use rusqlite::{Row, params};

use crate::connection::Connection;
use crate::error::Fault;
use crate::lease::{FIND_JOB_RECORD, read_job};
use crate::rows::{self, Reader};
use crate::sql::{limit, read_at};
use crate::writer::Tx;

const OPEN_SESSION: &str = include_str!("../queries/open_session.sql");
const LIST_SESSION: &str = include_str!("../queries/list_session.sql");
const RENEW_SESSION: &str = include_str!("../queries/renew_session.sql");
const CLOSE_SESSION: &str = include_str!("../queries/close_session.sql");
const CLOSE_EXPIRED_SESSION: &str = include_str!("../queries/close_expired_session.sql");
const NEXT_EXPIRED_SESSION: &str = include_str!("../queries/next_expired_session.sql");
const NEXT_ORPHAN: &str = include_str!("../queries/next_orphan.sql");
const NEXT_OVERDUE: &str = include_str!("../queries/next_overdue.sql");
const RECLAIM_TASK: &str = include_str!("../queries/reclaim_task.sql");

pub(crate) fn open(tx: &Tx<'_>, session: &NewSession) -> Result<Timestamp, Fault> {
    tx.conn.prepare_cached(OPEN_SESSION)?.execute(params![
        session.id.as_bytes(),
        session.node,
        session.role.to_db(),
        session.version,
        micros(session.lease),
        tx.now.as_micros(),
        tx.now.plus(session.lease).as_micros(),
    ])?;
    Ok(tx.now)
}

pub(crate) fn renew(tx: &Tx<'_>, session: SessionId) -> Result<Renewed, Fault> {
    let mut renew = tx.conn.prepare_cached(RENEW_SESSION)?;
    let renewed = renew.execute(params![session.as_bytes(), tx.now.as_micros()])?;
    Ok(if renewed == 1 { Renewed::Open(tx.now) } else { Renewed::Closed })
}

pub(crate) fn close(tx: &Tx<'_>, session: SessionId) -> Result<(), Fault> {
    tx.conn.prepare_cached(CLOSE_SESSION)?.execute(params![session.as_bytes(), tx.now.as_micros()])?;
    Ok(())
}

pub(crate) fn close_expired(tx: &Tx<'_>, steady: Duration) -> Result<Vec<SessionId>, Fault> {
    let now = tx.now.as_micros();
    let mut next = tx.conn.prepare_cached(NEXT_EXPIRED_SESSION)?;
    let read = |row: &Row<'_>| Reader::new(row, "session").id(0, "id").map(SessionId);
    // Renewals run on the same thread, so none can come between the selection and the close.
    let expired = next.query_and_then([now, micros(steady)], read)?.collect::<Result<Vec<_>, Fault>>()?;
    let mut close = tx.conn.prepare_cached(CLOSE_EXPIRED_SESSION)?;
    let mut closed = Vec::new();
    for session in expired {
        if close.query_row(params![session.as_bytes(), now], |row| row.get(0))? {
            closed.push(session);
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

pub(crate) fn list(conn: &Connection, closed_after: Timestamp) -> Result<Vec<SessionRecord>, Fault> {
    let limit = i64::try_from(SESSIONS_LISTED_MAX).unwrap_or(i64::MAX);
    let mut list = conn.prepare_cached(LIST_SESSION)?;
    list.query_and_then(params![closed_after.as_micros(), limit], read_session)?.collect()
}

/// Decodes the columns of a session, with the number of its tasks.
pub(crate) fn read_session(row: &Row<'_>) -> Result<SessionRecord, Fault> {
    read_at(row, 0)
}

/// Gives tasks of lost holders to the asking session. The old holder may still be mid-request; the new epoch turns its
/// late settle into a no-op.
pub(crate) fn reclaim(tx: &Tx<'_>, ask: ReclaimAsk) -> Result<Vec<Reclaimed>, Fault> {
    let most = limit(ask.limit.min(RECLAIM_BATCH_MAX));
    let lost: Vec<Held> = match ask.what {
        Reclaim::Orphaned => {
            tx.conn.prepare_cached(NEXT_ORPHAN)?.query_and_then([most], held)?.collect::<Result<_, Fault>>()?
        }
        Reclaim::Overdue => {
            let mut overdue = tx.conn.prepare_cached(NEXT_OVERDUE)?;
            overdue.query_and_then([tx.now.as_micros(), most], held)?.collect::<Result<_, Fault>>()?
        }
    };
    let mut taken = hand_over(tx, ask.session, &lost)?;
    if ask.what == Reclaim::Overdue {
        let mut find = tx.conn.prepare_cached(FIND_JOB_RECORD)?;
        for reclaimed in &mut taken {
            reclaimed.job = read_job(&mut find, &reclaimed.task)?.map(Arc::new);
        }
    }
    Ok(taken)
}

/// Gives tasks to `session`, and returns those that still existed.
fn hand_over(tx: &Tx<'_>, session: SessionId, held: &[Held]) -> Result<Vec<Reclaimed>, Fault> {
    let mut reclaim = tx.conn.prepare_cached(RECLAIM_TASK)?;
    let mut taken = Vec::with_capacity(held.len());
    for (key, from) in held {
        let (environment, subject, id) = (key.environment.0, key.subject.as_bytes(), key.id.as_bytes());
        let params = params![environment, subject, id, session.as_bytes(), tx.now.as_micros()];
        let task = reclaim.query_and_then(params, |row| rows::task(row, 0))?.next();
        taken.extend(task.transpose()?.map(|task| Reclaimed { task, from: *from, job: None }));
    }
    Ok(taken)
}

/// A task and its holder.
type Held = (TaskKey, Holding);

fn held(row: &Row<'_>) -> Result<Held, Fault> {
    let record = Reader::new(row, "task");
    let id = TaskId(record.id(2, "id")?);
    let key = TaskKey { environment: record.environment(0)?, subject: record.id(1, "subject")?, id };
    let (session, since) = (SessionId(record.id(3, "owner")?), record.time(4, "leased_at")?);
    Ok((key, Holding { session, since }))
}
