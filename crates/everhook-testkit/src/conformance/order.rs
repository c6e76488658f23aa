//! Ordered endpoints: one delivery after the other, whatever happens to the first one.

use std::sync::Arc;
use std::time::Duration;

use everhook_core::delivery::{DeliveryCommand, DeliveryState};
use everhook_core::endpoint::EndpointState;
use everhook_core::id::{EndpointId, MessageId, SessionId};
use everhook_core::lifecycle::NextRow;
use everhook_core::policy::limit::{LimitEnd, RetryPlace};
use everhook_core::policy::{OnDead, Ordering, Settings, Switch};
use everhook_core::task::Task;
use everhook_store::delivery::{DeliveryFilter, DeliveryRecord};
use everhook_store::lease::{Appended, Settlement};

use crate::conformance::deliveries::{self, steer};
use crate::conformance::fixture::{FixedCapacity, Fixture, HOUR, PLENTY, fast};
use crate::conformance::lease::change;
use crate::conformance::policy::policy;
use crate::conformance::sessions::close_expired;
use crate::conformance::stage::Stage;
use crate::conformance::{Fresh, block_on};

const NOW: NextRow = NextRow::Pending { due_in: Duration::ZERO };

async fn ordered(fx: &Fixture, on_dead: OnDead) -> EndpointId {
    let ordering = Some(Switch::On(Ordering::Endpoint));
    let settings = Settings { ordering, on_dead: Some(on_dead), ..Settings::default() };
    let endpoint = fx.endpoint().await;
    change(fx, endpoint, |endpoint| endpoint.policy = policy(settings)).await;
    endpoint
}

async fn send<const N: usize>(fx: &Fixture) -> [MessageId; N] {
    let sent = fx.send_many(N).await;
    sent.try_into().expect("as many as sent")
}

/// Ends an attempt in an ordered lane.
async fn end(fx: &Fixture, task: &Task, session: SessionId, row: NextRow) {
    let limits = LimitEnd { is_freed: true, place: RetryPlace::Kept, ..LimitEnd::default() };
    fx.settle(&Settlement { limits, ..fx.settlement(task, session, row) }).await;
}

/// Leases the next delivery, which must be the only one, and checks its message.
async fn next(fx: &Fixture, session: SessionId, message: MessageId) -> Task {
    let task = fx.lease_one(session).await.task;
    assert_eq!(MessageId(task.key.subject), message);
    task
}

/// Checks that the rest of the lane is delivered in this order.
async fn rest(fx: &Fixture, session: SessionId, messages: &[MessageId]) {
    for message in messages {
        let task = next(fx, session, *message).await;
        end(fx, &task, session, NextRow::Gone).await;
    }
    assert_eq!(fx.lease(session).await.len(), 0);
}

pub(super) async fn record(fx: &Fixture, message: MessageId) -> DeliveryRecord {
    let filter = DeliveryFilter { message: Some(message), ..deliveries::all(fx) };
    deliveries::list(fx, filter).await.rows.remove(0)
}

/// Returns the reason just before the hold of the lane ends, and the message that the delivery waits for.
async fn reason(fx: &Fixture, message: MessageId) -> (&'static str, Option<MessageId>) {
    let found = record(fx, message).await;
    let held = found.hold_until.expect("the lane holds");
    let reason = found.reason(held.minus(Duration::from_millis(1)));
    (reason.kind(), reason.message())
}

pub(super) async fn an_ordered_endpoint_gets_one_delivery_after_the_other(fx: &Fixture) {
    let endpoint = ordered(fx, OnDead::Skip).await;
    let (one, two, capacity) = (fx.session().await, fx.session().await, FixedCapacity::of(PLENTY));
    let [first, second, third] = send(fx).await;
    let answer = fx.append_one(Some(fast(one, &capacity)), fx.message()).await;
    let Appended::Accepted { message, leased, pending: 1 } = answer else { panic!("{answer:?}") };
    assert!(leased.is_empty(), "no fast path");
    let task = next(fx, one, first).await;
    assert_eq!((fx.lease(one).await.len(), fx.lease(two).await.len()), (0, 0));
    assert_eq!(reason(fx, third).await, ("behind", Some(first)));
    end(fx, &task, one, NextRow::Gone).await;
    fx.switch(endpoint, EndpointState::Disabled).await;
    assert_eq!(fx.lease(two).await.len(), 0);
    fx.switch(endpoint, EndpointState::Enabled).await;
    rest(fx, two, &[second, third, message.id]).await;
}

pub(super) async fn a_retry_keeps_its_place_in_an_ordered_lane(fx: &Fixture) {
    ordered(fx, OnDead::Skip).await;
    let session = fx.session().await;
    let [first, second, third] = send(fx).await;
    let task = next(fx, session, first).await;
    end(fx, &task, session, NOW).await;
    let task = next(fx, session, first).await;
    end(fx, &task, session, NextRow::Pending { due_in: HOUR }).await;
    let grant = fx.lease_with(fx.ask(session)).await;
    assert_eq!(grant.tasks.len(), 0);
    assert!(grant.next_ready.is_some_and(|next| next > HOUR / 2), "{:?}", grant.next_ready);
    assert_eq!((reason(fx, first).await.0, reason(fx, second).await), ("retry", ("behind", Some(first))));
    // A delivery behind it cannot overtake, and the end of another one does not end the wait.
    steer(fx, third, DeliveryCommand::Cancel).await;
    assert_eq!(fx.lease(session).await.len(), 0);
    steer(fx, second, DeliveryCommand::RetryNow).await;
    rest(fx, session, &[first, second]).await;
}

pub(super) async fn the_next_of_an_ordered_lane_goes_when_the_first_is_cancelled(fx: &Fixture) {
    ordered(fx, OnDead::Skip).await;
    let session = fx.session().await;
    let [first, second] = send(fx).await;
    let task = next(fx, session, first).await;
    end(fx, &task, session, NextRow::Pending { due_in: HOUR }).await;
    assert_eq!(fx.lease(session).await.len(), 0);
    steer(fx, first, DeliveryCommand::Cancel).await;
    rest(fx, session, &[second]).await;
}

pub(super) async fn a_takeover_keeps_the_place_in_an_ordered_lane(fx: &Fixture) {
    ordered(fx, OnDead::Skip).await;
    let crashed = fx.expired_session().await;
    let [first, second, third] = send(fx).await;
    next(fx, crashed, first).await;
    let session = fx.session().await;
    assert_eq!(close_expired(fx).await, [crashed]);
    let [task] = fx.reclaim(session, 10).await[..] else { panic!("one task") };
    // A node that takes a task over does not know its lane.
    let limits = LimitEnd { is_freed: true, place: RetryPlace::KeptIfCounted, ..LimitEnd::default() };
    fx.settle(&Settlement { limits, ..fx.settlement(&task, session, NOW) }).await;
    rest(fx, session, &[first, second, third]).await;
}

pub(super) async fn a_redriven_delivery_goes_next_in_an_ordered_lane(fx: &Fixture) {
    let endpoint = ordered(fx, OnDead::Skip).await;
    let session = fx.session().await;
    let [first, second, third, fourth] = send(fx).await;
    for message in [first, second] {
        let task = next(fx, session, message).await;
        end(fx, &task, session, NextRow::Dead).await;
    }
    let task = next(fx, session, third).await;
    assert_eq!(fx.redrive(endpoint).await, 2);
    end(fx, &task, session, NextRow::Gone).await;
    rest(fx, session, &[first, second, fourth]).await;
}

/// Runs a case in which `set_back` sets the clock of the store back by an hour. Each store does this in its own way, so
/// the case is not in the table.
pub fn order_survives_a_clock_that_is_set_back<S: Stage + 'static>(
    make: impl Future<Output = Fresh<S>>,
    set_back: impl AsyncFnOnce(),
) {
    block_on(async {
        let Fresh { store, other, guard } = make.await;
        let fx = &Fixture::new(Fresh { store: store as Arc<dyn Stage>, other: other as Arc<dyn Stage>, guard }).await;
        let endpoint = ordered(fx, OnDead::Skip).await;
        let session = fx.session().await;
        let [first, second] = send(fx).await;
        let task = next(fx, session, first).await;
        set_back().await;
        let [third, fourth] = send(fx).await;
        fx.resend(first, endpoint).await;
        end(fx, &task, session, NOW).await;
        let task = next(fx, session, first).await;
        end(fx, &task, session, NextRow::Dead).await;
        assert_eq!(fx.redrive(endpoint).await, 1);
        rest(fx, session, &[first, second, third, fourth, first]).await;
    });
}

pub(super) async fn a_dead_delivery_blocks_an_ordered_lane_until_it_is_redriven_or_dismissed(fx: &Fixture) {
    let endpoint = ordered(fx, OnDead::Block).await;
    let session = fx.session().await;
    let [first, second, third] = send(fx).await;
    let die = async |message| {
        let task = next(fx, session, message).await;
        end(fx, &task, session, NextRow::Dead).await;
        assert_eq!(fx.lease(session).await.len(), 0);
        assert_eq!(reason(fx, third).await, ("blocked", Some(message)));
    };
    die(first).await;
    assert_eq!(fx.redrive(endpoint).await, 1);
    die(first).await;
    steer(fx, first, DeliveryCommand::RetryNow).await;
    die(first).await;
    steer(fx, first, DeliveryCommand::Dismiss).await;
    assert_eq!(fx.state(first).await, DeliveryState::Cancelled);
    die(second).await;
    let skip = Settings { ordering: Some(Switch::On(Ordering::Endpoint)), ..Settings::default() };
    change(fx, endpoint, |endpoint| endpoint.policy = policy(skip)).await;
    rest(fx, session, &[third]).await;
}
