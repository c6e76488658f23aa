//! The lane protocol: how many tasks each lane gives to a lease, and when its next turn is.
//!
//! Pure, for deliveries and jobs alike: a store reads lanes and counts leased tasks, calls this module, and writes the
//! decision. The stores hold the locks that keep wake-ups from being lost (`docs/adr/0003-lanes.md`).

use std::time::Duration;

use crate::id::{EnvironmentId, ID_BYTES, LaneId};
use crate::limits::{LEASE_JOBS_MAX, LEASE_TASKS_MAX};
use crate::name::Name;
use crate::queue::{Queue, Rate, queue_id};
use crate::task::{PRIORITY_DEFAULT, stored_as};
use crate::time::Timestamp;

/// The most lanes that may stay ready without a due task. Every lease locks and scans all of them.
pub const STAY_LANES_MAX: usize = 64;
/// A lane whose next task is due within this time is not written: it is scanned again anyway.
const SOON: Duration = Duration::from_secs(1);

/// Whether tasks of a lane may be leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneState {
    Open,
    /// The endpoint is disabled or paused.
    Held,
    /// The endpoint was deleted: every task is leased, due or not, and settled as cancelled.
    Closing,
}

stored_as!(LaneState { Open = 0, Held = 1, Closing = 2 });

/// Why a lane gives no tasks before a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HoldKind {
    /// The receiver asked for a pause, or did not answer.
    #[default]
    BackOff,
    /// The rate limit is used up until then.
    RateLimit,
    /// The concurrency limit is reached. The end of a delivery ends the hold before its time.
    Concurrency,
    /// A delivery of an ordered lane runs. Its end ends the hold before its time.
    Order,
    /// The first delivery of an ordered lane waits for its retry.
    Retry,
    /// An earlier delivery of an ordered lane is dead, and blocks the lane.
    Blocked,
    /// The circuit breaker is open.
    Breaker,
}

stored_as!(HoldKind { BackOff = 0, RateLimit = 1, Concurrency = 2, Order = 3, Retry = 4, Blocked = 5, Breaker = 6 });

/// The lanes that one asker may lease from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Feed {
    /// Those of all endpoints.
    Deliveries,
    /// Those of one queue: its own, and one for each concurrency key.
    Queue { environment: EnvironmentId, name: Name },
}

/// A feed as lanes name it: one byte for deliveries, the id of a queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FeedKey(Vec<u8>);

impl Feed {
    /// Returns the key that the lanes of this feed carry.
    pub fn key(&self) -> FeedKey {
        match self {
            Feed::Deliveries => FeedKey(vec![0]),
            Feed::Queue { environment, name } => FeedKey(queue_id(*environment, name).as_bytes().to_vec()),
        }
    }

    /// Returns the most tasks of the feed that one lease takes.
    pub const fn lease_max(&self) -> usize {
        match self {
            Feed::Deliveries => LEASE_TASKS_MAX,
            Feed::Queue { .. } => LEASE_JOBS_MAX,
        }
    }

    /// Returns the priorities of its tasks, the first to run first.
    pub const fn priorities(&self) -> &'static [i16] {
        match self {
            Feed::Deliveries => &[PRIORITY_DEFAULT],
            Feed::Queue { .. } => &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        }
    }
}

impl FeedKey {
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Reads a stored key; none if it is neither one byte nor an id.
    pub fn from_slice(bytes: &[u8]) -> Option<FeedKey> {
        matches!(bytes.len(), 1 | ID_BYTES).then(|| FeedKey(bytes.to_vec()))
    }
}

/// The place of a lane among the ready lanes of a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LanePosition {
    pub ready_at: Timestamp,
    pub environment: EnvironmentId,
    pub lane: LaneId,
}

/// The limits of the lanes of one group, over all nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Leased tasks of the group.
    pub tasks: Option<u32>,
    /// Leased tasks of each lane with a concurrency key.
    pub tasks_per_lane: Option<u32>,
    /// Tasks per second.
    pub rate: Option<Rate>,
}

impl Limits {
    /// The limits of a queue.
    pub fn of(queue: &Queue) -> Limits {
        Limits { tasks: queue.limit, tasks_per_lane: queue.key_limit, rate: queue.rate }
    }

    /// Whether a lease has to lock the group and count its leased tasks.
    pub const fn is_any(&self) -> bool {
        self.tasks.is_some() || self.tasks_per_lane.is_some() || self.rate.is_some()
    }
}

/// The number of tasks that a limit leaves.
pub fn room(limit: Option<u32>, leased: usize) -> usize {
    limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(leased))
}

/// The tasks that a feed may give to one lease, and has given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    rate: Option<Rate>,
    booked_until: Timestamp,
    /// Tasks that its limit still allows.
    spare: usize,
    /// Tasks that its limit, its rate and the request still allow.
    left: usize,
    taken: usize,
}

/// The use of a group's limits before a lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Leased tasks that are counted under its limit.
    pub leased: usize,
    /// The time up to which its rate is used.
    pub booked_until: Timestamp,
}

impl Allowance {
    /// Computes the allowance of a group with these limits, for an asker with room for `asked` tasks.
    pub fn new(limits: Limits, used: Used, asked: usize, now: Timestamp) -> Allowance {
        let Limits { tasks, rate, .. } = limits;
        let spare = room(tasks, used.leased);
        let by_rate = rate.map_or(usize::MAX, |rate| rate.take(used.booked_until, now, usize::MAX).0);
        let left = asked.min(spare).min(by_rate);
        Allowance { rate, booked_until: used.booked_until, spare, left, taken: 0 }
    }

    /// Returns the number of tasks that the feed could give before this lease took any.
    pub const fn room(&self) -> usize {
        self.left + self.taken
    }

    /// Returns the number of tasks that the feed may still give.
    pub const fn left(&self) -> usize {
        self.left
    }

    /// Counts tasks that were leased.
    pub const fn take(&mut self, tasks: usize) {
        self.taken += tasks;
        self.left = self.left.saturating_sub(tasks);
        self.spare = self.spare.saturating_sub(tasks);
    }

    /// Whether its limit is reached. The end of a task, which also wakes the dispatcher, makes room again.
    pub const fn is_full(&self) -> bool {
        self.spare == 0
    }

    /// Returns the time up to which its rate is used after this lease; none if the lease need not write it.
    pub fn booked(&self, now: Timestamp) -> Option<Timestamp> {
        let rate = self.rate.filter(|_| self.taken > 0)?;
        Some(rate.take(self.booked_until, now, self.taken).1)
    }

    /// Returns the time at which its rate allows the next task; the earliest time without a rate.
    pub fn free_at(&self, now: Timestamp) -> Timestamp {
        self.rate.map_or(Timestamp::default(), |_| self.booked(now).unwrap_or(self.booked_until))
    }
}

/// The tasks that a lease asked of a lane, and those that it got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    /// The tasks that the lane could give if it were the first of the lease: by its own limits, those of its feed and
    /// those of the lease.
    pub room: usize,
    /// The part of `room` that earlier lanes have left.
    pub asked: usize,
    pub gave: usize,
    /// Due tasks may have been skipped, because the caller does not take their kind.
    pub is_foreign: bool,
}

/// The next turn of a lane after a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The lane keeps its place, because earlier lanes filled the lease or their feed.
    Keep,
    /// The lane moves behind all ready lanes. It gave as many tasks as it had room for, and may have more.
    Back,
    /// The lane has no more due tasks. It is ready when its next task is due.
    Empty,
    /// Like `Empty`, but behind all ready lanes: due tasks for other callers may remain.
    Delay,
    /// The lane is not written, although all tasks due up to `until` are leased. This node scans it again at `next`.
    Stay { until: Timestamp, next: Timestamp },
}

/// Decides the next turn of a lane.
pub const fn turn(given: Given) -> Turn {
    let Given { room, asked, gave, is_foreign } = given;
    if asked == 0 {
        Turn::Keep
    } else if gave < asked {
        if is_foreign { Turn::Delay } else { Turn::Empty }
    } else if asked < room {
        Turn::Keep
    } else {
        Turn::Back
    }
}

/// The result of scanning a lane, for a store that seldom writes lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scanned {
    pub given: Given,
    /// The due time of the last leased task.
    pub last_due: Timestamp,
    /// The due time of the next task.
    pub next_due: Timestamp,
    /// The lane must be written in any case: its row is old, or the lane is closing.
    pub is_due_for_write: bool,
}

/// Decides the next turns of lanes, in the order in which they were scanned, and which of them are not written.
///
/// Each write of a lane leaves an old row version, which a long transaction keeps. A lane is therefore written only if
/// other nodes need the information. They do if lanes must take turns, because there are many or not all ready ones
/// were scanned. They also do if the lane has no due task for a while.
pub fn turns(lanes: &[Scanned], now: Timestamp) -> Vec<Turn> {
    let turns: Vec<Turn> = lanes.iter().map(|lane| turn(lane.given)).collect();
    if lanes.len() > STAY_LANES_MAX || turns.contains(&Turn::Keep) {
        return turns;
    }
    let stay = |(turn, lane): (Turn, &Scanned)| match turn {
        _ if lane.is_due_for_write => turn,
        Turn::Back => Turn::Stay { until: lane.last_due, next: now },
        Turn::Empty if lane.next_due <= now.plus(SOON) => Turn::Stay { until: now, next: lane.next_due },
        Turn::Keep | Turn::Empty | Turn::Delay | Turn::Stay { .. } => turn,
    };
    turns.into_iter().zip(lanes).map(stay).collect()
}

#[cfg(test)]
mod tests;
