//! The state of a delivery is always known, and a delivery can be repeated.

use std::time::Duration;

use everhook_core::delivery::DeliveryState;
use everhook_core::endpoint::EndpointState;
use everhook_core::id::{EndpointId, MessageId};
use everhook_core::lifecycle::NextRow;
use everhook_core::task::Trigger;
use everhook_store::history::{Redrive, Resend, Resent};
use everhook_store::lease::{Appended, NewMessage, Settlement};

use crate::conformance::fixture::{FixedCapacity, Fixture, HOUR, PLENTY, fast, request_key};

const NOW: NextRow = NextRow::Pending { due_in: Duration::ZERO };

pub(super) async fn a_delivery_is_shown_through_its_whole_life(fx: &Fixture) {
    let endpoint = fx.endpoint().await;
    let sent = fx.send().await;
    let session = fx.session().await;
    assert_eq!(fx.state(sent).await, DeliveryState::Pending);
    let leased = fx.lease_one(session).await;
    assert_eq!(fx.state(sent).await, DeliveryState::Sending);
    fx.end(&leased.task, session, NOW).await;
    assert_eq!(fx.state(sent).await, DeliveryState::Pending, "it waits for its retry");
    fx.switch(endpoint, EndpointState::Disabled).await;
    assert_eq!(fx.state(sent).await, DeliveryState::Held);
    fx.switch(endpoint, EndpointState::Enabled).await;
    let leased = fx.lease_one(session).await;
    fx.end(&leased.task, session, NextRow::Dead).await;
    assert_eq!(fx.state(sent).await, DeliveryState::Dead);
    assert_eq!(fx.redrive(endpoint).await, 1);
    assert_eq!(fx.state(sent).await, DeliveryState::Pending);
    let leased = fx.lease_one(session).await;
    fx.end(&leased.task, session, NextRow::Gone).await;
    assert_eq!(fx.state(sent).await, DeliveryState::Succeeded);
    assert_eq!(fx.attempts(sent).await.len(), 3);
    fx.delete(endpoint).await;
    assert_eq!(fx.state(sent).await, DeliveryState::Succeeded);
}

pub(super) async fn the_next_attempt_is_told_while_a_delivery_waits(fx: &Fixture) {
    let (session, leased) = fx.held().await;
    let sent = MessageId(leased.task.key.subject);
    let next = async || fx.other.destinations_of(fx.here, fx.application, sent).await[0].next_attempt;
    assert_eq!(next().await, None, "it is on its way");
    fx.end(&leased.task, session, NextRow::Pending { due_in: HOUR }).await;
    let at = next().await.expect("it waits");
    assert!(at.since(fx.store.now().await.unwrap()) > HOUR / 2);
    fx.switch(EndpointId(leased.task.lane.0), EndpointState::Disabled).await;
    assert_eq!(next().await, None, "nobody knows when");
}

pub(super) async fn a_delivery_taken_at_once_is_being_sent(fx: &Fixture) {
    fx.endpoint().await;
    let (new, session) = (fx.message(), fx.session().await);
    let id = new.message.id;
    let answer = fx.append_one(Some(fast(session, &FixedCapacity::of(1))), new).await;
    assert!(matches!(answer, Appended::Accepted { pending: 0, .. }), "{answer:?}");
    assert_eq!(fx.state(id).await, DeliveryState::Sending);
}

pub(super) async fn what_waits_for_a_deleted_endpoint_is_cancelled(fx: &Fixture) {
    let endpoint = fx.endpoint().await;
    let sent = fx.send().await;
    fx.delete(endpoint).await;
    assert_eq!(fx.states(sent).await, [(endpoint, DeliveryState::Cancelled)]);
}

pub(super) async fn each_endpoint_has_its_own_state(fx: &Fixture) {
    let mut endpoints = [fx.endpoint().await, fx.endpoint().await, fx.endpoint().await];
    endpoints.sort();
    let sent = fx.send().await;
    let session = fx.session().await;
    for leased in fx.lease(session).await {
        let row = match endpoints.iter().position(|endpoint| endpoint.lane() == leased.task.lane) {
            Some(0) => NextRow::Gone,
            Some(1) => NextRow::Dead,
            _ => NOW,
        };
        fx.end(&leased.task, session, row).await;
    }
    let states = [DeliveryState::Succeeded, DeliveryState::Dead, DeliveryState::Pending];
    assert_eq!(fx.states(sent).await, endpoints.into_iter().zip(states).collect::<Vec<_>>());
}

pub(super) async fn an_unknown_message_stands_nowhere(fx: &Fixture) {
    fx.endpoint().await;
    assert_eq!(fx.states(MessageId(fx.id())).await, []);
}

pub(super) async fn a_resend_is_a_task_of_its_own_with_a_manual_trigger(fx: &Fixture) {
    let (session, first) = fx.held().await;
    let (sent, endpoint) = (MessageId(first.task.key.subject), EndpointId(first.task.lane.0));
    fx.end(&first.task, session, NextRow::Gone).await;
    assert_eq!(fx.resend(sent, endpoint).await, Resent::Pending);
    assert_eq!(fx.state(sent).await, DeliveryState::Pending);
    let second = fx.lease_one(session).await.task;
    assert_eq!((second.key.subject, second.lane, second.trigger), (sent.0, endpoint.lane(), Trigger::Manual));
    assert_eq!((second.tries, second.crashes, second.epoch), (0, 0, 1));
    assert_ne!(second.key.id, first.task.key.id, "a late settlement of the first life cannot touch it");
    fx.end(&second, session, NextRow::Gone).await;
    assert_eq!(fx.attempts(sent).await.len(), 2);
}

pub(super) async fn the_newest_life_of_a_delivery_is_the_one_shown(fx: &Fixture) {
    let (session, first) = fx.held().await;
    let (sent, endpoint) = (MessageId(first.task.key.subject), EndpointId(first.task.lane.0));
    fx.end(&first.task, session, NextRow::Dead).await;
    fx.resend(sent, endpoint).await;
    let second = fx.lease_one(session).await.task;
    assert_eq!(fx.state(sent).await, DeliveryState::Sending);
    fx.end(&second, session, NextRow::Gone).await;
    assert_eq!(fx.state(sent).await, DeliveryState::Succeeded);
}

pub(super) async fn a_resend_needs_a_message_with_its_payload_and_an_endpoint(fx: &Fixture) {
    let (endpoint, deleted) = (fx.endpoint().await, fx.endpoint().await);
    let sent = fx.send().await;
    fx.delete(deleted).await;
    fx.lease(fx.session().await).await;
    assert_eq!(fx.resend(sent, deleted).await, Resent::NotFound);
    assert_eq!(fx.resend(sent, EndpointId(fx.id())).await, Resent::NotFound);
    assert_eq!(fx.resend(MessageId(fx.id()), endpoint).await, Resent::NotFound);
    assert!(fx.other.drop_payload(fx.here, fx.application, sent).await);
    assert_eq!(fx.resend(sent, endpoint).await, Resent::NoPayload);
    assert_eq!(fx.lease(fx.session().await).await.len(), 0);
}

pub(super) async fn a_repeated_resend_sends_once(fx: &Fixture) {
    let endpoint = fx.endpoint().await;
    let sent = fx.send().await;
    let session = fx.session().await;
    fx.lease_one(session).await;
    let ask = |body: &str| Resend {
        application: fx.application,
        message: sent,
        endpoint,
        key: Some(request_key("again", body)),
    };
    assert_eq!(fx.other.ask_resend(fx.here, &ask("")).await, Resent::Pending);
    assert_eq!(fx.other.ask_resend(fx.here, &ask("")).await, Resent::Repeated);
    assert_eq!(fx.other.ask_resend(fx.here, &ask("other")).await, Resent::KeyReused);
    assert_eq!(fx.lease(session).await.len(), 1);
}

pub(super) async fn a_refused_resend_uses_up_no_key(fx: &Fixture) {
    let endpoint = fx.endpoint().await;
    let sent = fx.send().await;
    let ask = |message| Resend { application: fx.application, message, endpoint, key: Some(request_key("again", "")) };
    assert_eq!(fx.other.ask_resend(fx.here, &ask(MessageId(fx.id()))).await, Resent::NotFound);
    assert_eq!(fx.other.ask_resend(fx.here, &ask(sent)).await, Resent::Pending);
}

pub(super) async fn a_resend_to_a_disabled_endpoint_waits(fx: &Fixture) {
    let (session, first) = fx.held().await;
    let (sent, endpoint) = (MessageId(first.task.key.subject), EndpointId(first.task.lane.0));
    fx.end(&first.task, session, NextRow::Gone).await;
    fx.switch(endpoint, EndpointState::Disabled).await;
    assert_eq!(fx.resend(sent, endpoint).await, Resent::Pending);
    assert_eq!(fx.state(sent).await, DeliveryState::Held);
    assert_eq!(fx.lease(session).await.len(), 0);
    fx.switch(endpoint, EndpointState::Enabled).await;
    assert_eq!(fx.lease(session).await.len(), 1);
}

pub(super) async fn a_redriven_delivery_begins_anew(fx: &Fixture) {
    let (session, leased) = fx.held().await;
    let dead = fx.settlement(&leased.task, session, NextRow::Dead);
    fx.settle(&Settlement { tries: 7, crashes: 3, ..dead }).await;
    assert_eq!(fx.redrive(EndpointId(leased.task.lane.0)).await, 1);
    assert_eq!(fx.redrive(EndpointId(leased.task.lane.0)).await, 0);
    let again = fx.lease_one(session).await.task;
    assert_eq!(again.key, leased.task.key);
    assert_eq!((again.tries, again.crashes, again.epoch), (0, 0, leased.task.epoch + 1));
}

pub(super) async fn a_redrive_takes_only_what_is_asked_for(fx: &Fixture) {
    let (endpoint, other) = (fx.endpoint().await, fx.endpoint().await);
    let began = fx.store.now().await.unwrap();
    // The caller creates the ids: one message is an hour older than the other two.
    let old_id = everhook_store::ids::Ids::from_system().next(began.minus(HOUR));
    let mut old = fx.message();
    old.message.id = MessageId(old_id);
    let new = fx.message();
    let sent = new.message.id;
    for message in [old, new, fx.message()] {
        fx.append_one(None, NewMessage { environment: fx.here, ..message }).await;
    }
    let session = fx.session().await;
    let tasks = fx.lease(session).await;
    assert_eq!(tasks.len(), 6);
    let all = Redrive { endpoint, message: None, since: None, until: None, limit: PLENTY };
    let half_past = Some(began.minus(HOUR / 2));
    let wishes = [
        (Redrive { message: Some(sent), ..all.clone() }, 1),
        (Redrive { since: half_past, ..all.clone() }, 2),
        (Redrive { until: half_past, ..all.clone() }, 1),
        (Redrive { since: half_past, until: half_past, ..all.clone() }, 0),
        (Redrive { limit: 2, ..all.clone() }, 2),
        (all, 3),
    ];
    let mut open = tasks;
    for (wish, want) in wishes {
        for leased in &open {
            fx.end(&leased.task, session, NextRow::Dead).await;
        }
        assert_eq!(fx.other.ask_redrive(fx.here, &wish).await, want, "{wish:?}");
        open = fx.lease(session).await;
        assert_eq!(open.len(), want);
        assert!(open.iter().all(|leased| leased.task.lane != other.lane()));
    }
}

pub(super) async fn a_redrive_here_leaves_the_dead_of_another_environment(fx: &Fixture) {
    let endpoint = fx.endpoint().await;
    let new = fx.message();
    let twin = NewMessage { environment: fx.there, ..new.clone() };
    let sent = new.message.id;
    fx.store.append(everhook_store::lease::Append { fast: None, messages: vec![new, twin] }).await.unwrap();
    let session = fx.session().await;
    let tasks = fx.store.lease(fx.ask(session)).await.unwrap().tasks;
    assert_eq!(tasks.len(), 2);
    for leased in &tasks {
        fx.end(&leased.task, session, NextRow::Dead).await;
    }
    assert_eq!(fx.redrive(endpoint).await, 1);
    assert_eq!(fx.state(sent).await, DeliveryState::Pending);
    let there = fx.other.destinations_of(fx.there, fx.application, sent).await;
    assert_eq!(there.iter().map(|seen| seen.state).collect::<Vec<_>>(), [DeliveryState::Dead]);
    fx.lease_one(session).await;
}
