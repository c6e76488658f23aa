//! Counts the backlog.

use everhook_core::id::{EndpointId, EnvironmentId};
use everhook_core::limits::{BACKLOG_COUNTED_MAX, OVERVIEW_TASKS_MAX};
use everhook_core::task::TaskKind;
use everhook_core::time::Timestamp;
use everhook_store::backlog::{Backlog, LaneCounts, OpenCounts};

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

/// Counts the open tasks of an environment up to the limit.
pub(super) fn count_open(tables: &Tables, environment: EnvironmentId, now: Timestamp) -> OpenCounts {
    let mut counts = OpenCounts::default();
    for row in tables.tasks.values().filter(|row| row.task.key.environment == environment) {
        let count = match row.place {
            TaskPlace::Pending => &mut counts.pending,
            TaskPlace::Leased(_) => &mut counts.leased,
            TaskPlace::Dead => &mut counts.dead,
        };
        if *count == OVERVIEW_TASKS_MAX as u64 {
            continue;
        }
        *count += 1;
        counts.dead_jobs += u64::from(row.place == TaskPlace::Dead && row.task.kind == TaskKind::Job);
        if row.place != TaskPlace::Pending {
            continue;
        }
        counts.retrying += u64::from(row.task.tries > 0);
        let lane = tables.lanes.get(&(environment, row.task.lane)).filter(|lane| lane.ready_at() <= now);
        if let Some(lane) = lane.filter(|_| row.task.due_at <= now) {
            counts.due += 1;
            counts.oldest_due = counts.oldest_due.max(Some(now.since(row.task.due_at.max(lane.hold_until))));
        }
    }
    counts
}

/// Counts the due and dead deliveries of an endpoint up to the limit.
pub(super) fn count_lane(
    tables: &Tables,
    environment: EnvironmentId,
    endpoint: EndpointId,
    now: Timestamp,
) -> LaneCounts {
    let lane = endpoint.lane();
    let tasks = tables.tasks.values().filter(|row| row.task.key.environment == environment && row.task.lane == lane);
    let dead = tasks.filter(|row| row.place == TaskPlace::Dead).take(OVERVIEW_TASKS_MAX).count() as u64;
    let Some(row) = tables.lanes.get(&(environment, lane)).filter(|row| row.ready_at() <= now) else {
        return LaneCounts { dead, ..LaneCounts::default() };
    };
    let due: Vec<Timestamp> =
        tables.pending(environment, lane).iter().map(|task| task.due_at).filter(|due_at| *due_at <= now).collect();
    let oldest_due = due.iter().min().map(|first| now.since((*first).max(row.hold_until)));
    LaneCounts { due: due.len().min(OVERVIEW_TASKS_MAX) as u64, dead, oldest_due }
}
