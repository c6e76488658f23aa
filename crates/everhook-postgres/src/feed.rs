//! The feeds of a lease: the state, limits and rates of their queues, and their locked lanes. Called by `lease`.
//!
//! A queue with a limit or a rate is locked first. A statement that starts after the lock counts its leased tasks, and
//! every lease marks the tasks that it takes with the limit group. The count is therefore never stored: no counter has
//! to be lowered when a task ends, is handed back or is taken over, so none can be wrong after a crash.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use everhook_core::fair::{GroupId, GroupedLane};
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, ID_BYTES, Id, LaneId};
use everhook_core::lane::{Allowance, Feed, FeedKey, LanePosition, LaneState, Used, room};
use everhook_core::limits::{LEASE_LANES_MAX, LEASE_SCAN_MAX};
use everhook_core::policy::breaker::Breaker;
use everhook_core::policy::limit::{Hold, LaneLimits, LockedLane};
use everhook_core::queue::{QueueState, Target, queue_id};
use everhook_core::task::PRIORITY_DEFAULT;
use everhook_core::time::Timestamp;
use everhook_store::cache::{EndpointCache, TargetCache};
use everhook_store::capacity::{LeaseCapacity, PlannedSlots};
use everhook_store::lease::{FeedAsk, LeaseAsk};
use everhook_store::queue::LaneGroup;
use everhook_store::{columns, row, statement};

use crate::columns::Keys;
use crate::endpoints::{self, AppKey};
use crate::error::Fault;
use crate::resource::ListQueueGroup;
use crate::tx::Tx;

columns! {
    /// Feeds by their keys; only queues have an environment.
    pub(crate) FeedNames of FeedName<'a> { environment: EnvironmentId, feed: &'a [u8] }

    /// Leased tasks to count: those of a limit group in a range of lanes, up to a bound.
    LeasedRanges of LeasedRange<'a> { environment: EnvironmentId, limit_group: Id, low: &'a [u8], high: &'a [u8], most: usize }
}

row! {
    pub(crate) struct NextLaneRow in "lane" {
        environment: EnvironmentId, id: LaneId, application: Option<ApplicationId>, state: LaneState, waiting: bool,
        floor: Timestamp, ready_at: Timestamp, hold_until: Timestamp, last_position: Timestamp,
        breaker: Breaker,
    }
}

row! {
    pub(crate) struct PositionRow in "lane" { ready_at: Timestamp, environment: EnvironmentId, id: LaneId }
}

/// The time, the time when the next lane becomes ready, the position to resume at, a locked lane, and the version of
/// its group.
type DeliveryLane = (Timestamp, Option<Timestamp>, Option<PositionRow>, Option<NextLaneRow>, Option<i64>);

/// The number of an asked queue, the time, and its lane group if the queue is configured.
type GroupRow = (usize, Timestamp, Option<LaneGroup>);

/// The number of an asked feed, a lane of it, the version of its group unless the application was deleted, and the
/// time.
type LaneOfFeed = (usize, NextLaneRow, Option<i64>, Timestamp);

statement! {
    NextGroup = "next_group" { wanted: Keys } -> Vec<GroupRow>;
    LockGroup = "lock_group" { wanted: Keys } -> Vec<GroupRow>;
    pub(crate) NextLane<'a> = "next_lane" { wanted: FeedNames<'a>, full: Vec<LaneId>, limit: usize, locked: bool }
        -> Vec<LaneOfFeed>;
    // Returns the number of a feed, and the microseconds until one of its lanes is ready; negative if one is ready now.
    pub(crate) NextReady<'a> = "next_ready" { wanted: FeedNames<'a>, full: Vec<LaneId>, after: Timestamp }
        -> Vec<(usize, i64)>;
    NextDeliveryLane<'a> = "next_delivery_lane" {
        full: Vec<LaneId>, full_groups: Vec<&'a [u8]>, paused: Vec<EnvironmentId>, after_at: Timestamp,
        after_environment: EnvironmentId, after_lane: LaneId, scanned: usize, limit: usize,
    } -> Vec<DeliveryLane>;
    // Returns the numbers of blocked lanes.
    FindLaneBlocked = "find_lane_blocked" { wanted: Keys, priority: i16 } -> Vec<usize>;
    // Returns the number of a range, and its leased tasks.
    CountLeased<'a> = "count_leased" { wanted: LeasedRanges<'a> } -> Vec<(usize, usize)>;
}

/// Sorts after every lane.
const LANE_ABOVE: [u8; ID_BYTES + 1] = [0xff; ID_BYTES + 1];

/// A feed of the request; each feed is asked once.
pub(crate) struct AskedFeed<'a> {
    ask: &'a FeedAsk,
    key: FeedKey,
}

impl<'a> AskedFeed<'a> {
    /// Returns the feeds with free capacity. A feed that is named twice is asked once, or its tasks would count twice.
    pub(crate) fn all(ask: &'a LeaseAsk) -> Vec<AskedFeed<'a>> {
        let mut named = HashSet::with_capacity(ask.feeds.len());
        let with_room = ask.feeds.iter().filter(|asked| asked.capacity > 0);
        let once = with_room.filter(|asked| named.insert(&asked.feed));
        once.map(|ask| AskedFeed { ask, key: ask.feed.key() }).collect()
    }

    fn name(&self) -> FeedName<'_> {
        let environment = self.group().map_or(EnvironmentId(0), |(environment, _)| environment);
        FeedName { environment, feed: self.key.as_bytes() }
    }

    /// The lane group of a queue. Lanes of endpoints belong to the groups of their applications.
    fn group(&self) -> Option<(EnvironmentId, Id)> {
        match &self.ask.feed {
            Feed::Deliveries => None,
            Feed::Queue { environment, name } => Some((*environment, queue_id(*environment, name))),
        }
    }
}

/// A feed that tasks may be leased from. The queue is locked if it has a limit or a rate.
pub(crate) struct OpenFeed<'a> {
    asked: &'a AskedFeed<'a>,
    group: LaneGroup,
    /// Leased tasks that count towards its limit.
    leased: usize,
    pub(crate) target: Option<Arc<Target>>,
    /// Whether the group is locked, because it had a limit or a rate when it was read.
    is_locked: bool,
    pub(crate) allowance: Allowance,
}

impl<'a> OpenFeed<'a> {
    fn new(asked: &'a AskedFeed<'a>, group: LaneGroup, is_locked: bool) -> OpenFeed<'a> {
        let allowance = Allowance::new(group.limits(), Used::default(), 0, Timestamp::default());
        OpenFeed { asked, group, leased: 0, target: None, is_locked, allowance }
    }

    pub(crate) fn feed(&self) -> &'a Feed {
        &self.asked.ask.feed
    }

    pub(crate) fn name(&self) -> FeedName<'a> {
        self.asked.name()
    }

    /// The group that counts its leased tasks, if it has a limit.
    pub(crate) fn limit_group(&self) -> Option<Id> {
        self.asked.group().filter(|_| self.group.is_limited()).map(|(_, id)| id)
    }

    /// The limit of a lane with a concurrency key, and the group that counts it.
    fn lane_limit(&self, lane: LaneId) -> Option<(Id, u32)> {
        self.limit_group().filter(|group| *group != lane.0).zip(self.group.lane_limit)
    }
}

/// A lane that this lease has locked.
pub(crate) struct ReadyLane {
    /// The index of its open feed.
    pub(crate) feed: usize,
    pub(crate) row: NextLaneRow,
    /// None if the application was deleted, and for lanes of queues.
    pub(crate) version: Option<i64>,
    /// The most tasks that it may give, by the capacity of the asking node and the limit of its concurrency key.
    pub(crate) room: usize,
    /// The most tasks by the limit of its concurrency key alone.
    pub(crate) key_room: usize,
    /// The limits of its endpoint.
    pub(crate) limits: LaneLimits,
    /// Leased deliveries that count against its concurrency limit.
    leased: usize,
    /// Whether a dead delivery comes before its first one. Only known where this blocks the lane.
    is_behind_dead: bool,
    /// The most deliveries by these limits alone.
    pub(crate) limit_room: usize,
}

impl ReadyLane {
    fn new(feed: usize, row: NextLaneRow, version: Option<i64>) -> ReadyLane {
        ReadyLane {
            feed,
            row,
            version,
            room: 0,
            key_room: usize::MAX,
            limits: LaneLimits::default(),
            leased: 0,
            is_behind_dead: false,
            limit_room: usize::MAX,
        }
    }

    /// The application of an endpoint that is not deleted, and its version.
    pub(crate) fn application_version(&self) -> Option<(AppKey, i64)> {
        Some(((self.row.environment, self.row.application?), self.version?))
    }

    pub(crate) fn key(&self) -> (EnvironmentId, LaneId) {
        (self.row.environment, self.row.id)
    }

    /// A lane of an endpoint always has an application.
    fn grouped(&self) -> GroupedLane {
        let id = self.row.application.map_or(self.row.id.0, |application| application.0);
        GroupedLane { group: GroupId { environment: self.row.environment, id }, lane: self.row.id }
    }

    /// Returns the hold after a lease that took `gave` deliveries.
    pub(crate) fn hold(&self, gave: usize, now: Timestamp) -> Option<Hold> {
        self.limits.hold(self.locked(now), gave)
    }

    /// The group that counts the deliveries of a limited endpoint.
    pub(crate) fn limit_group(&self) -> Option<Id> {
        self.limits.group(self.row.id)
    }

    fn locked(&self, now: Timestamp) -> LockedLane {
        let (hold_until, leased, is_behind_dead) = (self.row.hold_until, self.leased, self.is_behind_dead);
        LockedLane { hold_until, leased, is_behind_dead, now }
    }

    /// The time until which its tasks are due.
    pub(crate) fn due_until(&self, now: Timestamp) -> Timestamp {
        if self.is_closing() { Timestamp::NEVER } else { self.limits.due_until(self.row.last_position, now) }
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.row.state == LaneState::Closing
    }
}

/// The feeds that tasks may be leased from now, in the order of the request, and their lanes.
pub(crate) struct OpenFeeds<'a> {
    pub(crate) feeds: Vec<OpenFeed<'a>>,
    /// In the order of their turns.
    pub(crate) lanes: Vec<ReadyLane>,
    pub(crate) now: Timestamp,
    /// Another lease has locked a limited queue.
    pub(crate) is_held: bool,
    /// The most lanes to lock for each feed.
    pub(crate) share: usize,
    /// The time until a lane of each feed was ready, before this lease took anything.
    pub(crate) ready: Vec<(usize, i64)>,
    /// The slots that the asking node gives to lanes, if it decides.
    pub(crate) planned: Option<PlannedSlots>,
    /// The position at which the next lease continues.
    pub(crate) resume: Option<LanePosition>,
}

/// Before every lane.
pub(crate) const AT_FIRST: Timestamp = Timestamp::from_micros(-1);

impl<'a> OpenFeeds<'a> {
    /// Begins and locks ready lanes of deliveries, for a node that decides how many tasks each of them gives.
    pub(crate) async fn open_planned(
        tx: &Tx<'_>,
        slots: &LeaseCapacity,
        ask: &LeaseAsk,
        asked: &'a [AskedFeed<'a>],
    ) -> Result<OpenFeeds<'a>, Fault> {
        let full = ask.free_by_lane.iter().filter(|(_, capacity)| *capacity == 0).map(|(lane, _)| *lane).collect();
        let first = LanePosition { ready_at: AT_FIRST, environment: EnvironmentId(-1), lane: LaneId(Id::MIN) };
        let after = ask.after.unwrap_or(first);
        let key = |group: &GroupId| [&group.environment.0.to_be_bytes()[..], group.id.as_bytes()].concat();
        let full_groups: Vec<Vec<u8>> = ask.full_groups.iter().map(key).collect();
        let found = tx
            .begin(NextDeliveryLane {
                full,
                full_groups: full_groups.iter().map(Vec::as_slice).collect(),
                paused: ask.paused.clone(),
                after_at: after.ready_at,
                after_environment: after.environment,
                after_lane: after.lane,
                scanned: LEASE_SCAN_MAX,
                limit: LEASE_LANES_MAX,
            })
            .await?;
        let (now, later, resume) =
            found.first().map(|(now, later, resume, ..)| (*now, *later, resume.as_ref())).unwrap_or_default();
        let ready = later.map(|at| (1, at.as_micros() - now.as_micros())).into_iter().collect();
        let resume =
            resume.map(|row| LanePosition { ready_at: row.ready_at, environment: row.environment, lane: row.id });
        let feeds = asked.iter().map(|asked| {
            let allowance = Allowance::new(LaneGroup::OPEN.limits(), Used::default(), asked.ask.capacity, now);
            OpenFeed { allowance, ..OpenFeed::new(asked, LaneGroup::OPEN, false) }
        });
        let feeds: Vec<OpenFeed<'a>> = feeds.collect();
        let mut lanes: Vec<ReadyLane> = Vec::with_capacity(found.len());
        for (.., row, version) in found {
            lanes.extend(row.map(|row| ReadyLane::new(0, row, version)));
        }
        lanes.sort_by_key(|lane| (lane.row.ready_at, lane.row.environment, lane.row.id));
        let planned = slots.plan(lanes.iter().map(ReadyLane::grouped).collect(), ask.tasks_max());
        for lane in &mut lanes {
            lane.room = planned.room(lane.row.id).min(feeds[0].allowance.room()).min(ask.tasks_max());
        }
        let planned = Some(planned);
        Ok(OpenFeeds { feeds, lanes, now, is_held: false, share: LEASE_LANES_MAX, ready, planned, resume })
    }

    /// Bounds lanes of endpoints with limits. The lanes are locked, so that no other lease gives away the same permits,
    /// and a statement after the lock counts. The endpoints are usually cached, and are needed for the leased tasks in
    /// any case.
    pub(crate) async fn limit_lanes(&mut self, tx: &Tx<'_>, cache: &EndpointCache) -> Result<(), Fault> {
        let asked = self.lanes.iter().filter(|lane| lane.room > 0 && !lane.is_closing());
        let versions = asked.filter_map(ReadyLane::application_version).collect();
        let sets = endpoints::load(tx, cache, &versions).await?;
        for lane in self.lanes.iter_mut().filter(|lane| lane.room > 0 && !lane.is_closing()) {
            let set = lane.application_version().and_then(|(application, _)| sets.get(&application));
            let Some(endpoint) = set.and_then(|set| set.find(EndpointId(lane.row.id.0))) else { continue };
            lane.limits = endpoint.limits().under(lane.row.breaker);
        }
        let range = |(place, lane): (usize, &ReadyLane)| {
            let (limit_group, most) = (lane.limit_group()?, lane.limits.at_once()?);
            Some(Range { place, environment: lane.row.environment, limit_group, lane: Some(lane.row.id), most })
        };
        let counts = LeasedCounts(self.lanes.iter().enumerate().filter_map(range).collect());
        for (place, leased) in tx_counts(tx, &counts).await? {
            self.lanes[place].leased = leased;
        }
        self.find_blocked(tx).await?;
        for lane in self.lanes.iter_mut().filter(|lane| lane.limits.is_any()) {
            lane.limit_room = lane.limits.room(lane.locked(self.now));
            lane.room = lane.room.min(lane.limit_room);
        }
        Ok(())
    }

    /// Finds ordered lanes that a dead delivery blocks.
    async fn find_blocked(&mut self, tx: &Tx<'_>) -> Result<(), Fault> {
        let ordered = self.lanes.iter_mut().filter(|lane| lane.limits.is_blocked_by_dead());
        let mut ordered: Vec<&mut ReadyLane> = ordered.collect();
        let wanted = Keys::of(ordered.iter().map(|lane| (lane.row.environment, lane.row.id.0)));
        let Some(wanted) = wanted.nonempty() else { return Ok(()) };
        for n in tx.run(FindLaneBlocked { wanted, priority: PRIORITY_DEFAULT }).await? {
            let at = place(n, ordered.len())?;
            ordered[at].is_behind_dead = true;
        }
        Ok(())
    }

    /// Whether ready lanes are left for the next lease.
    pub(crate) fn has_more(&self) -> bool {
        self.resume.is_some() || self.planned.as_ref().is_some_and(|planned| planned.is_spent)
    }

    /// Begins, reads the asked queues, and locks lanes of feeds without limits, in one round trip. Then locks limited
    /// queues, counts their leased tasks, and locks their lanes.
    pub(crate) async fn open(
        tx: &Tx<'_>,
        targets: &TargetCache,
        ask: &LeaseAsk,
        asked: &'a [AskedFeed<'a>],
    ) -> Result<OpenFeeds<'a>, Fault> {
        let full: Vec<LaneId> =
            ask.free_by_lane.iter().filter(|(_, capacity)| *capacity == 0).map(|(lane, _)| *lane).collect();
        let has_room = ask.limit > 0 && (ask.per_lane > 0 || full.len() < ask.free_by_lane.len());
        let share = if has_room { LEASE_LANES_MAX.div_ceil(asked.len().max(1)) } else { 0 };
        let wanted = || asked.iter().map(AskedFeed::name).collect::<FeedNames<'_>>();
        let of_queues: Vec<usize> = (0..asked.len()).filter(|n| asked[*n].ask.feed != Feed::Deliveries).collect();
        let groups = Keys::of(asked.iter().filter_map(AskedFeed::group));
        let next_lane = NextLane { wanted: wanted(), full: full.clone(), limit: share, locked: false };
        let next_ready = NextReady { wanted: wanted(), full: full.clone(), after: AT_FIRST };
        let next_group = groups.nonempty().map(|wanted| NextGroup { wanted });
        // The lanes of limited queues are not locked here. Their group must be locked before their tasks are counted,
        // or two leases would count the same free capacity and exceed the limit together.
        let (found, lanes, ready) = tx.begin((next_group, next_lane, next_ready)).await?;
        // If neither a queue nor a lane was found, nothing is leased and the time is not needed.
        let times = found.iter().map(|(_, now, ..)| *now).chain(lanes.first().map(|(.., now)| *now));
        let now = times.max().unwrap_or_default();
        let mut open = OpenFeeds {
            feeds: Vec::new(),
            lanes: Vec::new(),
            now,
            is_held: false,
            share,
            ready: Vec::new(),
            planned: None,
            resume: None,
        };
        let mut places = open.open_queues(tx, asked, &of_queues, found).await?;
        open.load_targets(tx, targets, &mut places).await?;
        // The groups were read before the lanes, and a change may lie in between. `next_lane` returns no lanes of a
        // queue that has a limit by now. Lanes of a queue that was read as limited are left out here, and locked below.
        let unlocked = |n: usize| places.iter().position(|at| *at == n).filter(|feed| !open.feeds[*feed].is_locked);
        let lanes = lanes_of(lanes, asked.len(), unlocked)?;
        for (n, wait) in ready {
            let n = place(n, asked.len())?;
            // Renumbered to the open feeds, starting at 1.
            open.ready.extend(places.iter().position(|at| *at == n).map(|feed| (feed + 1, wait)));
        }
        open.lanes = lanes;
        open.lock_lanes(tx, full).await?;
        open.make_room(tx, ask).await?;
        Ok(open)
    }

    /// Adds the open feeds, and locks limited queues. Returns the indexes of the open feeds in the request.
    async fn open_queues(
        &mut self,
        tx: &Tx<'_>,
        asked: &'a [AskedFeed<'a>],
        of_queues: &[usize],
        found: Vec<GroupRow>,
    ) -> Result<Vec<usize>, Fault> {
        let deliveries = (0..asked.len()).filter(|n| !of_queues.contains(n));
        let mut open: Vec<(usize, OpenFeed<'a>)> =
            deliveries.map(|n| (n, OpenFeed::new(&asked[n], LaneGroup::OPEN, false))).collect();
        let mut limited = Vec::new();
        for (n, _, group) in found {
            let (n, group) = (of_queues[place(n, of_queues.len())?], group.unwrap_or(LaneGroup::OPEN));
            if group.is_limited() {
                limited.push(n);
            } else if group.state == QueueState::Open {
                open.push((n, OpenFeed::new(&asked[n], group, false)));
            }
        }
        if !limited.is_empty() {
            let wanted = Keys::of(limited.iter().filter_map(|n| asked[*n].group()));
            let locked = tx.run(LockGroup { wanted }).await?;
            self.is_held = locked.len() < limited.len();
            for (n, locked_at, group) in locked {
                let (n, group) = (limited[place(n, limited.len())?], group.unwrap_or(LaneGroup::OPEN));
                self.now = locked_at.max(self.now);
                if group.state == QueueState::Open {
                    open.push((n, OpenFeed::new(&asked[n], group, true)));
                }
            }
        }
        open.sort_by_key(|(n, _)| *n);
        let (places, feeds) = open.into_iter().unzip();
        self.feeds = feeds;
        Ok(places)
    }

    /// Loads the targets of queues that push. A queue whose target was removed in the meantime is left out of this
    /// lease.
    async fn load_targets(&mut self, tx: &Tx<'_>, targets: &TargetCache, places: &mut Vec<usize>) -> Result<(), Fault> {
        let mut missing = Vec::new();
        for open in self.feeds.iter_mut().filter(|open| open.group.pushes) {
            let Some((environment, id)) = open.asked.group() else { continue };
            open.target = targets.get(environment, id, open.group.version);
            missing.extend(open.target.is_none().then_some((environment, id)));
        }
        let Some(wanted) = Keys::of(missing).nonempty() else { return Ok(()) };
        for (environment, id, version, configured) in tx.run(ListQueueGroup { wanted }).await? {
            let Some(target) = configured.target.map(Arc::new) else { continue };
            targets.put(environment, id, version, Arc::clone(&target));
            let found = self.feeds.iter_mut().find(|open| open.asked.group() == Some((environment, id)));
            found.into_iter().for_each(|open| open.target = Some(Arc::clone(&target)));
        }
        let has_target = |open: &OpenFeed<'_>| !open.group.pushes || open.target.is_some();
        let mut kept = self.feeds.iter().map(has_target);
        places.retain(|_| kept.next().unwrap_or(true));
        self.feeds.retain(has_target);
        Ok(())
    }

    /// Counts the leased tasks of locked queues, and adds their lanes.
    async fn lock_lanes(&mut self, tx: &Tx<'_>, full: Vec<LaneId>) -> Result<(), Fault> {
        let locked: Vec<usize> = (0..self.feeds.len()).filter(|n| self.feeds[*n].is_locked).collect();
        if locked.is_empty() {
            return Ok(());
        }
        let wanted = locked.iter().map(|n| self.feeds[*n].name()).collect();
        let range = |n: &usize| {
            let open = &self.feeds[*n];
            let (environment, limit_group) = (open.asked.group()?.0, open.limit_group()?);
            Some(Range { place: *n, environment, limit_group, lane: None, most: open.group.limit? })
        };
        let counts = LeasedCounts(locked.iter().filter_map(range).collect());
        let next_lane = NextLane { wanted, full, limit: self.share, locked: true };
        let (counted, found) = tx.run((counts.statement(), next_lane)).await?;
        for (place, leased) in counts.read(&counted)? {
            self.feeds[place].leased = leased;
        }
        self.lanes.extend(lanes_of(found, locked.len(), |n| locked.get(n).copied())?);
        Ok(())
    }

    /// Computes the free capacity of feeds and lanes, and sorts the lanes by turn.
    async fn make_room(&mut self, tx: &Tx<'_>, ask: &LeaseAsk) -> Result<(), Fault> {
        for open in &mut self.feeds {
            let used = Used { leased: open.leased, booked_until: open.group.booked_until };
            open.allowance = Allowance::new(open.group.limits(), used, open.asked.ask.capacity, self.now);
        }
        let range = |(place, lane): (usize, &ReadyLane)| {
            let (limit_group, most) = self.feeds[lane.feed].lane_limit(lane.row.id)?;
            Some(Range { place, environment: lane.row.environment, limit_group, lane: Some(lane.row.id), most })
        };
        let counts = LeasedCounts(self.lanes.iter().enumerate().filter_map(range).collect());
        let counted = tx_counts(tx, &counts).await?;
        for (place, leased) in counted {
            let lane = &mut self.lanes[place];
            lane.key_room = room(self.feeds[lane.feed].group.lane_limit, leased);
        }
        let free_by_lane: HashMap<LaneId, usize> = ask.free_by_lane.iter().copied().collect();
        for lane in &mut self.lanes {
            let free = free_by_lane.get(&lane.row.id).copied().unwrap_or(ask.per_lane);
            lane.room = lane.key_room.min(free).min(self.feeds[lane.feed].allowance.room()).min(ask.tasks_max());
        }
        // The feed whose lanes have waited longest goes first.
        let mut first = vec![Timestamp::NEVER; self.feeds.len()];
        for lane in self.lanes.iter().filter(|lane| lane.room > 0) {
            first[lane.feed] = first[lane.feed].min(lane.row.ready_at);
        }
        self.lanes.sort_by_key(|lane| (first[lane.feed], lane.feed, lane.row.ready_at));
        Ok(())
    }
}

impl OpenFeeds<'_> {
    /// Returns the time until a feed can give tasks, if one of its lanes is ready after `wait`; none if its limit is
    /// reached.
    pub(crate) fn wait(&self, feed: usize, wait: Duration) -> Option<Duration> {
        let allowance = &self.feeds[feed].allowance;
        (!allowance.is_full()).then(|| wait.max(allowance.free_at(self.now).since(self.now)))
    }

    /// Returns the earliest time at which one of the feeds can give tasks.
    pub(crate) fn next_ready(&self, ready: &[(usize, i64)]) -> Result<Option<Duration>, Fault> {
        let mut earliest = None;
        for (n, micros) in ready {
            let wait = Duration::from_micros(u64::try_from(*micros).unwrap_or(0));
            let wait = self.wait(place(*n, self.feeds.len())?, wait);
            earliest = [earliest, wait].into_iter().flatten().min();
        }
        Ok(earliest)
    }
}

async fn tx_counts(tx: &Tx<'_>, counts: &LeasedCounts) -> Result<Vec<(usize, usize)>, Fault> {
    if counts.0.is_empty() {
        return Ok(Vec::new());
    }
    let counted = tx.run(counts.statement()).await?;
    counts.read(&counted)
}

/// Converts rows to lanes of the feeds that have an index.
fn lanes_of(
    rows: Vec<LaneOfFeed>,
    asked: usize,
    feed_of: impl Fn(usize) -> Option<usize>,
) -> Result<Vec<ReadyLane>, Fault> {
    let mut lanes = Vec::with_capacity(rows.len());
    for (n, row, version, _) in rows {
        let feed = feed_of(place(n, asked)?);
        lanes.extend(feed.map(|feed| ReadyLane::new(feed, row, version)));
    }
    Ok(lanes)
}

/// Converts the `n`th row of a statement to an index.
pub(crate) fn place(n: usize, asked: usize) -> Result<usize, Fault> {
    n.checked_sub(1).filter(|n| *n < asked).ok_or(Fault::Corrupt { table: "lane", column: "n" })
}

/// Leased tasks to count, each range with its index in the caller's list.
struct LeasedCounts(Vec<Range>);

struct Range {
    place: usize,
    environment: EnvironmentId,
    limit_group: Id,
    /// None means all lanes.
    lane: Option<LaneId>,
    /// Counting stops here, because a larger number makes no difference.
    most: u32,
}

impl LeasedCounts {
    /// Returns the statement that counts; none if there is nothing to count.
    fn statement(&self) -> Option<CountLeased<'_>> {
        let mut wanted = LeasedRanges::default();
        for Range { environment, limit_group, lane, most, .. } in &self.0 {
            let (low, high): (&[u8], &[u8]) = match lane {
                Some(lane) => (lane.as_bytes(), lane.as_bytes()),
                None => (&[], &LANE_ABOVE),
            };
            let most = usize::try_from(*most).unwrap_or(usize::MAX);
            wanted.push(LeasedRange { environment: *environment, limit_group: *limit_group, low, high, most });
        }
        wanted.nonempty().map(|wanted| CountLeased { wanted })
    }

    /// Returns the numbers of leased tasks, by index.
    fn read(&self, counted: &[(usize, usize)]) -> Result<Vec<(usize, usize)>, Fault> {
        let read = |(n, leased): &(usize, usize)| Ok((self.0[place(*n, self.0.len())?].place, *leased));
        counted.iter().map(read).collect()
    }
}
