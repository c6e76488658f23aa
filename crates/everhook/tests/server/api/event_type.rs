//! Event types.

use http::Method;
use serde_json::json;

use crate::api::world::{Call, World};

#[tokio::test]
async fn an_event_type_lives_from_create_to_expunge() {
    let world = World::new().await;
    let body = r#"{"name": "user.created", "description": "d", "schemas": {"1": {"type": "object", "b": 1, "a": 2}},
        "featureFlags": ["beta"], "groupName": "users"}"#;
    let created = world.post("/event-type", body).await;
    insta::assert_snapshot!(created, @r#"201 {"name":"user.created","description":"d","archived":false,"deprecated":false,"schemas":{"1":{"a":2,"b":1,"type":"object"}},"featureFlag":"beta","featureFlags":["beta"],"groupName":"users","createdAt":"<time>","updatedAt":"<time>"}"#);
    assert_eq!(world.get("/event-type/user.created").await.body, created.body);
    insta::assert_snapshot!(world.post("/event-type", body).await, @r#"409 {"code":"event_type_exists","detail":"An event type with this name already exists."}"#);
    insta::assert_snapshot!(world.get("/event-type").await, @r#"200 {"data":[{"name":"user.created","description":"d","archived":false,"deprecated":false,"schemas":null,"featureFlag":"beta","featureFlags":["beta"],"groupName":"users","createdAt":"<time>","updatedAt":"<time>"}],"iterator":"user.created","prevIterator":"-user.created","done":true}"#);
    assert_eq!(world.get("/event-type?with_content=true").await.json()["data"][0]["schemas"]["1"]["a"], 2);
    let patch = r#"{"schemas": null, "featureFlag": null, "deprecated": true}"#;
    insta::assert_snapshot!(world.patch("/event-type/user.created", patch).await, @r#"200 {"name":"user.created","description":"d","archived":false,"deprecated":true,"schemas":null,"featureFlag":null,"featureFlags":null,"groupName":"users","createdAt":"<time>","updatedAt":"<time>"}"#);
    insta::assert_snapshot!(world.put("/event-type/user.created", r#"{"description": "e"}"#).await, @r#"200 {"name":"user.created","description":"e","archived":false,"deprecated":false,"schemas":null,"featureFlag":null,"featureFlags":null,"groupName":null,"createdAt":"<time>","updatedAt":"<time>"}"#);
    assert_eq!(world.put("/event-type/user.deleted", r#"{"description": "new"}"#).await.status, 201);

    insta::assert_snapshot!(world.delete("/event-type/user.created").await, @"204");
    assert_eq!(world.get("/event-type/user.created").await.json()["archived"], true);
    assert_eq!(world.get("/event-type").await.each("name"), ["user.deleted"]);
    assert_eq!(world.get("/event-type?include_archived=true").await.each("name"), ["user.created", "user.deleted"]);
    let revived = world.post("/event-type", r#"{"name": "user.created", "description": "again"}"#).await;
    assert_eq!((revived.status.as_u16(), revived.json()["archived"].clone()), (201, json!(false)));
    assert_eq!(world.delete("/event-type/user.created?expunge=true").await.status, 204);
    assert_eq!(world.get("/event-type/user.created").await.status, 404);
    assert_eq!(world.delete("/event-type/user.created").await.status, 404);
    assert_eq!(world.delete("/event-type/user.created?expunge=true").await.status, 404);
    assert_eq!(world.patch("/event-type/user.created", "{}").await.status, 404);
}

#[tokio::test]
async fn a_change_of_an_event_type_replaces_schemas_and_flag_whole() {
    let world = World::new().await;
    let schemas = r#"{"1":{"const":null,"multipleOf":0.1}}"#;
    let body = format!(r#"{{"name": "a", "description": "d", "schemas": {schemas}, "featureFlag": "beta"}}"#);
    world.post("/event-type", &body).await;
    let patch = async |body: &str| world.patch("/event-type/a", body).await.json();
    let changed = patch(r#"{"description": "e", "featureFlags": ["gamma"]}"#).await;
    assert_eq!((changed["schemas"].to_string(), &changed["featureFlag"]), (schemas.to_owned(), &json!("gamma")));
    let changed = patch(r#"{"schemas": {"2": {"default": null}}, "featureFlags": null}"#).await;
    assert_eq!((&changed["schemas"], &changed["featureFlag"]), (&json!({"2": {"default": null}}), &json!(null)));
}

#[tokio::test]
async fn bad_event_types_are_refused_by_field() {
    let world = World::new().await;
    insta::assert_snapshot!(world.post("/event-type", r#"{"name": "a b", "description": ""}"#).await, @r#"422 {"detail":[{"loc":["body","name"],"msg":"may only contain letters, digits, '-', '_' and '.'","type":"value_error"}]}"#);
    insta::assert_snapshot!(world.post("/event-type", r#"{"name": "a"}"#).await, @r#"422 {"detail":[{"loc":["body"],"msg":"missing field `description` at line 1 column 13","type":"value_error.jsondecode"}]}"#);
    insta::assert_snapshot!(world.put("/event-type/a%20b", r#"{"description": ""}"#).await, @r#"422 {"detail":[{"loc":["path","event_type_name"],"msg":"may only contain letters, digits, '-', '_' and '.'","type":"value_error"}]}"#);
    let schema = r#"{"name": "a", "description": "", "schemas": {"1": {"type": "nonsense"}}}"#;
    insta::assert_snapshot!(world.post("/event-type", schema).await, @r#"422 {"detail":[{"loc":["body","schemas","1","type"],"msg":"must be a type or a list of different types: array, boolean, integer, null, number, object, string","type":"value_error"}]}"#);
    let flags = r#"{"name": "a", "description": "", "featureFlags": ["a", "b"]}"#;
    insta::assert_snapshot!(world.post("/event-type", flags).await, @r#"422 {"detail":[{"loc":["body","featureFlags"],"msg":"must have at most one entry","type":"value_error"}]}"#);
}

#[tokio::test]
async fn an_application_sees_the_types_behind_its_flags() {
    let world = World::new().await;
    let application = world.application("acme").await;
    for (name, flag) in [("a", "null"), ("b", "\"beta\""), ("c", "\"gamma\""), ("d", "null")] {
        let body = format!(r#"{{"name": "{name}", "description": "", "featureFlag": {flag}}}"#);
        assert_eq!(world.post("/event-type", &body).await.status, 201);
    }
    let body = r#"{"featureFlags": ["beta"]}"#;
    let token = world.post("/auth/app-portal-access/acme", body).await.text("/token");
    let get = async |path: &str| world.call(Call::new(Method::GET, path).bearer(&token)).await;
    assert_eq!(get("/event-type").await.each("name"), ["a", "b", "d"]);
    let first = get("/event-type?limit=2").await;
    assert_eq!(
        (first.each("name"), first.json()["done"].clone()),
        (vec!["a".to_owned(), "b".to_owned()], json!(false))
    );
    assert_eq!(get("/event-type?limit=2&iterator=b").await.each("name"), ["d"]);
    assert_eq!(get("/event-type/b").await.status, 200);
    assert_eq!(get("/event-type/c").await.status, 404);
    assert_eq!(get(&format!("/app/{application}")).await.status, 200);
}
