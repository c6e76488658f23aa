use super::*;
use crate::id::{ID_BYTES, IdSequence, TaskId};
use crate::task::{TaskKey, TaskKind};

const ACCEPTED: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn task(endpoint: u8) -> Task {
    let subject = IdSequence::default().next(ACCEPTED, [0; 12]);
    let key = TaskKey { environment: EnvironmentId(1), subject, id: TaskId(Id::MIN) };
    let lane = EndpointId(Id::from_bytes([endpoint; ID_BYTES])).lane();
    Task { epoch: 1, ..Task::new(key, lane, TaskKind::Delivery, ACCEPTED) }
}

fn after(millis: u64) -> Timestamp {
    ACCEPTED.plus(Duration::from_millis(millis))
}

fn failed(class: Class, status: u16, end: EndState) -> AttemptEnd {
    AttemptEnd { class, status, end, at: after(10) }
}

fn succeeded(millis: u64) -> AttemptEnd {
    AttemptEnd { class: Class::Success, status: 204, end: EndState::Succeeded, at: after(millis) }
}

#[track_caller]
fn check(class: Class, status: u16, want: &str) {
    let mut traffic = Traffic::default();
    traffic.attempted(&task(1), failed(class, status, EndState::Open));
    let failures: Vec<_> = traffic.failures().iter().map(|(class, count)| format!("{class} {count}")).collect();
    assert_eq!(failures.join(", "), want);
}

#[test]
fn replies_are_divided_by_their_status() {
    check(Class::Status, 404, "4xx 1");
    check(Class::Throttled, 429, "429 1");
    check(Class::Throttled, 502, "5xx 1");
    check(Class::Status, 503, "5xx 1");
    check(Class::Status, 301, "status 1");
    check(Class::Gone, 410, "gone 1");
}

#[test]
fn other_failures_have_their_class_and_some_ends_are_no_failures() {
    for class in [Class::Dns, Class::Connect, Class::Tls, Class::Timeout, Class::Reset, Class::Blocked] {
        check(class, 0, &format!("{class} 1"));
    }
    for class in [Class::Success, Class::Cancelled, Class::Interrupted, Class::Snoozed] {
        check(class, 0, "");
    }
    for class in FailureClass::ALL {
        assert_eq!(class.to_string().parse(), Ok(class));
    }
}

#[test]
fn only_the_end_of_a_delivery_counts_as_delivered_or_dead() {
    let mut traffic = Traffic::default();
    traffic.attempted(&task(1), failed(Class::Status, 500, EndState::Open));
    traffic.attempted(&task(1), failed(Class::Status, 500, EndState::Dead));
    traffic.attempted(&task(1), succeeded(20));
    assert_eq!((traffic.delivered, traffic.dead, traffic.failed()), (1, 1, 2));
}

#[test]
fn the_time_to_delivery_starts_with_acceptance_or_the_planned_time() {
    let took = |task: &Task| time_to_delivery(task, after(5000)).map(|took| took.as_millis());
    let first = task(1);
    assert_eq!(took(&first), Some(5000));
    assert_eq!(took(&Task { due_at: after(4000), ..first }), Some(1000), "a delivery for later");
    assert_eq!(took(&Task { due_at: after(4000), tries: 2, ..first }), Some(5000), "a retry");
    assert_eq!(took(&Task { trigger: Trigger::Manual, ..first }), None);
}

#[test]
fn the_endpoints_with_the_most_failures_stay() {
    let mut traffic = Traffic::default();
    for round in 0..3 {
        for endpoint in 0..=u8::MAX {
            let often = endpoint == 7 || endpoint == 200;
            for _ in 0..if often { 5 } else { u8::from(round == 0) } {
                traffic.attempted(&task(endpoint), failed(Class::Timeout, 0, EndState::Open));
            }
        }
    }
    let top = traffic.endpoints();
    assert_eq!(top.len(), TRAFFIC_ENDPOINTS_MAX);
    let first: Vec<_> = top.iter().take(2).map(|(id, found)| (id.as_bytes()[0], found.failures)).collect();
    assert!(first.contains(&(7, 15)) && first.contains(&(200, 15)), "{first:?}");
}

#[test]
fn stored_counts_are_read_back() {
    let mut traffic = Traffic { accepted: 3, ..Traffic::default() };
    traffic.attempted(&task(1), failed(Class::Status, 500, EndState::Open));
    traffic.attempted(&task(2), failed(Class::Dns, 0, EndState::Dead));
    traffic.attempted(&task(1), succeeded(20));
    assert_eq!(Traffic::from_json(&traffic.to_json()), Some(traffic.clone()));
    let mut both = traffic.clone();
    both.merge(&traffic);
    assert_eq!((both.accepted, both.delivered, both.dead, both.failed()), (6, 2, 2, 4));
    assert_eq!(both.endpoints()[0].1.failures, 2);
}

#[test]
fn counts_of_a_later_version_are_read_as_far_as_they_are_known() {
    let read = Traffic::from_json(r#"{"accepted": 2, "failed": {"5xx": 1, "moon": 4}, "colour": "red"}"#);
    let read = read.expect("unknown members are ignored");
    assert_eq!((read.accepted, read.failed()), (2, 1));
    assert_eq!(Traffic::from_json("nonsense"), None);
}
