//! The keys of secrets, as operators use them: rotated beside a server, lost, and restored with a backup.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use serde_json::json;

use crate::binary::client::text;
use crate::binary::scene::Scene;
use crate::binary::server::{Backend, Server};

fn key_file(backend: &Backend) -> PathBuf {
    let Backend::Sqlite(folder) = backend else { panic!("it is on SQLite") };
    folder.path().join("everhook.keys")
}

fn says_no(output: &Output, wanted: &str) {
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && complaint.contains(wanted) && !complaint.contains("panicked"), "{complaint}");
}

#[test]
fn a_key_is_rotated_beside_a_server_that_goes_on_delivering() {
    let backend = Backend::sqlite();
    let Scene { mut server, receiver, application, endpoint } = Scene::start(&backend, &[]);
    let secret = application.path(&format!("/endpoint/{}/secret", endpoint.id));
    let before = text(&server.client().get(&secret).expect(200)["key"]);
    let told = backend.run(&["secrets", "rotate", "--new-key"]);
    assert!(told.starts_with("sealed ") && told.contains("no longer needed: "), "{told}");
    // The server reads the new key from the file. It has the endpoint in its cache, so that it is changed first.
    let path = application.path(&format!("/endpoint/{}", endpoint.id));
    server.client().patch(&path, &json!({ "description": "changed" })).expect(200);
    assert_eq!(text(&server.client().get(&secret).expect(200)["key"]), before);
    let sent = application.send(&json!({ "number": 1 }));
    receiver.wait_for_messages("/", &[sent]);
    // Only the new key is needed.
    let keys = fs::read_to_string(key_file(&backend)).unwrap();
    let new = keys.lines().find(|line| line.starts_with("ehs_")).unwrap();
    fs::write(key_file(&backend), new).unwrap();
    server.kill();
    server.start_again();
    assert_eq!(text(&server.client().get(&secret).expect(200)["key"]), before);
    assert!(!server.log().contains(new) && !told.contains(new), "no log shows a key");
}

#[test]
fn a_server_without_its_key_file_says_what_to_do_and_a_backup_has_the_keys_beside_it() {
    let (backend, folder) = (Backend::sqlite(), tempfile::tempdir().unwrap());
    let mut server = Server::start(&backend, &[]);
    let application = server.client().application("Acme");
    application.endpoint("https://example.com/hook");
    let file = folder.path().join("backup.db");
    let told = backend.run(&["backup", file.to_str().unwrap()]);
    assert!(told.contains("backup.db.keys: keep them apart"), "{told}");
    server.terminate();
    server.wait();
    fs::remove_file(key_file(&backend)).unwrap();
    says_no(&backend.try_run(&["key", "list"]), "everhook.keys is missing");
    says_no(&backend.try_run(&["serve"]), "put the file back from your copy, or set secrets_key_file to it");
    says_no(&backend.try_run(&["secrets", "rotate", "--new-key"]), "does not exist");

    let restored = Backend::sqlite();
    let told = restored.run(&["restore", file.to_str().unwrap()]);
    assert!(told.contains("added the keys of its secrets"), "{told}");
    let mut copy = Server::prepare(&restored, &[]);
    copy.start_again();
    let client = copy.client_with(server.key());
    assert_eq!(client.list(&application.path("/endpoint")).len(), 1);

    fs::remove_file(folder.path().join("backup.db.keys")).unwrap();
    let keyless = Backend::sqlite();
    let told = keyless.run(&["restore", file.to_str().unwrap()]);
    assert!(told.contains("put the key file of the store at"), "{told}");
    says_no(&keyless.try_run(&["serve"]), "everhook.keys is missing");
}

#[test]
fn an_existing_database_is_sealed_when_the_operator_says_so() {
    let backend = Backend::postgres();
    let mut server = Server::start(&backend, &[]);
    let application = server.client().application("Acme");
    application.endpoint("https://example.com/hook");
    server.wait_for_log("secrets are stored as plain text: set `secrets_key_file`");
    server.terminate();
    server.wait();
    let key = backend.run(&["secrets", "generate"]);
    let rotate = || backend.command(&["secrets", "rotate"]);
    says_no(&rotate().output().unwrap(), "store refused");
    let rotated = rotate().env("EVERHOOK_SECRETS_KEYS", key.trim()).output().unwrap();
    assert!(rotated.status.success(), "{}", String::from_utf8_lossy(&rotated.stderr));
    says_no(&backend.try_run(&["serve"]), "no keys are configured");
    let both =
        backend.command(&["serve"]).env("EVERHOOK_SECRETS_KEYS", "x").env("EVERHOOK_SECRETS_KEY_FILE", "y").output();
    says_no(&both.unwrap(), "are both set");
    let mut sealed = Server::prepare(&backend, &[("SECRETS_KEYS", key.trim())]);
    sealed.start_again();
    let client = sealed.client_with(server.key());
    assert_eq!(client.list(&application.path("/endpoint"))[0]["url"], "https://example.com/hook");
    assert!(!sealed.log().contains("plain text"), "{}", sealed.log());
}
