//! The audit log is a chain of entries for each environment.

use everhook_core::audit::{AuditEntry, AuditFacts, AuditLink, AuditPhase};
use everhook_core::id::{EnvironmentId, KeyId};
use everhook_core::scope::Scope;
use everhook_store::audit::AuditFilter;
use everhook_store::catalog::{Order, Slice};
use everhook_store::query;

use crate::conformance::fixture::Fixture;

fn facts(fx: &Fixture, actor: &str, object: &str) -> AuditFacts {
    AuditFacts {
        operation: fx.id(),
        phase: AuditPhase::Begun,
        actor: actor.to_owned(),
        key: Some(KeyId(fx.id())),
        principal: Some("ann".to_owned()),
        action: "v1.queue.pause".to_owned(),
        object: object.to_owned(),
        reason: None,
        status: Some(200),
        request: Some([1; 32]),
        before: None,
        after: Some([2; 32]),
    }
}

async fn list(fx: &Fixture, environment: EnvironmentId, filter: AuditFilter, order: Order) -> Vec<AuditEntry> {
    let slice = Slice { after: None, order, limit: 100 };
    fx.read(query::Audit { scope: Scope::of(environment), filter, slice }).await
}

pub(super) async fn audit_entries_are_chained_and_found(fx: &Fixture) {
    let scope = fx.scope();
    let all = [facts(fx, "a", "/queue/x"), facts(fx, "b", "/queue/y"), facts(fx, "a", "/job/z")];
    for facts in &all {
        fx.store.append_audit(scope, facts.clone()).await.unwrap();
        fx.other.append_audit(scope, facts.clone()).await.unwrap();
    }
    let ended = AuditFacts { phase: AuditPhase::Ended, key: None, principal: None, status: None, ..all[0].clone() };
    fx.store.append_audit(scope, ended.clone()).await.unwrap();
    fx.store.append_audit(Scope::of(fx.there), all[0].clone()).await.unwrap();

    let entries = list(fx, fx.here, AuditFilter::default(), Order::Ascending).await;
    let found: Vec<_> = entries.iter().map(|entry| entry.facts.clone()).collect();
    assert_eq!(found, [all[0].clone(), all[1].clone(), all[2].clone(), ended], "a repeated entry is written once");
    let end = entries.iter().try_fold(AuditLink::START, |link, entry| link.follow(fx.here, entry));
    assert_eq!(end.map(|link| link.seq), Ok(4));
    assert_eq!(list(fx, fx.there, AuditFilter::default(), Order::Ascending).await.len(), 1, "a log of its own");

    let positions = async |filter: AuditFilter| -> Vec<i64> {
        list(fx, fx.here, filter, Order::Descending).await.iter().map(|entry| entry.seq).collect()
    };
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(positions(AuditFilter { actor: text("a"), ..AuditFilter::default() }).await, [4, 3, 1]);
    assert_eq!(positions(AuditFilter { object: text("/queue/"), ..AuditFilter::default() }).await, [4, 2, 1]);
    assert_eq!(positions(AuditFilter { object: text("%"), ..AuditFilter::default() }).await, [0_i64; 0]);
    assert_eq!(positions(AuditFilter { action: text("v1.job.cancel"), ..AuditFilter::default() }).await, [0_i64; 0]);
    let third = entries[2].at;
    assert!(positions(AuditFilter { since: Some(third), ..AuditFilter::default() }).await.starts_with(&[4, 3]));
    assert!(!positions(AuditFilter { until: Some(third), ..AuditFilter::default() }).await.contains(&3));
    let slice = Slice { after: Some(2), order: Order::Descending, limit: 1 };
    let page = fx.read(query::Audit { scope, filter: AuditFilter::default(), slice }).await;
    assert_eq!(page.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [1]);
}
