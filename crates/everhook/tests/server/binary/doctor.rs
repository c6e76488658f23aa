//! `everhook doctor` on healthy and on broken machines.

use std::net::TcpListener;
use std::process::Output;
use std::sync::Arc;

use serde_json::Value;

use crate::binary::client::api_key;
use crate::binary::environment::everhook;
use crate::binary::server::{Backend, Server, on_both_stores};

on_both_stores! {
    a_running_server_and_a_stopped_one_are_healthy,
    problems_of_the_store_are_named_with_their_remedy,
    a_wrong_key_is_named,
}

/// Runs the checks on a free port, and returns the exit code with the checks.
fn doctor(backend: &Backend, settings: &[(&str, &str)]) -> (Option<i32>, Vec<Value>) {
    let mut command = backend.command(&["doctor", "--json"]);
    command.env("EVERHOOK_LISTEN", "127.0.0.1:0").envs(settings.iter().copied());
    let output = command.output().unwrap();
    let checks = serde_json::from_slice(&output.stdout);
    (output.status.code(), checks.unwrap_or_else(|_| panic!("{}", complaint(&output))))
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The state and the remedy of a check.
#[track_caller]
fn find(checks: &[Value], name: &str) -> (String, String) {
    let check = checks.iter().find(|check| check["check"] == name).unwrap_or_else(|| panic!("{name} in {checks:?}"));
    let text = |key: &str| check[key].as_str().unwrap_or_default().to_owned();
    (text("state"), format!("{} → {}", text("found"), text("remedy")))
}

fn states(checks: &[Value]) -> Vec<&str> {
    checks.iter().map(|check| check["state"].as_str().unwrap()).collect()
}

fn a_running_server_and_a_stopped_one_are_healthy(backend: Arc<Backend>) {
    let (exit, checks) = doctor(&backend, &[]);
    assert!(exit == Some(0) && !states(&checks).contains(&"fail"), "before the first start: {checks:?}");
    let mut server = Server::start(&backend, &[]);
    let address = server.url().replace("http://", "");
    let (exit, checks) = doctor(&backend, &[("EVERHOOK_LISTEN", &address)]);
    assert!(exit == Some(0) && !states(&checks).contains(&"fail"), "{checks:?}");
    assert!(find(&checks, "listen").1.contains("an Everhook server answers"), "{checks:?}");
    for name in ["config", "store", "schema", "durability", "clock", "keys", "pause"] {
        assert_eq!(find(&checks, name).0, "ok", "{name}: {checks:?}");
    }
    server.terminate();
    server.wait();
    let text = backend.command(&["doctor"]).env("EVERHOOK_LISTEN", "127.0.0.1:0").output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("ok    durability    "), "{text}");
    server.start_again();
}

fn problems_of_the_store_are_named_with_their_remedy(backend: Arc<Backend>) {
    backend.run(&["migrate"]);
    let key = backend.run(&["key", "create"]);
    backend.run(&["egress", "pause", "--reason", "a test"]);
    let list: Value = serde_json::from_str(&backend.run(&["key", "list", "--json"])).unwrap();
    backend.run(&["key", "revoke", list[0]["id"].as_str().unwrap(), "--yes"]);
    let settings = [("EVERHOOK_EGRESS_ALLOW", "0.0.0.0/0"), ("EVERHOOK_BOOTSTRAP_KEY", key.trim())];
    let (exit, checks) = doctor(&backend, &settings);
    assert_eq!(exit, Some(1), "{checks:?}");
    let (state, text) = find(&checks, "keys");
    assert!(state == "fail" && text.contains("everhook key create"), "{text}");
    let (state, text) = find(&checks, "pause");
    assert!(state == "warn" && text.contains("a test") && text.contains("everhook egress resume"), "{text}");
    let (state, text) = find(&checks, "egress");
    assert!(state == "warn" && text.contains("metadata service"), "{text}");
    assert!(!format!("{checks:?}").contains(key.trim()));
}

#[test]
fn a_database_that_does_not_answer_is_a_failure_with_its_address_and_without_its_password() {
    let mut command = everhook();
    command.args(["doctor", "--database", "postgres://nobody:hunter2@127.0.0.1:1/everhook"]);
    let output = command.env("EVERHOOK_LISTEN", "127.0.0.1:0").output().unwrap();
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("fail  store         could not connect to postgres at 127.0.0.1:1: "), "{text}");
    assert!(text.contains("→ start the database, or correct `database`"), "{text}");
    assert!(!text.contains("hunter2") && complaint(&output).contains("1 check failed"), "{text}");
}

#[test]
fn bad_settings_and_a_port_in_use_are_failures() {
    let backend = Backend::sqlite();
    let (exit, checks) = doctor(&backend, &[("EVERHOOK_SLOTS", "many")]);
    assert!(exit == Some(1) && checks.len() == 1, "{checks:?}");
    assert!(find(&checks, "config").1.contains("EVERHOOK_SLOTS"), "{checks:?}");
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let (exit, checks) = doctor(&backend, &[("EVERHOOK_LISTEN", &address)]);
    let (state, text) = find(&checks, "listen");
    assert!(exit == Some(1) && state == "fail" && text.contains("change `listen`"), "{text}");
    let (exit, checks) = doctor(&backend, &[("EVERHOOK_LISTEN_", "x")]);
    assert!(exit == Some(0) && find(&checks, "config").0 == "warn", "{checks:?}");
}

fn a_wrong_key_is_named(backend: Arc<Backend>) {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, backend.run(&["secrets", "generate"])).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (right, wrong) = (file("right"), file("wrong"));
    drop(Server::start(&backend, &[("SECRETS_KEY_FILE", &right)]));
    let (exit, checks) = doctor(&backend, &[("EVERHOOK_SECRETS_KEY_FILE", &right)]);
    assert!(exit == Some(0) && find(&checks, "secrets").0 == "ok", "{checks:?}");
    let strange = api_key();
    let settings = [("EVERHOOK_SECRETS_KEY_FILE", right.as_str()), ("EVERHOOK_KEY", &strange)];
    let (state, text) = find(&doctor(&backend, &settings).1, "client key");
    assert!(state == "warn" && text.contains("not an active key") && !text.contains(&strange), "{text}");
    let (exit, checks) = doctor(&backend, &[("EVERHOOK_SECRETS_KEY_FILE", &wrong)]);
    let (state, text) = find(&checks, "secrets");
    assert!(exit == Some(1) && state == "fail" && text.contains("→ restore the key file of this store"), "{text}");
}

#[test]
fn a_lost_database_file_is_a_failure() {
    let backend = Backend::sqlite();
    drop(Server::start(&backend, &[]));
    let Backend::Sqlite(folder) = &*backend else { panic!("a folder") };
    std::fs::write(folder.path().join("everhook.db"), b"").unwrap();
    let (exit, checks) = doctor(&backend, &[]);
    let (state, text) = find(&checks, "store");
    assert!(exit == Some(1) && state == "fail" && text.contains("restore the file from a backup"), "{text}");
}
