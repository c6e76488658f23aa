//! Tokens that end before they expire.

use std::time::Duration;

use everhook_core::id::{ApplicationId, DEFAULT_ORG};
use everhook_core::scope::AppScope;
use everhook_core::token::TokenEnd;
use everhook_store::store::{Reads, Store};
use http::Method;
use serde_json::json;

use crate::api::world::{Call, World};

async fn access(world: &World, application: &str, body: &str) -> String {
    world.post(&format!("/auth/app-portal-access/{application}"), body).await.text("/token")
}

async fn works(world: &World, token: &str) -> bool {
    let answer = world.call(Call::new(Method::GET, "/event-type").bearer(token)).await;
    assert!(answer.status == 200 || answer.status == 401, "{answer}");
    answer.status == 200
}

#[tokio::test]
async fn a_token_ends_itself_and_no_other() {
    let world = World::with_application().await;
    let (first, second) = (access(&world, "acme", "{}").await, access(&world, "acme", "{}").await);
    assert!(works(&world, &first).await, "it is cached now");
    let logout = async |bearer: &str| world.call(Call::new(Method::POST, "/auth/logout").bearer(bearer)).await;
    assert_eq!(logout(&first).await.to_string(), "204");
    let ended = world.call(Call::new(Method::GET, "/event-type").bearer(&first)).await;
    insta::assert_snapshot!(ended, @r#"401 {"code":"authentication_failed","detail":"The token was ended: get a new one."}"#);
    assert_eq!(logout(&first).await.status, 401);
    assert!(works(&world, &second).await);
    insta::assert_snapshot!(logout(&world.key).await, @r#"403 {"code":"insufficient access","detail":"Only an application token can end itself: revoke a key, or rotate the key of an integration."}"#);
    assert_eq!(logout(&World::token(&json!({"sub": DEFAULT_ORG, "exp": 9_000_000_000_i64}))).await.status, 403);
}

#[tokio::test]
async fn all_tokens_of_an_application_end_when_the_request_says() {
    let world = World::with_application().await;
    world.application("other").await;
    let (ours, theirs) = (access(&world, "acme", "{}").await, access(&world, "other", "{}").await);
    let expire = async |body: &str| world.post("/auth/app/acme/expire-all", body).await;
    assert_eq!(expire(r#"{"expiry": 3600}"#).await.to_string(), "204");
    assert!(works(&world, &ours).await);
    let later = access(&world, "acme", "{}").await;
    world.pass(Duration::from_secs(3601)).await;
    assert!(!works(&world, &ours).await);
    assert!(works(&world, &theirs).await && works(&world, &later).await, "issued after the call");
    for body in ["", "null", "{}", r#"{"sessionIds": []}"#] {
        let token = access(&world, "acme", r#"{"sessionId": "ann"}"#).await;
        assert!(works(&world, &token).await);
        assert_eq!(expire(body).await.status, 204);
        assert!(!works(&world, &token).await, "{body}");
    }
    assert!(works(&world, &access(&world, "acme", "{}").await).await, "even within the same second");
    assert!(works(&world, &theirs).await);
    insta::assert_snapshot!(expire(r#"{"expiry": 259201}"#).await, @r#"422 {"detail":[{"loc":["body","expiry"],"msg":"must be from 0 to 259200 seconds","type":"value_error"}]}"#);
    assert_eq!(world.post("/auth/app/nobody/expire-all", "{}").await.status, 404);
    let by_token = Call::new(Method::POST, "/auth/app/other/expire-all").bearer(&theirs);
    assert_eq!(world.call(by_token).await.status, 403);
}

#[tokio::test]
async fn the_tokens_of_a_session_end() {
    let world = World::with_application().await;
    let ann = access(&world, "acme", r#"{"sessionId": "ann"}"#).await;
    let bob = access(&world, "acme", r#"{"sessionId": "bob"}"#).await;
    let none = access(&world, "acme", "{}").await;
    let expire = async |body: &str| world.post("/auth/app/acme/expire-all", body).await;
    assert_eq!(expire(r#"{"sessionIds": ["ann", "eve", "ann"]}"#).await.status, 204);
    assert!(!works(&world, &ann).await && works(&world, &bob).await && works(&world, &none).await);
    assert!(works(&world, &access(&world, "acme", r#"{"sessionId": "ann"}"#).await).await);
    insta::assert_snapshot!(expire(r#"{"sessionIds": ["ann", "a b"]}"#).await, @r#"422 {"detail":[{"loc":["body","sessionIds","[1]"],"msg":"must have 1 to 64 letters, digits, '@', '_' and '-'","type":"value_error"}]}"#);
    let many: Vec<String> = (0..1001).map(|n| format!("s{n}")).collect();
    insta::assert_snapshot!(expire(&json!({ "sessionIds": many }).to_string()).await, @r#"422 {"detail":[{"loc":["body","sessionIds"],"msg":"must have at most 1000 entries","type":"value_error"}]}"#);
    assert_eq!(expire(&json!({ "sessionIds": many[1..] }).to_string()).await.status, 204);
}

#[tokio::test]
async fn an_end_from_another_replica_is_seen_within_seconds() {
    let world = World::new().await;
    let id: ApplicationId = world.application("acme").await.parse().unwrap();
    let token = access(&world, "acme", "{}").await;
    assert!(works(&world, &token).await);
    let environments = world.store.read(everhook_store::query::Environments {}).await.unwrap();
    let here = environments.iter().find(|known| known.org.to_string() == DEFAULT_ORG).unwrap().id;
    let end = TokenEnd::all(world.node.now(), Duration::ZERO);
    world.store.end_tokens(AppScope::of(here, id), vec![end]).await.unwrap();
    world.pass(Duration::from_secs(4)).await;
    assert!(!works(&world, &token).await);
}

#[tokio::test]
async fn tokens_signed_elsewhere_end_too() {
    let world = World::new().await;
    let id = world.application("acme").await;
    let now = world.node.now().as_secs();
    let sign = |more: serde_json::Value| {
        let mut claims = json!({"sub": id, "org": DEFAULT_ORG, "exp": 9_000_000_000_i64});
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        World::token(&claims)
    };
    let (bare, dated) = (sign(json!({})), sign(json!({"iat": now - 10})));
    let session = sign(json!({"iat": now - 10, "exp": now + 3600, "session_id": "ann"}));
    for token in [&bare, &dated, &session] {
        assert!(works(&world, token).await);
    }
    let lasting = sign(json!({"iat": now - 10, "session_id": "ann"}));
    let answer = world.call(Call::new(Method::GET, "/event-type").bearer(&lasting)).await;
    insta::assert_snapshot!(answer, @r#"401 {"code":"authentication_failed","detail":"The token has a `session_id` and lives for more than 7 days after its `iat`: sign a shorter one."}"#);
    world.post("/auth/app/acme/expire-all", r#"{"sessionIds": ["ann"]}"#).await;
    assert!(!works(&world, &session).await && works(&world, &dated).await);
    assert_eq!(world.call(Call::new(Method::POST, "/auth/logout").bearer(&dated)).await.status, 204);
    assert!(!works(&world, &dated).await && works(&world, &bare).await);
    world.post("/auth/app/acme/expire-all", "{}").await;
    assert!(!works(&world, &bare).await);
}
