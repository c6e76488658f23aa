//! Event types from OpenAPI documents and from other environments.

use http::Method;
use serde_json::{Value, json};

use crate::api::world::{Answer, Call, World};

const IMPORT: &str = "/event-type/import/openapi";

fn spec(webhooks: Value) -> Value {
    json!({
        "openapi": "3.1.0",
        "webhooks": webhooks,
        "components": { "schemas": { "Invoice": { "type": "object", "properties": { "amount": { "type": "integer" } } } } },
    })
}

fn webhook(description: &str) -> Value {
    let schema = json!({ "$ref": "#/components/schemas/Invoice" });
    let body = json!({ "content": { "application/json": { "schema": schema } } });
    json!({ "post": { "description": description, "requestBody": body } })
}

async fn import(world: &World, body: Value) -> Answer {
    world.post(IMPORT, &body.to_string()).await
}

#[tokio::test]
async fn an_import_creates_changes_and_archives() {
    let world = World::new().await;
    for name in ["known", "gone", "revived"] {
        world.post("/event-type", &json!({"name": name, "description": "Before", "groupName": "g"}).to_string()).await;
    }
    world.delete("/event-type/revived").await;
    let spec = spec(json!({ "known": webhook("After"), "new": webhook("New"), "revived": webhook("Back") }));
    let answer = import(&world, json!({ "spec": spec })).await;
    insta::assert_snapshot!(answer, @r#"200 {"data":{"modified":["known","new","revived"]}}"#);
    let known = world.get("/event-type/known").await.json();
    assert_eq!((&known["description"], &known["groupName"]), (&json!("After"), &json!("g")), "the group stays");
    assert_eq!(known["schemas"]["1"]["properties"]["amount"]["type"], "integer");
    assert_eq!(world.get("/event-type").await.each("name"), ["gone", "known", "new", "revived"]);

    let again = import(&world, json!({ "spec": spec, "replaceAll": true })).await;
    insta::assert_snapshot!(again, @r#"200 {"data":{"modified":["gone"]}}"#);
    assert_eq!(world.get("/event-type/gone").await.json()["archived"], true);
}

#[tokio::test]
async fn a_dry_run_changes_nothing() {
    let world = World::new().await;
    let mut paid = webhook("Paid");
    paid["post"]["x-svix-feature-flags"] = json!(["beta"]);
    let answer = import(&world, json!({ "spec": spec(json!({ "paid": paid })), "dryRun": true })).await;
    insta::assert_snapshot!(answer, @r#"200 {"data":{"modified":[],"to_modify":[{"name":"paid","description":"Paid","deprecated":false,"schemas":{"1":{"properties":{"amount":{"type":"integer"}},"type":"object"}},"groupName":null,"featureFlag":"beta","featureFlags":["beta"]}]}}"#);
    assert_eq!(world.get("/event-type").await.each("name"), [""; 0]);
}

#[tokio::test]
async fn a_document_may_be_yaml() {
    let world = World::new().await;
    let yaml = "openapi: 3.0.3\nx-webhooks:\n  invoice.sent:\n    post:\n      summary: Sent\n";
    let answer = import(&world, json!({ "specRaw": yaml })).await;
    assert_eq!(answer.json()["data"]["modified"], json!(["invoice.sent"]));
    assert_eq!(world.get("/event-type/invoice.sent").await.text("/description"), "Sent");
    let bomb = "a: &a [x, x]\nb: &b [*a, *a]\nwebhooks: *b\n";
    for text in ["{", "a: [", bomb, "just text", "", "- webhooks"] {
        assert_eq!(import(&world, json!({ "specRaw": text })).await.status, 422, "{text}");
    }
}

#[tokio::test]
async fn a_document_that_is_not_valid_changes_nothing() {
    let world = World::new().await;
    let bad = spec(json!({ "good": webhook("Good"), "not a name": webhook("Bad") }));
    let refused = import(&world, json!({ "spec": bad })).await;
    assert_eq!(refused.status, 422);
    assert_eq!(refused.json()["detail"][0]["loc"], json!(["body", "spec", "webhooks", "not a name", "name"]));
    for body in [json!({}), json!({ "spec": spec(json!({})), "specRaw": "{}" })] {
        assert_eq!(import(&world, body).await.status, 400);
    }
    let many: serde_json::Map<String, Value> = (0..2001).map(|n| (format!("e{n}"), json!({}))).collect();
    assert_eq!(import(&world, json!({ "spec": spec(Value::Object(many)) })).await.status, 422);
    assert_eq!(world.get("/event-type?include_archived=true").await.each("name"), [""; 0]);
}

#[tokio::test]
async fn an_export_is_imported_elsewhere() {
    let world = World::new().await;
    world.post("/event-type", r#"{"name": "a", "description": "A", "schemas": {"1": {"type": "object"}}}"#).await;
    world.post("/event-type", r#"{"name": "b", "description": "B"}"#).await;
    world.delete("/event-type/b").await;
    let exported = world.post("/environment/export", "").await;
    insta::assert_snapshot!(exported, @r#"200 {"version":1,"createdAt":"<time>","eventTypes":[{"name":"a","description":"A","archived":false,"deprecated":false,"schemas":{"1":{"type":"object"}},"featureFlag":null,"featureFlags":null,"groupName":null,"createdAt":"<time>","updatedAt":"<time>"},{"name":"b","description":"B","archived":true,"deprecated":false,"schemas":null,"featureFlag":null,"featureFlags":null,"groupName":null,"createdAt":"<time>","updatedAt":"<time>"}],"settings":null,"connectors":[]}"#);
    let elsewhere = async |method: Method, path: &str, body: &str| {
        world.call(Call::new(method, path).bearer(&world.other_key).body(body)).await
    };
    for _ in 0..2 {
        let imported = elsewhere(Method::POST, "/environment/import", &exported.json().to_string()).await;
        assert_eq!(imported.status, 204, "{imported}");
    }
    let there = elsewhere(Method::GET, "/event-type?include_archived=true&with_content=true", "").await;
    assert_eq!(there.each("name"), ["a", "b"]);
    let moved = there.json();
    assert_eq!(
        (&moved["data"][0]["schemas"]["1"]["type"], &moved["data"][1]["archived"]),
        (&json!("object"), &json!(true))
    );
}

#[tokio::test]
async fn an_import_that_is_not_valid_changes_nothing() {
    let world = World::new().await;
    let good = json!({ "name": "good", "description": "" });
    let cases = [
        (
            json!({ "eventTypes": [good, { "name": "a b", "description": "" }] }),
            json!(["body", "eventTypes", "[1]", "name"]),
        ),
        (json!({ "eventTypes": [good, good] }), json!(["body", "eventTypes", "[1]", "name"])),
        (json!({ "eventTypes": [good], "connectors": [{}] }), json!(["body", "connectors"])),
        (
            json!({ "eventTypes": [good, { "name": "x", "description": "", "schemas": { "1": { "type": 5 } } }] }),
            json!(["body", "eventTypes", "[1]", "schemas", "1", "type"]),
        ),
    ];
    for (body, place) in cases {
        let refused = world.post("/environment/import", &body.to_string()).await;
        assert_eq!((refused.status.as_u16(), &refused.json()["detail"][0]["loc"]), (422, &place), "{refused}");
    }
    assert_eq!(world.get("/event-type").await.each("name"), [""; 0]);
    assert_eq!(world.post("/environment/import", r#"{"settings": {"any": 1}}"#).await.status, 204);
}
