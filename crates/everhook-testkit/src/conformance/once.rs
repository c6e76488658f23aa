//! A once-slot has one winner per phase, and the winner is a message that is delivered.

use everhook_core::delivery::DeliveryState;
use everhook_core::id::{ApplicationId, MessageId};
use everhook_core::lifecycle::NextRow;
use everhook_core::once::{OnceClaim, Phase};
use everhook_core::scope::AppScope;
use everhook_core::time::Timestamp;
use everhook_store::catalog::{Order, Slice};
use everhook_store::dedup::DedupKey;
use everhook_store::lease::{Append, Appended, NewMessage};
use everhook_store::once::OnceRecord;
use everhook_store::query;

use crate::conformance::fixture::{FixedCapacity, Fixture, PLENTY, fast, name, new_application, request_key};

#[track_caller]
fn is_accepted(answer: &Appended) {
    assert!(matches!(answer, Appended::Accepted { .. }), "{answer:?}");
}

#[track_caller]
fn is_suppressed(answer: &Appended, by: MessageId) {
    assert!(matches!(answer, Appended::Suppressed(winner) if *winner == by), "{answer:?}, not suppressed by {by}");
}

/// Claims a slot and wins it.
async fn win(fx: &Fixture, key: &str, phase: Option<i64>) -> MessageId {
    let new = fx.message_once(key, phase);
    let id = new.message.id;
    is_accepted(&fx.append_one(None, new).await);
    id
}

/// Claims a slot that `to` has already won.
async fn lose(fx: &Fixture, key: &str, phase: Option<i64>, to: MessageId) {
    is_suppressed(&fx.append_one(None, fx.message_once(key, phase)).await, to);
}

/// Returns the phase, the winner, the winner's phase and the suppressed calls of a slot.
async fn slot(fx: &Fixture, key: &str) -> Option<(i64, MessageId, i64, u64)> {
    let found = fx.read(query::FindOnce { scope: fx.app_scope(), key: name(key) }).await?;
    assert_eq!(found.key, name(key));
    Some((found.slot.phase.to_db(), found.slot.winner, found.slot.winner_phase.to_db(), found.suppressed))
}

pub(super) async fn the_first_message_for_a_slot_wins_it(fx: &Fixture) {
    fx.endpoint().await;
    assert_eq!(slot(fx, "run-1").await, None);
    let winner = win(fx, "run-1", None).await;
    lose(fx, "run-1", None, winner).await;
    lose(fx, "run-1", Some(0), winner).await;
    assert_eq!(slot(fx, "run-1").await, Some((0, winner, 0, 2)));
    let sent: Vec<_> = fx.lease(fx.session().await).await.iter().map(|leased| leased.task.key.subject).collect();
    assert_eq!(sent, [winner.0], "only the winner is delivered");
}

pub(super) async fn a_suppressed_message_is_not_there(fx: &Fixture) {
    fx.endpoint().await;
    let winner = win(fx, "k", None).await;
    let late = fx.message_once("k", None);
    let (id, session, capacity) = (late.message.id, fx.session().await, FixedCapacity::of(3));
    is_suppressed(&fx.append_one(Some(fast(session, &capacity)), late).await, winner);
    assert_eq!(capacity.left(), 3, "it takes no slot of the node");
    assert_eq!(fx.states(id).await, []);
}

pub(super) async fn a_higher_phase_opens_itself_and_a_lower_one_is_stale(fx: &Fixture) {
    let first = win(fx, "k", Some(3)).await;
    lose(fx, "k", Some(2), first).await;
    let second = win(fx, "k", Some(7)).await;
    lose(fx, "k", Some(3), second).await;
    lose(fx, "k", None, second).await;
    assert_eq!(slot(fx, "k").await, Some((7, second, 7, 3)));
}

pub(super) async fn a_reset_opens_the_next_phase_and_keeps_the_slot(fx: &Fixture) {
    let first = win(fx, "k", Some(3)).await;
    fx.reset_once("k").await;
    assert_eq!(slot(fx, "k").await, Some((4, first, 3, 0)));
    lose(fx, "k", Some(3), first).await;
    let second = win(fx, "k", None).await;
    assert_eq!(slot(fx, "k").await, Some((4, second, 4, 1)));
    lose(fx, "k", Some(4), second).await;
    fx.reset_once("k").await;
    let third = win(fx, "k", Some(5)).await;
    assert_eq!(slot(fx, "k").await, Some((5, third, 5, 2)));
}

pub(super) async fn a_repeated_reset_opens_one_phase(fx: &Fixture) {
    let winner = win(fx, "k", None).await;
    fx.reset_once("k").await;
    fx.reset_once("k").await;
    assert_eq!(slot(fx, "k").await, Some((1, winner, 0, 0)));
    assert!(!fx.other.reset_once(fx.app_scope(), name("unknown")).await.unwrap());
    assert_eq!(slot(fx, "unknown").await, None);
}

pub(super) async fn a_suppressed_message_leaves_no_key_behind(fx: &Fixture) {
    let winner = win(fx, "k", None).await;
    let mut late = fx.message_with_event_id("e");
    late.keys.push(request_key("r", "body"));
    late.once = claim("k", None);
    is_suppressed(&fx.append_one(None, late).await, winner);
    is_accepted(&fx.append_one(None, fx.message_with_event_id("e")).await);
    is_accepted(&fx.append_one(None, fx.message_with_key("r", "other body")).await);
}

pub(super) async fn a_suppressed_row_of_an_outbox_wins_no_later_phase(fx: &Fixture) {
    let row = |number| {
        let keys = vec![DedupKey::outbox(&[7; 16], number, Timestamp::from_millis(5))];
        NewMessage { keys, ..fx.message_once("k", None) }
    };
    let winner = win(fx, "k", None).await;
    // The claims come alone, and in a batch with others and with a repetition.
    is_suppressed(&fx.append_one(None, row(1)).await, winner);
    let answers = fx.append(None, vec![row(2), fx.message(), row(2)]).await;
    is_suppressed(&answers[0], winner);
    is_accepted(&answers[1]);
    assert!(matches!(answers[2], Appended::Repeated(id) if id == winner), "{:?}", answers[2]);
    fx.reset_once("k").await;
    for number in [1, 2] {
        let again = fx.append_one(None, row(number)).await;
        assert!(matches!(again, Appended::Repeated(id) if id == winner), "{again:?}");
    }
    assert_eq!(slot(fx, "k").await, Some((1, winner, 0, 2)), "counted once each, and still open");
    is_accepted(&fx.append_one(None, row(3)).await);
}

pub(super) async fn the_winners_own_request_again_is_answered_like_the_first(fx: &Fixture) {
    let request = || NewMessage { once: claim("k", None), ..fx.message_with_key("r", "body") };
    let first = request();
    let winner = first.message.id;
    is_accepted(&fx.append_one(None, first).await);
    let again = fx.append_one(None, request()).await;
    assert!(matches!(again, Appended::Repeated(id) if id == winner), "{again:?}");
    fx.reset_once("k").await;
    let again = fx.append_one(None, request()).await;
    assert!(matches!(again, Appended::Repeated(id) if id == winner), "{again:?}");
    assert_eq!(slot(fx, "k").await, Some((1, winner, 0, 0)));
}

pub(super) async fn a_message_that_is_refused_claims_no_slot(fx: &Fixture) {
    is_accepted(&fx.append_one(None, fx.message_with_event_id("e")).await);
    is_accepted(&fx.append_one(None, fx.message_with_key("r", "body")).await);
    let taken = NewMessage { once: claim("k", None), ..fx.message_with_event_id("e") };
    assert!(matches!(fx.append_one(None, taken).await, Appended::EventIdTaken));
    let reused = NewMessage { once: claim("k", None), ..fx.message_with_key("r", "other body") };
    assert!(matches!(fx.append_one(None, reused).await, Appended::KeyReused));
    let mut stranger = fx.message_once("k", None);
    stranger.message.application = ApplicationId(fx.id());
    assert!(matches!(fx.append_one(None, stranger).await, Appended::NoApplication));
    assert_eq!(slot(fx, "k").await, None);
    win(fx, "k", None).await;
}

pub(super) async fn the_first_accepted_message_of_a_batch_wins(fx: &Fixture) {
    is_accepted(&fx.append_one(None, fx.message_with_event_id("e")).await);
    let refused = NewMessage { once: claim("k", None), ..fx.message_with_event_id("e") };
    let once = |phase| fx.message_once("k", phase);
    let batch = vec![refused, once(None), once(None), once(Some(1)), once(Some(0)), once(None), fx.message()];
    let ids: Vec<_> = batch.iter().map(|new| new.message.id).collect();
    let answers = fx.append(None, batch).await;
    assert!(matches!(answers[0], Appended::EventIdTaken), "{answers:?}");
    is_accepted(&answers[1]);
    is_suppressed(&answers[2], ids[1]);
    is_accepted(&answers[3]);
    is_suppressed(&answers[4], ids[3]);
    is_suppressed(&answers[5], ids[3]);
    is_accepted(&answers[6]);
    assert_eq!(slot(fx, "k").await, Some((1, ids[3], 1, 3)));
}

pub(super) async fn a_neighbour_in_the_batch_that_loses_its_key_leaves_its_slot_free(fx: &Fixture) {
    // The second claim is refused because of the first, which only the batch itself knows. The fourth has the
    // deduplication key of the third, which is free because the third is suppressed.
    let with =
        |key: &str, body: &str, slot: &str| NewMessage { once: claim(slot, None), ..fx.message_with_key(key, body) };
    let batch = vec![with("r", "1", "a"), with("r", "2", "b"), with("s", "3", "a"), with("s", "4", "c")];
    let ids: Vec<_> = batch.iter().map(|new| new.message.id).collect();
    let answers = fx.append(None, batch).await;
    is_accepted(&answers[0]);
    assert!(matches!(answers[1], Appended::KeyReused), "{answers:?}");
    is_suppressed(&answers[2], ids[0]);
    is_accepted(&answers[3]);
    assert_eq!(slot(fx, "b").await, None);
    assert_eq!(slot(fx, "c").await, Some((0, ids[3], 0, 0)));
    win(fx, "b", None).await;
}

pub(super) async fn equal_keys_of_two_applications_do_not_meet(fx: &Fixture) {
    let other = new_application(ApplicationId(fx.id()));
    fx.other.stage_application(fx.here, &other).await;
    let mut new = fx.message_once("k", None);
    new.message.application = other.id;
    let winner = win(fx, "k", None).await;
    let answers = fx.store.append(Append { fast: None, messages: vec![new.clone()] }).await.unwrap();
    is_accepted(&answers[0]);
    assert_eq!(slot(fx, "k").await.map(|slot| slot.1), Some(winner));
    let there = fx.read(query::FindOnce { scope: AppScope::of(fx.here, other.id), key: name("k") }).await;
    assert_eq!(there.map(|found| found.slot.winner), Some(new.message.id));
    assert!(fx.other.reset_once(AppScope::of(fx.here, other.id), name("k")).await.unwrap());
    lose(fx, "k", None, winner).await;
}

pub(super) async fn a_winner_that_ends_dead_keeps_its_slot(fx: &Fixture) {
    let (endpoint, session) = (fx.endpoint().await, fx.session().await);
    let winner = win(fx, "k", None).await;
    let leased = fx.lease_one(session).await;
    fx.end(&leased.task, session, NextRow::Dead).await;
    lose(fx, "k", None, winner).await;
    assert_eq!(fx.redrive(endpoint).await, 1);
    let leased = fx.lease_one(session).await;
    fx.end(&leased.task, session, NextRow::Gone).await;
    assert_eq!(fx.state(winner).await, DeliveryState::Succeeded);
}

pub(super) async fn a_slot_tells_when_it_was_made_won_and_changed(fx: &Fixture) {
    let find = async || fx.read(query::FindOnce { scope: fx.app_scope(), key: name("k") }).await.unwrap();
    win(fx, "k", None).await;
    let made = find().await;
    assert_eq!((made.claimed_at, made.updated_at), (made.created_at, made.created_at));
    fx.reset_once("k").await;
    let reset = find().await;
    assert_eq!((reset.created_at, reset.claimed_at), (made.created_at, made.claimed_at));
    assert!(reset.updated_at > made.updated_at);
    win(fx, "k", None).await;
    let won = find().await;
    assert_eq!(won.created_at, made.created_at);
    assert!(won.claimed_at > reset.updated_at && won.updated_at == won.claimed_at);
    lose(fx, "k", None, won.slot.winner).await;
    assert_eq!(find().await, OnceRecord { suppressed: 1, ..won }, "a suppressed call changes nothing but the count");
}

pub(super) async fn slots_are_listed_piece_by_piece_both_ways(fx: &Fixture) {
    let keys = ["-", "B", "_", "a", "a.b"];
    for key in keys {
        win(fx, key, None).await;
    }
    let list = async |after: Option<&str>, order, limit| {
        let slice = Slice { after: after.map(name), order, limit };
        let found = fx.read(query::OnceSlots { scope: fx.app_scope(), slice: slice.clone() }).await;
        found.into_iter().map(|found| found.key.as_str().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(list(None, Order::Ascending, PLENTY).await, keys);
    assert_eq!(list(None, Order::Ascending, 2).await, ["-", "B"]);
    assert_eq!(list(Some("B"), Order::Ascending, 2).await, ["_", "a"]);
    assert_eq!(list(Some("_"), Order::Descending, 2).await, ["B", "-"]);
    assert_eq!(list(None, Order::Descending, 1).await, ["a.b"]);
}

fn claim(key: &str, phase: Option<i64>) -> Option<OnceClaim> {
    Some(OnceClaim { key: name(key), phase: phase.map(|phase| Phase::new(phase).unwrap()) })
}
