//! The audit log with the command line, and a log that was changed in the database.

use std::process::Output;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::binary::environment::everhook;
use crate::binary::postgres::execute;
use crate::binary::server::{Backend, Server, on_both_stores};

on_both_stores! {
    a_changed_audit_log_is_detected,
    commands_on_the_store_leave_entries_with_their_person,
}

/// Changes the database behind the server's back.
fn tamper(backend: &Backend) {
    match backend {
        Backend::Sqlite(folder) => {
            let database = rusqlite::Connection::open(folder.path().join("everhook.db")).unwrap();
            let update = "update audit set actor = 'nobody' where seq = 2";
            assert!(database.execute_batch(update).unwrap_err().to_string().contains("append-only"));
            database.execute_batch(&format!("drop trigger audit_no_update; {update}")).unwrap();
        }
        Backend::Postgres(database) => {
            let update = "update everhook.audit set actor = 'nobody' where seq = 2";
            assert!(execute(&database.url, update).is_err());
            let drop = "drop trigger audit_append_only on everhook.audit";
            execute(&database.url, &format!("{drop}; {update}")).unwrap();
        }
        Backend::PostgresAt(_) => unreachable!("the test uses whole stores"),
    }
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn ask(server: &Server, arguments: &[&str]) -> Output {
    let mut command = everhook();
    command.arg("audit").args(arguments).env("EVERHOOK_URL", server.url()).env("EVERHOOK_KEY", server.key());
    command.output().unwrap()
}

fn a_changed_audit_log_is_detected(backend: Arc<Backend>) {
    let server = Server::start(&backend, &[]);
    let client = server.client();
    client.patch("/queue/mail", &json!({ "limit": 3 })).expect(200);
    client.post("/queue/mail/pause", &json!({})).expect(200);
    let listed: Value =
        serde_json::from_str(&stdout(&ask(&server, &["list", "--object", "/queue", "--json"]))).unwrap();
    let actions: Vec<_> = listed.as_array().unwrap().iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["v1.queue.pause", "v1.queue.pause", "v1.queue.patch", "v1.queue.patch"]);
    let intact = stdout(&ask(&server, &["verify"]));
    assert!(intact.starts_with("6 entries are intact"), "{intact}");

    tamper(&backend);
    let broken = ask(&server, &["verify"]);
    let complaint = String::from_utf8(broken.stderr).unwrap();
    assert_eq!(broken.status.code(), Some(1));
    assert!(complaint.contains("entry 2 was changed"), "{complaint}");
}

fn commands_on_the_store_leave_entries_with_their_person(backend: Arc<Backend>) {
    let server = Server::start(&backend, &[]);
    for command in ["pause", "resume"] {
        backend.run(&["egress", command, "--principal", "ann@example.com"]);
    }
    backend.run(&["token", "rotate-key"]);
    backend.run(&["key", "create", "--name", "billing", "--principal", "ann@example.com"]);
    let refused = backend.try_run(&["egress", "pause", "--principal", ""]);
    assert_eq!(refused.status.code(), Some(2), "{}", String::from_utf8_lossy(&refused.stderr));
    let entries: Vec<Value> =
        serde_json::from_str(&stdout(&ask(&server, &["list", "--actor", "command line", "--json"]))).unwrap();
    let person = |entry: &Value| entry["principal"].as_str().map(str::to_owned);
    let ended = |action: &str| {
        let is_it = |entry: &&Value| entry["action"] == action && entry["phase"] == "ended" && person(entry).is_some();
        entries.iter().find(is_it).unwrap_or_else(|| panic!("{action} is not in {entries:?}"))
    };
    for action in ["egress pause", "egress resume", "key create"] {
        assert_eq!(person(ended(action)).as_deref(), Some("ann@example.com"), "{action}");
    }
    assert_eq!(ended("egress pause")["reason"], "an operator paused it");
    let user = person(ended("token rotate-key")).unwrap();
    assert!(!user.is_empty(), "the user of the system");
}

#[test]
fn backups_restores_and_rotations_leave_entries() {
    let backend = Backend::sqlite();
    let mut server = Server::start(&backend, &[]);
    let copy = server.folder().join("copy.db");
    let copy = copy.to_str().unwrap();
    backend.run(&["backup", copy, "--principal", "ann"]);
    backend.run(&["secrets", "rotate", "--new-key", "--principal", "ben"]);
    server.terminate();
    server.wait();
    let restored = backend.run(&["restore", copy, "--replace", "--yes", "--principal", "cleo"]);
    assert!(!restored.contains("has no entry"), "{restored}");
    server.start_again();
    let entries: Vec<Value> = serde_json::from_str(&stdout(&ask(&server, &["list", "--json"]))).unwrap();
    let of = |action: &str| {
        let found = entries.iter().filter(|entry| entry["action"] == action);
        found.map(|entry| entry["principal"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(of("backup"), ["ann"], "the copy has the entry that was written before it");
    assert_eq!(of("secrets rotate"), Vec::<String>::new(), "the copy is older");
    assert_eq!(of("restore"), ["cleo", "cleo"]);
    assert!(stdout(&ask(&server, &["verify"])).contains("intact"));
}
