//! The limits of an endpoint's lane: how many deliveries a lease may take, and how long the lane holds afterwards.
//!
//! Pure. A lease locks the lane, counts its leased deliveries and asks here. Called by the leases of the stores. Lanes
//! without limits use the fast path and are not counted.

use std::time::Duration;

use crate::id::{EnvironmentId, Id, LaneId};
use crate::lane::{HoldKind, room};
use crate::policy::RateLimit;
use crate::policy::rate::STRIDE;
use crate::time::Timestamp;

/// A full lane is looked at again after this time, unless the end of a delivery frees it before. A crashed node frees
/// nothing, and a task that was taken over ends without its endpoint.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The limits of one lane over all replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneLimits {
    pub rate: Option<RateLimit>,
    /// Deliveries that may run at the same time.
    pub concurrency: Option<u32>,
}

/// A lane as a lease finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockedLane {
    pub hold_until: Timestamp,
    /// Leased deliveries that count against its concurrency limit.
    pub leased: usize,
    pub now: Timestamp,
}

/// The time until which a lane holds, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    pub until: Timestamp,
    pub kind: HoldKind,
}

impl LaneLimits {
    /// Whether deliveries have to be leased, because the lease counts them.
    pub const fn is_any(&self) -> bool {
        self.rate.is_some() || self.concurrency.is_some()
    }

    /// The limit group of the lane's deliveries, if they are counted. Two environments may have lanes with the same id.
    pub fn group(&self, environment: EnvironmentId, lane: LaneId) -> Option<Id> {
        self.concurrency.map(|_| Id::derived(&[b"lane", &environment.0.to_be_bytes(), lane.as_bytes()]))
    }

    /// Whether the end of a delivery frees the lane for others. The hold of a lane with a rate limit also says which
    /// permits are used, and must not end early.
    pub const fn is_freed_by_ends(&self) -> bool {
        self.concurrency.is_some() && self.rate.is_none()
    }

    /// Returns how many deliveries may be leased.
    pub fn room(&self, lane: LockedLane) -> usize {
        let permits = self.rate.map_or(usize::MAX, |rate| rate.permits(lane.hold_until, lane.now));
        room(self.concurrency, lane.leased).min(permits)
    }

    /// Returns the hold of the lane after a lease that took `gave` deliveries; none if the hold stays as it is.
    pub fn hold(&self, lane: LockedLane, gave: usize) -> Option<Hold> {
        let LockedLane { hold_until, leased, now } = lane;
        let booked = self.rate.filter(|_| gave > 0).map(|rate| rate.hold(hold_until, now, gave));
        let booked = booked.map(|until| Hold { until, kind: HoldKind::RateLimit });
        if room(self.concurrency, leased + gave) > 0 {
            return booked;
        }
        let wait = if self.rate.is_some() { STRIDE } else { LOOK_AGAIN };
        let full = Hold { until: now.plus(wait), kind: HoldKind::Concurrency };
        Some(booked.filter(|booked| booked.until >= full.until).unwrap_or(full))
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
        LockedLane { hold_until: Timestamp::default(), leased, now: at(millis) }
    }

    const TWO: LaneLimits = LaneLimits { rate: None, concurrency: Some(2) };

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

    proptest! {
        /// Leases meet at the lane's lock, so one sequence stands for any number of nodes.
        #[test]
        fn no_sequence_of_leases_and_ends_exceeds_the_limit(
            limit in 1_u32..20, steps in prop::collection::vec((any::<bool>(), 1_usize..30), 1..200),
        ) {
            let limits = LaneLimits { rate: None, concurrency: Some(limit) };
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
            let limits = LaneLimits { rate: Some(rate), concurrency: Some(1) };
            let gave = limits.room(lane(0, 0)).min(gave);
            if let (Some(hold), true) = (limits.hold(lane(0, 0), gave), gave > 0) {
                prop_assert!(hold.until >= rate.hold(Timestamp::default(), at(0), gave));
            }
            prop_assert!(!limits.is_freed_by_ends());
        }
    }
}
