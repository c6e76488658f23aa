//! Lease of jobs: lock ready lanes of the asked queues, take a bounded number of due jobs from each, never more than limits allow.
//!
//! A queue with a limit or a rate is locked first; what is leased of it is counted by a statement that begins when the lock is held, and
//! every lease of it marks what it takes. So nothing has to be counted down when a job ends, however it ends. Lanes are treated as in
//! `lease`, by the protocol in `queries/lower_lane_due.sql` and `queries/mark_lane_empty.sql`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use everhook_core::id::{EnvironmentId, Id, LaneId, SessionId};
use everhook_core::job::{Job, kind_hash};
use everhook_core::limits::{KIND_SCAN_MAX, LEASE_JOBS_MAX};
use everhook_core::name::Name;
use everhook_core::queue::Target;
use everhook_core::task::Task;
use everhook_core::time::Timestamp;
use everhook_store::job::{JobAsk, JobGrant, LeasedJob};
use everhook_store::lease::Holding;
use everhook_store::{columns, statement};

use crate::columns::{Keys, TaskKeys};
use crate::error::Fault;
use crate::job::limit::{self, NextLaneQueue, OpenQueue, OpenQueues, QueueKeys, place, queue_keys};
use crate::lease::{MarkLaneEmpty, MoveLaneToBack};
use crate::store::PostgresStore;
use crate::tx::Tx;

columns! {
    /// Queues by number, with how many jobs each may give.
    QueueRooms of QueueRoom { n: u32, capacity: usize }

    /// Lanes, each with the number of its queue and how many jobs it may give.
    LaneRooms of LaneRoom { environment: EnvironmentId, id: LaneId, queue: u32, capacity: usize }

    /// Lane groups with the time until which their rates are used up.
    BookedGroups of BookedGroup { environment: EnvironmentId, id: Id, until: Timestamp }
}

statement! {
    pub(crate) LeaseJob = "lease_job" {
        queue: QueueRooms, lane: LaneRooms, limit_groups: Option<Vec<Option<Id>>>, now: Timestamp, limit: usize,
        owner: SessionId, watched: bool,
    } -> Vec<Task>;
    pub(crate) LeaseJobKind = "lease_job_kind" {
        queue: QueueRooms, lane: LaneRooms, limit_groups: Option<Vec<Option<Id>>>, now: Timestamp, limit: usize,
        owner: SessionId, watched: bool, scanned: usize, kind_hashes: Vec<i32>,
    } -> Vec<Task>;
    FindJobLeased = "find_job_leased" { wanted: Keys } -> Vec<(EnvironmentId, Job)>;
    ReleaseJobLease = "release_job_lease" { foreign_kind: TaskKeys };
    RecomputeLaneQueueDue = "recompute_lane_due_queue" { wanted: Keys };
    DelayLane = (
        "delay_lane",
        "update everhook.lane set next_due = greatest(next_due, :now) \
        from unnest(:used) \
        where lane.environment = any (array[used.environment]) and lane.id = used.id"
    ) { used: Keys, now: Timestamp };
    ReserveGroupRate = (
        "reserve_group_rate",
        "update everhook.lane_group set booked_until = used.until \
        from unnest(:used) \
        where lane_group.environment = any (array[used.environment]) and lane_group.id = used.id"
    ) { used: BookedGroups };
    // The number of a queue, and how long until a lane of it is ready, in micros; negative if it is.
    NextReadyQueue<'a> = "next_ready_queue" { wanted: QueueKeys<'a>, barren: Vec<LaneId> } -> Vec<(usize, i64)>;
    ReclaimJob = "reclaim_job" { owner: SessionId, limit: usize } -> Vec<(Task, Holding, Option<Job>)>;
}

/// When to ask again for a queue with a limit that another lease holds at this moment.
const HELD_BY_ANOTHER: Duration = Duration::from_millis(10);

/// A lane that this lease has locked.
pub(crate) struct ReadyLane {
    /// Which of the open queues.
    pub(crate) queue: usize,
    pub(crate) environment: EnvironmentId,
    pub(crate) id: LaneId,
    pub(crate) ready_at: Timestamp,
    /// How many more may be leased by the limit of its key.
    pub(crate) spare: usize,
    /// How many jobs it may give.
    pub(crate) capacity: usize,
}

/// What lanes are told after the lease took from them.
#[derive(Default)]
struct Turns {
    /// They gave all they were asked for: to the back.
    back: Vec<LaneKey>,
    /// They have nothing more that is due, or nothing for this asker.
    drain: Vec<LaneKey>,
    /// What is due in them is not to be taken now: behind those that are ready.
    defer: Vec<LaneKey>,
    /// They have nothing to give now, whatever their time says.
    barren: Vec<LaneId>,
    /// How many each queue gave.
    taken: Vec<usize>,
}

type LaneKey = (EnvironmentId, LaneId);

impl PostgresStore {
    pub(crate) async fn lease_jobs_once(&self, ask: &JobAsk) -> Result<JobGrant, Fault> {
        let limit = ask.limit.min(LEASE_JOBS_MAX);
        let tx = self.database.tx().await?;
        let OpenQueues { mut queues, lanes, now, is_held, share } = limit::open_queues(&tx, &self.targets, ask).await?;
        if queues.is_empty() {
            tx.roll_back().await?;
            return Ok(JobGrant { jobs: Vec::new(), next_ready: is_held.then_some(HELD_BY_ANOTHER) });
        }
        let lanes = ready_lanes(&tx, &mut queues, lanes, share, limit, now).await?;
        let jobs = take(&tx, ask, limit, &queues, &lanes, now).await?;
        let turns = turns(&queues, &lanes, &jobs, share, limit, ask);
        for (n, queue) in queues.iter_mut().enumerate() {
            queue.book(turns.taken[n], now);
        }
        let ready = turn_lanes(&tx, &turns, &queues, now).await?;
        // What is committed has to be told, whatever can be said of the time of the next look.
        let next_ready = next_ready(&ready, &queues, now).unwrap_or_default();
        let next_ready = next_ready.into_iter().chain(is_held.then_some(HELD_BY_ANOTHER)).min();
        Ok(JobGrant { jobs, next_ready })
    }
}

impl PostgresStore {
    pub(crate) async fn reclaim_overdue_once(
        &self,
        session: SessionId,
        limit: usize,
    ) -> Result<Vec<(LeasedJob, Holding)>, Fault> {
        let reclaimed = self.database.write(ReclaimJob { owner: session, limit }).await?;
        let read = |(task, from, job): (Task, Holding, Option<Job>)| {
            (LeasedJob { task, job: job.map(Arc::new), target: None }, from)
        };
        Ok(reclaimed.into_iter().map(read).collect())
    }
}

/// Adds lanes of the queues that are locked, those that have been ready longest, and says how much room each has.
async fn ready_lanes(
    tx: &Tx<'_>,
    queues: &mut [OpenQueue<'_>],
    mut lanes: Vec<ReadyLane>,
    share: usize,
    limit: usize,
    now: Timestamp,
) -> Result<Vec<ReadyLane>, Fault> {
    let locked: Vec<usize> = (0..queues.len()).filter(|n| queues[*n].is_locked).collect();
    if !locked.is_empty() {
        let wanted = queue_keys(locked.iter().map(|n| (queues[*n].ask, queues[*n].id)));
        let counts = limit::LeasedCounts::of_queues(queues);
        let next_lane = NextLaneQueue { wanted, limit: share, locked: true };
        let (counted, found) = tx.run((counts.statement(), next_lane)).await?;
        counts.apply(&counted, queues)?;
        lanes.extend(limit::ready_lanes(found, locked.len(), |n| locked.get(n).copied())?);
    }
    for queue in queues.iter_mut() {
        queue.make_room(limit, now);
    }
    for lane in &mut lanes {
        lane.capacity = queues[lane.queue].capacity;
    }
    limit::limit_keys(tx, queues, &mut lanes).await?;
    // The queue goes first whose lanes wait longest.
    let mut first = vec![Timestamp::NEVER; queues.len()];
    for lane in lanes.iter().filter(|lane| lane.capacity > 0) {
        first[lane.queue] = first[lane.queue].min(lane.ready_at);
    }
    lanes.sort_by_key(|lane| (first[lane.queue], lane.queue, lane.ready_at));
    Ok(lanes)
}

async fn take(
    tx: &Tx<'_>,
    ask: &JobAsk,
    limit: usize,
    queues: &[OpenQueue<'_>],
    lanes: &[ReadyLane],
    now: Timestamp,
) -> Result<Vec<LeasedJob>, Fault> {
    let open: Vec<&ReadyLane> = lanes.iter().filter(|lane| lane.capacity > 0).collect();
    if open.is_empty() {
        return Ok(Vec::new());
    }
    let mut order: Vec<usize> = open.iter().map(|lane| lane.queue).collect();
    order.dedup();
    let queue: QueueRooms = order.iter().map(|n| QueueRoom { n: number(*n), capacity: queues[*n].capacity }).collect();
    let lane_room = |lane: &&ReadyLane| LaneRoom {
        environment: lane.environment,
        id: lane.id,
        queue: number(lane.queue),
        capacity: lane.capacity,
    };
    let lane: LaneRooms = open.iter().map(lane_room).collect();
    let limit_groups: Vec<Option<Id>> = open.iter().map(|lane| queues[lane.queue].limit_group).collect();
    let limit_groups = limit_groups.iter().any(Option::is_some).then_some(limit_groups);
    let (owner, watched) = (ask.session, ask.watched);
    let mut tasks = if ask.kinds.is_empty() {
        tx.stream(LeaseJob { queue, lane, limit_groups, now, limit, owner, watched }).await?
    } else {
        let (scanned, kind_hashes) = (KIND_SCAN_MAX, ask.kinds.iter().map(kind_hash).collect());
        tx.stream(LeaseJobKind { queue, lane, limit_groups, now, limit, owner, watched, scanned, kind_hashes }).await?
    };
    // An update tells its rows in the order of its plan, which is nobody's promise.
    let turns: HashMap<_, usize> = open.iter().enumerate().map(|(n, lane)| ((lane.environment, lane.id), n)).collect();
    tasks.sort_by_key(|task| {
        let turn = turns.get(&(task.key.environment, task.lane)).copied();
        (turn, task.priority, task.due_at, task.key.id)
    });
    let jobs = attach_payloads(tx, tasks, &targets(queues, &open)).await?;
    put_back_foreign(tx, jobs, &ask.kinds).await
}

fn number(queue: usize) -> u32 {
    u32::try_from(queue).unwrap_or(u32::MAX)
}

/// Where the jobs of a lane go, if their queue has a target.
type Targets = HashMap<(EnvironmentId, LaneId), Arc<Target>>;

fn targets(queues: &[OpenQueue<'_>], lanes: &[&ReadyLane]) -> Targets {
    let target =
        |lane: &&ReadyLane| Some(((lane.environment, lane.id), Arc::clone(queues[lane.queue].target.as_ref()?)));
    lanes.iter().filter_map(target).collect()
}

/// Adds records and targets to tasks.
async fn attach_payloads(tx: &Tx<'_>, tasks: Vec<Task>, targets: &Targets) -> Result<Vec<LeasedJob>, Fault> {
    let wanted = Keys::of(tasks.iter().map(|task| (task.key.environment, task.key.subject)));
    let mut records: HashMap<(EnvironmentId, Id), Arc<Job>> = HashMap::with_capacity(tasks.len());
    if let Some(wanted) = wanted.nonempty() {
        let found = tx.stream(FindJobLeased { wanted }).await?;
        records.extend(found.into_iter().map(|(environment, job)| ((environment, job.id.0), Arc::new(job))));
    }
    let attach_payloads = |task: Task| LeasedJob {
        task,
        job: records.get(&(task.key.environment, task.key.subject)).cloned(),
        target: targets.get(&(task.key.environment, task.lane)).cloned(),
    };
    Ok(tasks.into_iter().map(attach_payloads).collect())
}

/// Puts back what is of a kind that was not asked for: two kinds may stand for the same number.
async fn put_back_foreign(tx: &Tx<'_>, jobs: Vec<LeasedJob>, kinds: &[Name]) -> Result<Vec<LeasedJob>, Fault> {
    let is_asked =
        |leased: &LeasedJob| kinds.is_empty() || leased.job.as_ref().is_none_or(|job| kinds.contains(&job.kind));
    let (jobs, foreign): (Vec<LeasedJob>, Vec<LeasedJob>) = jobs.into_iter().partition(is_asked);
    let foreign_kind = TaskKeys::of(foreign.iter().map(|leased| &leased.task.key));
    tx.run(foreign_kind.nonempty().map(|foreign_kind| ReleaseJobLease { foreign_kind })).await?;
    Ok(jobs)
}

/// What each lane is told, in the order in which they were asked.
fn turns(
    queues: &[OpenQueue<'_>],
    lanes: &[ReadyLane],
    jobs: &[LeasedJob],
    share: usize,
    limit: usize,
    ask: &JobAsk,
) -> Turns {
    let mut given: HashMap<(EnvironmentId, LaneId), usize> = HashMap::new();
    for LeasedJob { task, .. } in jobs {
        *given.entry((task.key.environment, task.lane)).or_default() += 1;
    }
    let mut turns = Turns { taken: vec![0; queues.len()], ..Turns::default() };
    let mut left = limit;
    for lane in lanes {
        let gave = given.get(&(lane.environment, lane.id)).copied().unwrap_or(0);
        let queue = &queues[lane.queue];
        let asked = lane.capacity.min(left).min(queue.capacity.saturating_sub(turns.taken[lane.queue]));
        left -= gave.min(left);
        turns.taken[lane.queue] += gave;
        match gave {
            // A limit of its key is in the way. It is not to stand before others whenever someone looks.
            0 if lane.capacity == 0 && queue.capacity > 0 => {
                turns.barren.push(lane.id);
                if lanes.iter().filter(|other| other.queue == lane.queue).count() >= share {
                    turns.defer.push((lane.environment, lane.id));
                }
            }
            _ if asked == 0 => {}
            _ if gave < asked => {
                turns.drain.push((lane.environment, lane.id));
                // What is due in it may be of other kinds.
                if !ask.kinds.is_empty() {
                    turns.defer.push((lane.environment, lane.id));
                    turns.barren.push(lane.id);
                }
            }
            _ if asked < lane.capacity => {}
            _ => {
                turns.back.push((lane.environment, lane.id));
                if gave >= lane.spare {
                    turns.barren.push(lane.id);
                }
            }
        }
    }
    turns
}

/// Tells every lane what comes next for it, keeps what rates have given, reads what is ready next, and commits, in one round trip. Where
/// there is nothing to tell it rolls back. Answers how long until each queue has a lane that is ready.
async fn turn_lanes(
    tx: &Tx<'_>,
    turns: &Turns,
    queues: &[OpenQueue<'_>],
    now: Timestamp,
) -> Result<Vec<(usize, i64)>, Fault> {
    let wanted = queue_keys(queues.iter().map(|queue| (queue.ask, queue.id)));
    let next_ready = NextReadyQueue { wanted, barren: turns.barren.clone() };
    let (drain, defer) = (lane_keys(&turns.drain), lane_keys(&turns.defer));
    if turns.taken.iter().all(|taken| *taken == 0) && drain.is_empty() && defer.is_empty() {
        let ready = tx.run(next_ready).await?;
        tx.roll_back().await?;
        return Ok(ready);
    }
    let booked = queues.iter().filter(|queue| queue.taken > 0 && queue.rate().is_some());
    let booked: BookedGroups = booked
        .map(|queue| BookedGroup { environment: queue.ask.environment, id: queue.id, until: queue.booked_until })
        .collect();
    let writes = (
        lane_keys(&turns.back).nonempty().map(|used| MoveLaneToBack { used, now }),
        drain.clone().nonempty().map(|wanted| MarkLaneEmpty { wanted }),
        drain.nonempty().map(|wanted| RecomputeLaneQueueDue { wanted }),
        defer.nonempty().map(|used| DelayLane { used, now }),
        booked.nonempty().map(|used| ReserveGroupRate { used }),
    );
    let (_, ready) = tx.finish((writes, next_ready)).await?;
    Ok(ready)
}

fn lane_keys(lanes: &[LaneKey]) -> Keys {
    Keys::of(lanes.iter().map(|(environment, lane)| (*environment, lane.0)))
}

/// The earliest time at which a queue may have something to give that has room for it.
fn next_ready(ready: &[(usize, i64)], queues: &[OpenQueue<'_>], now: Timestamp) -> Result<Option<Duration>, Fault> {
    let mut earliest = None;
    for (n, wait) in ready {
        let queue = &queues[place(*n, queues.len())?];
        if queue.is_full() {
            continue;
        }
        let wait = Duration::from_micros(u64::try_from(*wait).unwrap_or(0)).max(queue.token_in(now));
        earliest = Some(earliest.map_or(wait, |earliest: Duration| earliest.min(wait)));
    }
    Ok(earliest)
}
