//! The limits of an endpoint's lane: how many deliveries a lease may take, and how long the lane holds afterwards.
//!
//! Pure. A lease locks the lane, counts its leased deliveries and asks here. Called by the leases of the stores. Lanes
//! without limits, or with a rate only, use the fast path and are not counted.

use std::time::Duration;

use crate::id::{Id, LaneId};
use crate::lane::{HoldKind, room};
use crate::policy::breaker::{Breaker, BreakerChange};
use crate::policy::rate::STRIDE;
use crate::policy::{BreakerSettings, OnDead, RateLimit};
use crate::time::Timestamp;

/// A lane at its limit holds for this time, unless the end of a delivery ends the hold earlier. The timer is needed
/// because a crashed node ends no hold, and a node that takes over a task settles it without its endpoint.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// A blocked lane holds for this time, unless a command ends the hold earlier. Retention ends no hold.
const LOOK_AGAIN_BLOCKED: Duration = Duration::from_secs(60);

/// The limits of one lane over all replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneLimits {
    pub rate: Option<RateLimit>,
    /// Deliveries that may run at the same time.
    pub concurrency: Option<u32>,
    /// If set, deliveries are sent one after the other. The value decides the effect of a dead delivery.
    pub order: Option<OnDead>,
    /// Whether its deliveries are ordered by a key: only the first of each key is due.
    pub is_keyed: bool,
    pub breaker: Option<BreakerSettings>,
    /// Deliveries that may run at the same time because the breaker is not closed.
    pub recovering: Option<u32>,
}

/// The effect of the end of an attempt on the lane of its task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitEnd {
    /// Ends the hold of a lane at its concurrency limit.
    pub is_freed: bool,
    pub place: RetryPlace,
    pub breaker: Option<BreakerChange>,
}

/// The place of a task in its lane after a failed attempt with a retry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetryPlace {
    /// The task is due after its delay, behind tasks that are due earlier.
    #[default]
    Moves,
    /// The task keeps its due time if the lane counts its tasks, as ordered lanes do. Otherwise it moves. A node that
    /// takes over a task uses this, because it does not know the lane.
    KeptIfCounted,
    /// The task keeps its due time, and the whole lane waits for the delay.
    Kept,
}

/// A lane as a lease finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockedLane {
    pub hold_until: Timestamp,
    /// Leased deliveries that count against its concurrency limit.
    pub leased: usize,
    /// Whether a dead delivery comes before its first one.
    pub is_behind_dead: bool,
    pub now: Timestamp,
}

/// The time until which a lane holds, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    pub until: Timestamp,
    pub kind: HoldKind,
}

impl LaneLimits {
    pub const fn is_any(&self) -> bool {
        self.rate.is_some() || self.needs_lease()
    }

    /// Whether deliveries have to be leased, because the lease counts them. The permits of a rate are also taken by
    /// appends.
    pub const fn needs_lease(&self) -> bool {
        self.breaker.is_some() || self.at_once().is_some() || self.is_keyed
    }

    /// Returns the limits of a lane whose breaker is in this state.
    #[must_use]
    pub fn under(self, breaker: Breaker) -> LaneLimits {
        LaneLimits { recovering: self.breaker.and_then(|_| breaker.at_once()), ..self }
    }

    /// Deliveries that may run at the same time.
    pub const fn at_once(&self) -> Option<u32> {
        match (self.concurrency, self.recovering) {
            _ if self.order.is_some() => Some(1),
            (Some(limit), Some(most)) if limit > most => Some(most),
            (Some(limit), _) => Some(limit),
            (None, most) => most,
        }
    }

    /// The limit group of the lane's deliveries, if they are counted.
    pub fn group(&self, lane: LaneId) -> Option<Id> {
        self.at_once().map(|_| lane.0)
    }

    /// Returns the time until which tasks of the lane are due. All positions of an ordered lane are due, so that a
    /// clock that was set back delays none.
    pub fn due_until(&self, last_position: Timestamp, now: Timestamp) -> Timestamp {
        if self.order.is_some() { last_position.max(now) } else { now }
    }

    /// Whether dead deliveries block the lane.
    pub fn is_blocked_by_dead(&self) -> bool {
        self.order == Some(OnDead::Block)
    }

    /// Returns the effect of an end of one of its deliveries. The hold of a lane with a rate limit also says which
    /// permits are used, and must not end early.
    pub fn end(&self) -> LimitEnd {
        let place = if self.order.is_some() { RetryPlace::Kept } else { RetryPlace::Moves };
        LimitEnd { is_freed: self.at_once().is_some() && self.rate.is_none(), place, breaker: None }
    }

    /// Returns how many deliveries may be leased.
    pub fn room(&self, lane: LockedLane) -> usize {
        let permits = self.rate.map_or(usize::MAX, |rate| rate.permits(lane.hold_until, lane.now));
        if self.is_blocked(lane) { 0 } else { room(self.at_once(), lane.leased).min(permits) }
    }

    /// Returns the hold of the lane after a lease that took `gave` deliveries; none if the hold stays as it is.
    pub fn hold(&self, lane: LockedLane, gave: usize) -> Option<Hold> {
        let LockedLane { hold_until, leased, now, .. } = lane;
        if self.is_blocked(lane) {
            return Some(Hold { until: now.plus(LOOK_AGAIN_BLOCKED), kind: HoldKind::Blocked });
        }
        let booked = self.rate.filter(|_| gave > 0).map(|rate| rate.hold(hold_until, now, gave));
        let booked = booked.map(|until| Hold { until, kind: HoldKind::RateLimit });
        if room(self.at_once(), leased + gave) > 0 {
            return booked;
        }
        let wait = if self.rate.is_some() { STRIDE } else { LOOK_AGAIN };
        let kind = if self.order.is_some() { HoldKind::Order } else { HoldKind::Concurrency };
        let full = Hold { until: now.plus(wait), kind };
        Some(booked.filter(|booked| booked.until >= full.until).unwrap_or(full))
    }

    /// A running delivery already keeps the lane from giving more, with a shorter hold.
    fn is_blocked(&self, lane: LockedLane) -> bool {
        self.is_blocked_by_dead() && lane.is_behind_dead && lane.leased == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(1_750_000_000_000 + millis)
    }

    fn lane(leased: usize, millis: i64) -> LockedLane {
        LockedLane { hold_until: Timestamp::default(), leased, is_behind_dead: false, now: at(millis) }
    }

    const TWO: LaneLimits =
        LaneLimits { rate: None, concurrency: Some(2), order: None, is_keyed: false, breaker: None, recovering: None };

    #[test]
    fn a_lane_gives_as_many_as_its_limit_leaves_and_holds_when_it_is_full() {
        assert_eq!([0, 1, 2, 9].map(|leased| TWO.room(lane(leased, 0))), [2, 1, 0, 0]);
        assert_eq!(TWO.hold(lane(0, 0), 1), None);
        let full = Some(Hold { until: at(1_000), kind: HoldKind::Concurrency });
        assert_eq!((TWO.hold(lane(0, 0), 2), TWO.hold(lane(2, 0), 0)), (full, full));
    }

    #[test]
    fn a_lane_without_limits_gives_all_and_never_holds() {
        let none = LaneLimits::default();
        assert_eq!((none.room(lane(9, 0)), none.hold(lane(9, 0), 100)), (usize::MAX, None));
    }

    #[test]
    fn the_later_hold_of_two_limits_wins() {
        let slow = LaneLimits { rate: Some(RateLimit { count: 1, seconds: 60 }), ..TWO };
        assert_eq!(slow.hold(lane(1, 0), 1).map(|hold| hold.kind), Some(HoldKind::RateLimit));
        let fast = LaneLimits { rate: Some(RateLimit { count: 1_000, seconds: 1 }), ..TWO };
        assert_eq!(fast.hold(lane(1, 0), 1), Some(Hold { until: at(100), kind: HoldKind::Concurrency }));
    }

    #[test]
    fn an_ordered_lane_gives_one_at_a_time_and_nothing_behind_a_dead_one() {
        let order = |on_dead| LaneLimits { order: Some(on_dead), ..TWO };
        let skip = order(OnDead::Skip);
        assert_eq!([0, 1].map(|leased| skip.room(lane(leased, 0))), [1, 0]);
        assert_eq!(skip.hold(lane(0, 0), 1), Some(Hold { until: at(1_000), kind: HoldKind::Order }));
        assert_eq!(skip.end(), LimitEnd { is_freed: true, place: RetryPlace::Kept, breaker: None });
        let behind = LockedLane { is_behind_dead: true, ..lane(0, 0) };
        assert_eq!((skip.room(behind), order(OnDead::Block).room(behind)), (1, 0));
        let blocked = order(OnDead::Block).hold(behind, 0);
        assert_eq!(blocked, Some(Hold { until: at(60_000), kind: HoldKind::Blocked }));
    }

    #[test]
    fn a_recovering_lane_gives_as_many_as_its_breaker_and_its_limit_allow() {
        let settings = BreakerSettings::default();
        let probing = Breaker::default().open(&settings).to;
        let with = |concurrency| LaneLimits { concurrency, breaker: Some(settings), ..LaneLimits::default() };
        assert_eq!(with(None).under(Breaker::default()).at_once(), None);
        assert_eq!(with(None).under(probing).room(lane(0, 0)), 1);
        assert_eq!(with(None).under(probing).room(lane(1, 0)), 0);
        assert_eq!((with(Some(5)).under(probing).at_once(), with(Some(5)).at_once()), (Some(1), Some(5)));
        assert!(with(None).is_any() && with(None).under(probing).end().is_freed && !with(None).end().is_freed);
        // Without the setting, a state that was left behind has no effect.
        assert_eq!(LaneLimits::default().under(probing), LaneLimits::default());
    }

    proptest! {
        /// Leases meet at the lane's lock, so one sequence stands for any number of nodes.
        #[test]
        fn no_sequence_of_leases_and_ends_exceeds_the_limit(
            limit in 1_u32..20, steps in prop::collection::vec((any::<bool>(), 1_usize..30), 1..200),
        ) {
            let limits = LaneLimits { concurrency: Some(limit), ..LaneLimits::default() };
            let (mut leased, mut held) = (0_usize, false);
            for (is_lease, count) in steps {
                if is_lease && !held {
                    let gave = limits.room(lane(leased, 0)).min(count);
                    held = limits.hold(lane(leased, 0), gave).is_some();
                    leased += gave;
                    prop_assert_eq!(held, leased >= usize::try_from(limit).unwrap());
                } else if !is_lease && leased > 0 {
                    (leased, held) = (leased - count.min(leased), false);
                }
                prop_assert!(leased <= usize::try_from(limit).unwrap());
            }
        }

        /// A hold of a full lane never gives permits of the rate back.
        #[test]
        fn a_full_lane_keeps_the_used_permits(count in 1_u32..100, gave in 0_usize..3) {
            let rate = RateLimit { count, seconds: 1 };
            let limits = LaneLimits { rate: Some(rate), concurrency: Some(1), ..LaneLimits::default() };
            let gave = limits.room(lane(0, 0)).min(gave);
            if let (Some(hold), true) = (limits.hold(lane(0, 0), gave), gave > 0) {
                prop_assert!(hold.until >= rate.hold(Timestamp::default(), at(0), gave));
            }
            prop_assert!(!limits.end().is_freed);
        }
    }
}
