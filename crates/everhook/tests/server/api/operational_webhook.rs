//! Operational endpoints, and the events that they get.

use everhook_core::lifecycle::NextRow;
use everhook_core::operational::OPERATIONAL_APPLICATION;
use http::Method;
use serde_json::{Value, json};

use crate::api::world::{Call, World};

const PATH: &str = "/operational-webhook/endpoint";

/// The payloads of the events that are due.
async fn events(world: &World) -> Vec<Value> {
    let leased = world.lease().await;
    let told = leased.iter().filter_map(|leased| leased.message());
    let told = told.filter(|message| message.application == OPERATIONAL_APPLICATION);
    told.map(|message| serde_json::from_slice(message.payload.as_ref().unwrap()).unwrap()).collect()
}

#[tokio::test]
async fn an_operational_endpoint_lives_from_create_to_delete() {
    let world = World::new().await;
    let body = r#"{"url": "http://127.0.0.1:9", "uid": "alerts", "description": "Alerts", "throttleRate": 5,
        "eventTypes": ["endpoint.created"], "metadata": {"a": "b"}, "headers": {"X-Team": "1"}}"#;
    let created = world.post(PATH, body).await;
    insta::assert_snapshot!(created, @r#"201 {"id":"ep_#1","url":"http://127.0.0.1:9/","description":"Alerts","disabled":false,"uid":"alerts","throttleRate":5,"rateLimit":5,"eventTypes":["endpoint.created"],"filterTypes":["endpoint.created"],"metadata":{"a":"b"},"createdAt":"<time>","updatedAt":"<time>"}"#);
    let at = format!("{PATH}/alerts");
    assert_eq!(world.get(&at).await.body, created.body);
    assert_eq!(world.post(PATH, body).await.code(), (409, "conflict".to_owned()));
    assert_eq!(world.get(PATH).await.each("uid"), ["alerts"]);

    let put = r#"{"url": "https://example.com/", "disabled": true}"#;
    assert_eq!(world.put(&at, put).await.json()["disabled"], true);
    assert_eq!(world.put(&format!("{PATH}/other"), put).await.status, 201);
    assert_eq!(world.get(&format!("{at}/headers")).await.json()["headers"]["X-Team"], "1", "PUT keeps headers");
    let headers = r#"{"headers": {"authorization": "Bearer x"}}"#;
    assert_eq!(world.put(&format!("{at}/headers"), headers).await.status, 204);
    assert_eq!(world.get(&format!("{at}/headers")).await.json()["sensitive"], json!(["authorization"]));
    let old = world.get(&format!("{at}/secret")).await.text("/key");
    let rotated = world.post(&format!("{at}/secret/rotate"), "{}").await;
    assert_eq!(rotated.status, 200);
    assert_ne!(rotated.text("/key"), old);

    assert_eq!(world.delete(&at).await.status, 204);
    for answer in [world.get(&at).await, world.delete(&at).await, world.get(&format!("{at}/secret")).await] {
        assert_eq!(answer.code(), (404, "not_found".to_owned()));
    }
}

#[tokio::test]
async fn an_operational_endpoint_wants_known_events() {
    let world = World::new().await;
    world.post("/event-type", r#"{"name": "user.created", "description": ""}"#).await;
    let refused = world.post(PATH, r#"{"url": "https://example.com/", "eventTypes": ["user.created"]}"#).await;
    assert_eq!(refused.status, 422);
    assert_eq!(refused.json()["detail"][0]["loc"], json!(["body", "eventTypes"]));
}

#[tokio::test]
async fn operational_endpoints_are_the_environments_own() {
    let world = World::new().await;
    let id = world.post(PATH, r#"{"url": "https://example.com/"}"#).await.created();
    let elsewhere = async |path: &str| world.call(Call::new(Method::GET, path).bearer(&world.other_key)).await;
    assert_eq!(elsewhere(&format!("{PATH}/{id}")).await.status, 404);
    assert_eq!(elsewhere(PATH).await.each("id"), [""; 0]);
    assert_eq!(world.get("/app").await.each("id"), [""; 0], "the hidden application is not listed");
    for path in ["", "/endpoint", &format!("/endpoint/{id}"), "/msg"] {
        let path = format!("/app/{OPERATIONAL_APPLICATION}{path}");
        assert_eq!(world.get(&path).await.code(), (404, "not_found".to_owned()), "{path}");
    }
    world.application("acme").await;
    assert_eq!(world.get(&format!("/app/acme/endpoint/{id}")).await.status, 404);
    let own = world.endpoint("acme", "main").await;
    assert_eq!(world.get(&format!("{PATH}/{own}")).await.status, 404);
}

#[tokio::test]
async fn the_operator_is_told_of_endpoints_and_deliveries() {
    let world = World::new().await;
    let operational = world.post(PATH, r#"{"url": "https://example.com/"}"#).await.created();
    let application = world.application("acme").await;
    let endpoint = world.endpoint("acme", "main").await;
    let about = json!({"appId": application, "appUid": "acme", "endpointId": endpoint, "endpointUid": "main"});
    assert_eq!(events(&world).await, [json!({"type": "endpoint.created", "data": about})]);
    assert!(world.counts("everhook_messages_accepted_total 1"), "an event is a message");
    assert_eq!(world.get("/delivery").await.each("endpointId"), [operational], "its delivery is visible");

    world.patch("/app/acme/endpoint/main", r#"{"disabled": true}"#).await;
    let told = events(&world).await;
    assert_eq!((&told[0]["type"], &told[1]["type"]), (&json!("endpoint.updated"), &json!("endpoint.disabled")));
    assert_eq!(told[1]["data"]["trigger"], "manual");
    world.patch("/app/acme/endpoint/main", r#"{"disabled": false}"#).await;
    assert_eq!(events(&world).await[1]["type"], "endpoint.enabled");

    let message = world.message("acme", "a").await;
    assert_eq!(world.deliver(500, b"", NextRow::Dead).await, 1);
    let told = events(&world).await;
    assert_eq!((told.len(), &told[0]["type"]), (1, &json!("message.attempt.exhausted")));
    let data = &told[0]["data"];
    assert_eq!((&data["msgId"], &data["lastAttempt"]["responseStatusCode"]), (&json!(message), &json!(500)));
    world.delete("/app/acme/endpoint/main").await;
    assert_eq!(events(&world).await[0]["type"], "endpoint.deleted");
}
