//! Operational events are appended with the change that they report, if an operational endpoint wants them.

use std::time::Duration;

use everhook_core::endpoint::{Endpoint, EndpointState};
use everhook_core::failing::Failing;
use everhook_core::id::{EndpointId, EnvironmentId, MessageId, SessionId};
use everhook_core::lifecycle::NextRow;
use everhook_core::limits::{ENDPOINTS_MAX, PAGE_MAX};
use everhook_core::operational::OPERATIONAL_APPLICATION;
use everhook_core::outcome::Class;
use everhook_core::scope::{AppScope, Scope};
use everhook_core::task::Task;
use everhook_core::time::Timestamp;
use everhook_store::catalog::{Having, Locator, Order, Slice};
use everhook_store::lease::{Leased, Settled, Settlement};
use everhook_store::made::Made;
use everhook_store::query;
use everhook_store::resource::{Deleted, New, ResourceKey};
use serde_json::{Value, json};

use crate::conformance::fixture::{Fixture, name, new_endpoint};

const NOW: NextRow = NextRow::Pending { due_in: Duration::ZERO };

/// Creates an operational endpoint for some events; all if there are none.
pub(super) async fn listen(fx: &Fixture, events: &[&str]) -> EndpointId {
    let id = EndpointId(fx.id());
    let wanted = (!events.is_empty()).then(|| events.iter().map(|event| name(event).into()).collect());
    let endpoint = Endpoint { event_types: wanted, ..new_endpoint(id, OPERATIONAL_APPLICATION) };
    fx.other.stage_endpoint(fx.here, &endpoint).await;
    id
}

/// Leases all tasks; returns the payloads of operational events, which are settled, and the other tasks.
pub(super) async fn news(fx: &Fixture, session: SessionId) -> (Vec<Value>, Vec<Leased>) {
    let (told, rest): (Vec<_>, Vec<_>) = fx.lease(session).await.into_iter().partition(is_operational);
    let mut payloads = Vec::new();
    for leased in told {
        let message = leased.message().unwrap();
        let payload: Value = serde_json::from_slice(message.payload.as_ref().unwrap()).unwrap();
        assert_eq!(payload["type"], message.event_type.as_str());
        payloads.push(payload);
        fx.end(&leased.task, session, NextRow::Gone).await;
    }
    (payloads, rest)
}

fn is_operational(leased: &Leased) -> bool {
    leased.message().is_some_and(|message| message.application == OPERATIONAL_APPLICATION)
}

fn types(news: &[Value]) -> Vec<&str> {
    news.iter().map(|one| one["type"].as_str().unwrap()).collect()
}

/// Settles an attempt and returns the number of messages that it made.
async fn settle(fx: &Fixture, settlement: Settlement) -> Made {
    let settled = fx.store.settle([settlement].into()).await.unwrap();
    assert_eq!(settled.answer, [Settled::Done]);
    settled.made
}

pub(super) async fn a_change_of_an_endpoint_is_reported_with_it(fx: &Fixture) {
    let session = fx.session().await;
    listen(fx, &[]).await;
    let mut endpoint = Endpoint { uid: Some(name("main")), ..new_endpoint(EndpointId(fx.id()), fx.application) };
    let new = New { record: endpoint.clone(), max: ENDPOINTS_MAX };
    let created = fx.other.create_resource(fx.scope(), new.clone().into()).await.unwrap();
    assert_eq!(created.made, Made { messages: 1, jobs: 0 });
    let again = fx.other.create_resource(fx.scope(), new.into()).await.unwrap();
    assert_eq!(again.made, Made::default(), "a repetition is no news");
    let about = json!({
        "appId": fx.application.to_string(), "appUid": "acme",
        "endpointId": endpoint.id.to_string(), "endpointUid": "main",
    });
    assert_eq!(news(fx, session).await.0, [json!({"type": "endpoint.created", "data": about})]);

    for (state, messages) in [(EndpointState::Disabled, 2), (EndpointState::Disabled, 0), (EndpointState::Enabled, 2)] {
        let scope = fx.app_scope();
        let find = query::FindEndpoint { scope, locator: Locator::Id(endpoint.id) };
        endpoint = Endpoint { state, ..fx.read(find).await.unwrap() };
        let replaced = fx.other.replace_resource(fx.scope(), endpoint.clone().into()).await.unwrap();
        assert_eq!(replaced.made.messages, messages);
    }
    let told = news(fx, session).await.0;
    assert_eq!(types(&told), ["endpoint.updated", "endpoint.disabled", "endpoint.updated", "endpoint.enabled"]);
    assert_eq!((&told[1]["data"]["trigger"], &told[3]["data"]["trigger"]), (&json!("manual"), &Value::Null));

    let key = ResourceKey::Endpoint(fx.application, endpoint.id);
    assert_eq!(fx.other.delete_resource(fx.scope(), key.clone()).await.unwrap().made.messages, 1);
    assert_eq!(fx.other.delete_resource(fx.scope(), key).await.unwrap().made, Made::default());
    assert_eq!(news(fx, session).await.0, [json!({"type": "endpoint.deleted", "data": about})]);
}

pub(super) async fn a_failing_endpoint_is_reported_once(fx: &Fixture) {
    let session = fx.session().await;
    let id = fx.endpoint().await;
    listen(fx, &["endpoint.failing", "endpoint.disabled"]).await;
    let find = query::FindEndpoint { scope: fx.app_scope(), locator: Locator::Id(id) };
    let replace =
        async |endpoint: Endpoint| fx.other.replace_resource(fx.scope(), endpoint.into()).await.unwrap().made.messages;
    let since = Timestamp::from_millis(86_400_000);
    let mark = Failing { since, warned_at: None, disabled_at: None };
    let steps = [
        (EndpointState::Enabled, mark, 0),
        (EndpointState::Enabled, Failing { warned_at: Some(since), ..mark }, 1),
        (EndpointState::Gone, Failing { warned_at: Some(since), disabled_at: Some(since), ..mark }, 1),
    ];
    for (state, failing, messages) in steps {
        let found = fx.read(find.clone()).await.unwrap();
        let changed = Endpoint { state, failing: Some(failing), ..found };
        assert_eq!(replace(changed.clone()).await, messages);
        assert_eq!(replace(changed).await, 0, "another node was faster");
        assert_eq!(fx.read(find.clone()).await.unwrap().failing, Some(failing));
    }
    let told = news(fx, session).await.0;
    assert_eq!(types(&told), ["endpoint.failing", "endpoint.disabled"]);
    assert_eq!(told[1]["data"]["trigger"], "automatic");
    assert_eq!(told[1]["data"]["failingSince"], "1970-01-02T00:00:00.000000Z");
}

pub(super) async fn a_failing_delivery_is_reported_at_its_fourth_failure_and_its_end(fx: &Fixture) {
    let session = fx.session().await;
    fx.endpoint().await;
    listen(fx, &["message.attempt.failing", "message.attempt.exhausted", "message.attempt.recovered"]).await;
    let new = fx.message_with_event_id("event-1");
    let id = new.message.id;
    fx.append_one(None, new).await;
    let task = fx.lease_one(session).await.task;
    let end = |task: &Task, row, tries| Settlement { tries, ..fx.settlement(task, session, row) };

    assert_eq!(settle(fx, end(&task, NOW, 3)).await, Made::default());
    let (told, rest) = news(fx, session).await;
    assert_eq!(told.len(), 0);
    let failed = end(&rest[0].task, NOW, 4);
    assert_eq!(settle(fx, failed.clone()).await, Made { messages: 1, jobs: 0 });
    assert_eq!(settle(fx, failed.clone()).await, Made::default(), "a repetition is no news");
    let (told, rest) = news(fx, session).await;
    let attempt = failed.attempt.as_ref().unwrap();
    let last = json!({
        "id": attempt.id.to_string(), "responseStatusCode": 500, "timestamp": serde_json::to_value(attempt.started_at).unwrap(),
    });
    let about = json!({
        "appId": fx.application.to_string(), "appUid": "acme", "msgId": id.to_string(), "msgEventId": "event-1",
        "endpointId": EndpointId(task.lane.0).to_string(), "lastAttempt": last,
    });
    assert_eq!(told, [json!({"type": "message.attempt.failing", "data": about})]);

    let mut abandoned = end(&rest[0].task, NOW, 4);
    abandoned.attempt.as_mut().unwrap().class = Class::Abandoned;
    assert_eq!(settle(fx, abandoned).await, Made::default(), "a crash is not the receiver's failure");
    let (_, rest) = news(fx, session).await;
    assert_eq!(settle(fx, end(&rest[0].task, NextRow::Dead, 5)).await.messages, 1);
    assert_eq!(types(&news(fx, session).await.0), ["message.attempt.exhausted"]);

    let late = fx.send().await;
    let (_, rest) = news(fx, session).await;
    assert_eq!(MessageId(rest[0].task.key.subject), late);
    assert_eq!(settle(fx, end(&rest[0].task, NextRow::Gone, 5)).await.messages, 1);
    assert_eq!(types(&news(fx, session).await.0), ["message.attempt.recovered"]);
}

pub(super) async fn a_success_after_a_redrive_is_reported(fx: &Fixture) {
    let endpoint = fx.endpoint().await;
    fx.send().await;
    let session = fx.session().await;
    listen(fx, &["message.attempt.recovered"]).await;
    let leased = fx.lease_one(session).await;
    fx.end(&leased.task, session, NextRow::Dead).await;
    assert_eq!(fx.redrive(endpoint).await, 1);
    let leased = fx.lease_one(session).await;
    assert_eq!(settle(fx, fx.settlement(&leased.task, session, NextRow::Gone)).await.messages, 1);
    assert_eq!(types(&news(fx, session).await.0), ["message.attempt.recovered"]);

    fx.send().await;
    let leased = fx.lease_one(session).await;
    fx.settle(&Settlement { attempt: None, tries: 0, ..fx.settlement(&leased.task, session, NOW) }).await;
    let leased = fx.lease_one(session).await;
    let success = fx.settlement(&leased.task, session, NextRow::Gone);
    assert_eq!(settle(fx, success).await, Made::default(), "a task that was handed back has not failed");
}

pub(super) async fn an_endpoint_that_its_receiver_disables_is_reported(fx: &Fixture) {
    let (session, leased) = fx.held().await;
    listen(fx, &["endpoint.disabled"]).await;
    let gone = Settlement { stop_lane: true, ..fx.settlement(&leased.task, session, NextRow::Dead) };
    assert_eq!(settle(fx, gone).await.messages, 1);
    let told = news(fx, session).await.0;
    assert_eq!(types(&told), ["endpoint.disabled"]);
    assert_eq!(told[0]["data"]["trigger"], "automatic");
    assert_eq!(told[0]["data"]["endpointId"], EndpointId(leased.task.lane.0).to_string());
}

pub(super) async fn operational_endpoints_cause_no_events(fx: &Fixture) {
    let session = fx.session().await;
    let first = listen(fx, &[]).await;
    listen(fx, &[]).await;
    let endpoint = fx.endpoint().await;
    let told = fx.lease(session).await;
    assert_eq!(told.len(), 2, "one event for two endpoints: {told:?}");
    for (leased, row) in told.iter().zip([NOW, NextRow::Dead]) {
        let stop_lane = row == NextRow::Dead;
        let end = Settlement { tries: 4, stop_lane, ..fx.settlement(&leased.task, session, row) };
        assert_eq!(settle(fx, end).await, Made::default());
    }
    let key = ResourceKey::Endpoint(OPERATIONAL_APPLICATION, first);
    assert_eq!(fx.other.delete_resource(fx.scope(), key).await.unwrap().made, Made::default());
    fx.delete(endpoint).await;
}

pub(super) async fn without_a_listener_nothing_is_written(fx: &Fixture) {
    let deaf = listen(fx, &["endpoint.deleted"]).await;
    let scope = AppScope::of(fx.here, OPERATIONAL_APPLICATION);
    fx.other.switch_endpoint(scope, deaf, EndpointState::Disabled).await;
    let endpoint = new_endpoint(EndpointId(fx.id()), fx.application);
    let key = ResourceKey::Endpoint(fx.application, endpoint.id);
    let new = New { record: endpoint, max: ENDPOINTS_MAX };
    let created = fx.other.create_resource(fx.scope(), new.into()).await.unwrap();
    assert_eq!(created.made, Made::default(), "the endpoint wants other events");
    let deleted = fx.other.delete_resource(fx.scope(), key).await.unwrap();
    assert_eq!((deleted.answer, deleted.made), (Deleted::Done, Made::default()), "the endpoint is disabled");
}

pub(super) async fn the_hidden_application_is_in_no_list(fx: &Fixture) {
    let id = listen(fx, &[]).await;
    let find = |environment: EnvironmentId, locator| query::FindApplication { scope: Scope::of(environment), locator };
    assert_eq!(fx.read(find(fx.here, Locator::Id(OPERATIONAL_APPLICATION))).await, None);
    let slice = Slice { after: None, order: Order::Ascending, limit: PAGE_MAX };
    let list = query::Applications { scope: fx.scope(), having: Having::Anything, slice };
    let listed = fx.read(list).await;
    assert_eq!(listed.iter().map(|application| application.id).collect::<Vec<_>>(), [fx.application]);
    let endpoints = |environment| query::Endpoints {
        scope: AppScope::of(environment, OPERATIONAL_APPLICATION),
        slice: Slice { after: None, order: Order::Ascending, limit: PAGE_MAX },
    };
    let here = fx.read(endpoints(fx.here)).await;
    assert_eq!(here.iter().map(|endpoint| endpoint.id).collect::<Vec<_>>(), [id]);
    assert_eq!(fx.read(endpoints(fx.there)).await, []);
}
