//! Leasing: lanes first, then tasks of each.

use std::sync::Arc;

use everhook_core::id::{EndpointId, EnvironmentId, LaneId, MessageId};
use everhook_core::limits::LEASE_LANES_MAX;
use everhook_core::task::Task;
use everhook_core::time::Timestamp;
use everhook_store::lease::{DeliveryAsk, LeaseGrant, Leased};

use crate::mem::resource;
use crate::mem::tables::{LaneState, Tables, TaskPlace};

/// Leases due tasks, lane by lane: the lane that was ready first comes first, and one that gave all it was asked for goes to
/// the back.
pub(super) fn lease(tables: &mut Tables, now: Timestamp, ask: &DeliveryAsk) -> LeaseGrant {
    let mut tasks: Vec<Leased> = Vec::new();
    for (environment, lane) in ready_lanes(tables, now, ask) {
        let (capacity, left) = (capacity(ask, lane), ask.limit - tasks.len());
        let taken = take(tables, now, (environment, lane), capacity.min(left));
        let count = taken.len();
        tasks.extend(taken.into_iter().map(|task| hand_out(tables, now, ask, task)));
        let drained = (count < capacity.min(left)).then(|| drained(tables, environment, lane));
        let Some(row) = tables.lane(environment, lane) else { continue };
        match drained {
            Some(next_due) => (row.next_due, row.waiting) = (next_due, false),
            None if count == capacity => row.next_due = now,
            // Cut off by the limit of this lease, no fault of the lane: it keeps its turn.
            None => {}
        }
    }
    LeaseGrant { tasks, jobs: Vec::new(), next_ready: next_ready(tables, ask).map(|at| at.since(now)) }
}

fn ready_lanes(tables: &Tables, now: Timestamp, ask: &DeliveryAsk) -> Vec<(EnvironmentId, LaneId)> {
    let mut ready: Vec<_> = tables
        .lanes
        .iter()
        .map(|(key, row)| (row.ready_at(), *key))
        .filter(|(at, (_, lane))| *at <= now && capacity(ask, *lane) > 0)
        .collect();
    ready.sort();
    ready.into_iter().take(LEASE_LANES_MAX).map(|(_, key)| key).collect()
}

fn capacity(ask: &DeliveryAsk, lane: LaneId) -> usize {
    ask.free_by_lane.iter().find(|(id, _)| *id == lane).map_or(ask.per_lane, |(_, capacity)| *capacity)
}

fn take(tables: &Tables, now: Timestamp, lane: (EnvironmentId, LaneId), count: usize) -> Vec<Task> {
    let closing = tables.lanes.get(&lane).is_some_and(|row| row.state == LaneState::Closing);
    let mut tasks = tables.pending(lane.0, lane.1);
    tasks.retain(|task| closing || task.due_at <= now);
    tasks.truncate(count);
    tasks
}

/// When a lane has something to do next, of which everything due was taken.
fn drained(tables: &Tables, environment: EnvironmentId, lane: LaneId) -> Timestamp {
    tables.pending(environment, lane).iter().map(|task| task.due_at).min().unwrap_or(Timestamp::NEVER)
}

fn hand_out(tables: &mut Tables, now: Timestamp, ask: &DeliveryAsk, mut task: Task) -> Leased {
    task.epoch += 1;
    if let Some(row) = tables.tasks.get_mut(&task.key) {
        row.task = task;
        (row.place, row.leased_at) = (TaskPlace::Leased(ask.session), Some(now));
    }
    let environment = task.key.environment;
    let lane = tables.lanes.get(&(environment, task.lane));
    let message =
        lane.and_then(|lane| tables.messages.get(&(environment, lane.application, MessageId(task.key.subject))));
    let endpoint = tables.endpoint(environment, EndpointId(task.lane.0)).filter(|(_, deleted)| !deleted);
    Leased {
        task,
        message: message.cloned(),
        endpoint: endpoint.map(|(endpoint, _)| Arc::new(resource::delivered(endpoint))),
    }
}

fn next_ready(tables: &Tables, ask: &DeliveryAsk) -> Option<Timestamp> {
    let lanes = tables.lanes.iter().filter(|((_, lane), _)| capacity(ask, *lane) > 0);
    lanes.map(|(_, row)| row.ready_at()).min().filter(|at| *at < Timestamp::NEVER)
}
