//! Sessions, and taking over what closed ones left behind. Called by the store, on the writer's thread.

use everhook_core::id::{LaneId, SessionId, TaskId};
use everhook_core::limits::RECLAIM_BATCH_MAX;
use everhook_core::task::{Task, TaskKey, TaskKind, Trigger};
use everhook_core::time::{Timestamp, micros};
use everhook_store::lease::{NewSession, Renewed};
use rusqlite::params;

use crate::failure::Fault;
use crate::rows::Record;
use crate::writer::Tx;

const OPEN_SESSION: &str = include_str!("../queries/open_session.sql");
const RENEW_SESSION: &str = include_str!("../queries/renew_session.sql");
const CLOSE_SESSION: &str = include_str!("../queries/close_session.sql");
const CLOSE_EXPIRED_SESSION: &str = include_str!("../queries/close_expired_session.sql");
const NEXT_RECLAIM: &str = include_str!("../queries/next_reclaim.sql");
const RECLAIM_TASK: &str = include_str!("../queries/reclaim_task.sql");

pub(crate) fn open(tx: &Tx<'_>, session: &NewSession) -> Result<Timestamp, Fault> {
    tx.conn.prepare_cached(OPEN_SESSION)?.execute(params![
        session.id.as_bytes(),
        session.node,
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

pub(crate) fn close_expired(tx: &Tx<'_>) -> Result<Vec<SessionId>, Fault> {
    let mut close = tx.conn.prepare_cached(CLOSE_EXPIRED_SESSION)?;
    let mut rows = close.query([tx.now.as_micros()])?;
    let mut closed = Vec::new();
    while let Some(row) = rows.next()? {
        closed.push(SessionId(Record::new(row, "session").id(0, "id")?));
    }
    Ok(closed)
}

/// Gives tasks whose owner is not an open session to `session`, each with a new epoch.
pub(crate) fn reclaim(tx: &Tx<'_>, session: SessionId, limit: usize) -> Result<Vec<Task>, Fault> {
    let mut tasks = orphans(tx, limit.min(RECLAIM_BATCH_MAX))?;
    let mut reclaim = tx.conn.prepare_cached(RECLAIM_TASK)?;
    for task in &mut tasks {
        // The old holder may still be mid-request; a new epoch turns its late settle into nothing.
        task.epoch += 1;
        reclaim.execute(params![
            task.key.environment.0,
            task.key.subject.as_bytes(),
            task.key.id.as_bytes(),
            session.as_bytes(),
            task.epoch,
        ])?;
    }
    Ok(tasks)
}

fn orphans(tx: &Tx<'_>, limit: usize) -> Result<Vec<Task>, Fault> {
    let mut next = tx.conn.prepare_cached(NEXT_RECLAIM)?;
    let mut rows = next.query([i64::try_from(limit).unwrap_or(i64::MAX)])?;
    let mut tasks = Vec::new();
    while let Some(row) = rows.next()? {
        let record = Record::new(row, "task");
        let key = TaskKey {
            environment: record.environment(0)?,
            subject: record.id(1, "subject")?,
            id: TaskId(record.id(2, "id")?),
        };
        tasks.push(Task {
            key,
            lane: LaneId(record.id(3, "lane")?),
            kind: record.variant(4, "kind", TaskKind::from_db)?,
            trigger: record.variant(5, "trigger", Trigger::from_db)?,
            priority: record.get(6, "priority")?,
            due_at: record.time(7, "due_at")?,
            tries: record.get(8, "tries")?,
            crashes: record.get(9, "crashes")?,
            epoch: record.get(10, "epoch")?,
            cancel: record.get(11, "cancel")?,
        });
    }
    Ok(tasks)
}
