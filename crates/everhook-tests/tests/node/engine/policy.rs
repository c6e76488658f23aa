//! Delivery policies, applied to attempts.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use everhook_core::application::EnvironmentPolicy;
use everhook_core::endpoint::Endpoint;
use everhook_core::exchange::Exchange;
use everhook_core::failing::Failing;
use everhook_core::id::{ApplicationId, EndpointId, Id};
use everhook_core::outcome::{Reply, SendFailure};
use everhook_core::policy::Settings;
use everhook_core::scope::{AppScope, Scope};
use everhook_core::time::Timestamp;
use everhook_engine::transport::Transport;
use everhook_sender::Request;
use everhook_store::catalog::Locator;
use everhook_store::query;
use everhook_testkit::mem::TaskPlace;

use crate::engine::faulty::Faulty;
use crate::engine::fixture::{
    ENVIRONMENT, HOOK, add_endpoint_with, answering, config, engine, engine_over, engine_to, message, settled, store,
};

fn policy(json: &str) -> Settings {
    serde_json::from_str(json).unwrap()
}

/// Waits until every open task is dead; returns the number of attempts.
async fn dead(store: &Faulty) -> usize {
    loop {
        let tables = store.store.dump();
        if !tables.tasks.is_empty() && tables.tasks.values().all(|row| row.place == TaskPlace::Dead) {
            return tables.attempts.len();
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Delivers one message to an endpoint with a policy that answers with `status`; returns the number of attempts.
async fn attempts(settings: &str, status: u16) -> usize {
    let (store, receiver) = (store(), answering(status));
    add_endpoint_with(&store, &receiver.url(HOOK), Some(policy(settings)));
    let engine = engine(&store, 1).await;
    engine.accept(message("{}")).await.unwrap();
    dead(&store).await
}

#[tokio::test]
async fn an_endpoint_has_retries_of_its_own() {
    assert_eq!(attempts(r#"{"retry": {"backoff": [0, 0]}}"#, 500).await, 3);
    assert_eq!(attempts(r#"{"retry": {"backoff": [0], "maxAttempts": 5}}"#, 500).await, 5);
    let of_type = r#"{"retry": {"backoff": [0]}, "eventTypes": {"a.b": {"retry": {"maxAttempts": 4}}}}"#;
    assert_eq!(attempts(of_type, 500).await, 4);
    let of_other = r#"{"retry": {"backoff": [0]}, "eventTypes": {"a.c": {"retry": {"maxAttempts": 4}}}}"#;
    assert_eq!(attempts(of_other, 500).await, 2);
}

#[tokio::test]
async fn a_final_status_ends_a_delivery_at_once() {
    assert_eq!(attempts(r#"{"retry": {"backoff": [0, 0], "finalStatuses": ["4xx"]}}"#, 404).await, 1);
    assert_eq!(attempts(r#"{"retry": {"backoff": [0, 0], "finalStatuses": ["4xx"]}}"#, 500).await, 3);
    assert_eq!(attempts(r#"{"retry": {"backoff": [0, 0]}}"#, 404).await, 3, "retried by default");
}

#[tokio::test]
async fn a_retry_budget_of_the_environment_applies_to_deliveries_that_already_wait() {
    let (store, receiver) = (store(), answering(500));
    // The first retry is due in an hour, so that the delivery waits while the budget changes.
    add_endpoint_with(&store, &receiver.url(HOOK), Some(policy(r#"{"retry": {"backoff": [3600], "maxAttempts": 9}}"#)));
    let engine = engine(&store, 1).await;
    engine.accept(message("{}")).await.unwrap();
    let waiting = loop {
        let tables = store.store.dump();
        if let Some(row) = tables.tasks.values().find(|row| row.task.tries == 1) {
            break *row;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    };
    let settings = policy(r#"{"retryBudget": 0}"#);
    engine.replace(Scope::of(ENVIRONMENT), EnvironmentPolicy { settings, ..Default::default() }).await.unwrap();
    let kept = store.store.dump().tasks.values().next().cloned();
    assert_eq!(kept, Some(waiting), "no row is touched");
    engine.accept(message("{}")).await.unwrap();
    loop {
        let tables = store.store.dump();
        if tables.tasks.values().any(|row| row.place == TaskPlace::Dead && row.task.tries == 1) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[derive(Default)]
struct Recorder(Mutex<Vec<Option<Duration>>>);

#[async_trait]
impl Transport for Recorder {
    async fn send(&self, request: Request, _: &mut Exchange) -> Result<Reply, SendFailure> {
        self.0.lock().unwrap().push(request.patience);
        Ok(Reply { status: 200, retry_after: None, wish: None, body: Default::default() })
    }
}

#[tokio::test]
async fn an_endpoint_has_a_timeout_of_its_own() {
    for (settings, want) in [("{}", None), (r#"{"timeoutSeconds": 3}"#, Some(Duration::from_secs(3)))] {
        let (store, recorder) = (store(), Arc::new(Recorder::default()));
        add_endpoint_with(&store, "http://127.0.0.1/", Some(policy(settings)));
        let engine = engine_over(&store, 1, config("a"), Arc::clone(&recorder) as _).await;
        engine.accept(message("{}")).await.unwrap();
        settled(&store).await;
        assert_eq!(*recorder.0.lock().unwrap(), [want]);
    }
}

#[tokio::test]
async fn a_legacy_signature_is_sent_beside_the_standard_one() {
    let (store, receiver) = (store(), answering(200));
    let legacy = r#"{"legacySignature": {"header": "X-Old-Sig", "signedText": "{timestamp}.{body}",
        "value": "t={timestamp},v1={signature}"}}"#;
    add_endpoint_with(&store, &receiver.url(HOOK), Some(policy(legacy)));
    let engine = engine(&store, 1).await;
    engine.accept(message("{}")).await.unwrap();
    settled(&store).await;
    let seen = receiver.seen(HOOK).remove(0);
    let stamp = format!("t={},v1=", seen.header("webhook-timestamp"));
    let value = seen.header("x-old-sig");
    assert!(value.starts_with(&stamp) && value.len() == stamp.len() + 64, "{value}");
    assert!(seen.header("webhook-signature").starts_with("v1,"));
}

#[tokio::test]
async fn a_success_on_any_node_removes_the_mark_of_a_failing_endpoint() {
    let (_store, _receiver, engine) = engine_to(answering(200)).await;
    let scope = AppScope::of(ENVIRONMENT, ApplicationId(Id::MIN));
    let find = query::FindEndpoint { scope, locator: Locator::Id(EndpointId(Id::MIN)) };
    let found = engine.read(find.clone()).await.unwrap().unwrap();
    // Another node has marked it.
    let failing = Some(Failing { since: Timestamp::default(), warned_at: None, disabled_at: None });
    let changed = Endpoint { failing, ..found };
    engine.replace(Scope::of(ENVIRONMENT), changed).await.unwrap();
    engine.accept(message("{}")).await.unwrap();
    while engine.read(find.clone()).await.unwrap().unwrap().failing.is_some() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
