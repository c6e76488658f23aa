//! Integrations belong to an application, and end with it.

use everhook_core::id::{ApplicationId, IntegrationId};
use everhook_core::integration::Integration;
use everhook_core::scope::{AppScope, Scope};
use everhook_core::time::Timestamp;
use everhook_store::catalog::{Created, Locator, Order, Replaced, Slice};
use everhook_store::query;
use everhook_store::resource::{New, ResourceKey};
use everhook_store::store::Resources;

use crate::conformance::fixture::{Fixture, PLENTY, name, request_key};

fn new(fx: &Fixture, application: ApplicationId, max: usize) -> New<Integration> {
    let integration = Integration {
        id: IntegrationId(fx.id()),
        application,
        name: "\"Tool\" größer".to_owned(),
        feature_flags: vec![name("beta")],
        key: Some([7; 32]),
        created_at: Timestamp::default(),
        updated_at: Timestamp::default(),
        revision: 0,
    };
    New { record: integration, max }
}

async fn create(fx: &Fixture) -> Integration {
    let new = new(fx, fx.application, PLENTY);
    match fx.store.create(fx.scope(), new, None).await.unwrap() {
        Created::New(new) => new,
        other => panic!("{other:?}"),
    }
}

async fn find(fx: &Fixture, scope: AppScope, id: IntegrationId) -> Option<Integration> {
    fx.read(query::FindIntegration { scope, id }).await
}

pub(super) async fn an_integration_is_found_changed_and_deleted(fx: &Fixture) {
    let scope = fx.app_scope();
    let made = create(fx).await;
    assert_eq!((made.name.as_str(), made.key, made.revision), ("\"Tool\" größer", Some([7; 32]), 1));
    assert_eq!(find(fx, scope, made.id).await.as_ref(), Some(&made));
    assert_eq!(find(fx, AppScope::of(fx.there, fx.application), made.id).await, None);
    assert_eq!(find(fx, AppScope::of(fx.here, ApplicationId(fx.id())), made.id).await, None);
    let changed = Integration { key: None, feature_flags: Vec::new(), ..made.clone() };
    let Replaced::Done(after) = fx.store.replace(fx.scope(), changed.clone()).await.unwrap() else {
        panic!("no one else changed it")
    };
    assert_eq!((after.key, after.feature_flags.len(), after.created_at), (None, 0, made.created_at));
    assert_eq!(fx.other.replace(fx.scope(), changed).await.unwrap(), Replaced::Stale);
    let key = ResourceKey::Integration(fx.application, made.id);
    assert!(!fx.store.delete_resource(Scope::of(fx.there), key.clone()).await.unwrap().answer.is_done());
    assert!(fx.store.delete_resource(fx.scope(), key.clone()).await.unwrap().answer.is_done());
    assert!(!fx.store.delete_resource(fx.scope(), key).await.unwrap().answer.is_done());
    assert_eq!(find(fx, scope, made.id).await, None);
}

pub(super) async fn an_application_has_no_more_integrations_than_it_may(fx: &Fixture) {
    let here = fx.scope();
    fx.endpoint().await;
    let first = new(fx, fx.application, 1);
    assert!(matches!(fx.store.create(here, first, Some(request_key("k", "a"))).await.unwrap(), Created::New(_)));
    assert_eq!(fx.store.create(here, new(fx, fx.application, 1), None).await.unwrap(), Created::Full);
    let again = fx.store.create(here, new(fx, fx.application, 1), Some(request_key("k", "a"))).await.unwrap();
    assert!(matches!(again, Created::Repeated(_)), "{again:?}");
    let nowhere = new(fx, ApplicationId(fx.id()), 1);
    assert_eq!(fx.store.create(here, nowhere, None).await.unwrap(), Created::NoParent);
}

pub(super) async fn integrations_are_listed_piece_by_piece_and_end_with_their_application(fx: &Fixture) {
    let scope = fx.app_scope();
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(create(fx).await.id);
    }
    let list = async |after: Option<IntegrationId>, order, limit| {
        let slice = Slice { after, order, limit };
        let rows = fx.read(query::Integrations { scope, slice }).await;
        rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    assert_eq!(list(None, Order::Ascending, 2).await, made[..2]);
    assert_eq!(list(Some(made[1]), Order::Ascending, 2).await, made[2..]);
    assert_eq!(list(None, Order::Descending, 1).await, made[2..]);
    assert!(
        fx.store
            .delete_resource(scope.scope(), ResourceKey::Application(fx.application))
            .await
            .unwrap()
            .answer
            .is_done()
    );
    assert_eq!(list(None, Order::Ascending, 2).await, []);
    assert_eq!(find(fx, scope, made[0]).await, None);
    let gone = query::FindApplication { scope: scope.scope(), locator: Locator::Id(fx.application) };
    assert_eq!(fx.read(gone).await, None);
}
