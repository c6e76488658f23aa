//! Dead deliveries are grouped by endpoint and class, and an operator marks the groups.

use everhook_core::failure_group::{FailureGroup, GroupKey, GroupState, hour_of};
use everhook_core::id::EndpointId;
use everhook_core::lifecycle::{EndState, NextRow};
use everhook_core::outcome::Class;
use everhook_core::scope::Scope;
use everhook_core::traffic::FailureClass;
use everhook_store::failure::FailureNote;
use everhook_store::lease::Settled;
use everhook_store::query;

use crate::conformance::fixture::Fixture;

/// Lets all due deliveries die.
async fn die(fx: &Fixture, class: Class, status: u16) {
    let session = fx.session().await;
    for leased in fx.lease(session).await {
        let mut settlement = fx.settlement(&leased.task, session, NextRow::Dead);
        let attempt = settlement.attempt.as_mut().expect("a settlement has an attempt");
        (attempt.class, attempt.status, attempt.end) = (class, status, EndState::Dead);
        assert_eq!(fx.settle(&settlement).await, Settled::Done);
    }
}

async fn list(fx: &Fixture) -> Vec<FailureGroup> {
    let found = fx.read(query::ListFailures { scope: fx.scope(), after: None }).await;
    assert_eq!(found.next, None);
    found.groups
}

fn short(groups: &[FailureGroup]) -> Vec<(EndpointId, &'static str, u64)> {
    groups.iter().map(|group| (group.key.endpoint, group.key.class.as_str(), group.dead)).collect()
}

pub(super) async fn dead_deliveries_are_grouped_by_endpoint_and_class(fx: &Fixture) {
    assert_eq!(list(fx).await, []);
    let first = fx.endpoint().await;
    for (class, status) in [(Class::Status, 500), (Class::Throttled, 502), (Class::Timeout, 0), (Class::Status, 404)] {
        fx.send().await;
        die(fx, class, status).await;
    }
    fx.work().await;
    let second = fx.endpoint().await;
    fx.send().await;
    die(fx, Class::Dns, 0).await;
    let groups = list(fx).await;
    let want = [(first, "4xx", 1), (first, "5xx", 2), (first, "dns", 1), (first, "timeout", 1), (second, "dns", 1)];
    assert_eq!(short(&groups), want);
    assert!(groups.iter().all(|group| group.first_died_at <= group.last_died_at && group.mark.is_none()));
    assert!(groups.iter().all(|group| group.hours.values().sum::<u64>() == group.dead));
    assert!(groups.iter().all(|group| group.hours.contains_key(&hour_of(group.first_died_at))));
    let of = query::FindFailures { scope: fx.scope(), endpoint: second };
    assert_eq!(short(&fx.read(of).await.groups), [(second, "dns", 1)]);
    let after = query::ListFailures { scope: fx.scope(), after: Some(first) };
    assert_eq!(short(&fx.read(after).await.groups), [(second, "dns", 1)]);
    fx.redrive(first).await;
    assert_eq!(short(&list(fx).await), [(second, "dns", 1)], "a group is gone with its last dead delivery");
}

pub(super) async fn a_mark_stays_with_its_group(fx: &Fixture) {
    let endpoint = fx.endpoint().await;
    fx.send().await;
    die(fx, Class::Timeout, 0).await;
    let key = GroupKey { endpoint, class: FailureClass::Timeout };
    let mark = async |state, note: &str| {
        let note = FailureNote { key, state, note: note.to_owned() };
        fx.store.mark_failures(fx.scope(), note).await.unwrap()
    };
    for state in [GroupState::Acknowledged, GroupState::Resolved] {
        let at = mark(state, "called them").await;
        let [group] = &*list(fx).await else { panic!("there is one group") };
        let kept = group.mark.as_ref().expect("it was marked");
        assert_eq!((kept.state, kept.note.as_str(), kept.at), (state, "called them", at));
    }
    mark(GroupState::Open, "").await;
    assert_eq!(list(fx).await[0].state(), GroupState::Open);
    let elsewhere = fx.read(query::FindFailures { scope: Scope::of(fx.there), endpoint }).await;
    assert_eq!(elsewhere.groups, []);
}
