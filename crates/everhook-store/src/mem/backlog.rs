//! What waits, counted.

use everhook_core::limits::BACKLOG_COUNTED_MAX;
use everhook_core::time::Timestamp;

use crate::backlog::Backlog;
use crate::mem::tables::{LaneRow, Tables, TaskPlace};

/// Counts what waits, up to the bound.
pub(super) fn count(tables: &Tables, now: Timestamp) -> Backlog {
    let count = |place| tables.tasks.values().filter(|row| row.place == place).take(BACKLOG_COUNTED_MAX).count() as u64;
    let ready_at = tables.lanes.values().map(LaneRow::ready_at).min().unwrap_or(Timestamp::NEVER);
    Backlog { pending: count(TaskPlace::Pending), dead: count(TaskPlace::Dead), ready_for: now.since(ready_at) }
}
