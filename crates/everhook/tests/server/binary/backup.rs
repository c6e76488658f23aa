//! Backups of a running server, restored copies, and the pause of egress.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;

use everhook_testkit::receiver::Receiver;
use everhook_testkit::wait::until_true;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::binary::checker::Load;
use crate::binary::client::{Application, Client};
use crate::binary::server::{Backend, Server, on_both_stores};

on_both_stores! {
    a_pause_of_egress_holds_deliveries_and_pushes_until_it_is_ended,
    a_pause_survives_a_crash_and_holds_from_the_first_moment,
}

fn says_no(output: &Output, wanted: &[&str]) {
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && !complaint.contains("panicked"), "{complaint}");
    for text in wanted {
        assert!(complaint.contains(text), "{text} is not in {complaint}");
    }
}

/// With a short lease, a busy machine makes a node unready now and then, so that the status does not matter.
fn is_paused(client: &Client) -> bool {
    client.get("/health/ready").json()["egress"] == "paused"
}

/// An application with an endpoint at the receiver.
fn acme(server: &Server, receiver: &Receiver) -> Application {
    let application = server.client().application("Acme");
    application.endpoint(&receiver.url("/"));
    application
}

fn a_pause_of_egress_holds_deliveries_and_pushes_until_it_is_ended(backend: Arc<Backend>) {
    let settings = [("LISTEN_OPS", "127.0.0.1:0"), ("POLL_INTERVAL_MS", "10")];
    let (server, receiver) = (Server::start(&backend, &settings), Receiver::start());
    let (client, application) = (server.client(), acme(&server, &receiver));
    let before = application.send(&json!({ "number": 0 }));
    receiver.wait_for_messages("/", &[before]);
    assert!(!is_paused(&client));
    let told = backend.run(&["egress", "pause", "--reason", "maintenance of the firewall"]);
    assert!(told.contains("everhook egress resume"), "{told}");
    until_true("the server has read the pause", || is_paused(&client));
    server.wait_for_log("egress is paused since");
    server.wait_for_log("maintenance of the firewall");
    let shown: Value = serde_json::from_str(&backend.run(&["egress", "show", "--json"])).unwrap();
    assert_eq!((&shown["state"], &shown["reason"]), (&json!("paused"), &json!("maintenance of the firewall")));
    client.patch("/queue/mail", &json!({ "targetUrl": receiver.url("/push") })).expect(200);
    let sent = application.send_many(30);
    client.post("/job", &json!({ "queue": "mail", "kind": "welcome", "payload": {} })).expect(202);
    let leases = || metric(&server, "everhook_lease_seconds_count");
    let looked = leases();
    until_true("the node has looked for work many times", || leases() > looked + 20.0);
    assert_eq!(metric(&server, "everhook_egress_paused"), 1.0);
    assert_eq!(receiver.count(), 1, "only the message from before the pause");
    backend.run(&["egress", "resume"]);
    receiver.wait_for_messages("/", &sent);
    receiver.wait_for("/push", 1);
    until_true("it is open again", || !is_paused(&client));
    for message in &sent {
        assert_eq!(application.wait_for_attempts(message, 1).len(), 1, "a pause is no attempt");
    }
}

fn metric(server: &Server, name: &str) -> f64 {
    let page = server.ops().send_to("GET", "/metrics", &[], b"").unwrap().body;
    let page = String::from_utf8(page).unwrap();
    let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("{name} is not in {page}")).parse().unwrap()
}

fn a_pause_survives_a_crash_and_holds_from_the_first_moment(backend: Arc<Backend>) {
    let (mut server, receiver) = (Server::start(&backend, &[("LEASE_SECONDS", "1")]), Receiver::start());
    let (client, application) = (server.client(), acme(&server, &receiver));
    backend.run(&["egress", "pause"]);
    until_true("the server has read the pause", || is_paused(&client));
    let sent = application.send_many(5);
    server.kill();
    server.start_again();
    assert!(is_paused(&client), "from the first moment");
    assert_eq!(receiver.count(), 0);
    backend.run(&["egress", "resume"]);
    receiver.wait_for_messages("/", &sent);
}

fn folder_of(backend: &Backend) -> PathBuf {
    let Backend::Sqlite(folder) = backend else { panic!("it is on SQLite") };
    folder.path().to_owned()
}

/// Restores a backup to a new folder.
fn restored(file: &Path) -> Arc<Backend> {
    let backend = Backend::sqlite();
    let told = backend.run(&["restore", file.to_str().unwrap()]);
    assert!(told.contains("egress is paused"), "{told}");
    backend
}

fn backup_file(folder: &TempDir) -> PathBuf {
    folder.path().join("backup.db")
}

#[test]
fn a_backup_of_a_server_under_load_is_restored_paused_and_complete_even_after_a_crash() {
    let (backend, folder) = (Backend::sqlite(), tempfile::tempdir().unwrap());
    let (mut server, receiver) = (Server::start(&backend, &[("LEASE_SECONDS", "1")]), Receiver::start());
    let application = acme(&server, &receiver);
    receiver.hang("/");
    let sent = application.send_many(20);
    let load = Load::start(&application, 4, 7);
    until_true("there is load", || load.acknowledged() > 50);
    let file = backup_file(&folder);
    let told = backend.run(&["backup", file.to_str().unwrap()]);
    assert!(told.starts_with("backed up ") && told.contains("backup.db"), "{told}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "it holds payloads and secrets");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "one file, without a log, and its keys");
    server.kill();
    drop(load.stop());
    drop(server);

    let copy = restored(&file);
    let quiet = Receiver::start();
    let mut server = Server::prepare(&copy, &[("LEASE_SECONDS", "1")]);
    server.start_again();
    server.wait_for_log("egress is paused since");
    server.wait_for_log("a copy of the store, made at");
    // The store has the keys of the original.
    let key = copy.run(&["key", "create"]);
    let application = Application { client: server.client_with(key.trim()), ..application };
    for message in &sent {
        application.client.get(&application.path(&format!("/msg/{message}"))).expect(200);
    }
    // The copy of the endpoint now leads to a receiver that counts everything.
    let endpoint = application.client.list(&application.path("/endpoint"))[0]["id"].clone();
    let path = application.path(&format!("/endpoint/{}", endpoint.as_str().unwrap()));
    application.client.patch(&path, &json!({ "url": quiet.url("/") })).expect(200);
    assert!(is_paused(&application.client));
    server.kill();
    server.start_again();
    assert!(is_paused(&application.client), "a crash does not end the pause");
    assert_eq!(quiet.count(), 0);
    copy.run(&["egress", "resume"]);
    quiet.wait_for_messages("/", &sent);
}

#[test]
fn nothing_is_overwritten_by_a_backup_or_a_restore() {
    let (backend, folder) = (Backend::sqlite(), tempfile::tempdir().unwrap());
    let mut server = Server::start(&backend, &[]);
    server.client().application("Acme");
    let file = backup_file(&folder);
    let name = file.to_str().unwrap();
    backend.run(&["backup", name]);
    says_no(&backend.try_run(&["backup", name]), &["backup.db already exists"]);
    says_no(&backend.try_run(&["restore", name]), &["is in use by another `everhook serve`"]);
    server.terminate();
    server.wait();
    says_no(&backend.try_run(&["restore", name]), &["holds a store", "--replace"]);
    says_no(&backend.try_run(&["restore", name, "--replace"]), &["add --yes"]);
    let told = backend.run(&["restore", name, "--replace", "--yes"]);
    let aside = fs::read_dir(folder_of(&backend)).unwrap().map(|entry| entry.unwrap().path());
    let aside = aside.filter(|path| path.is_dir()).collect::<Vec<_>>();
    assert!(aside.len() == 1 && aside[0].join("everhook.db").exists(), "{aside:?}");
    assert!(told.contains(aside[0].to_str().unwrap()), "{told}");
    server.start_again();
    assert_eq!(server.client().list("/app").len(), 1);
}

#[test]
fn a_file_that_is_no_whole_backup_is_refused_and_leaves_the_folder_as_it_was() {
    let (backend, folder) = (Backend::sqlite(), tempfile::tempdir().unwrap());
    drop(Server::start(&backend, &[]));
    let file = backup_file(&folder);
    let name = file.to_str().unwrap();
    backend.run(&["backup", name]);
    let whole = fs::read(&file).unwrap();
    let target = Backend::sqlite();
    let attempt = |content: &[u8]| {
        fs::write(&file, content).unwrap();
        target.try_run(&["restore", name])
    };
    says_no(&attempt(b"hello"), &["is not a backup of Everhook"]);
    says_no(&attempt(&[]), &["is not a backup of Everhook"]);
    says_no(&attempt(&whole[..whole.len() / 2]), &["backup.db is damaged"]);
    let mut broken = whole.clone();
    broken[whole.len() / 2..whole.len() / 2 + 4096].fill(0x5a);
    says_no(&attempt(&broken), &["backup.db is damaged"]);
    says_no(&target.try_run(&["restore", "/nowhere/b.db"]), &["could not read /nowhere/b.db"]);
    fs::write(&file, &whole).unwrap();
    fs::write(format!("{name}-wal"), b"log").unwrap();
    says_no(&target.try_run(&["restore", name]), &["it is a database in use"]);
    fs::remove_file(format!("{name}-wal")).unwrap();
    assert!(!folder_of(&target).join("everhook.db").exists());
    assert!(!folder_of(&target).join("everhook.db.unfinished").exists());
    target.run(&["restore", name]);
    says_no(&backend.try_run(&["backup", "/nowhere/b.db"]), &["could not write /nowhere/b.db"]);
}

#[test]
fn postgres_is_backed_up_by_its_own_tools() {
    let backend = Backend::postgres();
    for command in ["backup", "restore"] {
        says_no(&backend.try_run(&[command, "file.db"]), &["pg_dump", "pg_basebackup", "everhook egress pause"]);
    }
    assert!(!Path::new("file.db").exists());
}
