use proptest::prelude::*;

use super::*;
use crate::id::Id;

const LANE: (EnvironmentId, LaneId) = (EnvironmentId(1), LaneId(Id::MIN));

fn settings() -> BreakerSettings {
    BreakerSettings { failure_percent: 50, min_attempts: 4, window_seconds: 60, open_seconds: 10, max_open_seconds: 60 }
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Ends attempts of a closed lane at these seconds. Returns the second at which the breaker opens.
fn opens_at(ends: &[(u64, BreakerSign)]) -> Option<u64> {
    let mut windows = Windows::default();
    let mut opens = |(at, answer): &&(u64, BreakerSign)| {
        windows.ended(LANE, Breaker::default(), *answer, &settings(), secs(*at)).is_some()
    };
    ends.iter().find(|end| opens(end)).map(|(at, _)| *at)
}

use BreakerSign::{Fails, Unknown, Works};

#[test]
fn a_breaker_opens_when_enough_attempts_of_the_window_fail() {
    assert_eq!(opens_at(&[(0, Fails), (1, Fails), (2, Fails), (3, Fails)]), Some(3));
    assert_eq!(opens_at(&[(0, Fails), (1, Fails), (2, Fails)]), None, "too few attempts");
    assert_eq!(opens_at(&[(0, Works), (1, Fails), (2, Works), (3, Fails)]), Some(3), "half of them");
    assert_eq!(opens_at(&[(0, Works), (1, Works), (2, Works), (3, Fails), (4, Fails)]), None, "fewer than half");
    assert_eq!(opens_at(&[(0, Fails), (1, Unknown), (2, Fails), (3, Unknown), (4, Fails)]), None);
    assert_eq!(opens_at(&[(0, Fails), (1, Fails), (2, Fails), (200, Fails)]), None, "the window has passed");
    assert_eq!(opens_at(&[(58, Fails), (58, Fails), (59, Fails), (61, Fails), (62, Fails)]), Some(62));
}

#[test]
fn attempts_from_before_an_opening_do_not_open_the_breaker_again() {
    let (mut windows, closed) = (Windows::default(), Breaker::default());
    let end = |windows: &mut Windows, breaker| windows.ended(LANE, breaker, Fails, &settings(), secs(1));
    assert!((0..3).all(|_| end(&mut windows, closed).is_none()));
    // Another node has opened the breaker, and closed it again.
    let later = Breaker { openings: 1, ..closed };
    assert!((0..3).all(|_| end(&mut windows, later).is_none()));
    assert_eq!(end(&mut windows, later).map(|change| change.from), Some(later));
}

#[test]
fn the_open_time_doubles_with_each_failed_probe_up_to_its_limit() {
    let mut change = Breaker::default().open(&settings());
    let mut times = vec![change.open_for];
    for _ in 0..20 {
        assert_eq!(change.to.phase(), BreakerPhase::Probing);
        change = change.to.after(Fails, &settings()).unwrap();
        times.push(change.open_for);
    }
    let times: Vec<u64> = times.into_iter().map(|time| time.unwrap().as_secs()).collect();
    assert_eq!((&times[..4], times[20]), (&[10, 20, 40, 60][..], 60));
}

#[test]
fn successes_ramp_up_and_close_and_a_failure_steps_back() {
    let (settings, mut breaker) = (settings(), Breaker::default().open(&settings()).to);
    let mut ramp = Vec::new();
    while let Some(at_once) = breaker.at_once() {
        ramp.push(at_once);
        breaker = breaker.after(Works, &settings).unwrap().to;
    }
    assert_eq!(ramp, [1, 2, 4, 8, 16, 32]);
    assert_eq!(breaker, Breaker { openings: 1, trips: 0, at_once: 0 });
    let recovering = Breaker { openings: 1, trips: 3, at_once: 8 };
    let back = recovering.after(Fails, &settings).unwrap();
    assert_eq!((back.to, back.open_for, back.step()), (Breaker { at_once: 4, ..recovering }, None, BreakerStep::Moved));
    assert_eq!(recovering.after(Unknown, &settings), None);
}

#[test]
fn only_a_receiver_that_does_not_work_counts_as_a_failure() {
    let of = |status| BreakerSign::of(Class::Status, status);
    assert_eq!([200, 301, 404, 422, 499, 500, 503].map(of), [Works, Works, Works, Works, Works, Fails, Fails]);
    assert_eq!([408, 425].map(of), [Unknown; 2]);
    assert_eq!([429, 502, 504].map(|status| BreakerSign::of(Class::Throttled, status)), [Unknown, Fails, Fails]);
    assert_eq!([Class::Timeout, Class::Dns, Class::Reset].map(|class| BreakerSign::of(class, 0)), [Fails; 3]);
    assert_eq!([Class::Blocked, Class::Interrupted, Class::Gone].map(|class| BreakerSign::of(class, 0)), [Unknown; 3]);
    assert_eq!(BreakerSign::of(Class::Success, 200), Works);
}

proptest! {
    /// Deliveries of any number of nodes end in any order; each change is written only if its state is still current.
    #[test]
    fn a_breaker_never_runs_more_than_it_allows_and_always_comes_to_an_end(
        steps in prop::collection::vec((any::<bool>(), any::<bool>(), 0_usize..40), 1..400),
    ) {
        let settings = settings();
        let mut breaker = Breaker::default().open(&settings).to;
        let mut leased: Vec<Breaker> = Vec::new();
        for (is_lease, works, at) in steps {
            let most = breaker.at_once().map_or(usize::MAX, |most| usize::try_from(most).unwrap());
            if is_lease && leased.len() < most {
                leased.push(breaker);
                prop_assert!(breaker.phase() != BreakerPhase::Probing || leased.len() == 1, "one probe at a time");
            } else if !leased.is_empty() {
                let seen = leased.swap_remove(at % leased.len());
                let answer = if works { Works } else { Fails };
                let change = Windows::default().ended(LANE, seen, answer, &settings, secs(1));
                let change = change.filter(|change| change.from == breaker);
                prop_assert!(change.is_none_or(|change| change.open_for.is_none_or(|time| time <= secs(60))));
                breaker = change.map_or(breaker, |change| change.to);
            }
            prop_assert_eq!(Breaker::from_db(breaker.to_db()), Some(breaker));
        }
        // From any state, a receiver that works closes the breaker after a few deliveries.
        for _ in 0..6 {
            breaker = breaker.after(Works, &settings).filter(|_| !breaker.is_closed()).map_or(breaker, |it| it.to);
        }
        prop_assert!(breaker.is_closed());
    }
}

#[test]
fn a_change_from_the_same_state_is_seen_once() {
    let mut seen = SeenChanges::default();
    let opened = Breaker::default().open(&settings());
    let moved = opened.to.after(Works, &settings()).unwrap();
    let reopened = opened.to.open(&settings());
    let firsts = [opened, opened, moved, reopened, reopened.to.open(&settings())];
    assert_eq!(firsts.map(|change| seen.is_first(LANE, &change)), [true, false, true, false, true]);
}
