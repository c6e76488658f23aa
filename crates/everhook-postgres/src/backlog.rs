//! What waits, counted.

use std::time::Duration;

use everhook_core::limits::BACKLOG_COUNTED_MAX;
use everhook_store::backlog::{Backlog, PoolUse};

use crate::catalog::count;
use crate::error::Fault;
use crate::rows::Reader;
use crate::sql;
use crate::store::PostgresStore;

impl PostgresStore {
    /// Counts what waits, up to the bound.
    pub(crate) async fn backlog_once(&self) -> Result<Backlog, Fault> {
        let rows = self.database.read(&sql::COUNT_BACKLOG, &[&count(BACKLOG_COUNTED_MAX)]).await?;
        let row = rows.first().ok_or(Fault::Contended("the count gave no answer"))?;
        let mut row = Reader::new(row, "task");
        let (pending, dead) = (row.get::<i64>("pending")?, row.get::<i64>("dead")?);
        let ready_for = row.get::<i64>("ready_at")?;
        Ok(Backlog {
            pending: pending.unsigned_abs(),
            dead: dead.unsigned_abs(),
            ready_for: Duration::from_micros(ready_for.max(0).unsigned_abs()),
        })
    }

    /// How busy the pool is. What is neither idle nor still to be opened is in use.
    pub(crate) fn connections(&self) -> PoolUse {
        let status = self.database.pool.status();
        PoolUse { max: status.max_size, busy: status.size.saturating_sub(status.available), waiting: status.waiting }
    }
}
