//! What may run beside a server on the same store, and what may not.

use std::sync::Arc;

use serde_json::Value;

use crate::client::text;
use crate::environment::everhook;
use crate::server::{Backend, Server, on_both_stores};
use crate::wait::until_true;

on_both_stores! {
    keys_are_created_listed_and_revoked_beside_a_running_server,
    only_the_first_start_prints_a_key,
}

fn keys_are_created_listed_and_revoked_beside_a_running_server(backend: Arc<Backend>) {
    let server = Server::start(&backend, &[]);
    let key = backend.run(&["key", "create", "--environment", "staging"]);
    assert!(key.starts_with("ehk_") && key.trim().len() + 1 == key.len() && !key.trim().contains(' '), "{key:?}");
    let client = server.client_with(key.trim());
    client.get("/app").expect(200);

    let listed: Value = serde_json::from_str(&backend.run(&["key", "list", "--json"])).unwrap();
    let listed = listed.as_array().unwrap();
    assert_eq!(listed.len(), 2, "{listed:?}");
    let of = |environment: &str| listed.iter().find(|key| key["environment"] == environment).unwrap();
    assert_eq!(of("default")["revokedAt"], Value::Null);
    let table = backend.run(&["key", "list"]);
    assert!(table.contains("staging") && !table.contains(key.trim()), "{table}");

    backend.run(&["key", "revoke", &text(&of("staging")["id"])]);
    until_true("the revoked key has stopped working", || client.get("/app").status == 401);
    server.client().get("/app").expect(200);
    let again = backend.try_run(&["key", "revoke", &text(&of("staging")["id"])]);
    let complaint = String::from_utf8(again.stderr).unwrap();
    assert!(!again.status.success() && complaint.contains("everhook key list"), "{complaint}");
}

fn only_the_first_start_prints_a_key(backend: Arc<Backend>) {
    let mut server = Server::start(&backend, &[]);
    assert!(server.key().starts_with("ehk_"));
    server.terminate();
    assert!(server.wait().success());
    let keys = || backend.run(&["key", "list"]).lines().count();
    let before = keys();
    server.start_again();
    server.client().get("/app").expect(200);
    assert_eq!(keys(), before);
}

#[test]
fn a_second_server_on_one_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap().to_owned();
    let backend = Arc::new(Backend::Sqlite(folder));
    let server = Server::start(&backend, &[]);
    let second = everhook().args(["serve", "--data", &path, "--listen", "127.0.0.1:0"]).output().unwrap();
    let complaint = String::from_utf8(second.stderr).unwrap();
    assert!(!second.status.success() && second.stdout.is_empty());
    assert!(complaint.starts_with("everhook: ") && complaint.contains(&path), "{complaint}");
    let says_why = ["another", "already", "in use", "locked"].iter().any(|word| complaint.contains(word));
    assert!(says_why && !complaint.contains("panicked"), "{complaint}");
    server.client().get("/app").expect(200);
}

#[test]
fn a_port_in_use_is_refused() {
    let server = Server::start(&Backend::sqlite(), &[]);
    let address = server.url().replace("http://", "");
    let folder = tempfile::tempdir().unwrap();
    let mut command = everhook();
    command.args(["serve", "--listen", &address, "--data"]).arg(folder.path());
    let second = command.output().unwrap();
    let complaint = String::from_utf8(second.stderr).unwrap();
    assert!(!second.status.success() && complaint.contains(&address), "{complaint}");
}
