//! Workers: sessions with the queues and kinds that they take jobs from.

use everhook_core::id::{EnvironmentId, SessionId};
use everhook_store::lease::NewSession;
use everhook_store::sql::param::StoreClock;
use everhook_store::sql::rows::{json, names};
use everhook_store::sql::shared::{OpenSession, PutWorker};
use everhook_store::statement;
use everhook_store::worker::{Takes, WorkerRecord};

use crate::error::Fault;
use crate::store::PostgresStore;

statement! {
    FindWorker = "find_worker" { environment: EnvironmentId, session: SessionId } -> Option<WorkerRecord>;
}

impl PostgresStore {
    pub(crate) async fn open_worker_once(&self, session: &NewSession, takes: &Takes) -> Result<(), Fault> {
        let tx = self.database.tx().await?;
        tx.begin(()).await?;
        tx.finish((OpenSession::new(session, StoreClock::Database), put_worker(session.id, takes))).await.map(drop)
    }

    pub(crate) async fn replace_takes_once(&self, session: SessionId, takes: &Takes) -> Result<(), Fault> {
        self.database.write(put_worker(session, takes)).await.map(drop)
    }

    pub(crate) async fn find_worker_once(
        &self,
        environment: EnvironmentId,
        id: SessionId,
    ) -> Result<Option<WorkerRecord>, Fault> {
        self.database.read(FindWorker { environment, session: id }).await
    }
}

/// Writes the queues and kinds of a session; no kinds means all.
fn put_worker(session: SessionId, takes: &Takes) -> PutWorker {
    let Takes { environment, queues, kinds } = takes;
    PutWorker { environment: *environment, session, queues: json(queues), kinds: names(kinds) }
}
