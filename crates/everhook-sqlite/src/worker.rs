//! Workers: sessions with the queues and kinds that they take jobs from.

use everhook_core::id::{EnvironmentId, SessionId};
use everhook_store::sql::rows::{json, names};
use everhook_store::sql::shared::PutWorker;
use everhook_store::statement;
use everhook_store::worker::{Takes, WorkerRecord};

use crate::connection::Connection;
use crate::error::Fault;
use crate::sql::run;
use crate::writer::Tx;

statement! {
    FindWorker = "find_worker" { environment: EnvironmentId, session: SessionId } -> Option<WorkerRecord>;
}

/// Writes the queues and kinds of a session; no kinds means all.
pub(crate) fn replace(tx: &Tx<'_>, session: SessionId, takes: &Takes) -> Result<(), Fault> {
    let Takes { environment, queues, kinds } = takes;
    let put = PutWorker { environment: *environment, session, queues: json(queues), kinds: names(kinds) };
    run(tx.conn, put).map(drop)
}

pub(crate) fn find(
    conn: &Connection,
    environment: EnvironmentId,
    id: SessionId,
) -> Result<Option<WorkerRecord>, Fault> {
    run(conn, FindWorker { environment, session: id })
}
