//! Keys and tokens, and the routes that each may use.

use std::time::Duration;

use everhook_core::api_key::ApiKey;
use everhook_core::id::{DEFAULT_ORG, TokenKeyId};
use everhook_core::token::{TokenKeyChange, TokenSecret};
use everhook_store::catalog::{KeyChange, NewTokenKey};
use everhook_store::query;
use everhook_store::store::{Reads, Store};
use http::Method;
use jsonwebtoken::{EncodingKey, Header};
use serde_json::json;

use crate::api::world::{Answer, Call, HOST, OTHER_ORG, SECRET, Switches, World};

/// A time that no test lives to see.
const LATER: i64 = 9_000_000_000;

async fn as_bearer(world: &World, token: &str, path: &str) -> Answer {
    world.call(Call::new(Method::GET, path).bearer(token)).await
}

#[tokio::test]
async fn without_a_valid_key_there_is_no_access() {
    let world = World::new().await;
    insta::assert_snapshot!(world.call(Call::new(Method::GET, "/app").anonymous()).await, @r#"401 {"code":"authentication_failed","detail":"Send an API key as `Authorization: Bearer <key>`."}"#);
    insta::assert_snapshot!(as_bearer(&world, "nonsense", "/app").await, @r#"401 {"code":"authentication_failed","detail":"Invalid token"}"#);
    insta::assert_snapshot!(as_bearer(&world, SECRET, "/app").await, @r#"401 {"code":"authentication_failed","detail":"This is the secret that tokens are signed with, not a token: create an API key, or sign a token with it."}"#);
    let basic = Call::new(Method::GET, "/app").header("authorization", &format!("Basic {}", world.key));
    assert_eq!(world.call(basic).await.status, 401);
    let unknown = ApiKey::generate([9; 64]);
    assert_eq!(as_bearer(&world, unknown.expose(), "/app").await.status, 401);
    let lower = Call::new(Method::GET, "/app").header("authorization", &format!("bearer {}", world.key));
    assert_eq!(world.call(lower).await.status, 200);
    let keys_only = World::with_secret(None).await;
    let token = World::token(&json!({"sub": DEFAULT_ORG, "exp": LATER}));
    assert_eq!(as_bearer(&keys_only, &token, "/app").await.status, 401);
}

#[tokio::test]
async fn a_revoked_key_stops_within_seconds() {
    let world = World::new().await;
    assert_eq!(world.get("/app").await.status, 200);
    for record in world.store.read(query::Keys {}).await.unwrap() {
        assert!(world.store.change_key(record.id, KeyChange::Revoke).await.unwrap());
    }
    world.pass(Duration::from_secs(3)).await;
    assert_eq!(world.get("/app").await.status, 401);
}

#[tokio::test]
async fn an_admin_key_chooses_its_environment() {
    let world = World::new().await;
    let other = Call::new(Method::POST, "/app").bearer(&world.other_key).body(r#"{"name": "a", "uid": "theirs"}"#);
    assert_eq!(world.call(other).await.status, 201);
    world.application("ours").await;
    let list = async |environment: &str| {
        let call = Call::new(Method::GET, "/app").bearer(&world.admin_key).header("everhook-environment", environment);
        world.call(call).await
    };
    assert_eq!(list("").await.each("uid"), ["ours"], "the default environment");
    assert_eq!(list("other").await.each("uid"), ["theirs"]);
    assert_eq!(list(OTHER_ORG).await.each("uid"), ["theirs"]);
    insta::assert_snapshot!(list("nowhere").await, @r#"404 {"code":"not_found","detail":"No environment has the name or id of the everhook-environment header."}"#);
    let call = Call::new(Method::GET, "/app").header("everhook-environment", "other");
    assert_eq!(world.call(call).await.each("uid"), ["ours"], "a key of one environment stays there");
}

#[tokio::test]
async fn a_token_stands_for_an_environment() {
    let world = World::new().await;
    world.application("ours").await;
    let with = async |claims| as_bearer(&world, &World::token(&claims), "/app").await;
    assert_eq!(with(json!({"sub": DEFAULT_ORG, "exp": LATER})).await.each("uid"), ["ours"]);
    let fresh = "org_23rb8YdGqMT0qIzpgGwdXfHirMw";
    assert_eq!(
        with(json!({"sub": fresh, "iss": "anyone", "exp": LATER})).await.each("uid"),
        [""; 0],
        "an unknown one comes into being"
    );
    assert!(world.store.read(query::Environments {}).await.unwrap().iter().any(|known| known.org.to_string() == fresh));

    insta::assert_snapshot!(with(json!({"sub": DEFAULT_ORG, "exp": 1_000_000_000})).await, @r#"401 {"code":"authentication_failed","detail":"The token has expired, or is not valid yet."}"#);
    assert_eq!(with(json!({"sub": DEFAULT_ORG, "nbf": LATER, "exp": LATER})).await.status, 401);
    assert_eq!(with(json!({"sub": DEFAULT_ORG, "exp": 9_000_000_000.5, "nbf": 5})).await.status, 200);
    insta::assert_snapshot!(with(json!({"sub": DEFAULT_ORG})).await, @r#"401 {"code":"authentication_failed","detail":"The token has no `exp`: sign one that expires."}"#);
    insta::assert_snapshot!(with(json!({"exp": LATER})).await, @r#"401 {"code":"authentication_failed","detail":"The token has no `sub`."}"#);
    insta::assert_snapshot!(with(json!({"sub": "org_nonsense", "exp": LATER})).await, @r#"400 {"code":"bad_token","detail":"The token contains an invalid id."}"#);
    let token = World::token(&json!({"sub": DEFAULT_ORG, "exp": LATER}));
    assert_eq!(as_bearer(&world, &token[..token.len() - 2], "/app").await.status, 401);
    let none = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.eyJzdWIiOiJvcmdfMjNyYjhZZEdxTVQwcUl6cGdHd2RYZkhpck11In0.";
    assert_eq!(as_bearer(&world, none, "/app").await.status, 401);
}

#[tokio::test]
async fn a_token_of_an_application_reaches_only_that() {
    let world = World::with_application().await;
    world.application("other").await;
    let access = world.post("/auth/app-portal-access/acme", "{}").await;
    assert_eq!(access.status, 200, "{access}");
    let token = access.text("/token");
    assert_eq!(as_bearer(&world, &token, "/app/acme").await.status, 200);
    insta::assert_snapshot!(as_bearer(&world, &token, "/app/other").await, @r#"404 {"code":"not_found","detail":"application \"other\" not found"}"#);
    insta::assert_snapshot!(as_bearer(&world, &token, "/app").await, @r#"403 {"code":"insufficient access","detail":"Insufficient access for the given operation: use a key or token of the environment."}"#);
    let post = Call::new(Method::POST, "/app/acme/msg").bearer(&token).body(r#"{"eventType": "a", "payload": {}}"#);
    assert_eq!(world.call(post).await.status, 403);
    let create = Call::new(Method::POST, "/app/acme/endpoint").bearer(&token).body(r#"{"url": "https://a.example"}"#);
    assert_eq!(world.call(create).await.status, 201);
    let id = world.get("/app/acme").await.text("/id");
    let elsewhere = World::token(&json!({"sub": id, "org": OTHER_ORG, "exp": LATER}));
    assert_eq!(as_bearer(&world, &elsewhere, "/app/acme").await.status, 404);
    world.pass(Duration::from_secs(7 * 24 * 3600)).await;
    assert_eq!(as_bearer(&world, &token, "/app/acme").await.status, 200, "within the leeway for clocks");
    world.pass(Duration::from_secs(60)).await;
    assert_eq!(as_bearer(&world, &token, "/app/acme").await.status, 401, "it has expired");
}

#[tokio::test]
async fn a_token_with_critical_extensions_is_refused() {
    let world = World::new().await;
    let claims = json!({"sub": DEFAULT_ORG, "exp": LATER});
    for crit in [vec!["b64".to_owned()], Vec::new()] {
        let header = Header { crit: Some(crit), ..Header::default() };
        let token = jsonwebtoken::encode(&header, &claims, &EncodingKey::from_secret(SECRET.as_bytes())).unwrap();
        let answer = as_bearer(&world, &token, "/app").await;
        insta::allow_duplicates!(
            insta::assert_snapshot!(answer, @r#"401 {"code":"authentication_failed","detail":"The token has a `crit` header: no extension is supported."}"#)
        );
    }
}

#[tokio::test]
async fn a_portal_token_lives_as_long_as_the_request_says() {
    let world = World::with_application().await;
    let token = world.post("/auth/app-portal-access/acme", r#"{"expiry": 3600}"#).await.text("/token");
    world.pass(Duration::from_secs(3599)).await;
    assert_eq!(as_bearer(&world, &token, "/app/acme").await.status, 200);
    world.pass(Duration::from_secs(61)).await;
    assert_eq!(as_bearer(&world, &token, "/app/acme").await.status, 401);
    for expiry in [0, 3599, 604_801] {
        let answer = world.post("/auth/app-portal-access/acme", &json!({ "expiry": expiry }).to_string()).await;
        insta::allow_duplicates!(
            insta::assert_snapshot!(answer, @r#"422 {"detail":[{"loc":["body","expiry"],"msg":"must be from 3600 to 604800 seconds","type":"value_error"}]}"#)
        );
    }
}

#[tokio::test]
async fn a_portal_token_allows_what_the_request_says() {
    let world = World::with_endpoint().await;
    let may = async |body: serde_json::Value| {
        let token = world.post("/auth/app-portal-access/acme", &body.to_string()).await.text("/token");
        let endpoint = "/app/acme/endpoint/main";
        let calls = [
            Call::new(Method::GET, endpoint),
            Call::new(Method::GET, &format!("{endpoint}/secret")),
            Call::new(Method::POST, &format!("{endpoint}/secret/rotate")).body("{}"),
            Call::new(Method::POST, &format!("{endpoint}/redrive")),
            Call::new(Method::PATCH, endpoint).body("{}"),
        ];
        let mut may = String::new();
        for (call, name) in calls.into_iter().zip(["read", "secret", "rotate", "redrive", "change"]) {
            let answer = world.call(call.bearer(&token)).await;
            assert!(answer.status.is_success() || answer.status == 403, "{answer}");
            may += if answer.status.is_success() { name } else { "-" };
            may += " ";
        }
        may.trim_end().to_owned()
    };
    assert_eq!(may(json!({})).await, "read secret rotate redrive change");
    assert_eq!(may(json!({ "readOnly": false, "featureFlags": [] })).await, "read secret rotate redrive change");
    assert_eq!(may(json!({ "readOnly": true })).await, "read - - - -");
    assert_eq!(may(json!({ "capabilities": ["ViewBase"] })).await, "read - - - -");
    assert_eq!(may(json!({ "capabilities": ["ViewEndpointSecret", "ViewBase"] })).await, "read secret - - -");
    assert_eq!(may(json!({ "capabilities": ["ViewBase", "ManageEndpointSecret"] })).await, "read secret rotate - -");
    assert_eq!(may(json!({ "capabilities": ["ViewBase", "CreateAttempts"] })).await, "read - - redrive -");
    let manage = json!({ "capabilities": ["ViewBase", "ManageEndpoint"] });
    assert_eq!(may(manage).await, "read secret rotate - change");
    let both = json!({ "capabilities": ["ViewBase", "ManageEndpoint"], "readOnly": true });
    assert_eq!(may(both).await, "read - - - -");
}

#[tokio::test]
async fn a_request_for_a_portal_token_is_checked() {
    let world = World::with_application().await;
    let refused = async |body: &str| world.post("/auth/app-portal-access/acme", body).await;
    insta::assert_snapshot!(refused(r#"{"capabilities": ["ManageEndpoint"]}"#).await, @r#"422 {"detail":[{"loc":["body","capabilities"],"msg":"must contain ViewBase","type":"value_error"}]}"#);
    insta::assert_snapshot!(refused(r#"{"capabilities": ["ViewBase", "Fly"]}"#).await, @r#"422 {"detail":[{"loc":["body","capabilities"],"msg":"must be ViewBase, ViewEndpointSecret, ManageEndpointSecret, ManageTransformations, CreateAttempts or ManageEndpoint","type":"value_error"}]}"#);
    insta::assert_snapshot!(refused(r#"{"sessionId": "a b"}"#).await, @r#"422 {"detail":[{"loc":["body","sessionId"],"msg":"must have 1 to 64 letters, digits, '@', '_' and '-'","type":"value_error"}]}"#);
    let flags: Vec<String> = (0..26).map(|n| format!("flag-{n}")).collect();
    insta::assert_snapshot!(refused(&json!({ "featureFlags": flags }).to_string()).await, @r#"422 {"detail":[{"loc":["body","featureFlags"],"msg":"must have at most 25 entries","type":"value_error"}]}"#);
    let answer = refused(r#"{"sessionId": "a-b@c_1", "featureFlags": ["beta"], "someNewField": 1}"#).await;
    assert_eq!(answer.status, 200, "{answer}");
}

#[tokio::test]
async fn the_old_path_of_portal_tokens_works_without_a_body() {
    let world = World::with_application().await;
    for body in ["null", "", "{}"] {
        for path in ["/auth/dashboard-access/acme", "/auth/app-portal-access/acme"] {
            let token = world.post(path, body).await.text("/token");
            assert_eq!(as_bearer(&world, &token, "/app/acme").await.status, 200);
        }
    }
    assert_eq!(world.post("/auth/dashboard-access/acme", "[]").await.status, 422);
}

#[tokio::test]
async fn the_server_signs_portal_tokens_with_a_key_of_its_own() {
    for secret in [None, Some(SECRET)] {
        let world = World::with_secret(secret).await;
        world.application("acme").await;
        let access = async || world.post("/auth/app-portal-access/acme", "{}").await.text("/token");
        let (first, second) = (access().await, access().await);
        assert_ne!(first, second, "tokens of the same second differ");
        let keys = world.store.read(query::TokenKeys {}).await.unwrap();
        assert_eq!(keys.len(), 1, "it is made once");
        let header = jsonwebtoken::decode_header(&first).unwrap();
        assert_eq!(header.kid, Some(keys[0].id.to_string()));
        for token in [&first, &second] {
            assert_eq!(as_bearer(&world, token, "/app/acme").await.status, 200);
        }
        // The key signs for applications only.
        let header = Header { kid: header.kid, ..Header::default() };
        let sign = |claims, key: &[u8]| jsonwebtoken::encode(&header, &claims, &EncodingKey::from_secret(key)).unwrap();
        let claims = json!({"sub": DEFAULT_ORG, "exp": LATER});
        assert_eq!(as_bearer(&world, &sign(claims.clone(), &keys[0].secret.0), "/app").await.status, 401);
        assert_eq!(as_bearer(&world, &sign(claims, SECRET.as_bytes()), "/app").await.status, 401);
    }
    let world = World::new().await;
    assert_eq!(world.post("/auth/app-portal-access/nobody", "{}").await.status, 404);
    let body = r#"{"application": {"name": "New", "uid": "new"}}"#;
    assert_eq!(world.post("/auth/app-portal-access/new", body).await.status, 200);
    assert_eq!(world.get("/app/new").await.status, 200);
}

#[tokio::test]
async fn a_rotated_key_verifies_old_tokens_and_a_revoked_one_does_not() {
    let world = World::with_secret(None).await;
    world.application("acme").await;
    let access = async || world.post("/auth/app-portal-access/acme", "{}").await.text("/token");
    let works = async |token: &str| as_bearer(&world, token, "/app/acme").await.status == 200;
    let put = async |byte, change| {
        let key = NewTokenKey { id: TokenKeyId(world.node.new_id()), secret: TokenSecret([byte; 32]) };
        world.store.put_token_key(key, change).await.unwrap();
    };
    let first = access().await;
    put(1, TokenKeyChange::Rotate).await;
    let second = access().await;
    world.pass(Duration::from_secs(5)).await;
    assert!(works(&first).await && works(&second).await);
    put(2, TokenKeyChange::Revoke).await;
    let third = access().await;
    world.pass(Duration::from_secs(4)).await;
    assert!(!works(&first).await && !works(&second).await && works(&third).await);
}

#[tokio::test]
async fn the_link_to_the_portal_has_the_token_in_its_fragment() {
    let world = World::new().await;
    let id = world.application("acme").await;
    let path = "/auth/app-portal-access/acme";
    let answer = world.post(path, "{}").await;
    assert_eq!(answer.text("/url"), format!("http://{HOST}/portal/{id}#token={}", answer.text("/token")));
    let call = Call::new(Method::POST, path)
        .header("host", "here.example")
        .header("x-forwarded-host", "evil.example")
        .header("forwarded", "host=evil.example;proto=https");
    assert!(world.call(call).await.text("/url").starts_with("http://here.example/portal/app_"));
    for bad in ["user@here.example", "a b", ""] {
        let answer = world.call(Call::new(Method::POST, path).header("host", bad)).await;
        insta::allow_duplicates!(
            insta::assert_snapshot!(answer, @r#"400 {"code":"bad_host","detail":"The Host header does not name this server: set EVERHOOK_PUBLIC_URL on the server."}"#)
        );
    }
    let public = Switches { public_url: Some("https://hooks.example.com/x"), ..Switches::default() };
    let world = World::with_switches(public).await;
    world.application("acme").await;
    assert!(world.post(path, "{}").await.text("/url").starts_with("https://hooks.example.com/x/portal/app_"));
}
