//! Leases tasks from feeds and lanes, and reclaims tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use everhook_core::endpoint::Endpoint;
use everhook_core::fair::{GroupId, GroupedLane};
use everhook_core::id::{EndpointId, EnvironmentId, Id, JobId, LaneId, MessageId};
use everhook_core::lane::{Allowance, Feed, Given, LanePosition, Turn, Used, room, turn};
use everhook_core::limits::{LEASE_LANES_MAX, LEASE_SCAN_MAX};
use everhook_core::policy::limit::{LaneLimits, LockedLane};
use everhook_core::queue::{QueueState, Target, queue_id};
use everhook_core::task::{Task, TaskKind};
use everhook_core::time::Timestamp;
use everhook_store::lease::{LeaseAsk, LeaseGrant, Leased, Reclaim, ReclaimAsk, Reclaimed, Work};
use everhook_store::queue::LaneGroup;

use crate::mem::LaneRow;
use crate::mem::queue::{group_of, queue_of};
use crate::mem::resource;
use crate::mem::tables::{LaneState, Tables, TaskPlace, TaskRow};

type LaneKey = (EnvironmentId, LaneId);

/// Leases due tasks lane by lane. The lane that was ready first comes first; a lane that used up its capacity moves to
/// the back.
pub(super) fn lease(tables: &mut Tables, now: Timestamp, ask: &LeaseAsk) -> LeaseGrant {
    let mut feeds = open_feeds(tables, now, ask);
    let limit = ask.tasks_max();
    let (mut tasks, mut delayed) = (Vec::new(), BTreeSet::new());
    let (ready, resume) = ready_lanes(tables, now, ask, &feeds);
    let grouped = |lane: &LaneKey| Some(grouped(*lane, tables.lanes.get(lane)?));
    let mut planned = ask.slots.as_ref().map(|slots| slots.plan(ready.iter().filter_map(grouped).collect(), limit));
    let mut has_more = resume.is_some();
    for lane in ready {
        let Some(open) = feeds.get_mut(&feed_of(tables, lane)) else { continue };
        let lane_room = planned.as_ref().map_or(usize::MAX, |planned| planned.room(lane.1));
        let room = open.allowance.room().min(open.lane_room(tables, ask, lane)).min(limit).min(lane_room);
        if lane_room == 0 {
            continue;
        }
        let limits = limits_of(tables, lane);
        let (hold_until, last_position) =
            tables.lanes.get(&lane).map_or((now, now), |row| (row.hold_until, row.last_position));
        let own = limits.group(lane.1);
        let locked = LockedLane {
            hold_until,
            leased: own.map_or(0, |group| leased_in(tables, group, lane)),
            is_behind_dead: is_behind_dead(tables, lane),
            now,
        };
        let room = room.min(limits.room(locked));
        let asked = room.min(open.allowance.left()).min(limit - tasks.len());
        let due_until = limits.due_until(last_position, now);
        let due = due(tables, due_until, lane);
        let wanted: Vec<Task> = due.iter().copied().filter(|task| is_asked(tables, ask, task)).take(asked).collect();
        let given = Given { room, asked, gave: wanted.len(), is_foreign: wanted.len() < due.len() };
        open.allowance.take(wanted.len());
        let open = open.clone();
        let limit_group = own.or(open.limit_group());
        tasks.extend(wanted.into_iter().map(|task| hand_out(tables, now, ask, (&open, limit_group), task)));
        let first = first_due(tables, lane);
        let Some(row) = tables.lanes.get_mut(&lane) else { continue };
        if let Some(hold) = limits.hold(locked, given.gave) {
            (row.hold_until, row.hold_kind) = (hold.until, hold.kind);
        }
        match turn(given) {
            Turn::Keep | Turn::Stay { .. } => {}
            Turn::Back => (row.next_due, has_more) = (now, has_more || row.hold_until <= now),
            Turn::Empty => (row.next_due, row.waiting) = (first, false),
            Turn::Delay => {
                row.next_due = first.max(now);
                delayed.insert(lane);
            }
        }
    }
    for open in feeds.values() {
        open.book(tables, now);
    }
    let next_ready = next_ready(tables, now, ask, &feeds, &delayed).map(|at| at.since(now));
    let slots = planned.as_mut().map(|planned| planned.take(&tasks)).unwrap_or_default();
    let is_spent = planned.as_ref().is_some_and(|planned| planned.is_spent);
    LeaseGrant {
        next_ready: if planned.is_some() && (has_more || is_spent) { Some(Duration::ZERO) } else { next_ready },
        // Lanes that are left because the lease is full are next.
        resume: if is_spent { ask.after } else { resume },
        slots,
        tasks,
    }
}

fn grouped((environment, lane): LaneKey, row: &LaneRow) -> GroupedLane {
    GroupedLane { group: GroupId { environment, id: row.application.0 }, lane }
}

/// A feed that tasks may be leased from.
#[derive(Clone)]
struct OpenFeed {
    allowance: Allowance,
    /// The environment, the id and the lane group of a queue.
    group: Option<(EnvironmentId, Id, LaneGroup)>,
    target: Option<Arc<Target>>,
}

/// Returns the requested feeds that are open, whether they contain tasks or not.
fn open_feeds(tables: &Tables, now: Timestamp, ask: &LeaseAsk) -> BTreeMap<Feed, OpenFeed> {
    let mut feeds = BTreeMap::new();
    for asked in ask.feeds.iter().filter(|asked| asked.capacity > 0) {
        let (group, target) = match &asked.feed {
            Feed::Deliveries => (None, None),
            Feed::Queue { environment, name } => {
                let group = (*environment, queue_id(*environment, name), group_of(tables, *environment, name));
                (Some(group), queue_of(tables, *environment, name).target.map(Arc::new))
            }
        };
        if group.is_some_and(|(_, _, group)| group.state != QueueState::Open) {
            continue;
        }
        let limits = group.map(|(_, _, group)| group.limits()).unwrap_or_default();
        let used =
            group.map(|(_, id, group)| Used { leased: leased(tables, id, None), booked_until: group.booked_until });
        let allowance = Allowance::new(limits, used.unwrap_or_default(), asked.capacity, now);
        feeds.entry(asked.feed.clone()).or_insert(OpenFeed { allowance, group, target });
    }
    feeds
}

/// Counts the leased tasks of a limit group, in one lane or in all.
fn leased(tables: &Tables, limit_group: Id, lane: Option<LaneId>) -> usize {
    let counts = |row: &&TaskRow| {
        matches!(row.place, TaskPlace::Leased(_))
            && row.limit_group == Some(limit_group)
            && lane.is_none_or(|lane| row.task.lane == lane)
    };
    tables.tasks.values().filter(counts).count()
}

/// Counts the leased deliveries of a limited lane.
fn leased_in(tables: &Tables, limit_group: Id, (environment, lane): LaneKey) -> usize {
    let is_leased = |row: &&TaskRow| {
        matches!(row.place, TaskPlace::Leased(_))
            && (row.task.key.environment, row.task.lane, row.limit_group) == (environment, lane, Some(limit_group))
    };
    tables.tasks.values().filter(is_leased).count()
}

/// Whether a dead delivery comes before the first pending one.
fn is_behind_dead(tables: &Tables, (environment, lane): LaneKey) -> bool {
    let first = tables.pending(environment, lane).into_iter().map(|task| (task.due_at, task.key.id)).min();
    let is_before = |row: &TaskRow| {
        row.place == TaskPlace::Dead
            && (row.task.key.environment, row.task.lane) == (environment, lane)
            && first.is_some_and(|first| (row.task.due_at, row.task.key.id) < first)
    };
    tables.tasks.values().any(is_before)
}

impl OpenFeed {
    /// The limit group of its leased tasks.
    fn limit_group(&self) -> Option<Id> {
        self.group.filter(|(_, _, group)| group.is_limited()).map(|(_, id, _)| id)
    }

    /// Returns how many tasks of a lane may be leased, limited by the caller's capacity and the concurrency key. A lane
    /// without a key has no such limit.
    fn lane_room(&self, tables: &Tables, ask: &LeaseAsk, (_, lane): LaneKey) -> usize {
        let key_limit = self.group.and_then(|(_, _, group)| group.lane_limit);
        let by_key = match self.limit_group() {
            Some(group) if lane.0 != group => room(key_limit, leased(tables, group, Some(lane))),
            _ => usize::MAX,
        };
        by_key.min(ask.capacity(lane))
    }

    /// Counts the leased tasks against the rate limit.
    fn book(&self, tables: &mut Tables, now: Timestamp) {
        if let Some((environment, id, _)) = self.group
            && let Some(group) = tables.groups.get_mut(&(environment, id))
        {
            group.booked_until = self.allowance.booked(now).unwrap_or(group.booked_until);
        }
    }
}

fn feed_of(tables: &Tables, lane: LaneKey) -> Feed {
    let queue = tables.queue_lanes.get(&lane);
    queue.map_or(Feed::Deliveries, |name| Feed::Queue { environment: lane.0, name: name.clone() })
}

/// Returns ready lanes with capacity, and the position after them if there may be more.
fn ready_lanes(
    tables: &Tables,
    now: Timestamp,
    ask: &LeaseAsk,
    feeds: &BTreeMap<Feed, OpenFeed>,
) -> (Vec<LaneKey>, Option<LanePosition>) {
    let has_room = |lane: LaneKey, row: &LaneRow| {
        let open = feeds.get(&feed_of(tables, lane));
        open.is_some_and(|open| open.allowance.left() > 0 && open.lane_room(tables, ask, lane) > 0)
            && !ask.full_groups.contains(&grouped(lane, row).group)
            && !ask.paused.contains(&lane.0)
    };
    let position =
        |(key, row): (&LaneKey, &LaneRow)| LanePosition { ready_at: row.ready_at(), environment: key.0, lane: key.1 };
    let is_after = |at: &LanePosition| at.ready_at <= now && ask.after.is_none_or(|after| *at > after);
    let mut ready: Vec<_> = tables.lanes.iter().map(position).filter(is_after).collect();
    ready.sort();
    let mut lanes = Vec::new();
    for (scanned, at) in ready.iter().enumerate() {
        if ask.slots.is_some() && scanned == LEASE_SCAN_MAX || lanes.len() == LEASE_LANES_MAX {
            return (lanes, Some(ready[scanned - 1]));
        }
        let key = (at.environment, at.lane);
        lanes.extend(tables.lanes.get(&key).filter(|row| has_room(key, row)).map(|_| key));
    }
    (lanes, None)
}

/// Returns the tasks of a lane that may be leased now. In a closing lane these are all pending tasks.
fn due(tables: &Tables, now: Timestamp, lane: LaneKey) -> Vec<Task> {
    let closing = tables.lanes.get(&lane).is_some_and(|row| row.state == LaneState::Closing);
    let mut tasks = tables.pending(lane.0, lane.1);
    tasks.retain(|task| closing || task.due_at <= now);
    tasks
}

fn is_asked(tables: &Tables, ask: &LeaseAsk, task: &Task) -> bool {
    let job = tables.jobs.get(&(task.key.environment, JobId(task.key.subject)));
    ask.kinds.is_empty() || job.is_some_and(|row| ask.kinds.contains(&row.job.kind))
}

/// Returns the limits of a lane's endpoint.
fn limits_of(tables: &Tables, (environment, lane): LaneKey) -> LaneLimits {
    let known = tables.endpoint(environment, EndpointId(lane.0)).filter(|(_, deleted)| !deleted);
    let Some((endpoint, _)) = known else { return LaneLimits::default() };
    let inherited = resource::inherited(tables, environment, endpoint.application);
    let breaker = tables.lanes.get(&(environment, lane)).map(|row| row.breaker).unwrap_or_default();
    endpoint.clone().inheriting(inherited).limits().under(breaker)
}

fn first_due(tables: &Tables, lane: LaneKey) -> Timestamp {
    tables.pending(lane.0, lane.1).iter().map(|task| task.due_at).min().unwrap_or(Timestamp::NEVER)
}

fn hand_out(
    tables: &mut Tables,
    now: Timestamp,
    ask: &LeaseAsk,
    (open, limit_group): (&OpenFeed, Option<Id>),
    mut task: Task,
) -> Leased {
    task.epoch += 1;
    let work = work_of(tables, open, &task);
    let timeout = if let Work::Job { job: Some(job), .. } = &work { job.timeout } else { Default::default() };
    if let Some(row) = tables.tasks.get_mut(&task.key) {
        row.task = task;
        (row.place, row.leased_at) = (TaskPlace::Leased(ask.session), Some(now));
        row.limit_group = limit_group;
        row.deadline = ask.watched.then(|| now.plus(timeout));
    }
    let breaker = tables.lanes.get(&(task.key.environment, task.lane)).map(|row| row.breaker).unwrap_or_default();
    Leased { task, work, breaker }
}

fn work_of(tables: &Tables, open: &OpenFeed, task: &Task) -> Work {
    let environment = task.key.environment;
    match task.kind {
        TaskKind::Delivery => {
            let lane = tables.lanes.get(&(environment, task.lane));
            let message = lane
                .and_then(|lane| tables.messages.get(&(environment, lane.application, MessageId(task.key.subject))));
            let endpoint = tables.endpoint(environment, EndpointId(task.lane.0)).filter(|(_, deleted)| !deleted);
            let inherited = |it: &Endpoint| resource::inherited(tables, environment, it.application);
            let endpoint = endpoint.map(|(it, _)| Arc::new(resource::delivered(it.clone(), inherited(it))));
            Work::Delivery { message: message.cloned(), endpoint }
        }
        TaskKind::Job => {
            let job = tables.jobs.get(&(environment, JobId(task.key.subject))).map(|row| Arc::clone(&row.job));
            Work::Job { job, target: open.target.clone() }
        }
    }
}

/// Returns when a feed may have tasks again. Tasks that wait for capacity or for another worker do not count. A lane
/// with tasks for other workers is ready only if another task becomes due there.
fn next_ready(
    tables: &Tables,
    now: Timestamp,
    ask: &LeaseAsk,
    feeds: &BTreeMap<Feed, OpenFeed>,
    delayed: &BTreeSet<LaneKey>,
) -> Option<Timestamp> {
    let ready = |(lane, row): (&LaneKey, &LaneRow)| {
        // The node has refused lanes that are ready now: it knows when they have room.
        if ask.slots.is_some() && row.ready_at() <= now {
            return None;
        }
        let open = feeds.get(&feed_of(tables, *lane)).filter(|open| !open.allowance.is_full())?;
        let ready_at = row.ready_at();
        let is_foreign = ready_at <= now && delayed.contains(lane);
        let has_room = !is_foreign && open.lane_room(tables, ask, *lane) > 0;
        has_room.then(|| ready_at.max(open.allowance.free_at(now)))
    };
    tables.lanes.iter().filter_map(ready).min().filter(|at| *at < Timestamp::NEVER)
}

/// Takes over tasks whose holders have lost them.
pub(super) fn reclaim(tables: &mut Tables, now: Timestamp, ask: ReclaimAsk) -> Vec<Reclaimed> {
    let ReclaimAsk { session, limit, what } = ask;
    let is_lost = |row: &TaskRow| match (row.place, what) {
        (TaskPlace::Leased(owner), Reclaim::Orphaned) => !tables.is_open(owner),
        (TaskPlace::Leased(_), Reclaim::Overdue) => row.deadline.is_some_and(|at| at <= now),
        (TaskPlace::Pending | TaskPlace::Dead, _) => false,
    };
    let lost: Vec<_> = tables.tasks.iter().filter(|(_, row)| is_lost(row)).map(|(key, _)| *key).take(limit).collect();
    let mut taken = Vec::new();
    for key in lost {
        taken.extend(tables.tasks.get_mut(&key).and_then(|row| row.hand_over(session, now)));
    }
    if what == Reclaim::Overdue {
        for Reclaimed { task, job, .. } in &mut taken {
            let row = tables.jobs.get(&(task.key.environment, JobId(task.key.subject)));
            *job = row.map(|row| Arc::clone(&row.job));
        }
    }
    taken
}
