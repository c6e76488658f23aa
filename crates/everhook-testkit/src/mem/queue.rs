//! Leasing jobs: queues first, then their lanes, then tasks by priority; and the reads of queues.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everhook_core::id::{EnvironmentId, Id, JobId, LaneId, SessionId};
use everhook_core::limits::LEASE_LANES_MAX;
use everhook_core::name::Name;
use everhook_core::queue::{Queue, QueueState, queue_id};
use everhook_core::resource::ResourceKind;
use everhook_core::task::{Task, TaskKind};
use everhook_core::time::Timestamp;
use everhook_store::catalog::Slice;
use everhook_store::error::StoreError;
use everhook_store::job::{JobAsk, JobGrant, LeasedJob, QueueAsk};
use everhook_store::lease::{Holding, Reclaimed};
use everhook_store::queue::{LaneGroup, QueueStats};
use everhook_store::resource::{Parent, ResourcePlace};

use crate::mem::tables::{Tables, TaskPlace};
use crate::mem::{MemStore, resource};

type LaneKey = (EnvironmentId, LaneId);

/// Leases due jobs, lane by lane: the lane that was ready first comes first, and one that gave all it was asked for goes to the back.
pub(super) fn lease(tables: &mut Tables, now: Timestamp, ask: &JobAsk) -> JobGrant {
    let mut capacities = QueueCapacities::new(tables, now, ask);
    let mut jobs = Vec::new();
    let mut barren = BTreeSet::new();
    for lane in ready_lanes(tables, now, &capacities) {
        let Some(name) = tables.queue_lanes.get(&lane).cloned() else { continue };
        let group = group_of(tables, lane.0, &name);
        let capacity = capacities.of(tables, &group, &name, lane);
        let left = ask.limit - jobs.len();
        let tasks = take(tables, now, ask, lane, capacity.min(left));
        let count = tasks.len();
        let queue = queue_of(tables, lane.0, &name);
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

    fn of(&self, tables: &Tables, group: &LaneGroup, name: &Name, lane: LaneKey) -> usize {
        let left = self.0.get(&(lane.0, name.clone())).map_or(0, |capacity| capacity.left);
        left.min(key_capacity(tables, group, queue_id(lane.0, name), lane))
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
            if let Some(group) = tables.groups.get_mut(&(key.0, queue_id(key.0, &key.1)))
                && let Some(rate) = group.rate
            {
                group.booked_until = rate.take(group.booked_until, now, capacity.used).1;
            }
        }
    }
}

/// How many jobs a queue may give now, whoever asks.
fn queue_capacity(tables: &Tables, now: Timestamp, asked: &QueueAsk) -> usize {
    let group = group_of(tables, asked.environment, &asked.name);
    let by_rate = group.rate.map(|rate| rate.take(group.booked_until, now, usize::MAX).0);
    by_rate.unwrap_or(usize::MAX).min(queue_room_at_any_rate(tables, asked))
}

fn queue_room_at_any_rate(tables: &Tables, asked: &QueueAsk) -> usize {
    let group = group_of(tables, asked.environment, &asked.name);
    if group.state != QueueState::Open {
        return 0;
    }
    let running = leased(tables, queue_id(asked.environment, &asked.name), None);
    group.limit.map_or(usize::MAX, |limit| to_usize(limit).saturating_sub(running))
}

/// How many jobs of one concurrency key may be leased now. Without a key there is no such limit.
fn key_capacity(tables: &Tables, group: &LaneGroup, limit_group: Id, (_, lane): LaneKey) -> usize {
    match group.lane_limit {
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
    let has_capacity =
        |lane: &LaneKey, name: &Name| capacities.of(tables, &group_of(tables, lane.0, name), name, *lane) > 0;
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
        let group = group_of(tables, asked.environment, &asked.name);
        let (key, id) = ((asked.environment, asked.name.clone()), queue_id(asked.environment, &asked.name));
        let full = queue_room_at_any_rate(tables, asked) == 0;
        let booked = group.rate.map(|_| group.booked_until);
        let from = booked.filter(|at| *at > now).unwrap_or_default();
        for (lane, _) in tables.queue_lanes.iter().filter(|(lane, name)| lane.0 == key.0 && **name == key.1) {
            let ready = ready_at(tables, *lane);
            let foreign = ready <= now && barren.contains(lane);
            if !full && !foreign && key_capacity(tables, &group, id, *lane) > 0 {
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

/// The lane group of a queue, or that of a queue without configuration.
fn group_of(tables: &Tables, environment: EnvironmentId, name: &Name) -> LaneGroup {
    tables.groups.get(&(environment, queue_id(environment, name))).copied().unwrap_or(LaneGroup::OPEN)
}

/// A queue as it is configured, or as it is by itself.
fn queue_of(tables: &Tables, environment: EnvironmentId, name: &Name) -> Queue {
    let place = ResourcePlace::named(ResourceKind::Queue, name);
    resource::find(tables, environment, &place).unwrap_or_else(|| Queue::new(name.clone()))
}

/// The target of the queue of this lane wants no more. A queue that has lost its configuration has none.
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

/// Whether a queue has jobs that wait, run or are dead.
pub(super) fn has_jobs(tables: &Tables, environment: EnvironmentId, name: &Name) -> bool {
    let lanes = lanes_of(tables, environment, name);
    tables.tasks.values().any(|row| lanes.contains(&(row.task.key.environment, row.task.lane)))
}

/// Forgets the lanes of a queue without jobs; false if it has none.
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
