//! Leasing jobs: queues first, then their lanes, then tasks by priority; and what queues are configured to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everhook_core::id::{EnvironmentId, Id, JobId, LaneId, SessionId};
use everhook_core::limits::LEASE_LANES_MAX;
use everhook_core::name::Name;
use everhook_core::queue::{Queue, QueueState, queue_id};
use everhook_core::task::{Task, TaskKind};
use everhook_core::time::Timestamp;
use everhook_store::catalog::{Order, Replaced, Slice};
use everhook_store::error::StoreError;
use everhook_store::job::{JobAsk, JobGrant, LeasedJob, QueueAsk};
use everhook_store::lease::{Holding, Reclaimed};
use everhook_store::queue::{QueueDeleted, QueueStats};

use crate::mem::MemStore;
use crate::mem::tables::{QueueRow, Tables, TaskPlace};

type LaneKey = (EnvironmentId, LaneId);

/// Leases due jobs, lane by lane: the lane that was ready first comes first, and one that gave all it was asked for goes to the back.
pub(super) fn lease(tables: &mut Tables, now: Timestamp, ask: &JobAsk) -> JobGrant {
    let mut capacities = QueueCapacities::new(tables, now, ask);
    let mut jobs = Vec::new();
    let mut barren = BTreeSet::new();
    for lane in ready_lanes(tables, now, &capacities) {
        let Some(name) = tables.queue_lanes.get(&lane).cloned() else { continue };
        let queue = queue_of(tables, lane.0, &name);
        let capacity = capacities.of(tables, &queue, lane);
        let left = ask.limit - jobs.len();
        let tasks = take(tables, now, ask, lane, capacity.min(left));
        let count = tasks.len();
        capacities.used(&(lane.0, name), count);
        jobs.extend(tasks.into_iter().map(|task| hand_out(tables, now, ask, &queue, task)));
        let next_due = match count {
            _ if capacity == 0 || left == 0 => None,
            _ if count == capacity && capacity <= left => Some(now),
            _ if count == left => None,
            // What is left may be of kinds that were not asked for: ready as before, but behind lanes that may have something.
            _ => {
                barren.insert(lane);
                Some(first_due(tables, lane).max(now))
            }
        };
        if let (Some(next_due), Some(row)) = (next_due, tables.lanes.get_mut(&lane)) {
            row.next_due = next_due;
        }
    }
    capacities.book(tables, now);
    let next_ready = next_ready(tables, now, ask, &barren).map(|at| at.since(now));
    JobGrant { jobs, next_ready }
}

/// What each queue may still give.
struct QueueCapacities(BTreeMap<(EnvironmentId, Name), QueueCapacity>);

struct QueueCapacity {
    left: usize,
    used: usize,
}

impl QueueCapacities {
    fn new(tables: &Tables, now: Timestamp, ask: &JobAsk) -> QueueCapacities {
        let mut capacities = BTreeMap::new();
        // Of one that is named twice the first counts.
        for asked in ask.queues.iter().filter(|asked| asked.capacity > 0) {
            let left = queue_capacity(tables, now, asked).min(asked.capacity);
            capacities.entry((asked.environment, asked.name.clone())).or_insert(QueueCapacity { left, used: 0 });
        }
        QueueCapacities(capacities)
    }

    fn of(&self, tables: &Tables, queue: &Queue, lane: LaneKey) -> usize {
        let left = self.0.get(&(lane.0, queue.name.clone())).map_or(0, |capacity| capacity.left);
        left.min(key_capacity(tables, queue, lane))
    }

    fn used(&mut self, queue: &(EnvironmentId, Name), count: usize) {
        if let Some(capacity) = self.0.get_mut(queue) {
            capacity.left -= count;
            capacity.used += count;
        }
    }

    /// Counts what was taken against the rates.
    fn book(&self, tables: &mut Tables, now: Timestamp) {
        for (key, capacity) in &self.0 {
            if let Some(row) = tables.queues.get_mut(key)
                && let Some(rate) = row.queue.rate
            {
                row.booked_until = rate.take(row.booked_until, now, capacity.used).1;
            }
        }
    }
}

/// How many jobs a queue may give now, whoever asks.
fn queue_capacity(tables: &Tables, now: Timestamp, asked: &QueueAsk) -> usize {
    let row = tables.queues.get(&(asked.environment, asked.name.clone()));
    let by_rate = row.and_then(|row| Some(row.queue.rate?.take(row.booked_until, now, usize::MAX).0));
    by_rate.unwrap_or(usize::MAX).min(queue_room_at_any_rate(tables, asked))
}

fn queue_room_at_any_rate(tables: &Tables, asked: &QueueAsk) -> usize {
    let queue = queue_of(tables, asked.environment, &asked.name);
    if queue.state != QueueState::Open {
        return 0;
    }
    let running = leased(tables, queue_id(asked.environment, &asked.name), None);
    queue.limit.map_or(usize::MAX, |limit| to_usize(limit).saturating_sub(running))
}

/// How many jobs of one concurrency key may be leased now. Without a key there is no such limit.
fn key_capacity(tables: &Tables, queue: &Queue, (environment, lane): LaneKey) -> usize {
    let limit_group = queue_id(environment, &queue.name);
    match queue.key_limit {
        Some(limit) if lane.0 != limit_group => to_usize(limit).saturating_sub(leased(tables, limit_group, Some(lane))),
        _ => usize::MAX,
    }
}

fn to_usize(limit: u32) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// How many leased tasks are counted in a limit group, of one lane or of all.
fn leased(tables: &Tables, limit_group: Id, lane: Option<LaneId>) -> usize {
    let counts = |row: &&crate::mem::TaskRow| {
        matches!(row.place, TaskPlace::Leased(_))
            && row.limit_group == Some(limit_group)
            && lane.is_none_or(|lane| row.task.lane == lane)
    };
    tables.tasks.values().filter(counts).count()
}

/// When a lease of jobs looks at a lane.
fn ready_at(tables: &Tables, lane: LaneKey) -> Timestamp {
    tables.lanes.get(&lane).map_or(Timestamp::NEVER, |row| row.next_due.max(row.hold_until))
}

fn ready_lanes(tables: &Tables, now: Timestamp, capacities: &QueueCapacities) -> Vec<LaneKey> {
    let has_capacity = |lane: &LaneKey, name: &Name| {
        let queue = queue_of(tables, lane.0, name);
        capacities.of(tables, &queue, *lane) > 0
    };
    let mut ready: Vec<_> = tables
        .queue_lanes
        .iter()
        .filter(|(lane, name)| ready_at(tables, **lane) <= now && has_capacity(lane, name))
        .map(|(lane, _)| (ready_at(tables, *lane), *lane))
        .collect();
    ready.sort();
    ready.into_iter().take(LEASE_LANES_MAX).map(|(_, lane)| lane).collect()
}

fn take(tables: &Tables, now: Timestamp, ask: &JobAsk, lane: LaneKey, count: usize) -> Vec<Task> {
    let wanted = |task: &Task| {
        let job = tables.jobs.get(&(task.key.environment, JobId(task.key.subject)));
        ask.kinds.is_empty() || job.is_some_and(|row| ask.kinds.contains(&row.job.kind))
    };
    let mut tasks = tables.pending(lane.0, lane.1);
    tasks.retain(|task| task.due_at <= now && wanted(task));
    tasks.truncate(count);
    tasks
}

fn first_due(tables: &Tables, lane: LaneKey) -> Timestamp {
    tables.pending(lane.0, lane.1).iter().map(|task| task.due_at).min().unwrap_or(Timestamp::NEVER)
}

fn hand_out(tables: &mut Tables, now: Timestamp, ask: &JobAsk, queue: &Queue, mut task: Task) -> LeasedJob {
    task.epoch += 1;
    let environment = task.key.environment;
    let job = tables.jobs.get(&(environment, JobId(task.key.subject))).map(|row| Arc::clone(&row.job));
    let timeout = job.as_ref().map(|job| job.timeout).unwrap_or_default();
    if let Some(row) = tables.tasks.get_mut(&task.key) {
        row.task = task;
        (row.place, row.leased_at) = (TaskPlace::Leased(ask.session), Some(now));
        row.limit_group = queue.is_limited().then(|| queue_id(environment, &queue.name));
        row.deadline = ask.watched.then(|| now.plus(timeout));
    }
    LeasedJob { task, job, target: queue.target.clone().map(Arc::new) }
}

/// When one of the queues may have something to give: not for what waits for room, or for another worker. Lanes that have given all they
/// have for this one are ready only if something becomes due there.
fn next_ready(tables: &Tables, now: Timestamp, ask: &JobAsk, barren: &BTreeSet<LaneKey>) -> Option<Timestamp> {
    let mut next = Timestamp::NEVER;
    for asked in ask.queues.iter().filter(|asked| asked.capacity > 0) {
        let queue = queue_of(tables, asked.environment, &asked.name);
        let key = (asked.environment, asked.name.clone());
        let full = queue_room_at_any_rate(tables, asked) == 0;
        let booked = tables.queues.get(&key).filter(|_| queue.rate.is_some()).map(|row| row.booked_until);
        let from = booked.filter(|at| *at > now).unwrap_or_default();
        for (lane, _) in tables.queue_lanes.iter().filter(|(lane, name)| lane.0 == key.0 && **name == key.1) {
            let ready = ready_at(tables, *lane);
            let foreign = ready <= now && barren.contains(lane);
            if !full && !foreign && key_capacity(tables, &queue, *lane) > 0 {
                next = next.min(ready.max(from));
            }
        }
    }
    (next < Timestamp::NEVER).then_some(next)
}

/// Takes jobs over whose time is over.
pub(super) fn reclaim_overdue(
    tables: &mut Tables,
    now: Timestamp,
    session: SessionId,
    limit: usize,
) -> Vec<(LeasedJob, Holding)> {
    let overdue = |row: &&mut crate::mem::TaskRow| {
        matches!(row.place, TaskPlace::Leased(_)) && row.deadline.is_some_and(|at| at <= now)
    };
    let mut taken = Vec::new();
    for row in tables.tasks.values_mut().filter(overdue).take(limit) {
        row.deadline = None;
        taken.extend(row.hand_over(session, now));
    }
    let attach_payloads = |Reclaimed { task, from, .. }: Reclaimed| {
        let row = tables.jobs.get(&(task.key.environment, JobId(task.key.subject)));
        (LeasedJob { task, job: row.map(|row| Arc::clone(&row.job)), target: None }, from)
    };
    taken.into_iter().map(attach_payloads).collect()
}

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
