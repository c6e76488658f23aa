//! Applications.

use crate::api::world::World;

#[tokio::test]
async fn an_application_lives_from_create_to_delete() {
    let world = World::new().await;
    let body = r#"{"name": "Acme", "uid": "acme", "rateLimit": 7, "metadata": {"a": "b"}, "unknown": [1]}"#;
    let created = world.post("/app", body).await;
    insta::assert_snapshot!(created, @r#"201 {"id":"app_#1","name":"Acme","uid":"acme","throttleRate":7,"rateLimit":7,"metadata":{"a":"b"},"createdAt":"<time>","updatedAt":"<time>"}"#);
    let id = created.created();
    assert_eq!(world.get(&format!("/app/{id}")).await.body, created.body);
    assert_eq!(world.get("/app/acme/").await.body, created.body, "by uid, with a trailing slash");
    insta::assert_snapshot!(world.put("/app/acme", r#"{"name": "Acme 2"}"#).await, @r#"200 {"id":"app_#1","name":"Acme 2","uid":"acme","throttleRate":null,"metadata":{},"createdAt":"<time>","updatedAt":"<time>"}"#);
    insta::assert_snapshot!(world.patch("/app/acme", r#"{"throttleRate": 3, "metadata": {"c": "d"}}"#).await, @r#"200 {"id":"app_#1","name":"Acme 2","uid":"acme","throttleRate":3,"rateLimit":3,"metadata":{"c":"d"},"createdAt":"<time>","updatedAt":"<time>"}"#);
    insta::assert_snapshot!(world.patch("/app/acme", r#"{"throttleRate": null, "uid": null}"#).await, @r#"200 {"id":"app_#1","name":"Acme 2","throttleRate":null,"metadata":{"c":"d"},"createdAt":"<time>","updatedAt":"<time>"}"#);
    insta::assert_snapshot!(world.delete(&format!("/app/{id}")).await, @"204");
    insta::assert_snapshot!(world.get(&format!("/app/{id}")).await, @r#"404 {"code":"not_found","detail":"application app_#1 not found"}"#);
    insta::assert_snapshot!(world.delete(&format!("/app/{id}")).await, @r#"404 {"code":"not_found","detail":"application app_#1 not found"}"#);
}

#[tokio::test]
async fn a_uid_is_taken_once() {
    let world = World::new().await;
    let id = world.application("acme").await;
    let second = r#"{"name": "Another", "uid": "acme"}"#;
    insta::assert_snapshot!(world.post("/app", second).await, @r#"409 {"code":"conflict","detail":"An application with this uid already exists."}"#);
    let existing = world.post("/app?get_if_exists=true", second).await;
    assert_eq!((existing.status.as_u16(), existing.created()), (200, id.clone()));
    let another = world.application("another").await;
    assert_eq!(world.patch(&format!("/app/{another}"), r#"{"uid": "acme"}"#).await.code().0, 409);
    assert_eq!(world.put(&format!("/app/{another}"), second).await.code().0, 409);
    assert_eq!(world.delete("/app/acme").await.status, 204);
    assert_eq!(world.post("/app", second).await.status, 201, "the uid is free again");
}

#[tokio::test]
async fn put_creates_under_an_unknown_uid_but_not_under_an_unknown_id() {
    let world = World::new().await;
    let created = world.put("/app/acme", r#"{"name": "Acme"}"#).await;
    assert_eq!((created.status.as_u16(), created.text("/uid")), (201, "acme".to_owned()));
    let again = world.put("/app/acme", r#"{"name": "Acme"}"#).await;
    assert_eq!((again.status.as_u16(), again.created()), (200, created.created()));
    let renamed = world.put("/app/acme", r#"{"name": "Acme", "uid": "acme-2"}"#).await;
    assert_eq!((renamed.status.as_u16(), renamed.text("/uid")), (200, "acme-2".to_owned()));
    let unknown = world.put("/app/app_23rb8YdGqMT0qIzpgGwdXfHirMu", r#"{"name": "Acme"}"#).await;
    assert_eq!(unknown.status, 404);
}

#[tokio::test]
async fn bad_applications_are_refused_by_field() {
    let world = World::new().await;
    insta::assert_snapshot!(world.post("/app", r#"{"uid": "acme"}"#).await, @r#"422 {"detail":[{"loc":["body"],"msg":"missing field `name` at line 1 column 15","type":"value_error.jsondecode"}]}"#);
    insta::assert_snapshot!(world.post("/app", r#"{"name": ""}"#).await, @r#"422 {"detail":[{"loc":["body","name"],"msg":"must not be empty","type":"value_error"}]}"#);
    insta::assert_snapshot!(world.post("/app", r#"{"name": "a\u0000b"}"#).await, @r#"422 {"detail":[{"loc":["body","name"],"msg":"must not contain control characters","type":"value_error"}]}"#);
    insta::assert_snapshot!(world.post("/app", r#"{"name": "a", "uid": "app_1"}"#).await, @r#"422 {"detail":[{"loc":["body","uid","__all__"],"msg":"must not start with \"app_\", which is reserved for ids","type":"value_error"}]}"#);
    insta::assert_snapshot!(world.post("/app", r#"{"name": "a", "throttleRate": 0}"#).await, @r#"422 {"detail":[{"loc":["body","throttleRate"],"msg":"must be at least 1","type":"value_error"}]}"#);
    insta::assert_snapshot!(world.post("/app", r#"{"name": "a", "metadata": {"a": 1}}"#).await, @r#"422 {"detail":[{"loc":["body","metadata","a"],"msg":"invalid type: integer `1`, expected a string at line 1 column 33","type":"value_error.jsondecode"}]}"#);
    insta::assert_snapshot!(world.post("/app", r#"{"name": "a", "metadata": {"a": "\u0000"}}"#).await, @r#"422 {"detail":[{"loc":["body","metadata"],"msg":"must not contain control characters","type":"value_error"}]}"#);
    world.application("acme").await;
    insta::assert_snapshot!(world.patch("/app/acme", r#"{"name": null}"#).await, @r#"422 {"detail":[{"loc":["body","name"],"msg":"invalid type: null, expected a string at line 1 column 13","type":"value_error.jsondecode"}]}"#);
    let large = format!(r#"{{"name": "a", "metadata": {{"a": "{}"}}}}"#, "x".repeat(4096));
    insta::assert_snapshot!(world.post("/app", &large).await, @r#"422 {"detail":[{"loc":["body","metadata"],"msg":"metadata must have at most 4096 bytes as JSON","type":"value_error"}]}"#);
    assert_eq!(world.post("/app", r#"{"name": "a", "metadata": null}"#).await.status, 201);
}

#[tokio::test]
async fn applications_are_listed_by_their_endpoints() {
    let world = World::new().await;
    for uid in ["none", "enabled", "disabled"] {
        world.application(uid).await;
    }
    world.endpoint("enabled", "main").await;
    world.endpoint("disabled", "main").await;
    assert_eq!(world.patch("/app/disabled/endpoint/main", r#"{"disabled": true}"#).await.status, 200);
    let list = async |query: &str| world.get(&format!("/app?{query}")).await.each("uid");
    assert_eq!(list("exclude_apps_with_no_endpoints=false").await, ["none", "enabled", "disabled"]);
    assert_eq!(list("exclude_apps_with_no_endpoints=true").await, ["enabled", "disabled"]);
    assert_eq!(list("exclude_apps_with_disabled_endpoints=true").await, ["none", "enabled"]);
    let both = "exclude_apps_with_no_endpoints=true&exclude_apps_with_disabled_endpoints=true&limit=1";
    assert_eq!(list(both).await, ["enabled"]);
}
