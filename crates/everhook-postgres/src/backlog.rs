//! What waits, counted.

use std::time::Duration;

use everhook_core::limits::{BACKLOG_COUNTED_MAX, BACKLOG_LANES_MAX};
use everhook_core::task::PRIORITY_DEFAULT;
use everhook_store::backlog::{Backlog, PoolUse};

use crate::catalog::count;
use crate::error::Fault;
use crate::rows::Reader;
use crate::sql;
use crate::statement::Params;
use crate::store::PostgresStore;

impl PostgresStore {
    /// Counts what waits, up to the bound.
    pub(crate) async fn backlog_once(&self) -> Result<Backlog, Fault> {
        let params: Params<'_> = &[&count(BACKLOG_COUNTED_MAX), &count(BACKLOG_LANES_MAX), &PRIORITY_DEFAULT];
        let rows = self.database.read(&sql::COUNT_BACKLOG, params).await?;
        let row = rows.first().ok_or(Fault::Contended("the count gave no answer"))?;
        let mut row = Reader::new(row, "task");
        let (pending, dead) = (row.get::<i64>("pending")?, row.get::<i64>("dead")?);
        let due_for = row.get::<i64>("due_for")?;
        Ok(Backlog {
            pending: pending.unsigned_abs(),
            dead: dead.unsigned_abs(),
            due_for: Duration::from_micros(due_for.max(0).unsigned_abs()),
        })
    }

    /// How busy the pool is. What is neither idle nor still to be opened is in use.
    pub(crate) fn connections(&self) -> PoolUse {
        let status = self.database.pool.status();
        PoolUse { max: status.max_size, busy: status.size.saturating_sub(status.available), waiting: status.waiting }
    }
}
