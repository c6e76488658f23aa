//! Delivery policies are stored with their owners, and reach the deliveries.

use std::sync::Arc;

use everhook_core::application::{Application, EnvironmentPolicy};
use everhook_core::policy::{RateLimit, Settings, Switch};
use everhook_core::scope::Scope;
use everhook_store::catalog::{Locator, Replaced};
use everhook_store::query;
use everhook_store::resource::ResourceKey;
use everhook_store::store::{Reads, Resources};

use crate::conformance::fixture::Fixture;

fn timeout(seconds: u64) -> Settings {
    Settings { timeout_seconds: Some(seconds), ..Settings::default() }
}

async fn change_application(fx: &Fixture, change: impl FnOnce(&mut Application)) {
    let (scope, locator) = (Scope::of(fx.here), Locator::Id(fx.application));
    let mut application = fx.store.read(query::FindApplication { scope, locator }).await.unwrap().unwrap();
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
        let all = fx.other.read(query::PausedGroups {}).await.unwrap();
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
    assert!(fx.store.delete_resource(Scope::of(fx.here), key).await.unwrap().answer.is_done());
    assert_eq!(listed().await, []);
}

pub(super) async fn an_environment_has_one_policy(fx: &Fixture) {
    let find = async |environment| {
        fx.other.read(query::FindEnvironmentPolicy { scope: Scope::of(environment) }).await.unwrap()
    };
    let listed = async || {
        let all = fx.other.read(query::EnvironmentPolicies {}).await.unwrap();
        all.into_iter().map(|(environment, policy)| (environment, policy.settings)).collect::<Vec<_>>()
    };
    assert_eq!(find(fx.here).await, None);
    let first = EnvironmentPolicy { settings: timeout(5), ..EnvironmentPolicy::default() };
    let Replaced::Done(made) = fx.store.replace(Scope::of(fx.here), first.clone()).await.unwrap() else {
        panic!("it exists by default")
    };
    assert_eq!((&made.settings, made.revision), (&timeout(5), 1));
    assert_eq!(fx.other.replace(Scope::of(fx.here), first).await.unwrap(), Replaced::Stale);
    assert_eq!(find(fx.here).await.as_ref(), Some(&made));
    assert_eq!(find(fx.there).await, None);
    assert_eq!(listed().await, [(fx.here, timeout(5))]);
    let second = EnvironmentPolicy { settings: timeout(6), ..made };
    assert!(matches!(fx.store.replace(Scope::of(fx.here), second).await.unwrap(), Replaced::Done(_)));
    assert_eq!(listed().await, [(fx.here, timeout(6))]);
}
