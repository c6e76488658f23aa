//! Authentication of an endpoint's requests: material is stored, checked and never returned.

use serde_json::json;

use crate::api::world::World;

const AT: &str = "/app/acme/endpoint/main";
const IDENTITY: &str = include_str!("../../../../everhook-sender/tests/it/certificates/client.pem");
const CA: &str = include_str!("../../../../everhook-sender/tests/it/certificates/ca.pem");
const OAUTH: &str = r#"{"grantType": "clientCredentials", "authMethod": "clientSecretPost", "clientId": "me",
    "clientSecret": "canary", "tokenUrl": "https://issuer.example.com/token", "scopes": ["a", "b"],
    "extraParams": {"audience": "canary"}, "extraHeaders": {"X-Key": "canary"}}"#;

async fn world() -> World {
    let world = World::with_application().await;
    assert_eq!(world.post("/app/acme/endpoint", r#"{"url": "https://example.com/", "uid": "main"}"#).await.status, 201);
    world
}

#[tokio::test]
async fn basic_authentication_is_set_shown_without_password_and_removed() {
    let (world, at) = (world().await, &format!("{AT}/basic-auth"));
    assert_eq!(world.get(at).await.status, 404);
    assert_eq!(world.put(at, r#"{"username": "me", "password": "canary"}"#).await.status, 204);
    insta::assert_snapshot!(world.get(at).await, @r#"200 {"username":"me"}"#);
    for body in
        [r#"{"username": "a:b", "password": "p"}"#, r#"{"username": "", "password": "p"}"#, r#"{"username": "a"}"#]
    {
        assert_eq!(world.put(at, body).await.status, 422, "{body}");
    }
    assert_eq!(world.delete(at).await.status, 204);
    assert_eq!(world.delete(at).await.status, 204, "repeatable");
    assert_eq!(world.get(at).await.status, 404);
}

#[tokio::test]
async fn an_oauth_client_is_set_shown_without_secrets_and_removed() {
    let (world, at) = (world().await, &format!("{AT}/oauth"));
    assert_eq!(world.get(at).await.status, 404);
    insta::assert_snapshot!(world.get(&format!("{AT}/oauth-config")).await, @r#"200 {"enabled":false}"#);
    assert_eq!(world.put(at, OAUTH).await.status, 204);
    insta::assert_snapshot!(world.get(at).await, @r#"200 {"grantType":"clientCredentials","authMethod":"clientSecretPost","clientId":"me","tokenUrl":"https://issuer.example.com/token","scopes":["a","b"]}"#);
    let state = world.get(&format!("{AT}/oauth-config")).await;
    assert_eq!(state.json()["enabled"], true);
    assert!(!state.to_string().contains("canary") && !world.get(AT).await.to_string().contains("canary"));
    assert_eq!(world.delete(at).await.status, 204);
    assert_eq!(world.get(at).await.status, 404);
}

#[tokio::test]
async fn unsupported_and_unsafe_oauth_clients_are_refused_by_field() {
    let (world, at) = (world().await, &format!("{AT}/oauth"));
    for (field, value) in [
        ("grantType", json!("refreshToken")),
        ("authMethod", json!("clientSecretJwt")),
        ("clientId", json!("")),
        ("clientSecret", json!(null)),
        ("clientSecret", json!("a\nb")),
        ("tokenUrl", json!("http://10.0.0.1/token")),
        ("tokenUrl", json!("https://user:pass@issuer.example.com/")),
        ("tokenUrl", json!("https://issuer.example.com:6379/")),
        ("scopes", json!(["a b"])),
        ("extraParams", json!({ "client_secret": "x" })),
        ("extraHeaders", json!({ "Authorization": "x" })),
        ("extraHeaders", json!({ "Metadata-Flavor": "Google" })),
        ("jwtParams", json!({ "secretBase64": "x", "signingAlgorithm": "RS256" })),
        ("refreshToken", json!("x")),
    ] {
        let mut body: serde_json::Value = serde_json::from_str(OAUTH).unwrap();
        body[field] = value;
        let refused = world.put(at, &body.to_string()).await;
        assert_eq!((refused.status.as_u16(), refused.text("/detail/0/loc/1")), (422, field.to_owned()), "{body}");
    }
}

#[tokio::test]
async fn one_way_fills_the_header_of_authorization() {
    let world = world().await;
    let basic = r#"{"username": "me", "password": "p"}"#;
    assert_eq!(world.put(&format!("{AT}/oauth"), OAUTH).await.status, 204);
    assert_eq!(world.put(&format!("{AT}/basic-auth"), basic).await.status, 422);
    let headers = r#"{"headers": {"authorization": "Bearer x"}}"#;
    assert_eq!(world.put(&format!("{AT}/headers"), headers).await.status, 422);
    let put = r#"{"url": "https://example.com/", "headers": {"authorization": "Bearer x"}}"#;
    assert_eq!(world.put(AT, put).await.status, 422);
    assert_eq!(world.delete(&format!("{AT}/oauth")).await.status, 204);
    assert_eq!(world.put(&format!("{AT}/headers"), headers).await.status, 204);
    assert_eq!(world.put(&format!("{AT}/oauth"), OAUTH).await.status, 422);
    assert_eq!(world.put(&format!("{AT}/basic-auth"), basic).await.status, 422);
}

#[tokio::test]
async fn a_client_certificate_is_set_and_never_shown() {
    let (world, at) = (world().await, &format!("{AT}/mtls"));
    assert_eq!(world.get(at).await.status, 404);
    insta::assert_snapshot!(world.get(&format!("{AT}/mtls-config")).await, @r#"200 {"enabled":false}"#);
    assert_eq!(world.put(at, &json!({ "identity": IDENTITY }).to_string()).await.status, 204);
    insta::assert_snapshot!(world.get(at).await, @"200 {}");
    insta::assert_snapshot!(world.get(&format!("{AT}/mtls-config")).await, @r#"200 {"enabled":true,"config":{}}"#);
    for identity in ["", "nonsense", CA] {
        let refused = world.put(at, &json!({ "identity": identity }).to_string()).await;
        assert_eq!((refused.status.as_u16(), refused.text("/detail/0/loc/1")), (422, "identity".to_owned()));
    }
    assert_eq!(world.delete(at).await.status, 204);
    assert_eq!(world.get(at).await.status, 404);
}

#[tokio::test]
async fn an_authority_is_set_shown_and_removed() {
    let (world, at) = (world().await, &format!("{AT}/ca"));
    insta::assert_snapshot!(world.get(at).await, @r#"200 {"cert":null}"#);
    assert_eq!(world.put(at, &json!({ "cert": CA }).to_string()).await.status, 204);
    assert_eq!(world.get(at).await.json()["cert"], CA);
    assert_eq!(world.put(at, r#"{"cert": "nonsense"}"#).await.status, 422);
    assert_eq!(world.put(at, r#"{"cert": null}"#).await.status, 204);
    insta::assert_snapshot!(world.get(at).await, @r#"200 {"cert":null}"#);
}

#[tokio::test]
async fn material_that_cannot_take_effect_is_refused() {
    let world = world().await;
    world.endpoint("acme", "plain").await;
    let identity = json!({ "identity": IDENTITY }).to_string();
    assert_eq!(world.put("/app/acme/endpoint/plain/mtls", &identity).await.status, 422);
    assert_eq!(world.put("/app/acme/endpoint/plain/ca", &json!({ "cert": CA }).to_string()).await.status, 422);
    assert_eq!(world.post("/app/acme/endpoint", r#"{"url": "poll:", "uid": "polled"}"#).await.status, 201);
    assert_eq!(world.put("/app/acme/endpoint/polled/oauth", OAUTH).await.status, 422);
}

#[tokio::test]
async fn changes_of_the_endpoint_keep_the_material() {
    let world = world().await;
    assert_eq!(world.put(&format!("{AT}/oauth"), OAUTH).await.status, 204);
    assert_eq!(world.put(AT, r#"{"url": "https://example.com/other"}"#).await.status, 200);
    assert_eq!(world.patch(AT, r#"{"description": "d"}"#).await.status, 200);
    assert_eq!(world.get(&format!("{AT}/oauth")).await.status, 200);
}
