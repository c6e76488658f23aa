//! Event types are stored unchanged, each in its own environment.

use everhook_core::event_type::EventType;
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_store::catalog::{ArchivedTypes, Created, Order, Replaced, Slice};
use everhook_store::query;
use everhook_store::resource::ResourceKey;
use everhook_store::store::Resources;

use crate::conformance::fixture::{Fixture, name, pages, request_key};

fn new_type(text: &str) -> EventType {
    EventType {
        name: name(text),
        description: "Ein Ereignis".to_owned(),
        archived: false,
        deprecated: false,
        schemas: None,
        feature_flag: None,
        group_name: None,
        created_at: Timestamp::default(),
        updated_at: Timestamp::default(),
        revision: 0,
    }
}

async fn create_type(fx: &Fixture, event_type: &EventType) -> EventType {
    for environment in [fx.there, fx.here] {
        match fx.store.create(Scope::of(environment), event_type.clone(), None).await.unwrap() {
            Created::New(new) if environment == fx.here => return new,
            Created::New(_) => {}
            other => panic!("{other:?}"),
        }
    }
    unreachable!("the last one returns")
}

pub(super) async fn an_event_type_is_found_as_it_was_made(fx: &Fixture) {
    let wish = EventType {
        deprecated: true,
        schemas: Some("{\"1\": {\"type\" : \"object\"}}".to_owned()),
        feature_flag: Some(name("beta")),
        group_name: Some("Billing & Co".to_owned()),
        ..new_type("invoice.paid")
    };
    let made = create_type(fx, &wish).await;
    let (created_at, updated_at, revision) = (made.created_at, made.updated_at, made.revision);
    assert_eq!(made, EventType { created_at, updated_at, revision, ..wish.clone() });
    assert!(created_at > Timestamp::default());
    assert_eq!(
        fx.read(query::FindEventType { scope: fx.scope(), name: wish.name.clone() }).await.as_ref(),
        Some(&made)
    );
    assert_eq!(fx.read(query::FindEventType { scope: fx.scope(), name: name("invoice") }).await, None);
    let again = fx.store.create(fx.scope(), wish.clone(), None).await.unwrap();
    assert_eq!(again, Created::Taken(made));
}

pub(super) async fn the_same_creation_again_gets_the_same_event_type(fx: &Fixture) {
    let create = async |text: &str, body: &str| {
        fx.store.create(fx.scope(), new_type(text), Some(request_key("k", body))).await.unwrap()
    };
    let Created::New(first) = create("a", "body").await else { panic!("it is new") };
    assert_eq!(create("a", "body").await, Created::Repeated(first));
    assert_eq!(create("b", "other body").await, Created::KeyReused);
    assert_eq!(fx.read(query::FindEventType { scope: fx.scope(), name: name("b") }).await, None);
    let there = fx.store.create(Scope::of(fx.there), new_type("a"), Some(request_key("k", "x"))).await.unwrap();
    assert!(matches!(there, Created::New(_)), "{there:?}");
}

pub(super) async fn a_concurrent_change_of_an_event_type_is_noticed(fx: &Fixture) {
    let old = create_type(fx, &new_type("a")).await;
    let changed = EventType { archived: true, description: String::new(), ..old.clone() };
    let Replaced::Done(new) = fx.store.replace(fx.scope(), changed.clone()).await.unwrap() else {
        panic!("nobody else changed it")
    };
    assert!(new.archived && new.revision > old.revision);
    assert_eq!(fx.other.replace(fx.scope(), changed.clone()).await.unwrap(), Replaced::Stale);
    assert_eq!(fx.read(query::FindEventType { scope: fx.scope(), name: old.name.clone() }).await, Some(new.clone()));
    let again = fx.store.create(fx.scope(), old.clone(), None).await.unwrap();
    assert_eq!(again, Created::Taken(new), "archived or not");
    let there = fx
        .read(query::FindEventType { scope: Scope::of(fx.there), name: old.name.clone() })
        .await
        .expect("it is there");
    assert!(!there.archived);
    assert!(fx.store.delete(fx.scope(), ResourceKey::EventType(old.name.clone())).await.unwrap().is_done());
    assert!(!fx.store.delete(fx.scope(), ResourceKey::EventType(old.name.clone())).await.unwrap().is_done());
    assert_eq!(fx.read(query::FindEventType { scope: fx.scope(), name: old.name.clone() }).await, None);
    assert!(fx.read(query::FindEventType { scope: Scope::of(fx.there), name: old.name.clone() }).await.is_some());
    assert_eq!(fx.store.replace(fx.scope(), changed.clone()).await.unwrap(), Replaced::Stale);
}

pub(super) async fn event_types_are_listed_by_the_bytes_of_their_names(fx: &Fixture) {
    let want = ["B", "a", "a-b", "a.b", "a_b", "aa", "b"];
    for text in want.iter().rev() {
        create_type(fx, &EventType { archived: *text == "a.b", ..new_type(text) }).await;
    }
    let pages = async |archived: ArchivedTypes, order: Order| {
        let read = async |slice| fx.read(query::EventTypes { scope: fx.scope(), archived, slice }).await.rows;
        pages(Slice { after: None, order, limit: 2 }, |event_type: &EventType| event_type.name.clone(), read).await
    };
    assert_eq!(pages(ArchivedTypes::Included, Order::Ascending).await, want.map(name));
    let unarchived: Vec<_> = want.iter().rev().filter(|text| **text != "a.b").map(|text| name(text)).collect();
    assert_eq!(pages(ArchivedTypes::Excluded, Order::Descending).await, unarchived);
}

pub(super) async fn unknown_and_archived_event_types_are_told(fx: &Fixture) {
    create_type(fx, &new_type("known")).await;
    create_type(fx, &EventType { archived: true, ..new_type("archived") }).await;
    fx.store.create(Scope::of(fx.there), new_type("elsewhere"), None).await.unwrap();
    let ask = ["known", "archived", "elsewhere", "unknown"].map(name);
    let mut unknown = fx.read(query::UnknownEventTypes { scope: fx.scope(), names: ask.to_vec() }).await;
    unknown.sort();
    assert_eq!(unknown, ["archived", "elsewhere", "unknown"].map(name));
    assert_eq!(fx.read(query::UnknownEventTypes { scope: fx.scope(), names: vec![] }).await, []);
}
