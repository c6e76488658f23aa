//! The experience of this node with its lanes: the number of concurrent sends, the trust, and the rests of each lane.
//!
//! The *window* of a lane grows with every success and is halved when the receiver is overloaded, as in TCP. A lane
//! rests only after several such failures without a success between them. A receiver that loses one request in a
//! hundred therefore keeps almost its full rate.
//!
//! Losing this state costs speed, not correctness. Lanes without an ended attempt for some minutes are forgotten.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::fair::Trust;
use crate::id::LaneId;
use crate::limits::LANE_HOLD_MAX;

/// The window of a lane that this node does not know.
pub(super) const WINDOW_FIRST: usize = 64;
/// Overload failures without a success between them after which a lane rests.
const STRIKES: u32 = 3;
/// The first rest; each further one is twice as long.
const REST_FIRST: Duration = Duration::from_secs(1);
/// A lane is forgotten after one to two such spans without an ended attempt.
const KEPT: Duration = Duration::from_secs(600);
/// The most lanes in each of the two generations.
const LANES_MAX: usize = 50_000;

/// The meaning of an ended attempt for the speed of its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// The receiver accepted the request.
    Well,
    /// The receiver hangs, or says that it is overloaded.
    Overloaded,
    /// The receiver could not be reached.
    Unreachable,
    /// Says nothing about the receiver's capacity.
    Neutral,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LaneHealth {
    window: usize,
    /// Below this size the window grows by one per success; above it, by one per window of successes.
    steep_until: usize,
    /// Successes since the window grew last.
    successes: usize,
    /// Sends that were under way when the window was cut last, and have not ended.
    stale: usize,
    /// Overload failures since the last success.
    strikes: u32,
    /// Rests since the last success.
    rests: u32,
    trust: Trust,
}

impl Default for LaneHealth {
    fn default() -> LaneHealth {
        LaneHealth {
            window: WINDOW_FIRST,
            steep_until: usize::MAX,
            successes: 0,
            stale: 0,
            strikes: 0,
            rests: 0,
            trust: Trust::Unproven,
        }
    }
}

impl LaneHealth {
    fn well(&mut self, slots: usize) {
        (self.strikes, self.rests, self.trust) = (0, 0, Trust::Proven);
        self.stale = self.stale.saturating_sub(1);
        if self.window >= slots {
            return;
        }
        self.successes += 1;
        if self.window < self.steep_until || self.successes >= self.window {
            self.window += 1;
            self.successes = 0;
        }
    }

    /// Halves the window, once for all sends under way.
    fn cut(&mut self, running: usize) {
        if self.stale > 0 {
            self.stale -= 1;
            return;
        }
        // If fewer sends were under way than the window allows, the receiver failed at that lower number.
        let window = self.window.min(running.max(1));
        (self.window, self.steep_until, self.successes) = ((window / 2).max(1), (window / 2).max(1), 0);
        self.stale = running.saturating_sub(1);
    }

    /// Returns the rest after an overload failure, if it is time for one. Sends that were under way at the first rest
    /// cause no second one.
    fn strike(&mut self) -> Option<Duration> {
        self.strikes += 1;
        let is_next = self.rests == 0 || self.stale == 0;
        if self.strikes < STRIKES || !is_next {
            return None;
        }
        let rest = REST_FIRST.saturating_mul(1 << self.rests.min(16)).min(LANE_HOLD_MAX);
        self.rests += 1;
        Some(rest)
    }
}

/// The lanes that this node knows.
#[derive(Clone, Debug, Default)]
pub(super) struct Health {
    young: BTreeMap<LaneId, LaneHealth>,
    /// Lanes without an end since `turned_at`.
    old: BTreeMap<LaneId, LaneHealth>,
    turned_at: Duration,
}

impl Health {
    /// The trust in a lane, and its window.
    pub(super) fn of(&self, lane: LaneId) -> (Trust, usize) {
        let known = self.known(lane);
        (known.trust, known.window)
    }

    /// Whether the window of a lane was ever cut.
    pub(super) fn is_cut(&self, lane: LaneId) -> bool {
        self.known(lane).steep_until < usize::MAX
    }

    fn known(&self, lane: LaneId) -> LaneHealth {
        self.young.get(&lane).or_else(|| self.old.get(&lane)).copied().unwrap_or_default()
    }

    /// Applies the end of an attempt. `running` counts the sends of the lane that were under way, and `slots` bounds
    /// its window. Returns how long the lane has to rest, if it has to.
    pub(super) fn ended(
        &mut self,
        lane: LaneId,
        sign: Sign,
        running: usize,
        slots: usize,
        now: Duration,
    ) -> Option<Duration> {
        self.forget(now);
        let old = &mut self.old;
        let known = self.young.entry(lane).or_insert_with(|| old.remove(&lane).unwrap_or_default());
        match sign {
            Sign::Well => known.well(slots),
            Sign::Overloaded => {
                known.trust = Trust::Suspect;
                let rest = known.strike();
                known.cut(running);
                return rest;
            }
            Sign::Unreachable => {
                known.trust = Trust::Suspect;
                known.cut(running);
            }
            Sign::Neutral => known.stale = known.stale.saturating_sub(1),
        }
        None
    }

    fn forget(&mut self, now: Duration) {
        if now.saturating_sub(self.turned_at) >= KEPT || self.young.len() >= LANES_MAX {
            self.old = std::mem::take(&mut self.young);
            self.turned_at = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::id::Id;

    const LANE: LaneId = LaneId(Id::MIN);
    const SLOTS: usize = 250;

    fn health(signs: &[(Sign, usize)]) -> (Health, Vec<Option<u64>>) {
        let mut health = Health::default();
        let mut end = |(sign, running): &(Sign, usize)| health.ended(LANE, *sign, *running, SLOTS, Duration::ZERO);
        let rests = signs.iter().map(|it| end(it).map(|rest| rest.as_secs())).collect();
        (health, rests)
    }

    fn window(signs: &[(Sign, usize)]) -> usize {
        health(signs).0.of(LANE).1
    }

    #[test]
    fn a_window_grows_to_the_slots_of_an_endpoint() {
        assert_eq!(window(&[]), 64);
        assert_eq!(window(&[(Sign::Well, 1); 10]), 74);
        assert_eq!(window(&[(Sign::Well, 1); 1000]), SLOTS);
    }

    #[test]
    fn an_overloaded_receiver_gets_half_as_many_requests() {
        assert_eq!(window(&[(Sign::Overloaded, 64)]), 32);
        assert_eq!(window(&[(Sign::Unreachable, 64)]), 32);
        assert_eq!(window(&[(Sign::Neutral, 64)]), 64);
        assert_eq!(window(&[(Sign::Overloaded, 1)]), 1, "it fails at one request at a time");
    }

    #[test]
    fn one_burst_cuts_the_window_once() {
        let burst: Vec<_> = (1..=64).rev().map(|running| (Sign::Overloaded, running)).collect();
        assert_eq!(window(&burst), 32);
        assert_eq!(window(&[burst, vec![(Sign::Overloaded, 32)]].concat()), 16);
    }

    #[test]
    fn a_window_grows_slowly_above_its_last_cut() {
        let cut = [(Sign::Overloaded, 64)];
        let well = |count| [cut.to_vec(), vec![(Sign::Well, 1); count]].concat();
        assert_eq!(window(&well(31)), 32);
        assert_eq!(window(&well(32)), 33);
        assert_eq!(window(&well(32 + 33)), 34);
        assert_eq!(window(&well(40_000)), SLOTS);
    }

    #[test]
    fn a_single_timeout_does_not_rest_a_lane() {
        let (bad, well) = ((Sign::Overloaded, 1), (Sign::Well, 1));
        assert_eq!(health(&[bad, well, bad, bad, well, bad]).1, [None; 6]);
        assert_eq!(health(&[bad, bad, bad, bad, bad]).1, [None, None, Some(1), Some(2), Some(4)]);
        assert_eq!(health(&[bad; 20]).1.last(), Some(&Some(60)));
        assert_eq!(health(&[bad, bad, bad, well, bad, bad, bad]).1[6], Some(1), "a success ends the series");
    }

    #[test]
    fn one_burst_rests_a_lane_once() {
        let burst: Vec<_> = (1..=64).rev().map(|running| (Sign::Overloaded, running)).collect();
        let rests = health(&burst).1;
        assert_eq!(rests.iter().flatten().collect::<Vec<_>>(), [&1]);
    }

    #[test]
    fn a_lane_is_proven_until_it_fails_or_is_forgotten() {
        let mut health = Health::default();
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        let trust = |health: &Health| health.of(LANE).0;
        assert_eq!(trust(&health), Trust::Unproven);
        health.ended(LANE, Sign::Well, 1, SLOTS, minutes(1));
        assert_eq!(trust(&health), Trust::Proven);
        health.ended(LANE, Sign::Unreachable, 1, SLOTS, minutes(2));
        assert_eq!(trust(&health), Trust::Suspect);
        health.ended(LANE, Sign::Well, 1, SLOTS, minutes(3));
        let other = LaneId(Id::MAX);
        health.ended(other, Sign::Well, 1, SLOTS, minutes(11));
        assert_eq!(trust(&health), Trust::Proven);
        health.ended(other, Sign::Well, 1, SLOTS, minutes(22));
        assert_eq!(trust(&health), Trust::Unproven);
    }

    proptest! {
        #[test]
        fn a_window_stays_within_its_bounds(signs in prop::collection::vec((0_u8..4, 1_usize..300), 0..300)) {
            let sign = |n: u8| [Sign::Well, Sign::Overloaded, Sign::Unreachable, Sign::Neutral][usize::from(n)];
            let signs: Vec<_> = signs.into_iter().map(|(n, running)| (sign(n), running)).collect();
            let (health, rests) = health(&signs);
            prop_assert!((1..=SLOTS).contains(&health.of(LANE).1));
            prop_assert!(rests.into_iter().flatten().all(|rest| (1..=60).contains(&rest)));
            // Successes always bring it back.
            let back = window(&[signs, vec![(Sign::Well, 1); 40_000]].concat());
            prop_assert_eq!(back, SLOTS);
        }
    }
}
