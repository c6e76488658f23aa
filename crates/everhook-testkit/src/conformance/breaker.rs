//! Circuit breakers of endpoints, over all nodes.

use std::time::Duration;

use everhook_core::id::{EndpointId, SessionId};
use everhook_core::lifecycle::NextRow;
use everhook_core::policy::breaker::{Breaker, BreakerChange, BreakerPhase, BreakerSign};
use everhook_core::policy::limit::LimitEnd;
use everhook_core::policy::{BreakerSettings, Settings, Switch};
use everhook_store::delivery::{BreakerRecord, DeliveryFilter};
use everhook_store::lease::{Appended, Leased, Settlement};
use everhook_store::query;

use crate::conformance::deliveries;
use crate::conformance::fixture::{FixedCapacity, Fixture, HOUR, PLENTY, fast};
use crate::conformance::lease::change;
use crate::conformance::policy::{change_application, policy};

const SETTINGS: BreakerSettings = BreakerSettings {
    failure_percent: 50,
    min_attempts: 20,
    window_seconds: 60,
    open_seconds: 3600,
    max_open_seconds: 3600,
};

fn with_breaker(breaker: Switch<BreakerSettings>) -> Settings {
    Settings { breaker: Some(breaker), ..Settings::default() }
}

async fn guarded(fx: &Fixture) -> EndpointId {
    let endpoint = fx.endpoint().await;
    change(fx, endpoint, |endpoint| endpoint.policy = policy(with_breaker(Switch::On(SETTINGS)))).await;
    endpoint
}

/// Ends a delivery with this change of the breaker, as a node does.
async fn end(fx: &Fixture, leased: &Leased, session: SessionId, row: NextRow, breaker: Option<BreakerChange>) {
    let is_freed = !leased.breaker.is_closed();
    let limits = LimitEnd { is_freed, breaker, ..LimitEnd::default() };
    fx.settle(&Settlement { limits, ..fx.settlement(&leased.task, session, row) }).await;
}

/// A breaker that is open, without the time for which it opens.
fn probing() -> BreakerChange {
    BreakerChange { open_for: None, ..Breaker::default().open(&SETTINGS) }
}

/// Opens the breaker by the end of a delivery, and lets its time pass.
async fn open(fx: &Fixture, session: SessionId) {
    fx.send().await;
    let first = fx.lease_one(session).await;
    assert!(first.breaker.is_closed());
    end(fx, &first, session, NextRow::Gone, Some(probing())).await;
}

async fn breaker(fx: &Fixture, endpoint: EndpointId) -> BreakerRecord {
    let scope = fx.scope();
    fx.read(query::FindBreaker { scope, endpoint }).await.expect("the endpoint has a lane")
}

pub(super) async fn an_open_breaker_holds_its_lane_and_says_why(fx: &Fixture) {
    let (endpoint, session) = (guarded(fx).await, fx.session().await);
    fx.send().await;
    let first = fx.lease_one(session).await;
    let opened = first.breaker.open(&SETTINGS);
    end(fx, &first, session, NextRow::Pending { due_in: Duration::ZERO }, Some(opened)).await;
    let sent = fx.send().await;
    let grant = fx.lease_with(fx.ask(session)).await;
    assert_eq!(grant.tasks.len(), 0);
    assert!(grant.next_ready.is_some_and(|next| next > HOUR / 2), "{:?}", grant.next_ready);
    let filter = DeliveryFilter { message: Some(sent), endpoint: Some(endpoint), ..deliveries::all(fx) };
    let [found] = &deliveries::list(fx, filter).await.rows[..] else { panic!("one delivery") };
    let until = found.hold_until.expect("the lane holds");
    let before = until.minus(HOUR / 2);
    assert_eq!((found.reason(before).kind(), found.reason(before).until()), ("breakerOpen", Some(until)));
    let known = breaker(fx, endpoint).await;
    assert_eq!((known.breaker, known.open_until(before)), (opened.to, Some(until)));
    assert_eq!(fx.read(query::CountBacklog {}).await.breakers, 1);
}

pub(super) async fn a_breaker_probes_with_one_delivery_over_all_sessions_and_ramps_up(fx: &Fixture) {
    let (endpoint, one, two) = (guarded(fx).await, fx.session().await, fx.session().await);
    open(fx, one).await;
    fx.send_many(80).await;
    let mut at_once = Vec::new();
    for _ in 0..6 {
        let leased = fx.lease(one).await;
        assert_eq!(fx.lease(two).await.len(), 0, "other sessions wait for the result");
        at_once.push(leased.len());
        for leased in &leased {
            let change = leased.breaker.after(BreakerSign::Works, &SETTINGS);
            end(fx, leased, one, NextRow::Gone, change).await;
        }
    }
    assert_eq!(at_once, [1, 2, 4, 8, 16, 32]);
    assert!(breaker(fx, endpoint).await.breaker.is_closed());
    assert_eq!(fx.lease(two).await.len(), 17, "the breaker is closed");
    assert_eq!(fx.read(query::CountBacklog {}).await.breakers, 0);
}

pub(super) async fn a_breaker_changes_only_from_the_state_that_was_seen(fx: &Fixture) {
    let (endpoint, session) = (guarded(fx).await, fx.session().await);
    fx.send().await;
    fx.send().await;
    let [first, second] = &fx.lease(session).await[..] else { panic!("two deliveries") };
    end(fx, first, session, NextRow::Gone, Some(probing())).await;
    // A second node, or a late attempt of the first one, wants to open the breaker for its own time.
    end(fx, second, session, NextRow::Gone, Some(second.breaker.open(&SETTINGS))).await;
    let known = breaker(fx, endpoint).await;
    assert_eq!((known.breaker, known.breaker.phase()), (probing().to, BreakerPhase::Probing));
    fx.send().await;
    let probe = fx.lease_one(session).await;
    assert_eq!(probe.breaker, probing().to);
    // The end without an answer, such as a hand-back, frees the place for the next probe.
    end(fx, &probe, session, NextRow::Pending { due_in: Duration::ZERO }, None).await;
    let probe = fx.lease_one(session).await;
    let failed = probe.breaker.after(BreakerSign::Fails, &SETTINGS).expect("a failed probe opens the breaker");
    end(fx, &probe, session, NextRow::Pending { due_in: Duration::ZERO }, Some(failed)).await;
    assert_eq!((breaker(fx, endpoint).await.breaker, fx.lease(session).await.len()), (failed.to, 0));
}

pub(super) async fn a_changed_breaker_starts_closed_and_an_inherited_one_applies(fx: &Fixture) {
    let endpoint = fx.endpoint().await;
    change_application(fx, |application| application.policy = policy(with_breaker(Switch::On(SETTINGS)))).await;
    let (session, capacity) = (fx.session().await, FixedCapacity::of(PLENTY));
    let answer = fx.append_one(Some(fast(session, &capacity)), fx.message()).await;
    assert!(matches!(answer, Appended::Accepted { pending: 1, .. }), "deliveries wait for a lease: {answer:?}");
    let first = fx.lease_one(session).await;
    end(fx, &first, session, NextRow::Gone, Some(first.breaker.open(&SETTINGS))).await;
    fx.send_many(3).await;
    change(fx, endpoint, |endpoint| endpoint.description = "new".to_owned()).await;
    assert_eq!(fx.lease(session).await.len(), 0, "another change closes nothing");
    change(fx, endpoint, |endpoint| endpoint.policy = policy(with_breaker(Switch::Off))).await;
    assert!(breaker(fx, endpoint).await.breaker.is_closed());
    assert_eq!(fx.lease(session).await.len(), 3);
}
