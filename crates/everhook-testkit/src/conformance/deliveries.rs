//! Deliveries are listed with the reasons for their states, and operators steer them.

use std::time::Duration;

use bytes::Bytes;
use everhook_core::application::Application;
use everhook_core::delivery::{DeliveryAction, DeliveryCommand, DeliveryKey, DeliveryState, OuterPauses};
use everhook_core::endpoint::EndpointState;
use everhook_core::id::{ApplicationId, EndpointId, MessageId};
use everhook_core::lifecycle::NextRow;
use everhook_core::message::{Message, Rest};
use everhook_core::outcome::Class;
use everhook_core::task::Trigger;
use everhook_store::catalog::{Order, Slice};
use everhook_store::delivery::{DeliveryFilter, DeliveryRecord};
use everhook_store::lease::Settlement;
use everhook_store::piece::Piece;
use everhook_store::query;
use everhook_store::steer::{Steer, Steered};

use crate::conformance::fixture::{Fixture, HOUR, PLENTY, name, new_application, new_endpoint, new_message, pages};

const LATER: NextRow = NextRow::Pending { due_in: HOUR };
const NOW: NextRow = NextRow::Pending { due_in: Duration::ZERO };

pub(super) fn all(fx: &Fixture) -> DeliveryFilter {
    let slice = Slice { after: None, order: Order::Ascending, limit: PLENTY };
    DeliveryFilter::of(Some(fx.application), slice, PLENTY)
}

pub(super) async fn list(fx: &Fixture, filter: DeliveryFilter) -> Piece<DeliveryRecord, DeliveryKey> {
    fx.read(query::Deliveries { scope: fx.scope(), filter }).await
}

async fn keys(fx: &Fixture, filter: DeliveryFilter) -> Vec<DeliveryKey> {
    list(fx, filter).await.rows.iter().map(DeliveryRecord::key).collect()
}

/// Returns the only delivery of a message.
async fn find(fx: &Fixture, message: MessageId) -> DeliveryRecord {
    let mut rows = list(fx, DeliveryFilter { message: Some(message), ..all(fx) }).await.rows;
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows.remove(0)
}

/// Returns the state and the reason of the only delivery of a message.
async fn reason(fx: &Fixture, message: MessageId) -> (DeliveryState, &'static str) {
    let now = fx.store.now().await.unwrap();
    let found = find(fx, message).await;
    (found.state, found.reason(now).kind())
}

pub(super) async fn steer(fx: &Fixture, message: MessageId, command: DeliveryCommand) -> Vec<DeliveryAction> {
    let steer = Steer::Deliveries { message, endpoint: None, command };
    fx.other.steer(fx.scope(), steer).await.unwrap().answer.deliveries
}

pub(super) async fn a_pause_of_the_application_or_the_environment_is_a_reason(fx: &Fixture) {
    let endpoint = fx.endpoint().await;
    let message = fx.send().await;
    let now = fx.store.now().await.unwrap();
    let environment = OuterPauses { environment: true, ..OuterPauses::default() };
    let application = OuterPauses { applications: [fx.application].into(), ..OuterPauses::default() };
    for (pauses, reason) in [(environment, "environmentPaused"), (application, "applicationPaused")] {
        let found = list(fx, DeliveryFilter { pauses: pauses.clone(), ..all(fx) }).await.rows.remove(0);
        assert_eq!((found.state, found.reason(now).kind()), (DeliveryState::Held, reason));
        assert_eq!(found.next_attempt(), None);
        let held = DeliveryFilter { pauses: pauses.clone(), states: vec![DeliveryState::Held], ..all(fx) };
        assert_eq!(keys(fx, held).await, [DeliveryKey { message, endpoint }]);
        let pending = DeliveryFilter { pauses, states: vec![DeliveryState::Pending], ..all(fx) };
        assert_eq!(keys(fx, pending).await, []);
    }
    let other = OuterPauses { applications: [ApplicationId(fx.id())].into(), ..OuterPauses::default() };
    let found = list(fx, DeliveryFilter { pauses: other, ..all(fx) }).await.rows.remove(0);
    assert_eq!(found.state, DeliveryState::Pending);
}

pub(super) async fn a_delivery_is_listed_with_its_reason(fx: &Fixture) {
    let endpoint = fx.endpoint().await;
    let session = fx.session().await;
    let mut later = fx.message();
    later.deliver_at = Some(fx.store.now().await.unwrap().plus(HOUR));
    let scheduled = later.message.id;
    fx.append_one(None, later).await;
    assert_eq!(reason(fx, scheduled).await, (DeliveryState::Pending, "scheduled"));
    let sent = fx.send().await;
    assert_eq!(reason(fx, sent).await, (DeliveryState::Pending, "queued"));
    let leased = fx.lease_one(session).await;
    assert_eq!(reason(fx, sent).await, (DeliveryState::Sending, "sending"));
    fx.end(&leased.task, session, LATER).await;
    assert_eq!(reason(fx, sent).await, (DeliveryState::Pending, "retry"));
    fx.switch(endpoint, EndpointState::Disabled).await;
    assert_eq!(reason(fx, sent).await, (DeliveryState::Held, "endpointDisabled"));
    fx.switch(endpoint, EndpointState::Enabled).await;
    assert_eq!(steer(fx, sent, DeliveryCommand::RetryNow).await, [DeliveryAction::RunNow]);
    let leased = fx.lease_one(session).await;
    fx.end(&leased.task, session, NextRow::Dead).await;
    assert_eq!(reason(fx, sent).await, (DeliveryState::Dead, "exhausted"));
    fx.resend(sent, endpoint).await;
    assert_eq!(reason(fx, sent).await, (DeliveryState::Pending, "queued"), "the resend is a life of its own");
    let leased = fx.lease_one(session).await;
    fx.end(&leased.task, session, NextRow::Gone).await;
    assert_eq!(reason(fx, sent).await, (DeliveryState::Succeeded, "delivered"), "the dead task is of an earlier life");
    fx.delete(endpoint).await;
    assert_eq!(reason(fx, scheduled).await, (DeliveryState::Cancelled, "endpointDeleted"));
}

pub(super) async fn an_endpoint_that_backs_off_is_the_reason_to_wait(fx: &Fixture) {
    let (session, leased) = fx.held().await;
    let throttled = fx.settlement(&leased.task, session, NOW);
    fx.settle(&Settlement { hold_lane: Some(HOUR), ..throttled }).await;
    let sent = MessageId(leased.task.key.subject);
    let (now, found) = (fx.store.now().await.unwrap(), find(fx, sent).await);
    let reason = found.reason(now);
    assert_eq!(reason.kind(), "backOff");
    assert!(reason.until().is_some_and(|until| until.since(now) > HOUR / 2));
    let last = found.last.expect("it was tried");
    assert_eq!((last.class, last.status, last.epoch), (Class::Status, 500, leased.task.epoch));
    assert_eq!(found.open.map(|open| (open.task.key, open.task.tries)), Some((leased.task.key, 1)));
}

pub(super) async fn deliveries_are_found_by_their_filters(fx: &Fixture) {
    let (one, two) = (fx.endpoint().await, fx.endpoint().await);
    let mut labelled = fx.message();
    labelled.message.event_type = name("b");
    labelled.message.channels = vec![name("x")];
    labelled.message.tags = vec![name("t")];
    let (labelled_id, plain) = (labelled.message.id, fx.send().await);
    fx.append_one(None, labelled).await;
    let session = fx.session().await;
    for leased in fx.lease(session).await {
        let is_plain = leased.task.key.subject == plain.0;
        let row = match (is_plain, leased.task.lane == one.lane()) {
            (true, true) => NextRow::Gone,
            (true, false) => NextRow::Dead,
            (false, _) => LATER,
        };
        fx.end(&leased.task, session, row).await;
    }
    let key = |message, endpoint| DeliveryKey { message, endpoint };
    let mut of_labelled = [key(labelled_id, one), key(labelled_id, two)];
    of_labelled.sort();
    assert_eq!(keys(fx, all(fx)).await.len(), 4);
    let by_state = |state| DeliveryFilter { states: vec![state], ..all(fx) };
    assert_eq!(keys(fx, by_state(DeliveryState::Succeeded)).await, [key(plain, one)]);
    assert_eq!(keys(fx, by_state(DeliveryState::Dead)).await, [key(plain, two)]);
    assert_eq!(keys(fx, by_state(DeliveryState::Pending)).await, of_labelled);
    assert_eq!(keys(fx, by_state(DeliveryState::Held)).await, []);
    let waiting = DeliveryFilter { endpoint: Some(two), ..by_state(DeliveryState::Pending) };
    assert_eq!(keys(fx, waiting).await, [key(labelled_id, two)]);
    assert_eq!(keys(fx, DeliveryFilter { endpoint: Some(EndpointId(fx.id())), ..all(fx) }).await, []);
    assert_eq!(keys(fx, DeliveryFilter { class: Some(Class::Success), ..all(fx) }).await, [key(plain, one)]);
    assert_eq!(keys(fx, DeliveryFilter { class: Some(Class::Timeout), ..all(fx) }).await, []);
    for filter in [
        DeliveryFilter { event_types: vec![name("b"), name("c")], ..all(fx) },
        DeliveryFilter { channel: Some(name("x")), ..all(fx) },
        DeliveryFilter { tag: Some(name("t")), ..all(fx) },
        DeliveryFilter { message: Some(labelled_id), ..all(fx) },
    ] {
        assert_eq!(keys(fx, filter).await, of_labelled);
    }
    let now = fx.store.now().await.unwrap();
    assert_eq!(keys(fx, DeliveryFilter { before: Some(now.minus(HOUR)), ..all(fx) }).await, []);
    assert_eq!(keys(fx, DeliveryFilter { after: Some(now.minus(HOUR)), ..all(fx) }).await.len(), 4);
    let elsewhere = DeliveryFilter { application: Some(ApplicationId(fx.id())), ..all(fx) };
    assert_eq!(keys(fx, elsewhere).await, []);
}

pub(super) async fn deliveries_are_listed_piece_by_piece_both_ways(fx: &Fixture) {
    for _ in 0..3 {
        fx.endpoint().await;
    }
    fx.send_many(3).await;
    let whole = keys(fx, all(fx)).await;
    assert_eq!(whole.len(), 9);
    assert!(whole.is_sorted(), "{whole:?}");
    for states in [Vec::new(), vec![DeliveryState::Pending]] {
        for order in [Order::Ascending, Order::Descending] {
            let read = async |slice| keys(fx, DeliveryFilter { slice, states: states.clone(), ..all(fx) }).await;
            let slice = Slice { after: None, order, limit: 2 };
            let mut seen = pages(slice, |key: &DeliveryKey| *key, read).await;
            if order == Order::Descending {
                seen.reverse();
            }
            assert_eq!(seen, whole, "{states:?} {order:?}");
        }
    }
}

pub(super) async fn a_search_of_deliveries_visits_a_few_messages_and_goes_on(fx: &Fixture) {
    fx.endpoint().await;
    fx.send_many(6).await;
    for states in [vec![DeliveryState::Cancelled], vec![DeliveryState::Dead]] {
        let (mut after, mut pieces) = (None, 0);
        loop {
            let slice = Slice { after, order: Order::Descending, limit: PLENTY };
            let piece = list(fx, DeliveryFilter { slice, scan: 2, states: states.clone(), ..all(fx) }).await;
            assert_eq!(piece.rows, []);
            after = piece.next;
            pieces += 1;
            if after.is_none() {
                break;
            }
            assert!(pieces < 20, "it does not end");
        }
    }
}

pub(super) async fn all_applications_list_open_deliveries_only(fx: &Fixture) {
    let endpoint = fx.endpoint().await;
    let other = Application { uid: None, ..new_application(ApplicationId(fx.id())) };
    fx.other.stage_application(fx.here, &other).await;
    let elsewhere = new_endpoint(EndpointId(fx.id()), other.id);
    fx.other.stage_endpoint(fx.here, &elsewhere).await;
    let (done, open) = (fx.send().await, fx.message());
    let session = fx.session().await;
    let leased = fx.lease_one(session).await;
    fx.end(&leased.task, session, NextRow::Gone).await;
    let waiting = open.message.id;
    fx.append_one(None, open).await;
    let foreign = new_message(MessageId(fx.id()), other.id);
    let foreign_id = foreign.id;
    let append = everhook_store::lease::NewMessage::new(fx.here, foreign);
    fx.store.append(everhook_store::lease::Append { fast: None, messages: vec![append] }).await.unwrap();
    let key = |message, endpoint| DeliveryKey { message, endpoint };
    let everywhere = DeliveryFilter { application: None, ..all(fx) };
    assert_eq!(keys(fx, everywhere).await, [key(waiting, endpoint), key(foreign_id, elsewhere.id)]);
    assert_eq!(keys(fx, all(fx)).await, [key(done, endpoint), key(waiting, endpoint)]);
    let here = DeliveryFilter { states: vec![DeliveryState::Pending], ..all(fx) };
    assert_eq!(keys(fx, here).await, [key(waiting, endpoint)], "open tasks of other applications are left out");
}

pub(super) async fn a_waiting_delivery_is_cancelled_at_once(fx: &Fixture) {
    fx.endpoint().await;
    let sent = fx.send().await;
    assert_eq!(steer(fx, sent, DeliveryCommand::Dismiss).await, [DeliveryAction::Refuse]);
    assert_eq!(steer(fx, sent, DeliveryCommand::Cancel).await, [DeliveryAction::End]);
    assert_eq!(reason(fx, sent).await, (DeliveryState::Cancelled, "cancelled"));
    let last = find(fx, sent).await.last.expect("it is logged");
    assert_eq!((last.class, &last.note[..]), (Class::Cancelled, DeliveryCommand::Cancel.note().as_bytes()));
    assert_eq!(fx.state(sent).await, DeliveryState::Cancelled);
    assert_eq!(fx.attempts(sent).await.len(), 1);
    assert_eq!(steer(fx, sent, DeliveryCommand::Cancel).await, [], "nothing is open any more");
    assert_eq!(fx.lease(fx.session().await).await.len(), 0);
}

pub(super) async fn a_delivery_that_is_being_sent_is_cancelled_by_its_next_lease(fx: &Fixture) {
    let (session, leased) = fx.held().await;
    let sent = MessageId(leased.task.key.subject);
    assert_eq!(steer(fx, sent, DeliveryCommand::Cancel).await, [DeliveryAction::RequestCancel]);
    assert_eq!(reason(fx, sent).await, (DeliveryState::Sending, "cancelRequested"));
    fx.end(&leased.task, session, NOW).await;
    assert_eq!(reason(fx, sent).await, (DeliveryState::Pending, "cancelRequested"));
    assert!(fx.lease_one(session).await.task.cancel, "its next holder learns of it");
}

pub(super) async fn a_redriven_delivery_is_no_longer_cancelled(fx: &Fixture) {
    let (session, leased) = fx.held().await;
    let sent = MessageId(leased.task.key.subject);
    steer(fx, sent, DeliveryCommand::Cancel).await;
    fx.end(&leased.task, session, NextRow::Dead).await;
    assert_eq!(fx.redrive(EndpointId(leased.task.lane.0)).await, 1);
    let again = fx.lease_one(session).await.task;
    assert!(!again.cancel);
    fx.end(&again, session, NextRow::Dead).await;
    assert_eq!(steer(fx, sent, DeliveryCommand::RetryNow).await, [DeliveryAction::Redrive]);
    let again = fx.lease_one(session).await.task;
    assert_eq!((again.tries, again.crashes, again.cancel), (0, 0, false));
}

pub(super) async fn a_delivery_is_retried_now(fx: &Fixture) {
    let (session, leased) = fx.held().await;
    let sent = MessageId(leased.task.key.subject);
    assert_eq!(steer(fx, sent, DeliveryCommand::RetryNow).await, [DeliveryAction::Nothing]);
    fx.end(&leased.task, session, LATER).await;
    assert_eq!(fx.lease(session).await.len(), 0);
    assert_eq!(steer(fx, sent, DeliveryCommand::RetryNow).await, [DeliveryAction::RunNow]);
    let again = fx.lease_one(session).await.task;
    assert_eq!((again.key, again.tries), (leased.task.key, 1), "its tries stay counted");
}

pub(super) async fn a_dead_delivery_is_dismissed(fx: &Fixture) {
    let (session, leased) = fx.held().await;
    let sent = MessageId(leased.task.key.subject);
    assert_eq!(steer(fx, sent, DeliveryCommand::Dismiss).await, [DeliveryAction::Refuse]);
    fx.end(&leased.task, session, NextRow::Dead).await;
    assert_eq!(steer(fx, sent, DeliveryCommand::Cancel).await, [DeliveryAction::Refuse]);
    assert_eq!(steer(fx, sent, DeliveryCommand::Dismiss).await, [DeliveryAction::End]);
    assert_eq!(reason(fx, sent).await, (DeliveryState::Cancelled, "cancelled"));
    assert_eq!(fx.redrive(EndpointId(leased.task.lane.0)).await, 0, "no redrive finds it");
    assert_eq!(fx.attempts(sent).await.len(), 2);
}

pub(super) async fn all_deliveries_of_a_message_are_cancelled(fx: &Fixture) {
    let mut endpoints = [fx.endpoint().await, fx.endpoint().await, fx.endpoint().await];
    endpoints.sort();
    let mut later = fx.message();
    later.deliver_at = Some(fx.store.now().await.unwrap().plus(HOUR));
    let (scheduled, sent) = (later.message.id, fx.send().await);
    fx.append_one(None, later).await;
    assert_eq!(steer(fx, scheduled, DeliveryCommand::Cancel).await, [DeliveryAction::End; 3]);
    let session = fx.session().await;
    for leased in fx.lease(session).await {
        assert_eq!(leased.task.key.subject, sent.0);
        let row = match endpoints.iter().position(|endpoint| endpoint.lane() == leased.task.lane) {
            Some(0) => NextRow::Dead,
            Some(1) => LATER,
            _ => continue,
        };
        fx.end(&leased.task, session, row).await;
    }
    let mut actions = steer(fx, sent, DeliveryCommand::Cancel).await;
    actions.sort_by_key(|action| format!("{action:?}"));
    assert_eq!(actions, [DeliveryAction::End, DeliveryAction::Refuse, DeliveryAction::RequestCancel]);
    let states = [DeliveryState::Dead, DeliveryState::Cancelled, DeliveryState::Sending];
    assert_eq!(fx.states(sent).await, endpoints.into_iter().zip(states).collect::<Vec<_>>());
}

pub(super) async fn a_dead_delivery_is_replaced_by_a_corrected_message(fx: &Fixture) {
    let (session, leased) = fx.held().await;
    // This endpoint gets neither the first message nor its replacement.
    fx.endpoint().await;
    let dead = DeliveryKey { message: MessageId(leased.task.key.subject), endpoint: EndpointId(leased.task.lane.0) };
    let payload = Bytes::from_static(b"{\"right\": true}");
    let message = Message {
        payload: Some(payload.clone()),
        rest: Rest { redrive_of: Some(dead.message), ..Rest::default() },
        ..new_message(MessageId(fx.id()), fx.application)
    };
    let correct = async || {
        let steer = Steer::Correct { dead, message: message.clone() };
        fx.other.steer(fx.scope(), steer).await.unwrap()
    };
    assert_eq!(correct().await.answer, Steered::default(), "it is not dead");
    fx.end(&leased.task, session, NextRow::Dead).await;
    let corrected = correct().await;
    assert_eq!((corrected.made.messages, corrected.answer.corrected.as_ref().map(|new| new.id)), (1, Some(message.id)));
    assert_eq!(correct().await.answer.corrected, None, "a second time it is dead no more");
    assert_eq!(fx.state(dead.message).await, DeliveryState::Cancelled);
    let again = fx.lease_one(session).await;
    assert_eq!((again.task.key.subject, again.task.lane), (message.id.0, dead.endpoint.lane()));
    assert_eq!((again.task.trigger, again.task.tries), (Trigger::Scheduled, 0));
    let sent = again.message().expect("it has a message");
    assert_eq!((sent.payload.as_ref(), sent.rest.redrive_of), (Some(&payload), Some(dead.message)));
}
