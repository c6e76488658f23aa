//! Chat endpoints against a fake of each platform: posted, failed, throttled, dead, redriven, gone.

use std::sync::Arc;
use std::thread;

use everhook_core::chat::ChatKind;
use everhook_testkit::chat_room::{self, People};
use everhook_testkit::receiver::{Answer, Receiver};
use everhook_testkit::wait::until;
use serde_json::{Value, json};

use crate::binary::client::{Application, Endpoint};
use crate::binary::operator::Operator;
use crate::binary::retry::redrive;
use crate::binary::server::{Backend, Server, on_both_stores};

on_both_stores! {
    a_room_of_every_platform_gets_its_messages,
    a_template_that_fails_is_said_in_the_attempt,
    a_chat_endpoint_is_tried_before_it_is_saved,
    operational_events_arrive_in_a_room,
    people_get_their_messages_instead_of_the_room,
    a_person_is_not_written_to_twice_by_a_retry,
}

const SETTINGS: [(&str, &str); 3] =
    [("RETRY_SCHEDULE", "0.05"), ("CHAT_HOSTS", "127.0.0.1"), ("PUBLIC_URL", "https://hooks.example.com")];

fn room(application: &Application, receiver: &Receiver, kind: ChatKind, path: &str) -> Endpoint {
    let endpoint = json!({ "kind": kind, "url": receiver.url(path), "eventTypes": [format!("{kind}.failed")] });
    let types = json!({ "name": format!("{kind}.failed"), "description": "" });
    application.client.post("/event-type", &types);
    application.endpoint_with(endpoint)
}

fn send(application: &Application, kind: ChatKind) -> String {
    send_payload(application, kind, json!({ "title": "Pipeline failed", "stage": "build" }))
}

fn send_payload(application: &Application, kind: ChatKind, payload: Value) -> String {
    let message = json!({ "eventType": format!("{kind}.failed"), "payload": payload });
    let sent = application.client.post(&application.path("/msg"), &message).expect(202);
    sent["id"].as_str().unwrap().to_owned()
}

fn a_room_of_every_platform_gets_its_messages(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &SETTINGS), Receiver::start());
    let application = server.client().application("Acme");
    // The rooms have rate limits, so they are tried side by side.
    thread::scope(|threads| {
        for kind in ChatKind::ALL {
            let (application, receiver) = (&application, &receiver);
            threads.spawn(move || check_room(application, receiver, kind));
        }
    });
    check_secrecy(&server, &application);
}

/// Takes a room through a failure, a redrive, a refusal for now and its end.
fn check_room(application: &Application, receiver: &Receiver, kind: ChatKind) {
    let path = format!("/{kind}/credential");
    let endpoint = room(application, receiver, kind, &path);
    receiver.answer_in_turn(&path, [chat_room::failed(kind)], chat_room::posted(kind));
    let message = send(application, kind);
    application.wait_for(&message, &endpoint, "success");
    let seen = receiver.seen(&path);
    assert_eq!(seen.len(), 2, "{kind}: one failure, and one success that is not repeated");
    let body = String::from_utf8_lossy(&seen[1].body);
    assert!(body.contains("Pipeline failed") && body.contains("build"), "{body}");
    assert!(body.contains(&format!("https://hooks.example.com/apps/{}/messages/{message}", application.id)));
    assert!(seen[1].headers.iter().all(|(name, _)| !name.starts_with("webhook-")));

    receiver.answer(&path, chat_room::failed(kind));
    let message = send(application, kind);
    application.wait_for(&message, &endpoint, "fail");
    receiver.answer(&path, chat_room::posted(kind));
    redrive(application, &endpoint);
    application.wait_for(&message, &endpoint, "success");
    let attempts = application.attempts(&message);
    assert_eq!(attempts.len(), 3, "{attempts:?}");

    receiver.answer(&path, chat_room::throttled(kind));
    let message = send(application, kind);
    let attempts = application.wait_for_attempts(&message, 1);
    assert_eq!(attempts[0]["class"], "throttled", "{kind}");
    assert_eq!(application.destination(&message, &endpoint)["statusText"], "pending", "{kind}");
    application.client.delete(&application.path(&format!("/endpoint/{}", endpoint.id))).expect(204);

    let gone = room(application, receiver, kind, &format!("/gone/{kind}/credential"));
    receiver.answer(&format!("/gone/{kind}/credential"), chat_room::gone(kind));
    let message = send(application, kind);
    assert_eq!(application.wait_for(&message, &gone, "fail")["disabled"], true, "{kind}");
}

/// The URL is the credential of a room, so it appears nowhere.
#[track_caller]
fn check_secrecy(server: &Server, application: &Application) {
    let mut shown = vec![server.log()];
    for path in ["/endpoint", "/msg"] {
        let rows = application.client.list(&application.path(path));
        if path == "/msg" {
            let attempts = rows.iter().flat_map(|message| application.attempts(message["id"].as_str().unwrap()));
            shown.extend(attempts.map(|attempt| attempt.to_string()));
        }
        shown.extend(rows.iter().map(Value::to_string));
    }
    for path in ["/endpoint", "/overview", "/failure-group", "/delivery"] {
        shown.push(application.client.get(path).expect(200).to_string());
    }
    for text in shown {
        assert!(!text.contains("credential"), "{text}");
    }
}

fn a_template_that_fails_is_said_in_the_attempt(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &SETTINGS), Receiver::start());
    let application = server.client().application("Acme");
    let endpoint = room(&application, &receiver, ChatKind::Slack, "/room");
    receiver.answer("/room", chat_room::posted(ChatKind::Slack));
    application.change(&endpoint, &json!({ "chat": { "template": { "title": "{{ payload.owner.name }}" } } }));
    let message = send(&application, ChatKind::Slack);
    application.wait_for(&message, &endpoint, "success");
    let response = application.attempts(&message)[0]["response"].as_str().unwrap().to_owned();
    let want = "the template failed, and the default text was sent (title: undefined value in line 1)\nok";
    assert_eq!(response, want);
    assert!(String::from_utf8_lossy(&receiver.seen("/room")[0].body).contains("Pipeline failed"));

    application.change(&endpoint, &json!({ "chat": { "template": { "title": "{{ payload.stage }}!" } } }));
    let message = send(&application, ChatKind::Slack);
    application.wait_for(&message, &endpoint, "success");
    assert!(String::from_utf8_lossy(&receiver.seen("/room")[1].body).contains("build!"));
}

fn a_chat_endpoint_is_tried_before_it_is_saved(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &SETTINGS), Receiver::start());
    let application = server.client().application("Acme");
    let test = |body: Value| application.client.post(&application.path("/chat/test"), &body).expect(200);
    receiver.answer("/room", chat_room::posted(ChatKind::WeCom));
    let tried = test(json!({ "kind": "wecom", "url": receiver.url("/room") }));
    assert_eq!((&tried["posted"], &tried["explanation"]), (&json!(true), &json!("wecom has posted the message")));
    receiver.answer("/room", chat_room::gone(ChatKind::WeCom));
    let tried = test(json!({ "kind": "wecom", "url": receiver.url("/room"), "eventType": "a.b", "payload": {"n": 1} }));
    assert_eq!((&tried["posted"], &tried["class"]), (&json!(false), &json!("gone")));
    assert!(tried["explanation"].as_str().unwrap().contains("does not exist any more"), "{tried}");

    let operator = Operator::new(&server);
    let id = application.id.as_str();
    receiver.answer("/room", chat_room::posted(ChatKind::WeCom));
    let url = receiver.url("/room");
    let created = operator.prints(&["endpoint", "create", id, &url, "--kind", "wecom", "--uid", "ops"]);
    assert!(created.contains("wecom") && !created.contains("/room"), "{created}");
    let shown = operator.prints(&["endpoint", "chat", "preview", id, "ops"]);
    assert!(shown.contains("Test of Everhook"), "{shown}");
    let shown = operator.prints(&["endpoint", "chat", "test", id, "ops"]);
    assert!(shown.contains("wecom has posted the message"), "{shown}");
    assert_eq!(receiver.seen("/room").len(), 3);
}

fn operational_events_arrive_in_a_room(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &SETTINGS), Receiver::start());
    let client = server.client();
    receiver.answer("/room", chat_room::posted(ChatKind::Feishu));
    let endpoint = json!({
        "kind": "feishu", "url": receiver.url("/room"), "chat": { "language": "zh", "secret": "demo" },
        "eventTypes": ["endpoint.created"],
    });
    let created = client.post("/operational-webhook/endpoint", &endpoint).expect(201);
    assert_eq!((&created["kind"], &created["url"]), (&json!("feishu"), &json!(receiver.url("/***"))));
    assert!(!created.to_string().contains("demo"), "{created}");
    client.application("Acme").endpoint(&receiver.url("/other"));
    let seen = receiver.wait_for("/room", 1);
    let body: Value = serde_json::from_slice(&seen[0].body).unwrap();
    assert_eq!(body["card"]["header"]["title"]["content"], "ℹ️ 端点已创建");
    assert!(body["sign"].is_string() && body["timestamp"].is_string());
}

const KINDS: [ChatKind; 6] =
    [ChatKind::Slack, ChatKind::Teams, ChatKind::Feishu, ChatKind::Lark, ChatKind::WeCom, ChatKind::DingTalk];

fn set_app(application: &Application, people: &People<'_>, kind: ChatKind) {
    let needs = kind.app_needs().unwrap();
    let mut app = json!({ "secret": "app-credential", "apiUrl": people.url() });
    for (member, is_needed, value) in [
        ("clientId", needs.client_id, json!("client")),
        ("tenantId", needs.tenant_id, json!("tenant")),
        ("agentId", needs.agent_id, json!(7)),
    ] {
        if is_needed {
            app[member] = value;
        }
    }
    let stored = application.client.put(&format!("/chat-app/{kind}"), &app).expect(200);
    assert_eq!(stored["kind"], json!(kind));
    assert!(!stored.to_string().contains("credential"), "{stored}");
}

fn send_to(application: &Application, kind: ChatKind, people: Value) -> String {
    send_payload(application, kind, json!({ "title": "Pipeline failed", "stage": "build", "owners": people }))
}

fn people_get_their_messages_instead_of_the_room(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &SETTINGS), Receiver::start());
    let application = server.client().application("Acme");
    for kind in KINDS {
        let (path, people) = (format!("/{kind}/credential"), People::of(&receiver, kind));
        let [ann, bob] = match kind {
            ChatKind::DingTalk => ["13800138000", "13800138001"],
            _ => ["ann@example.com", "bob@example.com"],
        };
        let endpoint = room(&application, &receiver, kind, &path);
        application.change(&endpoint, &json!({ "policy": { "rate": "none" }, "chat": { "people": "/owners" } }));
        receiver.answer(&path, chat_room::posted(kind));
        let response = |message: &str| application.attempts(message)[0]["response"].as_str().unwrap().to_owned();

        let message = send_to(&application, kind, json!(ann));
        application.wait_for(&message, &endpoint, "success");
        assert!(response(&message).starts_with(&format!("direct messages: the environment has no app of {kind}")));
        assert_eq!(receiver.seen(&path).len(), 1, "{kind}: the room got it");

        set_app(&application, &people, kind);
        let message = send_to(&application, kind, json!([ann]));
        application.wait_for(&message, &endpoint, "success");
        assert_eq!(response(&message), format!("direct messages: {ann} got it"));
        assert_eq!((people.messages().len(), receiver.seen(&path).len()), (1, 1), "{kind}: only the person got it");
        assert!(people.messages()[0].contains("Pipeline failed"), "{kind}");

        people.forget();
        let message = send_to(&application, kind, json!([bob, "nonsense"]));
        application.wait_for(&message, &endpoint, "success");
        let said = response(&message);
        assert!(said.contains(&format!("{bob} cannot be reached (")) && said.contains("nonsense cannot be"), "{said}");
        assert_eq!(receiver.seen(&path).len(), 2, "{kind}: the room got it");
    }
    check_secrecy(&server, &application);
    let apps = application.client.get("/chat-app").expect(200);
    assert_eq!(apps["data"].as_array().unwrap().len(), KINDS.len());
    assert!(!apps.to_string().contains("credential"), "{apps}");

    let operator = Operator::new(&server);
    let listed = operator.prints(&["chat-app", "list"]);
    assert!(listed.contains("slack") && listed.contains("teams") && !listed.contains("credential"), "{listed}");
    People::of(&receiver, ChatKind::Slack);
    let tried = operator.prints(&["chat-app", "test", "slack", "ann@example.com"]);
    assert!(tried.contains("ann@example.com got the message"), "{tried}");
    operator.prints(&["chat-app", "delete", "slack", "--yes"]);
    assert_eq!(application.client.delete("/chat-app/slack").status, 404);
}

fn a_person_is_not_written_to_twice_by_a_retry(backend: Arc<Backend>) {
    let (server, receiver) = (
        Server::start(&backend, &[("RETRY_SCHEDULE", "0.05,0.05,0.05"), ("CHAT_HOSTS", "127.0.0.1")]),
        Receiver::start(),
    );
    let application = server.client().application("Acme");
    let (kind, people) = (ChatKind::Slack, People::of(&receiver, ChatKind::Slack));
    let endpoint = room(&application, &receiver, kind, "/room");
    application.change(&endpoint, &json!({ "policy": { "rate": "none" }, "chat": { "people": "/owners" } }));
    set_app(&application, &people, kind);
    receiver.answer("/room", chat_room::posted(kind));
    // The second person fails twice, and then the room gets the message.
    let sent = Answer::status(200).body(r#"{"ok": true}"#);
    receiver.answer_in_turn("/slack-api/api/chat.postMessage", [sent], Answer::status(500));
    let message = send_to(&application, kind, json!(["ann@example.com", "bob@example.com"]));
    application.wait_for(&message, &endpoint, "success");
    assert_eq!(people.messages().len(), 1 + 3, "ann gets one message, and bob is tried in each attempt");
    assert_eq!(receiver.seen("/room").len(), 1);
    let attempts = application.attempts(&message);
    assert_eq!(attempts.len(), 3, "{attempts:?}");
    assert!(
        attempts.iter().any(|attempt| attempt.to_string().contains("the message goes to the room")),
        "{attempts:?}"
    );

    // Sent again on purpose, the message reaches everybody again.
    people.answer_message(Answer::status(200).body(r#"{"ok": true}"#));
    let resend = application.path(&format!("/msg/{message}/endpoint/{}/resend", endpoint.id));
    application.client.post(&resend, &json!({})).expect(202);
    until("both got it again", || (people.messages().len() == 4 + 2).then_some(()));
    assert_eq!(receiver.seen("/room").len(), 1);
}
