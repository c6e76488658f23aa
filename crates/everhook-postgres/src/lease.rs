//! Lease: locks ready lanes of the asked feeds in fair order, and takes a bounded number of due tasks from each.
//!
//! `core::lane` decides how much a lane gives and its next state. `queries/lower_lane_due.sql` and
//! `queries/mark_lane_empty.sql` explain the protocol that loses no wake-up. All records are read before the commit, so
//! that a session never owns a task that the caller did not get.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, Id, LaneId, MessageId, SessionId};
use everhook_core::job::{Job, kind_hash};
use everhook_core::lane::{Feed, Given, HoldKind, STAY_LANES_MAX, Scanned, Turn, turns};
use everhook_core::limits::KIND_SCAN_MAX;
use everhook_core::message::Message;
use everhook_core::policy::limit::Hold;
use everhook_core::queue::queue_id;
use everhook_core::task::{Task, TaskKind};
use everhook_core::time::Timestamp;
use everhook_store::lease::{LeaseAsk, LeaseGrant, Leased, Work};
use everhook_store::{columns, statement};

use crate::columns::{Keys, TaskKeys};
use crate::endpoints::{self, EndpointSets};
use crate::error::Fault;
use crate::feed::{AT_FIRST, AskedFeed, FeedNames, NextReady, OpenFeed, OpenFeeds, ReadyLane, place};
use crate::store::PostgresStore;
use crate::tx::Tx;

columns! {
    /// Feeds by number, with the most tasks of each.
    FeedRooms of FeedRoom { n: u32, capacity: usize }

    /// Lanes to scan from `floor` to `due_until`: at most `capacity` tasks among the first `scanned`.
    LaneScans of LaneScan {
        environment: EnvironmentId, id: LaneId, feed: u32, floor: Timestamp, due_until: Timestamp, scanned: usize,
        capacity: usize,
    }

    /// Lanes whose leased tasks are counted, with their limit groups.
    CountedLanes of CountedLane { environment: EnvironmentId, id: LaneId, limit_group: Id }

    /// Lanes whose next task is searched from their floor. `turn_at` is set if the lane must wait for its turn.
    LaneSearches of LaneSearch { environment: EnvironmentId, id: LaneId, floor: Timestamp, turn_at: Option<Timestamp> }

    pub(crate) MessageKeys of MessageKey { environment: EnvironmentId, application: ApplicationId, id: MessageId }

    /// Lane groups with the time until which their rates are used up.
    BookedGroups of BookedGroup { environment: EnvironmentId, id: Id, until: Timestamp }

    /// Lanes with the time until which their limits are used up.
    BookedLanes of BookedLane { environment: EnvironmentId, id: LaneId, until: Timestamp, kind: HoldKind }
}

statement! {
    pub(crate) LeaseTask = "lease_task" {
        feed: FeedRooms, lane: LaneScans, priorities: Vec<i16>, counted: CountedLanes,
        early: Vec<LaneId>, now: Timestamp, limit: usize, owner: SessionId, watched: bool,
        kind_hashes: Option<Vec<i32>>,
    } -> Vec<Task>;
    pub(crate) NextDue = ["next_due", "first_due"] { wanted: Keys, priorities: Vec<i16>, after: Timestamp }
        -> Vec<(usize, Timestamp)>;
    pub(crate) MarkLaneEmpty = "mark_lane_empty" { wanted: Keys };
    pub(crate) RecomputeLaneDue = ["recompute_lane_due", "first_due"] { wanted: LaneSearches, priorities: Vec<i16> };
    pub(crate) MoveLaneToBack = (
        "move_lane_to_back",
        "update everhook.lane set next_due = :now, floor = least(lane.floor, :now) \
        from unnest(:used) \
        where lane.environment = any (array[used.environment]) and lane.id = used.id and lane.next_due < :now"
    ) { used: Keys, now: Timestamp };
    pub(crate) ClearLaneWaiting = (
        "clear_lane_waiting",
        "update everhook.lane set waiting = false from unnest(:used) \
        where lane.environment = any (array[used.environment]) and lane.id = used.id"
    ) { used: Keys };
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
    pub(crate) BookLane = "book_lane" { used: BookedLanes };
    pub(crate) FindMessage = "find_message" { wanted: MessageKeys } -> Vec<(EnvironmentId, Message)>;
    FindJobLeased = "find_job_leased" { wanted: Keys } -> Vec<(EnvironmentId, Job)>;
    ReleaseTask = "release_task" { foreign_kind: TaskKeys };
}

/// In a lane with a backlog, the floor is raised when the leased tasks are this far ahead of it.
const FLOOR_STEP: Duration = Duration::from_millis(50);
/// The time until the next try for a limited queue that another lease has locked.
const HELD_BY_ANOTHER: Duration = Duration::from_millis(10);

pub(crate) type LaneKey = (EnvironmentId, LaneId);

impl BookLane {
    /// Returns the statement for permits of rate limits, if any were taken.
    pub(crate) fn permits(holds: BTreeMap<LaneKey, Timestamp>) -> Option<BookLane> {
        let kind = HoldKind::RateLimit;
        let booked = |((environment, id), until)| BookedLane { environment, id, until, kind };
        let used: BookedLanes = holds.into_iter().map(booked).collect();
        used.nonempty().map(|used| BookLane { used })
    }
}

impl PostgresStore {
    pub(crate) async fn lease_once(&self, ask: &LeaseAsk) -> Result<LeaseGrant, Fault> {
        let tx = self.database.tx().await?;
        let asked = AskedFeed::all(ask);
        let mut open = match &ask.slots {
            Some(slots) => OpenFeeds::open_planned(&tx, slots, ask, &asked).await?,
            None => OpenFeeds::open(&tx, &self.targets, ask, &asked).await?,
        };
        open.limit_lanes(&tx, &self.cache).await?;
        let held = open.is_held.then_some(HELD_BY_ANOTHER);
        let more = open.has_more().then_some(Duration::ZERO);
        if open.lanes.is_empty() {
            tx.roll_back().await?;
            let next_ready = open.next_ready(&open.ready)?.into_iter().chain(held).chain(more).min();
            return Ok(LeaseGrant { next_ready, resume: open.resume, ..LeaseGrant::default() });
        }
        let mut lease = Lease { store: self, tx: &tx, ask, open };
        let (mut taken, jobs) = lease.take().await?;
        let writes = lease.turn(&taken);
        let (tasks, ready) = lease.tell(std::mem::take(&mut taken.tasks), &jobs, &writes).await?;
        lease.remember(&taken, &writes);
        // The lease is committed and must be returned, even if the time of the next one is unknown.
        let ready = lease.open.next_ready(&ready).unwrap_or_default();
        let again = (lease.open.planned.is_some() && writes.has_more).then_some(Duration::ZERO);
        let next_ready = ready.into_iter().chain(writes.next_stay).chain(held).chain(more).chain(again).min();
        let planned = lease.open.planned.as_mut();
        // Lanes that are left because the lease is full are next.
        let is_spent = planned.as_ref().is_some_and(|planned| planned.is_spent);
        let resume = if is_spent { ask.after } else { lease.open.resume };
        let slots = planned.map(|planned| planned.take(&tasks)).unwrap_or_default();
        Ok(LeaseGrant { tasks, slots, resume, next_ready })
    }
}

/// A lease whose lanes are locked.
struct Lease<'l> {
    store: &'l PostgresStore,
    tx: &'l Tx<'l>,
    ask: &'l LeaseAsk,
    open: OpenFeeds<'l>,
}

/// The leased tasks of the lanes with free capacity, in the order of their turns.
struct Taken {
    tasks: Vec<Task>,
    /// The lanes, as indexes of the locked lanes.
    lanes: Vec<usize>,
    /// The start of the scan of each lane.
    begun: Vec<Timestamp>,
    /// The due time of the next task of each lane.
    next_due: Vec<Timestamp>,
}

/// The records of leased jobs.
type Jobs = HashMap<(EnvironmentId, Id), Arc<Job>>;

/// The writes to lanes after a lease.
#[derive(Default)]
struct LaneWrites {
    /// One for each scanned lane.
    turns: Vec<Turn>,
    /// Lanes to mark as empty, and the start of the search for their next task.
    empty: LaneSearches,
    /// Lanes that move behind all ready lanes.
    back: Vec<LaneKey>,
    /// Whether a lane that had its turn may have more tasks that are due now.
    has_more: bool,
    /// Lanes whose limits were used.
    booked: BookedLanes,
    /// Lanes whose due time becomes now, behind all ready lanes: their due tasks are for other workers, or they are
    /// full.
    delay: Vec<LaneKey>,
    /// Lanes in which no new delivery waits any more.
    cleared: Vec<LaneKey>,
    /// Lanes without tasks to lease now, or whose next time is already known.
    known: Vec<LaneId>,
    /// The time until an unwritten lane must be scanned again.
    next_stay: Option<Duration>,
}

impl Lease<'_> {
    /// Leases due tasks of lanes with free capacity, and reads the records of jobs. Jobs of other kinds than asked for
    /// are put back.
    async fn take(&self) -> Result<(Taken, Jobs), Fault> {
        let lanes: Vec<usize> = (0..self.open.lanes.len()).filter(|n| self.open.lanes[*n].room > 0).collect();
        let floors: Vec<Timestamp> = lanes.iter().map(|n| self.open.lanes[*n].row.floor).collect();
        let begin = |n: &usize| {
            let lane = &self.open.lanes[*n];
            // The first task of an ordered lane returns to its place, which a cached position may have passed.
            if lane.limits.is_any() {
                return lane.row.floor;
            }
            self.store.scan_cursors.begin(lane.key(), lane.row.floor, self.open.now)
        };
        let begun: Vec<Timestamp> = lanes.iter().map(begin).collect();
        let is_whole = begun == floors;
        let mut taken = self.take_from(lanes, begun).await?;
        // A cached position may be too far ahead: a transaction that commits late may insert a task behind it. Before
        // the lease reports that no task is due, it scans from the floors.
        if taken.tasks.is_empty() && !is_whole {
            taken = self.take_from(taken.lanes, floors).await?;
        }
        let jobs = self.read_jobs(&taken.tasks).await?;
        taken.tasks = self.put_back_foreign(taken.tasks, &jobs).await?;
        Ok((taken, jobs))
    }

    async fn take_from(&self, lanes: Vec<usize>, begun: Vec<Timestamp>) -> Result<Taken, Fault> {
        let mut taken = Taken { tasks: Vec::new(), next_due: vec![Timestamp::NEVER; lanes.len()], lanes, begun };
        if taken.lanes.is_empty() {
            return Ok(taken);
        }
        let asked = || taken.lanes.iter().map(|n| &self.open.lanes[*n]);
        let (now, priorities) = (self.open.now, self.priorities());
        // With more lanes than this, every scanned lane is written, so the next due times are not needed: see
        // `core::lane`.
        let wanted = (taken.lanes.len() <= STAY_LANES_MAX).then(|| Keys::of_lanes(asked().map(ReadyLane::key)));
        let next_due = wanted.map(|wanted| NextDue { wanted, priorities: priorities.clone(), after: now });
        let lease_task = self.lease_task(&taken, priorities);
        let (mut tasks, found) = self.tx.run((lease_task, next_due)).await?;
        // An update returns its rows in the order of its plan, which is not guaranteed.
        let order: HashMap<LaneKey, usize> = asked().enumerate().map(|(n, lane)| (lane.key(), n)).collect();
        tasks.sort_by_key(|task| {
            let turn = order.get(&(task.key.environment, task.lane)).copied();
            (turn, task.priority, task.due_at, task.key.id)
        });
        for (n, due_at) in found {
            taken.next_due[place(n, taken.lanes.len())?] = due_at;
        }
        taken.tasks = tasks;
        Ok(taken)
    }

    fn lease_task(&self, taken: &Taken, priorities: Vec<i16>) -> LeaseTask {
        let (now, feeds) = (self.open.now, &self.open.feeds);
        let asked = || taken.lanes.iter().map(|n| &self.open.lanes[*n]);
        let has_kinds = !self.ask.kinds.is_empty();
        let scan = |(lane, floor): (&ReadyLane, &Timestamp)| LaneScan {
            environment: lane.row.environment,
            id: lane.row.id,
            feed: number(lane.feed),
            floor: *floor,
            due_until: lane.due_until(now),
            scanned: if has_kinds { KIND_SCAN_MAX } else { lane.room },
            capacity: lane.room,
        };
        let mut order: Vec<usize> = asked().map(|lane| lane.feed).collect();
        order.dedup();
        let feed_room = |n: usize| FeedRoom { n: number(n), capacity: feeds[n].allowance.left() };
        // The lane of a limited endpoint counts its own deliveries.
        let counted = |lane: &ReadyLane| {
            let ((environment, id), limit_group) = (lane.key(), lane.limit_group().or(feeds[lane.feed].limit_group())?);
            Some(CountedLane { environment, id, limit_group })
        };
        LeaseTask {
            feed: order.into_iter().map(feed_room).collect(),
            lane: asked().zip(&taken.begun).map(scan).collect(),
            priorities,
            counted: asked().filter_map(counted).collect(),
            early: asked().filter(|lane| lane.due_until(now) > now).map(|lane| lane.row.id).collect(),
            now,
            limit: self.ask.tasks_max(),
            owner: self.ask.session,
            watched: self.ask.watched,
            kind_hashes: has_kinds.then(|| self.ask.kinds.iter().map(kind_hash).collect()),
        }
    }

    /// Returns the priorities that tasks of the asked feeds may have.
    fn priorities(&self) -> Vec<i16> {
        let all = self.open.feeds.iter().map(|open| open.feed().priorities());
        all.max_by_key(|priorities| priorities.len()).unwrap_or_default().to_vec()
    }

    async fn read_jobs(&self, tasks: &[Task]) -> Result<Jobs, Fault> {
        let jobs = tasks.iter().filter(|task| task.kind == TaskKind::Job);
        let wanted = Keys::of(jobs.map(|task| (task.key.environment, task.key.subject)));
        let Some(wanted) = wanted.nonempty() else { return Ok(Jobs::new()) };
        let found = self.tx.stream(FindJobLeased { wanted }).await?;
        Ok(found.into_iter().map(|(environment, job)| ((environment, job.id.0), Arc::new(job))).collect())
    }

    /// Puts back jobs of other kinds than asked for: two kinds may have the same hash.
    async fn put_back_foreign(&self, tasks: Vec<Task>, jobs: &Jobs) -> Result<Vec<Task>, Fault> {
        let kinds = &self.ask.kinds;
        let is_asked = |task: &Task| {
            let job = jobs.get(&(task.key.environment, task.key.subject));
            kinds.is_empty() || job.is_none_or(|job| kinds.contains(&job.kind))
        };
        let (tasks, foreign): (Vec<Task>, Vec<Task>) = tasks.into_iter().partition(is_asked);
        let foreign_kind = TaskKeys::of(foreign.iter().map(|task| &task.key));
        self.tx.run(foreign_kind.nonempty().map(|foreign_kind| ReleaseTask { foreign_kind })).await?;
        Ok(tasks)
    }

    /// Decides the next state of the lanes, and counts the leased tasks against the limits of their feeds.
    fn turn(&mut self, taken: &Taken) -> LaneWrites {
        let mut given: HashMap<LaneKey, (usize, Timestamp)> = HashMap::new();
        for task in &taken.tasks {
            let (count, last) = given.entry((task.key.environment, task.lane)).or_default();
            (*count, *last) = (*count + 1, task.due_at.max(*last));
        }
        let (now, cursors) = (self.open.now, &self.store.scan_cursors);
        let mut left = self.ask.tasks_max();
        let mut scanned = Vec::with_capacity(taken.lanes.len());
        for (n, next_due) in taken.lanes.iter().zip(&taken.next_due) {
            let lane = &self.open.lanes[*n];
            let open = &mut self.open.feeds[lane.feed];
            let (gave, last_due) = given.get(&lane.key()).copied().unwrap_or_default();
            let asked = lane.room.min(left).min(open.allowance.left());
            left -= gave.min(left);
            open.allowance.take(gave);
            let given = Given { room: lane.room, asked, gave, is_foreign: !self.ask.kinds.is_empty() };
            // The due time of the last leased task says nothing about tasks with other priorities.
            let is_vague = open.feed().priorities().len() > 1 && gave >= asked;
            let is_due_for_write =
                is_vague || lane.is_closing() || lane.limits.is_any() || cursors.is_old(lane.key(), now);
            scanned.push(Scanned { given, last_due, next_due: *next_due, is_due_for_write });
        }
        let mut writes = LaneWrites { turns: turns(&scanned, now), ..LaneWrites::default() };
        for (at, n) in taken.lanes.iter().enumerate() {
            writes.add(&self.open, &self.open.lanes[*n], &scanned[at], writes.turns[at]);
        }
        writes.add_blocked(&self.open);
        writes
    }

    /// Writes the lanes and the used rates, reads messages and the time until each feed has a ready lane, and commits.
    ///
    /// This takes one round trip if no messages are needed. If there is nothing to write, it rolls back.
    async fn tell(
        &self,
        tasks: Vec<Task>,
        jobs: &Jobs,
        writes: &LaneWrites,
    ) -> Result<(Vec<Leased>, Vec<(usize, i64)>), Fault> {
        let full = self.ask.free_by_lane.iter().filter(|(_, capacity)| *capacity == 0).map(|(lane, _)| *lane);
        let full = full.chain(writes.known.iter().copied()).collect();
        let wanted: FeedNames<'_> = self.open.feeds.iter().map(OpenFeed::name).collect();
        // The node has refused the lanes that are ready now. It leases again when they have room, so they do not count
        // here.
        let after = if self.open.planned.is_some() { self.open.now } else { AT_FIRST };
        let next_ready = NextReady { wanted, full, after };
        if tasks.is_empty() && writes.is_silent() {
            let ready = self.tx.run(next_ready).await?;
            self.tx.roll_back().await?;
            return Ok((Vec::new(), ready));
        }
        let now = self.open.now;
        let booked = self.booked();
        let keys = |lanes: &[LaneKey]| Keys::of_lanes(lanes.iter().copied()).nonempty();
        let empty = writes.empty.clone().nonempty();
        let book_lane = writes.booked.clone().nonempty().map(|used| BookLane { used });
        // The order matters. Marking empty must be the first write to a lane, because only the exclusive lock makes
        // waiting appends see it; `mark_lane_empty.sql` explains the race. Recomputing needs a snapshot after these
        // locks. A lane that could not be marked empty still moves to the back and loses its waiting mark.
        let writes = (
            empty.as_ref().map(|empty| MarkLaneEmpty { wanted: empty.keys() }),
            empty.clone().map(|wanted| RecomputeLaneDue { wanted, priorities: self.priorities() }),
            keys(&writes.back).map(|used| MoveLaneToBack { used, now }),
            keys(&writes.cleared).map(|used| ClearLaneWaiting { used }),
            keys(&writes.delay).map(|used| DelayLane { used, now }),
            (booked.nonempty().map(|used| ReserveGroupRate { used }), book_lane),
        );
        let Some(wanted) = self.message_keys(&tasks).nonempty() else {
            let (_, ready) = self.tx.finish((writes, next_ready)).await?;
            return Ok((self.attach(tasks, jobs, Vec::new(), &HashMap::new()), ready));
        };
        let (_, messages, ready) = self.tx.run((writes, FindMessage { wanted }, next_ready)).await?;
        let sets = self.load_endpoints(&tasks).await?;
        self.tx.commit().await?;
        Ok((self.attach(tasks, jobs, messages, &sets), ready))
    }

    fn booked(&self) -> BookedGroups {
        let booked = |open: &OpenFeed<'_>| match (open.feed(), open.allowance.booked(self.open.now)) {
            (Feed::Queue { environment, name }, Some(until)) => {
                Some(BookedGroup { environment: *environment, id: queue_id(*environment, name), until })
            }
            _ => None,
        };
        self.open.feeds.iter().filter_map(booked).collect()
    }

    /// Returns the keys of the messages of deliveries, each once.
    fn message_keys(&self, tasks: &[Task]) -> MessageKeys {
        let key = |lane: &ReadyLane| Some((lane.key(), lane.row.application?));
        let applications: HashMap<LaneKey, ApplicationId> = self.open.lanes.iter().filter_map(key).collect();
        let key = |task: &Task| {
            let application = applications.get(&(task.key.environment, task.lane))?;
            Some((task.key.environment, *application, MessageId(task.key.subject)))
        };
        let keys: BTreeSet<_> = tasks.iter().filter_map(key).collect();
        keys.into_iter().map(|(environment, application, id)| MessageKey { environment, application, id }).collect()
    }

    /// Returns the endpoints of deliveries, as of the lease.
    async fn load_endpoints(&self, tasks: &[Task]) -> Result<EndpointSets, Fault> {
        let used: HashSet<LaneKey> = tasks.iter().map(|task| (task.key.environment, task.lane)).collect();
        let lanes = self.open.lanes.iter().filter(|lane| used.contains(&lane.key()));
        let versions = lanes.filter_map(ReadyLane::application_version).collect();
        endpoints::load(self.tx, &self.store.cache, &versions).await
    }

    /// Adds messages, endpoints, jobs and targets to the tasks.
    fn attach(
        &self,
        tasks: Vec<Task>,
        jobs: &Jobs,
        messages: Vec<(EnvironmentId, Message)>,
        sets: &EndpointSets,
    ) -> Vec<Leased> {
        let lanes: HashMap<LaneKey, &ReadyLane> = self.open.lanes.iter().map(|lane| (lane.key(), lane)).collect();
        let keyed = |(environment, message): (EnvironmentId, Message)| ((environment, message.id.0), Arc::new(message));
        let messages: HashMap<(EnvironmentId, Id), Arc<Message>> = messages.into_iter().map(keyed).collect();
        let attach = |task: Task| {
            let (environment, lane) = (task.key.environment, lanes.get(&(task.key.environment, task.lane)));
            let subject = (environment, task.key.subject);
            let work = match task.kind {
                TaskKind::Delivery => {
                    let set = lane.and_then(|lane| sets.get(&(environment, lane.row.application?)));
                    let endpoint = set.and_then(|set| set.find(EndpointId(task.lane.0)).cloned());
                    Work::Delivery { message: messages.get(&subject).cloned(), endpoint }
                }
                TaskKind::Job => {
                    let target = lane.and_then(|lane| self.open.feeds[lane.feed].target.clone());
                    Work::Job { job: jobs.get(&subject).cloned(), target }
                }
            };
            Leased { task, work, breaker: lane.map(|lane| lane.row.breaker).unwrap_or_default() }
        };
        tasks.into_iter().map(attach).collect()
    }

    /// Remembers the scan positions of lanes that were not written.
    fn remember(&self, taken: &Taken, writes: &LaneWrites) {
        let cursors = &self.store.scan_cursors;
        for ((n, turn), begun) in taken.lanes.iter().zip(&writes.turns).zip(&taken.begun) {
            let lane = &self.open.lanes[*n];
            match turn {
                Turn::Stay { until, .. } => {
                    cursors.remember(lane.key(), *until, *begun == lane.row.floor, self.open.now);
                }
                Turn::Back | Turn::Empty | Turn::Delay => cursors.forget(lane.key()),
                Turn::Keep => {}
            }
        }
    }
}

impl LaneWrites {
    fn add(&mut self, open: &OpenFeeds<'_>, lane: &ReadyLane, scanned: &Scanned, turn: Turn) {
        let (now, key, gave) = (open.now, lane.key(), scanned.given.gave);
        let is_spent = gave >= lane.key_room;
        let hold = lane.hold(gave, now);
        self.book(lane, hold);
        match turn {
            Turn::Keep => {}
            Turn::Back => {
                self.back.push(key);
                self.has_more |= hold.is_none_or(|hold| hold.until <= now);
                if scanned.last_due.since(lane.row.floor) >= FLOOR_STEP && !lane.is_closing() {
                    self.empty.push(look(lane, Some(now)));
                }
            }
            Turn::Empty => {
                self.cleared.extend(lane.row.waiting.then_some(key));
                self.empty.push(look(lane, None));
            }
            Turn::Delay => {
                self.empty.push(look(lane, None));
                self.delay.push(key);
                self.known.push(lane.row.id);
            }
            Turn::Stay { next, .. } => {
                // The row of a lane that stays says that it is ready, so `next_ready` must skip it: its real time is
                // `next`.
                self.known.push(lane.row.id);
                self.cleared.extend((lane.row.waiting && next > now).then_some(key));
                if !is_spent && let Some(wait) = open.wait(lane.feed, next.since(now)) {
                    self.next_stay = Some(self.next_stay.map_or(wait, |stay| stay.min(wait)));
                }
            }
        }
        self.known.extend(is_spent.then_some(lane.row.id));
    }

    fn book(&mut self, lane: &ReadyLane, hold: Option<Hold>) {
        let (environment, id) = lane.key();
        if let Some(Hold { until, kind }) = hold {
            self.booked.push(BookedLane { environment, id, until, kind });
        }
    }

    /// Adds lanes that have reached their limit. The lane of an endpoint is held. Lanes of concurrency keys are delayed
    /// if they fill the feed's share of lanes. Otherwise every lease would lock the same full lanes first, and never
    /// reach the others.
    fn add_blocked(&mut self, open: &OpenFeeds<'_>) {
        for lane in open.lanes.iter().filter(|lane| lane.limit_room == 0) {
            self.book(lane, lane.hold(0, open.now));
        }
        for lane in open.lanes.iter().filter(|lane| lane.key_room == 0) {
            self.known.push(lane.row.id);
            if open.lanes.iter().filter(|other| other.feed == lane.feed).count() >= open.share {
                self.delay.push(lane.key());
            }
        }
    }

    /// Whether no lane is written.
    fn is_silent(&self) -> bool {
        let is_moved = !self.empty.is_empty() || !self.back.is_empty() || !self.delay.is_empty();
        !is_moved && self.cleared.is_empty() && self.booked.is_empty()
    }
}

impl LaneSearches {
    fn keys(&self) -> Keys {
        Keys::of_lanes(self.environment.iter().copied().zip(self.id.iter().copied()))
    }
}

fn look(lane: &ReadyLane, turn_at: Option<Timestamp>) -> LaneSearch {
    LaneSearch { environment: lane.row.environment, id: lane.row.id, floor: lane.row.floor, turn_at }
}

fn number(feed: usize) -> u32 {
    u32::try_from(feed).unwrap_or(u32::MAX)
}
