//! Rate limits: the number of deliveries of a lane that may start now, over all replicas.
//!
//! Pure. Permits are the slots of a timetable, one per interval. The lane's `hold_until` stores the last used slot, so
//! that each node that locks the lane continues where the previous one stopped. Called by the appends and
//! leases of the stores.

use std::time::Duration;

use crate::policy::RateLimit;
use crate::time::{Timestamp, micros};

/// Unused slots of this time may be used at once. Together with [`PERMIT_LIFE`] it bounds the excess over ten seconds.
const UNUSED_MAX: Duration = Duration::from_millis(250);
/// A busy lane is leased from at this interval. A fast rate gives several permits each time.
pub(crate) const STRIDE: Duration = Duration::from_millis(100);
/// A delivery that has not started within this time after its lease returns to its lane. Otherwise a stalled node could
/// use old permits together with the current ones, and exceed the rate.
pub const PERMIT_LIFE: Duration = Duration::from_millis(700);

const SECOND: i64 = 1_000_000;
/// A bound for times that SQL adds to the clock: about 300 years.
const BOOKED_MAX: i64 = 10_000_000_000 * SECOND;

/// The permits that an append takes for deliveries that it starts: all of them or none. `append_direct_booked` of
/// PostgreSQL calculates [`Booking::hold`] in SQL, because it reads and writes the lane in one statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Booking {
    /// A hold that ended longer ago counts as if it had ended this long ago.
    pub unused_us: i64,
    /// The time from the first permit to the last one.
    pub before_us: i64,
    /// The time that all permits take.
    pub span_us: i64,
}

impl Booking {
    /// Returns the hold of the lane afterwards; none if it does not have these permits now.
    pub fn hold(self, hold_until: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let from = hold_until.as_micros().max(now.as_micros().saturating_sub(self.unused_us));
        let is_due = from.saturating_add(self.before_us) <= now.as_micros();
        is_due.then(|| Timestamp::from_micros(from.saturating_add(self.span_us)))
    }
}

impl RateLimit {
    /// Returns how many deliveries may start now in a lane that holds until `hold_until`.
    pub fn permits(self, hold_until: Timestamp, now: Timestamp) -> usize {
        let unused = i128::from(now.as_micros()) - i128::from(self.first_slot(hold_until, now));
        if unused < 0 {
            return 0;
        }
        let slots = unused * i128::from(self.count.max(1)) / self.period() + 1;
        usize::try_from(slots).unwrap_or(usize::MAX)
    }

    /// Returns the hold of the lane after `spent` deliveries have started.
    pub fn hold(self, hold_until: Timestamp, now: Timestamp, spent: usize) -> Timestamp {
        let booked = i128::from(self.first_slot(hold_until, now)) + self.span(spent);
        Timestamp::from_micros(i64::try_from(booked).unwrap_or(i64::MAX).saturating_add(self.lead()))
    }

    /// Returns what an append takes for `count` deliveries. A lane that leases would not look at has no permits, so
    /// that an append never goes beyond them.
    pub fn booking(self, count: usize) -> Booking {
        let interval = i64::try_from(self.span(1)).unwrap_or(i64::MAX);
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        Booking {
            unused_us: micros(UNUSED_MAX).saturating_sub(self.lead()),
            before_us: interval.saturating_mul(count.saturating_sub(1)).min(BOOKED_MAX),
            span_us: interval.saturating_mul(count).min(BOOKED_MAX),
        }
    }

    /// The first slot that is free.
    fn first_slot(self, hold_until: Timestamp, now: Timestamp) -> i64 {
        let booked = hold_until.as_micros().saturating_sub(self.lead());
        booked.max(now.as_micros().saturating_sub(micros(UNUSED_MAX)))
    }

    /// The time for which a lane is held beyond its next free slot, so that several slots are free then.
    fn lead(self) -> i64 {
        let interval = i64::try_from(self.span(1)).unwrap_or(i64::MAX);
        micros(STRIDE).saturating_sub(interval).max(0)
    }

    /// The time that `slots` take, rounded up.
    fn span(self, slots: usize) -> i128 {
        let slots = i128::try_from(slots).unwrap_or(i128::MAX / i128::from(i64::MAX));
        let count = i128::from(self.count.max(1));
        (slots * self.period() + count - 1) / count
    }

    fn period(self) -> i128 {
        i128::from(self.seconds.max(1)) * i128::from(SECOND)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(1_750_000_000_000 + millis)
    }

    fn per_second(count: u32) -> RateLimit {
        RateLimit { count, seconds: 1 }
    }

    /// Starts as many as allowed.
    fn spend(rate: RateLimit, hold: &mut Timestamp, now: Timestamp) -> usize {
        let permits = rate.permits(*hold, now);
        if permits > 0 {
            *hold = rate.hold(*hold, now, permits);
        }
        permits
    }

    #[test]
    fn a_slow_rate_gives_one_at_a_time() {
        let (rate, mut hold) = (RateLimit { count: 1, seconds: 60 }, Timestamp::default());
        assert_eq!(spend(rate, &mut hold, at(0)), 1);
        assert_eq!(rate.permits(hold, at(59_000)), 0);
        assert_eq!(spend(rate, &mut hold, at(60_000)), 1);
    }

    #[test]
    fn a_fast_rate_gives_several_at_each_stride() {
        let (rate, mut hold) = (per_second(100), Timestamp::default());
        assert_eq!(spend(rate, &mut hold, at(0)), 26, "a quarter of a second that was not used, and the slot of now");
        assert_eq!(hold, at(100));
        assert_eq!(spend(rate, &mut hold, at(100)), 10);
        assert_eq!(hold, at(200));
    }

    #[test]
    fn a_lane_below_its_rate_is_not_held() {
        let (rate, mut hold) = (per_second(100), Timestamp::default());
        for n in 0..100 {
            let now = at(n * 20);
            assert!(rate.permits(hold, now) > 0);
            hold = rate.hold(hold, now, 1);
            assert!(hold < at(n * 20 + 20));
        }
    }

    #[test]
    fn a_rest_of_the_lane_is_no_debt() {
        let rate = per_second(10);
        assert_eq!(rate.permits(at(60_000), at(59_000)), 0);
        assert_eq!(rate.permits(at(60_000), at(60_000)), 1);
    }

    #[test]
    fn an_append_takes_its_permits_together_or_none() {
        let (rate, idle) = (per_second(100), Timestamp::default());
        assert_eq!(rate.booking(17).hold(idle, at(0)), Some(at(10)), "160 ms that were not used, and the slot of now");
        assert_eq!(rate.booking(18).hold(idle, at(0)), None);
        assert_eq!(rate.booking(1).hold(at(1), at(0)), None, "leases do not look at the lane either");
    }

    proptest! {
        #[test]
        fn permits_of_several_deliveries_are_those_of_one_after_the_other(
            count in 1_u32..2_000, seconds in 1_u32..100, wanted in 1_usize..200, held in -400_i64..100,
        ) {
            let rate = RateLimit { count, seconds };
            let one_by_one = (0..wanted).try_fold(at(held), |hold, _| rate.booking(1).hold(hold, at(0)));
            prop_assert_eq!(rate.booking(wanted).hold(at(held), at(0)), one_by_one);
        }

        #[test]
        fn an_append_counts_like_a_lease(count in 1_u32..2_000, seconds in 1_u32..100, held in -400_i64..100) {
            let rate = RateLimit { count, seconds };
            let leased = (held <= 0).then(|| rate.hold(at(held), at(0), 1));
            prop_assert_eq!(rate.booking(1).hold(at(held), at(0)), leased);
            prop_assert!(leased.is_none() || rate.permits(at(held), at(0)) > 0);
        }

        /// The leases and appends of any number of nodes meet at the lane, so one sequence stands for all of them.
        #[test]
        fn no_span_of_ten_seconds_exceeds_the_rate_by_more_than_a_tenth(
            count in 1_u32..500,
            seconds in 1_u32..4,
            steps in prop::collection::vec((0_i64..400, 1_usize..60, any::<bool>()), 1..400),
        ) {
            let rate = RateLimit { count, seconds };
            let (mut hold, mut time, mut starts) = (Timestamp::default(), 0, Vec::new());
            for (step, wanted, is_append) in steps {
                time += step;
                if is_append {
                    if let Some(booked) = rate.booking(wanted).hold(hold, at(time)) {
                        hold = booked;
                        starts.push((time, wanted));
                    }
                    continue;
                }
                let permits = rate.permits(hold, at(time)).min(wanted);
                if permits > 0 {
                    hold = rate.hold(hold, at(time), permits);
                    starts.push((time, permits));
                }
            }
            // Each delivery starts at some time within the life of its permit.
            let life = i64::try_from(PERMIT_LIFE.as_millis()).unwrap();
            let allowed = (f64::from(count) / f64::from(seconds) * 11.0).ceil().max(11.0);
            for (from, _) in &starts {
                let within = starts.iter().filter(|(at, _)| (*from..*from + 10_000 + life).contains(at));
                let started = within.map(|(_, permits)| permits).sum::<usize>();
                prop_assert!(f64::from(u32::try_from(started).unwrap()) <= allowed, "{started} of {allowed}");
            }
        }

        #[test]
        fn a_lane_with_enough_to_do_uses_nine_tenths_of_its_rate(count in 1_u32..2_000, late in 0_i64..100) {
            let (rate, mut hold, mut started) = (per_second(count), Timestamp::default(), 0);
            let mut now = at(0);
            while now < at(20_000) {
                started += spend(rate, &mut hold, now);
                now = hold.max(now).plus(Duration::from_millis(u64::try_from(late).unwrap()));
            }
            prop_assert!(started * 10 >= usize::try_from(count).unwrap() * 20 * 9 - 10, "{started}");
        }

        #[test]
        fn a_lane_is_never_held_beyond_its_next_slot(count in 1_u32..=100_000, seconds in 1_u32..=86_400, spent in 1_usize..1_000) {
            let rate = RateLimit { count, seconds };
            let permits = rate.permits(Timestamp::default(), at(0));
            let hold = rate.hold(Timestamp::default(), at(0), permits.min(spent));
            let interval = Duration::from_secs(u64::from(seconds)).div_f64(f64::from(count)) + Duration::from_micros(1);
            prop_assert!(hold <= at(0).plus(interval.max(STRIDE)), "{hold:?}");
            prop_assert!(rate.permits(hold, hold) > 0);
        }
    }
}
