//! Leases due tasks: feeds first, then their lanes in the order in which they became ready, then a bounded number of
//! rows from each, by priority.
//!
//! A lease never reads rows that are not due, however many a lane has. For a worker that takes only some kinds it reads
//! at most `KIND_SCAN_MAX` rows of a lane. `core::lane` decides how much each lane gives and its next state. Called by
//! the store's `lease`, on the writer's thread.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use everhook_core::fair::{GroupId, GroupedLane};
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, Id, LaneId, MessageId, SessionId};
use everhook_core::job::{Job, kind_hash};
use everhook_core::lane::{Given, HoldKind, LanePosition, LaneState, Turn, turn};
use everhook_core::limits::{APPEND_BATCH_BYTES_MAX, KIND_SCAN_MAX, LEASE_LANES_MAX, LEASE_SCAN_MAX};
use everhook_core::message::Message;
use everhook_core::policy::breaker::Breaker;
use everhook_core::policy::limit::{Hold, LaneLimits, LockedLane};
use everhook_core::scope::AppScope;
use everhook_core::task::{PRIORITY_DEFAULT, Task, TaskKey, TaskKind};
use everhook_core::time::Timestamp;
use everhook_store::capacity::PlannedSlots;
use everhook_store::catalog::Locator;
use everhook_store::lease::{LeaseAsk, LeaseGrant, Leased, Work};
use everhook_store::sql::rows::json;
use everhook_store::{row, statement};

use crate::endpoints::Applications;
use crate::error::Fault;
use crate::feed::{OpenFeed, count};
use crate::history;
use crate::job::query::find_record;
use crate::sql::{Prepared, prepare, run, stream};
use crate::writer::Tx;

row! {
    struct LaneRow in "lane" {
        environment: EnvironmentId,
        id: LaneId,
        application: Option<ApplicationId>,
        state: LaneState,
        ready_at: Timestamp,
        hold_until: Timestamp,
        last_position: Timestamp,
        breaker: Breaker,
    }
}

statement! {
    NextLane<'a> = "next_lane" { feed: &'a [u8], ready_at: Timestamp, environment: EnvironmentId, lane: &'a [u8] }
        -> Vec<LaneRow>;
    NextTask = "next_task" {
        environment: EnvironmentId, lane: LaneId, priority: i16, due_until: Timestamp, limit: usize,
    } -> Vec<Candidate>;
    LeaseTask = "lease_task" {
        key: TaskKey, owner: SessionId, limit_group: Option<Id>, deadline: Option<Timestamp>, now: Timestamp,
    };
    RecomputeLaneDue = "recompute_lane_due" { environment: EnvironmentId, lane: LaneId, priorities: String };
    MarkLaneEmpty = "mark_lane_empty" { environment: EnvironmentId, lane: LaneId, now: Timestamp };
    FindLaneBlocked = "find_lane_blocked" { environment: EnvironmentId, lane: LaneId, priority: i16 } -> Option<bool>;
    BookLane = "book_lane" { environment: EnvironmentId, lane: LaneId, until: Timestamp, kind: HoldKind };
}

/// A pending task, its time limit in microseconds, and the hash of its kind.
type Candidate = (Task, Option<i64>, Option<i32>);

/// Before the first lane of a feed.
const BEFORE_LANES: (Timestamp, EnvironmentId) = (Timestamp::from_micros(-1), EnvironmentId(-1));

/// The payload bytes of one lease; the last task may exceed them.
const LEASE_BYTES_MAX: usize = APPEND_BATCH_BYTES_MAX;

/// Leases due tasks to the asking session.
pub(crate) fn lease(tx: &Tx<'_>, ask: &LeaseAsk) -> Result<LeaseGrant, Fault> {
    let mut taking = Taking::new(tx, ask)?;
    let (ready, resume) = taking.ready_lanes()?;
    taking.planned =
        ask.slots.as_ref().map(|slots| slots.plan(ready.iter().map(ReadyLane::grouped).collect(), taking.limit));
    for lane in &ready {
        taking.take_from(lane)?;
    }
    for open in &taking.feeds {
        open.book(tx)?;
    }
    let is_spent = taking.planned.as_ref().is_some_and(|planned| planned.is_spent);
    let has_more = taking.planned.is_some() && (is_spent || taking.has_more || resume.is_some());
    let next_ready = if has_more { Some(tx.now) } else { taking.next_ready()? };
    Ok(LeaseGrant {
        slots: taking.planned.as_mut().map(|planned| planned.take(&taking.tasks)).unwrap_or_default(),
        // Lanes that are left because the lease is full are next.
        resume: if is_spent { ask.after } else { resume },
        next_ready: next_ready.map(|at| at.since(tx.now)),
        tasks: taking.tasks,
    })
}

/// Holds a lane until its limits allow more deliveries.
pub(crate) fn book_lane(tx: &Tx<'_>, (environment, lane): (EnvironmentId, LaneId), hold: Hold) -> Result<(), Fault> {
    let Hold { until, kind } = hold;
    run(tx.conn, BookLane { environment, lane, until, kind }).map(drop)
}

/// A lane that is ready now or later.
struct ReadyLane {
    /// The index of its open feed.
    feed: usize,
    row: LaneRow,
}

impl ReadyLane {
    /// A lane of an endpoint always has an application.
    fn grouped(&self) -> GroupedLane {
        let id = self.row.application.map_or(self.row.id.0, |application| application.0);
        GroupedLane { group: GroupId { environment: self.row.environment, id }, lane: self.row.id }
    }

    fn position(&self) -> LanePosition {
        LanePosition { ready_at: self.row.ready_at, environment: self.row.environment, lane: self.row.id }
    }
}

/// The result of scanning a lane.
#[derive(Default)]
struct Scan {
    gave: usize,
    /// Due tasks were skipped, because the asker does not take their kind.
    is_foreign: bool,
    /// The lease became full before the scan ended.
    is_cut_off: bool,
}

/// A lease in progress.
struct Taking<'t> {
    tx: &'t Tx<'t>,
    ask: &'t LeaseAsk,
    limit: usize,
    free_by_lane: HashMap<LaneId, usize>,
    /// The kind hashes to match in the task table; empty means all.
    kind_hashes: HashSet<i32>,
    feeds: Vec<OpenFeed>,
    tasks: Vec<Leased>,
    payload_bytes: usize,
    applications: Applications,
    /// Cached, because one message may go to many lanes.
    messages: HashMap<(EnvironmentId, Id), Option<Arc<Message>>>,
    /// Lanes that are ready, but only with kinds that the asker does not take.
    foreign: HashSet<(EnvironmentId, LaneId)>,
    full_groups: HashSet<GroupId>,
    /// The slots that the node gives to lanes, if it decides.
    planned: Option<PlannedSlots>,
    /// A lane that had its turn may have more due tasks.
    has_more: bool,
    next_task: Prepared<'t>,
    lease_task: Prepared<'t>,
}

impl<'t> Taking<'t> {
    fn new(tx: &'t Tx<'t>, ask: &'t LeaseAsk) -> Result<Taking<'t>, Fault> {
        let mut feeds: Vec<OpenFeed> = Vec::with_capacity(ask.feeds.len());
        for asked in &ask.feeds {
            // A feed that is named twice would be counted twice.
            if !feeds.iter().any(|open| open.feed == asked.feed) {
                feeds.extend(OpenFeed::open(tx, asked)?);
            }
        }
        Ok(Taking {
            tx,
            ask,
            limit: ask.tasks_max(),
            free_by_lane: ask.free_by_lane.iter().copied().collect(),
            kind_hashes: ask.kinds.iter().map(kind_hash).collect(),
            feeds,
            tasks: Vec::new(),
            payload_bytes: 0,
            applications: Applications::default(),
            messages: HashMap::new(),
            foreign: HashSet::new(),
            full_groups: ask.full_groups.iter().copied().collect(),
            planned: None,
            has_more: false,
            next_task: prepare::<NextTask>(tx.conn)?,
            lease_task: prepare::<LeaseTask>(tx.conn)?,
        })
    }

    fn is_full(&self) -> bool {
        self.tasks.len() >= self.limit || self.payload_bytes >= LEASE_BYTES_MAX
    }

    /// Returns the most tasks that a lane may give, by the asker's capacity and the limits of its queue.
    fn lane_room(&self, open: &OpenFeed, lane: LaneId) -> Result<usize, Fault> {
        match self.free_by_lane.get(&lane).copied().unwrap_or(self.ask.per_lane) {
            0 => Ok(0),
            free => Ok(open.lane_room(self.tx, lane)?.min(free)),
        }
    }

    /// Returns ready lanes with free capacity, of all feeds with free capacity, in the order in which they became
    /// ready, and the position after them if there may be more. If the node plans the slots, the lease considers only a
    /// bounded number of lanes, because a group at its share may have very many.
    fn ready_lanes(&self) -> Result<(Vec<ReadyLane>, Option<LanePosition>), Fault> {
        let (mut ready, mut resume) = (Vec::new(), None);
        let scan_max = if self.ask.slots.is_some() { LEASE_SCAN_MAX } else { usize::MAX };
        for (index, open) in self.feeds.iter().enumerate().filter(|(_, open)| open.allowance.left() > 0) {
            let (before, mut scanned, mut last) = (ready.len(), 0, None);
            self.walk(index, self.ask.after, |lane| {
                if lane.row.ready_at > self.tx.now {
                    return Ok(false);
                }
                if ready.len() - before == LEASE_LANES_MAX || scanned == scan_max {
                    resume = last;
                    return Ok(false);
                }
                (last, scanned) = (Some(lane.position()), scanned + 1);
                let is_passed =
                    self.ask.paused.contains(&lane.row.environment) || self.full_groups.contains(&lane.grouped().group);
                if !is_passed && self.lane_room(open, lane.row.id)? > 0 {
                    ready.push(lane);
                }
                Ok(true)
            })?;
        }
        ready.sort_by_key(|lane| (lane.row.ready_at, lane.row.id));
        ready.truncate(LEASE_LANES_MAX);
        Ok((ready, resume))
    }

    /// Visits the lanes of a feed in the order in which they become ready, until the visitor returns false. Lanes
    /// without free capacity are skipped one by one: only lanes with leased tasks can be full, so there are few.
    fn walk(
        &self,
        feed: usize,
        after: Option<LanePosition>,
        mut visit: impl FnMut(ReadyLane) -> Result<bool, Fault>,
    ) -> Result<(), Fault> {
        let (ready_at, environment) = after.map_or(BEFORE_LANES, |at| (at.ready_at, at.environment));
        let lane = after.map(|at| at.lane);
        let lane: &[u8] = lane.as_ref().map_or(&[], |lane| lane.as_bytes());
        let next = NextLane { feed: self.feeds[feed].key.as_bytes(), ready_at, environment, lane };
        stream(self.tx.conn, next, |rows| {
            for row in rows {
                if !visit(ReadyLane { feed, row: row? })? {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Leases due tasks of a lane, up to its capacity, and sets the time of its next turn.
    fn take_from(&mut self, lane: &ReadyLane) -> Result<(), Fault> {
        let open = &self.feeds[lane.feed];
        let planned = self.planned.as_ref().map_or(usize::MAX, |planned| planned.room(lane.row.id));
        let room = self.lane_room(open, lane.row.id)?.min(open.allowance.room()).min(self.limit).min(planned);
        let left = open.allowance.left().min(self.limit - self.tasks.len());
        if room.min(left) == 0 || self.is_full() {
            return Ok(());
        }
        let limits = self.limits(lane)?;
        // The lane of a limited endpoint counts its own deliveries.
        let (own, environment) = (limits.group(lane.row.id), lane.row.environment);
        let counted = |group| count(self.tx, (environment, group), Some(lane.row.id), limits.at_once());
        let leased = own.map_or(Ok(0), counted)?;
        let limit_group = own.or(self.feeds[lane.feed].limit_group);
        let is_behind_dead = limits.is_blocked_by_dead() && self.is_behind_dead(lane)?;
        let locked = LockedLane { hold_until: lane.row.hold_until, leased, is_behind_dead, now: self.tx.now };
        let room = room.min(limits.room(locked));
        let asked = room.min(left);
        let is_closing = lane.row.state == LaneState::Closing;
        let now = self.tx.now;
        let due_until = if is_closing { Timestamp::NEVER } else { limits.due_until(lane.row.last_position, now) };
        let Scan { gave, is_foreign, is_cut_off } = self.scan(lane, asked, limit_group, due_until)?;
        let asked = if is_cut_off { gave } else { asked };
        let to_back = || run(self.tx.conn, MarkLaneEmpty { environment, lane: lane.row.id, now });
        let hold = limits.hold(locked, gave);
        if let Some(hold) = hold {
            book_lane(self.tx, (lane.row.environment, lane.row.id), hold)?;
        }
        match turn(Given { room, asked, gave, is_foreign }) {
            Turn::Keep | Turn::Stay { .. } => {}
            Turn::Back => {
                to_back()?;
                self.has_more |= hold.is_none_or(|hold| hold.until <= self.tx.now);
            }
            Turn::Delay => {
                to_back()?;
                self.foreign.insert((lane.row.environment, lane.row.id));
            }
            Turn::Empty => {
                let priorities = json(&self.feeds[lane.feed].feed.priorities());
                run(self.tx.conn, RecomputeLaneDue { environment, lane: lane.row.id, priorities })?;
            }
        }
        Ok(())
    }

    /// Returns the limits of the lane's endpoint.
    fn limits(&mut self, lane: &ReadyLane) -> Result<LaneLimits, Fault> {
        let application = lane.row.application.filter(|_| lane.row.state != LaneState::Closing);
        let Some(application) = application else { return Ok(LaneLimits::default()) };
        let set = self.applications.endpoints(self.tx, lane.row.environment, application)?;
        let endpoint = set.as_ref().and_then(|set| set.find(EndpointId(lane.row.id.0)));
        Ok(endpoint.map(|endpoint| endpoint.limits().under(lane.row.breaker)).unwrap_or_default())
    }

    /// Whether a dead delivery comes before the first pending one of a lane.
    fn is_behind_dead(&self, lane: &ReadyLane) -> Result<bool, Fault> {
        let LaneRow { environment, id: lane, .. } = lane.row;
        let blocked = run(self.tx.conn, FindLaneBlocked { environment, lane, priority: PRIORITY_DEFAULT })?;
        Ok(blocked.unwrap_or_default())
    }

    fn scan(
        &mut self,
        lane: &ReadyLane,
        asked: usize,
        limit_group: Option<Id>,
        due_until: Timestamp,
    ) -> Result<Scan, Fault> {
        let (mut scan, mut scanned) = (Scan::default(), 0);
        if asked == 0 {
            return Ok(scan);
        }
        for priority in self.feeds[lane.feed].feed.priorities() {
            let (candidates, seen) = self.candidates(lane, (*priority, due_until), asked - scan.gave, scanned)?;
            scanned += seen;
            scan.is_foreign |= seen > candidates.len();
            for candidate in candidates {
                if self.is_full() {
                    return Ok(Scan { is_cut_off: true, ..scan });
                }
                let leased = self.lease(lane, &candidate, limit_group)?;
                scan.gave += usize::from(leased);
                scan.is_foreign |= !leased;
            }
            if scan.gave == asked {
                break;
            }
        }
        Ok(scan)
    }

    /// Returns due tasks of one priority whose kind hash matches, and the number of tasks that were read.
    fn candidates(
        &mut self,
        lane: &ReadyLane,
        (priority, due_until): (i16, Timestamp),
        wanted: usize,
        scanned: usize,
    ) -> Result<(Vec<Candidate>, usize), Fault> {
        let most = if self.kind_hashes.is_empty() { wanted } else { KIND_SCAN_MAX.saturating_sub(scanned) };
        let LaneRow { environment, id: lane, .. } = lane.row;
        let next = NextTask { environment, lane, priority, due_until, limit: most };
        let kind_hashes = &self.kind_hashes;
        let is_wanted = |(_, _, kind_hash): &Candidate| {
            kind_hashes.is_empty() || kind_hash.is_some_and(|kind_hash| kind_hashes.contains(&kind_hash))
        };
        self.next_task.stream(next, |rows| {
            let (mut candidates, mut seen) = (Vec::new(), 0);
            while candidates.len() < wanted
                && let Some(candidate) = rows.next()
            {
                seen += 1;
                candidates.extend(Some(candidate?).filter(is_wanted));
            }
            Ok((candidates, seen))
        })
    }

    /// Leases a task, unless its kind was not asked for.
    fn lease(&mut self, lane: &ReadyLane, candidate: &Candidate, limit_group: Option<Id>) -> Result<bool, Fault> {
        let (task, timeout_us, _) = *candidate;
        let task = Task { epoch: task.epoch + 1, ..task };
        let work = self.work(lane, &task)?;
        // Two kinds may have the same hash.
        let is_asked = |job: &Job| self.ask.kinds.is_empty() || self.ask.kinds.contains(&job.kind);
        if let Work::Job { job: Some(job), .. } = &work
            && !is_asked(job)
        {
            return Ok(false);
        }
        let open = &mut self.feeds[lane.feed];
        let (owner, now) = (self.ask.session, self.tx.now);
        let until = |timeout_us| Timestamp::from_micros(now.as_micros().saturating_add(timeout_us));
        let deadline = timeout_us.filter(|_| self.ask.watched).map(until);
        self.lease_task.run(LeaseTask { key: task.key, owner, limit_group, deadline, now })?;
        open.allowance.take(1);
        if let Work::Job { job: Some(job), .. } = &work {
            self.payload_bytes += job.payload.as_ref().map_or(0, |payload| payload.len());
        }
        self.tasks.push(Leased { task, work, breaker: lane.row.breaker });
        Ok(true)
    }

    /// Reads the message and endpoint, or the job and target, of a task.
    fn work(&mut self, lane: &ReadyLane, task: &Task) -> Result<Work, Fault> {
        if task.kind == TaskKind::Job {
            let job = find_record(self.tx.conn, &task.key)?.map(Arc::new);
            return Ok(Work::Job { job, target: self.feeds[lane.feed].target.clone() });
        }
        let Some(application) = lane.row.application else {
            return Ok(Work::Delivery { message: None, endpoint: None });
        };
        let message = self.message(lane.row.environment, application, task.key.subject)?;
        let endpoints = self.applications.endpoints(self.tx, lane.row.environment, application)?;
        let endpoint = endpoints.and_then(|set| set.find(EndpointId(lane.row.id.0)).cloned());
        Ok(Work::Delivery { message, endpoint })
    }

    fn message(
        &mut self,
        environment: EnvironmentId,
        application: ApplicationId,
        subject: Id,
    ) -> Result<Option<Arc<Message>>, Fault> {
        if let Some(known) = self.messages.get(&(environment, subject)) {
            return Ok(known.clone());
        }
        let id = Locator::Id(MessageId(subject));
        let message = history::find(self.tx.conn, AppScope::of(environment, application), &id)?.map(Arc::new);
        let payload = message.as_ref().and_then(|message| message.payload.as_ref());
        self.payload_bytes += payload.map_or(0, |payload| payload.len());
        self.messages.insert((environment, subject), message.clone());
        Ok(message)
    }

    /// Returns the time when one of the feeds can give tasks. Full lanes, and lanes with only other kinds, do not
    /// count.
    fn next_ready(&self) -> Result<Option<Timestamp>, Fault> {
        let mut next = None;
        for (index, open) in self.feeds.iter().enumerate().filter(|(_, open)| !open.allowance.is_full()) {
            let free_at = open.allowance.free_at(self.tx.now);
            // The node has refused the lanes that are ready now. It leases again when they have room, so they do not
            // count here.
            let now =
                LanePosition { ready_at: self.tx.now, environment: EnvironmentId(i32::MAX), lane: LaneId(Id::MAX) };
            self.walk(index, self.planned.as_ref().map(|_| now), |lane| {
                if self.foreign.contains(&(lane.row.environment, lane.row.id))
                    || self.lane_room(open, lane.row.id)? == 0
                {
                    return Ok(true);
                }
                let at = lane.row.ready_at.max(free_at);
                next = Some(next.map_or(at, |next: Timestamp| next.min(at)));
                Ok(false)
            })?;
        }
        Ok(next)
    }
}
