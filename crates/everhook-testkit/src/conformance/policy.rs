//! Delivery policies are stored with their owners, and reach the deliveries.

use std::sync::Arc;

use everhook_core::application::{Application, EnvironmentPolicy};
use everhook_core::policy::{RateLimit, Settings, Switch};
use everhook_core::portal::{PortalLook, PortalSettings};
use everhook_core::scope::Scope;
use everhook_store::catalog::{Locator, Replaced};
use everhook_store::query;
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

pub(super) async fn an_environment_has_one_portal_look(fx: &Fixture) {
    let find =
        async |environment| fx.other.read(query::FindPortalSettings { scope: Scope::of(environment) }).await.unwrap();
    assert_eq!(find(fx.here).await, None);
    let look = PortalLook { name: Some("Osprey".to_owned()), accent: Some("#123456".to_owned()), ..Default::default() };
    let first = PortalSettings { look: look.clone(), ..PortalSettings::default() };
    let Replaced::Done(made) = fx.store.replace(Scope::of(fx.here), first.clone()).await.unwrap() else {
        panic!("it exists by default")
    };
    assert_eq!((&made.look, made.revision), (&look, 1));
    assert_eq!(fx.other.replace(Scope::of(fx.here), first).await.unwrap(), Replaced::Stale);
    assert_eq!((find(fx.here).await.as_ref(), find(fx.there).await), (Some(&made), None));
    let second = PortalSettings { look: PortalLook { name: Some("Kestrel".to_owned()), ..Default::default() }, ..made };
    assert!(matches!(fx.store.replace(Scope::of(fx.here), second.clone()).await.unwrap(), Replaced::Done(_)));
    assert_eq!(find(fx.here).await.map(|found| found.look), Some(second.look), "members that were left out are gone");
}
