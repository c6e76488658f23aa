//! Endpoints are stored unchanged, each in its own environment and application.

use std::sync::Arc;

use everhook_core::application::Application;
use everhook_core::endpoint::{Endpoint, EndpointState};
use everhook_core::endpoint_auth::{BasicAuth, EndpointAuth, OauthClient, OauthMethod};
use everhook_core::failing::Failing;
use everhook_core::filter::expression::Expression;
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId};
use everhook_core::lifecycle::NextRow;
use everhook_core::limits::ENDPOINTS_MAX;
use everhook_core::name::Name;
use everhook_core::scope::{AppScope, Scope};
use everhook_core::signing::{SigningKey, SigningKeys};
use everhook_core::time::Timestamp;
use everhook_store::catalog::{Created, Locator, Order, Replaced, Slice};
use everhook_store::lease::Appended;
use everhook_store::query;
use everhook_store::resource::{Changed, New, ResourceKey};
use everhook_store::store::Resources;

use crate::conformance::fixture::{
    FixedCapacity, Fixture, HOUR, fast, name, new_application, new_endpoint, pages, request_key,
};
use crate::conformance::race::at_once;

/// Returns an endpoint with a value in every field.
fn rich(fx: &Fixture, uid: Option<Name>) -> Endpoint {
    let at = Timestamp::from_micros(1_790_000_000_123_456);
    let keys = SigningKeys::new(SigningKey::generate([1; 32]));
    Endpoint {
        uid,
        url: "https://example.com/ö?a=1&b='2'".to_owned(),
        description: "Größe \"quoted\" \\ back".to_owned(),
        state: EndpointState::Disabled,
        event_types: Some(vec![name("b").into(), "a.*".parse().unwrap()]),
        filter: Some(Expression::compile("payload.a == 'ö'").unwrap()),
        channels: Some(vec![name("x")]),
        headers: [("x-tenant".to_owned(), "7".to_owned())].into(),
        auth: Some(Arc::new(rich_auth())),
        throttle_rate: Some(u16::MAX),
        failing: Some(Failing { since: Timestamp::from_millis(5), warned_at: None, disabled_at: None }),
        policy: serde_json::from_str(r#"{"retry": {"backoff": [1], "finalStatuses": ["4xx"]}}"#).ok().map(Arc::new),
        metadata: [("k".to_owned(), String::new())].into(),
        version: u16::MAX,
        keys: keys.rotate(SigningKey::generate([2; 32]), HOUR, at).unwrap(),
        ..new_endpoint(EndpointId(fx.id()), fx.application)
    }
}

fn rich_auth() -> EndpointAuth {
    EndpointAuth {
        basic: Some(BasicAuth { username: "ü".to_owned(), password: "p:\"\\".to_owned() }),
        oauth: Some(OauthClient {
            token_url: "https://issuer.example/".to_owned(),
            auth_method: OauthMethod::ClientSecretPost,
            client_id: "id".to_owned(),
            client_secret: "secret".to_owned(),
            scopes: vec!["a".to_owned()],
            extra_params: [("audience".to_owned(), "x".to_owned())].into(),
            extra_headers: [("x-a".to_owned(), "b".to_owned())].into(),
        }),
        identity: Some("-----BEGIN\n".to_owned()),
        ca: Some("ca".to_owned()),
    }
}

async fn create(fx: &Fixture, environment: EnvironmentId, endpoint: &Endpoint) -> Endpoint {
    match fx
        .store
        .create(Scope::of(environment), New { record: endpoint.clone(), max: ENDPOINTS_MAX }, None)
        .await
        .unwrap()
    {
        Created::New(new) => new,
        other => panic!("{other:?}"),
    }
}

async fn find(fx: &Fixture, environment: EnvironmentId, id: EndpointId) -> Option<Endpoint> {
    fx.read(query::FindEndpoint { scope: AppScope::of(environment, fx.application), locator: Locator::Id(id) }).await
}

async fn find_uid(fx: &Fixture, application: ApplicationId, uid: &str) -> Option<Endpoint> {
    fx.read(query::FindEndpoint { scope: AppScope::of(fx.here, application), locator: Locator::Uid(name(uid)) }).await
}

async fn other_application(fx: &Fixture) -> ApplicationId {
    let id = ApplicationId(fx.id());
    fx.store.create(fx.scope(), new_application(id), None).await.unwrap();
    id
}

pub(super) async fn an_endpoint_is_found_as_it_was_made(fx: &Fixture) {
    let wish = rich(fx, Some(name("u")));
    create(fx, fx.there, &wish).await;
    let made = create(fx, fx.here, &wish).await;
    assert!(made.created_at > Timestamp::default() && made.created_at == made.updated_at, "{made:?}");
    let (created_at, updated_at, revision) = (made.created_at, made.updated_at, made.revision);
    assert_eq!(made, Endpoint { created_at, updated_at, revision, ..wish.clone() });
    assert_eq!(find(fx, fx.here, wish.id).await.as_ref(), Some(&made));
    assert_eq!(find_uid(fx, fx.application, "u").await, Some(made));
    assert_eq!(find_uid(fx, fx.application, "v").await, None);
    let plain = create(fx, fx.here, &new_endpoint(EndpointId(fx.id()), fx.application)).await;
    assert_eq!((&plain.event_types, &plain.channels, plain.throttle_rate), (&None, &None, None));
    assert_eq!(find(fx, fx.here, plain.id).await, Some(plain));
}

pub(super) async fn an_endpoint_belongs_to_its_application(fx: &Fixture) {
    let endpoint = create(fx, fx.here, &rich(fx, Some(name("u")))).await;
    let other = other_application(fx).await;
    let locator = Locator::Id(endpoint.id);
    assert_eq!(
        fx.read(query::FindEndpoint { scope: AppScope::of(fx.here, other), locator: locator.clone() }).await,
        None
    );
    assert_eq!(
        fx.read(query::FindEndpoint { scope: AppScope::of(fx.there, fx.application), locator: locator.clone() }).await,
        None
    );
    assert_eq!(find_uid(fx, other, "u").await, None);
    assert!(!fx.store.delete(fx.scope(), ResourceKey::Endpoint(other, endpoint.id)).await.unwrap().is_done());
    assert!(
        !fx.store
            .delete(Scope::of(fx.there), ResourceKey::Endpoint(fx.application, endpoint.id))
            .await
            .unwrap()
            .is_done()
    );
    let twin = Endpoint { application: other, ..rich(fx, Some(name("u"))) };
    create(fx, fx.here, &twin).await;
    let moved = Endpoint { application: other, ..endpoint };
    assert_eq!(fx.store.replace(fx.scope(), moved.clone()).await.unwrap(), Replaced::Stale);
}

pub(super) async fn an_endpoint_needs_an_application(fx: &Fixture) {
    let orphan = new_endpoint(EndpointId(fx.id()), ApplicationId(fx.id()));
    let key = request_key("k", "body");
    assert_eq!(
        fx.store
            .create(fx.scope(), New { record: orphan.clone(), max: ENDPOINTS_MAX }, Some(key.clone()))
            .await
            .unwrap(),
        Created::NoParent
    );
    let fine = Endpoint { application: fx.application, ..orphan };
    let created =
        fx.store.create(fx.scope(), New { record: fine.clone(), max: ENDPOINTS_MAX }, Some(key.clone())).await.unwrap();
    assert!(matches!(created, Created::New(_)), "the refusal used up no key: {created:?}");
}

pub(super) async fn a_uid_belongs_to_one_endpoint_of_an_application(fx: &Fixture) {
    let first = create(fx, fx.here, &rich(fx, Some(name("u")))).await;
    let created =
        fx.store.create(fx.scope(), New { record: rich(fx, Some(name("u"))), max: ENDPOINTS_MAX }, None).await.unwrap();
    assert_eq!(created, Created::Taken(first.clone()));
    let second = create(fx, fx.here, &rich(fx, Some(name("v")))).await;
    let wish = Endpoint { uid: Some(name("u")), ..second };
    assert_eq!(fx.store.replace(fx.scope(), wish.clone()).await.unwrap(), Replaced::Taken);
    assert!(fx.store.delete(fx.scope(), ResourceKey::Endpoint(fx.application, first.id)).await.unwrap().is_done());
    assert!(!fx.store.delete(fx.scope(), ResourceKey::Endpoint(fx.application, first.id)).await.unwrap().is_done());
    assert_eq!(find(fx, fx.here, first.id).await, None);
    assert_eq!(fx.store.replace(fx.scope(), first.clone()).await.unwrap(), Replaced::Stale);
    create(fx, fx.here, &rich(fx, Some(name("u")))).await;
}

pub(super) async fn an_application_has_no_more_endpoints_than_it_may(fx: &Fixture) {
    let try_create = async |endpoint: &Endpoint, max: usize| {
        fx.store
            .create(
                fx.scope(),
                New { record: endpoint.clone(), max },
                Some(request_key(&endpoint.id.to_string(), "body")),
            )
            .await
    };
    let (first, second, third) = (rich(fx, Some(name("u"))), rich(fx, None), rich(fx, None));
    let Created::New(made) = try_create(&first, 2).await.unwrap() else { panic!("there was none") };
    assert!(matches!(try_create(&second, 2).await.unwrap(), Created::New(_)));
    assert_eq!(try_create(&third, 2).await.unwrap(), Created::Full);
    assert_eq!(try_create(&third, 0).await.unwrap(), Created::Full, "it has more than it may by now");
    assert_eq!(try_create(&first, 2).await.unwrap(), Created::Repeated(made.clone()));
    assert_eq!(try_create(&rich(fx, Some(name("u"))), 2).await.unwrap(), Created::Taken(made));
    let other = Endpoint { application: other_application(fx).await, ..rich(fx, None) };
    assert!(matches!(try_create(&other, 1).await.unwrap(), Created::New(_)), "another application has its own");
    let there = Endpoint { id: EndpointId(fx.id()), ..third.clone() };
    create(fx, fx.there, &there).await;
    assert!(fx.store.delete(fx.scope(), ResourceKey::Endpoint(fx.application, second.id)).await.unwrap().is_done());
    let created = try_create(&third, 2).await.unwrap();
    assert!(matches!(created, Created::New(_)), "a deleted one does not count, a refusal used up no key: {created:?}");
}

pub(super) async fn endpoints_created_at_once_are_no_more_than_there_may_be(fx: &Fixture) {
    let create = |n: usize| {
        let store = Arc::clone(if n.is_multiple_of(2) { &fx.store } else { &fx.other });
        let (environment, endpoint) = (fx.here, new_endpoint(EndpointId(fx.id()), fx.application));
        async move { store.create(Scope::of(environment), New { record: endpoint.clone(), max: 3 }, None).await.unwrap() }
    };
    let answers = at_once((0..12).map(create).collect()).await;
    let count = |is: fn(&Created<Endpoint>) -> bool| answers.iter().filter(|answer| is(answer)).count();
    let counts = (count(|a| matches!(a, Created::New(_))), count(|a| matches!(a, Created::Full)));
    assert_eq!(counts, (3, 9), "{answers:?}");
}

pub(super) async fn the_same_creation_again_gets_the_same_endpoint(fx: &Fixture) {
    let create = async |environment: EnvironmentId, body: &str| {
        let endpoint = rich(fx, Some(name("u")));
        fx.store
            .create(
                Scope::of(environment),
                New { record: endpoint.clone(), max: ENDPOINTS_MAX },
                Some(request_key("k", body)),
            )
            .await
            .unwrap()
    };
    let Created::New(first) = create(fx.here, "body").await else { panic!("it is new") };
    assert_eq!(create(fx.here, "body").await, Created::Repeated(first));
    assert_eq!(create(fx.here, "other body").await, Created::KeyReused);
    assert!(matches!(create(fx.there, "other body").await, Created::New(_)));
}

pub(super) async fn a_concurrent_change_of_an_endpoint_is_noticed(fx: &Fixture) {
    let wish = rich(fx, Some(name("u")));
    create(fx, fx.there, &wish).await;
    let old = create(fx, fx.here, &wish).await;
    let plain = new_endpoint(old.id, fx.application);
    let changed = Endpoint { revision: old.revision, created_at: old.created_at, ..plain };
    let Replaced::Done(new) = fx.store.replace(fx.scope(), changed.clone()).await.unwrap() else {
        panic!("nobody else changed it")
    };
    assert!(new.revision > old.revision && new.updated_at >= old.updated_at, "{new:?}");
    assert_eq!(new, Endpoint { revision: new.revision, updated_at: new.updated_at, ..changed.clone() });
    assert_eq!(find(fx, fx.here, old.id).await, Some(new));
    assert_eq!(fx.other.replace(fx.scope(), changed.clone()).await.unwrap(), Replaced::Stale);
    assert_eq!(find(fx, fx.there, old.id).await.expect("it is there").uid, old.uid);
}

pub(super) async fn a_repeated_change_is_made_once(fx: &Fixture) {
    let old = create(fx, fx.here, &rich(fx, None)).await;
    let rotate = async |from: &Endpoint, body: &str| {
        let keys = from.keys.rotate(SigningKey::generate([9; 32]), HOUR, from.updated_at).unwrap();
        let wish = Endpoint { keys, ..from.clone() };
        fx.store
            .replace(
                fx.scope(),
                Changed { record: wish.clone(), key: Some(request_key("rotate", body)), messages: Vec::new() },
            )
            .await
            .unwrap()
    };
    let stale = Endpoint { revision: old.revision + 1, ..old.clone() };
    assert_eq!(rotate(&stale, "body").await, Replaced::Stale);
    let Replaced::Done(new) = rotate(&old, "body").await else { panic!("what was stale used up no key") };
    assert_eq!(rotate(&new, "body").await, Replaced::Repeated);
    assert_eq!(rotate(&old, "body").await, Replaced::Repeated, "not stale: it is the one that changed it");
    assert_eq!(rotate(&new, "other body").await, Replaced::KeyReused);
    assert_eq!(find(fx, fx.here, old.id).await, Some(new));
}

pub(super) async fn a_delivery_carries_nothing_of_its_endpoint_that_it_does_not_need(fx: &Fixture) {
    let endpoint = fx.endpoint_with(|endpoint| {
        endpoint.description = "a long text for people".to_owned();
        endpoint.metadata = [("k".to_owned(), "v".to_owned())].into();
        endpoint.headers = [("x-tenant".to_owned(), "7".to_owned())].into();
    });
    let (endpoint, session, capacity) = (endpoint.await, fx.session().await, FixedCapacity::of(5));
    let answer = fx.append_one(Some(fast(session, &capacity)), fx.message()).await;
    let Appended::Accepted { leased, .. } = answer else { panic!("{answer:?}") };
    let [(leased, _slot)] = &leased[..] else { panic!("{leased:?}") };
    let carried = leased.endpoint().expect("it is there");
    assert_eq!((carried.description.as_str(), carried.metadata.len(), carried.headers.len()), ("", 0, 1));
    let shown = find(fx, fx.here, endpoint).await.expect("it is there");
    assert_eq!((shown.description.as_str(), shown.metadata.len()), ("a long text for people", 1));
    fx.end(&leased.task, session, NextRow::Gone).await;
}

pub(super) async fn endpoints_are_listed_piece_by_piece_both_ways(fx: &Fixture) {
    let mut want = Vec::new();
    for _ in 0..5 {
        want.push(fx.endpoint().await);
    }
    let deleted = fx.endpoint().await;
    fx.store.delete(fx.scope(), ResourceKey::Endpoint(fx.application, deleted)).await.unwrap().is_done();
    let other = other_application(fx).await;
    create(fx, fx.here, &new_endpoint(EndpointId(fx.id()), other)).await;
    want.sort();
    let pages = async |order: Order| {
        let read = async |slice| fx.read(query::Endpoints { scope: fx.app_scope(), slice }).await;
        pages(Slice { after: None, order, limit: 2 }, |endpoint: &Endpoint| endpoint.id, read).await
    };
    assert_eq!(pages(Order::Ascending).await, want);
    want.reverse();
    assert_eq!(pages(Order::Descending).await, want);
}

pub(super) async fn an_application_keeps_its_place_when_its_uid_moves(fx: &Fixture) {
    let found = fx.read(query::FindApplication { scope: fx.scope(), locator: Locator::Uid(name("acme")) }).await;
    let application = found.expect("the fixture's own");
    let moved = Application { uid: Some(name("acme-2")), ..application };
    let replaced = fx.store.replace(fx.scope(), moved.clone()).await.unwrap();
    assert!(matches!(replaced, Replaced::Done(_)), "{replaced:?}");
    let endpoint = create(fx, fx.here, &new_endpoint(EndpointId(fx.id()), fx.application)).await;
    assert_eq!(find(fx, fx.here, endpoint.id).await, Some(endpoint));
}
