//! Chat endpoints: kinds, hosts, masked URLs, templates, preview.

use serde_json::json;

use crate::api::world::World;

const SLACK: &str = "https://hooks.slack.com/services/T0/B0/credential";

async fn refused(world: &World, body: serde_json::Value) -> String {
    let answer = world.post("/app/acme/endpoint", &body.to_string()).await;
    assert_eq!(answer.status, 422, "{answer}");
    answer.json()["detail"][0]["loc"].to_string() + " " + answer.json()["detail"][0]["msg"].as_str().unwrap()
}

#[tokio::test]
async fn the_url_of_a_room_is_accepted_and_never_shown() {
    let world = World::with_application().await;
    let body = json!({ "kind": "slack", "url": SLACK, "uid": "room", "chat": { "template": { "title": "Hi" } } });
    let created = world.post("/app/acme/endpoint", &body.to_string()).await;
    assert_eq!(created.status, 201, "{created}");
    assert_eq!(
        (created.text("/url").as_str(), created.text("/kind").as_str()),
        ("https://hooks.slack.com/***", "slack")
    );
    assert_eq!(created.json()["policy"]["rate"], json!({ "count": 1, "seconds": 1 }), "the rate of the platform");
    let unlimited = world.patch("/app/acme/endpoint/room", r#"{"policy": {"rate": "none"}}"#).await;
    assert_eq!((unlimited.status.as_u16(), unlimited.text("/policy/rate")), (200, "none".to_owned()));
    // The shown form can be sent back, and other members can be changed.
    let put = world.put("/app/acme/endpoint/room", r#"{"url": "https://hooks.slack.com/***", "uid": "room"}"#).await;
    assert_eq!(
        (put.status.as_u16(), put.text("/kind"), put.text("/chat/template/title")),
        (200, "slack".into(), "Hi".into())
    );
    let patched = world.patch("/app/acme/endpoint/room", r#"{"description": "ops", "chat": null}"#).await;
    assert_eq!((patched.status.as_u16(), patched.json()["chat"]["template"].clone()), (200, json!({})));
    // A form that does not know the people keeps them.
    let named = world.patch("/app/acme/endpoint/room", r#"{"chat": {"people": "/owner"}}"#).await;
    assert_eq!((named.status.as_u16(), named.text("/chat/people")), (200, "/owner".to_owned()), "{named}");
    let kept = world.patch("/app/acme/endpoint/room", r#"{"chat": {"language": "zh"}}"#).await;
    assert_eq!(kept.text("/chat/people"), "/owner", "{kept}");
    let removed = world.patch("/app/acme/endpoint/room", r#"{"chat": {"people": null}}"#).await;
    assert_eq!(removed.json()["chat"].get("people"), None, "{removed}");
    let refused = world.patch("/app/acme/endpoint/room", r#"{"chat": {"people": "owner"}}"#).await;
    assert_eq!(refused.status, 422, "{refused}");
    for path in ["/app/acme/endpoint", "/app/acme/endpoint/room", "/endpoint"] {
        let shown = world.get(path).await;
        assert_eq!(shown.status, 200);
        assert!(!shown.to_string().contains("credential"), "{shown}");
    }
    let opened = world.patch("/app/acme/endpoint/room", r#"{"kind": "http"}"#).await;
    assert_eq!(opened.status, 422, "a kind that shows its URL must not reveal the credential");
    let moved = world.patch("/app/acme/endpoint/room", r#"{"kind": "http", "url": "https://example.com/"}"#).await;
    assert_eq!((moved.status.as_u16(), moved.json().get("kind")), (200, None));
}

#[tokio::test]
async fn bad_rooms_are_refused_by_name() {
    let world = World::with_application().await;
    let refused = async |body| refused(&world, body).await;
    let hosts =
        "must have a host of slack (hooks.slack.com, hooks.slack-gov.com): set EVERHOOK_CHAT_HOSTS to allow others";
    assert_eq!(
        refused(json!({ "kind": "slack", "url": "https://example.com/" })).await,
        format!(r#"["body","url"] {hosts}"#)
    );
    assert!(
        refused(json!({ "kind": "irc", "url": SLACK })).await.starts_with(r#"["body","kind"] must be http, slack"#)
    );
    assert_eq!(
        refused(json!({ "url": "https://example.com/", "chat": {} })).await,
        r#"["body","chat"] is only for chat endpoints: set kind"#
    );
    let chat = |chat| json!({ "kind": "slack", "url": SLACK, "chat": chat });
    assert_eq!(
        refused(chat(json!({ "secret": "x" }))).await,
        r#"["body","chat","secret"] is only for dingtalk, feishu and lark"#
    );
    assert_eq!(
        refused(chat(json!({ "eventTypes": { "a.b": { "title": "{{ payload." } } }))).await,
        r#"["body","chat","eventTypes","a.b","title"] syntax error: unexpected end of input, expected identifier or integer in line 1"#
    );
    assert_eq!(
        refused(chat(json!({ "template": { "title": "{% set a = 1 %}" } }))).await,
        r#"["body","chat","template","title"] must not have the tag "set": only if and for are supported"#
    );
    assert!(refused(chat(json!({ "template": { "titel": "x" } }))).await.contains("titel"));
    assert!(refused(json!({ "kind": "slack", "url": "poll:" })).await.contains("must be the URL of a webhook"));
}

#[tokio::test]
async fn a_preview_shows_the_text_for_a_message() {
    let world = World::with_application().await;
    let body = json!({ "kind": "slack", "url": SLACK, "uid": "room" });
    world.post("/app/acme/endpoint", &body.to_string()).await;
    let message =
        world.post("/app/acme/msg", r#"{"eventType": "a.failed", "payload": {"title": "Boom", "n": 1}}"#).await;
    let preview = async |body: serde_json::Value| world.post("/app/acme/chat/preview", &body.to_string()).await;
    let shown = preview(json!({ "endpointId": "room", "msgId": message.text("/id") })).await;
    assert_eq!((shown.status.as_u16(), shown.text("/body/text")), (200, "*❌ Boom*".to_owned()), "{shown}");
    let chat = json!({ "template": { "title": "{{ payload.a.b }}" } });
    let shown = preview(json!({ "kind": "discord", "chat": chat, "eventType": "x", "payload": {"n": 1} })).await;
    assert_eq!(shown.text("/templateError"), "title: undefined value in line 1");
    let missing = preview(json!({ "endpointId": "nobody" })).await;
    assert_eq!(missing.status, 404);
    assert_eq!(preview(json!({})).await.status, 422);
    assert_eq!(preview(json!({ "endpointId": "room", "kind": "slack" })).await.status, 422);
}
