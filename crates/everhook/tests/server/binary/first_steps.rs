//! The tools of the first hours: verify, listen, the demo, trigger, tail, status, completions and the manual.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;

use everhook_testkit::process::Process;
use everhook_testkit::receiver::{Answer, Receiver};
use everhook_testkit::wait::{PATIENCE, unix_seconds, until};
use serde_json::{Value, json};

use crate::binary::client::{Address, Client, text};
use crate::binary::environment::everhook;
use crate::binary::operator::Operator;
use crate::binary::server::{Backend, Server, on_both_stores};
use crate::binary::signature::sign;

on_both_stores! {
    sample_events_are_triggered_and_followed,
    a_server_is_shown_on_one_screen,
}

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Starts a command whose output is read line by line.
fn start(command: &mut Command) -> Process {
    Process::start(command, Stdio::null()).unwrap()
}

/// Starts a listener on a free port, and returns it with its address. It can write notes as long as they can be read.
fn listen(arguments: &[&str]) -> (Process, String, impl BufRead + use<>) {
    let mut command = everhook();
    command.args(["listen", "--json", "--port", "0"]).args(arguments);
    let mut process = Process::start(&mut command, Stdio::piped()).unwrap();
    let mut note = String::new();
    let mut notes = BufReader::new(process.take_log().expect("it is piped"));
    notes.read_line(&mut note).unwrap();
    let (_, rest) = note.split_once("listening on http://").unwrap_or_else(|| panic!("no address: {note}"));
    let address = rest.split_once('/').expect("a path").0.to_owned();
    (process, address, notes)
}

fn line(process: &Process) -> Value {
    serde_json::from_str(&process.line(PATIENCE).expect("a line")).unwrap()
}

fn post(address: &str, path: &str, headers: &[(&str, &str)], body: &str) -> u16 {
    let target = Address::default();
    target.set(address.to_owned());
    Client::new(target, "").send_to("POST", path, headers, body.as_bytes()).unwrap().status
}

#[track_caller]
fn check_verify(timestamp: i64, signature: &str, body: &str, exit: i32, shown: &str) {
    let (timestamp, signature) = (format!("webhook-timestamp: {timestamp}"), format!("Webhook-Signature: {signature}"));
    let headers = ["-H", "webhook-id: msg_1", "-H", &timestamp, "-H", &signature];
    let output = everhook().args(["verify", "--secret", SECRET, body]).args(headers).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(text).unwrap();
    assert!(output.status.code() == Some(exit) && text.contains(shown), "{text}");
}

#[test]
fn verify_says_what_is_wrong_with_a_request() {
    let now = unix_seconds();
    let good = sign(SECRET, "msg_1", now, "{}");
    check_verify(now, &good, "{}", 0, "msg_1 is genuine");
    check_verify(now, &format!("v9,x {good}"), "{}", 0, "msg_1 is genuine");
    check_verify(now, &good, "{ }", 1, "the signature is wrong");
    check_verify(now, &good, "{}\n", 1, "without its trailing white space");
    check_verify(now - 600, &sign(SECRET, "msg_1", now - 600, "{}"), "{}", 1, "too old");
    check_verify(now + 600, &sign(SECRET, "msg_1", now + 600, "{}"), "{}", 1, "in the future");
    check_verify(now, "v1a,AAAA", "{}", 1, "may be of another kind");
    let incomplete = everhook().args(["verify", "--secret", SECRET, "{}", "-H", "webhook-id: a"]).output().unwrap();
    let complaint = String::from_utf8_lossy(&incomplete.stderr);
    assert!(incomplete.status.code() == Some(2) && complaint.contains("webhook-timestamp is missing"), "{complaint}");
    let secret = everhook().args(["verify", "--secret", "x", "{}", "-H", "webhook-id: a"]).output().unwrap();
    assert!(String::from_utf8_lossy(&secret.stderr).contains("invalid secret: it must start with"));
}

#[test]
fn a_listener_verifies_and_forwards() {
    let receiver = Receiver::start();
    receiver.answer("/hook", Answer::status(202).body("taken"));
    let (listener, address, _notes) = listen(&["--secret", SECRET, "--forward", &receiver.url("/hook")]);
    let now = unix_seconds();
    let (timestamp, signature) = (now.to_string(), sign(SECRET, "msg_1", now, r#"{"n": 1}"#));
    let headers = [("webhook-id", "msg_1"), ("webhook-timestamp", &*timestamp), ("webhook-signature", &*signature)];
    assert_eq!(post(&address, "/any", &headers, r#"{"n": 1}"#), 202, "the status of the program");
    let shown = line(&listener);
    assert_eq!((&shown["signature"], &shown["body"]), (&json!("verified"), &json!({ "n": 1 })), "{shown}");
    assert_eq!((&shown["id"], &shown["path"], &shown["status"]), (&json!("msg_1"), &json!("/any"), &json!(202)));
    let seen = receiver.wait_for("/hook", 1);
    assert_eq!((seen[0].message(), &*seen[0].body), ("msg_1", &br#"{"n": 1}"#[..]));

    assert_eq!(post(&address, "/any", &headers, r#"{"n": 2}"#), 401);
    assert!(text(&line(&listener)["signature"]).starts_with("refused: the signature is wrong"));
    assert_eq!(receiver.count(), 1, "forged requests are not forwarded");
    let refused = everhook().args(["listen", "--forward", "http://example.com/"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn the_demo_shows_a_signed_webhook_with_one_command() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = everhook();
    command.args(["listen", "--demo", "--json", "--port", "0"]).env("TMPDIR", folder.path());
    // Settings of the shell must not reach the throw-away server.
    command.env("EVERHOOK_DATABASE", "postgres://nobody@127.0.0.1:1/none");
    let mut demo = start(&mut command);
    let first = line(&demo);
    assert_eq!((&first["signature"], &first["body"]), (&json!("verified"), &json!({ "hello": "world" })), "{first}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    demo.signal("INT").unwrap();
    let status = until("the demo has ended", || demo.ended().unwrap());
    assert!(status.success(), "{status}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "its data is deleted");
}

fn sample_events_are_triggered_and_followed(backend: Arc<Backend>) {
    let (server, receiver) = (Server::start(&backend, &[]), Receiver::start());
    let operator = Operator::new(&server);
    operator.is_refused(&["trigger", "invoice.paid", "--data", "{}"], "there is no application");
    operator.prints(&["app", "create", "Acme", "--uid", "acme"]);
    operator.prints(&["endpoint", "create", "acme", &receiver.url("/"), "--uid", "main"]);
    operator.is_refused(&["trigger", "invoice.paid"], "give a payload with --data");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("schema.json");
    let schema = json!({ "type": "object", "properties": { "paid": { "type": "boolean" } } });
    std::fs::write(&file, schema.to_string()).unwrap();
    operator.prints(&["event-type", "create", "invoice.paid", "--schema", file.to_str().unwrap()]);

    let tail = start(&mut operator.command(&["tail", "acme", "--json", "--since", "1m", "--interval", "50ms"]));
    let sample = operator.prints(&["trigger", "invoice.paid"]);
    assert_eq!(receiver.wait_for("/", 1)[0].body, br#"{"paid":true}"#);
    assert_eq!(line(&tail)["id"], sample.trim());
    let given = operator.prints(&["trigger", "other", "--app", "acme", "--data", r#"{"a": 1}"#]);
    assert_eq!(line(&tail)["id"], given.trim());
    let csv = operator.prints(&["tail", "acme", "--since", "1m", "--count", "2", "--csv"]);
    assert!(csv.starts_with("id,event_type,") && csv.lines().count() == 3, "{csv}");
    let attempts = ["tail", "acme", "--endpoint", "main", "--since", "1m", "--count", "2", "--interval", "50ms"];
    let attempts = operator.prints(&attempts);
    assert!(attempts.contains(sample.trim()) && attempts.contains("success  204 success"), "{attempts}");
    operator.prints(&["app", "create", "Other"]);
    operator.is_refused(&["trigger", "invoice.paid"], "choose one with --app");
}

fn a_server_is_shown_on_one_screen(backend: Arc<Backend>) {
    let server = Server::start(&backend, &[]);
    let operator = Operator::new(&server);
    operator.prints(&["job", "enqueue", "email", "email.send"]);
    let partial = operator.run(&["status"]);
    let shown = String::from_utf8(partial.stdout).unwrap();
    assert!(shown.starts_with("state    ready\n") && shown.contains("\nQUEUE ") && !shown.contains("NODE "), "{shown}");
    assert!(String::from_utf8_lossy(&partial.stderr).contains("need an admin key"));
    let admin = Operator { key: backend.run(&["key", "create", "--admin"]).trim().to_owned(), ..operator };
    assert!(admin.prints(&["status"]).contains("\nNODE "));
    let all = admin.json(&["status"]);
    assert_eq!((&all["server"]["ready"], &all["nodes"][0]["role"]), (&json!(true), &json!("all")));
}

#[test]
fn completions_and_manual_name_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = everhook().args(["completions", shell]).output().unwrap();
        assert!(output.status.success() && String::from_utf8(output.stdout).unwrap().contains("event-type"), "{shell}");
    }
    let page = String::from_utf8(everhook().arg("man").output().unwrap().stdout).unwrap();
    assert!(page.contains(".TH everhook 1") && page.contains("Exit codes:"), "{page}");
    let folder = tempfile::tempdir().unwrap();
    assert!(everhook().args(["man", "--folder"]).arg(folder.path()).status().unwrap().success());
    let written = std::fs::read_to_string(folder.path().join("everhook-msg-send.1")).unwrap();
    assert!(written.contains("everhook msg send acme"), "{written}");
}
