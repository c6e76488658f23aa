//! A request is accepted once per idempotency key, and once per event id.

use everhook_core::id::MessageId;
use everhook_store::lease::{Append, Appended, NewMessage};

use crate::conformance::fixture::{FixedCapacity, Fixture, fast, request_key};

#[track_caller]
fn is_accepted(answer: &Appended) {
    assert!(matches!(answer, Appended::Accepted { .. }), "{answer:?}");
}

#[track_caller]
fn is_repeated(answer: &Appended, of: MessageId) {
    assert!(matches!(answer, Appended::Repeated(id) if *id == of), "{answer:?} instead of a repetition of {of}");
}

#[track_caller]
fn is_key_reused(answer: &Appended) {
    assert!(matches!(answer, Appended::KeyReused), "{answer:?}");
}

#[track_caller]
fn is_event_id_taken(answer: &Appended) {
    assert!(matches!(answer, Appended::EventIdTaken), "{answer:?}");
}

/// Returns a request with both keys, as a client repeats it. Each repetition starts with a new message id.
fn request(fx: &Fixture, key: &str, event_id: &str) -> NewMessage {
    let mut new = fx.message_with_event_id(event_id);
    new.keys.push(request_key(key, "body"));
    new
}

pub(super) async fn a_repeated_request_gets_the_message_of_the_first(fx: &Fixture) {
    fx.endpoint().await;
    let first = fx.message_with_key("k", "body");
    let id = first.message.id;
    is_accepted(&fx.append_one(None, first.clone()).await);
    is_repeated(&fx.append_one(None, first).await, id);
    is_repeated(&fx.append_one(None, fx.message_with_key("k", "body")).await, id);
    assert_eq!(fx.lease(fx.session().await).await.len(), 1, "it was delivered once");
}

pub(super) async fn a_repeated_request_takes_no_slot(fx: &Fixture) {
    fx.endpoint().await;
    let (session, capacity) = (fx.session().await, FixedCapacity::of(3));
    let first = fx.message_with_key("k", "body");
    let answer = fx.append_one(Some(fast(session, &capacity)), first.clone()).await;
    is_accepted(&answer);
    is_repeated(&fx.append_one(Some(fast(session, &capacity)), first.clone()).await, first.message.id);
    assert_eq!(capacity.left(), 2);
}

pub(super) async fn a_key_with_another_body_is_refused(fx: &Fixture) {
    is_accepted(&fx.append_one(None, fx.message_with_key("k", "body")).await);
    is_key_reused(&fx.append_one(None, fx.message_with_key("k", "other body")).await);
    is_accepted(&fx.append_one(None, fx.message_with_key("other", "body")).await);
}

pub(super) async fn an_event_id_is_accepted_once(fx: &Fixture) {
    is_accepted(&fx.append_one(None, fx.message_with_event_id("e")).await);
    is_event_id_taken(&fx.append_one(None, fx.message_with_event_id("e")).await);
    is_accepted(&fx.append_one(None, fx.message_with_event_id("f")).await);
}

pub(super) async fn a_repeated_request_is_no_conflict_with_its_own_event_id(fx: &Fixture) {
    let first = request(fx, "k", "e");
    let id = first.message.id;
    is_accepted(&fx.append_one(None, first).await);
    is_repeated(&fx.append_one(None, request(fx, "k", "e")).await, id);
    is_event_id_taken(&fx.append_one(None, request(fx, "other", "e")).await);
    is_repeated(&fx.append_one(None, request(fx, "k", "other")).await, id);
}

pub(super) async fn a_refused_message_leaves_no_key_behind(fx: &Fixture) {
    is_accepted(&fx.append_one(None, fx.message_with_event_id("taken")).await);
    is_event_id_taken(&fx.append_one(None, request(fx, "free", "taken")).await);
    is_accepted(&fx.append_one(None, fx.message_with_key("free", "any body")).await);

    is_accepted(&fx.append_one(None, fx.message_with_key("used", "body")).await);
    let mut reused = fx.message_with_event_id("free");
    reused.keys.push(request_key("used", "other body"));
    is_key_reused(&fx.append_one(None, reused).await);
    is_accepted(&fx.append_one(None, fx.message_with_event_id("free")).await);
}

pub(super) async fn repetitions_within_one_batch_are_recognised(fx: &Fixture) {
    fx.endpoint().await;
    let first = request(fx, "k", "e");
    let id = first.message.id;
    let batch = vec![
        first,
        request(fx, "k", "e"),
        fx.message_with_key("k", "other body"),
        fx.message_with_event_id("e"),
        fx.message_with_event_id("f"),
    ];
    let answers = fx.append(None, batch).await;
    is_accepted(&answers[0]);
    is_repeated(&answers[1], id);
    is_key_reused(&answers[2]);
    is_event_id_taken(&answers[3]);
    is_accepted(&answers[4]);
    assert_eq!(fx.lease(fx.session().await).await.len(), 2);
}

pub(super) async fn a_refused_message_costs_its_neighbours_in_the_batch_no_key(fx: &Fixture) {
    is_accepted(&fx.append_one(None, fx.message_with_event_id("taken")).await);
    let fine = fx.message_with_key("k", "body");
    let id = fine.message.id;
    let answers = fx.append(None, vec![request(fx, "k", "taken"), fine, fx.message_with_key("k", "body")]).await;
    is_event_id_taken(&answers[0]);
    is_accepted(&answers[1]);
    is_repeated(&answers[2], id);
}

pub(super) async fn equal_keys_in_two_environments_do_not_meet(fx: &Fixture) {
    let first = request(fx, "k", "e");
    let mut second = request(fx, "k", "e");
    second.environment = fx.there;
    let (here, there) = (first.message.id, second.message.id);
    let append = async |messages| fx.store.append(Append { fast: None, messages }).await.unwrap();
    let answers = append(vec![first, second]).await;
    is_accepted(&answers[0]);
    is_accepted(&answers[1]);
    let again = |environment| NewMessage { environment, ..request(fx, "k", "e") };
    let answers = append(vec![again(fx.here), again(fx.there)]).await;
    is_repeated(&answers[0], here);
    is_repeated(&answers[1], there);
}
