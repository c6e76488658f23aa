//! What waits, counted.

use std::time::Duration;

use everhook_core::limits::{BACKLOG_COUNTED_MAX, BACKLOG_LANES_MAX};
use everhook_core::task::PRIORITY_DEFAULT;
use everhook_store::backlog::{Backlog, PoolUse};
use everhook_store::statement;

use crate::error::Fault;
use crate::store::PostgresStore;

statement! {
    // Pending tasks, dead tasks, and for how long the first one is due, in micros.
    CountBacklog = "count_backlog" { counted_max: usize, lanes_max: usize, priority: i16 } -> Option<(i64, i64, i64)>;
}

impl PostgresStore {
    /// Counts what waits, up to the bound.
    pub(crate) async fn backlog_once(&self) -> Result<Backlog, Fault> {
        let (counted_max, lanes_max, priority) = (BACKLOG_COUNTED_MAX, BACKLOG_LANES_MAX, PRIORITY_DEFAULT);
        let counted = self.database.read(CountBacklog { counted_max, lanes_max, priority }).await?;
        let (pending, dead, due_for) = counted.ok_or(Fault::Contended("the count gave no answer"))?;
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
