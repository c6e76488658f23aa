//! The audit log with the command line, and a log that was changed in the database.

use std::process::Output;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::binary::environment::everhook;
use crate::binary::postgres::execute;
use crate::binary::server::{Backend, Server, on_both_stores};

on_both_stores! { a_changed_audit_log_is_detected }

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
