//! The stored form of resources.

use everhook_core::event_type::EventType;
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId, Id};
use everhook_core::queue::{Queue, Rate, Target};
use everhook_core::signing::SigningKeys;
use everhook_core::time::Timestamp;
use everhook_store::resource::Resource;
use everhook_store::resource::encoding::{Columns, keep_unknown};
use everhook_store::sql::rows::{ResourceCells, ResourceRow};
use everhook_testkit::conformance::fixture::{new_application, new_endpoint};

const ENVIRONMENT: EnvironmentId = EnvironmentId(7);

fn row(columns: Columns) -> ResourceRow {
    let Columns { kind, parent, id, name, state, revision, spec, info } = columns;
    let at = Timestamp::default();
    ResourceRow(ResourceCells {
        environment: ENVIRONMENT,
        kind,
        parent,
        id,
        name,
        state,
        revision,
        created_at: at,
        updated_at: at,
        deleted_at: None,
        spec,
        info,
    })
}

fn event_type() -> EventType {
    EventType {
        name: "user.created".parse().unwrap(),
        description: "what happened".to_owned(),
        archived: true,
        deprecated: true,
        schemas: Some("{\"1\": {\"type\": 1.0}}".to_owned()),
        feature_flag: Some("beta".parse().unwrap()),
        group_name: Some("Users".to_owned()),
        created_at: Timestamp::default(),
        updated_at: Timestamp::default(),
        revision: 3,
    }
}

fn every_kind() -> [Resource; 4] {
    let target = Target { url: "https://example.com".to_owned(), keys: SigningKeys::default() };
    let queue = Queue {
        limit: Some(3),
        key_limit: Some(1),
        rate: Some(Rate::per_second(0.5).unwrap()),
        target: Some(target),
        ..Queue::new("email".parse().unwrap())
    };
    [
        new_application(ApplicationId(Id::MIN)).into(),
        new_endpoint(EndpointId(Id::MAX), ApplicationId(Id::MIN)).into(),
        event_type().into(),
        queue.into(),
    ]
}

#[test]
fn a_resource_is_read_as_it_was_written() {
    for resource in every_kind() {
        let read = Resource::read(&row(resource.columns(ENVIRONMENT)), None);
        assert_eq!(read, Ok(resource));
    }
}

#[test]
fn members_of_a_newer_binary_are_kept_and_do_no_harm() {
    for resource in every_kind() {
        let mut columns = resource.columns(ENVIRONMENT);
        let unknown = "\"sinceLater\":{\"a\": 1.0}";
        for text in [&mut columns.spec, &mut columns.info] {
            let comma = if text.len() > 2 { "," } else { "" };
            let newer = text.replacen('{', &format!("{{{unknown}{comma}"), 1);
            let kept = keep_unknown(text.clone(), &newer);
            assert!(kept.contains(unknown), "to the letter: {kept}");
            *text = kept;
        }
        assert_eq!(Resource::read(&row(columns), None), Ok(resource));
    }
}

#[test]
fn a_member_that_was_unset_stays_so() {
    let queue = Resource::from(Queue::new("email".parse().unwrap())).columns(ENVIRONMENT);
    let [_, _, _, limited] = every_kind();
    assert_eq!(keep_unknown(queue.spec.clone(), &limited.columns(ENVIRONMENT).spec), queue.spec);
}

#[test]
fn a_text_that_makes_no_sense_names_its_column() {
    let [application, ..] = every_kind();
    let columns = application.columns(ENVIRONMENT);
    let bad = Columns { info: "{}".to_owned(), ..columns.clone() };
    assert_eq!(Resource::read(&row(bad), None), Err("info"));
    assert_eq!(Resource::read(&row(Columns { spec: "1".to_owned(), ..columns }), None), Err("spec"));
}
