//! Sessions: opening, closing, and reclaiming the tasks of closed ones. Renewals are in `renew`.

use std::sync::Arc;
use std::time::Duration;

use everhook_core::id::SessionId;
use everhook_core::job::Job;
use everhook_core::task::Task;
use everhook_core::time::Timestamp;
use everhook_store::lease::{Holding, NewSession, Reclaim, ReclaimAsk, Reclaimed};
use everhook_store::sql::param::StoreClock;
use everhook_store::sql::shared::{CloseSession, OpenSession};
use everhook_store::statement;
use tokio::time::Instant;

use crate::error::Fault;
use crate::store::PostgresStore;

statement! {
    // Returns the store's time; none if the session is closed.
    pub(crate) RenewSession = "renew_session" { id: SessionId } -> Option<Timestamp>;
    NextExpiredSession = "next_expired_session" { steady: Duration } -> Vec<(SessionId, Duration)>;
    // Returns sessions, and whether each was closed.
    CloseExpiredSession = "close_expired_session" { ids: Vec<SessionId> } -> Vec<(SessionId, bool)>;
    ReclaimOrphaned = "reclaim_orphaned" { owner: SessionId, limit: usize } -> Vec<(Task, Holding)>;
    ReclaimOverdue = "reclaim_overdue" { owner: SessionId, limit: usize } -> Vec<(Task, Holding, Option<Job>)>;
}

/// A database that answers within this time is not stalled, however short the leases are.
const STALL_MIN: Duration = Duration::from_millis(500);

impl PostgresStore {
    pub(crate) async fn open_session_once(&self, session: &NewSession) -> Result<Timestamp, Fault> {
        self.database.write(OpenSession::new(session, StoreClock::Database)).await?;
        self.database.now().await
    }

    pub(crate) async fn close_session_once(&self, session: SessionId) -> Result<(), Fault> {
        self.database.write(CloseSession { id: session, now: StoreClock::Database }).await.map(drop)
    }

    /// Closes sessions past their lease, if the lease is no longer than `steady`.
    ///
    /// Closes nothing if the database took too long to answer since the call was `decided`. After a stall every session
    /// is late, and none of their holders is dead.
    pub(crate) async fn close_expired_once(&self, decided: Instant, steady: Duration) -> Result<Vec<SessionId>, Fault> {
        let tx = self.database.tx().await?;
        tx.begin(()).await?;
        // The sessions are locked first. A renewal now waits, and fails if the session is closed below.
        let locked = tx.run(NextExpiredSession { steady }).await?;
        // A live session renews every quarter of its lease, so a wait of half a lease makes none of them late.
        let stall = locked.iter().map(|(_, lease)| (*lease / 2).max(STALL_MIN)).min().unwrap_or(Duration::MAX);
        if locked.is_empty() || decided.elapsed() > stall {
            tx.roll_back().await?;
            return Ok(Vec::new());
        }
        let ids = locked.into_iter().map(|(id, _)| id).collect();
        // The clock is read again now that the locks are held: a session that renewed just before the lock stays open.
        let closed = tx.finish(CloseExpiredSession { ids }).await?;
        Ok(closed.into_iter().filter(|(_, is_closed)| *is_closed).map(|(id, _)| id).collect())
    }

    pub(crate) async fn reclaim_once(&self, ask: ReclaimAsk) -> Result<Vec<Reclaimed>, Fault> {
        let ReclaimAsk { session: owner, limit, what } = ask;
        Ok(match what {
            // A single statement that commits by itself. If this node dies before it settles the tasks, they belong to
            // its own session, and another node reclaims them once that session is closed.
            Reclaim::Orphaned => {
                let orphaned = self.database.write(ReclaimOrphaned { owner, limit }).await?;
                orphaned.into_iter().map(|(task, from)| Reclaimed { task, from, job: None }).collect()
            }
            Reclaim::Overdue => {
                let overdue = self.database.write(ReclaimOverdue { owner, limit }).await?;
                overdue.into_iter().map(|(task, from, job)| Reclaimed { task, from, job: job.map(Arc::new) }).collect()
            }
        })
    }
}
