//! Commands and servers that may, or must not, run beside a server on the same store.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use everhook_testkit::wait::{until, until_true};
use serde_json::{Value, json};

use crate::binary::client::{api_key, text};
use crate::binary::environment::everhook;
use crate::binary::server::{Backend, Server, on_both_stores};

on_both_stores! {
    keys_are_created_listed_and_revoked_beside_a_running_server,
    without_a_terminal_the_first_key_goes_to_a_file_of_its_owner,
    a_given_first_key_counts_on_an_empty_store_only,
    the_key_of_tokens_is_rotated_beside_a_running_server,
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

    let unconfirmed = backend.try_run(&["key", "revoke", &text(&of("staging")["id"])]);
    assert_eq!(unconfirmed.status.code(), Some(2), "it needs --yes without a terminal");
    client.get("/app").expect(200);
    backend.run(&["key", "revoke", &text(&of("staging")["id"]), "--yes"]);
    until_true("the revoked key has stopped working", || client.get("/app").status == 401);
    server.client().get("/app").expect(200);
    let again = backend.try_run(&["key", "revoke", &text(&of("staging")["id"]), "--yes"]);
    let complaint = String::from_utf8(again.stderr).unwrap();
    assert!(!again.status.success() && complaint.contains("everhook key list"), "{complaint}");
}

fn without_a_terminal_the_first_key_goes_to_a_file_of_its_owner(backend: Arc<Backend>) {
    let mut server = Server::start(&backend, &[("BOOTSTRAP_KEY", "")]);
    let file = match &*backend {
        Backend::Sqlite(folder) => folder.path().join("first-api-key"),
        _ => server.folder().join("everhook-first-api-key"),
    };
    let key =
        until("the first key is written", || std::fs::read_to_string(&file).ok().filter(|key| key.ends_with('\n')));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    until_true("the key works", || server.client_with(key.trim()).get("/app").status == 200);
    assert!(!server.log().contains(key.trim()));
    std::fs::remove_file(&file).unwrap();

    server.terminate();
    assert!(server.wait().success());
    let keys = || backend.run(&["key", "list"]).lines().count();
    let before = keys();
    server.start_again();
    server.client_with(key.trim()).get("/app").expect(200);
    assert_eq!(keys(), before);
    assert!(!file.exists());
}

fn a_given_first_key_counts_on_an_empty_store_only(backend: Arc<Backend>) {
    let mut server = Server::start(&backend, &[]);
    until_true("the given key works", || server.client().get("/app").status == 200);
    server.terminate();
    assert!(server.wait().success());
    assert!(!server.log().contains(server.key()) && !server.log().contains("bootstrap_key"), "{}", server.log());
    let other = api_key();
    let mut server = server.another_with(&[("BOOTSTRAP_KEY", &other)]);
    server.start_again();
    server.client().get("/app").expect(200);
    server.client_with(&other).get("/app").expect(401);
    until_true("it says so", || server.log().contains("`bootstrap_key` is ignored"));
    assert!(!server.log().contains(&other));
}

fn the_key_of_tokens_is_rotated_beside_a_running_server(backend: Arc<Backend>) {
    let mut server = Server::start(&backend, &[]);
    let id = server.client().application("acme").id;
    let access = |server: &Server| {
        let reply = server.client().post(&format!("/auth/app-portal-access/{id}"), &json!({})).expect(200);
        let url = text(&reply["url"]);
        assert!(url.starts_with(&format!("{}/portal/{id}#token=", server.url())), "{url}");
        text(&reply["token"])
    };
    let path = format!("/app/{id}");
    let first = access(&server);
    server.terminate();
    assert!(server.wait().success());
    server.start_again();
    server.client_with(&first).get(&path).expect(200);
    let told = backend.run(&["token", "rotate-key"]);
    assert!(told.starts_with("tokkey_") && told.contains("stay valid"), "{told}");
    let second = access(&server);
    for token in [&first, &second] {
        server.client_with(token).get(&path).expect(200);
    }
    let unsure = backend.try_run(&["token", "rotate-key", "--revoke"]);
    assert!(!unsure.status.success() && String::from_utf8_lossy(&unsure.stderr).contains("add --yes"), "{unsure:?}");
    let told = backend.run(&["token", "rotate-key", "--revoke", "--yes"]);
    assert!(told.contains("have ended"), "{told}");
    for token in [&first, &second] {
        until_true("the token has ended", || server.client_with(token).get(&path).status == 401);
    }
    server.client_with(&access(&server)).get(&path).expect(200);
}

#[test]
fn replicas_share_the_key_and_the_ends_of_tokens() {
    let backend = Backend::postgres();
    let server = Server::start(&backend, &[("PUBLIC_URL", "https://hooks.example.com/")]);
    let other = server.start_another();
    let id = server.client().application("acme").id;
    let reply = server.client().post(&format!("/auth/app-portal-access/{id}"), &json!({})).expect(200);
    assert!(text(&reply["url"]).starts_with("https://hooks.example.com/portal/app_"), "{reply}");
    let token = text(&reply["token"]);
    let path = format!("/app/{id}");
    other.client_with(&token).get(&path).expect(200);
    assert_eq!(server.client_with(&token).send("POST", "/auth/logout", &[], b"").unwrap().status, 204);
    server.client_with(&token).get(&path).expect(401);
    until_true("the token has ended", || other.client_with(&token).get(&path).status == 401);
}

#[test]
fn commands_beside_a_server_create_nothing_and_say_where_they_looked() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [&["key", "list"] as &[&str], &["key", "create"], &["key", "list", "--json"]] {
        let output = everhook().args(arguments).current_dir(folder.path()).output().unwrap();
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && output.stdout.is_empty(), "{complaint}");
        let looked = folder.path().canonicalize().unwrap().join("everhook-data/everhook.db");
        assert!(complaint.contains(&format!("no Everhook database at {}", looked.display())), "{complaint}");
        assert!(complaint.contains("--data"), "{complaint}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was created");

    let backend = Backend::postgres();
    let output = backend.try_run(&["key", "list"]);
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && complaint.contains("has no Everhook schema"), "{complaint}");
    backend.run(&["migrate"]);
    let output = backend.try_run(&["key", "list"]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && told.starts_with("data: postgres://"), "{told}");
}

#[test]
fn a_data_folder_that_others_can_read_is_reported() {
    let backend = Backend::sqlite();
    let Backend::Sqlite(folder) = &*backend else { panic!("a folder") };
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let server = Server::start(&backend, &[]);
    let remedy = format!("run `chmod -R go= {}`", folder.path().display());
    until_true("it is reported", || server.log().contains("mode 755") && server.log().contains(&remedy));
    let mode = std::fs::metadata(folder.path().join("everhook.db")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_generated_key_can_be_the_first_one() {
    let key = everhook().args(["key", "generate"]).output().unwrap();
    let key = String::from_utf8(key.stdout).unwrap();
    let server = Server::start(&Backend::sqlite(), &[("BOOTSTRAP_KEY", key.trim())]);
    until_true("it works", || server.client_with(key.trim()).get("/app").status == 200);
    let bad = everhook().args(["config", "check"]).env("EVERHOOK_BOOTSTRAP_KEY", "hunter2").output().unwrap();
    let complaint = String::from_utf8(bad.stderr).unwrap();
    assert!(!bad.status.success() && complaint.contains("everhook key generate"), "{complaint}");
    assert!(!complaint.contains("hunter2"), "{complaint}");
    let shown = everhook().args(["config", "show"]).env("EVERHOOK_BOOTSTRAP_KEY", key.trim()).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("bootstrap_key = \"(redacted)\"") && !shown.contains(key.trim()), "{shown}");
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
