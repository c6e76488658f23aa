//! A message is accepted once, with all its deliveries; a node leases as many of them at once as it has capacity for.

use std::time::Duration;

use everhook_core::endpoint::{Endpoint, EndpointState};
use everhook_core::fanout::Audience;
use everhook_core::filter::expression::Expression;
use everhook_core::id::{ApplicationId, EndpointId, MessageId};
use everhook_core::lifecycle::NextRow;
use everhook_store::lease::{Append, Appended, LeaseAsk, NewMessage, Settlement};
use everhook_store::query;

use crate::conformance::fixture::{FixedCapacity, Fixture, HOUR, fast, name};

/// Returns the numbers of leased and waiting tasks of an accepted message.
#[track_caller]
fn counts(answer: &Appended) -> (usize, usize) {
    match answer {
        Appended::Accepted { leased, pending, .. } => (leased.len(), *pending),
        other => panic!("not accepted: {other:?}"),
    }
}

pub(super) async fn a_node_with_room_takes_new_deliveries_at_once(fx: &Fixture) {
    let (endpoint, session, capacity) = (fx.endpoint().await, fx.session().await, FixedCapacity::of(5));
    let new = fx.message();
    let answer = fx.append_one(Some(fast(session, &capacity)), new.clone()).await;
    let Appended::Accepted { message, leased, pending: 0 } = answer else { panic!("{answer:?}") };
    assert_eq!(message.id, new.message.id);
    assert_eq!(message.payload, new.message.payload);
    assert!(message.created_at > new.message.created_at, "the store's time");
    let [(leased, _slot)] = &leased[..] else { panic!("{leased:?}") };
    assert_eq!((leased.task.epoch, leased.task.lane), (1, endpoint.lane()));
    assert_eq!(leased.endpoint().map(|endpoint| endpoint.id), Some(endpoint));
    assert_eq!(capacity.left(), 4, "the task keeps its slot");
    assert_eq!(fx.lease(session).await.len(), 0, "nobody else can lease it");
    fx.end(&leased.task, session, NextRow::Gone).await;
}

pub(super) async fn a_message_for_nobody_is_accepted(fx: &Fixture) {
    let answer = fx.append_one(None, fx.message()).await;
    assert_eq!(counts(&answer), (0, 0));
}

pub(super) async fn without_room_new_deliveries_wait_for_a_lease(fx: &Fixture) {
    fx.endpoint().await;
    fx.endpoint().await;
    let (session, capacity) = (fx.session().await, FixedCapacity::of(1));
    let answer = fx.append_one(Some(fast(session, &capacity)), fx.message()).await;
    assert_eq!(counts(&answer), (1, 1));
    drop(answer);
    assert_eq!(capacity.left(), 1, "a slot is free when the task lets go of it");
    assert_eq!(counts(&fx.append_one(None, fx.message()).await), (0, 2));
}

pub(super) async fn a_new_delivery_does_not_overtake_the_backlog_of_its_lane(fx: &Fixture) {
    let (busy, session, capacity) = (fx.endpoint().await, fx.session().await, FixedCapacity::of(5));
    fx.send().await;
    let idle = fx.endpoint().await;
    let answer = fx.append_one(Some(fast(session, &capacity)), fx.message()).await;
    let Appended::Accepted { leased, pending: 1, .. } = answer else { panic!("{answer:?}") };
    assert_eq!(leased.iter().map(|(leased, _)| leased.task.lane).collect::<Vec<_>>(), [idle.lane()]);
    assert_eq!(fx.lease(session).await.iter().filter(|leased| leased.task.lane == busy.lane()).count(), 2);
}

pub(super) async fn a_new_delivery_does_not_overtake_the_one_before_it_in_the_batch(fx: &Fixture) {
    fx.endpoint().await;
    let (session, capacity) = (fx.session().await, FixedCapacity::of(1));
    let batch = vec![fx.message(), fx.message(), fx.message()];
    let sent: Vec<_> = batch.iter().map(|new| new.message.id.0).collect();
    let answers = fx.append(Some(fast(session, &capacity)), batch).await;
    assert_eq!(answers.iter().map(counts).collect::<Vec<_>>(), [(1, 0), (0, 1), (0, 1)]);
    let waiting: Vec<_> = fx.lease(session).await.iter().map(|leased| leased.task.key.subject).collect();
    assert_eq!(waiting, sent[1..]);
}

pub(super) async fn a_retry_in_the_future_does_not_keep_new_deliveries_waiting(fx: &Fixture) {
    let (session, leased) = fx.held().await;
    fx.end(&leased.task, session, NextRow::Pending { due_in: HOUR }).await;
    assert_eq!(fx.lease(session).await.len(), 0);
    let answer = fx.append_one(Some(fast(session, &FixedCapacity::of(1))), fx.message()).await;
    assert_eq!(counts(&answer), (1, 0));
}

pub(super) async fn a_retry_that_is_due_does_not_keep_new_deliveries_waiting(fx: &Fixture) {
    let (session, leased) = fx.held().await;
    fx.end(&leased.task, session, NextRow::Pending { due_in: Duration::ZERO }).await;
    let answer = fx.append_one(Some(fast(session, &FixedCapacity::of(1))), fx.message()).await;
    assert_eq!(counts(&answer), (1, 0));
    assert_eq!(fx.lease_one(session).await.task.key, leased.task.key, "it is leased in its turn");
}

pub(super) async fn new_deliveries_wait_until_those_before_them_are_leased(fx: &Fixture) {
    fx.endpoint().await;
    let (session, capacity) = (fx.session().await, FixedCapacity::of(5));
    let send = async || counts(&fx.append_one(Some(fast(session, &capacity)), fx.message()).await);
    fx.send().await;
    fx.send().await;
    let one = LeaseAsk { per_lane: 1, ..fx.ask(session) };
    assert_eq!(fx.lease_with(one).await.tasks.len(), 1);
    assert_eq!(send().await, (0, 1), "one is left");
    assert_eq!(fx.lease(session).await.len(), 2);
    assert_eq!(send().await, (1, 0));
}

pub(super) async fn a_new_delivery_waits_while_its_lane_is_held(fx: &Fixture) {
    let (session, leased) = fx.held().await;
    let gone = fx.settlement(&leased.task, session, NextRow::Gone);
    fx.settle(&Settlement { hold_lane: Some(HOUR), ..gone }).await;
    let answer = fx.append_one(Some(fast(session, &FixedCapacity::of(1))), fx.message()).await;
    assert_eq!(counts(&answer), (0, 1));
}

pub(super) async fn an_expression_decides_with_the_payload(fx: &Fixture) {
    let large = Expression::compile("payload.amount > 100").unwrap();
    fx.endpoint_with(|endpoint| endpoint.filter = Some(large)).await;
    let session = fx.session().await;
    let receivers = async |fast, payload: &str| {
        let mut new = fx.message();
        new.message.payload = Some(payload.to_owned().into());
        let appended = fx.append_one(fast, new).await;
        let leased = fx.lease(session).await.len();
        (counts(&appended), leased)
    };
    assert_eq!(receivers(None, r#"{"amount": 101}"#).await, ((0, 1), 1));
    assert_eq!(receivers(None, r#"{"amount": 100}"#).await, ((0, 0), 0));
    assert_eq!(receivers(None, "{}").await, ((0, 0), 0), "an error does not match");
    // The second appends of a lane use the cached endpoints, and may use another statement.
    let slots = FixedCapacity::of(9);
    assert_eq!(receivers(Some(fast(session, &slots)), r#"{"amount": 101}"#).await, ((1, 0), 0));
    assert_eq!(receivers(Some(fast(session, &slots)), r#"{"amount": 100}"#).await, ((0, 0), 0));
}

pub(super) async fn only_endpoints_that_want_a_message_get_it(fx: &Fixture) {
    let all = fx.endpoint().await;
    let paid = fx.endpoint_with(|endpoint| endpoint.event_types = Some(vec![name("invoice.paid").into()])).await;
    let made = fx.endpoint_with(|endpoint| endpoint.event_types = Some(vec![name("invoice.made").into()])).await;
    let berlin = fx.endpoint_with(|endpoint| endpoint.channels = Some(vec![name("berlin"), name("rome")])).await;
    let off = fx.endpoint_with(|endpoint| endpoint.state = EndpointState::Disabled).await;
    let session = fx.session().await;
    let receivers = async |event_type: &str, channels: &[&str]| {
        let mut new = fx.message();
        new.message.event_type = name(event_type);
        new.message.channels = channels.iter().map(|channel| name(channel)).collect();
        fx.append_one(None, new).await;
        let mut to: Vec<_> = fx.lease(session).await.iter().map(|leased| EndpointId(leased.task.lane.0)).collect();
        to.sort();
        to
    };
    assert_eq!(receivers("invoice.paid", &[]).await, [all, paid]);
    assert_eq!(receivers("invoice.made", &["berlin", "oslo"]).await, [all, made, berlin]);
    assert_eq!(receivers("other", &["oslo"]).await, [all]);
    fx.switch(off, EndpointState::Enabled).await;
    assert_eq!(receivers("other", &["rome"]).await, [all, berlin, off]);
    let any = fx.endpoint_with(|endpoint| endpoint.event_types = Some(vec!["invoice.*".parse().unwrap()])).await;
    assert_eq!(receivers("invoice.payment.failed", &["oslo"]).await, [all, off, any]);
    assert_eq!(receivers("invoices.paid", &["oslo"]).await, [all, off]);
}

pub(super) async fn an_endpoint_counts_from_the_moment_it_is_changed(fx: &Fixture) {
    let receivers = async || counts(&fx.append_one(None, fx.message()).await).1;
    assert_eq!(receivers().await, 0);
    let first = fx.endpoint().await;
    assert_eq!(receivers().await, 1);
    fx.endpoint().await;
    assert_eq!(receivers().await, 2);
    fx.switch(first, EndpointState::Disabled).await;
    assert_eq!(receivers().await, 1);
    fx.switch(first, EndpointState::Enabled).await;
    assert_eq!(receivers().await, 2);
    fx.delete(first).await;
    assert_eq!(receivers().await, 1);
}

pub(super) async fn a_message_of_an_unknown_application_is_refused_and_forgotten(fx: &Fixture) {
    let stranger = ApplicationId(fx.id());
    let mut new = fx.message_with_key("k", "b");
    new.message.application = stranger;
    let answer = fx.append_one(None, new.clone()).await;
    assert!(matches!(answer, Appended::NoApplication), "{answer:?}");
    new.message.application = fx.application;
    assert_eq!(counts(&fx.append_one(None, new).await), (0, 0), "its key was not used up");
}

pub(super) async fn a_message_of_a_deleted_application_is_refused(fx: &Fixture) {
    fx.endpoint().await;
    fx.send().await;
    assert!(fx.other.drop_application(fx.here, fx.application).await);
    let append = Append { fast: None, messages: vec![fx.message()] };
    let answers = fx.store.append(append).await.unwrap();
    assert!(matches!(answers[..], [Appended::NoApplication]), "{answers:?}");
}

pub(super) async fn nothing_to_append_is_nothing(fx: &Fixture) {
    assert_eq!(fx.append(None, Vec::new()).await.len(), 0);
    assert_eq!(fx.store.settle([].into()).await.unwrap().answer, []);
}

pub(super) async fn one_bad_neighbour_does_not_cost_the_batch(fx: &Fixture) {
    fx.endpoint().await;
    let mut stranger = fx.message();
    stranger.message.application = ApplicationId(fx.id());
    let batch = vec![fx.message(), stranger, fx.message()];
    let sent: Vec<MessageId> = batch.iter().map(|new| new.message.id).collect();
    let answers = fx.append(None, batch).await;
    assert!(matches!(answers[1], Appended::NoApplication), "{answers:?}");
    assert_eq!((counts(&answers[0]), counts(&answers[2])), ((0, 1), (0, 1)));
    let leased = fx.lease(fx.session().await).await;
    let got: Vec<_> = leased.iter().map(|leased| MessageId(leased.task.key.subject)).collect();
    assert_eq!(got, [sent[0], sent[2]]);
}

pub(super) async fn a_message_for_one_endpoint_goes_nowhere_else(fx: &Fixture) {
    let other = fx.endpoint().await;
    let only = fx.endpoint_with(|endpoint| endpoint.event_types = Some(vec![name("something.else").into()])).await;
    let (session, capacity) = (fx.session().await, FixedCapacity::of(5));
    let new = || NewMessage { audience: Audience::Only(only), ..fx.message() };
    for fast_path in [Some(fast(session, &capacity)), None] {
        let (leased, pending) = counts(&fx.append_one(fast_path, new()).await);
        assert_eq!(leased + pending, 1);
    }
    let lanes: Vec<_> = fx.lease(session).await.iter().map(|leased| leased.task.lane).collect();
    assert_eq!(lanes, [only.lane()], "the filters of the endpoint do not matter");
    fx.switch(only, EndpointState::Disabled).await;
    assert_eq!(counts(&fx.append_one(None, new()).await), (0, 0));
    let batch = vec![NewMessage { audience: Audience::Only(other), ..fx.message() }, new(), fx.message()];
    let answers = fx.append(Some(fast(session, &capacity)), batch).await;
    assert_eq!(answers.iter().map(|answer| counts(answer).0).collect::<Vec<_>>(), [1, 0, 1]);
}

pub(super) async fn the_store_tells_whether_any_endpoint_wants_a_message(fx: &Fixture) {
    let scope = fx.app_scope();
    let wants = async |event_type: &str, channels: &[&str]| {
        let channels = channels.iter().map(|channel| name(channel)).collect();
        fx.read(query::HasSubscriber { scope, event_type: name(event_type), channels }).await
    };
    assert!(!wants("a", &[]).await);
    let picky = |endpoint: &mut Endpoint| {
        endpoint.event_types = Some(vec![name("a").into()]);
        endpoint.channels = Some(vec![name("red")]);
    };
    let endpoint = fx.endpoint_with(picky).await;
    assert!(wants("a", &["blue", "red"]).await);
    assert!(!wants("a", &["blue"]).await && !wants("b", &["red"]).await && !wants("a", &[]).await);
    fx.switch(endpoint, EndpointState::Disabled).await;
    assert!(!wants("a", &["red"]).await);
    fx.endpoint().await;
    assert!(wants("a", &[]).await);
}

/// Returns a message whose deliveries are due in this many hours.
async fn later(fx: &Fixture, hours: u32) -> NewMessage {
    let now = fx.store.now().await.unwrap();
    NewMessage { deliver_at: Some(now.plus(HOUR * hours)), ..fx.message() }
}

pub(super) async fn a_message_for_later_waits_until_then(fx: &Fixture) {
    let (endpoint, session, capacity) = (fx.endpoint().await, fx.session().await, FixedCapacity::of(1));
    let new = later(fx, 2).await;
    let (id, due) = (new.message.id, new.deliver_at);
    assert_eq!(counts(&fx.append_one(Some(fast(session, &capacity)), new).await), (0, 1));
    assert_eq!(capacity.left(), 1, "it takes no slot");
    let grant = fx.lease_with(fx.ask(session)).await;
    assert_eq!(grant.tasks.len(), 0);
    assert!(grant.next_ready.is_some_and(|wait| wait > HOUR && wait <= 2 * HOUR), "{:?}", grant.next_ready);
    let seen = fx.other.destinations_of(fx.here, fx.application, id).await;
    assert_eq!(seen.iter().map(|seen| (seen.endpoint.id, seen.next_attempt)).collect::<Vec<_>>(), [(endpoint, due)]);
}

pub(super) async fn a_message_for_earlier_is_delivered_now(fx: &Fixture) {
    fx.endpoint().await;
    let (session, capacity) = (fx.session().await, FixedCapacity::of(1));
    let past = fx.store.now().await.unwrap().minus(HOUR);
    let new = || NewMessage { deliver_at: Some(past), ..fx.message() };
    assert_eq!(counts(&fx.append_one(Some(fast(session, &capacity)), new()).await), (1, 0));
    fx.append_one(None, new()).await;
    let leased = fx.lease_one(session).await;
    assert!(leased.task.due_at > past, "it does not go before what was there first");
}

pub(super) async fn a_message_for_later_keeps_no_other_waiting(fx: &Fixture) {
    fx.endpoint().await;
    let (session, capacity) = (fx.session().await, FixedCapacity::of(2));
    let batch = vec![later(fx, 1).await, fx.message(), later(fx, 1).await, fx.message(), fx.message()];
    let answers = fx.append(Some(fast(session, &capacity)), batch).await;
    let answers: Vec<_> = answers.iter().map(counts).collect();
    assert_eq!(answers, [(0, 1), (1, 0), (0, 1), (1, 0), (0, 1)]);
    assert_eq!(fx.lease(session).await.len(), 1);
}

pub(super) async fn a_lane_is_ready_for_the_earliest_of_a_batch(fx: &Fixture) {
    fx.endpoint().await;
    let session = fx.session().await;
    fx.append(None, vec![later(fx, 9).await, later(fx, 3).await, later(fx, 6).await]).await;
    let wait = fx.lease_with(fx.ask(session)).await.next_ready;
    assert!(wait.is_some_and(|wait| wait > 2 * HOUR && wait <= 3 * HOUR), "{wait:?}");
    fx.append(None, vec![later(fx, 8).await, fx.message()]).await;
    assert_eq!(fx.lease(session).await.len(), 1);
}
