//! Workers: sessions that say which jobs they take.

use everhook_core::id::{EnvironmentId, SessionId};
use everhook_core::limits::SESSIONS_LISTED_MAX;
use everhook_core::time::micros;
use everhook_store::lease::NewSession;
use everhook_store::worker::{Takes, WorkerRecord};
use futures_util::future::try_join;
use tokio_postgres::Row;

use crate::catalog::count;
use crate::error::Fault;
use crate::rows::{self, Reader};
use crate::sql;
use crate::statement::Params;
use crate::store::PostgresStore;

/// How many columns of a worker are its session's.
const SESSION_COLUMNS: usize = 9;

impl PostgresStore {
    pub(crate) async fn open_worker_once(&self, session: &NewSession, takes: &Takes) -> Result<(), Fault> {
        let NewSession { id, node, role, version, lease, takes: _ } = session;
        let (id, role, lease_us) = (id.as_bytes().as_slice(), role.to_db(), micros(*lease));
        let (queues, kinds) = texts(takes);
        let transaction = self.database.transaction().await?;
        let (open_session, put_worker) =
            (transaction.prepare(&sql::OPEN_SESSION).await?, transaction.prepare(&sql::PUT_WORKER).await?);
        transaction.begin().await?;
        let opened: Params<'_> = &[&id, node, &role, version, &lease_us];
        let put: Params<'_> = &[&takes.environment.0, &id, &queues, &kinds];
        transaction
            .commit_with(try_join(transaction.execute(&open_session, opened), transaction.execute(&put_worker, put)))
            .await
            .map(drop)
    }

    pub(crate) async fn replace_takes_once(&self, session: SessionId, takes: &Takes) -> Result<(), Fault> {
        let (queues, kinds) = texts(takes);
        let params: Params<'_> = &[&takes.environment.0, &session.as_bytes().as_slice(), &queues, &kinds];
        self.database.change(&sql::PUT_WORKER, params).await.map(drop)
    }

    pub(crate) async fn find_worker_once(
        &self,
        environment: EnvironmentId,
        id: SessionId,
    ) -> Result<Option<WorkerRecord>, Fault> {
        let found = self.database.read(&sql::FIND_WORKER, &[&environment.0, &id.as_bytes().as_slice()]).await?;
        found.first().map(read).transpose()
    }

    pub(crate) async fn list_workers_once(&self, environment: EnvironmentId) -> Result<Vec<WorkerRecord>, Fault> {
        let found = self.database.read(&sql::LIST_WORKER, &[&environment.0, &count(SESSIONS_LISTED_MAX)]).await?;
        found.iter().map(read).collect()
    }
}

/// What the table keeps of queues and kinds; no kinds means all.
fn texts(takes: &Takes) -> (String, Option<String>) {
    (rows::json(&takes.queues), rows::names(&takes.kinds))
}

fn read(row: &Row) -> Result<WorkerRecord, Fault> {
    let session = rows::session(row)?;
    let mut row = Reader::from(row, "worker", SESSION_COLUMNS);
    let takes = Takes {
        environment: EnvironmentId(row.get("environment")?),
        queues: row.json("queues")?,
        kinds: row.json_opt("kinds")?.unwrap_or_default(),
    };
    Ok(WorkerRecord { session, takes })
}
