//! Delivery policies are stored with their owners, and reach the deliveries.

use std::collections::BTreeSet;
use std::sync::Arc;

use everhook_core::application::{Application, EnvironmentPolicy};
use everhook_core::lifecycle::NextRow;
use everhook_core::policy::{RateLimit, Settings, Switch};
use everhook_core::scope::Scope;
use everhook_store::catalog::{Locator, Replaced};
use everhook_store::delivery::DeliveryFilter;
use everhook_store::lease::Appended;
use everhook_store::query;
use everhook_store::resource::ResourceKey;
use everhook_store::store::Resources;

use crate::conformance::deliveries;
use crate::conformance::fixture::{FixedCapacity, Fixture, HOUR, PLENTY, fast, name};
use crate::conformance::lease::change;

fn timeout(seconds: u64) -> Settings {
    Settings { timeout_seconds: Some(seconds), ..Settings::default() }
}

pub(super) async fn change_application(fx: &Fixture, change: impl FnOnce(&mut Application)) {
    let (scope, locator) = (fx.scope(), Locator::Id(fx.application));
    let mut application = fx.read(query::FindApplication { scope, locator }).await.unwrap();
    change(&mut application);
    assert!(matches!(fx.store.replace(scope, application).await.unwrap(), Replaced::Done(_)));
}

pub(super) async fn a_delivery_has_the_policies_of_its_endpoint_and_application(fx: &Fixture) {
    fx.endpoint_with(|endpoint| endpoint.policy = Some(Arc::new(timeout(3)))).await;
    let session = fx.session().await;
    let policies = async || {
        fx.send().await;
        let leased = fx.lease_one(session).await;
        let endpoint = leased.endpoint().unwrap();
        (endpoint.policy.as_deref().cloned(), endpoint.inherited.as_deref().cloned())
    };
    assert_eq!(policies().await, (Some(timeout(3)), None));
    // A change of the application reaches deliveries of endpoints that were read before.
    change_application(fx, |application| application.policy = Some(Arc::new(timeout(4)))).await;
    assert_eq!(policies().await, (Some(timeout(3)), Some(timeout(4))));
    change_application(fx, |application| application.throttle_rate = Some(7)).await;
    let rate = Some(Switch::On(RateLimit { count: 7, seconds: 1 }));
    assert_eq!(policies().await.1, Some(Settings { rate, ..timeout(4) }), "the default of each endpoint");
    change_application(fx, |application| (application.policy, application.throttle_rate) = (None, None)).await;
    assert_eq!(policies().await, (Some(timeout(3)), None));
}

pub(super) async fn paused_applications_are_listed(fx: &Fixture) {
    let listed = async || {
        let all = fx.read(query::PausedGroups {}).await;
        all.into_iter().filter(|(environment, _)| [fx.here, fx.there].contains(environment)).collect::<Vec<_>>()
    };
    let paused = |paused| Some(Arc::new(Settings { paused: Some(paused), ..Settings::default() }));
    assert_eq!(listed().await, []);
    change_application(fx, |application| application.policy = paused(true)).await;
    assert_eq!(listed().await, [(fx.here, fx.application.0)]);
    // A change of an endpoint does not resume its application.
    fx.endpoint().await;
    assert_eq!(listed().await, [(fx.here, fx.application.0)]);
    change_application(fx, |application| application.policy = paused(false)).await;
    assert_eq!(listed().await, []);
    change_application(fx, |application| application.policy = paused(true)).await;
    let key = ResourceKey::Application(fx.application);
    assert!(fx.store.delete_resource(fx.scope(), key).await.unwrap().answer.is_done());
    assert_eq!(listed().await, []);
}

pub(super) async fn an_environment_has_one_policy(fx: &Fixture) {
    let find = async |environment| fx.read(query::FindEnvironmentPolicy { scope: Scope::of(environment) }).await;
    let listed = async || {
        let all = fx.read(query::EnvironmentPolicies {}).await;
        all.into_iter().map(|(environment, policy)| (environment, policy.settings)).collect::<Vec<_>>()
    };
    assert_eq!(find(fx.here).await, None);
    let first = EnvironmentPolicy { settings: timeout(5), ..EnvironmentPolicy::default() };
    let Replaced::Done(made) = fx.store.replace(fx.scope(), first.clone()).await.unwrap() else {
        panic!("it exists by default")
    };
    assert_eq!((&made.settings, made.revision), (&timeout(5), 1));
    assert_eq!(fx.other.replace(fx.scope(), first).await.unwrap(), Replaced::Stale);
    assert_eq!(find(fx.here).await.as_ref(), Some(&made));
    assert_eq!(find(fx.there).await, None);
    assert_eq!(listed().await, [(fx.here, timeout(5))]);
    let second = EnvironmentPolicy { settings: timeout(6), ..made };
    assert!(matches!(fx.store.replace(fx.scope(), second).await.unwrap(), Replaced::Done(_)));
    assert_eq!(listed().await, [(fx.here, timeout(6))]);
}

/// One delivery in each period of some hours.
pub(super) fn one_in_hours(hours: u32) -> Settings {
    let rate = Some(Switch::On(RateLimit { count: 1, seconds: hours * 3600 }));
    Settings { rate, ..Settings::default() }
}

pub(super) fn policy(settings: Settings) -> Option<Arc<Settings>> {
    Some(Arc::new(settings))
}

pub(super) async fn change_environment(fx: &Fixture, settings: Settings) {
    let found = fx.read(query::FindEnvironmentPolicy { scope: fx.scope() }).await;
    let changed = EnvironmentPolicy { settings, ..found.unwrap_or_default() };
    assert!(matches!(fx.other.replace(fx.scope(), changed).await.unwrap(), Replaced::Done(_)));
}

pub(super) async fn a_rate_limit_holds_over_all_sessions(fx: &Fixture) {
    let endpoint = fx.endpoint().await;
    change(fx, endpoint, |endpoint| endpoint.policy = policy(one_in_hours(2))).await;
    let (one, two) = (fx.session().await, fx.session().await);
    fx.send_many(3).await;
    let leased = fx.lease_one(one).await;
    let grant = fx.lease_with(fx.ask(two)).await;
    assert_eq!(grant.tasks.len(), 0);
    let next = grant.next_ready.expect("the lane is ready with the next permit");
    assert!(HOUR < next && next <= 2 * HOUR, "{next:?}");
    // The permit is used, however the delivery ends.
    fx.end(&leased.task, one, NextRow::Pending { due_in: std::time::Duration::ZERO }).await;
    assert_eq!(fx.lease(one).await.len(), 0);
}

pub(super) async fn an_append_takes_the_permits_of_a_rate_limit_and_what_waits_says_why(fx: &Fixture) {
    let (limited, free) = (fx.endpoint().await, fx.endpoint().await);
    change(fx, limited, |endpoint| endpoint.policy = policy(one_in_hours(2))).await;
    let (session, capacity) = (fx.session().await, FixedCapacity::of(PLENTY));
    let lanes = async || {
        let answer = fx.append_one(Some(fast(session, &capacity)), fx.message()).await;
        let Appended::Accepted { message, leased, .. } = answer else { panic!("{answer:?}") };
        (message.id, leased.iter().map(|(leased, _)| leased.task.lane).collect::<BTreeSet<_>>())
    };
    assert_eq!(lanes().await.1, BTreeSet::from([limited.lane(), free.lane()]));
    let (waits, taken) = lanes().await;
    assert_eq!(taken, BTreeSet::from([free.lane()]));
    assert_eq!(fx.lease(fx.session().await).await.len(), 0, "the permit is used for all");
    let filter = DeliveryFilter { message: Some(waits), endpoint: Some(limited), ..deliveries::all(fx) };
    let [found] = &deliveries::list(fx, filter).await.rows[..] else { panic!("one delivery") };
    let now = fx.store.now().await.unwrap();
    let reason = found.reason(now);
    assert_eq!(reason.kind(), "rateLimit");
    assert!(reason.until().is_some_and(|until| until.since(now) > HOUR), "{reason:?}");
    // An endpoint with another limit as well is leased.
    change(fx, limited, |endpoint| endpoint.policy = None).await;
    fx.lease_one(session).await;
    let both = Settings { concurrency: Some(Switch::On(5)), ..one_in_hours(2) };
    change(fx, limited, |endpoint| endpoint.policy = policy(both)).await;
    assert_eq!(lanes().await.1, BTreeSet::from([free.lane()]));
}

pub(super) async fn messages_of_one_batch_take_a_permit_each(fx: &Fixture) {
    let paid = || Some(vec![name("invoice.paid").into()]);
    let slow = fx.endpoint_with(|endpoint| endpoint.event_types = paid()).await;
    change(fx, slow, |endpoint| endpoint.policy = policy(one_in_hours(2))).await;
    let (session, capacity) = (fx.session().await, FixedCapacity::of(PLENTY));
    let path = || Some(fast(session, &capacity));
    // The store knows the endpoints from now on, and may append in another way.
    let mut other = fx.message();
    other.message.event_type = name("invoice.made");
    fx.append_one(path(), other).await;
    let counts = async |messages: usize| {
        let answers = fx.append(path(), (0..messages).map(|_| fx.message()).collect()).await;
        let count = |answer: &Appended| match answer {
            Appended::Accepted { leased, pending, .. } => (leased.len(), *pending),
            other => panic!("{other:?}"),
        };
        answers.iter().map(count).collect::<Vec<_>>()
    };
    assert_eq!(counts(2).await, [(1, 0), (0, 1)], "the second must not be refused together with the first");
    assert_eq!(counts(1).await, [(0, 1)]);
    let next = fx.lease_with(fx.ask(session)).await.next_ready.expect("the lane is ready with the next permit");
    assert!(HOUR < next && next <= 2 * HOUR, "{next:?}");
    let swift = Settings { rate: Some(Switch::On(RateLimit { count: 100_000, seconds: 1 })), ..Settings::default() };
    change(fx, slow, |endpoint| endpoint.policy = policy(swift)).await;
    assert_eq!(fx.lease(session).await.len(), 2);
    assert_eq!(fx.lease(session).await.len(), 0, "nothing is left, and the lane is free");
    assert_eq!(counts(3).await, [(1, 0), (1, 0), (1, 0)]);
    assert_eq!(counts(1).await, [(1, 0)]);
}

pub(super) async fn a_rate_limit_of_any_level_applies_and_a_change_takes_effect_at_once(fx: &Fixture) {
    let endpoint = fx.endpoint().await;
    let session = fx.session().await;
    fx.send_many(12).await;
    let leased = async || fx.lease(session).await.len();
    change_environment(fx, one_in_hours(2)).await;
    assert_eq!((leased().await, leased().await), (1, 0), "the environment's rate");
    change_environment(fx, one_in_hours(3)).await;
    assert_eq!((leased().await, leased().await), (1, 0), "the wait for the old rate is over");
    change_application(fx, |application| application.policy = policy(one_in_hours(4))).await;
    assert_eq!((leased().await, leased().await), (1, 0), "the application's rate");
    change(fx, endpoint, |endpoint| endpoint.policy = policy(one_in_hours(5))).await;
    assert_eq!((leased().await, leased().await), (1, 0), "the endpoint's rate");
    change(fx, endpoint, |endpoint| endpoint.description = "new".to_owned()).await;
    assert_eq!(leased().await, 0, "another change ends no wait");
    let none = Settings { rate: Some(Switch::Off), ..Settings::default() };
    change(fx, endpoint, |endpoint| endpoint.policy = policy(none)).await;
    assert_eq!(leased().await, 8, "no limit");
}
