//! Applications are stored unchanged, each in its own environment.

use everhook_core::application::Application;
use everhook_core::endpoint::{Endpoint, EndpointState};
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId};
use everhook_core::limits::ENDPOINTS_MAX;
use everhook_core::name::Name;
use everhook_core::scope::{AppScope, Scope};
use everhook_core::time::Timestamp;
use everhook_store::catalog::{Created, Having, Locator, Order, Replaced, Slice};
use everhook_store::lease::{Append, Appended, NewMessage};
use everhook_store::query;
use everhook_store::resource::{New, ResourceKey};
use everhook_store::store::Resources;
use everhook_store::uids::Found;

use crate::conformance::fixture::{Fixture, PLENTY, name, new_application, new_endpoint, pages, request_key};

/// Creates an application with a value in every field, in both environments.
async fn create(fx: &Fixture, uid: Option<Name>) -> Application {
    let application = Application {
        uid,
        throttle_rate: Some(7),
        policy: Some(Default::default()),
        metadata: [("plan".to_owned(), "\"big\" \\ größer".to_owned())].into(),
        ..new_application(ApplicationId(fx.id()))
    };
    let mut created = None;
    for environment in [fx.there, fx.here] {
        match fx.store.create(Scope::of(environment), application.clone(), None).await.unwrap() {
            Created::New(new) => created = Some(new),
            other => panic!("{other:?}"),
        }
    }
    created.expect("it was created twice")
}

async fn find(fx: &Fixture, environment: EnvironmentId, id: ApplicationId) -> Option<Application> {
    fx.read(query::FindApplication { scope: Scope::of(environment), locator: Locator::Id(id) }).await
}

async fn find_uid(fx: &Fixture, environment: EnvironmentId, uid: &str) -> Option<Application> {
    fx.read(query::FindApplication { scope: Scope::of(environment), locator: Locator::Uid(name(uid)) }).await
}

async fn resolve(fx: &Fixture, environment: EnvironmentId, uid: &str) -> Option<Found> {
    fx.read(query::ResolveApplication { scope: Scope::of(environment), uid: name(uid) }).await
}

pub(super) async fn an_application_is_found_by_id_and_uid(fx: &Fixture) {
    let created = create(fx, Some(name("u"))).await;
    assert!(created.created_at > Timestamp::default() && created.created_at == created.updated_at, "{created:?}");
    assert_eq!((created.throttle_rate, created.metadata.len()), (Some(7), 1));
    assert_eq!(find(fx, fx.here, created.id).await.as_ref(), Some(&created));
    assert_eq!(find_uid(fx, fx.here, "u").await.as_ref(), Some(&created));
    assert_eq!(find(fx, fx.here, ApplicationId(fx.id())).await, None);
    assert_eq!(find_uid(fx, fx.here, "U").await, None);
    assert_eq!(find(fx, EnvironmentId(i32::MAX), created.id).await, None);
}

pub(super) async fn a_uid_belongs_to_one_application_of_an_environment(fx: &Fixture) {
    let first = create(fx, Some(name("u"))).await;
    let second = Application { uid: Some(name("u")), ..new_application(ApplicationId(fx.id())) };
    let created = fx.store.create(fx.scope(), second.clone(), None).await.unwrap();
    assert_eq!(created, Created::Taken(first));
    assert_eq!(find(fx, fx.here, second.id).await, None);
    create(fx, None).await;
    create(fx, None).await;
}

pub(super) async fn the_same_creation_again_gets_the_same_application(fx: &Fixture) {
    let create = async |body: &str, uid: &str| {
        let application = Application { uid: Some(name(uid)), ..new_application(ApplicationId(fx.id())) };
        fx.store.create(fx.scope(), application.clone(), Some(request_key("k", body))).await.unwrap()
    };
    let Created::New(first) = create("body", "u").await else { panic!("it is new") };
    assert_eq!(create("body", "u").await, Created::Repeated(first), "not taken by itself");
    assert_eq!(create("other body", "v").await, Created::KeyReused);
    assert_eq!(find_uid(fx, fx.here, "v").await, None);
    let there = new_application(ApplicationId(fx.id()));
    let there = fx.store.create(Scope::of(fx.there), there.clone(), Some(request_key("k", "x"))).await.unwrap();
    assert!(matches!(there, Created::New(_)), "{there:?}");
}

pub(super) async fn a_refused_creation_uses_up_no_key(fx: &Fixture) {
    create(fx, Some(name("u"))).await;
    let mut application = Application { uid: Some(name("u")), ..new_application(ApplicationId(fx.id())) };
    let key = request_key("k", "body");
    let taken = fx.store.create(fx.scope(), application.clone(), Some(key.clone())).await.unwrap();
    assert!(matches!(taken, Created::Taken(_)), "{taken:?}");
    application.uid = None;
    let created = fx.store.create(fx.scope(), application.clone(), Some(key.clone())).await.unwrap();
    assert!(matches!(created, Created::New(_)), "{created:?}");
}

pub(super) async fn a_concurrent_change_of_an_application_is_noticed(fx: &Fixture) {
    let old = create(fx, Some(name("u"))).await;
    let changed = Application { name: "Other".to_owned(), uid: Some(name("v")), throttle_rate: None, ..old.clone() };
    let Replaced::Done(new) = fx.store.replace(fx.scope(), changed.clone()).await.unwrap() else {
        panic!("nobody else changed it")
    };
    assert!(new.revision > old.revision && new.updated_at >= old.updated_at, "{new:?}");
    let expected = Application { revision: new.revision, updated_at: new.updated_at, ..changed.clone() };
    assert_eq!(new, expected);
    assert_eq!(find(fx, fx.here, old.id).await.as_ref(), Some(&new));
    assert_eq!(fx.other.replace(fx.scope(), changed.clone()).await.unwrap(), Replaced::Stale);
    assert_eq!(find_uid(fx, fx.here, "u").await, None);
    assert_eq!(find_uid(fx, fx.there, "u").await.map(|there| there.name), Some(old.name));
    let stranger = new_application(ApplicationId(fx.id()));
    assert_eq!(fx.store.replace(fx.scope(), stranger.clone()).await.unwrap(), Replaced::Stale);
}

pub(super) async fn an_application_cannot_be_given_anothers_uid(fx: &Fixture) {
    create(fx, Some(name("u"))).await;
    let other = create(fx, Some(name("v"))).await;
    let wish = Application { uid: Some(name("u")), ..other.clone() };
    assert_eq!(fx.store.replace(fx.scope(), wish.clone()).await.unwrap(), Replaced::Taken);
    let Replaced::Done(bare) = fx.store.replace(fx.scope(), Application { uid: None, ..other }).await.unwrap() else {
        panic!("nothing else changed it")
    };
    assert_eq!(bare.uid, None);
    create_in(fx, fx.here, "v").await;
}

async fn create_in(fx: &Fixture, environment: EnvironmentId, uid: &str) -> Application {
    let application = Application { uid: Some(name(uid)), ..new_application(ApplicationId(fx.id())) };
    match fx.store.create(Scope::of(environment), application.clone(), None).await.unwrap() {
        Created::New(new) => new,
        other => panic!("{other:?}"),
    }
}

pub(super) async fn a_change_of_an_endpoint_is_a_change_of_its_application(fx: &Fixture) {
    let application = create(fx, Some(name("u"))).await;
    let version = async |environment| resolve(fx, environment, "u").await.and_then(|found| found.version);
    let (mut seen, there) = (vec![version(fx.here).await], version(fx.there).await);
    let endpoint = new_endpoint(EndpointId(fx.id()), application.id);
    let Created::New(endpoint) =
        fx.store.create(fx.scope(), New { record: endpoint.clone(), max: ENDPOINTS_MAX }, None).await.unwrap()
    else {
        panic!("it is new")
    };
    seen.push(version(fx.here).await);
    fx.store.replace(fx.scope(), endpoint.clone()).await.unwrap();
    seen.push(version(fx.here).await);
    fx.store.delete(fx.scope(), ResourceKey::Endpoint(application.id, endpoint.id)).await.unwrap().is_done();
    seen.push(version(fx.here).await);
    assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
    assert_eq!(version(fx.there).await, there, "not in the other environment");
    let found = find(fx, fx.here, application.id).await.expect("it is there");
    assert_eq!(found.revision, application.revision, "the application itself is as it was");
}

pub(super) async fn a_deleted_application_is_gone_and_its_uid_is_free(fx: &Fixture) {
    let old = create(fx, Some(name("u"))).await;
    let endpoint = new_endpoint(EndpointId(fx.id()), old.id);
    fx.store.create(fx.scope(), New { record: endpoint.clone(), max: ENDPOINTS_MAX }, None).await.unwrap();
    assert!(fx.store.delete(fx.scope(), ResourceKey::Application(old.id)).await.unwrap().is_done());
    assert!(!fx.store.delete(fx.scope(), ResourceKey::Application(old.id)).await.unwrap().is_done());
    assert_eq!(find(fx, fx.here, old.id).await, None);
    assert_eq!(find_uid(fx, fx.here, "u").await, None);
    assert_eq!(
        fx.read(query::FindEndpoint { scope: AppScope::of(fx.here, old.id), locator: Locator::Id(endpoint.id) }).await,
        None
    );
    assert_eq!(fx.store.replace(fx.scope(), old.clone()).await.unwrap(), Replaced::Stale);
    let other = new_endpoint(EndpointId(fx.id()), old.id);
    assert_eq!(
        fx.store.create(fx.scope(), New { record: other.clone(), max: ENDPOINTS_MAX }, None).await.unwrap(),
        Created::NoParent
    );
    assert_ne!(create_in(fx, fx.here, "u").await.id, old.id);
    assert!(find(fx, fx.there, old.id).await.is_some());
}

pub(super) async fn applications_are_listed_piece_by_piece_both_ways(fx: &Fixture) {
    let mut want = vec![fx.application];
    for _ in 0..4 {
        want.push(create(fx, None).await.id);
    }
    let deleted = create(fx, None).await.id;
    fx.store.delete(fx.scope(), ResourceKey::Application(deleted)).await.unwrap().is_done();
    create_in(fx, fx.there, "elsewhere").await;
    want.sort();
    let pages = async |order: Order, limit: usize| {
        let read =
            async |slice| fx.read(query::Applications { scope: fx.scope(), having: Having::Anything, slice }).await;
        pages(Slice { after: None, order, limit }, |application: &Application| application.id, read).await
    };
    assert_eq!(pages(Order::Ascending, 2).await, want);
    assert_eq!(pages(Order::Ascending, PLENTY).await, want);
    want.reverse();
    assert_eq!(pages(Order::Descending, 2).await, want);
}

pub(super) async fn applications_are_listed_by_what_endpoints_they_have(fx: &Fixture) {
    let none = fx.application;
    let [enabled, disabled, deleted] =
        [create(fx, None).await.id, create(fx, None).await.id, create(fx, None).await.id];
    for (application, state) in [
        (enabled, EndpointState::Disabled),
        (enabled, EndpointState::Enabled),
        (disabled, EndpointState::Disabled),
        (disabled, EndpointState::Gone),
        (deleted, EndpointState::Enabled),
    ] {
        let endpoint = Endpoint { state, ..new_endpoint(EndpointId(fx.id()), application) };
        fx.store.create(fx.scope(), New { record: endpoint.clone(), max: ENDPOINTS_MAX }, None).await.unwrap();
        if application == deleted {
            assert!(
                fx.store.delete(fx.scope(), ResourceKey::Endpoint(application, endpoint.id)).await.unwrap().is_done()
            );
        }
    }
    let list = async |having| {
        let slice = Slice { after: None, order: Order::Ascending, limit: PLENTY };
        let page = fx.read(query::Applications { scope: fx.scope(), having, slice: slice.clone() }).await;
        let mut ids: Vec<_> = page.iter().map(|application| application.id).collect();
        ids.sort();
        ids
    };
    let sorted = |mut ids: Vec<ApplicationId>| {
        ids.sort();
        ids
    };
    assert_eq!(list(Having::Anything).await, sorted(vec![none, enabled, disabled, deleted]));
    assert_eq!(list(Having::Endpoints).await, sorted(vec![enabled, disabled]));
    assert_eq!(list(Having::EnabledEndpoints).await, [enabled]);
    assert_eq!(list(Having::NotOnlyDisabledEndpoints).await, sorted(vec![none, enabled, deleted]));
}

pub(super) async fn a_message_of_an_application_that_has_changed_since_is_refused(fx: &Fixture) {
    let found = create(fx, Some(name("moving"))).await;
    let before = resolve(fx, fx.here, "moving").await.expect("it is there");
    assert_eq!(before.id, found.id);
    let append = async |version| {
        let mut new = NewMessage { version, ..fx.message_with_key("key", "body") };
        new.message.application = found.id;
        let mut answers = fx.other.append(Append { fast: None, messages: vec![new] }).await.unwrap();
        answers.pop().expect("one answer")
    };
    let moved = Application { uid: Some(name("moved")), ..found.clone() };
    let Replaced::Done(moved) = fx.store.replace(fx.scope(), moved.clone()).await.unwrap() else { panic!() };
    assert_eq!(moved.uid, Some(name("moved")));
    assert_eq!(resolve(fx, fx.here, "moving").await, None);
    let after = resolve(fx, fx.here, "moved").await.expect("it is there");
    assert!(matches!(append(before.version).await, Appended::NoApplication));
    assert!(matches!(append(after.version).await, Appended::Accepted { .. }), "the refused one left no key behind");
}
