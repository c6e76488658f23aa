//! Workers: sessions with the queues and kinds that they take jobs from.

use everhook_core::id::{EnvironmentId, SessionId};
use everhook_core::limits::SESSIONS_LISTED_MAX;
use everhook_store::worker::{Takes, WorkerRecord};
use rusqlite::{Row, params};

use crate::connection::Connection;
use crate::error::Fault;
use crate::rows::{Reader, names_to_json, to_json};
use crate::session;
use crate::sql::limit;
use crate::writer::Tx;

const PUT_WORKER: &str = include_str!("../queries/put_worker.sql");
const FIND_WORKER: &str = include_str!("../queries/find_worker.sql");
const LIST_WORKER: &str = include_str!("../queries/list_worker.sql");

pub(crate) fn replace(tx: &Tx<'_>, session: SessionId, takes: &Takes) -> Result<(), Fault> {
    let (queues, kinds) = (to_json(&takes.queues)?, names_to_json(&takes.kinds)?);
    tx.conn.prepare_cached(PUT_WORKER)?.execute(params![session.as_bytes(), takes.environment.0, queues, kinds])?;
    Ok(())
}

pub(crate) fn find(
    conn: &Connection,
    environment: EnvironmentId,
    id: SessionId,
) -> Result<Option<WorkerRecord>, Fault> {
    let mut find = conn.prepare_cached(FIND_WORKER)?;
    let mut rows = find.query(params![environment.0, id.as_bytes()])?;
    rows.next()?.map(read).transpose()
}

pub(crate) fn list(conn: &Connection, environment: EnvironmentId) -> Result<Vec<WorkerRecord>, Fault> {
    let mut list = conn.prepare_cached(LIST_WORKER)?;
    list.query_and_then(params![environment.0, limit(SESSIONS_LISTED_MAX)], read)?.collect()
}

fn read(row: &Row<'_>) -> Result<WorkerRecord, Fault> {
    let record = Reader::new(row, "worker");
    let takes = Takes {
        environment: record.environment(9)?,
        queues: record.json(10, "queues")?.unwrap_or_default(),
        kinds: record.json(11, "kinds")?.unwrap_or_default(),
    };
    Ok(WorkerRecord { session: session::read_session(row)?, takes })
}
