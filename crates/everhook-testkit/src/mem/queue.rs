//! Queues with their lane groups.

use everhook_core::id::{EnvironmentId, Id, LaneId};
use everhook_core::name::Name;
use everhook_core::queue::{Queue, QueueState, queue_id};
use everhook_core::resource::ResourceKind;
use everhook_core::time::Timestamp;
use everhook_store::queue::LaneGroup;
use everhook_store::resource::ResourcePlace;

use crate::mem::tables::Tables;
use crate::mem::{MemStore, resource};

/// Returns the lane group of a queue, or the default group of a queue without configuration.
pub(super) fn group_of(tables: &Tables, environment: EnvironmentId, name: &Name) -> LaneGroup {
    tables.groups.get(&(environment, queue_id(environment, name))).copied().unwrap_or(LaneGroup::OPEN)
}

/// Returns the configuration of a queue, or the default.
pub(super) fn queue_of(tables: &Tables, environment: EnvironmentId, name: &Name) -> Queue {
    let place = ResourcePlace::named(ResourceKind::Queue, name);
    resource::find(tables, environment, &place).unwrap_or_else(|| Queue::new(name.clone()))
}

/// Returns a queue with a configuration or with jobs.
pub(super) fn find(tables: &Tables, environment: EnvironmentId, name: &Name) -> Option<Queue> {
    let queue = queue_of(tables, environment, name);
    let is_used = || tables.queue_lanes.iter().any(|(lane, its)| lane.0 == environment && its == name);
    (queue.revision > 0 || is_used()).then_some(queue)
}

/// Stops the queue of this lane, because its target wants no more jobs. A queue without configuration has no target.
pub(super) fn stop(tables: &mut Tables, environment: EnvironmentId, lane: LaneId, now: Timestamp) {
    let Some(name) = tables.queue_lanes.get(&(environment, lane)).cloned() else { return };
    let queue = queue_of(tables, environment, &name);
    if queue.revision > 0 && queue.state == QueueState::Open {
        let (state, revision) = (QueueState::Stopped, queue.revision + 1);
        resource::write(tables, environment, Queue { state, revision, updated_at: now, ..queue }.into(), now);
    }
}

impl MemStore {
    pub(super) fn list_targets(&self) -> Vec<(EnvironmentId, Name)> {
        let (tables, _) = self.lock();
        let push = |(key, group): (&(EnvironmentId, Id), &LaneGroup)| {
            let entry = tables.resources.get(&(key.0, ResourceKind::Queue, key.1))?;
            let is_open = group.pushes && group.state == QueueState::Open;
            Some((key.0, entry.name.clone().filter(|_| is_open)?))
        };
        let mut targets: Vec<_> = tables.groups.iter().filter_map(push).collect();
        targets.sort();
        targets
    }
}
