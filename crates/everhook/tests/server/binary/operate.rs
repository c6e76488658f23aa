//! Commands of an operator: settings, access, many messages, and bulk work.

use std::sync::Arc;

use everhook_testkit::receiver::{Answer, Receiver};
use everhook_testkit::wait::until;
use serde_json::json;

use crate::binary::client::text;
use crate::binary::operator::Operator;
use crate::binary::server::{Backend, Server, on_both_stores};

on_both_stores! {
    settings_and_access_are_kept_by_commands,
    many_messages_and_jobs_are_sent_by_commands,
    bulk_work_is_counted_first_and_then_done_at_its_rate,
    waiting_deliveries_are_cancelled_in_bulk,
}

/// Starts an operator with an application and an endpoint.
fn set_up(server: &Server, url: &str) -> String {
    let operator = Operator::new(server);
    operator.prints(&["app", "create", "Acme", "--uid", "acme"]);
    text(&operator.json(&["endpoint", "create", "acme", url, "--uid", "main"])["id"])
}

fn settings_and_access_are_kept_by_commands(backend: Arc<Backend>) {
    let server = Server::start(&backend, &[]);
    let operator = Operator::new(&server);
    let endpoint = set_up(&server, "http://127.0.0.1:9/hook");
    let (app, main) = (["--app", "acme"], ["--app", "acme", "--endpoint", "main"]);
    assert_eq!(operator.prints(&[&["policy", "show"], &app[..]].concat()), "no settings: all are inherited\n");
    operator.prints(&["policy", "set", r#"{"timeoutSeconds": 9}"#]);
    operator.prints(&[&["policy", "set", r#"{"retry": {"maxAttempts": 3}}"#], &app[..]].concat());
    operator.prints(&[&["policy", "set", r#"{"retry": {"jitterPercent": 5}, "rate": "none"}"#], &main[..]].concat());
    let set = operator.json(&[&["policy", "set", r#"{"rate": null}"#], &main[..]].concat());
    assert_eq!(set, json!({ "retry": { "jitterPercent": 5 } }));
    let table = operator.prints(&[&["policy", "effective"], &main[..]].concat());
    for (setting, value, from) in [
        ("timeoutSeconds", "9", "environment"),
        ("maxAttempts", "3", "application"),
        ("jitterPercent", "5", "endpoint"),
    ] {
        let row = table.lines().find(|line| line.starts_with(setting)).expect(setting);
        assert_eq!(row.split_whitespace().collect::<Vec<_>>(), [setting, value, from], "{table}");
    }
    assert_eq!(operator.json(&["policy", "effective"])["timeoutSeconds"]["from"], "environment");
    operator.is_refused(&["policy", "set", "{nonsense"], "not JSON");
    operator.is_refused(&["policy", "set", r#"{"speed": 1}"#], "speed");
    assert!(operator.prints(&["endpoint", "pause", "acme", "main"]).starts_with("main is paused"));
    assert_eq!(operator.json(&[&["policy", "show"], &main[..]].concat())["paused"], true);
    operator.prints(&["endpoint", "resume", "acme", "main"]);
    assert_eq!(operator.json(&[&["policy", "show"], &main[..]].concat())["retry"]["jitterPercent"], 5);

    operator.prints_of("secret\n", &["endpoint", "auth", "basic", "acme", "main", "ada", "-"]);
    let shown = operator.prints(&["endpoint", "auth", "show", "acme", "main"]);
    assert!(shown.contains("basic user          ada") && !shown.contains("secret"), "{shown}");
    operator.is_refused(&["endpoint", "auth", "remove", "acme", "main", "basic"], "add --yes");
    operator.prints(&["endpoint", "auth", "remove", "acme", "main", "basic", "--yes"]);
    assert!(operator.prints(&["endpoint", "auth", "show", "acme", "main"]).contains("basic user          none"));
    let test = ["endpoint", "filter-test", "acme", "main", "--event-type", "a", "--payload", r#"{"n": 5}"#];
    assert!(
        operator.prints(&[&test[..], &["--filter", "payload.n > 9"]].concat()).starts_with("the message does not pass")
    );
    assert!(operator.prints(&[&test[..], &["--filter", "payload.n > 1"]].concat()).starts_with("the message passes"));

    let key = operator.prints(&["integration", "create", "acme", "billing"]);
    assert!(!key.trim().is_empty() && key.lines().count() == 1, "{key}");
    let id = text(&operator.json(&["integration", "list", "acme"])[0]["id"]);
    assert_eq!(operator.json(&["integration", "update", "acme", &id, "--name", "books"])["name"], "books");
    assert_ne!(operator.prints(&["integration", "rotate-key", "acme", &id, "--yes"]), key);
    operator.prints(&["integration", "delete", "acme", &id, "--yes"]);
    operator.is_refused(&["integration", "show", "acme", &id], "not found");
    let url = operator.prints(&["portal", "open", "acme", "--read-only", "--expires-in", "1h", "--session", "s"]);
    assert!(url.contains("/portal/"), "{url}");
    operator.prints(&["portal", "close", "acme", "--session", "s", "--yes"]);
    assert_eq!(operator.json(&["portal", "set-look", "--name", "Acme hooks"])["name"], "Acme hooks");
    assert!(operator.prints(&["portal", "look"]).contains("Acme hooks"));

    operator.prints(&["operational", "create", "http://127.0.0.1:9/ops", "--uid", "ops", "--header", "X-Team: 1"]);
    let changed = operator.json(&["operational", "update", "ops", "--description", "night shift", "--disable", "true"]);
    assert_eq!((&changed["disabled"], &changed["url"]), (&json!(true), &json!("http://127.0.0.1:9/ops")));
    assert!(operator.prints(&["operational", "headers", "ops"]).starts_with("X-Team:"), "headers stay");
    assert_eq!(operator.prints(&["operational", "headers", "ops", "--set", "none"]), "no headers\n");
    let secret = operator.prints(&["operational", "secret", "ops"]);
    assert_ne!(operator.prints(&["operational", "secret", "ops", "--rotate", "--grace", "1h"]), secret);
    assert!(operator.prints(&["find", &endpoint]).contains("endpoint"));
    assert_eq!(operator.json(&["endpoint", "list"])[0]["id"], endpoint);
    event_types_are_moved(&operator);
}

fn event_types_are_moved(operator: &Operator<'_>) {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let document = json!({
        "openapi": "3.1.0", "info": { "title": "t", "version": "1" },
        "webhooks": { "invoice.paid": { "post": { "description": "It was paid", "responses": {} } } },
    });
    let document = file("openapi.json", &document.to_string());
    let dry = operator.prints(&["event-type", "import", &document, "--dry-run"]);
    assert_eq!(dry, "would change invoice.paid\n");
    assert_eq!(operator.prints(&["event-type", "import", &document]), "changed invoice.paid\n");
    let exported = file("environment.json", &operator.prints(&["environment", "export"]));
    operator.prints(&["event-type", "delete", "invoice.paid", "--yes"]);
    operator.is_refused(&["environment", "import", &exported], "add --yes");
    assert_eq!(operator.prints(&["environment", "import", &exported, "--yes"]), "imported 1 event types\n");
    assert_eq!(operator.json(&["event-type", "show", "invoice.paid"])["description"], "It was paid");
}

fn many_messages_and_jobs_are_sent_by_commands(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &[]), Receiver::start());
    let operator = Operator::new(&server);
    set_up(&server, &receiver.url("/"));
    assert_eq!(operator.prints(&["msg", "precheck", "acme", "a"]), "an endpoint would get it\n");
    let lines = "{\"eventType\": \"a\", \"payload\": {\"b\": 1.0, \"a\": 2}, \"eventId\": \"e1\"}\n\n\
                 {\"eventType\": \"a\", \"payload\": {}}\n";
    let sent = operator.prints_of(lines, &["msg", "send-many", "acme", "-", "--csv"]);
    assert_eq!(sent.lines().count(), 3, "{sent}");
    let bodies: Vec<_> = receiver.wait_for("/", 2).into_iter().map(|seen| seen.body).collect();
    assert!(bodies.contains(&br#"{"b": 1.0, "a": 2}"#.to_vec()), "byte for byte");
    operator.is_refused(&["msg", "send-many", "acme", "/nowhere"], "could not read");
    let ids: Vec<String> = sent.lines().skip(1).map(|line| line.split(',').next().unwrap().to_owned()).collect();
    assert_eq!(operator.json(&["msg", "list"]).as_array().unwrap().len(), 2, "of all applications");
    until("both are delivered", || {
        (operator.json(&["endpoint", "stats", "acme", "main"])["success"] == 2).then_some(())
    });
    assert_eq!(operator.json(&["endpoint", "messages", "acme", "main"]).as_array().unwrap().len(), 2);
    assert_eq!(operator.json(&["delivery", "show", "acme", "main", &ids[0]])["state"], "succeeded");
    assert_eq!(operator.json(&["delivery", "list", "acme", "--state", "succeeded"]).as_array().unwrap().len(), 2);
    let jobs = "{\"queue\": \"q\", \"kind\": \"k\"}\n{\"queue\": \"q\", \"kind\": \"k\", \"payload\": 1}\n";
    assert_eq!(operator.prints_of(jobs, &["job", "enqueue-many", "-"]).lines().count(), 3);
    let poller = operator.prints(&["poller", "create", "acme", "--uid", "inbox"]);
    assert!(poller.starts_with("ep_"), "{poller}");
    operator.prints(&["msg", "send", "acme", "b", "{}"]);
    let read = operator.json(&["poller", "read", "acme", "inbox", "--consumer", "books"]);
    assert_eq!(read[0]["eventType"], "b");
    assert!(!operator.prints(&["poller", "seek", "acme", "inbox", "books", "--after", "1h"]).trim().is_empty());
    operator.is_refused(&["msg", "expunge", "acme", &ids[0], "nobody", "--yes"], "nobody");
    assert!(operator.prints(&["msg", "expunge", "acme", &ids[0], &ids[1], "--yes"]).starts_with("erased"));
    let counted = operator.prints(&["msg", "expunge-all", "acme", "--dry-run"]);
    assert_eq!(counted, "1 message matches\n", "two have no payload any more");
}

fn bulk_work_is_counted_first_and_then_done_at_its_rate(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &[("RETRY_SCHEDULE", "0")]), Receiver::start());
    let operator = Operator::new(&server);
    set_up(&server, &receiver.url("/"));
    receiver.answer("/", Answer::status(500));
    for number in 0..3 {
        operator.prints(&["msg", "send", "acme", if number == 0 { "a" } else { "b" }, "{}"]);
    }
    until("all are dead", || (operator.json(&["dead", "list", "acme", "main"]).as_array()?.len() == 3).then_some(()));
    receiver.answer("/", Answer::status(200));
    let before = receiver.count();
    assert_eq!(operator.prints(&["dead", "redrive", "acme", "main", "--all", "--dry-run"]), "3 messages match\n");
    let replay = ["replay", "acme", "main", "--since", "1h", "--event-type", "b"];
    assert_eq!(operator.prints(&[&replay[..], &["--dry-run"]].concat()), "2 messages match\n");
    let recover = ["endpoint", "recover", "acme", "main", "--since", "1h"];
    assert_eq!(operator.json(&[&recover[..], &["--dry-run"]].concat()), json!({ "count": 3 }));
    assert_eq!(operator.json(&["task", "list", "--kind", "bulk.dry-run"])[0]["data"], json!({ "messagesMatched": 3 }));
    assert_eq!(receiver.count(), before, "a dry run sends nothing");
    operator.is_refused(&[&replay[..], &["--rate", "0", "--yes"]].concat(), "ratePerSecond");
    let paced = operator.prints(&[&replay[..], &["--rate", "1000", "--wait", "--yes"]].concat());
    assert_eq!(paced, "messagesSent: 2\n");
    receiver.wait_for("/", before + 2);
    assert_eq!(operator.prints(&[&recover[..], &["--wait"]].concat()), "messagesSent: 1\n");
    receiver.wait_for("/", before + 3);
}

fn waiting_deliveries_are_cancelled_in_bulk(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &[]), Receiver::start());
    let operator = Operator::new(&server);
    set_up(&server, &receiver.url("/"));
    operator.prints(&["endpoint", "pause", "acme", "main"]);
    // More than the task visits at once.
    let line = |event_type: &str| format!("{{\"eventType\": \"{event_type}\", \"payload\": {{}}}}\n");
    operator.prints_of(&(line("a") + &line("b").repeat(260)), &["msg", "send-many", "acme", "-"]);
    let cancel = ["endpoint", "cancel", "acme", "main", "--since", "1h", "--event-type", "b"];
    assert_eq!(operator.prints(&[&cancel[..], &["--dry-run"]].concat()), "260 messages match\n");
    operator.is_refused(&cancel, "add --yes");
    operator.is_refused(&[&cancel[..], &["--rate", "0", "--yes"]].concat(), "ratePerSecond");
    let paced = [&cancel[..], &["--rate", "10000", "--wait", "--yes"]].concat();
    assert_eq!(operator.prints(&paced), "deliveriesCancelled: 260\n");
    assert_eq!(operator.prints(&[&cancel[..], &["--wait", "--yes"]].concat()), "deliveriesCancelled: 0\n");
    let count = |state| operator.json(&["delivery", "list", "acme", "--state", state, "--limit", "500"]);
    assert_eq!(count("cancelled").as_array().unwrap().len(), 260);
    assert_eq!(count("held").as_array().unwrap().len(), 1);
    operator.prints(&["endpoint", "resume", "acme", "main"]);
    assert_eq!(receiver.wait_for("/", 1)[0].header("everhook-event-type"), "a");
}
