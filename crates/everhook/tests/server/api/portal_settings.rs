//! The look of the consumer portal.

use http::Method;
use serde_json::json;

use crate::api::world::{Call, World};

const LOOK: &str = r##"{"name": "Osprey", "accent": "#5b5bd6", "backUrl": "https://osprey.example/"}"##;

#[tokio::test]
async fn the_portal_reads_the_look_that_the_operator_set() {
    let world = World::new().await;
    assert_eq!(world.get("/portal-settings").await.json(), json!({}));
    assert_eq!(world.put("/portal-settings", LOOK).await.status, 200);
    let want: serde_json::Value = serde_json::from_str(LOOK).unwrap();
    assert_eq!(world.get("/portal-settings").await.json(), want);
    world.application("acme").await;
    let body = r#"{"capabilities": ["ViewBase"]}"#;
    let token = world.post("/auth/app-portal-access/acme", body).await.text("/token");
    let with = |method| Call::new(method, "/portal-settings").bearer(&token);
    assert_eq!(world.call(with(Method::GET)).await.json(), want);
    assert_eq!(world.call(with(Method::PUT).body(LOOK)).await.status, 403, "customers do not change it");
    let there = world.call(Call::new(Method::GET, "/portal-settings").bearer(&world.other_key)).await;
    assert_eq!(there.json(), json!({}), "another environment");
    assert_eq!(world.put("/portal-settings", r#"{"name": "Kestrel"}"#).await.json(), json!({"name": "Kestrel"}));
}

#[tokio::test]
async fn a_bad_look_is_refused_by_field() {
    let world = World::new().await;
    let put = async |body: &str| world.put("/portal-settings", body).await.to_string();
    insta::assert_snapshot!(put(r#"{"logoUrl": "https://cdn.example/x.png"}"#).await, @r#"422 {"detail":[{"loc":["body","logoUrl"],"msg":"must be a data: URL of a PNG, JPEG, WebP or SVG image in base64","type":"value_error"}]}"#);
    insta::assert_snapshot!(put(r#"{"accent": "red"}"#).await, @r#"422 {"detail":[{"loc":["body","accent"],"msg":"must be a colour such as #5b5bd6","type":"value_error"}]}"#);
    insta::assert_snapshot!(put(r#"{"backUrl": "javascript:alert(1)"}"#).await, @r#"422 {"detail":[{"loc":["body","backUrl"],"msg":"must begin with https:// and have at most 2048 bytes","type":"value_error"}]}"#);
    assert_eq!(world.put("/portal-settings", r#"{"theme": "x"}"#).await.status, 422);
    assert_eq!(world.get("/portal-settings").await.json(), json!({}), "nothing was stored");
}
