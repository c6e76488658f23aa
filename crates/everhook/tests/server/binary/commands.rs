//! Webhooks at the command line: applications, endpoints, event types, messages, attempts and dead deliveries.

use std::sync::Arc;

use everhook_testkit::receiver::{Answer, Receiver};
use everhook_testkit::wait::until;
use serde_json::json;

use crate::binary::client::text;
use crate::binary::operator::{Operator, masked};
use crate::binary::server::{Backend, Server, on_both_stores};

on_both_stores! {
    applications_are_kept_by_commands,
    endpoints_are_kept_by_commands,
    event_types_are_kept_by_commands,
    messages_are_sent_and_shown_by_commands,
    dead_deliveries_are_found_and_redriven_by_commands,
    schedules_are_changed_by_commands,
    operational_endpoints_are_kept_by_commands,
    messages_are_replayed_by_a_command,
}

fn applications_are_kept_by_commands(backend: Arc<Backend>) {
    let server = Server::start(&backend, &[]);
    let operator = Operator::new(&server);
    let id = operator.prints(&["app", "create", "Acme Ltd", "--uid", "acme", "--metadata", "plan=gold"]);
    assert!(id.starts_with("app_") && id.lines().count() == 1, "{id}");
    insta::allow_duplicates! {
        insta::assert_snapshot!(masked(&operator.prints(&["app", "list"])), @"
        ID                               UID   NAME      THROTTLE RATE  CREATED
        app_000000000000000000000000000  acme  Acme Ltd  -              2026-01-01T00:00:00Z
        ");
    }
    insta::allow_duplicates! {
        insta::assert_snapshot!(masked(&operator.prints(&["app", "show", "acme"])), @"
        id        app_000000000000000000000000000
        uid       acme
        name      Acme Ltd
        metadata  plan=gold
        created   2026-01-01T00:00:00Z
        changed   2026-01-01T00:00:00Z
        ");
    }
    let csv = operator.prints(&["app", "list", "--csv"]);
    assert!(csv.starts_with("id,uid,name,throttle_rate,created\n") && csv.contains(",acme,Acme Ltd,,20"), "{csv}");
    let changed = operator.json(&["app", "update", "acme", "--name", "Acme", "--metadata", "plan=silver"]);
    assert_eq!((&changed["name"], &changed["metadata"]), (&json!("Acme"), &json!({ "plan": "silver" })));
    assert_eq!(operator.json(&["app", "get", "acme"])["uid"], "acme");
    assert_eq!(operator.json(&["app", "update", "acme", "--throttle-rate", "5"])["throttleRate"], 5);
    operator.is_refused(&["app", "update", "acme"], "is required");
    operator.is_refused(&["app", "update", "acme", "--throttle-rate", "many"], "use a number, or none");
    for number in 0..3 {
        operator.prints(&["app", "create", &format!("app {number}")]);
    }
    let cut = operator.run(&["app", "list", "--limit", "2"]);
    assert_eq!(String::from_utf8_lossy(&cut.stdout).lines().count(), 3);
    assert!(String::from_utf8_lossy(&cut.stderr).contains("raise --limit"));
    operator.is_refused(&["app", "delete", "acme"], "add --yes");
    assert_eq!(operator.prints(&["app", "delete", "acme", "--yes"]), "deleted acme\n");
    operator.is_refused(&["app", "show", "acme"], "not found");
}

fn endpoints_are_kept_by_commands(backend: Arc<Backend>) {
    let server = Server::start(&backend, &[]);
    let operator = Operator::new(&server);
    operator.prints(&["app", "create", "Acme", "--uid", "acme"]);
    for event_type in ["a.b", "c"] {
        operator.prints(&["event-type", "create", event_type]);
    }
    let url = "http://127.0.0.1:9/hook";
    let create = ["endpoint", "create", "acme", url, "--uid", "main", "--event-type", "a.b", "--event-type", "c"];
    let created = operator.prints(&[&create[..], &["--header", "X-Key: one two"]].concat());
    assert!(created.contains("\nsecret  whsec_") && created.contains("event types  a.b,c"), "{created}");
    insta::allow_duplicates! {
        insta::assert_snapshot!(masked(&operator.prints(&["endpoint", "list", "acme"])), @"
        ID                              UID   URL                      STATE    EVENT TYPES  CHANNELS  CREATED
        ep_000000000000000000000000000  main  http://127.0.0.1:9/hook  enabled  a.b,c        -         2026-01-01T00:00:00Z
        ");
    }
    assert_eq!(operator.prints(&["endpoint", "disable", "acme", "main"]), "main is disabled\n");
    assert_eq!(operator.json(&["endpoint", "show", "acme", "main"])["disabled"], true);
    assert_eq!(operator.prints(&["endpoint", "enable", "acme", "main"]), "main is enabled\n");
    let new = ["--new-url", "http://127.0.0.1:9/new", "--event-type", "none", "--description", "the new one"];
    let changed = operator.json(&[&["endpoint", "update", "acme", "main"], &new[..]].concat());
    assert_eq!((&changed["url"], &changed["description"]), (&json!("http://127.0.0.1:9/new"), &json!("the new one")));
    assert!(changed["filterTypes"].is_null(), "{changed}");

    assert_eq!(operator.prints(&["endpoint", "headers", "show", "acme", "main"]), "X-Key: (not shown)\n");
    let set = ["endpoint", "headers", "set", "acme", "main", "X-Team: 1", "--remove", "X-Key"];
    assert_eq!(operator.prints(&set), "X-Team: 1\n");
    operator.is_refused(&["endpoint", "headers", "set", "acme", "main", "nonsense"], "use 'Name: value'");
    let secret = operator.prints(&["endpoint", "secret", "show", "acme", "main"]);
    assert!(secret.starts_with("whsec_"), "{secret}");
    let rotated = operator.prints(&["endpoint", "secret", "rotate", "acme", "main", "--grace", "1h"]);
    assert!(rotated.starts_with("whsec_") && rotated != secret, "{rotated}");
    assert_eq!(operator.json(&["endpoint", "secret", "show", "acme", "main"])["key"], rotated.trim());
    assert_eq!(operator.prints(&["endpoint", "delete", "acme", "main", "--yes"]), "deleted main\n");
    operator.is_refused(&["endpoint", "show", "acme", "main"], "not found");
}

fn event_types_are_kept_by_commands(backend: Arc<Backend>) {
    let server = Server::start(&backend, &[]);
    let operator = Operator::new(&server);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("schema.json");
    std::fs::write(&file, r#"{"type": "object"}"#).unwrap();
    let create = ["event-type", "create", "invoice.paid", "--description", "An invoice was paid", "--group", "billing"];
    operator.prints(&[&create[..], &["--schema", file.to_str().unwrap()]].concat());
    insta::allow_duplicates! {
        insta::assert_snapshot!(masked(&operator.prints(&["event-type", "show", "invoice.paid"])), @r#"
        name         invoice.paid
        group        billing
        state        active
        description  An invoice was paid
        created      2026-01-01T00:00:00Z
        changed      2026-01-01T00:00:00Z

        schema, version 1:
        {
          "type": "object"
        }
        "#);
    }
    let changed = operator.json(&["event-type", "update", "invoice.paid", "--description", "It was paid"]);
    assert_eq!((&changed["description"], &changed["groupName"]), (&json!("It was paid"), &json!("billing")));
    assert!(operator.prints(&["event-type", "archive", "invoice.paid"]).starts_with("archived invoice.paid"));
    assert_eq!(operator.json(&["event-type", "list"]), json!([]));
    assert_eq!(operator.json(&["event-type", "list", "--archived"])[0]["archived"], true);
    assert_eq!(operator.prints(&["event-type", "delete", "invoice.paid", "--yes"]), "deleted invoice.paid\n");
    operator.is_refused(&["event-type", "show", "invoice.paid"], "not found");
}

fn messages_are_sent_and_shown_by_commands(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &[]), Receiver::start());
    let operator = Operator::new(&server);
    operator.prints(&["app", "create", "Acme", "--uid", "acme"]);
    let endpoint = operator.json(&["endpoint", "create", "acme", &receiver.url("/"), "--uid", "main"]);
    let payload = r#"{"b": 1.0, "a": 2}"#;
    let sent = operator.prints(&["msg", "send", "acme", "invoice.paid", payload, "--event-id", "inv_1", "--tag", "t"]);
    let sent = sent.trim();
    assert_eq!(receiver.wait_for("/", 1)[0].body, payload.as_bytes(), "byte for byte");
    operator.prints_of("{\"n\": 2}\n", &["msg", "send", "acme", "invoice.voided", "-"]);
    assert_eq!(receiver.wait_for("/", 2)[1].body, b"{\"n\": 2}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("payload.json");
    std::fs::write(&file, "{\"n\": 3}").unwrap();
    operator.prints(&["msg", "send", "acme", "invoice.paid", "--file", file.to_str().unwrap(), "--once", "run-1"]);
    let again = operator.run(&["msg", "send", "acme", "invoice.paid", "{}", "--once", "run-1"]);
    assert!(again.status.success() && String::from_utf8_lossy(&again.stderr).contains("not sent"), "{again:?}");
    operator.is_refused(&["msg", "send", "acme", "invoice.paid", "{nonsense"], "not JSON");
    operator.is_refused(&["msg", "send", "acme", "invoice.paid"], "required");

    let shown = until("it is delivered", || {
        let shown = operator.prints(&["msg", "show", "acme", sent]);
        shown.contains("  success  ").then_some(shown)
    });
    assert!(shown.contains("event id    inv_1") && shown.contains(r#"{"a":2,"b":1.0}"#), "{shown}");
    assert_eq!(operator.json(&["msg", "list", "acme", "--event-type", "invoice.paid"]).as_array().unwrap().len(), 2);
    assert_eq!(operator.json(&["msg", "list", "acme", "--since", "1h", "--tag", "t"])[0]["id"], sent);
    assert_eq!(operator.json(&["msg", "list", "acme", "--until", "1h"]), json!([]));
    operator.is_refused(&["msg", "list", "acme", "--since", "yesterday"], "or a duration ago");

    assert_eq!(operator.prints(&["msg", "resend", "acme", sent, "main"]), format!("{sent} is sent to main again\n"));
    receiver.wait_for("/", 4);
    let attempts = until("both attempts are logged", || {
        let attempts = operator.json(&["attempt", "list", "acme", "--message", sent]);
        (attempts.as_array().unwrap().len() == 2).then_some(attempts)
    });
    let by_endpoint = ["attempt", "list", "acme", "--endpoint", "main", "--succeeded", "--since", "1h"];
    let table = operator.prints(&by_endpoint);
    assert!(table.starts_with("ID ") && table.contains(&text(&endpoint["id"])) && table.contains(" 204 "), "{table}");
    assert_eq!(operator.json(&["attempt", "list", "acme", "--endpoint", "main", "--failed"]), json!([]));
    let attempt = text(&attempts[0]["id"]);
    let shown = operator.prints(&["attempt", "show", "acme", sent, &attempt]);
    assert!(shown.contains(&attempt) && shown.contains("reply status  204"), "{shown}");
    assert!(operator.prints(&["msg", "expunge", "acme", sent, "--yes"]).starts_with("erased"));
    assert_ne!(operator.json(&["msg", "show", "acme", sent])["payload"], json!({ "b": 1.0, "a": 2 }));
}

fn dead_deliveries_are_found_and_redriven_by_commands(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &[("RETRY_SCHEDULE", "0.01")]), Receiver::start());
    let operator = Operator::new(&server);
    operator.prints(&["app", "create", "Acme", "--uid", "acme"]);
    operator.prints(&["endpoint", "create", "acme", &receiver.url("/"), "--uid", "main"]);
    receiver.answer("/", Answer::status(500).body("broken,\nreally"));
    let first = operator.prints(&["msg", "send", "acme", "a", "{}"]).trim().to_owned();
    let second = operator.prints(&["msg", "send", "acme", "b", "{}"]).trim().to_owned();
    let list = ["dead", "list", "acme", "main"];
    until("both are dead", || (operator.json(&list).as_array().unwrap().len() == 2).then_some(()));
    let table = operator.prints(&list);
    assert!(table.starts_with("MESSAGE ") && table.contains("  status    500     app_"), "{table}");
    let csv = operator.prints(&[&list[..], &["--limit", "1", "--csv"]].concat());
    assert!(csv.starts_with("message,event_type,last_attempt,") && csv.contains(",status,500,app_"), "{csv}");
    assert_eq!(operator.json(&[&list[..], &["--since", "2099-01-01"]].concat()), json!([]));
    let shown = operator.prints(&["dead", "show", "acme", "main", &first]);
    assert!(shown.contains("state       dead") && shown.matches("atmpt_").count() == 2, "{shown}");
    assert!(shown.contains("broken, really"), "{shown}");

    receiver.answer("/", Answer::status(204));
    operator.is_refused(&["dead", "redrive", "acme", "main"], "required");
    let one = ["dead", "redrive", "acme", "main", "--message", &first];
    assert_eq!(operator.prints(&one), "redrove 1 delivery\n");
    operator.is_refused(&[&one[..], &["--rate", "5"]].concat(), "need --since or --all");
    let many = ["dead", "redrive", "acme", "main", "--since", "2h", "--event-type", "b", "--rate", "50", "--wait"];
    assert_eq!(operator.prints(&many), "deliveriesRedriven: 1\n");
    let all = ["dead", "redrive", "acme", "main", "--all", "--wait"];
    assert_eq!(operator.prints(&all), "deliveriesRedriven: 0\n");
    for message in [&first, &second] {
        until("it is delivered", || {
            operator.prints(&["msg", "show", "acme", message]).contains("  success  ").then_some(())
        });
    }
    assert_eq!(operator.json(&list), json!([]));
}

fn schedules_are_changed_by_commands(backend: Arc<Backend>) {
    let server = Server::start(&backend, &[]);
    let operator = Operator::new(&server);
    operator.prints(&["schedule", "create", "sync", "--every", "5m", "--queue", "sync", "--kind", "run"]);
    let changed = operator.json(&["schedule", "edit", "sync", "--cron", "0 4 * * *", "--timezone", "Europe/Berlin"]);
    assert_eq!((&changed["cron"], &changed["timezone"]), (&json!("0 4 * * *"), &json!("Europe/Berlin")), "{changed}");
    assert!(changed["everySeconds"].is_null(), "{changed}");
    let job = r#"{"job": {"queue": "sync", "kind": "run", "payload": {"full": true}}}"#;
    let changed = operator.json(&["schedule", "edit", "sync", "--every", "10m", "--overlap", "skip", "--set", job]);
    assert_eq!((&changed["everySeconds"], &changed["overlap"]), (&json!(600), &json!("skip")), "{changed}");
    assert_eq!((&changed["cron"], &changed["job"]["payload"]), (&json!(null), &json!({ "full": true })), "{changed}");
    operator.is_refused(&["schedule", "edit", "sync"], "an option with a new value is required");
    operator.is_refused(&["schedule", "edit", "sync", "--set", "[]"], "invalid JSON object in --set");
    operator.is_refused(&["schedule", "edit", "sync", "--cron", "nonsense"], "cron");
    operator.is_refused(&["schedule", "edit", "nobody", "--cron", "@daily"], "not found");
}

fn operational_endpoints_are_kept_by_commands(backend: Arc<Backend>) {
    let server = Server::start(&backend, &[]);
    let operator = Operator::new(&server);
    let url = "http://127.0.0.1:9/ops";
    let create = ["operational", "create", url, "--uid", "ops", "--event-type", "alert.triggered"];
    let created = operator.prints(&create);
    assert!(created.contains("\nsecret  whsec_") && created.contains("alert.triggered"), "{created}");
    insta::allow_duplicates! {
        insta::assert_snapshot!(masked(&operator.prints(&["operational", "list"])), @"
        ID                              UID  URL                     STATE    EVENT TYPES      CREATED
        ep_000000000000000000000000000  ops  http://127.0.0.1:9/ops  enabled  alert.triggered  2026-01-01T00:00:00Z
        ");
    }
    assert_eq!(operator.json(&["operational", "show", "ops"])["uid"], "ops");
    assert!(operator.prints(&["operational", "secret", "ops"]).starts_with("whsec_"));
    operator.is_refused(&["operational", "delete", "ops"], "add --yes");
    assert_eq!(operator.prints(&["operational", "delete", "ops", "--yes"]), "deleted ops\n");
    operator.is_refused(&["operational", "show", "ops"], "not found");
}

fn messages_are_replayed_by_a_command(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &[]), Receiver::start());
    let operator = Operator::new(&server);
    operator.prints(&["app", "create", "Acme", "--uid", "acme"]);
    operator.prints(&["endpoint", "create", "acme", &receiver.url("/hook"), "--uid", "main"]);
    for event_type in ["a.b", "c"] {
        operator.prints(&["msg", "send", "acme", event_type, "{}"]);
    }
    receiver.wait_for("/hook", 2);
    until("the deliveries are settled", || {
        let attempts = operator.json(&["attempt", "list", "acme", "--endpoint", "main"]);
        (attempts.as_array()?.len() == 2).then_some(())
    });
    let replay = ["replay", "acme", "main", "--since", "1h", "--status", "succeeded", "--event-type", "a.b"];
    operator.is_refused(&replay, "add --yes");
    operator.prints(&[&replay[..], &["--yes"]].concat());
    let seen = receiver.wait_for("/hook", 3);
    assert_eq!(seen[2].header("everhook-event-type"), "a.b");
    operator.is_refused(&["replay", "acme", "main", "--yes"], "--since");
}
