//! Queues with their lane groups, and the reads of them.

use std::collections::BTreeSet;

use everhook_core::id::{EnvironmentId, Id, JobId, LaneId};
use everhook_core::name::Name;
use everhook_core::queue::{Queue, QueueState, queue_id};
use everhook_core::resource::ResourceKind;
use everhook_core::task::TaskKind;
use everhook_core::time::Timestamp;
use everhook_store::catalog::Slice;
use everhook_store::queue::{LaneGroup, QueueStats};
use everhook_store::resource::{Parent, ResourcePlace};

use crate::mem::tables::{Tables, TaskPlace};
use crate::mem::{MemStore, resource};

type LaneKey = (EnvironmentId, LaneId);

/// Returns the lane group of a queue, or the default group of a queue without configuration.
pub(super) fn group_of(tables: &Tables, environment: EnvironmentId, name: &Name) -> LaneGroup {
    tables.groups.get(&(environment, queue_id(environment, name))).copied().unwrap_or(LaneGroup::OPEN)
}

/// Returns the configuration of a queue, or the default.
pub(super) fn queue_of(tables: &Tables, environment: EnvironmentId, name: &Name) -> Queue {
    let place = ResourcePlace::named(ResourceKind::Queue, name);
    resource::find(tables, environment, &place).unwrap_or_else(|| Queue::new(name.clone()))
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

fn lanes_of(tables: &Tables, environment: EnvironmentId, name: &Name) -> BTreeSet<LaneKey> {
    let is_its = |(lane, queue): &(&LaneKey, &Name)| lane.0 == environment && *queue == name;
    tables.queue_lanes.iter().filter(is_its).map(|(lane, _)| *lane).collect()
}

/// Returns whether a queue has pending, running or dead jobs.
pub(super) fn has_jobs(tables: &Tables, environment: EnvironmentId, name: &Name) -> bool {
    let lanes = lanes_of(tables, environment, name);
    tables.tasks.values().any(|row| lanes.contains(&(row.task.key.environment, row.task.lane)))
}

/// Removes the lanes of a queue without jobs. Returns false if there are none.
pub(super) fn forget_lanes(tables: &mut Tables, environment: EnvironmentId, name: &Name) -> bool {
    let lanes = lanes_of(tables, environment, name);
    for lane in &lanes {
        tables.queue_lanes.remove(lane);
        tables.lanes.remove(lane);
    }
    !lanes.is_empty()
}

impl MemStore {
    pub(super) fn find_queue(&self, environment: EnvironmentId, name: &Name) -> Option<Queue> {
        let (tables, _) = self.lock();
        let queue = queue_of(&tables, environment, name);
        (queue.revision > 0 || !lanes_of(&tables, environment, name).is_empty()).then_some(queue)
    }

    pub(super) fn list_queues(&self, environment: EnvironmentId, slice: &Slice<Name>) -> Vec<Queue> {
        let (tables, _) = self.lock();
        let mut queues: Vec<Queue> = resource::records(&tables, environment, Parent::NONE);
        let used = tables.queue_lanes.iter().filter(|(lane, _)| lane.0 == environment);
        queues.extend(used.map(|(_, name)| queue_of(&tables, environment, name)));
        queues.sort_by(|one, other| one.name.cmp(&other.name));
        queues.dedup_by(|one, other| one.name == other.name);
        resource::cut(queues, |queue| queue.name.clone(), slice)
    }

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

    pub(super) fn queue_stats(&self, environment: EnvironmentId, name: &Name) -> QueueStats {
        let (tables, now) = self.lock();
        let mut stats = QueueStats::default();
        for row in tables.tasks.values().filter(|row| row.task.kind == TaskKind::Job) {
            let lane = (row.task.key.environment, row.task.lane);
            if lane.0 != environment || tables.queue_lanes.get(&lane) != Some(name) {
                continue;
            }
            match row.place {
                TaskPlace::Pending => stats.pending += 1,
                TaskPlace::Leased(_) => stats.running += 1,
                TaskPlace::Dead => stats.dead += 1,
            }
            if row.place == TaskPlace::Pending && row.task.due_at <= now {
                stats.due += 1;
                stats.oldest_due = stats.oldest_due.max(Some(now.since(row.task.due_at)));
                let job = tables.jobs.get(&(environment, JobId(row.task.key.subject)));
                stats.due_kinds.extend(job.map(|row| row.job.kind.clone()));
            }
        }
        stats.due_kinds.sort();
        stats.due_kinds.dedup();
        stats
    }
}
