//! Delivery policies.

use serde_json::json;

use crate::api::world::World;

async fn world() -> World {
    let world = World::new().await;
    world.application("acme").await;
    world.endpoint("acme", "main").await;
    world
}

const ENDPOINT: &str = "/app/acme/endpoint/main";

#[tokio::test]
async fn the_effective_policy_names_the_origin_of_each_setting() {
    let world = world().await;
    let patch = r#"{"policy": {"timeoutSeconds": 5, "eventTypes": {"a.b": {"retry": {"backoff": [1, 2]}}}}}"#;
    assert_eq!(world.patch(ENDPOINT, patch).await.status, 200);
    let application = r#"{"policy": {"retry": {"maxAttempts": 3, "finalStatuses": ["4xx"]}}}"#;
    assert_eq!(world.patch("/app/acme", application).await.status, 200);
    assert_eq!(world.put("/environment/policy", r#"{"retryBudget": 1, "timeoutSeconds": 9}"#).await.status, 200);
    insta::assert_snapshot!(world.get(&format!("{ENDPOINT}/policy")).await, @"");
    insta::assert_snapshot!(world.get(&format!("{ENDPOINT}/policy?event_type=a.b")).await, @"");
    insta::assert_snapshot!(world.get(&format!("{ENDPOINT}/policy?event_type=a%20b")).await, @"");
    insta::assert_snapshot!(world.get("/environment/policy").await, @"");
}

#[tokio::test]
async fn clients_that_do_not_know_policies_keep_them_and_null_removes_them() {
    let world = world().await;
    let policy = async |path: &str| world.get(path).await.json().get("policy").cloned();
    let set = r#"{"policy": {"timeoutSeconds": 5}}"#;
    for (path, put) in [("/app/acme", r#"{"name": "Acme"}"#), (ENDPOINT, r#"{"url": "https://example.com/"}"#)] {
        assert_eq!(world.patch(path, set).await.status, 200);
        assert_eq!(world.put(path, put).await.status, 200);
        assert_eq!(world.patch(path, r#"{"metadata": {}}"#).await.status, 200);
        assert_eq!(policy(path).await, Some(json!({ "timeoutSeconds": 5 })), "{path}");
        assert_eq!(world.patch(path, r#"{"policy": {"retry": {"maxAttempts": 2}}}"#).await.status, 200);
        assert_eq!(policy(path).await, Some(json!({ "retry": { "maxAttempts": 2 } })), "replaced as a whole");
        assert_eq!(world.patch(path, r#"{"policy": null}"#).await.status, 200);
        assert_eq!(policy(path).await, None);
    }
}

#[tokio::test]
async fn bad_policies_are_refused_by_field() {
    let world = world().await;
    let refused = async |policy: &str| world.patch(ENDPOINT, &format!(r#"{{"policy": {policy}}}"#)).await;
    insta::assert_snapshot!(refused("3").await, @"");
    insta::assert_snapshot!(refused(r#"{"retry": {"backoff": []}}"#).await, @"");
    insta::assert_snapshot!(refused(r#"{"retry": {"backoff": "x"}}"#).await, @"");
    insta::assert_snapshot!(refused(r#"{"retry": {"maxAttempts": -1}}"#).await, @"");
    insta::assert_snapshot!(refused(r#"{"retry": {"finalStatuses": [400, 408]}}"#).await, @"");
    insta::assert_snapshot!(refused(r#"{"timeout": 3}"#).await, @"");
    insta::assert_snapshot!(refused(r#"{"eventTypes": {"a b": {}}}"#).await, @"");
    insta::assert_snapshot!(refused(r#"{"eventTypes": {"a": {"rate": 1}}}"#).await, @"");
    insta::assert_snapshot!(refused(r#"{"legacySignature": {"header": "webhook-id"}}"#).await, @"");
    insta::assert_snapshot!(refused(r#"{"paused": true}"#).await, @"");
    insta::assert_snapshot!(world.put("/environment/policy", r#"{"timeoutSeconds": 0}"#).await, @"");
    insta::assert_snapshot!(world.put("/environment/policy", "[]").await, @"");
}
