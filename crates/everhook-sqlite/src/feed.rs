//! The feeds of a lease: the state, limits and rates of their queues. Called by `lease`.
//!
//! There is one writer, so a count for a limit cannot change before it is used.

use std::sync::Arc;

use everhook_core::id::{EnvironmentId, Id, LaneId};
use everhook_core::lane::{Allowance, Feed, FeedKey, Limits, Used, room};
use everhook_core::queue::{QueueState, Target, queue_id};
use everhook_core::time::Timestamp;
use everhook_store::lease::FeedAsk;
use everhook_store::queue::LaneGroup;
use everhook_store::statement;

use crate::error::Fault;
use crate::resource;
use crate::sql::run;
use crate::writer::Tx;

statement! {
    FindGroup = "find_group" { environment: EnvironmentId, id: Id } -> Option<LaneGroup>;
    CountLeased = "count_leased" { group: Id, limit: u32 } -> Option<usize>;
    CountLeasedLane = "count_leased_lane" { environment: EnvironmentId, group: Id, lane: LaneId, limit: u32 }
        -> Option<usize>;
    ReserveGroupRate = (
        "reserve_group_rate",
        "update lane_group set booked_until = :until where environment = :environment and id = :id"
    ) { environment: EnvironmentId, id: Id, until: Timestamp };
}

/// A feed that tasks may be leased from.
pub(crate) struct OpenFeed {
    pub(crate) feed: Feed,
    pub(crate) key: FeedKey,
    limits: Limits,
    pub(crate) allowance: Allowance,
    /// The group that counts its leased tasks, if it has a limit.
    pub(crate) limit_group: Option<Id>,
    pub(crate) target: Option<Arc<Target>>,
}

impl OpenFeed {
    /// Opens a feed; none if it may give no task.
    pub(crate) fn open(tx: &Tx<'_>, asked: &FeedAsk) -> Result<Option<OpenFeed>, Fault> {
        if asked.capacity == 0 {
            return Ok(None);
        }
        let (limits, used, limit_group, target) = match &asked.feed {
            Feed::Deliveries => (Limits::default(), Used::default(), None, None),
            Feed::Queue { environment, name } => {
                let (environment, id) = (*environment, queue_id(*environment, name));
                let group = run(tx.conn, FindGroup { environment, id })?.unwrap_or(LaneGroup::OPEN);
                if group.state != QueueState::Open {
                    return Ok(None);
                }
                let limits = group.limits();
                let used = Used {
                    leased: count(tx, (environment, id), None, limits.tasks)?,
                    booked_until: group.booked_until,
                };
                let target = if group.pushes { resource::find_target(tx.conn, environment, id)? } else { None };
                (limits, used, limits.is_any().then_some(id), target)
            }
        };
        let allowance = Allowance::new(limits, used, asked.capacity, tx.now);
        let (feed, target) = (asked.feed.clone(), target.map(Arc::new));
        Ok(Some(OpenFeed { key: feed.key(), feed, limits, allowance, limit_group, target }))
    }

    /// Returns how many more tasks of a lane may be leased. A lane without a concurrency key has no limit of its own.
    pub(crate) fn lane_room(&self, tx: &Tx<'_>, lane: LaneId) -> Result<usize, Fault> {
        match self.limit_group {
            Some(group) if lane.0 != group && self.limits.tasks_per_lane.is_some() => {
                let limit = self.limits.tasks_per_lane;
                Ok(room(limit, count(tx, (self.environment(), group), Some(lane), limit)?))
            }
            _ => Ok(usize::MAX),
        }
    }

    /// The environment of a queue.
    fn environment(&self) -> EnvironmentId {
        match &self.feed {
            Feed::Deliveries => EnvironmentId(0),
            Feed::Queue { environment, .. } => *environment,
        }
    }

    /// Writes the time until which its rate is used up.
    pub(crate) fn book(&self, tx: &Tx<'_>) -> Result<(), Fault> {
        match (&self.feed, self.allowance.booked(tx.now)) {
            (Feed::Queue { environment, name }, Some(until)) => {
                let (environment, id) = (*environment, queue_id(*environment, name));
                run(tx.conn, ReserveGroupRate { environment, id, until }).map(drop)
            }
            _ => Ok(()),
        }
    }
}

/// Counts the leased tasks of a limit group, in one lane or in all. Counting stops at the limit, because a larger
/// number makes no difference.
pub(crate) fn count(
    tx: &Tx<'_>,
    (environment, group): (EnvironmentId, Id),
    lane: Option<LaneId>,
    limit: Option<u32>,
) -> Result<usize, Fault> {
    let Some(limit) = limit else { return Ok(0) };
    let leased = match lane {
        None => run(tx.conn, CountLeased { group, limit })?,
        Some(lane) => run(tx.conn, CountLeasedLane { environment, group, lane, limit })?,
    };
    Ok(leased.unwrap_or_default())
}
