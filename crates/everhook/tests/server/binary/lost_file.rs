//! The database file disappears under a running server, or before a start.

use std::fs;
use std::path::Path;

use everhook_testkit::wait::until_true;
use serde_json::json;

use crate::binary::server::{Backend, Server};

fn folder(backend: &Backend) -> &Path {
    let Backend::Sqlite(folder) = backend else { panic!("it is on SQLite") };
    folder.path()
}

fn delete_database(backend: &Backend) {
    for name in ["everhook.db", "everhook.db-wal", "everhook.db-shm"] {
        fs::remove_file(folder(backend).join(name)).unwrap();
    }
}

#[test]
fn a_server_without_its_database_file_accepts_nothing_says_why_and_does_not_begin_an_empty_one() {
    let backend = Backend::sqlite();
    let mut server = Server::start(&backend, &[]);
    let client = server.client();
    let application = client.application("Acme");
    application.send(&json!({}));
    delete_database(&backend);
    let message = json!({ "eventType": "a.b", "payload": {} });
    client.post(&application.path("/msg"), &message).expect(503);
    client.get(&application.path("/msg")).expect(503);
    let ready = client.get("/health/ready").expect(503);
    assert!(ready["reason"].as_str().unwrap().contains("deleted or replaced"), "{ready}");
    // The log is written by a thread of its own.
    until_true("the loss is logged", || server.log().contains("was deleted or replaced while it is in use"));
    server.terminate();
    server.wait();
    server.spawn();
    assert!(!server.wait().success());
    assert!(server.log().contains("everhook.db is missing or empty"), "{}", server.log());
    // The operator starts over.
    fs::remove_file(folder(&backend).join("everhook.used")).unwrap();
    let mut anew = Server::prepare(&backend, &[]);
    anew.start_again();
    assert_eq!(anew.client().list("/app").len(), 0);
}
