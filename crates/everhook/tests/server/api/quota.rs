//! Quotas of the environment and of applications.

use std::time::Duration;

use http::Method;
use serde_json::json;

use crate::api::world::{Call, World};

const MESSAGE: &str = r#"{"eventType": "a.b", "payload": {}}"#;

async fn world() -> World {
    let world = World::with_application().await;
    world.application("other").await;
    world
}

/// Sends messages until one is refused; returns the number of accepted ones and the refusal. A world has two sessions
/// of nodes, so that its node has half of each rate.
async fn fill(world: &World, application: &str) -> (usize, String) {
    for accepted in 0..100 {
        let answer = world.post(&format!("/app/{application}/msg"), MESSAGE).await;
        if answer.status != 202 {
            let wait = answer.headers.get("retry-after").map(|wait| wait.to_str().unwrap().to_owned());
            return (accepted, format!("{answer} retry-after={}", wait.unwrap_or_default()));
        }
    }
    panic!("{application} accepts everything");
}

#[tokio::test]
async fn a_message_rate_refuses_with_429_and_says_when_to_try_again() {
    let world = world().await;
    let quota = r#"{"messageRate": {"count": 1, "seconds": 3600, "burst": 6}}"#;
    assert_eq!(
        world.put("/app/acme/quota", quota).await.json(),
        serde_json::from_str::<serde_json::Value>(quota).unwrap()
    );
    let (accepted, refused) = fill(&world, "acme").await;
    assert_eq!(accepted, 3);
    let (answer, wait) = refused.rsplit_once(" retry-after=").unwrap();
    assert!(
        answer.starts_with(r#"429 {"code":"quota_exceeded","detail":"The application exceeds the message rate"#),
        "{answer}"
    );
    assert!((1..=7200).contains(&wait.parse().unwrap()), "{wait}");
    assert!(world.counts(r#"everhook_quota_refusals_total{quota="message_rate"} 1"#));
    let batch = r#"{"messages": [{"eventType": "a.b", "payload": {}}]}"#;
    assert_eq!(world.post("/app/acme/msg/batch", batch).await.code(), (429, "quota_exceeded".to_owned()));
    assert_eq!(world.post("/app/other/msg", MESSAGE).await.status, 202, "the quota of another application");
    assert_eq!(world.put("/app/acme/quota", "{}").await.json(), json!({}));
    assert_eq!(world.post("/app/acme/msg", MESSAGE).await.status, 202);
}

#[tokio::test]
async fn an_environment_bounds_all_applications_and_each_of_them() {
    let world = world().await;
    let rate = |count| json!({ "count": count, "seconds": 3600 });
    let quota = json!({ "messageRate": rate(10), "eachApplication": { "messageRate": rate(6) } });
    assert_eq!(world.put("/environment/quota", &quota.to_string()).await.json(), quota);
    assert_eq!(world.get("/environment/quota").await.json(), quota);
    assert_eq!(fill(&world, "acme").await.0, 3);
    let (accepted, refused) = fill(&world, "other").await;
    assert_eq!(accepted, 2);
    assert!(refused.contains("The environment exceeds"), "{refused}");
    assert_eq!(world.get("/app/acme/usage").await.json()["messageRate"], rate(6));
    // An application without a limit of its own, and none by default.
    assert_eq!(world.put("/app/acme/quota", r#"{"messageRate": "none"}"#).await.status, 200);
    let each = json!({ "eachApplication": { "messageRate": rate(1) } });
    assert_eq!(world.put("/environment/quota", &each.to_string()).await.status, 200);
    assert_eq!(world.get("/app/acme/usage").await.json()["messageRate"], json!(null));
    assert_eq!(world.post("/app/acme/msg", MESSAGE).await.status, 202);
}

#[tokio::test]
async fn stored_messages_are_bounded() {
    let world = world().await;
    for _ in 0..3 {
        assert_eq!(world.post("/app/acme/msg", MESSAGE).await.status, 202);
    }
    assert_eq!(world.put("/app/acme/quota", r#"{"storedMessages": 5}"#).await.status, 200);
    // The first message makes the node count. Until then, messages are accepted.
    let mut accepted = 0;
    let refused = loop {
        let answer = world.post("/app/acme/msg", MESSAGE).await;
        if answer.status != 202 {
            break answer;
        }
        accepted += 1;
        assert!(accepted < 1000, "nothing is refused");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    insta::assert_snapshot!(refused, @r#"429 {"code":"quota_exceeded","detail":"The application stores as many messages as its quota allows: wait for their retention, or raise it."}"#);
    assert!(accepted >= 2);
    let usage = world.get("/app/acme/usage").await.json();
    assert_eq!(usage["storedMessages"], json!({ "used": 3 + accepted, "atLeast": false, "limit": 5 }));
    assert_eq!(world.post("/app/other/msg", MESSAGE).await.status, 202);
    assert_eq!(world.put("/app/acme/quota", r#"{"storedMessages": 5000}"#).await.status, 200);
    assert_eq!(world.post("/app/acme/msg", MESSAGE).await.status, 202);
}

#[tokio::test]
async fn endpoints_are_bounded_and_a_repeated_creation_still_succeeds() {
    let world = world().await;
    assert_eq!(
        world.put("/environment/quota", r#"{"endpoints": 3, "eachApplication": {"endpoints": 2}}"#).await.status,
        200
    );
    let body = r#"{"url": "https://example.com/"}"#;
    let create = async |application: &str, key: &str| {
        let call = Call::new(Method::POST, &format!("/app/{application}/endpoint")).header("idempotency-key", key);
        world.call(call.body(body)).await
    };
    assert_eq!(create("acme", "1").await.status, 201);
    assert_eq!(create("acme", "2").await.status, 201);
    insta::assert_snapshot!(create("acme", "3").await, @r#"400 {"code":"limit_reached","detail":"An application has at most 2 endpoints: delete one first."}"#);
    assert_eq!(create("other", "4").await.status, 201);
    insta::assert_snapshot!(create("other", "5").await, @r#"400 {"code":"limit_reached","detail":"The quota of the environment is 3 endpoints: delete one first, or raise it."}"#);
    assert_eq!(create("acme", "1").await.status, 201, "repeated");
    assert_eq!(world.put("/app/other/endpoint/by-uid", body).await.code(), (400, "limit_reached".to_owned()));
    let usage = world.get("/environment/usage").await.json();
    assert_eq!(usage["endpoints"], json!({ "used": 3, "atLeast": false, "limit": 3 }));
    assert!(world.counts(r#"everhook_quota_refusals_total{quota="endpoints"} 3"#));
    let operational = r#"{"url": "https://example.com/ops"}"#;
    assert_eq!(world.post("/operational-webhook/endpoint", operational).await.status, 201, "not counted");
}

#[tokio::test]
async fn quotas_belong_to_operators_of_their_environment() {
    let world = world().await;
    assert_eq!(world.put("/environment/quota", r#"{"endpoints": 9}"#).await.status, 200);
    let there = Call::new(Method::GET, "/environment/quota").bearer(&world.other_key);
    assert_eq!(world.call(there).await.json(), json!({}));
    let body = r#"{"capabilities": ["ViewBase", "ManageEndpoint"]}"#;
    let token = world.post("/auth/app-portal-access/acme", body).await.text("/token");
    for (method, path) in
        [(Method::GET, "/app/acme/quota"), (Method::PUT, "/app/acme/quota"), (Method::GET, "/app/acme/usage")]
    {
        assert_eq!(world.call(Call::new(method, path).bearer(&token).body("{}")).await.status, 403, "{path}");
    }
    assert_eq!(world.get("/app/nobody/quota").await.status, 404);
    let entries = world.get("/audit?action=v1.quota.put").await.json();
    assert_eq!(entries["data"][0]["object"], "/environment/quota");
}

#[tokio::test]
async fn bad_quotas_are_refused_by_field() {
    let world = world().await;
    let put = async |body: &str| world.put("/environment/quota", body).await.to_string();
    insta::assert_snapshot!(put(r#"{"messages": 3}"#).await, @r#"422 {"detail":[{"loc":["body","messages"],"msg":"is not a known field: did you mean `messageRate`?","type":"value_error"}]}"#);
    insta::assert_snapshot!(put(r#"{"endpoints": -1}"#).await, @r#"422 {"detail":[{"loc":["body","endpoints"],"msg":"invalid type: integer `-1`, expected \"none\" or the value of the setting at line 1 column 16","type":"value_error.jsondecode"}]}"#);
    insta::assert_snapshot!(put(r#"{"messageRate": {"count": 1}}"#).await, @r#"422 {"detail":[{"loc":["body","messageRate"],"msg":"missing field `seconds` at line 1 column 28","type":"value_error.jsondecode"}]}"#);
    insta::assert_snapshot!(put(r#"{"messageRate": {"count": 0, "seconds": 1}}"#).await, @r#"422 {"detail":[{"loc":["body","messageRate","count"],"msg":"must be 1 to 100000","type":"value_error"}]}"#);
    insta::assert_snapshot!(put(r#"{"messageRate": {"count": 1, "seconds": 1, "per": "app"}}"#).await, @r#"422 {"detail":[{"loc":["body","messageRate","per"],"msg":"is not a known field: use one of count, seconds, burst","type":"value_error"}]}"#);
    insta::assert_snapshot!(put(r#"{"eachApplication": {"storedMessages": 9999999999999}}"#).await, @r#"422 {"detail":[{"loc":["body","eachApplication","storedMessages"],"msg":"must be at most 1000000000000, or \"none\"","type":"value_error"}]}"#);
    assert_eq!(world.get("/environment/quota").await.json(), json!({}), "nothing was stored");
}
