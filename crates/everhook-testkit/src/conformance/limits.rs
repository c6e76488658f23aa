//! Concurrency limits of endpoints, over all nodes.

use std::time::Duration;

use everhook_core::id::{EndpointId, SessionId};
use everhook_core::lifecycle::NextRow;
use everhook_core::policy::limit::LimitEnd;
use everhook_core::policy::{RateLimit, Settings, Switch};
use everhook_core::task::Task;
use everhook_store::delivery::DeliveryFilter;
use everhook_store::lease::{Appended, Settlement};

use crate::conformance::deliveries;
use crate::conformance::fixture::{FixedCapacity, Fixture, HOUR, PLENTY, fast};
use crate::conformance::lease::change;
use crate::conformance::policy::{change_application, change_environment, policy};
use crate::conformance::sessions::close_expired;

/// So many deliveries at the same time.
fn at_once(limit: u32) -> Settings {
    Settings { concurrency: Some(Switch::On(limit)), ..Settings::default() }
}

async fn limited(fx: &Fixture, limit: u32) -> EndpointId {
    let endpoint = fx.endpoint().await;
    change(fx, endpoint, |endpoint| endpoint.policy = policy(at_once(limit))).await;
    endpoint
}

/// Ends a delivery of a lane that may be at its limit.
async fn end(fx: &Fixture, task: &Task, session: SessionId, row: NextRow) {
    fx.settle(&Settlement {
        limits: LimitEnd { is_freed: true, ..LimitEnd::default() },
        ..fx.settlement(task, session, row)
    })
    .await;
}

pub(super) async fn a_concurrency_limit_holds_over_all_sessions(fx: &Fixture) {
    limited(fx, 2).await;
    let (one, two) = (fx.session().await, fx.session().await);
    fx.send_many(6).await;
    let first = fx.lease(one).await;
    assert_eq!(first.len(), 2);
    let grant = fx.lease_with(fx.ask(two)).await;
    assert_eq!(grant.tasks.len(), 0);
    assert!(grant.next_ready.is_some_and(|next| next <= Duration::from_secs(1)), "{:?}", grant.next_ready);
    // Every end frees the lane at once: a success, a retry, a death.
    for row in [NextRow::Gone, NextRow::Pending { due_in: HOUR }] {
        end(fx, &first[usize::from(row != NextRow::Gone)].task, one, row).await;
        assert_eq!((fx.lease(two).await.len(), fx.lease(one).await.len()), (1, 0), "{row:?}");
    }
}

pub(super) async fn a_delivery_of_a_crashed_node_counts_until_it_is_settled(fx: &Fixture) {
    limited(fx, 1).await;
    let crashed = fx.expired_session().await;
    fx.send_many(2).await;
    fx.lease_one(crashed).await;
    let session = fx.session().await;
    assert_eq!(fx.lease(session).await.len(), 0);
    assert_eq!(close_expired(fx).await, [crashed]);
    let [task] = fx.reclaim(session, 10).await[..] else { panic!("one task") };
    assert_eq!(fx.lease(session).await.len(), 0, "the task was taken over and still counts");
    end(fx, &task, session, NextRow::Gone).await;
    assert_eq!(fx.lease(session).await.len(), 1);
}

pub(super) async fn a_delivery_beyond_a_concurrency_limit_waits_for_a_lease_and_says_why(fx: &Fixture) {
    let (endpoint, free) = (limited(fx, 1).await, fx.endpoint().await);
    let (session, capacity) = (fx.session().await, FixedCapacity::of(PLENTY));
    let answer = fx.append_one(Some(fast(session, &capacity)), fx.message()).await;
    let Appended::Accepted { leased, pending: 1, .. } = answer else { panic!("{answer:?}") };
    assert_eq!(leased.iter().map(|(leased, _)| leased.task.lane).collect::<Vec<_>>(), [free.lane()]);
    let sent = fx.send().await;
    fx.lease(session).await;
    let filter = DeliveryFilter { message: Some(sent), endpoint: Some(endpoint), ..deliveries::all(fx) };
    let [found] = &deliveries::list(fx, filter).await.rows[..] else { panic!("one delivery") };
    // The lane holds for a moment, and is then looked at again. The reason is that of this moment.
    let held = found.hold_until.expect("the lane holds");
    assert_eq!(found.reason(held.minus(Duration::from_millis(1))).kind(), "concurrencyLimit");
}

pub(super) async fn a_concurrency_limit_of_any_level_applies_and_a_change_takes_effect_at_once(fx: &Fixture) {
    let endpoint = fx.endpoint().await;
    let session = fx.session().await;
    fx.send_many(20).await;
    let leased = async || fx.lease(session).await.len();
    change_environment(fx, at_once(2)).await;
    assert_eq!((leased().await, leased().await), (2, 0), "the environment's limit");
    change_application(fx, |application| application.policy = policy(at_once(5))).await;
    assert_eq!((leased().await, leased().await), (3, 0), "the application's limit");
    change(fx, endpoint, |endpoint| endpoint.policy = policy(at_once(6))).await;
    assert_eq!((leased().await, leased().await), (1, 0), "the endpoint's limit");
    change(fx, endpoint, |endpoint| endpoint.description = "new".to_owned()).await;
    assert_eq!(leased().await, 0, "another change frees nothing");
    change(fx, endpoint, |endpoint| endpoint.policy = policy(at_once(4))).await;
    assert_eq!(leased().await, 0, "more run than the new limit allows");
    let none = Settings { concurrency: Some(Switch::Off), ..Settings::default() };
    change(fx, endpoint, |endpoint| endpoint.policy = policy(none)).await;
    assert_eq!(leased().await, 14, "no limit");
}

pub(super) async fn both_limits_of_an_endpoint_apply(fx: &Fixture) {
    let rate = Some(Switch::On(RateLimit { count: 1, seconds: 7200 }));
    let both = Settings { rate, ..at_once(1) };
    let endpoint = fx.endpoint().await;
    change(fx, endpoint, |endpoint| endpoint.policy = policy(both)).await;
    let session = fx.session().await;
    fx.send_many(2).await;
    let leased = fx.lease_one(session).await;
    end(fx, &leased.task, session, NextRow::Gone).await;
    let grant = fx.lease_with(fx.ask(session)).await;
    assert_eq!(grant.tasks.len(), 0, "the end of a delivery gives no permit back");
    assert!(grant.next_ready.is_some_and(|next| next > HOUR), "{:?}", grant.next_ready);
}
