//! Counts the backlog.

use everhook_core::limits::BACKLOG_COUNTED_MAX;
use everhook_core::time::Timestamp;
use everhook_store::backlog::Backlog;

use crate::mem::tables::{Tables, TaskPlace};

/// Counts open tasks up to the limit.
pub(super) fn count(tables: &Tables, now: Timestamp) -> Backlog {
    let count = |place| tables.tasks.values().filter(|row| row.place == place).take(BACKLOG_COUNTED_MAX).count() as u64;
    let is_of_endpoint = |key| !tables.queue_lanes.contains_key(key);
    let ready = tables.lanes.iter().filter(|(key, row)| is_of_endpoint(key) && row.ready_at() < Timestamp::NEVER);
    let due_at = ready.filter_map(|((environment, lane), row)| {
        let first = tables.pending(*environment, *lane).iter().map(|task| task.due_at).min()?;
        Some(first.max(row.hold_until))
    });
    let due_for = now.since(due_at.min().unwrap_or(Timestamp::NEVER));
    let breakers = tables.lanes.values().filter(|row| !row.breaker.is_closed()).count() as u64;
    Backlog { pending: count(TaskPlace::Pending), dead: count(TaskPlace::Dead), due_for, breakers }
}
