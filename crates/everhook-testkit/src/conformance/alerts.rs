//! Alert rules as resources, and the messages of a page in the transaction of the new state.

use everhook_core::alert::decision::{AlertPhase, AlertState, DuePage, PageKind, decide};
use everhook_core::alert::page::{AlertNews, AlertPage, PageCause, PageMessage};
use everhook_core::alert::{Alert, AlertCondition, AlertEscalation, AlertRule, AlertSignal, Amount};
use everhook_core::fanout::Audience;
use everhook_core::id::{AlertId, EndpointId, MessageId};
use everhook_core::name::Name;
use everhook_core::operational::News;
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_store::catalog::{Created, Order, Replaced, Slice};
use everhook_store::lease::NewMessage;
use everhook_store::operational::message;
use everhook_store::query;
use everhook_store::resource::{Changed, Deleted, New, ResourceKey};
use everhook_store::store::Resources;

use crate::conformance::fixture::{Fixture, name};
use crate::conformance::operational::{listen, news};

const MAX: usize = 100;

fn rule() -> AlertRule {
    AlertRule {
        description: "Look at the dead letters.".to_owned(),
        signal: AlertSignal::Dead,
        queue: None,
        endpoint: None,
        condition: AlertCondition::Above,
        threshold: Amount::count(3),
        window_seconds: None,
        for_seconds: 0,
        resolve_after_seconds: 0,
        cooldown_seconds: 60,
        destinations: Some(vec![name("ops")]),
        escalation: Some(AlertEscalation {
            after_seconds: Some(5),
            after_ongoing: None,
            destinations: vec![name("boss")],
        }),
        disabled: false,
    }
}

fn new_alert(fx: &Fixture, text: &str) -> Alert {
    Alert {
        id: AlertId(fx.id()),
        name: name(text),
        rule: rule(),
        state: AlertState::default(),
        pages: Vec::new(),
        created_at: Timestamp::default(),
        updated_at: Timestamp::default(),
        revision: 0,
    }
}

async fn create(fx: &Fixture, text: &str) -> Alert {
    let new = New { record: new_alert(fx, text), max: MAX };
    match fx.other.create(fx.scope(), new, None).await.unwrap() {
        Created::New(alert) => alert,
        other => panic!("{other:?}"),
    }
}

async fn find(fx: &Fixture, text: &str) -> Option<Alert> {
    fx.read(query::FindAlert { scope: fx.scope(), name: name(text) }).await
}

pub(super) async fn an_alert_is_found_listed_changed_and_deleted(fx: &Fixture) {
    let alert = create(fx, "dead").await;
    assert_eq!((&alert.rule, alert.revision), (&rule(), 1));
    assert_eq!(find(fx, "dead").await.as_ref(), Some(&alert));
    let there = query::FindAlert { scope: Scope::of(fx.there), name: name("dead") };
    assert_eq!(fx.read(there).await, None, "another environment");
    let twice = New { record: new_alert(fx, "dead"), max: MAX };
    let twice = fx.store.create(fx.scope(), twice, None).await.unwrap();
    assert_eq!(twice, Created::Taken(alert.clone()));

    let changed = AlertRule { threshold: Amount::new(0.25).unwrap(), disabled: true, ..rule() };
    let changed = Alert { rule: changed, ..alert.clone() };
    let Replaced::Done(new) = fx.other.replace(fx.scope(), changed.clone()).await.unwrap() else { panic!() };
    assert_eq!((&new.rule, new.revision), (&changed.rule, 2));
    assert_eq!(fx.store.replace(fx.scope(), changed).await.unwrap(), Replaced::Stale);

    create(fx, "backlog").await;
    let list = async |after: Option<&str>, order, limit| {
        let slice = Slice { after: after.map(name), order, limit };
        let found = fx.read(query::Alerts { scope: fx.scope(), slice }).await;
        found.rows.iter().map(|alert| alert.name.to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(list(None, Order::Ascending, 10).await, "backlog dead");
    assert_eq!(list(None, Order::Descending, 1).await, "dead");
    assert_eq!(list(Some("backlog"), Order::Ascending, 10).await, "dead");

    let key = ResourceKey::Alert(name("dead"));
    assert_eq!(fx.store.delete(fx.scope(), key.clone()).await.unwrap(), Deleted::Done);
    assert_eq!(fx.store.delete(fx.scope(), key).await.unwrap(), Deleted::NotFound);
    assert_eq!(find(fx, "dead").await, None);
    let again = create(fx, "dead").await;
    let old = Alert { revision: 1, ..alert };
    assert_eq!(fx.store.replace(fx.scope(), old).await.unwrap(), Replaced::Stale, "the rule is another one");
    assert_eq!(find(fx, "dead").await, Some(again));
}

pub(super) async fn alerts_of_all_environments_are_listed(fx: &Fixture) {
    let here = create(fx, "dead").await;
    let new = New { record: new_alert(fx, "dead"), max: MAX };
    fx.other.create(Scope::of(fx.there), new, None).await.unwrap();
    let mut all = fx.read(query::AllAlerts {}).await;
    all.sort_by_key(|(environment, _)| *environment != fx.here);
    let found: Vec<_> = all.iter().map(|(environment, alert)| (*environment, &alert.name)).collect();
    assert_eq!(found, [(fx.here, &name("dead")), (fx.there, &name("dead"))]);
    assert_eq!(all[0].1, here);
    fx.store.delete(Scope::of(fx.there), ResourceKey::Alert(name("dead"))).await.unwrap();
}

/// Returns the next step of an alert, with the message to an endpoint.
fn step(fx: &Fixture, alert: &Alert, endpoint: EndpointId, at: i64) -> Changed<Alert> {
    let now = Timestamp::from_millis(at * 1000);
    let (state, due) = decide(&alert.rule, &alert.state, Some(Amount::count(4)), now);
    let due: DuePage = due.unwrap();
    let content = AlertNews::new(alert, due, Some(Amount::count(4)), PageCause::Measured, None);
    let msg_id = MessageId(fx.id());
    let page = message(fx.here, &News::Alert(due.kind.event(), content), msg_id);
    let mut alert = Alert { state, ..alert.clone() };
    let messages = vec![PageMessage { endpoint_id: endpoint, msg_id }];
    let value = Some(Amount::count(4));
    alert.remember(AlertPage { kind: due.kind, at: now, value, escalated: due.escalated, messages });
    Changed { record: alert, key: None, messages: vec![NewMessage { audience: Audience::Only(endpoint), ..page }] }
}

pub(super) async fn an_alert_pages_once_and_with_its_state(fx: &Fixture) {
    let session = fx.session().await;
    // The endpoint wants other events, but the rule names it.
    let named = listen(fx, &["endpoint.disabled"]).await;
    listen(fx, &[]).await;
    let alert = create(fx, "dead").await;
    let first = step(fx, &alert, named, 1000);
    let (ours, theirs) = (first.clone(), step(fx, &alert, named, 1000));
    let done = fx.store.replace_resource(fx.scope(), ours.into()).await.unwrap();
    assert_eq!(done.made.messages, 1);
    let lost = fx.other.replace_resource(fx.scope(), theirs.into()).await.unwrap();
    assert_eq!((lost.made.messages, matches!(lost.answer, Replaced::Stale)), (0, true), "another node was faster");

    let found = find(fx, "dead").await.unwrap();
    assert!(matches!(found.state.phase, AlertPhase::Triggered { .. }), "{:?}", found.state);
    assert_eq!((&found.state, &found.pages), (&first.record.state, &first.record.pages));
    let told = news(fx, session).await.0;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((&told[0]["type"], &told[0]["data"]["value"]), (&"alert.triggered".into(), &4.into()));

    let second = step(fx, &found, named, 1005);
    fx.store.replace(fx.scope(), second).await.unwrap();
    let found = find(fx, "dead").await.unwrap();
    let kinds: Vec<_> = found.pages.iter().map(|page| (page.kind, page.escalated)).collect();
    assert_eq!(kinds, [(PageKind::Ongoing, true), (PageKind::Triggered, false)], "newest first");
    assert_eq!(news(fx, session).await.0[0]["type"], "alert.ongoing");
}

pub(super) async fn an_environment_has_no_more_alerts_than_it_may(fx: &Fixture) {
    let names: [Name; 3] = [name("a"), name("b"), name("c")];
    for (count, text) in names.iter().enumerate() {
        let new = New { record: new_alert(fx, text.as_str()), max: 2 };
        let created = fx.store.create(fx.scope(), new, None).await.unwrap();
        assert_eq!(matches!(created, Created::Full), count == 2, "{created:?}");
    }
}
