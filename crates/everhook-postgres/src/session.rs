//! Sessions: their beginning and end, and the takeover of what closed ones held. Renewals are in `renew`.

use std::time::Duration;

use everhook_core::id::SessionId;
use everhook_core::limits::SESSIONS_LISTED_MAX;
use everhook_core::time::{Timestamp, micros};
use everhook_store::lease::{NewSession, Reclaimed, SessionRecord};
use tokio::time::Instant;
use tokio_postgres::Row;

use crate::catalog::count;
use crate::error::Fault;
use crate::rows::{self, Reader, TASK_COLUMNS};
use crate::sql;
use crate::store::PostgresStore;

/// A database that answers within this is not stalled, however short the leases are.
const STALL_MIN: Duration = Duration::from_millis(500);

impl PostgresStore {
    pub(crate) async fn open_session_once(&self, session: &NewSession) -> Result<Timestamp, Fault> {
        let NewSession { id, node, role, version, lease, takes: _ } = session;
        let (id, role, lease_us) = (id.as_bytes().as_slice(), role.to_db(), micros(*lease));
        self.database.change(&sql::OPEN_SESSION, &[&id, node, &role, version, &lease_us]).await?;
        let rows = self.database.read(&sql::NOW, &[]).await?;
        let row = rows.first().ok_or(Fault::Contended("the clock gave no answer"))?;
        Reader::new(row, "clock").time("now")
    }

    pub(crate) async fn close_session_once(&self, session: SessionId) -> Result<(), Fault> {
        self.database.change(&sql::CLOSE_SESSION, &[&session.as_bytes().as_slice()]).await.map(drop)
    }

    /// Closes what is past its lease of those whose lease is no longer than `steady`, unless the database took so long to answer since this was `decided` that sessions may
    /// have expired for no other reason: after a stall everyone is late, and nobody is dead.
    pub(crate) async fn close_expired_once(&self, decided: Instant, steady: Duration) -> Result<Vec<SessionId>, Fault> {
        let transaction = self.database.transaction().await?;
        transaction.begin().await?;
        let rows = transaction.rows(&sql::NEXT_EXPIRED_SESSION, &[&micros(steady)]).await?;
        let (mut locked, mut stall) = (Vec::<&[u8]>::with_capacity(rows.len()), Duration::MAX);
        for row in &rows {
            let mut row = Reader::new(row, "session");
            locked.push(row.get("id")?);
            // A living session is renewed every quarter of its lease: a wait of half of one makes none of them late.
            let lease = Duration::from_micros(row.get::<i64>("lease_us")?.unsigned_abs());
            stall = stall.min((lease / 2).max(STALL_MIN));
        }
        if locked.is_empty() || decided.elapsed() > stall {
            transaction.roll_back().await?;
            return Ok(Vec::new());
        }
        let mut closed = Vec::new();
        for row in transaction.rows(&sql::CLOSE_EXPIRED_SESSION, &[&locked]).await? {
            let mut row = Reader::new(&row, "session");
            let id = SessionId(row.id("id")?);
            if row.get("closed_at")? {
                closed.push(id);
            }
        }
        transaction.commit().await?;
        Ok(closed)
    }

    pub(crate) async fn list_sessions_once(&self, closed_within: Duration) -> Result<Vec<SessionRecord>, Fault> {
        let (closed_within, limit) = (micros(closed_within), count(SESSIONS_LISTED_MAX));
        let rows = self.database.read(&sql::LIST_SESSION, &[&closed_within, &limit]).await?;
        rows.iter().map(rows::session).collect()
    }

    pub(crate) async fn reclaim_once(&self, session: SessionId, limit: usize) -> Result<Vec<Reclaimed>, Fault> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = self.database.write(&sql::RECLAIM_TASK, &[&session.as_bytes().as_slice(), &limit]).await?;
        let read =
            |row: &Row| Ok(Reclaimed { task: rows::task(row)?, from: rows::holding_at(row, TASK_COLUMNS)?, job: None });
        rows.iter().map(read).collect()
    }
}
