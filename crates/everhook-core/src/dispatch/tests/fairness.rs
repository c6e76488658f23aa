//! Lane groups share the places of a node, and lanes have windows.

use proptest::prelude::*;

use super::*;
use crate::dispatch::health::Sign;

const SLOTS: usize = 1000;

fn fair(slots: usize) -> Dispatch<u32> {
    let config = DispatchConfig { slots, slots_per_lane: 250.min(slots), poll_interval: SECOND };
    Dispatch::new(config).with_fairness()
}

fn group(number: u16) -> GroupId {
    GroupId { environment: EnvironmentId(1), id: Id::derived(&[&number.to_be_bytes()]) }
}

fn lane(group: GroupId, number: u16) -> GroupedLane {
    GroupedLane { group, lane: LaneId(Id::derived(&[group.id.as_bytes(), &number.to_be_bytes()])) }
}

/// Starts a task of a lane on the fast path, if it finds a place.
fn begin(dispatch: &mut Dispatch<u32>, lane: GroupedLane) -> bool {
    let may_begin = dispatch.reserve(lane);
    if may_begin {
        dispatch.handle(Event::Committed(ticket(lane.lane, 0)), Duration::ZERO);
        assert!(matches!(dispatch.poll(Duration::ZERO), Some(Command::Start(_))), "a slot is free");
    }
    may_begin
}

fn end_with(dispatch: &mut Dispatch<u32>, lane: GroupedLane, sign: Sign) -> Option<Duration> {
    let rest = dispatch.learn(lane.lane, sign, Duration::ZERO);
    dispatch.handle(Event::Ended(lane.lane), Duration::ZERO);
    dispatch.release(lane.lane);
    rest
}

#[test]
fn a_thousand_hanging_endpoints_leave_places_to_a_neighbour() {
    let mut dispatch = fair(SLOTS);
    let hanging: Vec<_> = (0..1000).flat_map(|n| [lane(group(1), n); 5]).collect();
    let held = hanging.iter().filter(|it| begin(&mut dispatch, **it)).count();
    assert_eq!(held, 400, "four fifths of the half for unproven lanes");
    for n in 0..50 {
        assert!(begin(&mut dispatch, lane(group(2), n)), "{n}");
    }
}

#[test]
fn a_lease_passes_over_groups_at_their_share() {
    let mut dispatch = fair(SLOTS);
    let held = (0..500).filter(|n| begin(&mut dispatch, lane(group(1), *n))).count();
    assert_eq!(held, 400);
    assert!(dispatch.poll_lease(SECOND).is_some());
    let lanes: Vec<_> = (500..600).map(|n| lane(group(1), n)).chain([lane(group(2), 1)]).collect();
    let rooms = dispatch.plan_lease(&lanes, 500);
    assert_eq!(rooms.iter().sum::<usize>(), 80, "only the neighbour");
    assert_eq!(rooms.last(), Some(&80));
    dispatch.handle(Event::Leased { tickets: vec![], next_ready: None, resume: None }, SECOND);
    assert!(dispatch.next_wakeup() > SECOND);
    end_with(&mut dispatch, lane(group(1), 0), Sign::Well);
    assert!(dispatch.poll_lease(SECOND).is_some(), "it is looked at when it has room");
}

#[test]
fn lanes_without_places_for_their_trust_are_leased_when_such_a_place_is_free() {
    let mut dispatch = fair(SLOTS);
    let (neighbour, other) = (lane(group(2), 1), lane(group(3), 1));
    for it in [neighbour, other] {
        assert!(begin(&mut dispatch, it));
        end_with(&mut dispatch, it, Sign::Well);
    }
    let held = (0..500).filter(|n| begin(&mut dispatch, lane(group(1), *n))).count();
    let mut now = SECOND;
    // Says whether the machine wants to lease again at once.
    let mut lease_in_vain = |dispatch: &mut Dispatch<u32>, meanwhile: Option<GroupedLane>| {
        now += SECOND * 2;
        assert!(dispatch.poll_lease(now).is_some());
        assert_eq!(dispatch.plan_lease(&[lane(group(1), 500)], 500), [0]);
        if let Some(it) = meanwhile {
            end_with(dispatch, it, Sign::Neutral);
        }
        dispatch.handle(Event::Leased { tickets: vec![], next_ready: None, resume: None }, now);
        dispatch.next_wakeup() <= now
    };
    assert_eq!(held, 400, "all places of the group for unproven lanes");
    assert!(!lease_in_vain(&mut dispatch, None));
    assert!(begin(&mut dispatch, neighbour));
    end_with(&mut dispatch, neighbour, Sign::Well);
    assert!(dispatch.next_wakeup() > SECOND * 3, "a place for proven lanes does not help");
    end_with(&mut dispatch, lane(group(1), 0), Sign::Neutral);
    assert_eq!(dispatch.next_wakeup(), SECOND * 3, "at once");
    assert!(begin(&mut dispatch, lane(group(1), 0)));
    assert!(begin(&mut dispatch, other));
    assert!(!lease_in_vain(&mut dispatch, Some(other)));
    assert!(lease_in_vain(&mut dispatch, Some(lane(group(1), 1))), "a place was freed during the lease");
    assert!(begin(&mut dispatch, lane(group(1), 1)));
    assert!(!lease_in_vain(&mut dispatch, None));
    assert_eq!(dispatch.learn(lane(group(1), 2).lane, Sign::Well, SECOND), None);
    assert_eq!(dispatch.next_wakeup(), SECOND * 9, "a lane is proven now and leaves its place to the others");
}

#[test]
fn places_that_a_lease_took_in_vain_start_no_other_lease() {
    let lease = |ends_meanwhile: bool| {
        let mut dispatch = fair(SLOTS);
        assert_eq!((0..500).filter(|n| begin(&mut dispatch, lane(group(1), *n))).count(), 400);
        assert!(dispatch.poll_lease(SECOND).is_some());
        let empty = lane(group(2), 1);
        let rooms = dispatch.plan_lease(&[lane(group(1), 500), empty], 500);
        assert_eq!(rooms, [0, 80]);
        (0..80).for_each(|_| dispatch.release(empty.lane));
        if ends_meanwhile {
            end_with(&mut dispatch, lane(group(1), 0), Sign::Neutral);
        }
        dispatch.handle(Event::Leased { tickets: vec![], next_ready: Some(SECOND / 2), resume: None }, SECOND);
        dispatch.next_wakeup() - SECOND
    };
    assert_eq!(lease(false), SECOND / 2, "the next lease would take and free the same places");
    assert_eq!(lease(true), Duration::ZERO);
}

/// The window of a lane that a node does not know.
const WINDOW: usize = crate::dispatch::health::WINDOW_FIRST;

#[test]
fn the_first_burst_of_a_lane_waits_in_line_for_its_window() {
    let mut dispatch = fair(SLOTS);
    let it = lane(group(1), 1);
    assert!((0..WINDOW).all(|_| begin(&mut dispatch, it)));
    for task in 0..250 - WINDOW {
        assert!(dispatch.reserve(it), "{task}");
        dispatch.handle(Event::Committed(ticket(it.lane, 0)), Duration::ZERO);
        assert_eq!(dispatch.poll(Duration::ZERO), None, "the window is full");
    }
    assert!(!dispatch.reserve(it), "the slots of an endpoint");
    end_with(&mut dispatch, it, Sign::Well);
    let mut started = 0;
    while let Some(Command::Start(_)) = dispatch.poll(Duration::ZERO) {
        started += 1;
    }
    assert_eq!(started, 2, "one for the success, and one because the window grew");
}

#[test]
fn a_timeout_halves_the_window_and_rests_a_lane_only_the_third_time() {
    let mut dispatch = fair(SLOTS);
    let it = lane(group(1), 1);
    assert!((0..WINDOW).all(|_| begin(&mut dispatch, it)));
    assert_eq!(end_with(&mut dispatch, it, Sign::Overloaded), None);
    assert_eq!(end_with(&mut dispatch, it, Sign::Overloaded), None);
    assert_eq!(end_with(&mut dispatch, it, Sign::Overloaded), Some(SECOND));
    for _ in 0..WINDOW - 3 {
        assert_eq!(end_with(&mut dispatch, it, Sign::Overloaded), None, "one burst");
    }
    let held = (0..200).filter(|_| begin(&mut dispatch, it)).count();
    assert_eq!(held, WINDOW / 2);
}

#[test]
fn a_rest_hands_back_the_tasks_that_wait() {
    let mut dispatch = fair(3).leasing_ahead(8);
    let it = lane(group(1), 1);
    assert_eq!(dispatch.plan_lease(&[it], 2), [2]);
    dispatch.handle(
        Event::Leased {
            tickets: (1..=2).map(|task| Ticket { order: StartOrder::AsLeased, ..ticket(it.lane, task) }).collect(),
            next_ready: None,
            resume: None,
        },
        SECOND,
    );
    assert!(matches!(dispatch.poll(SECOND), Some(Command::Start(_))));
    assert_eq!(dispatch.learn(it.lane, Sign::Overloaded, SECOND), None);
    assert_eq!(dispatch.learn(it.lane, Sign::Overloaded, SECOND), None);
    assert_eq!(dispatch.poll(SECOND), None);
    assert_eq!(dispatch.learn(it.lane, Sign::Overloaded, SECOND), Some(SECOND));
    assert!(matches!(dispatch.poll(SECOND), Some(Command::HandBack(_))));
}

#[test]
fn suspect_lanes_have_an_eighth_of_the_node() {
    let mut dispatch = fair(SLOTS);
    let all: Vec<_> = (0..400).map(|n| lane(group(1), n)).collect();
    for it in &all {
        assert!(begin(&mut dispatch, *it));
        end_with(&mut dispatch, *it, Sign::Unreachable);
    }
    let held = all.iter().filter(|it| begin(&mut dispatch, **it)).count();
    assert_eq!(held, SLOTS / 8);
}

#[test]
fn the_group_with_the_fewest_places_gets_the_next_slot() {
    let mut dispatch = fair(4).leasing_ahead(100);
    let (hog, small) = (lane(group(1), 1), lane(group(2), 1));
    // Fast lanes have places ahead.
    for _ in 0..100 {
        for it in [hog, small] {
            assert!(begin(&mut dispatch, it));
            end_with(&mut dispatch, it, Sign::Well);
        }
    }
    dispatch.poll_lease(SECOND / 100);
    let mut commit = |it: GroupedLane, task| {
        assert!(dispatch.reserve(it));
        dispatch.handle(Event::Committed(ticket(it.lane, task)), SECOND);
    };
    (0..10).for_each(|task| commit(hog, task));
    commit(small, 99);
    let mut started = Vec::new();
    for _ in 0..3 {
        while let Some(Command::Start(ticket)) = dispatch.poll(SECOND) {
            started.push(ticket.task);
        }
        dispatch.handle(Event::Ended(hog.lane), SECOND);
    }
    assert_eq!(started[..5], [0, 1, 2, 3, 99]);
}

/// Places are counted exactly, whatever happens.
fn check(steps: &[(u8, u8, u8)]) {
    let mut dispatch = fair(64);
    let mut running: Vec<GroupedLane> = Vec::new();
    for (what, of, number) in steps {
        let it = lane(group(u16::from(of % 4)), u16::from(number % 8));
        match what % 6 {
            0..=2 => running.extend(begin(&mut dispatch, it).then_some(it)),
            3 => {
                let lanes: Vec<_> = (0..8).map(|n| lane(it.group, n)).collect();
                let rooms = dispatch.plan_lease(&lanes, usize::from(*number));
                for (lane, room) in lanes.iter().zip(rooms) {
                    (0..room).for_each(|_| dispatch.release(lane.lane));
                }
            }
            _ => {
                if let Some(at) = running.iter().position(|other| *other == it) {
                    let sign = [Sign::Well, Sign::Overloaded, Sign::Unreachable, Sign::Neutral];
                    end_with(&mut dispatch, running.remove(at), sign[usize::from(number % 4)]);
                }
            }
        }
        assert_eq!(dispatch.leased(), running.len());
        let of_group = |number: u16| running.iter().filter(|it| it.group == group(number)).count();
        assert!((0..4).all(|number| of_group(number) <= 64 / 2 + 8));
    }
    for it in running.drain(..) {
        end_with(&mut dispatch, it, Sign::Neutral);
    }
    assert_eq!(dispatch.leased(), 0);
    assert!(dispatch.poll_lease(SECOND).is_none_or(|ask| ask.full_groups.is_empty()));
}

proptest! {
    #[test]
    fn places_are_counted_exactly(steps in prop::collection::vec((any::<u8>(), any::<u8>(), any::<u8>()), 0..300)) {
        check(&steps);
    }
}
