use bytes::Bytes;

use super::*;
use crate::endpoint::EndpointState;
use crate::id::{Id, MessageId};
use crate::message::Rest;

const fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1000)
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// A message of second 10 whose delivery has not been planned.
pub(in crate::background) fn candidate() -> Candidate {
    let message = Message {
        id: MessageId(Id::MIN),
        application: ApplicationId(Id::MIN),
        event_type: name("invoice.paid"),
        event_id: None,
        channels: vec![name("red")],
        tags: vec![name("a")],
        payload: Some(Bytes::new()),
        created_at: at(10),
        rest: Rest::default(),
    };
    Candidate { message, is_open: false, is_dead: false, has_succeeded: false, last: None }
}

/// The same message after an attempt in second 20.
fn attempted(end: EndState, status: u16) -> Candidate {
    Candidate {
        is_dead: end == EndState::Dead,
        has_succeeded: end == EndState::Succeeded,
        last: Some(AttemptEnding { end, class: Class::Status, status, started_at: at(20) }),
        ..candidate()
    }
}

fn endpoint(types: Option<&str>) -> Endpoint {
    Endpoint {
        state: EndpointState::Disabled,
        event_types: types.map(|types| vec![name(types).into()]),
        ..Endpoint::new(EndpointId(Id::MIN), ApplicationId(Id::MIN), String::new(), Timestamp::default())
    }
}

fn replay(since: i64, until: i64, pick: Pick) -> Replay {
    let (application, endpoint) = (ApplicationId(Id::MIN), EndpointId(Id::MIN));
    Replay { application, endpoint, since: at(since), until: at(until), pick }
}

#[track_caller]
fn check(replay: &Replay, candidate: &Candidate, want: bool) {
    assert_eq!(replay.wants(&endpoint(None), candidate, at(1000)), want, "{replay:?} {candidate:?}");
}

#[test]
fn recovery_sends_what_failed_in_the_window_and_never_arrived() {
    let recover = |since, until| replay(since, until, Pick::Failed);
    let dead = attempted(EndState::Dead, 500);
    check(&recover(20, 21), &dead, true);
    check(&recover(10, 20), &dead, false);
    check(&recover(21, 30), &dead, false);
    check(&recover(0, 99), &Candidate { has_succeeded: true, ..dead.clone() }, false);
    check(&recover(0, 99), &Candidate { is_open: true, ..dead }, false);
    check(&recover(0, 99), &attempted(EndState::Succeeded, 200), false);
    check(&recover(0, 99), &attempted(EndState::Cancelled, 0), false);
    check(&recover(0, 99), &candidate(), false);
}

#[test]
fn missing_messages_pass_the_filters_of_today() {
    let missing = |since, until| replay(since, until, Pick::Missing);
    check(&missing(10, 11), &candidate(), true);
    check(&missing(0, 10), &candidate(), false);
    check(&missing(11, 99), &candidate(), false);
    check(&missing(0, 99), &attempted(EndState::Succeeded, 200), false);
    check(&missing(0, 99), &attempted(EndState::Dead, 500), false);
    check(&missing(0, 99), &Candidate { is_open: true, ..candidate() }, false);
    assert!(missing(0, 99).wants(&endpoint(Some("invoice.paid")), &candidate(), at(1000)));
    assert!(!missing(0, 99).wants(&endpoint(Some("other")), &candidate(), at(1000)));
}

#[test]
fn a_recovery_may_choose_one_class_of_failures() {
    let recover = |class| replay(0, 99, Pick::FailedAs(class));
    let dead = attempted(EndState::Dead, 503);
    check(&recover(FailureClass::Server), &dead, true);
    check(&recover(FailureClass::Client), &dead, false);
    check(&recover(FailureClass::Server), &Candidate { has_succeeded: true, ..dead.clone() }, false);
    check(&replay(30, 99, Pick::FailedAs(FailureClass::Server)), &dead, false);
    let json = serde_json::to_string(&recover(FailureClass::Server)).unwrap();
    assert!(json.contains(r#""pick":{"failedAs":"5xx"}"#), "an older node must refuse it: {json}");
    assert_eq!(serde_json::from_str::<Replay>(&json).unwrap(), recover(FailureClass::Server));
}

#[test]
fn a_bulk_replay_combines_its_filters() {
    let bulk = |filter| replay(0, 99, Pick::Attempted(filter));
    let all = AttemptedFilter::default();
    let sent = attempted(EndState::Succeeded, 204);
    check(&bulk(all.clone()), &sent, true);
    check(&bulk(all.clone()), &attempted(EndState::Dead, 500), true);
    check(&bulk(all.clone()), &candidate(), false);
    check(&replay(11, 99, Pick::Attempted(all.clone())), &sent, false);
    check(&bulk(AttemptedFilter { event_types: vec![name("a"), name("invoice.paid")], ..all.clone() }), &sent, true);
    check(&bulk(AttemptedFilter { event_types: vec![name("a")], ..all.clone() }), &sent, false);
    check(&bulk(AttemptedFilter { channel: Some(name("red")), tag: Some(name("a")), ..all.clone() }), &sent, true);
    check(&bulk(AttemptedFilter { channel: Some(name("blue")), tag: Some(name("a")), ..all.clone() }), &sent, false);
    check(&bulk(AttemptedFilter { tag: Some(name("b")), ..all.clone() }), &sent, false);
    let with = |status, status_class| bulk(AttemptedFilter { status, status_class, ..AttemptedFilter::default() });
    check(&with(Some(AttemptedStatus::Succeeded), Some(200)), &sent, true);
    check(&with(Some(AttemptedStatus::Succeeded), Some(500)), &sent, false);
    check(&with(Some(AttemptedStatus::Failed), None), &sent, false);
    check(&with(Some(AttemptedStatus::Failed), Some(0)), &attempted(EndState::Dead, 0), true);
    check(&with(Some(AttemptedStatus::Cancelled), None), &attempted(EndState::Cancelled, 0), true);
}

#[test]
fn a_message_without_payload_is_never_sent() {
    let erased = |mut candidate: Candidate| {
        candidate.message.payload = None;
        candidate
    };
    let expired = |mut candidate: Candidate| {
        candidate.message.rest.payload_until = Some(at(999));
        candidate
    };
    for without in [erased, expired] {
        check(&replay(0, 99, Pick::Failed), &without(attempted(EndState::Dead, 500)), false);
        check(&replay(0, 99, Pick::Missing), &without(candidate()), false);
        let bulk = Pick::Attempted(AttemptedFilter::default());
        check(&replay(0, 99, bulk), &without(attempted(EndState::Succeeded, 200)), false);
    }
}
