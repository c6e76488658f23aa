//! Leasing due jobs: queues first, then their lanes in the order in which they became ready, then tasks by priority.
//!
//! There is one writer, so that what is counted for a limit cannot change before it is used. Never walks rows that are not due, nor more
//! than `KIND_SCAN_MAX` of a lane for a worker that takes only some kinds. Called by the store's `lease_jobs` and
//! `reclaim_overdue`, on the writer's thread.

use std::collections::HashSet;
use std::sync::Arc;

use everhook_core::id::{EnvironmentId, Id, LaneId, SessionId};
use everhook_core::job::{Job, kind_hash};
use everhook_core::limits::{
    APPEND_BATCH_BYTES_MAX, KIND_SCAN_MAX, LEASE_JOBS_MAX, LEASE_LANES_MAX, RECLAIM_BATCH_MAX,
};
use everhook_core::name::Name;
use everhook_core::queue::{QueueState, Target, queue_id};
use everhook_core::task::Task;
use everhook_core::time::Timestamp;
use everhook_store::job::{JobAsk, JobGrant, LeasedJob, QueueAsk};
use everhook_store::lease::{Holding, Reclaimed};
use everhook_store::queue::LaneGroup;
use everhook_store::statement;
use rusqlite::{CachedStatement, params};

use crate::error::Fault;
use crate::job::row;
use crate::resource;
use crate::rows::{self, Reader, TASK_COLUMNS};
use crate::session::{hand_over, held};
use crate::sql::{limit, run};
use crate::writer::Tx;

const NEXT_LANE_QUEUE: &str = include_str!("../../queries/next_lane_queue.sql");
const NEXT_JOB: &str = include_str!("../../queries/next_job.sql");
const LEASE_JOB: &str = include_str!("../../queries/lease_job.sql");
const FIND_JOB_RECORD: &str = include_str!("../../queries/find_job_record.sql");
const MARK_LANE_EMPTY: &str = include_str!("../../queries/mark_lane_empty.sql");
const RECOMPUTE_LANE_DUE_QUEUE: &str = include_str!("../../queries/recompute_lane_due_queue.sql");
const COUNT_LEASED: &str = include_str!("../../queries/count_leased.sql");
const COUNT_LEASED_LANE: &str = include_str!("../../queries/count_leased_lane.sql");
const NEXT_OVERDUE: &str = include_str!("../../queries/next_overdue.sql");

statement! {
    FindGroup = "find_group" { environment: EnvironmentId, id: Id } -> Option<LaneGroup>;
    ReserveGroupRate = (
        "reserve_group_rate",
        "update lane_group set booked_until = :until where environment = :environment and id = :id"
    ) { environment: EnvironmentId, id: Id, until: Timestamp };
}

/// Payload bytes one lease brings; the last job taken may exceed it.
const LEASE_BYTES_MAX: usize = APPEND_BATCH_BYTES_MAX;
/// 0 goes first.
const PRIORITIES: std::ops::RangeInclusive<i16> = 0..=9;

/// Leases due jobs to the asking session.
pub(crate) fn lease(tx: &Tx<'_>, ask: &JobAsk) -> Result<JobGrant, Fault> {
    let mut taking = Taking::new(tx, ask)?;
    for lane in taking.ready_lanes()? {
        taking.take_from(&lane)?;
    }
    for source in &taking.sources {
        source.book(tx)?;
    }
    let next_ready = taking.next_ready()?.map(|at| at.since(tx.now));
    Ok(JobGrant { jobs: taking.jobs, next_ready })
}

/// Jobs that were taken over, and from whom.
type Overdue = Vec<(LeasedJob, Holding)>;

/// Gives jobs whose time is over to `session`; a new epoch turns what their holders still say into nothing.
pub(crate) fn reclaim_overdue(tx: &Tx<'_>, session: SessionId, most: usize) -> Result<Overdue, Fault> {
    let mut overdue = tx.conn.prepare_cached(NEXT_OVERDUE)?;
    let params = params![tx.now.as_micros(), limit(most.min(RECLAIM_BATCH_MAX))];
    let overdue = overdue.query_and_then(params, held)?.collect::<Result<Vec<_>, Fault>>()?;
    let mut find = tx.conn.prepare_cached(FIND_JOB_RECORD)?;
    let attach_payloads = |Reclaimed { task, from, .. }: Reclaimed| {
        Ok((LeasedJob { task, job: read_job(&mut find, &task)?.map(Arc::new), target: None }, from))
    };
    hand_over(tx, session, &overdue)?.into_iter().map(attach_payloads).collect()
}

fn read_job(find: &mut CachedStatement<'_>, task: &Task) -> Result<Option<Job>, Fault> {
    let mut rows = find.query(params![task.key.environment.0, task.key.subject.as_bytes()])?;
    rows.next()?.map(|row| row::job(row).map(|(job, _)| job)).transpose()
}

/// A queue that is asked for jobs, and what it may still give.
struct QueueSource {
    environment: EnvironmentId,
    name: Name,
    /// The id of its lane group.
    id: Id,
    group: LaneGroup,
    target: Option<Arc<Target>>,
    /// What its leased tasks are counted under, if it has a limit.
    limit_group: Option<Id>,
    /// By its limit.
    limit_left: usize,
    /// By its limit, its rate, and the ask.
    left: usize,
    taken: usize,
}

impl QueueSource {
    /// None if it gives nothing, whatever is in it.
    fn open(tx: &Tx<'_>, asked: &QueueAsk) -> Result<Option<QueueSource>, Fault> {
        let environment = asked.environment;
        let id = queue_id(environment, &asked.name);
        let group = run(tx.conn, FindGroup { environment, id })?.unwrap_or(LaneGroup::OPEN);
        if group.state != QueueState::Open || asked.capacity == 0 {
            return Ok(None);
        }
        let limit_group = group.is_limited().then_some(id);
        let limit_left = match (group.limit, limit_group) {
            (Some(limit), Some(limit_group)) => capacity(limit, |most| count(tx, limit_group, None, most))?,
            _ => usize::MAX,
        };
        let by_rate = group.rate.map_or(usize::MAX, |rate| rate.take(group.booked_until, tx.now, usize::MAX).0);
        let left = asked.capacity.min(limit_left).min(by_rate);
        let target = if group.pushes { resource::find_target(tx.conn, environment, id)?.map(Arc::new) } else { None };
        let name = asked.name.clone();
        Ok(Some(QueueSource { environment, name, id, group, target, limit_group, limit_left, left, taken: 0 }))
    }

    /// How many more jobs of a lane may be leased. A lane without a concurrency key has no limit of its own.
    fn key_capacity(&self, tx: &Tx<'_>, lane: LaneId) -> Result<usize, Fault> {
        match (self.group.lane_limit, self.limit_group) {
            (Some(limit), Some(limit_group)) if lane.0 != limit_group => {
                capacity(limit, |most| count(tx, limit_group, Some(lane), most))
            }
            _ => Ok(usize::MAX),
        }
    }

    fn used(&mut self, jobs: usize) {
        self.taken += jobs;
        self.left = self.left.saturating_sub(jobs);
        self.limit_left = self.limit_left.saturating_sub(jobs);
    }

    /// Until when its rate is used up, after what was taken.
    fn booked_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.group.rate.map(|rate| rate.take(self.group.booked_until, now, self.taken).1)
    }

    fn book(&self, tx: &Tx<'_>) -> Result<(), Fault> {
        match self.booked_until(tx.now) {
            Some(until) if self.taken > 0 => {
                let (environment, id) = (self.environment, self.id);
                run(tx.conn, ReserveGroupRate { environment, id, until }).map(drop)
            }
            _ => Ok(()),
        }
    }
}

/// What a limit leaves; no more is counted than can matter.
fn capacity(limit: u32, count: impl FnOnce(u32) -> Result<u32, Fault>) -> Result<usize, Fault> {
    let left = limit.saturating_sub(count(limit)?);
    Ok(usize::try_from(left).unwrap_or(usize::MAX))
}

/// How many leased tasks are counted in a limit group, of one lane or of all; `most` at most.
fn count(tx: &Tx<'_>, limit_group: Id, lane: Option<LaneId>, most: u32) -> Result<u32, Fault> {
    Ok(match lane {
        None => {
            tx.conn.prepare_cached(COUNT_LEASED)?.query_row(params![limit_group.as_bytes(), most], |row| row.get(0))?
        }
        Some(lane) => {
            let params = params![limit_group.as_bytes(), lane.as_bytes(), most];
            tx.conn.prepare_cached(COUNT_LEASED_LANE)?.query_row(params, |row| row.get(0))?
        }
    })
}

/// A lane that is ready, and whose it is.
struct ReadyLane {
    ready_at: Timestamp,
    id: LaneId,
    source: usize,
}

/// A task that may be leased.
struct Candidate {
    task: Task,
    timeout_us: i64,
}

/// How a look at a lane ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScanEnd {
    /// It gave all it was asked for and may have more.
    Filled,
    /// It gave all that is due.
    Drained,
    /// What is due there is of other kinds.
    Foreign,
}

/// A lease that is being filled.
struct Taking<'t> {
    tx: &'t Tx<'t>,
    ask: &'t JobAsk,
    limit: usize,
    /// What the kinds that were asked for are in tasks; empty means all.
    kind_hashes: HashSet<i32>,
    sources: Vec<QueueSource>,
    jobs: Vec<LeasedJob>,
    payload_bytes: usize,
    /// Lanes that are ready, but not for this worker.
    foreign: HashSet<(EnvironmentId, LaneId)>,
    next_job: CachedStatement<'t>,
    find_job: CachedStatement<'t>,
    lease_job: CachedStatement<'t>,
}

impl<'t> Taking<'t> {
    fn new(tx: &'t Tx<'t>, ask: &'t JobAsk) -> Result<Taking<'t>, Fault> {
        let mut sources: Vec<QueueSource> = Vec::with_capacity(ask.queues.len());
        for asked in &ask.queues {
            // One that is named twice would be counted twice.
            let known = |source: &QueueSource| source.environment == asked.environment && source.name == asked.name;
            if !sources.iter().any(known) {
                sources.extend(QueueSource::open(tx, asked)?);
            }
        }
        Ok(Taking {
            tx,
            ask,
            limit: ask.limit.min(LEASE_JOBS_MAX),
            kind_hashes: ask.kinds.iter().map(kind_hash).collect(),
            sources,
            jobs: Vec::new(),
            payload_bytes: 0,
            foreign: HashSet::new(),
            next_job: tx.conn.prepare_cached(NEXT_JOB)?,
            find_job: tx.conn.prepare_cached(FIND_JOB_RECORD)?,
            lease_job: tx.conn.prepare_cached(LEASE_JOB)?,
        })
    }

    fn is_full(&self) -> bool {
        self.jobs.len() >= self.limit || self.payload_bytes >= LEASE_BYTES_MAX
    }

    /// Lanes with room that are ready, of all queues with room, in the order in which they became so.
    fn ready_lanes(&self) -> Result<Vec<ReadyLane>, Fault> {
        let mut ready = Vec::new();
        for (index, source) in self.sources.iter().enumerate().filter(|(_, source)| source.left > 0) {
            let before = ready.len();
            self.walk(source, |ready_at, id| {
                if ready_at > self.tx.now || ready.len() - before == LEASE_LANES_MAX {
                    return Ok(false);
                }
                if source.key_capacity(self.tx, id)? > 0 {
                    ready.push(ReadyLane { ready_at, id, source: index });
                }
                Ok(true)
            })?;
        }
        ready.sort_by_key(|lane| (lane.ready_at, lane.id));
        ready.truncate(LEASE_LANES_MAX);
        Ok(ready)
    }

    /// Shows the lanes of a queue in the order in which they become ready, until it is told to stop. Lanes without room are walked over:
    /// only those with leased tasks can have none, so that there are few.
    fn walk(
        &self,
        source: &QueueSource,
        mut visit: impl FnMut(Timestamp, LaneId) -> Result<bool, Fault>,
    ) -> Result<(), Fault> {
        let mut next = self.tx.conn.prepare_cached(NEXT_LANE_QUEUE)?;
        let mut rows = next.query(params![source.environment.0, source.name.as_str()])?;
        while let Some(row) = rows.next()? {
            let record = Reader::new(row, "lane");
            if !visit(record.time(1, "next_due")?, LaneId(record.id(0, "id")?))? {
                break;
            }
        }
        Ok(())
    }

    /// Leases what is due in a lane, up to its room, and says when it is to be looked at again.
    fn take_from(&mut self, lane: &ReadyLane) -> Result<(), Fault> {
        let source = &self.sources[lane.source];
        let environment = source.environment;
        let wanted = source.left.min(source.key_capacity(self.tx, lane.id)?).min(self.limit - self.jobs.len());
        if wanted == 0 || self.is_full() {
            return Ok(());
        }
        let key = (environment.0, lane.id.as_bytes());
        match self.look(lane, environment, wanted)? {
            // Behind every lane that is ready already: they take turns.
            ScanEnd::Filled => {
                let now = self.tx.now.as_micros();
                self.tx.conn.prepare_cached(MARK_LANE_EMPTY)?.execute(params![key.0, key.1, now])?;
            }
            ScanEnd::Drained => {
                self.tx.conn.prepare_cached(RECOMPUTE_LANE_DUE_QUEUE)?.execute(params![key.0, key.1])?;
            }
            // It is as ready as before, for others; but behind those that may have something for this one.
            ScanEnd::Foreign => {
                let now = self.tx.now.as_micros();
                self.tx.conn.prepare_cached(MARK_LANE_EMPTY)?.execute(params![key.0, key.1, now])?;
                self.foreign.insert((environment, lane.id));
            }
        }
        Ok(())
    }

    fn look(&mut self, lane: &ReadyLane, environment: EnvironmentId, wanted: usize) -> Result<ScanEnd, Fault> {
        let mut taken = 0;
        let mut scanned = 0;
        let mut is_foreign = false;
        for priority in PRIORITIES {
            let (candidates, seen) = self.candidates(lane, environment, priority, (wanted - taken, scanned))?;
            scanned += seen;
            is_foreign |= seen > candidates.len();
            for candidate in candidates {
                if self.is_full() {
                    return Ok(ScanEnd::Filled);
                }
                let leased = self.lease(lane.source, &candidate)?;
                taken += usize::from(leased);
                is_foreign |= !leased;
            }
            if taken == wanted {
                return Ok(ScanEnd::Filled);
            }
        }
        Ok(if is_foreign { ScanEnd::Foreign } else { ScanEnd::Drained })
    }

    /// Due tasks of one priority that may be of a kind that was asked for, and how many were looked at.
    fn candidates(
        &mut self,
        lane: &ReadyLane,
        environment: EnvironmentId,
        priority: i16,
        (wanted, scanned): (usize, usize),
    ) -> Result<(Vec<Candidate>, usize), Fault> {
        let most = if self.kind_hashes.is_empty() { wanted } else { KIND_SCAN_MAX.saturating_sub(scanned) };
        let now = self.tx.now.as_micros();
        let params = params![environment.0, lane.id.as_bytes(), priority, now, limit(most)];
        let mut rows = self.next_job.query(params)?;
        let (mut candidates, mut seen) = (Vec::new(), 0);
        while candidates.len() < wanted
            && let Some(row) = rows.next()?
        {
            seen += 1;
            let record = Reader::new(row, "task");
            let kind_hash: Option<i32> = record.get(TASK_COLUMNS + 1, "kind_hash")?;
            if self.kind_hashes.is_empty() || kind_hash.is_some_and(|kind_hash| self.kind_hashes.contains(&kind_hash)) {
                let timeout_us: Option<i64> = record.get(TASK_COLUMNS, "timeout_us")?;
                candidates.push(Candidate { task: rows::task(row, 0)?, timeout_us: timeout_us.unwrap_or_default() });
            }
        }
        Ok((candidates, seen))
    }

    /// Leases a task, unless its job is of a kind that was not asked for.
    fn lease(&mut self, source: usize, candidate: &Candidate) -> Result<bool, Fault> {
        let task = Task { epoch: candidate.task.epoch + 1, ..candidate.task };
        let job = read_job(&mut self.find_job, &task)?;
        // Two kinds may stand for the same number.
        let is_asked = |job: &Job| self.ask.kinds.is_empty() || self.ask.kinds.contains(&job.kind);
        if job.as_ref().is_some_and(|job| !is_asked(job)) {
            return Ok(false);
        }
        let source = &mut self.sources[source];
        let deadline = self.ask.watched.then(|| self.tx.now.as_micros().saturating_add(candidate.timeout_us));
        self.lease_job.execute(params![
            task.key.environment.0,
            task.key.subject.as_bytes(),
            task.key.id.as_bytes(),
            self.ask.session.as_bytes(),
            source.limit_group.as_ref().map(|limit_group| limit_group.as_bytes()),
            deadline,
            self.tx.now.as_micros(),
        ])?;
        source.used(1);
        self.payload_bytes += job.as_ref().and_then(|job| job.payload.as_ref()).map_or(0, |payload| payload.len());
        self.jobs.push(LeasedJob { task, job: job.map(Arc::new), target: source.target.clone() });
        Ok(true)
    }

    /// When one of the queues may have something to give; not for what waits for room, nor for what is not asked for.
    fn next_ready(&self) -> Result<Option<Timestamp>, Fault> {
        let mut next = None;
        for source in self.sources.iter().filter(|source| source.limit_left > 0) {
            let from = source.booked_until(self.tx.now).unwrap_or_default();
            self.walk(source, |ready_at, lane| {
                if self.foreign.contains(&(source.environment, lane)) || source.key_capacity(self.tx, lane)? == 0 {
                    return Ok(true);
                }
                let at = ready_at.max(from);
                next = Some(next.map_or(at, |next: Timestamp| next.min(at)));
                Ok(false)
            })?;
        }
        Ok(next)
    }
}
