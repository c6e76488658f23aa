//! API keys: their routes, and the rights of each scope on every route of the OpenAPI document.

use std::time::Duration;

use everhook_core::api_key::KeyAccess;
use everhook_core::right::{ExtraRights, Grants, KeyScope, Right};
use everhook_store::query;
use everhook_store::store::Reads;
use http::Method;
use serde_json::{Value, json};

use crate::api::world::{Answer, Call, Switches, World};

async fn create(world: &World, body: &Value) -> Answer {
    world.post("/key", &body.to_string()).await
}

async fn with(world: &World, key: &str, method: Method, path: &str, body: &str) -> Answer {
    world.call(Call::new(method, path).bearer(key).body(body)).await
}

#[tokio::test]
async fn a_key_is_created_listed_used_and_revoked() {
    let world = World::new().await;
    let made = create(&world, &json!({ "name": "billing", "scope": "write", "rights": ["change-url"] })).await;
    assert_eq!(made.status, 201, "{made}");
    let (id, key) = (made.text("/id"), made.text("/key"));
    let shown = world.get(&format!("/key/{id}")).await;
    assert!(!shown.body.contains(&key) && shown.json()["lastUsedAt"].is_null(), "{shown}");
    assert_eq!(shown.json()["rights"], json!(["read", "write", "change-url"]));
    assert_eq!((shown.text("/state"), shown.text("/environment")), ("active".to_owned(), "default".to_owned()));

    assert_eq!(with(&world, &key, Method::POST, "/app", r#"{"name": "a"}"#).await.status, 201);
    let used = world.get(&format!("/key/{id}")).await;
    assert!(used.json()["lastUsedAt"].is_string(), "{used}");
    assert!(world.get("/key").await.each("name").contains(&"billing".to_owned()));

    assert_eq!(world.call(Call::new(Method::DELETE, &format!("/key/{id}"))).await.status, 204);
    assert_eq!(with(&world, &key, Method::GET, "/app", "").await.status, 401, "this node sees it at once");
    assert_eq!(world.get(&format!("/key/{id}")).await.text("/state"), "revoked");
    assert_eq!(world.call(Call::new(Method::DELETE, &format!("/key/{id}"))).await.status, 404);
}

#[tokio::test]
async fn a_key_expires_at_its_time() {
    let world = World::new().await;
    let at = world.node.now().plus(Duration::from_secs(60));
    let made = create(&world, &json!({ "name": "short", "scope": "read", "expiresAt": at })).await;
    let key = made.text("/key");
    assert_eq!(with(&world, &key, Method::GET, "/app", "").await.status, 200);
    world.pass(Duration::from_secs(61)).await;
    assert_eq!(with(&world, &key, Method::GET, "/app", "").await.status, 401);
    assert_eq!(world.get(&format!("/key/{}", made.text("/id"))).await.text("/state"), "expired");
}

#[tokio::test]
async fn bad_keys_are_refused_with_the_field() {
    let world = World::new().await;
    insta::assert_snapshot!(create(&world, &json!({ "name": "", "scope": "read" })).await, @r#"422 {"detail":[{"loc":["body","name"],"msg":"must not be empty","type":"value_error"}]}"#);
    insta::assert_snapshot!(create(&world, &json!({ "name": "a", "scope": "root" })).await, @r#"422 {"detail":[{"loc":["body","scope"],"msg":"must be admin, operate, write or read","type":"value_error"}]}"#);
    insta::assert_snapshot!(create(&world, &json!({ "name": "a", "scope": "read", "rights": ["change-url"] })).await, @r#"422 {"detail":[{"loc":["body","rights"],"msg":"change-url needs the scope write, operate or admin","type":"value_error"}]}"#);
    insta::assert_snapshot!(create(&world, &json!({ "name": "a", "scope": "admin" })).await, @r#"422 {"detail":[{"loc":["body","scope"],"msg":"must not grant more rights than the key of the request has","type":"value_error"}]}"#);
    insta::assert_snapshot!(create(&world, &json!({ "name": "a", "scope": "read", "applicationId": "none" })).await, @r#"422 {"detail":[{"loc":["body","applicationId"],"msg":"must be the id or uid of an application","type":"value_error"}]}"#);
    let past = json!({ "name": "a", "scope": "read", "expiresAt": "2020-01-01T00:00:00Z" });
    insta::assert_snapshot!(create(&world, &past).await, @r#"422 {"detail":[{"loc":["body","expiresAt"],"msg":"must be in the future","type":"value_error"}]}"#);
    let repeated =
        Call::new(Method::POST, "/key").header("idempotency-key", "k").body(r#"{"name": "a", "scope": "read"}"#);
    insta::assert_snapshot!(world.call(repeated).await, @r#"422 {"detail":[{"loc":["header","idempotency-key"],"msg":"is not supported here: a repeated answer would have to store the key","type":"value_error"}]}"#);
    insta::assert_snapshot!(world.get("/key/key_none").await, @r#"404 {"code":"not_found","detail":"key key_none not found"}"#);
}

#[tokio::test]
async fn keys_of_other_environments_are_neither_seen_nor_revoked() {
    let world = World::new().await;
    let made = create(&world, &json!({ "name": "ours", "scope": "read" })).await;
    let path = format!("/key/{}", made.text("/id"));
    let other = with(&world, &world.other_key, Method::GET, "/key", "").await;
    assert_eq!(other.each("environment"), ["other"]);
    assert_eq!(with(&world, &world.other_key, Method::GET, &path, "").await.status, 404);
    assert_eq!(with(&world, &world.other_key, Method::DELETE, &path, "").await.status, 404);
    let all = with(&world, &world.admin_key, Method::GET, "/key", "").await;
    assert_eq!(all.each("scope"), ["operate", "operate", "admin", "read"]);
    assert_eq!(with(&world, &world.admin_key, Method::DELETE, &path, "").await.status, 204);
}

#[tokio::test]
async fn a_changed_url_needs_a_right_of_its_own() {
    let world = World::with_application().await;
    let endpoint = r#"{"url": "https://one.example.com/", "uid": "e"}"#;
    assert_eq!(world.post("/app/acme/endpoint", endpoint).await.status, 201);
    let key = create(&world, &json!({ "name": "a", "scope": "write" })).await.text("/key");
    let patch = async |key: &str, body: &str| with(&world, key, Method::PATCH, "/app/acme/endpoint/e", body).await;
    assert_eq!(patch(&key, r#"{"description": "new"}"#).await.status, 200);
    insta::assert_snapshot!(patch(&key, r#"{"url": "https://two.example.com/"}"#).await, @r#"403 {"code":"insufficient access","detail":"The key lacks the right change-url: use a key that has it."}"#);
    let put = |url: &str| json!({ "url": url }).to_string();
    let path = "/app/acme/endpoint/e";
    assert_eq!(with(&world, &key, Method::PUT, path, &put("https://one.example.com/")).await.status, 200);
    assert_eq!(with(&world, &key, Method::PUT, path, &put("https://two.example.com/")).await.status, 403);
    let absent = "/app/acme/endpoint/new";
    assert_eq!(with(&world, &key, Method::PUT, absent, &put("https://two.example.com/")).await.status, 403);
    let operate = create(&world, &json!({ "name": "a", "scope": "operate", "rights": [] })).await.text("/key");
    let target = r#"{"targetUrl": "https://two.example.com/"}"#;
    assert_eq!(with(&world, &operate, Method::PATCH, "/queue/q", target).await.status, 403);
    assert_eq!(with(&world, &operate, Method::PATCH, "/queue/q", r#"{"limit": 3}"#).await.status, 200);
    let able = create(&world, &json!({ "name": "b", "scope": "write", "rights": ["change-url"] })).await.text("/key");
    assert_eq!(patch(&able, r#"{"url": "https://two.example.com/"}"#).await.status, 200);
}

#[tokio::test]
async fn a_key_of_one_application_uses_its_routes_only() {
    let world = World::new().await;
    let (own, other) = (world.application("acme").await, world.application("other").await);
    let made = create(&world, &json!({ "name": "a", "scope": "write", "applicationId": "acme" })).await;
    assert_eq!(made.text("/applicationId"), own);
    let key = made.text("/key");
    let message = r#"{"eventType": "a", "payload": {}}"#;
    for path in ["/app/acme/msg".to_owned(), format!("/app/{own}/msg")] {
        assert_eq!(with(&world, &key, Method::POST, &path, message).await.status, 202, "{path}");
    }
    for path in ["/app/other/msg".to_owned(), format!("/app/{other}/msg"), "/app/none/msg".to_owned()] {
        assert_eq!(with(&world, &key, Method::POST, &path, message).await.status, 404, "{path}");
    }
    assert_eq!(with(&world, &key, Method::PUT, "/app/none", r#"{"name": "new"}"#).await.status, 404);
    insta::assert_snapshot!(with(&world, &key, Method::GET, "/app", "").await, @r#"403 {"code":"insufficient access","detail":"The key is restricted to one application: use a key of the environment."}"#);
    assert_eq!(with(&world, &key, Method::GET, "/delivery", "").await.status, 403);
    assert_eq!(with(&world, &key, Method::GET, "/app/acme/msg", "").await.status, 200);
}

#[tokio::test]
async fn after_many_failures_unknown_keys_are_refused_and_known_ones_work() {
    let world = World::with_switches(Switches { auth_failures: 2, ..Switches::default() }).await;
    assert_eq!(world.get("/app").await.status, 200);
    let bad = async |key: &str| with(&world, key, Method::GET, "/app", "").await;
    assert_eq!(bad("nonsense").await.status, 401);
    assert_eq!(bad("nonsense").await.status, 401);
    let refused = bad("nonsense").await;
    insta::assert_snapshot!(refused, @r#"429 {"code":"too_many_failures","detail":"Too many failed authentications from this address: try again later, with a valid key."}"#);
    assert!(
        refused.headers.get("retry-after").is_some_and(|wait| wait.to_str().unwrap().parse::<u64>().unwrap() <= 60)
    );
    let unknown = everhook_core::api_key::ApiKey::generate([77; 64]);
    assert_eq!(bad(unknown.expose()).await.status, 429);
    assert_eq!(world.get("/app").await.status, 200, "a key that has worked is not affected");
    let anonymous = Call::new(Method::GET, "/app").anonymous();
    assert_eq!(world.call(anonymous).await.status, 401, "a request without a key is no attempt");
    world.pass(Duration::from_secs(61)).await;
    assert_eq!(bad("nonsense").await.status, 401);
}

/// Replaces the parameters of a path by values that name nothing.
fn filled(path: &str) -> String {
    let mut text = String::new();
    for piece in path.split('/').skip(3) {
        text.push('/');
        text.push_str(if piece.starts_with('{') { "absent" } else { piece });
    }
    text
}

#[tokio::test]
async fn every_operation_states_its_right_and_each_scope_has_its_rights() {
    let world = World::new().await;
    let environment = world.store.read(query::Environments {}).await.unwrap()[0].id;
    let mut keys = vec![(world.admin_key.clone(), Grants::of(KeyScope::Admin))];
    for (seed, scope) in (20..).step_by(2).zip([KeyScope::Operate, KeyScope::Write, KeyScope::Read]) {
        for (seed, extra) in (seed..).zip([ExtraRights::NONE, ExtraRights::ALL]) {
            let grants = Grants { scope, extra };
            keys.push((world.keep_key(seed, KeyAccess { grants, ..KeyAccess::operate(environment) }).await, grants));
        }
    }
    let document: Value = serde_json::from_str(&everhook_api::openapi()).unwrap();
    let (mut calls, mut refusals) = (0, 0);
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            if operation["security"] == json!([]) {
                assert_eq!(operation["x-right"], Value::Null, "{method} {path}");
                continue;
            }
            let named = operation["x-right"].as_str().unwrap_or_else(|| panic!("{method} {path} states no right"));
            let right = Right::ALL.into_iter().find(|right| right.name() == named).unwrap();
            for (key, grants) in &keys {
                let method: Method = method.to_uppercase().parse().unwrap();
                // A body that no route accepts: the right is checked before the body.
                let answer = with(&world, key, method.clone(), &filled(path), "[").await;
                let is_refused = answer.status == 403 && !answer.body.contains("Only an application token");
                assert_eq!(is_refused, !grants.allow(right), "{grants:?} {method} {path}: {answer}");
                calls += 1;
                refusals += usize::from(is_refused);
            }
        }
    }
    assert!(calls > 700 && refusals > 200 && refusals < calls / 2 + 200, "{refusals} of {calls}");
}

#[tokio::test]
async fn a_session_shows_the_name_the_scope_and_the_rights_of_its_key() {
    let world = World::new().await;
    let key = create(&world, &json!({ "name": "viewer", "scope": "read" })).await.text("/key");
    let body = json!({ "key": key }).to_string();
    let session = world.call(Call::new(Method::POST, "/!/auth/session").anonymous().body(body)).await;
    let shown = (session.text("/keyName"), session.text("/scope"), session.json()["rights"].clone());
    assert_eq!(shown, ("viewer".to_owned(), "read".to_owned(), json!(["read"])));
}
