use super::*;

const NOW: Timestamp = Timestamp::from_millis(100_000);
const DUE: Timestamp = Timestamp::from_millis(99_000);
const SECONDS_LATER: Timestamp = Timestamp::from_millis(105_000);

#[track_caller]
fn check(room: usize, asked: usize, gave: usize, want: Turn) {
    assert_eq!(turn(Given { room, asked, gave, is_foreign: false }), want);
}

#[test]
fn lanes_take_turns() {
    check(2, 2, 2, Turn::Back);
    check(2, 2, 1, Turn::Empty);
    check(2, 2, 0, Turn::Empty);
    check(2, 1, 1, Turn::Keep);
    check(2, 0, 0, Turn::Keep);
    check(0, 0, 0, Turn::Keep);
}

#[test]
fn a_lane_with_tasks_for_others_goes_behind_those_that_are_ready() {
    let given = Given { room: 2, asked: 2, gave: 1, is_foreign: true };
    assert_eq!(turn(given), Turn::Delay);
    assert_eq!(turn(Given { gave: 2, ..given }), Turn::Back, "it gave all it was asked for");
}

fn lane(room: usize, asked: usize, gave: usize) -> Scanned {
    let given = Given { room, asked, gave, is_foreign: false };
    Scanned { given, last_due: DUE, next_due: NOW, is_due_for_write: false }
}

#[test]
fn lanes_that_were_all_asked_are_not_written() {
    let soon = NOW.plus(SOON);
    let empty = Scanned { next_due: soon, ..lane(2, 2, 1) };
    let want = [Turn::Stay { until: DUE, next: NOW }, Turn::Stay { until: NOW, next: soon }];
    assert_eq!(turns(&[lane(2, 2, 2), empty], NOW), want);
}

#[test]
fn lanes_are_written_where_not_all_were_asked_or_there_are_many() {
    let cut_off = [lane(2, 2, 2), lane(2, 2, 1), lane(2, 1, 1)];
    assert_eq!(turns(&cut_off, NOW), [Turn::Back, Turn::Empty, Turn::Keep]);
    let many = [lane(2, 2, 0); STAY_LANES_MAX + 1];
    assert!(turns(&many, NOW).iter().all(|turn| *turn == Turn::Empty), "there are many");
    assert!(turns(&many[1..], NOW).iter().all(|turn| matches!(turn, Turn::Stay { .. })));
}

#[test]
fn a_lane_is_written_every_now_and_then_and_when_it_has_no_due_task_for_a_while() {
    let old = Scanned { is_due_for_write: true, ..lane(2, 2, 2) };
    assert_eq!(turns(&[old, lane(2, 2, 1)], NOW), [Turn::Back, Turn::Stay { until: NOW, next: NOW }]);
    assert_eq!(turns(&[Scanned { next_due: SECONDS_LATER, ..lane(2, 2, 1) }], NOW), [Turn::Empty]);
}

#[test]
fn a_limit_leaves_what_is_not_leased() {
    let limits = Limits { tasks: Some(3), ..Limits::default() };
    let mut allowance = Allowance::new(limits, Used { leased: 1, ..Used::default() }, 10, NOW);
    assert_eq!((allowance.left(), allowance.is_full()), (2, false));
    allowance.take(2);
    assert_eq!((allowance.left(), allowance.is_full()), (0, true));
    assert_eq!(allowance.booked(NOW), None, "there is no rate");
    assert_eq!(Allowance::new(Limits::default(), Used::default(), 10, NOW).left(), 10);
    assert_eq!((room(None, 7), room(Some(7), 5), room(Some(1), 5)), (usize::MAX, 2, 0));
}

#[test]
fn a_rate_is_booked_for_the_tasks_that_were_taken() {
    let limits = Limits { rate: Some(Rate::per_second(10.0).unwrap()), ..Limits::default() };
    let mut allowance = Allowance::new(limits, Used::default(), 100, NOW);
    assert_eq!((allowance.left(), allowance.booked(NOW)), (10, None));
    allowance.take(10);
    let booked = allowance.booked(NOW).unwrap();
    assert_eq!((booked, allowance.free_at(NOW)), (NOW.plus(Duration::from_millis(100)), booked));
    assert!(!allowance.is_full(), "a rate is no limit of leased tasks");
    let used = Used { leased: 0, booked_until: booked };
    let next = Allowance::new(limits, used, 100, NOW);
    assert_eq!((next.left(), next.free_at(NOW)), (0, booked));
}

#[test]
fn the_feeds_of_queues_differ_by_environment_and_name() {
    let queue =
        |environment, name: &str| Feed::Queue { environment: EnvironmentId(environment), name: name.parse().unwrap() };
    let keys = [Feed::Deliveries, queue(1, "a"), queue(1, "b"), queue(2, "a")].map(|feed| feed.key());
    let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
    assert_eq!(distinct.len(), keys.len());
    assert!(keys.iter().all(|key| FeedKey::from_slice(key.as_bytes()).as_ref() == Some(key)));
    assert_eq!(FeedKey::from_slice(&[]), None);
}
