//! Lease of jobs: lock ready lanes of the asked queues, take a bounded number of due jobs from each, never more than limits allow.
//!
//! A queue with a limit or a rate is locked first; what is leased of it is counted by a statement that begins when the lock is held, and
//! every lease of it marks what it takes. So nothing has to be counted down when a job ends, however it ends. Lanes are treated as in
//! `lease`, by the protocol in `queries/touch_lane.sql` and `queries/drain_lane.sql`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use everhook_core::id::{EnvironmentId, Id, JobId, LaneId, SessionId};
use everhook_core::job::{Job, handler};
use everhook_core::limits::{KIND_SCAN_MAX, LEASE_JOBS_MAX};
use everhook_core::name::Name;
use everhook_core::queue::Target;
use everhook_core::task::Task;
use everhook_core::time::Timestamp;
use everhook_store::job::{JobAsk, JobGrant, LeasedJob};
use everhook_store::lease::Holding;
use futures_util::future::{try_join, try_join5};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::catalog::count;
use crate::error::Fault;
use crate::job::gate::{self, OpenQueue, Opened};
use crate::job::rows::job_at;
use crate::lease::send_unless;
use crate::rows::{self, Reader, TASK_COLUMNS};
use crate::sql;
use crate::statement::{Params, Transaction, within};
use crate::store::PostgresStore;

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
    pub(crate) room: usize,
}

/// Lanes as columns.
type LaneColumns<'a> = (Vec<i32>, Vec<&'a [u8]>);

/// What lanes are told after the lease took from them.
#[derive(Default)]
struct Turns<'a> {
    /// They gave all they were asked for: to the back.
    back: LaneColumns<'a>,
    /// They have nothing more that is due, or nothing for this asker.
    drain: LaneColumns<'a>,
    /// What is due in them is not to be taken now: behind those that are ready.
    defer: LaneColumns<'a>,
    /// They have nothing to give now, whatever their time says.
    barren: Vec<&'a [u8]>,
    /// How many each queue gave.
    taken: Vec<usize>,
}

impl PostgresStore {
    pub(crate) async fn lease_jobs_once(&self, ask: &JobAsk) -> Result<JobGrant, Fault> {
        let limit = ask.limit.min(LEASE_JOBS_MAX);
        let transaction = self.database.transaction().await?;
        let Opened { mut queues, lanes, now, is_held, share } = gate::open_queues(&transaction, ask).await?;
        if queues.is_empty() {
            transaction.roll_back().await?;
            return Ok(JobGrant { jobs: Vec::new(), next_ready: is_held.then_some(HELD_BY_ANOTHER) });
        }
        let lanes = ready_lanes(&transaction, &mut queues, lanes, share, limit, now).await?;
        let jobs = take(&transaction, ask, limit, &queues, &lanes, now).await?;
        let turns = turns(&queues, &lanes, &jobs, share, limit, ask);
        for (n, queue) in queues.iter_mut().enumerate() {
            queue.book(turns.taken[n], now);
        }
        let ready_rows = turn_lanes(&transaction, &turns, &queues, now).await?;
        // What is committed has to be told, whatever can be said of the time of the next look.
        let next_ready = next_ready(&ready_rows, &queues, now).unwrap_or_default();
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
        let params: Params<'_> = &[&session.as_bytes().as_slice(), &count(limit)];
        let rows = self.database.write(&sql::RECLAIM_JOB, params).await?;
        let read = |row: &Row| {
            let task = rows::task(row)?;
            let from = rows::holding_at(row, TASK_COLUMNS)?;
            let job = job_at(row, TASK_COLUMNS + 2, JobId(task.key.subject))?.map(Arc::new);
            Ok((LeasedJob { task, job, target: None }, from))
        };
        rows.iter().map(read).collect()
    }
}

/// Adds lanes of the queues that are locked, those that have been ready longest, and says how much room each has.
async fn ready_lanes(
    transaction: &Transaction,
    queues: &mut [OpenQueue<'_>],
    mut lanes: Vec<ReadyLane>,
    share: usize,
    limit: usize,
    now: Timestamp,
) -> Result<Vec<ReadyLane>, Fault> {
    let locked: Vec<usize> = (0..queues.len()).filter(|n| queues[*n].is_locked).collect();
    if !locked.is_empty() {
        let (environments, names) = gate::columns(locked.iter().map(|n| queues[*n].ask));
        let (count_gate, next_lane) =
            (transaction.prepare(&sql::COUNT_GATE).await?, transaction.prepare(&sql::NEXT_LANE_QUEUE).await?);
        let counts = gate::Counts::of_queues(queues);
        let count_params = counts.params();
        let (counted, found) = within(try_join(
            send_unless(counts.is_empty(), transaction, &count_gate, &count_params),
            transaction.query(&next_lane, &[&environments, &names, &count(share), &true]),
        ))
        .await?;
        counts.apply(&counted, queues)?;
        lanes.extend(gate::read_lanes(&found, locked.len(), |n| locked.get(n).copied())?);
    }
    for queue in queues.iter_mut() {
        queue.make_room(limit, now);
    }
    for lane in &mut lanes {
        lane.room = queues[lane.queue].room;
    }
    gate::limit_keys(transaction, queues, &mut lanes).await?;
    // The queue goes first whose lanes wait longest.
    let mut first = vec![Timestamp::NEVER; queues.len()];
    for lane in lanes.iter().filter(|lane| lane.room > 0) {
        first[lane.queue] = first[lane.queue].min(lane.ready_at);
    }
    lanes.sort_by_key(|lane| (first[lane.queue], lane.queue, lane.ready_at));
    Ok(lanes)
}

async fn take(
    transaction: &Transaction,
    ask: &JobAsk,
    limit: usize,
    queues: &[OpenQueue<'_>],
    lanes: &[ReadyLane],
    now: Timestamp,
) -> Result<Vec<LeasedJob>, Fault> {
    let open: Vec<&ReadyLane> = lanes.iter().filter(|lane| lane.room > 0).collect();
    if open.is_empty() {
        return Ok(Vec::new());
    }
    let mut order: Vec<usize> = open.iter().map(|lane| lane.queue).collect();
    order.dedup();
    let (numbers, rooms): (Vec<i32>, Vec<i64>) = order.iter().map(|n| (number(*n), count(queues[*n].room))).unzip();
    let environments: Vec<i32> = open.iter().map(|lane| lane.environment.0).collect();
    let ids: Vec<&[u8]> = open.iter().map(|lane| lane.id.as_bytes().as_slice()).collect();
    let lane_queues: Vec<i32> = open.iter().map(|lane| number(lane.queue)).collect();
    let lane_rooms: Vec<i64> = open.iter().map(|lane| count(lane.room)).collect();
    let gates: Vec<Option<&[u8]>> =
        open.iter().map(|lane| queues[lane.queue].gate.as_ref().map(|gate| gate.as_bytes().as_slice())).collect();
    let gates = gates.iter().any(Option::is_some).then_some(gates);
    let (now, limit, session) = (now.as_micros(), count(limit), ask.session.as_bytes().as_slice());
    let mut params: Vec<&(dyn ToSql + Sync)> = vec![
        &numbers,
        &rooms,
        &environments,
        &ids,
        &lane_queues,
        &lane_rooms,
        &gates,
        &now,
        &limit,
        &session,
        &ask.watched,
    ];
    let (looked_at, handlers) = (count(KIND_SCAN_MAX), ask.kinds.iter().map(handler).collect::<Vec<_>>());
    let statement = if ask.kinds.is_empty() {
        &sql::LEASE_JOB
    } else {
        params.extend([&looked_at as &(dyn ToSql + Sync), &handlers]);
        &sql::LEASE_JOB_KIND
    };
    let mut tasks = transaction.rows_as(statement, &params, rows::task).await?;
    // An update tells its rows in the order of its plan, which is nobody's promise.
    let turns: HashMap<_, usize> = open.iter().enumerate().map(|(n, lane)| ((lane.environment, lane.id), n)).collect();
    tasks.sort_by_key(|task| {
        let turn = turns.get(&(task.key.environment, task.lane)).copied();
        (turn, task.priority, task.due_at, task.key.id)
    });
    let jobs = dress(transaction, tasks, &targets(queues, &open)).await?;
    put_back_foreign(transaction, jobs, &ask.kinds).await
}

fn number(queue: usize) -> i32 {
    i32::try_from(queue).unwrap_or(i32::MAX)
}

/// Where the jobs of a lane go, if their queue has a target.
type Targets = HashMap<(EnvironmentId, LaneId), Arc<Target>>;

fn targets(queues: &[OpenQueue<'_>], lanes: &[&ReadyLane]) -> Targets {
    let target =
        |lane: &&ReadyLane| Some(((lane.environment, lane.id), Arc::clone(queues[lane.queue].target.as_ref()?)));
    lanes.iter().filter_map(target).collect()
}

/// Adds records and targets to tasks.
async fn dress(transaction: &Transaction, tasks: Vec<Task>, targets: &Targets) -> Result<Vec<LeasedJob>, Fault> {
    let environments: Vec<i32> = tasks.iter().map(|task| task.key.environment.0).collect();
    let ids: Vec<&[u8]> = tasks.iter().map(|task| task.key.subject.as_bytes().as_slice()).collect();
    let read = |row: &Row| {
        let mut head = Reader::new(row, "job");
        let (environment, id) = (EnvironmentId(head.get("environment")?), head.id("id")?);
        let job = job_at(row, 2, JobId(id))?.ok_or_else(|| head.corrupt("queue"))?;
        Ok(((environment, id), Arc::new(job)))
    };
    let mut records: HashMap<(EnvironmentId, Id), Arc<Job>> = HashMap::with_capacity(tasks.len());
    if !ids.is_empty() {
        records.extend(transaction.rows_as(&sql::FIND_JOB_LEASED, &[&environments, &ids], read).await?);
    }
    let dress = |task: Task| LeasedJob {
        task,
        job: records.get(&(task.key.environment, task.key.subject)).cloned(),
        target: targets.get(&(task.key.environment, task.lane)).cloned(),
    };
    Ok(tasks.into_iter().map(dress).collect())
}

/// Puts back what is of a kind that was not asked for: two kinds may stand for the same number.
async fn put_back_foreign(
    transaction: &Transaction,
    jobs: Vec<LeasedJob>,
    kinds: &[Name],
) -> Result<Vec<LeasedJob>, Fault> {
    let is_asked =
        |leased: &LeasedJob| kinds.is_empty() || leased.job.as_ref().is_none_or(|job| kinds.contains(&job.kind));
    let (jobs, foreign): (Vec<LeasedJob>, Vec<LeasedJob>) = jobs.into_iter().partition(is_asked);
    if !foreign.is_empty() {
        let environments: Vec<i32> = foreign.iter().map(|leased| leased.task.key.environment.0).collect();
        let subjects: Vec<&[u8]> = foreign.iter().map(|leased| leased.task.key.subject.as_bytes().as_slice()).collect();
        let ids: Vec<&[u8]> = foreign.iter().map(|leased| leased.task.key.id.as_bytes().as_slice()).collect();
        transaction.change(&sql::PUT_BACK_JOB, &[&environments, &subjects, &ids]).await?;
    }
    Ok(jobs)
}

/// What each lane is told, in the order in which they were asked.
fn turns<'l>(
    queues: &[OpenQueue<'_>],
    lanes: &'l [ReadyLane],
    jobs: &[LeasedJob],
    share: usize,
    limit: usize,
    ask: &JobAsk,
) -> Turns<'l> {
    let mut given: HashMap<(EnvironmentId, LaneId), usize> = HashMap::new();
    for LeasedJob { task, .. } in jobs {
        *given.entry((task.key.environment, task.lane)).or_default() += 1;
    }
    let push = |columns: &mut LaneColumns<'l>, lane: &'l ReadyLane| {
        columns.0.push(lane.environment.0);
        columns.1.push(lane.id.as_bytes());
    };
    let mut turns = Turns { taken: vec![0; queues.len()], ..Turns::default() };
    let mut left = limit;
    for lane in lanes {
        let gave = given.get(&(lane.environment, lane.id)).copied().unwrap_or(0);
        let queue = &queues[lane.queue];
        let asked = lane.room.min(left).min(queue.room.saturating_sub(turns.taken[lane.queue]));
        left -= gave.min(left);
        turns.taken[lane.queue] += gave;
        match gave {
            // A limit of its key is in the way. It is not to stand before others whenever someone looks.
            0 if lane.room == 0 && queue.room > 0 => {
                turns.barren.push(lane.id.as_bytes());
                if lanes.iter().filter(|other| other.queue == lane.queue).count() >= share {
                    push(&mut turns.defer, lane);
                }
            }
            _ if asked == 0 => {}
            _ if gave < asked => {
                push(&mut turns.drain, lane);
                // What is due in it may be of other kinds.
                if !ask.kinds.is_empty() {
                    push(&mut turns.defer, lane);
                    turns.barren.push(lane.id.as_bytes());
                }
            }
            _ if asked < lane.room => {}
            _ => {
                push(&mut turns.back, lane);
                if gave >= lane.spare {
                    turns.barren.push(lane.id.as_bytes());
                }
            }
        }
    }
    turns
}

/// Tells every lane what comes next for it, keeps what rates have given, reads what is ready next, and commits, in one round trip. Where
/// there is nothing to tell it rolls back.
async fn turn_lanes(
    transaction: &Transaction,
    turns: &Turns<'_>,
    queues: &[OpenQueue<'_>],
    now: Timestamp,
) -> Result<Vec<Row>, Fault> {
    let booked: Vec<&OpenQueue<'_>> = queues.iter().filter(|queue| queue.taken > 0 && queue.rate().is_some()).collect();
    let (booked_environments, booked_names) = gate::columns(booked.iter().map(|queue| queue.ask));
    let until: Vec<i64> = booked.iter().map(|queue| queue.booked_until.as_micros()).collect();
    let (environments, names) = gate::columns(queues.iter().map(|queue| queue.ask));
    let rotate_lane = transaction.prepare(&sql::ROTATE_LANE).await?;
    let drain_lane = transaction.prepare(&sql::DRAIN_LANE).await?;
    let refill_lane = transaction.prepare(&sql::REFILL_LANE_QUEUE).await?;
    let defer_lane = transaction.prepare(&sql::DEFER_LANE).await?;
    let book_queue = transaction.prepare(&sql::BOOK_QUEUE).await?;
    let next_ready = transaction.prepare(&sql::NEXT_READY_QUEUE).await?;
    let now = now.as_micros();
    let (back, drain, defer) = (&turns.back, &turns.drain, &turns.defer);
    let next_params: Params<'_> = &[&environments, &names, &turns.barren];
    if turns.taken.iter().all(|taken| *taken == 0) && drain.0.is_empty() && defer.0.is_empty() {
        let ready = within(transaction.query(&next_ready, next_params)).await?;
        transaction.roll_back().await?;
        return Ok(ready);
    }
    let (_, ready) = transaction
        .commit_with(try_join(
            try_join5(
                send_unless(back.0.is_empty(), transaction, &rotate_lane, &[&back.0, &back.1, &now]),
                send_unless(drain.0.is_empty(), transaction, &drain_lane, &[&drain.0, &drain.1]),
                send_unless(drain.0.is_empty(), transaction, &refill_lane, &[&drain.0, &drain.1]),
                send_unless(defer.0.is_empty(), transaction, &defer_lane, &[&defer.0, &defer.1, &now]),
                send_unless(
                    booked.is_empty(),
                    transaction,
                    &book_queue,
                    &[&booked_environments, &booked_names, &until],
                ),
            ),
            transaction.query(&next_ready, next_params),
        ))
        .await?;
    Ok(ready)
}

/// The earliest time at which a queue may have something to give that has room for it.
fn next_ready(rows: &[Row], queues: &[OpenQueue<'_>], now: Timestamp) -> Result<Option<Duration>, Fault> {
    let mut earliest = None;
    for row in rows {
        let mut row = Reader::new(row, "lane");
        let (n, wait): (i64, i64) = (row.get("n")?, row.get("ready_at")?);
        let queue = usize::try_from(n - 1).ok().and_then(|n| queues.get(n)).ok_or_else(|| row.corrupt("n"))?;
        if queue.is_full() {
            continue;
        }
        let wait = Duration::from_micros(u64::try_from(wait).unwrap_or(0)).max(queue.token_in(now));
        earliest = Some(earliest.map_or(wait, |earliest: Duration| earliest.min(wait)));
    }
    Ok(earliest)
}
