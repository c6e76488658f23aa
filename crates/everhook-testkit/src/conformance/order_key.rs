//! Endpoints that order their deliveries by a key: one after the other for each key, whatever happens to the first one.

use std::collections::BTreeSet;

use bytes::Bytes;
use everhook_core::delivery::{DeliveryAction, DeliveryCommand, DeliveryState};
use everhook_core::endpoint::EndpointState;
use everhook_core::id::{EndpointId, MessageId, SessionId};
use everhook_core::lifecycle::NextRow;
use everhook_core::policy::limit::{LimitEnd, RetryPlace};
use everhook_core::policy::{OnDead, Ordering, Settings, Switch};
use everhook_core::task::Task;
use everhook_store::lease::{Appended, Settlement};

use crate::conformance::deliveries::steer;
use crate::conformance::fixture::{FixedCapacity, Fixture, HOUR, PLENTY, fast};
use crate::conformance::lease::change;
use crate::conformance::order::record;
use crate::conformance::policy::policy;
use crate::conformance::sessions::close_expired;

const LATER: NextRow = NextRow::Pending { due_in: HOUR };

/// Creates an endpoint that is ordered by the member `k`.
async fn keyed(fx: &Fixture, on_dead: OnDead) -> EndpointId {
    let ordering = Some(Switch::On(Ordering::Key("/k".to_owned())));
    let settings = Settings { ordering, on_dead: Some(on_dead), ..Settings::default() };
    let endpoint = fx.endpoint().await;
    change(fx, endpoint, |endpoint| endpoint.policy = policy(settings)).await;
    endpoint
}

/// Sends one message for each payload.
async fn send<const N: usize>(fx: &Fixture, payloads: [&'static str; N]) -> [MessageId; N] {
    let mut messages = Vec::new();
    for payload in payloads {
        let mut new = fx.message();
        new.message.payload = Some(Bytes::from_static(payload.as_bytes()));
        messages.push(new);
    }
    let appended = fx.append(None, messages).await;
    let id = |appended: Appended| match appended {
        Appended::Accepted { message, leased, pending: 1 } if leased.is_empty() => message.id,
        other => panic!("{other:?}"),
    };
    let sent: Vec<MessageId> = appended.into_iter().map(id).collect();
    sent.try_into().expect("as many as sent")
}

const A: &str = r#"{"k": "a"}"#;
const B: &str = r#"{"k": "b"}"#;

/// Leases all deliveries that may start, and checks their messages.
async fn next<const N: usize>(fx: &Fixture, session: SessionId, messages: [MessageId; N]) -> [Task; N] {
    let mut tasks: Vec<Task> = fx.lease(session).await.into_iter().map(|leased| leased.task).collect();
    let found: BTreeSet<MessageId> = tasks.iter().map(|task| MessageId(task.key.subject)).collect();
    assert_eq!(found, messages.into_iter().collect::<BTreeSet<_>>());
    tasks.sort_by_key(|task| messages.iter().position(|id| id.0 == task.key.subject));
    tasks.try_into().expect("as many as asked for")
}

/// Ends an attempt, as a node does that knows nothing but the task.
async fn end(fx: &Fixture, task: &Task, session: SessionId, row: NextRow) {
    fx.settle(&fx.settlement(task, session, row)).await;
}

/// Checks that the rest of a key is delivered in this order.
async fn rest(fx: &Fixture, session: SessionId, messages: &[MessageId]) {
    for message in messages {
        let [task] = next(fx, session, [*message]).await;
        end(fx, &task, session, NextRow::Gone).await;
    }
    next(fx, session, []).await;
}

async fn reason(fx: &Fixture, message: MessageId) -> (&'static str, Option<MessageId>) {
    let (found, now) = (record(fx, message).await, fx.store.now().await.unwrap());
    let reason = found.reason(now);
    assert_eq!(found.next_attempt().is_none(), ["behind", "blocked"].contains(&reason.kind()));
    (reason.kind(), reason.message())
}

pub(super) async fn keys_run_beside_each_other_and_each_in_order(fx: &Fixture) {
    let endpoint = keyed(fx, OnDead::Skip).await;
    let (one, two, capacity) = (fx.session().await, fx.session().await, FixedCapacity::of(PLENTY));
    let [a1, b1, a2, b2, a3] = send(fx, [A, B, A, B, A]).await;
    let [task_a, task_b] = next(fx, one, [a1, b1]).await;
    next(fx, two, []).await;
    assert_eq!((reason(fx, a2).await, reason(fx, a3).await), (("behind", Some(a1)), ("behind", Some(a1))));
    let mut later = fx.message();
    later.message.payload = Some(Bytes::from_static(B.as_bytes()));
    let answer = fx.append_one(Some(fast(one, &capacity)), later).await;
    let Appended::Accepted { message: b3, leased, pending: 1 } = answer else { panic!("{answer:?}") };
    assert!(leased.is_empty(), "no fast path");
    end(fx, &task_a, one, NextRow::Gone).await;
    let [task_a] = next(fx, two, [a2]).await;
    end(fx, &task_b, one, NextRow::Gone).await;
    fx.switch(endpoint, EndpointState::Disabled).await;
    next(fx, two, []).await;
    fx.switch(endpoint, EndpointState::Enabled).await;
    rest(fx, two, &[b2, b3.id]).await;
    end(fx, &task_a, two, NextRow::Gone).await;
    rest(fx, one, &[a3]).await;
}

pub(super) async fn a_failing_key_holds_only_its_own_deliveries(fx: &Fixture) {
    keyed(fx, OnDead::Skip).await;
    let session = fx.session().await;
    let [a1, b1, a2, a3, b2] = send(fx, [A, B, A, A, B]).await;
    let [task_a, task_b] = next(fx, session, [a1, b1]).await;
    end(fx, &task_a, session, LATER).await;
    end(fx, &task_b, session, NextRow::Gone).await;
    rest(fx, session, &[b2]).await;
    assert_eq!((reason(fx, a1).await.0, reason(fx, a2).await), ("retry", ("behind", Some(a1))));
    assert_eq!(steer(fx, a2, DeliveryCommand::RetryNow).await, [DeliveryAction::Nothing]);
    next(fx, session, []).await;
    // The end of a delivery behind does not start another one, and that of the first does.
    steer(fx, a2, DeliveryCommand::Cancel).await;
    next(fx, session, []).await;
    steer(fx, a1, DeliveryCommand::RetryNow).await;
    let [task] = next(fx, session, [a1]).await;
    end(fx, &task, session, LATER).await;
    steer(fx, a1, DeliveryCommand::Cancel).await;
    rest(fx, session, &[a3]).await;
}

pub(super) async fn payloads_without_the_key_are_one_key(fx: &Fixture) {
    keyed(fx, OnDead::Skip).await;
    let session = fx.session().await;
    let [a, first, second, third, fourth] =
        send(fx, [A, "{}", r#"{"k": null}"#, r#"{"k": {"a": 1}}"#, "not JSON"]).await;
    let [task, other] = next(fx, session, [a, first]).await;
    end(fx, &task, session, NextRow::Gone).await;
    end(fx, &other, session, NextRow::Gone).await;
    rest(fx, session, &[second, third, fourth]).await;
}

pub(super) async fn a_takeover_keeps_the_order_of_a_key(fx: &Fixture) {
    keyed(fx, OnDead::Skip).await;
    let crashed = fx.expired_session().await;
    let [a1, a2] = send(fx, [A, A]).await;
    next(fx, crashed, [a1]).await;
    let session = fx.session().await;
    assert_eq!(close_expired(fx).await, [crashed]);
    let [task] = fx.reclaim(session, 10).await[..] else { panic!("one task") };
    let limits = LimitEnd { is_freed: false, place: RetryPlace::KeptIfCounted, breaker: None };
    let now = NextRow::Pending { due_in: std::time::Duration::ZERO };
    fx.settle(&Settlement { limits, ..fx.settlement(&task, session, now) }).await;
    let [a3] = send(fx, [A]).await;
    rest(fx, session, &[a1, a2, a3]).await;
}

pub(super) async fn a_redriven_delivery_goes_next_among_its_key(fx: &Fixture) {
    let endpoint = keyed(fx, OnDead::Skip).await;
    let session = fx.session().await;
    let [a1, a2, a3, a4] = send(fx, [A, A, A, A]).await;
    for message in [a1, a2] {
        let [task] = next(fx, session, [message]).await;
        end(fx, &task, session, NextRow::Dead).await;
    }
    let [task] = next(fx, session, [a3]).await;
    assert_eq!(fx.redrive(endpoint).await, 2);
    assert_eq!(reason(fx, a1).await, ("behind", Some(a3)));
    next(fx, session, []).await;
    end(fx, &task, session, NextRow::Gone).await;
    rest(fx, session, &[a1, a2, a4]).await;
}

pub(super) async fn a_dead_delivery_blocks_its_key_until_it_is_redriven_or_dismissed(fx: &Fixture) {
    let endpoint = keyed(fx, OnDead::Block).await;
    let session = fx.session().await;
    let [a1, a2, b1] = send(fx, [A, A, B]).await;
    let [task, other] = next(fx, session, [a1, b1]).await;
    end(fx, &task, session, NextRow::Dead).await;
    end(fx, &other, session, NextRow::Gone).await;
    let [a3, b2] = send(fx, [A, B]).await;
    rest(fx, session, &[b2]).await;
    assert_eq!((reason(fx, a2).await, reason(fx, a3).await), (("blocked", Some(a1)), ("blocked", Some(a1))));
    let die = async || {
        let [task] = next(fx, session, [a1]).await;
        end(fx, &task, session, NextRow::Dead).await;
        next(fx, session, []).await;
    };
    assert_eq!(fx.redrive(endpoint).await, 1);
    die().await;
    steer(fx, a1, DeliveryCommand::RetryNow).await;
    die().await;
    steer(fx, a1, DeliveryCommand::Dismiss).await;
    assert_eq!(fx.state(a1).await, DeliveryState::Cancelled);
    rest(fx, session, &[a2, a3]).await;
}

pub(super) async fn a_deleted_endpoint_ends_deliveries_behind_others(fx: &Fixture) {
    let endpoint = keyed(fx, OnDead::Skip).await;
    let session = fx.session().await;
    let [a1, a2, a3] = send(fx, [A, A, A]).await;
    let [task] = next(fx, session, [a1]).await;
    fx.delete(endpoint).await;
    let tasks = next(fx, session, [a2, a3]).await;
    for task in tasks.iter().chain([&task]) {
        end(fx, task, session, NextRow::Gone).await;
    }
    next(fx, session, []).await;
}

/// A key whose setting was removed goes on in order, and later messages do not wait.
pub(super) async fn a_change_of_the_order_applies_to_later_messages(fx: &Fixture) {
    let endpoint = keyed(fx, OnDead::Skip).await;
    let session = fx.session().await;
    let [a1, a2] = send(fx, [A, A]).await;
    change(fx, endpoint, |endpoint| endpoint.policy = None).await;
    let [later] = send(fx, [A]).await;
    let [task, other] = next(fx, session, [a1, later]).await;
    end(fx, &other, session, NextRow::Gone).await;
    end(fx, &task, session, NextRow::Gone).await;
    rest(fx, session, &[a2]).await;
}

/// An append that waits behind a delivery, and the end of that delivery, see each other.
pub(super) async fn no_delivery_is_forgotten_behind_one_that_ends(fx: &Fixture) {
    keyed(fx, OnDead::Skip).await;
    let session = fx.session().await;
    let [mut message] = send(fx, [A]).await;
    for _ in 0..30 {
        let [task] = next(fx, session, [message]).await;
        let (_, [sent]) = tokio::join!(end(fx, &task, session, NextRow::Gone), send(fx, [A]));
        message = sent;
    }
    rest(fx, session, &[message]).await;
}
