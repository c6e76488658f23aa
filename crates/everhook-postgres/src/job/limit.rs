//! How many jobs queues may give: their state, limits and rates, read and locked for a lease.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use everhook_core::id::{EnvironmentId, ID_BYTES, Id, LaneId};
use everhook_core::limits::LEASE_LANES_MAX;
use everhook_core::queue::{QueueState, Rate, Target, queue_id};
use everhook_core::time::Timestamp;
use everhook_store::cache::TargetCache;
use everhook_store::job::{JobAsk, QueueAsk};
use everhook_store::queue::LaneGroup;
use everhook_store::{columns, row, statement};

use crate::columns::Keys;
use crate::error::Fault;
use crate::job::lease::ReadyLane;
use crate::resource::ListQueueGroup;
use crate::tx::{Now, Tx};

columns! {
    /// Queues by environment and name, each with the id of its lane group.
    pub(crate) QueueKeys of QueueKey<'a> { environment: EnvironmentId, name: &'a str, id: Id }

    /// Leased tasks to count: those of a limit group in a range of lanes, up to a bound.
    GateRanges of GateRange<'a> { limit_group: Id, low: &'a [u8], high: &'a [u8], most: usize }
}

row! {
    /// A lane of the `n`th queue that was asked for.
    pub(crate) struct NextLane in "lane" { n: usize, environment: EnvironmentId, id: LaneId, ready_at: Timestamp }
}

/// The number of a queue that was asked for, the time, and its lane group if the queue has a configuration.
type GroupRow = (usize, Timestamp, Option<LaneGroup>);

statement! {
    NextGroup = "next_group" { wanted: Keys } -> Vec<GroupRow>;
    LockGroup = "lock_group" { wanted: Keys } -> Vec<GroupRow>;
    pub(crate) NextLaneQueue<'a> = "next_lane_queue" { wanted: QueueKeys<'a>, limit: usize, locked: bool }
        -> Vec<NextLane>;
    // The number of a range, and how many are leased in it.
    pub(crate) CountLeased<'a> = "count_leased" { wanted: GateRanges<'a> } -> Vec<(usize, usize)>;
}

/// Sorts behind every lane.
const LANE_ABOVE: [u8; ID_BYTES + 1] = [0xff; ID_BYTES + 1];

/// A queue that jobs may be taken from; locked, if it has a limit or a rate.
pub(crate) struct OpenQueue<'a> {
    pub(crate) ask: &'a QueueAsk,
    /// The id of its lane group.
    pub(crate) id: Id,
    group: LaneGroup,
    pub(crate) target: Option<Arc<Target>>,
    /// It had a limit or a rate when it was looked at.
    pub(crate) is_locked: bool,
    /// What its leased tasks are counted under.
    pub(crate) limit_group: Option<Id>,
    /// How many more may be leased by its limit.
    spare: Option<usize>,
    /// How many it may give.
    pub(crate) capacity: usize,
    /// How many it gave.
    pub(crate) taken: usize,
    /// Until when its rate is used up.
    pub(crate) booked_until: Timestamp,
}

impl<'a> OpenQueue<'a> {
    fn new(ask: &'a QueueAsk, id: Id, group: LaneGroup) -> OpenQueue<'a> {
        OpenQueue {
            ask,
            id,
            target: None,
            is_locked: false,
            limit_group: group.is_limited().then_some(id),
            spare: None,
            capacity: 0,
            taken: 0,
            booked_until: group.booked_until,
            group,
        }
    }

    pub(crate) fn rate(&self) -> Option<Rate> {
        self.group.rate
    }

    fn key_limit(&self) -> Option<usize> {
        self.group.lane_limit.map(to_size)
    }

    /// Whether this lane is that of a concurrency key, and those have a limit.
    pub(crate) fn has_key_limit(&self, lane: LaneId) -> bool {
        self.key_limit().is_some() && self.limit_group.is_some_and(|limit_group| limit_group != lane.0)
    }

    /// Decides how many it may give, once what is leased of it was counted.
    pub(crate) fn make_room(&mut self, limit: usize, now: Timestamp) {
        self.capacity = self.ask.capacity.min(limit).min(self.spare.unwrap_or(usize::MAX));
        if let Some(rate) = self.rate() {
            (self.capacity, _) = rate.take(self.booked_until, now, self.capacity);
        }
    }

    /// Keeps what its rate has given: only what was taken.
    pub(crate) fn book(&mut self, taken: usize, now: Timestamp) {
        self.taken = taken;
        if let Some(rate) = self.rate() {
            (_, self.booked_until) = rate.take(self.booked_until, now, taken);
        }
    }

    /// Whether its limit is reached.
    pub(crate) fn is_full(&self) -> bool {
        self.spare.is_some_and(|spare| spare <= self.taken)
    }

    /// How long until its rate lets one go.
    pub(crate) fn token_in(&self, now: Timestamp) -> Duration {
        self.rate().map_or(Duration::ZERO, |_| self.booked_until.since(now))
    }
}

/// The queues that jobs may be taken from now, in the order of the asks.
pub(crate) struct OpenQueues<'a> {
    pub(crate) queues: Vec<OpenQueue<'a>>,
    /// Locked lanes of those that are not locked themselves.
    pub(crate) lanes: Vec<ReadyLane>,
    pub(crate) now: Timestamp,
    /// Another lease holds a queue with a limit.
    pub(crate) is_held: bool,
    /// How many lanes of each queue are looked at.
    pub(crate) share: usize,
}

/// Begins, reads the asked queues, locks lanes of those without limits, all in one round trip; and locks those with limits.
pub(crate) async fn open_queues<'a>(
    tx: &Tx<'_>,
    targets: &TargetCache,
    ask: &'a JobAsk,
) -> Result<OpenQueues<'a>, Fault> {
    // One that is named twice would be counted twice.
    let mut named = HashSet::with_capacity(ask.queues.len());
    let with_room = ask.queues.iter().filter(|queue| queue.capacity > 0);
    let asks: Vec<&QueueAsk> = with_room.filter(|queue| named.insert((queue.environment, &queue.name))).collect();
    let share = if ask.limit == 0 { 0 } else { LEASE_LANES_MAX.div_ceil(asks.len().max(1)) };
    let ids: Vec<Id> = asks.iter().map(|ask| queue_id(ask.environment, &ask.name)).collect();
    let wanted = queue_keys(asks.iter().copied().zip(ids.iter().copied()));
    let next_lane = NextLaneQueue { wanted, limit: share, locked: false };
    let keys = |places: &mut dyn Iterator<Item = usize>| Keys::of(places.map(|n| (asks[n].environment, ids[n])));
    let next_group = NextGroup { wanted: keys(&mut (0..asks.len())) };
    let (clock, found, lane_rows) = tx.begin((Now {}, next_group, next_lane)).await?;
    let mut now = clock.ok_or(Fault::Contended("the clock gave no answer"))?;
    let (mut open, mut limited) = (Vec::with_capacity(found.len()), Vec::new());
    for (n, _, group) in found {
        let (n, group) = (place(n, asks.len())?, group.unwrap_or(LaneGroup::OPEN));
        if group.is_limited() {
            limited.push(n);
        } else if group.state == QueueState::Open {
            open.push((n, OpenQueue::new(asks[n], ids[n], group)));
        }
    }
    let mut is_held = false;
    if !limited.is_empty() {
        let locked = tx.run(LockGroup { wanted: keys(&mut limited.iter().copied()) }).await?;
        is_held = locked.len() < limited.len();
        for (n, locked_at, group) in locked {
            let (n, group) = (limited[place(n, limited.len())?], group.unwrap_or(LaneGroup::OPEN));
            now = locked_at.max(now);
            if group.state == QueueState::Open {
                open.push((n, OpenQueue { is_locked: true, ..OpenQueue::new(asks[n], ids[n], group) }));
            }
        }
        open.sort_by_key(|(n, _)| *n);
    }
    load_targets(tx, targets, &mut open).await?;
    // What was read of a queue is older than its lanes: they do not count where it says something else.
    let place = |n: usize| open.iter().position(|(at, queue)| *at == n && !queue.is_locked);
    let lanes = ready_lanes(lane_rows, asks.len(), place)?;
    Ok(OpenQueues { queues: open.into_iter().map(|(_, queue)| queue).collect(), lanes, now, is_held, share })
}

/// Gives queues that push their targets; a queue whose target has gone meanwhile is closed to this lease.
async fn load_targets(tx: &Tx<'_>, targets: &TargetCache, open: &mut Vec<(usize, OpenQueue<'_>)>) -> Result<(), Fault> {
    for (_, queue) in open.iter_mut().filter(|(_, queue)| queue.group.pushes) {
        queue.target = targets.get(queue.ask.environment, queue.id, queue.group.version);
    }
    let is_missing = |queue: &OpenQueue<'_>| queue.group.pushes && queue.target.is_none();
    let missing = open.iter().filter(|(_, queue)| is_missing(queue));
    let Some(wanted) = Keys::of(missing.map(|(_, queue)| (queue.ask.environment, queue.id))).nonempty() else {
        return Ok(());
    };
    for (environment, id, version, configured) in tx.run(ListQueueGroup { wanted }).await? {
        let Some(target) = configured.target.map(Arc::new) else { continue };
        targets.put(environment, id, version, Arc::clone(&target));
        let found = open.iter_mut().find(|(_, queue)| (queue.ask.environment, queue.id) == (environment, id));
        found.into_iter().for_each(|(_, queue)| queue.target = Some(Arc::clone(&target)));
    }
    open.retain(|(_, queue)| !is_missing(queue));
    Ok(())
}

/// The lanes of asked queues, of those that have a place.
pub(crate) fn ready_lanes(
    rows: Vec<NextLane>,
    asked: usize,
    queue_of: impl Fn(usize) -> Option<usize>,
) -> Result<Vec<ReadyLane>, Fault> {
    let mut lanes = Vec::with_capacity(rows.len());
    for NextLane { n, environment, id, ready_at } in rows {
        let queue = queue_of(place(n, asked)?);
        lanes.extend(queue.map(|queue| ReadyLane { queue, environment, id, ready_at, spare: usize::MAX, capacity: 0 }));
    }
    Ok(lanes)
}

/// The place in a list of what a statement calls its `n`th.
pub(crate) fn place(n: usize, asked: usize) -> Result<usize, Fault> {
    n.checked_sub(1).filter(|n| *n < asked).ok_or(Fault::Corrupt { table: "queue", column: "n" })
}

/// Queues as statements take them.
pub(crate) fn queue_keys<'a>(asks: impl Iterator<Item = (&'a QueueAsk, Id)>) -> QueueKeys<'a> {
    asks.map(|(ask, id)| QueueKey { environment: ask.environment, name: ask.name.as_str(), id }).collect()
}

/// The groups of leased jobs to count, each with its position in the caller's list.
#[derive(Default)]
pub(crate) struct LeasedCounts {
    ranges: Vec<Range>,
}

struct Range {
    place: usize,
    limit_group: Id,
    /// None: all lanes.
    lane: Option<LaneId>,
    most: usize,
}

impl LeasedCounts {
    /// Everything that is leased of queues with a limit.
    pub(crate) fn of_queues(queues: &[OpenQueue<'_>]) -> LeasedCounts {
        let range = |(place, open): (usize, &OpenQueue<'_>)| {
            let limit = open.group.limit?;
            Some(Range { place, limit_group: open.limit_group?, lane: None, most: to_size(limit) })
        };
        LeasedCounts { ranges: queues.iter().enumerate().filter_map(range).collect() }
    }

    /// The statement that counts; none if there is nothing to count.
    pub(crate) fn statement(&self) -> Option<CountLeased<'_>> {
        let mut wanted = GateRanges::default();
        for Range { limit_group, lane, most, .. } in &self.ranges {
            let (low, high): (&[u8], &[u8]) = match lane {
                Some(lane) => (lane.as_bytes(), lane.as_bytes()),
                None => (&[], &LANE_ABOVE),
            };
            wanted.push(GateRange { limit_group: *limit_group, low, high, most: *most });
        }
        wanted.nonempty().map(|wanted| CountLeased { wanted })
    }

    /// How many more may be leased, by place.
    fn spare(&self, counted: &[(usize, usize)]) -> Result<Vec<(usize, usize)>, Fault> {
        let spare = |(n, running): &(usize, usize)| {
            let range = &self.ranges[place(*n, self.ranges.len())?];
            Ok((range.place, range.most.saturating_sub(*running)))
        };
        counted.iter().map(spare).collect()
    }

    pub(crate) fn apply(&self, counted: &[(usize, usize)], queues: &mut [OpenQueue<'_>]) -> Result<(), Fault> {
        for (place, spare) in self.spare(counted)? {
            queues[place].spare = Some(spare);
        }
        Ok(())
    }
}

/// Cuts the room of lanes whose concurrency key has a limit.
pub(crate) async fn limit_keys(tx: &Tx<'_>, queues: &[OpenQueue<'_>], lanes: &mut [ReadyLane]) -> Result<(), Fault> {
    let range = |(place, lane): (usize, &ReadyLane)| {
        let queue = &queues[lane.queue];
        let most = queue.key_limit().filter(|_| queue.has_key_limit(lane.id))?;
        Some(Range { place, limit_group: queue.limit_group?, lane: Some(lane.id), most })
    };
    let counts = LeasedCounts { ranges: lanes.iter().enumerate().filter_map(range).collect() };
    if counts.ranges.is_empty() {
        return Ok(());
    }
    let counted = tx.run(counts.statement()).await?;
    for (place, spare) in counts.spare(&counted)? {
        lanes[place].spare = spare;
        lanes[place].capacity = lanes[place].capacity.min(spare);
    }
    Ok(())
}

fn to_size(limit: u32) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}
