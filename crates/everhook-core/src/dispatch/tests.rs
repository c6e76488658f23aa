//! When the machine leases, how much, and for which tasks it has places.

use super::lease::{AGAIN_PAUSE, BUSY_PAUSE_MAX, DUE_PAUSE, EMPTY_PAUSE, EXHAUSTED_PAUSE, TASK_PAUSE};
use super::*;
use crate::id::Id;
use crate::limits::LEASE_TASKS_MAX;

mod fairness;
mod waiting;

const LANE: LaneId = LaneId(Id::MIN);
const OTHER: LaneId = LaneId(Id::MAX);
const SECOND: Duration = Duration::from_secs(1);

fn dispatch() -> Dispatch<u32> {
    dispatch_of(3, 2)
}

fn dispatch_of(slots: usize, slots_per_lane: usize) -> Dispatch<u32> {
    Dispatch::new(DispatchConfig { slots, slots_per_lane, poll_interval: SECOND })
}

fn lease(limit: usize, free_by_lane: &[(LaneId, usize)]) -> Option<LeaseCommand> {
    Some(LeaseCommand { limit, free_by_lane: free_by_lane.to_vec(), per_lane: 2, full_groups: Vec::new(), after: None })
}

fn grouped(lane: LaneId) -> GroupedLane {
    GroupedLane { group: GroupId { environment: EnvironmentId(1), id: lane.0 }, lane }
}

fn ticket(lane: LaneId, task: u32) -> Ticket<u32> {
    Ticket { environment: EnvironmentId(1), lane, order: StartOrder::Free, task }
}

/// A lease that brought so many tasks of `LANE`.
fn leased(count: usize, next_ready: Option<Duration>) -> Event<u32> {
    Event::Leased { tickets: (0..count).map(|_| ticket(LANE, 0)).collect(), next_ready, resume: None }
}

/// Runs and settles a task of `LANE` that has a place.
fn run(dispatch: &mut Dispatch<u32>) {
    dispatch.handle(Event::Committed(ticket(LANE, 0)), Duration::ZERO);
    end(dispatch);
}

/// Ends and settles a running task of `LANE`.
fn end(dispatch: &mut Dispatch<u32>) {
    dispatch.handle(Event::Ended(LANE), Duration::ZERO);
    dispatch.release(LANE);
}

/// Settles a task. Says whether the machine wants to be polled earlier for that.
fn release(dispatch: &mut Dispatch<u32>, lane: LaneId) -> bool {
    let before = dispatch.next_wakeup();
    dispatch.release(lane);
    dispatch.next_wakeup() < before
}

#[test]
fn a_lease_that_left_lanes_alone_is_repeated_when_a_slot_is_given_back() {
    let mut dispatch = dispatch();
    for (now, held_back) in [(SECOND, false), (SECOND * 2, true)] {
        assert!(dispatch.poll_lease(now).is_some());
        dispatch.handle(leased(1, None), now);
        if held_back {
            dispatch.handle(Event::HeldBack, now);
        }
        dispatch.handle(Event::Ended(LANE), now);
        assert_eq!(release(&mut dispatch, LANE), held_back);
    }
}

#[test]
fn a_node_without_files_begins_nothing_for_a_moment() {
    let mut dispatch = dispatch();
    assert_eq!(dispatch.poll_lease(Duration::ZERO), lease(3, &[]));
    dispatch.handle(leased(0, None), Duration::ZERO);
    assert!(dispatch.reserve(grouped(LANE)));
    dispatch.handle(Event::Exhausted, Duration::ZERO);
    assert!(!dispatch.reserve(grouped(LANE)), "what is accepted waits in the store");
    dispatch.handle(Event::Hint, Duration::ZERO);
    dispatch.handle(Event::DueIn(Duration::ZERO), Duration::ZERO);
    assert_eq!(dispatch.next_wakeup(), EXHAUSTED_PAUSE);
    assert_eq!(dispatch.poll_lease(EXHAUSTED_PAUSE - Duration::from_millis(1)), None);
    assert_eq!(dispatch.poll_lease(EXHAUSTED_PAUSE), lease(2, &[(LANE, 1)]));
    assert!(dispatch.reserve(grouped(LANE)));
}

#[test]
fn a_fresh_node_looks_for_work_once_and_then_waits() {
    let mut dispatch = dispatch();
    assert_eq!(dispatch.poll_lease(Duration::ZERO), lease(3, &[]));
    assert_eq!(dispatch.poll_lease(Duration::ZERO), None);
    dispatch.handle(leased(0, None), Duration::ZERO);
    assert_eq!(dispatch.poll_lease(Duration::ZERO), None);
    assert_eq!(dispatch.next_wakeup(), SECOND);
    assert_eq!(dispatch.poll_lease(SECOND), lease(3, &[]));
}

#[test]
fn it_wakes_when_the_next_lane_is_ready() {
    let mut dispatch = dispatch();
    dispatch.poll_lease(Duration::ZERO);
    dispatch.handle(leased(0, Some(Duration::from_millis(40))), Duration::ZERO);
    assert_eq!(dispatch.next_wakeup(), Duration::from_millis(40));
}

#[test]
fn a_look_that_brings_nothing_is_not_repeated_at_once() {
    let mut dispatch = dispatch();
    dispatch.poll_lease(Duration::ZERO);
    dispatch.handle(leased(0, Some(Duration::ZERO)), Duration::ZERO);
    assert_eq!(dispatch.poll_lease(Duration::ZERO), None);
    assert_eq!(dispatch.poll_lease(EMPTY_PAUSE), lease(3, &[]));
}

#[test]
fn neither_the_node_nor_a_lane_runs_more_than_its_slots() {
    let mut dispatch = dispatch();
    assert!(dispatch.reserve(grouped(LANE)) && dispatch.reserve(grouped(LANE)));
    assert!(!dispatch.reserve(grouped(LANE)), "the lane is full");
    assert_eq!(dispatch.poll_lease(Duration::ZERO), lease(1, &[(LANE, 0)]));
    dispatch.handle(leased(0, None), Duration::ZERO);
    assert!(dispatch.reserve(grouped(OTHER)));
    assert!(!dispatch.reserve(grouped(OTHER)), "the node is full");
    dispatch.handle(Event::Hint, Duration::ZERO);
    assert_eq!(dispatch.poll_lease(SECOND), None);
}

#[test]
fn room_in_a_backlog_is_filled_at_once() {
    let mut dispatch = dispatch();
    dispatch.poll_lease(Duration::ZERO);
    dispatch.handle(leased(2, Some(Duration::ZERO)), Duration::ZERO);
    dispatch.release(LANE);
    assert_eq!(dispatch.poll_lease(2 * TASK_PAUSE), lease(2, &[(LANE, 1)]));
}

#[test]
fn room_is_not_filled_where_nothing_waits() {
    let mut dispatch = dispatch();
    dispatch.poll_lease(Duration::ZERO);
    dispatch.handle(leased(1, Some(SECOND / 2)), Duration::ZERO);
    assert!(!release(&mut dispatch, LANE));
    assert_eq!(dispatch.next_wakeup(), AGAIN_PAUSE);
}

#[test]
fn a_lease_that_brought_many_is_followed_by_a_pause() {
    let mut dispatch = dispatch_of(2 * LEASE_TASKS_MAX, 2 * LEASE_TASKS_MAX);
    dispatch.poll_lease(Duration::ZERO);
    dispatch.handle(Event::Hint, Duration::ZERO);
    dispatch.handle(leased(10, Some(Duration::ZERO)), Duration::ZERO);
    assert_eq!(dispatch.next_wakeup(), 10 * TASK_PAUSE);
    assert_eq!(dispatch.poll_lease(9 * TASK_PAUSE), None);
    assert!(dispatch.poll_lease(10 * TASK_PAUSE).is_some());
    dispatch.handle(leased(LEASE_TASKS_MAX / 2 - 1, Some(Duration::ZERO)), SECOND);
    assert_eq!(dispatch.next_wakeup(), SECOND + BUSY_PAUSE_MAX);
    dispatch.poll_lease(SECOND * 2);
    dispatch.handle(leased(LEASE_TASKS_MAX / 2, Some(Duration::ZERO)), SECOND * 2);
    assert_eq!(dispatch.next_wakeup(), SECOND * 2, "there is nothing to gain");
}

#[test]
fn what_becomes_due_one_by_one_is_leased_together() {
    let mut dispatch = dispatch();
    dispatch.poll_lease(Duration::ZERO);
    dispatch.handle(leased(0, None), Duration::ZERO);
    dispatch.handle(Event::DueIn(DUE_PAUSE / 10), Duration::ZERO);
    dispatch.handle(Event::DueIn(DUE_PAUSE / 2), Duration::ZERO);
    assert_eq!(dispatch.next_wakeup(), DUE_PAUSE);
}

#[test]
fn a_full_lane_is_looked_at_as_soon_as_it_has_room() {
    let mut dispatch = dispatch();
    assert!(dispatch.reserve(grouped(LANE)) && dispatch.reserve(grouped(LANE)));
    assert_eq!(dispatch.poll_lease(Duration::ZERO), lease(1, &[(LANE, 0)]));
    dispatch.handle(leased(0, None), Duration::ZERO);
    assert_eq!(dispatch.poll_lease(Duration::ZERO), None);
    assert!(release(&mut dispatch, LANE), "its backlog was not looked at");
    assert_eq!(dispatch.poll_lease(Duration::ZERO), lease(2, &[(LANE, 1)]));
    dispatch.handle(leased(0, None), Duration::ZERO);
    assert!(!release(&mut dispatch, LANE), "it has no backlog");
}

#[test]
fn a_full_lane_that_gets_room_during_a_lease_is_looked_at_again() {
    let mut dispatch = dispatch();
    assert!(dispatch.reserve(grouped(LANE)) && dispatch.reserve(grouped(LANE)));
    dispatch.poll_lease(Duration::ZERO);
    dispatch.release(LANE);
    dispatch.handle(leased(0, None), Duration::ZERO);
    assert!(dispatch.poll_lease(Duration::ZERO).is_some());
}

#[test]
fn a_full_node_looks_for_work_as_soon_as_it_has_room() {
    let mut dispatch = dispatch();
    assert!(dispatch.reserve(grouped(LANE)) && dispatch.reserve(grouped(LANE)) && dispatch.reserve(grouped(OTHER)));
    dispatch.handle(Event::Hint, Duration::ZERO);
    assert_eq!(dispatch.poll_lease(Duration::ZERO), None);
    assert!(release(&mut dispatch, OTHER));
    assert!(dispatch.poll_lease(Duration::ZERO).is_some());
}

#[test]
fn a_hint_during_a_lease_is_not_lost() {
    let mut dispatch = dispatch();
    dispatch.poll_lease(Duration::ZERO);
    dispatch.handle(Event::Hint, Duration::ZERO);
    dispatch.handle(leased(0, None), Duration::ZERO);
    assert_eq!(dispatch.poll_lease(Duration::ZERO), lease(3, &[]));
}

#[test]
fn a_retry_is_looked_for_when_it_is_due() {
    let mut dispatch = dispatch();
    dispatch.poll_lease(Duration::ZERO);
    dispatch.handle(Event::DueIn(SECOND / 4), Duration::ZERO);
    dispatch.handle(Event::DueIn(SECOND / 2), Duration::ZERO);
    dispatch.handle(leased(0, None), Duration::ZERO);
    assert_eq!(dispatch.next_wakeup(), SECOND / 4);
    assert!(dispatch.poll_lease(SECOND / 4).is_some());
    dispatch.handle(leased(0, None), SECOND / 4);
    assert_eq!(dispatch.next_wakeup(), SECOND / 4 + SECOND, "the store knows of the other one");
}

#[test]
fn a_failed_lease_backs_off() {
    let mut dispatch = dispatch();
    dispatch.poll_lease(Duration::ZERO);
    dispatch.handle(Event::LeaseFailed { tickets: Vec::new() }, Duration::ZERO);
    assert_eq!(dispatch.poll_lease(SECOND / 2), None);
    assert!(dispatch.poll_lease(SECOND).is_some());
}

#[test]
fn a_stopping_node_takes_nothing() {
    let mut dispatch = dispatch();
    dispatch.handle(Event::Drain, Duration::ZERO);
    assert!(!dispatch.reserve(grouped(LANE)));
    assert_eq!(dispatch.poll_lease(SECOND), None);
}

#[test]
fn short_tasks_are_leased_ahead_and_in_batches() {
    let mut dispatch = dispatch().leasing_ahead(8);
    assert_eq!(dispatch.poll_lease(Duration::ZERO), lease(3, &[]));
    for _ in 0..4 {
        assert!(dispatch.reserve(grouped(LANE)));
        run(&mut dispatch);
    }
    dispatch.handle(leased(0, None), Duration::ZERO);
    dispatch.handle(Event::Hint, Duration::ZERO);
    assert_eq!(dispatch.poll_lease(4 * TASK_PAUSE), lease(7, &[]), "3 slots and 4 ahead");
    dispatch.handle(leased(6, Some(Duration::ZERO)), Duration::ZERO);
    assert_eq!(dispatch.poll_lease(6 * TASK_PAUSE), None, "room for one is not worth it");
    assert!(release(&mut dispatch, LANE));
    assert_eq!(dispatch.poll_lease(6 * TASK_PAUSE), lease(2, &[(LANE, 1)]));
}

#[test]
fn new_tasks_of_a_fast_lane_find_places_ahead() {
    let mut dispatch = dispatch().leasing_ahead(1);
    assert!(
        dispatch.reserve(grouped(LANE)) && dispatch.reserve(grouped(LANE)) && !dispatch.reserve(grouped(LANE)),
        "two slots"
    );
    (0..2).for_each(|_| run(&mut dispatch));
    dispatch.poll_lease(SECOND / 100);
    assert!(dispatch.reserve(grouped(LANE)) && dispatch.reserve(grouped(LANE)), "two slots");
    assert!(dispatch.reserve(grouped(LANE)), "a place ahead");
    assert!(!dispatch.reserve(grouped(LANE)), "there is but one");
    assert!(dispatch.reserve(grouped(OTHER)), "it takes no slot from others");
    assert!(!dispatch.reserve(grouped(OTHER)), "the node is full");
}

#[test]
fn leases_take_places_ahead_in_steps() {
    let mut dispatch = dispatch().leasing_ahead(100).in_steps(4);
    for _ in 0..100 {
        assert!(dispatch.reserve(grouped(LANE)));
        run(&mut dispatch);
    }
    assert_eq!(dispatch.poll_lease(SECOND / 100), lease(4, &[]), "not 103 at once");
    assert!(dispatch.reserve(grouped(LANE)) && dispatch.reserve(grouped(LANE)));
    dispatch.handle(leased(0, None), SECOND / 100);
    assert_eq!(dispatch.poll_lease(SECOND * 2), lease(4, &[(LANE, 4)]));
    dispatch.handle(leased(0, None), SECOND * 2);
    assert_eq!(dispatch.poll_lease(SECOND * 4), lease(1, &[(LANE, 0)]), "it has become slow");
}

#[test]
fn long_tasks_are_not_leased_ahead() {
    let mut dispatch = dispatch().leasing_ahead(8);
    assert!(dispatch.reserve(grouped(LANE)));
    run(&mut dispatch);
    dispatch.poll_lease(SECOND * 60);
    dispatch.handle(leased(0, None), SECOND * 60);
    assert_eq!(dispatch.poll_lease(SECOND * 61), lease(3, &[]));
}

#[test]
fn a_lane_may_have_slots_of_its_own() {
    let mut dispatch = dispatch().with_slots(LANE, 1);
    assert_eq!(dispatch.poll_lease(Duration::ZERO), lease(3, &[(LANE, 1)]));
    dispatch.handle(leased(1, Some(Duration::ZERO)), Duration::ZERO);
    assert_eq!(dispatch.poll_lease(TASK_PAUSE), lease(2, &[(LANE, 0)]));
}
