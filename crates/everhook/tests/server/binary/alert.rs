//! Alerts with the real binary: pages by webhook and in a chat room, replicas, crashes, and the commands.

use std::collections::HashSet;
use std::sync::Arc;

use everhook_core::chat::ChatKind;
use everhook_testkit::chat_room;
use everhook_testkit::receiver::{Answer, Receiver};
use everhook_testkit::wait::until;
use serde_json::{Value, json};

use crate::binary::client::{Application, Client, Endpoint};
use crate::binary::operator::{Operator, masked};
use crate::binary::retry::redrive;
use crate::binary::server::{Backend, Server, on_both_stores};

on_both_stores! {
    dead_deliveries_page_until_they_are_redriven,
    a_failing_page_is_retried_and_the_alert_goes_on,
    an_alert_of_one_endpoint_ignores_the_others,
    alerts_are_kept_by_commands,
}

const SETTINGS: [(&str, &str); 4] = [
    ("RETRY_SCHEDULE", "0.05"),
    ("CHAT_HOSTS", "127.0.0.1"),
    ("PUBLIC_URL", "https://hooks.example.com"),
    ("ALERT_INTERVAL_SECONDS", "1"),
];

/// Creates operational endpoints for a plain webhook and a room, and an alert about dead tasks that pages them.
fn watch(client: &Client, receiver: &Receiver) {
    receiver.answer("/room", chat_room::posted(ChatKind::Slack));
    let plain = json!({ "uid": "plain", "url": receiver.url("/plain"), "eventTypes": ["alert.*"] });
    let room = json!({ "uid": "room", "url": receiver.url("/room"), "kind": "slack", "eventTypes": ["alert.*"] });
    for endpoint in [plain, room] {
        client.post("/operational-webhook/endpoint", &endpoint).expect(201);
    }
    let alert = json!({
        "name": "dead-letters", "description": "See the run book.", "signal": "dead", "threshold": 0,
        "forSeconds": 0, "resolveAfterSeconds": 0,
    });
    client.post("/alert", &alert).expect(201);
}

/// Sends a message whose delivery dies.
fn die(application: &Application, receiver: &Receiver) -> (String, Endpoint) {
    receiver.answer("/", Answer::status(500));
    let endpoint = application.endpoint(&receiver.url("/"));
    let id = application.send(&json!({}));
    application.wait_for(&id, &endpoint, "fail");
    (id, endpoint)
}

fn pages(receiver: &Receiver, count: usize) -> Vec<Value> {
    // A node that was killed after a request leaves its delivery open, so that the same message arrives again.
    let seen = until("enough pages arrived", || {
        let mut seen = receiver.seen("/plain");
        let mut known = HashSet::new();
        seen.retain(|request| known.insert(request.header("webhook-id").to_owned()));
        (seen.len() >= count).then_some(seen)
    });
    seen.iter().map(|request| serde_json::from_slice(&request.body).unwrap()).collect()
}

fn kinds(client: &Client) -> Vec<String> {
    let history = client.get("/alert/dead-letters/page").expect(200);
    let pages = history["data"].as_array().unwrap();
    pages.iter().map(|page| page["kind"].as_str().unwrap().to_owned()).collect()
}

fn dead_deliveries_page_until_they_are_redriven(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &SETTINGS), Receiver::start());
    let client = server.client();
    watch(&client, &receiver);
    let application = client.application("Acme");
    let (message, endpoint) = die(&application, &receiver);

    let page = &pages(&receiver, 1)[0];
    assert_eq!(page["type"], "alert.triggered");
    let data = &page["data"];
    assert_eq!((&data["alert"], &data["signal"], &data["value"]), (&json!("dead-letters"), &json!("dead"), &json!(1)));
    assert_eq!(data["link"], "https://hooks.example.com/alerts/dead-letters");
    assert_eq!(data["title"], "dead-letters is triggered: dead tasks 1 (above 0)");
    let room = receiver.wait_for("/room", 1);
    let text = String::from_utf8_lossy(&room[0].body);
    assert!(text.contains("dead-letters is triggered") && text.contains("See the run book."), "{text}");
    assert!(text.contains("https://hooks.example.com/alerts/dead-letters"), "{text}");
    let shown = client.get("/alert/dead-letters").expect(200);
    assert_eq!((&shown["state"], &shown["lastPage"]["messages"].as_array().unwrap().len()), (&json!("triggered"), &2));

    receiver.answer("/", Answer::status(200));
    redrive(&application, &endpoint);
    application.wait_for(&message, &endpoint, "success");
    assert_eq!(pages(&receiver, 2)[1]["type"], "alert.resolved");
    let room = receiver.wait_for("/room", 2);
    assert!(String::from_utf8_lossy(&room[1].body).contains("dead-letters is resolved"));
    assert_eq!(kinds(&client), ["resolved", "triggered"]);
    assert_eq!(client.get("/alert/dead-letters").expect(200)["state"], "quiet");
}

fn an_alert_of_one_endpoint_ignores_the_others(backend: Arc<Backend>) {
    let settings = [&SETTINGS[..], &[("LISTEN_OPS", "127.0.0.1:0")]].concat();
    let (server, receiver) = (Server::start(&backend, &settings), Receiver::start());
    let (client, operator) = (server.client(), Operator::new(&server));
    let application = client.application("Acme");
    receiver.answer("/watched", Answer::status(500));
    let (_, other) = die(&application, &receiver);
    let watched = application.endpoint(&receiver.url("/watched"));
    let plain = json!({ "uid": "plain", "url": receiver.url("/plain"), "eventTypes": ["alert.*"] });
    client.post("/operational-webhook/endpoint", &plain).expect(201);
    let times = ["--for", "0s", "--resolve-after", "0s", "--endpoint", &watched.id];
    for (name, rule) in [
        ("dead", &["--signal", "dead", "--above", "0"][..]),
        ("rate", &["--signal", "failure-rate", "--above", "0.5", "--window", "1h"]),
    ] {
        operator.prints(&[&["alert", "create", name], rule, &times].concat());
    }
    let refused = ["alert", "create", "x", "--signal", "dead", "--above", "0", "--endpoint", "ep_1"];
    operator.is_refused(&refused, "endpointId");
    let message = application.send(&json!({}));
    application.wait_for(&message, &watched, "fail");
    let told = pages(&receiver, 2);
    let of_dead = told.iter().find(|page| page["data"]["alert"] == "dead").expect("the alert about dead tasks pages");
    assert_eq!((&of_dead["data"]["value"], &of_dead["data"]["endpointId"]), (&json!(1), &json!(watched.id)));
    let title = format!("dead is triggered: dead tasks of {} 1 (above 0)", watched.id);
    assert_eq!(of_dead["data"]["title"], title);
    let of_rate = told.iter().find(|page| page["data"]["alert"] == "rate").expect("the alert about failures pages");
    assert_eq!(of_rate["data"]["value"], 1);
    let metrics = server.ops().send_to("GET", "/metrics", &[], b"").unwrap().body;
    assert!(String::from_utf8_lossy(&metrics).contains("everhook_alert_pages_total{result=\"sent\"} "));
    receiver.answer("/watched", Answer::status(200));
    redrive(&application, &watched);
    application.wait_for(&message, &watched, "success");
    until("the alert about dead tasks is resolved, while another endpoint has one", || {
        (client.get("/alert/dead").expect(200)["state"] == "quiet").then_some(())
    });
    application.wait_for(&message, &other, "fail");
    assert_eq!(operator.json(&["dead", "list", &application.id, &other.id]).as_array().unwrap().len(), 2);
}

/// A page is a delivery like any other: its failure neither repeats nor stops the alert.
fn a_failing_page_is_retried_and_the_alert_goes_on(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &SETTINGS), Receiver::start());
    let client = server.client();
    watch(&client, &receiver);
    receiver.answer_in_turn("/plain", [Answer::status(503)], Answer::status(200));
    let application = client.application("Acme");
    let (message, endpoint) = die(&application, &receiver);
    let seen = receiver.wait_for("/plain", 2);
    assert_eq!(seen[0].body, seen[1].body, "the same page again");
    receiver.answer("/", Answer::status(200));
    redrive(&application, &endpoint);
    application.wait_for(&message, &endpoint, "success");
    assert_eq!(pages(&receiver, 2)[1]["type"], "alert.resolved");
    assert_eq!(kinds(&client), ["resolved", "triggered"]);
}

#[test]
fn two_replicas_send_one_page() {
    let backend = Backend::postgres();
    let (first, receiver) = (Server::start(&backend, &SETTINGS), Receiver::start());
    let second = first.start_another();
    watch(&first.client(), &receiver);
    let application = second.client().application("Acme");
    let (message, endpoint) = die(&application, &receiver);
    pages(&receiver, 1);
    receiver.answer("/", Answer::status(200));
    redrive(&application, &endpoint);
    application.wait_for(&message, &endpoint, "success");
    let types: Vec<_> = pages(&receiver, 2).iter().map(|page| page["type"].clone()).collect();
    assert_eq!(types, ["alert.triggered", "alert.resolved"]);
    assert_eq!(kinds(&first.client()), ["resolved", "triggered"]);
}

#[test]
fn after_a_crash_another_replica_evaluates_the_alerts() {
    let backend = Backend::postgres();
    let settings = [&SETTINGS[..], &[("LEASE_SECONDS", "2")]].concat();
    let (mut first, receiver) = (Server::start(&backend, &settings), Receiver::start());
    let second = first.start_another();
    watch(&first.client(), &receiver);
    let application = second.client().application("Acme");
    let (message, endpoint) = die(&application, &receiver);
    assert_eq!(pages(&receiver, 1)[0]["type"], "alert.triggered");
    // The node with the oldest session evaluates.
    first.kill();
    receiver.answer("/", Answer::status(200));
    redrive(&application, &endpoint);
    application.wait_for(&message, &endpoint, "success");
    assert_eq!(pages(&receiver, 2)[1]["type"], "alert.resolved");
    until("the history is whole", || (kinds(&second.client()) == ["resolved", "triggered"]).then_some(()));
}

fn alerts_are_kept_by_commands(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &[("CHAT_HOSTS", "127.0.0.1")]), Receiver::start());
    let operator = Operator::new(&server);
    operator.is_refused(&["alert", "create", "dead", "--signal", "dead", "--above", "1", "--to", "ops"], "operational");
    let remark = |arguments: &[&str]| String::from_utf8(operator.run(arguments).stderr).unwrap();
    assert!(remark(&["alert", "list"]).starts_with("no alerts: `everhook alert create`"));
    let unheard = remark(&["alert", "create", "unheard", "--signal", "dead", "--above", "1"]);
    assert!(unheard.starts_with("no operational endpoint gets the pages"), "{unheard}");
    operator.prints(&["alert", "delete", "unheard", "--yes"]);
    let endpoint = json!({ "uid": "ops", "url": receiver.url("/ops") });
    server.client().post("/operational-webhook/endpoint", &endpoint).expect(201);
    operator.prints(&["alert", "create", "dead", "--signal", "dead", "--above", "100", "--to", "ops"]);
    let rate = ["--signal", "failure-rate", "--above", "0.2", "--window", "10m", "--for", "2m", "--cooldown", "6h"];
    let escalation = ["--escalate-to", "ops", "--escalate-after", "30m", "--description", "Call the customer."];
    let shown = operator.prints(&[&["alert", "create", "failures"][..], &rate, &escalation].concat());
    insta::allow_duplicates! {
        insta::assert_snapshot!(masked(&shown), @"
        name         failures
        state        quiet
        when         failure-rate above 0.2 in 600 s
        times        for 120 s, resolved after 300 s, cooldown 21600 s
        pages go to  all
        escalation   after 1800 s to ops
        description  Call the customer.
        changed      2026-01-01T00:00:00Z
        ");
    }
    insta::allow_duplicates! {
        insta::assert_snapshot!(masked(&operator.prints(&["alert", "list"])), @"
        NAME      STATE  WHEN                             SINCE  LAST PAGE
        dead      quiet  dead above 100                   -      -
        failures  quiet  failure-rate above 0.2 in 600 s  -      -
        ");
    }
    assert_eq!(operator.prints(&["alert", "test", "dead"]).lines().count(), 1);
    let page: Value = serde_json::from_slice(&receiver.wait_for("/ops", 1)[0].body).unwrap();
    assert_eq!((&page["type"], &page["data"]["test"]), (&json!("alert.triggered"), &json!(true)));
    let edited = operator.json(&["alert", "edit", "dead", "--above", "5", "--to", "all", "--disable"]);
    assert_eq!((&edited["threshold"], &edited["destinations"]), (&json!(5), &Value::Null));
    assert_eq!(edited["state"], "disabled");
    assert_eq!(operator.json(&["alert", "edit", "dead", "--enable"])["state"], "quiet");
    operator.is_refused(&["alert", "edit", "dead"], "is required");
    operator.is_refused(&["alert", "edit", "dead", "--window", "5m"], "windowSeconds");
    assert_eq!(operator.prints(&["alert", "history", "dead", "--csv"]), "time,page,value,escalated,messages\n");
    operator.is_refused(&["alert", "delete", "dead"], "add --yes");
    assert_eq!(operator.prints(&["alert", "delete", "dead", "--yes"]), "deleted dead\n");
    operator.is_refused(&["alert", "show", "dead"], "not found");
}
