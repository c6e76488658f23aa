use std::collections::VecDeque;

use bytes::Bytes;
use everhook_core::chat::{ChatLevel, ChatSecret, Language};
use everhook_core::chat_app::ChatApp;
use everhook_core::id::{Id, TaskId};
use everhook_core::outcome::{Reply, SendFailure};
use everhook_core::time::Timestamp;

use super::*;
use crate::notice::ChatText;

const NOW: Duration = Duration::from_secs(1_000);

fn text() -> ChatText {
    ChatText {
        level: ChatLevel::Error,
        title: "Pipeline failed".to_owned(),
        description: "Stage build".to_owned(),
        fields: Vec::new(),
        link: None,
        mentions: Vec::new(),
        language: Language::En,
    }
}

fn app(kind: ChatKind) -> ChatApp {
    let needs = kind.app_needs().unwrap();
    ChatApp {
        kind,
        client_id: needs.client_id.then(|| "client".to_owned()),
        secret: ChatSecret("hush".to_owned()),
        tenant_id: needs.tenant_id.then(|| "tenant".to_owned()),
        agent_id: needs.agent_id.then_some(7),
        api_url: None,
    }
}

fn address(kind: ChatKind) -> PersonAddress {
    let text = if kind == ChatKind::DingTalk { "13800138000" } else { "ann@example.com" };
    PersonAddress::read(kind, text).unwrap()
}

fn reply(status: u16, body: &str) -> Result<Reply, SendFailure> {
    Ok(Reply { status, retry_after: None, wish: None, body: Bytes::copy_from_slice(body.as_bytes()) })
}

/// Runs a dialogue against a script. Returns the calls as one line each, and the end.
fn run(
    memory: &mut DirectMemory,
    kind: ChatKind,
    now: Duration,
    script: &[(u16, &str)],
) -> (Vec<String>, Result<(), Trouble>) {
    let (app, address, text) = (app(kind), address(kind), text());
    let mut dialogue = match memory.begin(&app, &address, &text, now) {
        Ok(dialogue) => dialogue,
        Err(trouble) => return (Vec::new(), Err(trouble)),
    };
    let (mut calls, mut script) = (Vec::new(), script.iter().collect::<VecDeque<_>>());
    loop {
        match dialogue.next() {
            Next::Call(call) => {
                let method = if call.is_get { "GET" } else { "POST" };
                let body = match &call.body {
                    DirectBody::Empty => String::new(),
                    DirectBody::Form(form) => form.clone(),
                    DirectBody::Json(json) => json.to_string(),
                };
                let bearer = call.bearer.map(|token| format!(" [{token}]")).unwrap_or_default();
                calls.push(format!("{method} {}{bearer} {body}", call.url));
                let (status, body) = script.pop_front().unwrap_or_else(|| panic!("no answer is left: {calls:#?}"));
                dialogue.answered(&reply(*status, body), Timestamp::default());
            }
            Next::End(end) => {
                memory.learn(&app, &address, (&dialogue, &end), now);
                assert!(script.is_empty(), "not all was asked: {calls:#?}");
                return (calls, end);
            }
        }
    }
}

fn fresh(kind: ChatKind, script: &[(u16, &str)]) -> (Vec<String>, Result<(), Trouble>) {
    run(&mut DirectMemory::default(), kind, NOW, script)
}

/// The answers of a platform that knows the person.
fn happy(kind: ChatKind) -> Vec<(u16, &'static str)> {
    let token = (200, r#"{"errcode": 0, "access_token": "tok", "expires_in": 7200}"#);
    match kind {
        ChatKind::Slack => vec![(200, r#"{"ok": true, "user": {"id": "U1"}}"#), (200, r#"{"ok": true}"#)],
        ChatKind::Teams => vec![
            (200, r#"{"access_token": "graph", "expires_in": 3600}"#),
            (200, r#"{"value": [{"id": "aad-1"}]}"#),
            (200, r#"{"access_token": "bot", "expires_in": 3600}"#),
            (201, r#"{"id": "a:conversation/1"}"#),
            (201, r#"{"id": "1"}"#),
        ],
        ChatKind::WeCom => {
            vec![token, (200, r#"{"errcode": 0, "userid": "ann"}"#), (200, r#"{"errcode": 0, "invaliduser": ""}"#)]
        }
        ChatKind::DingTalk => {
            vec![token, (200, r#"{"errcode": 0, "result": {"userid": "ann"}}"#), (200, r#"{"errcode": 0}"#)]
        }
        _ => vec![
            (200, r#"{"code": 0, "tenant_access_token": "tok", "expire": 7200}"#),
            (200, r#"{"code": 0, "msg": "success"}"#),
        ],
    }
}

const KINDS: [ChatKind; 6] =
    [ChatKind::Slack, ChatKind::Teams, ChatKind::Feishu, ChatKind::Lark, ChatKind::WeCom, ChatKind::DingTalk];

#[test]
fn the_calls_of_every_platform_are_as_documented() {
    let calls = KINDS.map(|kind| {
        let (calls, end) = fresh(kind, &happy(kind));
        assert_eq!(end, Ok(()), "{kind}");
        calls.join("\n")
    });
    insta::assert_snapshot!(calls.join("\n\n"));
}

#[test]
fn tokens_and_people_are_looked_up_once() {
    for kind in KINDS {
        let (mut memory, script) = (DirectMemory::default(), happy(kind));
        run(&mut memory, kind, NOW, &script).1.unwrap();
        let last = &script[script.len() - 1..];
        let (calls, end) = run(&mut memory, kind, NOW + Duration::from_secs(60), last);
        assert_eq!((calls.len(), end), (1, Ok(())), "{kind}: only the message is sent");
    }
}

#[test]
fn a_token_that_has_expired_is_replaced() {
    for kind in [ChatKind::Feishu, ChatKind::WeCom, ChatKind::DingTalk, ChatKind::Teams] {
        let (mut memory, script) = (DirectMemory::default(), happy(kind));
        run(&mut memory, kind, NOW, &script).1.unwrap();
        let refused = match kind {
            ChatKind::Feishu => (200, r#"{"code": 99991663, "msg": "invalid token"}"#),
            ChatKind::Teams => (401, "{}"),
            _ => (200, r#"{"errcode": 42001, "errmsg": "expired"}"#),
        };
        let token = if kind == ChatKind::Teams { script[2] } else { script[0] };
        let again = [refused, token, script[script.len() - 1]];
        let (calls, end) = run(&mut memory, kind, NOW, &again);
        assert_eq!((calls.len(), end), (3, Ok(())), "{kind}");
        // A platform that refuses every token does not keep the dialogue going for ever.
        let (_, end) = run(&mut memory, kind, NOW, &[refused, token, refused]);
        assert!(matches!(end, Err(Trouble::Unreachable(_))), "{kind}: {end:?}");
    }
}

#[test]
fn a_person_who_is_unknown_is_not_looked_up_for_a_minute() {
    let cases: [(ChatKind, &[(u16, &str)]); 4] = [
        (ChatKind::Slack, &[(200, r#"{"ok": false, "error": "users_not_found"}"#)]),
        (ChatKind::Teams, &[(200, r#"{"access_token": "graph", "expires_in": 3600}"#), (200, r#"{"value": []}"#)]),
        (
            ChatKind::WeCom,
            &[
                (200, r#"{"errcode": 0, "access_token": "tok", "expires_in": 7200}"#),
                (200, r#"{"errcode": 46004, "errmsg": "no such user"}"#),
                (200, r#"{"errcode": 46004, "errmsg": "no such user"}"#),
            ],
        ),
        (
            ChatKind::DingTalk,
            &[
                (200, r#"{"errcode": 0, "access_token": "tok", "expires_in": 7200}"#),
                (200, r#"{"errcode": 60121, "errmsg": "no such user"}"#),
            ],
        ),
    ];
    for (kind, script) in cases {
        let mut memory = DirectMemory::default();
        let (_, end) = run(&mut memory, kind, NOW, script);
        let want = Err(Trouble::Unreachable("the platform knows nobody with this address".to_owned()));
        assert_eq!(end, want, "{kind}");
        assert_eq!(run(&mut memory, kind, NOW, &[]), (Vec::new(), want), "{kind}");
        let later = if kind == ChatKind::Slack { &happy(kind)[..] } else { &happy(kind)[1..] };
        assert_eq!(run(&mut memory, kind, NOW + Duration::from_secs(61), later).1, Ok(()), "{kind}");
    }
}

#[test]
fn an_answer_is_read_by_the_rule_of_the_platform() {
    let sent = |kind, status, body| {
        let mut script = happy(kind);
        *script.last_mut().unwrap() = (status, body);
        fresh(kind, &script).1
    };
    let busy = Err(Trouble::Throttled(None));
    assert_eq!(sent(ChatKind::Slack, 200, r#"{"ok": false, "error": "ratelimited"}"#), busy);
    assert_eq!(sent(ChatKind::Teams, 429, "{}"), busy);
    assert_eq!(sent(ChatKind::Feishu, 400, r#"{"code": 230020, "msg": "limit"}"#), busy);
    assert_eq!(sent(ChatKind::WeCom, 200, r#"{"errcode": 45009}"#), busy);
    assert_eq!(sent(ChatKind::DingTalk, 200, r#"{"errcode": 88}"#), busy);
    let unreachable = |reason: &str| Err(Trouble::Unreachable(reason.to_owned()));
    assert_eq!(sent(ChatKind::Slack, 200, r#"{"ok": false, "error": "cannot_dm_bot"}"#), unreachable("cannot_dm_bot"));
    assert_eq!(
        sent(ChatKind::Teams, 403, r#"{"error": {"code": "BotNotInConversationRoster", "message": "not installed"}}"#),
        unreachable("BotNotInConversationRoster, not installed")
    );
    assert_eq!(
        sent(ChatKind::Lark, 400, r#"{"code": 230013, "msg": "Bot has NO availability"}"#),
        unreachable("code 230013, Bot has NO availability")
    );
    assert_eq!(
        sent(ChatKind::WeCom, 200, r#"{"errcode": 0, "invaliduser": "ann"}"#),
        unreachable("the app may not write to this person")
    );
    for kind in KINDS {
        assert!(matches!(sent(kind, 500, "{}"), Err(Trouble::Failed { .. })), "{kind}");
        assert!(kind == ChatKind::Teams || matches!(sent(kind, 200, "<html>"), Err(Trouble::Failed { .. })), "{kind}");
    }
}

#[test]
fn a_refused_app_does_not_show_its_secret() {
    for (kind, answer) in [
        (ChatKind::Teams, (400, r#"{"error": "invalid_client", "error_description": "hush"}"#)),
        (ChatKind::Feishu, (200, r#"{"code": 10014, "msg": "app secret hush invalid"}"#)),
        (ChatKind::WeCom, (200, r#"{"errcode": 40001, "errmsg": "invalid credential hush"}"#)),
        (ChatKind::DingTalk, (200, r#"{"errcode": 40089, "errmsg": "hush"}"#)),
    ] {
        let (_, end) = fresh(kind, &[answer]);
        let Err(Trouble::Unreachable(reason)) = end else { panic!("{kind}: {end:?}") };
        assert!(reason.starts_with("the platform refuses the credentials") && !reason.contains("hush"), "{reason}");
    }
}

#[test]
fn a_payload_names_people() {
    let mut chat = Chat::new(ChatKind::Slack);
    assert_eq!(people(&chat, br#"{"owner": "ann@example.com"}"#), People::default());
    chat.people = Some("/owner".to_owned());
    let read = |payload: &str| {
        let found = people(&chat, payload.as_bytes());
        let addresses = found.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        (addresses, found.unreadable.len())
    };
    assert_eq!(read(r#"{"owner": "Ann@example.com"}"#), ("ann@example.com".to_owned(), 0));
    assert_eq!(read(r#"{"owner": ["a@x", "b@x", "A@x"]}"#), ("a@x b@x".to_owned(), 0));
    assert_eq!(read(r#"{"owner": ["a@x", 7, "nobody"]}"#), ("a@x".to_owned(), 2));
    assert_eq!(read(r#"{"owner": null}"#), (String::new(), 0));
    assert_eq!(read("not json"), (String::new(), 0));
    let many: Vec<String> = (0..50).map(|n| format!("p{n}@x")).collect();
    let (addresses, unread) = read(&serde_json::json!({ "owner": many }).to_string());
    assert_eq!((addresses.split(' ').count(), unread), (CHAT_PEOPLE_MAX, 1));
}

#[test]
fn the_room_gets_what_a_person_cannot() {
    let person = |result| ("ann@example.com".to_owned(), result);
    let unreachable = || Err(Trouble::Unreachable("no such person".to_owned()));
    let failed = || Err(Trouble::Failed { class: Class::Timeout, reason: "timed out".to_owned() });
    let end = |results: &[PersonResult], number| conclude(ChatKind::Slack, results, number);
    assert_eq!(end(&[person(Ok(())), person(Ok(()))], 1), DirectEnd::Reached);
    assert_eq!(end(&[person(Ok(())), person(unreachable())], 1), DirectEnd::Room);
    let DirectEnd::Later(judged) = end(&[person(unreachable()), person(failed())], 2) else { panic!("it is retried") };
    assert_eq!((judged.class, judged.outcome), (Class::Timeout, Outcome::Failure { retry_after: None }));
    assert_eq!(end(&[person(failed())], 3), DirectEnd::Room, "nobody waits for days");
    let DirectEnd::Later(judged) = end(&[person(Err(Trouble::Throttled(None)))], 1) else { panic!("it is retried") };
    assert_eq!(judged.outcome, Outcome::Throttled { retry_after: Some(MINUTE) });
}

#[test]
fn a_person_is_reached_once_per_delivery() {
    let mut memory = DirectMemory::default();
    let (delivery, ann) = (TaskId(Id::derived(&[b"delivery"])), address(ChatKind::Slack));
    assert!(!memory.has_reached(delivery, &ann));
    memory.reached(delivery, &ann);
    assert!(memory.has_reached(delivery, &ann));
    memory.ended(delivery);
    assert!(!memory.has_reached(delivery, &ann));
}
