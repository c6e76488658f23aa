//! Leased tasks start in order, wait, and are handed back.

use proptest::prelude::*;

use super::*;
use crate::dispatch::waiting::KEPT_WAITING;

const MOMENT: Duration = Duration::from_millis(1);

fn ordered(lane: LaneId, task: u32) -> Ticket<u32> {
    Ticket { order: StartOrder::AsLeased, ..ticket(lane, task) }
}

fn lane(number: u8) -> LaneId {
    LaneId(Id::from_bytes([number; 20]))
}

fn take(dispatch: &mut Dispatch<u32>, tickets: impl IntoIterator<Item = Ticket<u32>>) {
    let tickets = tickets.into_iter().collect();
    dispatch.handle(Event::Leased { tickets, next_ready: None, resume: None }, Duration::ZERO);
}

/// Commits a task that finds a place.
fn commit(dispatch: &mut Dispatch<u32>, ticket: Ticket<u32>) {
    assert!(dispatch.reserve(grouped(ticket.lane)));
    dispatch.handle(Event::Committed(ticket), Duration::ZERO);
}

/// The tasks to start, and those to hand back.
fn poll(dispatch: &mut Dispatch<u32>, now: Duration) -> (Vec<u32>, Vec<u32>) {
    let (mut started, mut handed_back) = (Vec::new(), Vec::new());
    while let Some(command) = dispatch.poll(now) {
        match command {
            Command::Start(ticket) => started.push(ticket.task),
            Command::HandBack(ticket) => handed_back.push(ticket.task),
        }
    }
    (started, handed_back)
}

fn starts(dispatch: &mut Dispatch<u32>) -> Vec<u32> {
    let (started, handed_back) = poll(dispatch, Duration::ZERO);
    assert!(handed_back.is_empty(), "{handed_back:?}");
    started
}

#[test]
fn neither_a_lane_nor_the_node_runs_more_than_its_slots() {
    let mut dispatch = dispatch();
    take(&mut dispatch, [ticket(LANE, 1), ticket(LANE, 2), ticket(LANE, 3), ticket(OTHER, 4), ticket(OTHER, 5)]);
    assert_eq!(starts(&mut dispatch), [1, 2, 4], "the lane is full, and then the node");
    dispatch.handle(Event::Ended(OTHER), Duration::ZERO);
    assert_eq!(starts(&mut dispatch), [5], "the lane is full still");
    dispatch.handle(Event::Ended(LANE), Duration::ZERO);
    assert_eq!(starts(&mut dispatch), [3]);
    assert_eq!(dispatch.leased(), 5, "they are not settled");
}

#[test]
fn deliveries_of_a_lane_start_in_the_order_of_their_lease() {
    let mut dispatch = dispatch_of(9, 9);
    take(&mut dispatch, [ordered(LANE, 1), ordered(LANE, 2), ordered(OTHER, 3), ordered(LANE, 4)]);
    assert_eq!(starts(&mut dispatch), [1, 3], "another lane waits for nothing");
    commit(&mut dispatch, ticket(LANE, 5));
    assert_eq!(starts(&mut dispatch), [5], "a committed one waits for nothing");
    dispatch.handle(Event::Begun(LANE), Duration::ZERO);
    assert_eq!(starts(&mut dispatch), [2]);
    dispatch.handle(Event::Ended(LANE), Duration::ZERO);
    assert!(starts(&mut dispatch).is_empty(), "the second one has not begun");
    dispatch.handle(Event::Begun(LANE), Duration::ZERO);
    assert_eq!(starts(&mut dispatch), [4]);
}

#[test]
fn a_committed_delivery_passes_nobody_who_waits_for_a_slot() {
    let mut dispatch = dispatch_of(9, 1).leasing_ahead(8);
    (0..4).for_each(|_| {
        assert!(dispatch.reserve(grouped(LANE)));
        run(&mut dispatch);
    });
    starts(&mut dispatch);
    dispatch.poll_lease(MOMENT);
    take(&mut dispatch, [ordered(LANE, 1), ordered(LANE, 2)]);
    assert_eq!(starts(&mut dispatch), [1]);
    dispatch.handle(Event::Begun(LANE), MOMENT);
    commit(&mut dispatch, ticket(LANE, 3));
    assert!(starts(&mut dispatch).is_empty(), "the slot is taken");
    dispatch.handle(Event::Ended(LANE), MOMENT);
    assert_eq!(starts(&mut dispatch), [2]);
    dispatch.handle(Event::Begun(LANE), MOMENT);
    dispatch.handle(Event::Ended(LANE), MOMENT);
    assert_eq!(starts(&mut dispatch), [3]);
}

#[test]
fn whoever_waits_for_two_seconds_is_handed_back() {
    let mut dispatch = dispatch_of(9, 1);
    dispatch.poll_lease(Duration::ZERO);
    take(&mut dispatch, [ticket(LANE, 1), ticket(LANE, 2), ticket(OTHER, 3), ticket(OTHER, 4)]);
    dispatch.handle(Event::Leased { tickets: vec![ticket(LANE, 5)], next_ready: None, resume: None }, MOMENT);
    assert_eq!(starts(&mut dispatch), [1, 3]);
    dispatch.poll_lease(SECOND);
    assert_eq!(dispatch.next_wakeup(), KEPT_WAITING);
    assert_eq!(poll(&mut dispatch, KEPT_WAITING - MOMENT), (vec![], vec![]));
    assert_eq!(poll(&mut dispatch, KEPT_WAITING), (vec![], vec![2, 4]));
    assert_eq!(dispatch.next_wakeup(), KEPT_WAITING + MOMENT);
    dispatch.handle(Event::Ended(LANE), KEPT_WAITING + MOMENT);
    assert_eq!(poll(&mut dispatch, KEPT_WAITING + MOMENT), (vec![5], vec![]), "a slot came in time");
    assert_eq!(dispatch.leased(), 5, "places are given back when that is settled");
}

#[test]
fn a_task_may_be_settled_before_its_runner_goes_on() {
    let mut dispatch = dispatch_of(1, 1);
    take(&mut dispatch, [ticket(LANE, 1), ticket(OTHER, 2)]);
    assert_eq!(starts(&mut dispatch), [1]);
    dispatch.release(LANE);
    assert_eq!((starts(&mut dispatch), dispatch.leased()), (vec![], 1), "its slot is taken");
    dispatch.handle(Event::Ended(LANE), MOMENT);
    assert_eq!(starts(&mut dispatch), [2]);
}

#[test]
fn whoever_waits_for_a_target_that_wants_a_rest_is_handed_back() {
    let mut dispatch = dispatch_of(3, 1);
    take(&mut dispatch, [ordered(LANE, 1), ordered(LANE, 2), ordered(LANE, 3), ticket(OTHER, 4), ticket(OTHER, 5)]);
    assert_eq!(starts(&mut dispatch), [1, 4]);
    dispatch.handle(Event::Begun(LANE), MOMENT);
    dispatch.handle(Event::Rest(LANE), MOMENT);
    dispatch.handle(Event::Ended(LANE), MOMENT);
    assert_eq!(poll(&mut dispatch, MOMENT), (vec![], vec![2, 3]), "other lanes wait on");
    take(&mut dispatch, [ordered(LANE, 6)]);
    assert_eq!(starts(&mut dispatch), [6], "a lease brings it after the rest was written");
}

#[test]
fn a_stopping_node_hands_back_what_waits_and_what_a_lease_brings() {
    let mut dispatch = dispatch_of(3, 1);
    take(&mut dispatch, [ticket(LANE, 1), ticket(LANE, 2)]);
    assert_eq!(starts(&mut dispatch), [1]);
    assert!(dispatch.reserve(grouped(OTHER)));
    dispatch.handle(Event::Drain, MOMENT);
    assert_eq!(poll(&mut dispatch, MOMENT), (vec![], vec![2]));
    take(&mut dispatch, [ticket(LANE, 3)]);
    assert_eq!(poll(&mut dispatch, MOMENT), (vec![], vec![3]));
    dispatch.handle(Event::Committed(ticket(OTHER, 4)), MOMENT);
    assert_eq!(starts(&mut dispatch), [4], "it was accepted before");
    assert_eq!(dispatch.next_wakeup(), Duration::MAX);
}

#[test]
fn lanes_take_turns() {
    let mut dispatch = dispatch_of(1, 1);
    take(&mut dispatch, (0..3).flat_map(|n| (1..=3).map(move |l| ticket(lane(l), u32::from(l) * 10 + n))));
    let mut started = starts(&mut dispatch);
    for _ in 0..8 {
        let last = lane(u8::try_from(started.last().unwrap() / 10).unwrap());
        dispatch.handle(Event::Ended(last), Duration::ZERO);
        started.extend(starts(&mut dispatch));
    }
    assert_eq!(started, [10, 20, 30, 11, 21, 31, 12, 22, 32], "not one lane after the other");
}

#[test]
fn environments_share_the_slots() {
    let of = |environment, task| Ticket { environment: EnvironmentId(environment), ..ticket(lane(task), task.into()) };
    let mut dispatch = dispatch_of(4, 4).with_shares();
    let tenants = dispatch.share_between([(EnvironmentId(1), lane(1)), (EnvironmentId(2), lane(9))].into_iter());
    assert_eq!((tenants.pool(), tenants.promised(EnvironmentId(2))), (2, 1));
    take(&mut dispatch, (1..=6).map(|task| of(1, task)));
    assert_eq!(starts(&mut dispatch), [1, 2, 3], "one slot is promised to the other environment");
    take(&mut dispatch, [of(2, 9), of(2, 10)]);
    assert_eq!(starts(&mut dispatch), [9]);
    dispatch.handle(Event::Ended(lane(9)), Duration::ZERO);
    assert_eq!(starts(&mut dispatch), [10]);
    dispatch.handle(Event::Ended(lane(2)), Duration::ZERO);
    assert_eq!(starts(&mut dispatch), [4]);
    let lanes = || [(EnvironmentId(1), lane(1)), (EnvironmentId(2), lane(9))].into_iter();
    assert_eq!(dispatch.share_between(lanes()).pool(), 0, "eight have places");
}

/// Every task starts or is handed back, once. Slots are never exceeded, and never free while a task could have one.
fn check(steps: &[(u8, u8)]) {
    let mut dispatch = dispatch_of(4, 2);
    let (mut waiting, mut running, mut now) = (Vec::<u32>::new(), Vec::<(LaneId, u32)>::new(), Duration::ZERO);
    for (task, (what, number)) in (0..).zip(steps) {
        let at = lane(number % 4);
        let here = running.iter().position(|(it, _)| *it == at);
        match (what % 8, here) {
            (0..=3, _) => {
                dispatch.handle(Event::Leased { tickets: vec![ticket(at, task)], next_ready: None, resume: None }, now);
                waiting.push(task);
            }
            (4..=5, Some(found)) => {
                dispatch.handle(Event::Ended(at), now);
                dispatch.release(at);
                running.remove(found);
            }
            (6, _) => dispatch.handle(Event::Rest(at), now),
            _ => now += KEPT_WAITING / 3,
        }
        while let Some(command) = dispatch.poll(now) {
            let (Command::Start(ticket) | Command::HandBack(ticket)) = &command;
            let place = waiting.iter().position(|it| *it == ticket.task).expect("it comes once");
            waiting.remove(place);
            match command {
                Command::Start(ticket) => running.push((ticket.lane, ticket.task)),
                Command::HandBack(ticket) => dispatch.release(ticket.lane),
            }
        }
        assert!(running.len() <= 4);
        let per_lane = |it| running.iter().filter(|(lane, _)| *lane == it).count();
        assert!((0..4).all(|number| per_lane(lane(number)) <= 2));
        assert_eq!(dispatch.leased(), waiting.len() + running.len());
        let could_start = |task: &u32| per_lane(lane(steps[*task as usize].1 % 4)) < 2;
        assert!(running.len() == 4 || !waiting.iter().any(could_start), "a slot is free, and a task waits for it");
    }
}

proptest! {
    #[test]
    fn slots_are_used_and_never_exceeded(steps in proptest::collection::vec((any::<u8>(), any::<u8>()), 0..200)) {
        check(&steps);
    }
}
