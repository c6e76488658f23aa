//! What queues are configured to, and how many jobs are in them.

use std::collections::BTreeSet;

use everhook_core::id::{EnvironmentId, JobId, LaneId};
use everhook_core::name::Name;
use everhook_core::queue::{Queue, QueueState};
use everhook_core::task::TaskKind;
use everhook_core::time::Timestamp;
use everhook_store::catalog::{Order, Replaced, Slice};
use everhook_store::error::StoreError;
use everhook_store::queue::{QueueDeleted, QueueStats};

use crate::mem::MemStore;
use crate::mem::tables::{QueueRow, Tables, TaskPlace};

type LaneKey = (EnvironmentId, LaneId);

/// A queue as it is configured, or as it is by itself.
pub(super) fn queue_of(tables: &Tables, environment: EnvironmentId, name: &Name) -> Queue {
    let row = tables.queues.get(&(environment, name.clone()));
    row.map_or_else(|| Queue::new(name.clone()), |row| row.queue.clone())
}

/// The target of the queue of this lane wants no more.
pub(super) fn stop(tables: &mut Tables, environment: EnvironmentId, lane: LaneId, now: Timestamp) {
    let Some(name) = tables.queue_lanes.get(&(environment, lane)).cloned() else { return };
    let queue = queue_of(tables, environment, &name);
    if queue.state == QueueState::Open {
        let queue = Queue { state: QueueState::Stopped, ..queue };
        put(tables, environment, &queue, now);
    }
}

fn put(tables: &mut Tables, environment: EnvironmentId, queue: &Queue, now: Timestamp) -> Queue {
    let queue = Queue { revision: queue.revision + 1, updated_at: now, ..queue.clone() };
    let key = (environment, queue.name.clone());
    let booked_until = tables.queues.get(&key).map_or(Timestamp::default(), |row| row.booked_until);
    tables.queues.insert(key, QueueRow { queue: queue.clone(), booked_until });
    queue
}

impl MemStore {
    pub(super) fn find_queue(&self, environment: EnvironmentId, name: &Name) -> Result<Option<Queue>, StoreError> {
        let (tables, _) = self.lock();
        let known = tables.queues.contains_key(&(environment, name.clone()))
            || tables.queue_lanes.iter().any(|(lane, queue)| lane.0 == environment && queue == name);
        Ok(known.then(|| queue_of(&tables, environment, name)))
    }

    pub(super) fn list_queues(
        &self,
        environment: EnvironmentId,
        slice: &Slice<Name>,
    ) -> Result<Vec<Queue>, StoreError> {
        let (tables, _) = self.lock();
        let configured = tables.queues.keys().filter(|key| key.0 == environment).map(|key| key.1.clone());
        let used = tables.queue_lanes.iter().filter(|(lane, _)| lane.0 == environment).map(|(_, name)| name.clone());
        let mut names: Vec<Name> = configured.chain(used).collect();
        names.sort();
        names.dedup();
        if slice.order == Order::Descending {
            names.reverse();
        }
        let beyond = |name: &Name| match (&slice.after, slice.order) {
            (None, _) => true,
            (Some(after), Order::Ascending) => name > after,
            (Some(after), Order::Descending) => name < after,
        };
        let names = names.iter().filter(|name| beyond(name)).take(slice.limit);
        Ok(names.map(|name| queue_of(&tables, environment, name)).collect())
    }

    pub(super) fn replace_queue(
        &self,
        environment: EnvironmentId,
        queue: &Queue,
    ) -> Result<Replaced<Queue>, StoreError> {
        let (mut tables, now) = self.lock();
        if queue_of(&tables, environment, &queue.name).revision != queue.revision {
            return Ok(Replaced::Stale);
        }
        Ok(Replaced::Done(put(&mut tables, environment, queue, now)))
    }

    pub(super) fn delete_queue(&self, environment: EnvironmentId, name: &Name) -> Result<QueueDeleted, StoreError> {
        let (mut tables, _) = self.lock();
        let is_its = |(lane, queue): &(&LaneKey, &Name)| lane.0 == environment && *queue == name;
        let lanes: BTreeSet<LaneKey> = tables.queue_lanes.iter().filter(is_its).map(|(lane, _)| *lane).collect();
        if tables.tasks.values().any(|row| lanes.contains(&(row.task.key.environment, row.task.lane))) {
            return Ok(QueueDeleted::HasJobs);
        }
        let configured = tables.queues.remove(&(environment, name.clone())).is_some();
        for lane in &lanes {
            tables.queue_lanes.remove(lane);
            tables.lanes.remove(lane);
        }
        Ok(if configured || !lanes.is_empty() { QueueDeleted::Done } else { QueueDeleted::NoQueue })
    }

    pub(super) fn list_targets(&self) -> Result<Vec<(EnvironmentId, Name)>, StoreError> {
        let (tables, _) = self.lock();
        let open = |row: &QueueRow| row.queue.target.is_some() && row.queue.state == QueueState::Open;
        Ok(tables.queues.iter().filter(|(_, row)| open(row)).map(|(key, _)| key.clone()).collect())
    }

    pub(super) fn queue_stats(&self, environment: EnvironmentId, name: &Name) -> Result<QueueStats, StoreError> {
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
        Ok(stats)
    }
}
