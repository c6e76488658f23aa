//! Payloads of every platform, replies of every platform, and hostile values.

use bytes::Bytes;
use everhook_core::chat::{Chat, ChatKind, ChatSecret, FieldTemplate, Language, Template};
use everhook_core::id::{ApplicationId, Id, MessageId};
use everhook_core::message::{Message, Rest};
use everhook_core::outcome::{Reply, SendFailure};
use everhook_core::policy::statuses::FinalStatuses;
use everhook_core::time::Timestamp;
use serde_json::{Value, json};

use crate::notice::ChatFacts;
use crate::post::{Post, post};
use crate::reply::{Judgement, judge};

const NOW: Timestamp = Timestamp::from_millis(1_599_360_473_123);

fn url(kind: ChatKind) -> &'static str {
    match kind {
        ChatKind::Slack => "https://hooks.slack.com/services/T0/B0/secret",
        ChatKind::Discord => "https://discord.com/api/webhooks/1/secret",
        ChatKind::Teams => "https://prod-1.westus.logic.azure.com/workflows/secret",
        ChatKind::GoogleChat => "https://chat.googleapis.com/v1/spaces/A/messages?key=k&token=secret",
        ChatKind::Feishu => "https://open.feishu.cn/open-apis/bot/v2/hook/secret",
        ChatKind::Lark => "https://open.larksuite.com/open-apis/bot/v2/hook/secret",
        ChatKind::DingTalk => "https://oapi.dingtalk.com/robot/send?access_token=secret",
        ChatKind::WeCom => "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=secret",
    }
}

const CONNECTOR: &str = "https://acme.webhook.office.com/webhookb2/secret";

fn mention(kind: ChatKind) -> &'static str {
    match kind {
        ChatKind::Slack => "U024BE7LH",
        ChatKind::Discord => "role:4242",
        ChatKind::Teams => "ada@example.com",
        ChatKind::DingTalk => "13800000000",
        ChatKind::GoogleChat | ChatKind::Feishu | ChatKind::Lark | ChatKind::WeCom => "ada",
    }
}

fn send(chat: &Chat, url: &str, event_type: &str, payload: &[u8]) -> Post {
    let message = Message {
        id: MessageId(Id::MIN),
        application: ApplicationId(Id::MIN),
        event_type: event_type.parse().unwrap(),
        event_id: None,
        channels: Vec::new(),
        tags: Vec::new(),
        payload: None,
        created_at: NOW,
        rest: Rest::default(),
    };
    let facts = ChatFacts { message: &message, payload, public_url: Some("https://hooks.example.com") };
    post(chat, url, &facts, NOW)
}

fn pretty(post: &Post) -> String {
    let body: Value = serde_json::from_slice(&post.body).unwrap();
    let failure = post.failure.as_ref().map(|failure| format!("\nfailure: {failure}")).unwrap_or_default();
    format!("{}\n{body:#}{failure}", post.url)
}

fn failed_pipeline() -> Vec<u8> {
    let payload = json!({
        "title": "Pipeline \"nightly\" failed",
        "message": "Stage *build* ended with 2 < 3",
        "stage": "build",
        "attempt": 2,
        "owner": {"name": "Ada", "team": ["a", "b"]},
        "note": null,
    });
    payload.to_string().into_bytes()
}

#[test]
fn every_platform_gets_its_own_payload() {
    for kind in ChatKind::ALL {
        let template = Template { mentions: Some(vec![mention(kind).to_owned()]), ..Template::default() };
        let secret = kind.is_signed().then(|| ChatSecret("SECabc".to_owned()));
        let chat = Chat { template, secret, ..Chat::new(kind) };
        let sent = send(&chat, url(kind), "pipeline.failed", &failed_pipeline());
        insta::assert_snapshot!(format!("payload-{kind}"), pretty(&sent));
    }
    let sent = send(&Chat::new(ChatKind::Teams), CONNECTOR, "pipeline.failed", &failed_pipeline());
    insta::assert_snapshot!("payload-teams-connector", pretty(&sent));
}

#[test]
fn a_template_gives_the_text() {
    let template = Template {
        level: Some("{% if payload.attempt > 1 %}error{% else %}warning{% endif %}".to_owned()),
        title: Some("{{ payload.stage }} <failed>".to_owned()),
        description: Some("See *{{ payload.message }}* of {{ eventType }}".to_owned()),
        fields: Some(vec![FieldTemplate { name: "Owner".to_owned(), value: "{{ payload.owner.name }}".to_owned() }]),
        link: Some("https://ci.example.com/{{ payload.stage | urlencode }}".to_owned()),
        mentions: None,
    };
    for kind in ChatKind::ALL {
        let chat = Chat { template: template.clone(), language: Language::Zh, ..Chat::new(kind) };
        let sent = send(&chat, url(kind), "pipeline.failed", &failed_pipeline());
        insta::assert_snapshot!(format!("template-{kind}"), pretty(&sent));
    }
}

#[test]
fn a_template_that_fails_falls_back_and_says_so() {
    let template = Template { title: Some("{{ payload.missing.name }}".to_owned()), ..Template::default() };
    let chat = Chat { template, ..Chat::new(ChatKind::Slack) };
    let sent = send(&chat, url(ChatKind::Slack), "pipeline.failed", b"{}");
    assert_eq!(sent.failure.as_deref(), Some("title: undefined value in line 1"));
    assert!(String::from_utf8_lossy(&sent.body).contains("Error: pipeline.failed"));
}

#[test]
fn any_payload_is_readable() {
    let chat = Chat { language: Language::Zh, ..Chat::new(ChatKind::Slack) };
    let texts = [
        (r#"{"type": "x", "data": {"endpointId": "ep_1", "trigger": "manual"}}"#, "endpoint.disabled"),
        ("<xml>not JSON</xml>", "invoice.paid"),
        ("[1, 2]", "import.succeeded"),
        ("{}", "deploy.failing"),
    ];
    let shown = texts.map(|(payload, event_type)| {
        let sent = send(&chat, url(ChatKind::Slack), event_type, payload.as_bytes());
        let body: Value = serde_json::from_slice(&sent.body).unwrap();
        format!("{}\n{}", body["text"].as_str().unwrap(), body["attachments"][0]["blocks"])
    });
    insta::assert_snapshot!("any-payload", shown.join("\n\n"));
}

/// Values that try to mention everybody, to break formatting, and to exceed every limit.
fn hostile() -> Vec<String> {
    let mut values: Vec<String> = [
        "<!channel> <!here> <!everyone> <@U024BE7LH> <!subteam^S1>",
        "@everyone @here <@&4242> <@1>",
        "<users/all> <users/1>",
        "<at id=all></at> <at user_id=\"all\">x</at> <at>ada</at>",
        "<@all> <@ada> @all @13800000000",
        "``` ** __ ~~ [x](https://evil.example) ![x](https://evil.example/i.png) <https://evil.example|x>",
        "# heading\n> quote\n- list\n---\n| a | b |",
        "\u{0}\u{1b}[31m\u{7}\u{202e}\u{feff}\r\n\t",
        "{{ payload }} {% for %} \\",
        "</font><script>alert(1)</script>&lt;&amp;",
    ]
    .map(str::to_owned)
    .to_vec();
    values.extend(["x", "<", "*", "\\", "&", "中", "😀", "\"", "\n"].map(|unit| unit.repeat(40_000 / unit.len())));
    values
}

#[test]
fn hostile_values_ping_nobody_and_fit_the_limits() {
    for kind in ChatKind::ALL {
        let urls = if kind == ChatKind::Teams { vec![url(kind), CONNECTOR] } else { vec![url(kind)] };
        for (url, value) in urls.into_iter().flat_map(|url| hostile().into_iter().map(move |value| (url, value))) {
            let mut payload = json!({ "title": value, "message": value });
            // Still longer than a field may be on any platform, and together longer than a message may be.
            let field: String = value.chars().take(4_000).collect();
            for n in 0..20 {
                payload[format!("{n}{field}")] = field.clone().into();
            }
            let sent = send(&Chat::new(kind), url, "a.failed", payload.to_string().as_bytes());
            inspect(kind, &sent);
            let template = Template {
                title: Some("{{ payload.title }}".to_owned()),
                description: Some("{{ payload.message }}".to_owned()),
                link: Some("{{ payload.title }}".to_owned()),
                level: Some("{{ level }}".to_owned()),
                fields: Some(vec![
                    FieldTemplate {
                        name: "{{ payload.title }}".to_owned(),
                        value: "{{ payload.message }}".to_owned()
                    };
                    10
                ]),
                mentions: None,
            };
            let sent = send(&Chat { template, ..Chat::new(kind) }, url, "a.failed", payload.to_string().as_bytes());
            assert_eq!(sent.failure, None);
            inspect(kind, &sent);
        }
    }
}

/// Checks the limits of a platform, and that no text mentions anybody.
#[track_caller]
fn inspect(kind: ChatKind, sent: &Post) {
    let body: Value = serde_json::from_slice(&sent.body).unwrap();
    let bytes = sent.body.len();
    let mut texts = Vec::new();
    collect(&body, &mut texts);
    assert!(texts.iter().all(|text| !text.chars().any(|c| c.is_control() && c != '\n')));
    let units = |value: &Value| value.as_str().unwrap_or_default().encode_utf16().count();
    match kind {
        ChatKind::Slack => {
            let link = |text: &String| text.contains("<https://hooks.example.com/");
            assert!(texts.iter().filter(|text| !link(text)).all(|text| !text.contains('<')), "{texts:?}");
            assert!(texts.iter().all(|text| text.encode_utf16().count() <= 3000));
            assert!(body["attachments"][0]["blocks"][1]["fields"].as_array().is_none_or(|fields| fields.len() <= 10));
        }
        ChatKind::Discord => {
            assert_eq!(body["content"], "");
            assert_eq!(body["allowed_mentions"], json!({ "parse": [], "users": [], "roles": [] }));
            let embed = &body["embeds"][0];
            assert!(units(&embed["title"]) <= 256 && units(&embed["description"]) <= 4096);
            let total: usize = texts.iter().map(|text| text.encode_utf16().count()).sum();
            assert!(total <= 6000, "{total}");
            for field in embed["fields"].as_array().unwrap() {
                assert!((1..=256).contains(&units(&field["name"])) && (1..=1024).contains(&units(&field["value"])));
            }
        }
        ChatKind::Teams => {
            assert!(bytes <= 28_000, "{bytes}");
            // Only entities mention people, and connectors have none.
            let card = &body["attachments"][0]["content"];
            assert!(card["msteams"]["entities"].as_array().is_none_or(Vec::is_empty));
        }
        ChatKind::GoogleChat => {
            assert!(bytes <= 32_000, "{bytes}");
            assert_eq!(body.get("text"), None);
        }
        ChatKind::Feishu | ChatKind::Lark => {
            assert!(bytes <= 20_000, "{bytes}");
            let elements = body["card"]["elements"].to_string();
            assert!(!elements.contains("<at"), "{elements}");
        }
        ChatKind::DingTalk => {
            assert!(bytes <= 20_000, "{bytes}");
            assert_eq!(body["at"], json!({ "atMobiles": [], "atUserIds": [], "isAtAll": false }));
        }
        ChatKind::WeCom => {
            let content = body["markdown"]["content"].as_str().unwrap();
            assert!(content.len() <= 4096 && !content.contains('<'), "{content}");
        }
    }
}

fn collect(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(list) => list.iter().for_each(|item| collect(item, texts)),
        Value::Object(members) => members.values().for_each(|item| collect(item, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[track_caller]
fn check(kind: ChatKind, status: u16, body: &str, want: &str) {
    assert_eq!(judged(url(kind), kind, status, None, body), want, "{kind} {status} {body}");
}

fn judged(url: &str, kind: ChatKind, status: u16, retry_after: Option<&str>, body: &str) -> String {
    let body = Bytes::from(body.to_owned());
    let reply = Reply { status, retry_after: retry_after.map(str::to_owned), wish: None, body };
    let Judgement { class, outcome, .. } = judge(kind, url, &Ok(reply), NOW, &FinalStatuses::default());
    format!("{class} {outcome:?}")
}

const POSTED: &str = "success Success";
const GONE: &str = "gone Gone";
const REFUSED: &str = "status Rejected";
const FAILED: &str = "status Failure { retry_after: None }";
const BUSY: &str = "throttled Throttled { retry_after: Some(60s) }";

#[test]
fn slack_posts_with_ok() {
    check(ChatKind::Slack, 200, "ok", POSTED);
    check(ChatKind::Slack, 200, "ok\n", POSTED);
    check(ChatKind::Slack, 200, r#"{"ok":true}"#, POSTED);
    check(ChatKind::Slack, 200, "", FAILED);
    check(ChatKind::Slack, 200, "<html>login</html>", FAILED);
    check(ChatKind::Slack, 400, "invalid_payload", REFUSED);
    check(ChatKind::Slack, 403, "action_prohibited", REFUSED);
    check(ChatKind::Slack, 403, "invalid_token", GONE);
    check(ChatKind::Slack, 404, "no_service", GONE);
    check(ChatKind::Slack, 410, "channel_is_archived", GONE);
    check(ChatKind::Slack, 429, "rate_limited", BUSY);
    check(ChatKind::Slack, 500, "rollup_error", FAILED);
    let waits = judged(url(ChatKind::Slack), ChatKind::Slack, 429, Some("7"), "");
    assert_eq!(waits, "throttled Throttled { retry_after: Some(7s) }");
}

#[test]
fn discord_posts_without_a_body() {
    check(ChatKind::Discord, 204, "", POSTED);
    check(ChatKind::Discord, 200, r#"{"id":"1"}"#, POSTED);
    check(ChatKind::Discord, 429, r#"{"retry_after":1.5}"#, "throttled Throttled { retry_after: Some(1.5s) }");
    check(ChatKind::Discord, 429, r#"{"retry_after":-1}"#, BUSY);
    check(ChatKind::Discord, 429, r#"{"retry_after":1e300}"#, BUSY);
    check(ChatKind::Discord, 404, r#"{"message":"Unknown Webhook","code":10015}"#, GONE);
    check(ChatKind::Discord, 401, r#"{"message":"Invalid Webhook Token","code":50027}"#, GONE);
    check(ChatKind::Discord, 400, r#"{"embeds":["0"]}"#, REFUSED);
    check(ChatKind::Discord, 502, "", "throttled Failure { retry_after: None }");
}

#[test]
fn teams_posts_by_body_or_by_status() {
    let connector = |status, body: &str, want: &str| {
        assert_eq!(judged(CONNECTOR, ChatKind::Teams, status, None, body), want, "{status} {body}");
    };
    connector(200, "1", POSTED);
    connector(200, "", POSTED);
    let failed = "Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error";
    connector(200, &format!("{failed} 429 with ContextId tcid=0"), BUSY);
    connector(200, &format!("{failed} 404 with ContextId tcid=0"), GONE);
    connector(200, &format!("{failed} 413 with ContextId tcid=0"), REFUSED);
    connector(200, &format!("{failed} 500 with ContextId tcid=0"), FAILED);
    connector(400, "Summary or Text is required.", REFUSED);
    connector(410, "", GONE);
    check(ChatKind::Teams, 202, "", POSTED);
    check(ChatKind::Teams, 200, "anything", POSTED);
    check(ChatKind::Teams, 404, r#"{"error":{"code":"WorkflowNotFound"}}"#, GONE);
    check(ChatKind::Teams, 400, r#"{"error":{"code":"WorkflowTriggerIsNotEnabled"}}"#, FAILED);
    check(ChatKind::Teams, 400, r#"{"error":{"code":"InvalidRequestContent"}}"#, REFUSED);
    check(ChatKind::Teams, 429, "", BUSY);
}

#[test]
fn codes_in_the_body_decide() {
    check(ChatKind::GoogleChat, 200, r#"{"name":"spaces/A/messages/1"}"#, POSTED);
    check(ChatKind::GoogleChat, 404, "", GONE);
    check(ChatKind::GoogleChat, 429, "", BUSY);
    for kind in [ChatKind::Feishu, ChatKind::Lark] {
        check(kind, 200, r#"{"code":0,"msg":"success","data":{}}"#, POSTED);
        check(kind, 200, r#"{"StatusCode":0,"StatusMessage":"success"}"#, POSTED);
        check(kind, 200, r#"{"code":11232,"msg":"frequency limited psm"}"#, BUSY);
        check(kind, 400, r#"{"code":9499,"msg":"too many request"}"#, BUSY);
        check(kind, 200, r#"{"code":9499,"msg":"Bad Request"}"#, REFUSED);
        check(kind, 200, r#"{"code":19001,"msg":"param invalid: incoming webhook access token invalid"}"#, GONE);
        check(kind, 200, r#"{"code":19021,"msg":"sign match fail"}"#, FAILED);
        check(kind, 200, r#"{"code":19024,"msg":"Key Words Not Found"}"#, REFUSED);
        check(kind, 200, "", FAILED);
        check(kind, 200, "{\"code\":", FAILED);
    }
    check(ChatKind::DingTalk, 200, r#"{"errcode":0,"errmsg":"ok"}"#, POSTED);
    check(ChatKind::DingTalk, 200, r#"{"errcode":130101,"errmsg":"send too fast"}"#, BUSY);
    check(ChatKind::DingTalk, 200, r#"{"errcode":300005,"errmsg":"token is not exist"}"#, GONE);
    check(ChatKind::DingTalk, 200, r#"{"errcode":310000,"errmsg":"keywords not in content"}"#, REFUSED);
    check(ChatKind::DingTalk, 200, r#"{"errcode":310000,"errmsg":"sign not match"}"#, FAILED);
    check(ChatKind::DingTalk, 200, r#"{"errcode":-1,"errmsg":"busy"}"#, FAILED);
    check(ChatKind::DingTalk, 200, "", FAILED);
    check(ChatKind::WeCom, 200, r#"{"errcode":0,"errmsg":"ok"}"#, POSTED);
    check(ChatKind::WeCom, 200, r#"{"errcode":45009,"errmsg":"api freq out of limit"}"#, BUSY);
    check(ChatKind::WeCom, 200, r#"{"errcode":93000,"errmsg":"invalid webhook url"}"#, GONE);
    check(ChatKind::WeCom, 200, r#"{"errcode":40058,"errmsg":"markdown.content exceed max length 4096"}"#, REFUSED);
    check(ChatKind::WeCom, 200, "not JSON", FAILED);
}

#[test]
fn a_request_without_a_reply_is_an_ordinary_failure() {
    let failure = SendFailure::new(everhook_core::outcome::Class::Connect, "refused");
    let judged = judge(ChatKind::Slack, url(ChatKind::Slack), &Err(failure), NOW, &FinalStatuses::default());
    assert_eq!(judged.explanation, "refused");
}
