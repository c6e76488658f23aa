//! A rolling upgrade: an earlier binary and today's on one database, both under load.
//!
//! `xtask/src/upgrade.rs` names the commit of the earlier binary.

use std::path::PathBuf;

use everhook_testkit::receiver::{Answer, Receiver};
use everhook_testkit::rng;
use everhook_testkit::wait::until_true;
use serde_json::json;

use crate::binary::checker::{Load, Run};
use crate::binary::client::Application;
use crate::binary::environment::{self, old_binary, variable};
use crate::binary::postgres::execute;
use crate::binary::server::{Backend, Server};

/// Debug level, because deliveries are logged there.
const SETTINGS: [(&str, &str); 3] =
    [("LEASE_SECONDS", "10"), ("RETRY_SCHEDULE", "0.1,0.2,0.5,1,1,1,1,1,1,1"), ("LOG_LEVEL", "debug")];
/// Messages to acknowledge in each phase of the test.
const PART: usize = 150;

#[test]
fn upgrade_under_load_with_old_and_new_nodes_side_by_side() {
    let Some(binary) = earlier() else { return };
    let seed = variable("EVERHOOK_TEST_SEED").map_or_else(rng::seed, |seed| seed.parse().unwrap());
    eprintln!("EVERHOOK_TEST_SEED={seed}");
    let backend = Backend::postgres();
    let mut old = Server::prepare(&backend, &SETTINGS).of(binary);
    old.start_again();
    let receiver = Receiver::start();
    let at_old = old.client().application("Acme");
    let endpoints = ["/steady", "/flaky"].map(|path| (path, at_old.endpoint(&receiver.url(path))));
    let mut count = 0;
    receiver.answer_by("/flaky", move || {
        count += 1;
        Answer::status(if count % 5 == 0 { 500 } else { 200 })
    });
    let to_old = Load::start_named("old-", &at_old, 2, seed);
    until_true("the old node accepts", || to_old.acknowledged() > PART);

    // The new node migrates the schema while the old one runs.
    let mut new = old.another().of(environment::binary());
    new.start_again();
    let at_new = Application { client: new.client(), id: at_old.id.clone() };
    let (migrated, accepted) = (old.log_length(), to_old.acknowledged());
    let to_new = Load::start_named("new-", &at_new, 2, seed);
    let delivers = |server: &Server, since: u64| server.logged_since(since, "delivered msg_") > PART;
    until_true("both accept", || to_new.acknowledged() > PART && to_old.acknowledged() > accepted + PART);
    until_true("both deliver", || delivers(&old, migrated) && delivers(&new, 0));

    // An old node may restart before it is replaced.
    old.terminate();
    assert!(old.wait().success(), "the old node stops in good order");
    let (restarted, accepted) = (old.log_length(), to_old.acknowledged());
    old.start_again();
    until_true("the old node delivers on the new schema", || delivers(&old, restarted));
    until_true("the old node accepts on the new schema", || to_old.acknowledged() > accepted + PART);

    // A client without a reply repeats its call at whichever node the load balancer chooses.
    let mut operations = to_old.stop();
    operations.iter().rev().take(PART).for_each(|operation| operation.repeat(&at_new));
    let accepted_by_new = to_new.stop();
    let to_new = Load::start_named("rest-", &at_new, 2, seed);
    accepted_by_new.iter().rev().take(PART).for_each(|operation| operation.repeat(&at_old));
    operations.extend(accepted_by_new);

    // The old node stops, and the new one continues alone.
    old.terminate();
    assert!(old.wait().success(), "the old node stops in good order");
    let accepted = to_new.acknowledged();
    until_true("the new node goes on alone", || to_new.acknowledged() > accepted + PART);
    operations.extend(to_new.stop());
    let run = Run { application: &at_new, receiver: &receiver, endpoints: &endpoints, operations };
    let report = run.check();
    eprintln!("{report:?}");
    assert_eq!(report.duplicates, 0, "nothing went wrong that would explain them");
}

#[test]
fn upgrade_by_the_command_leaves_entries_in_the_audit_log() {
    let Some(binary) = earlier() else { return };
    for backend in [Backend::sqlite(), Backend::postgres()] {
        let mut old = Server::prepare(&backend, &SETTINGS).of(binary.clone());
        old.start_again();
        let mut new = old.another().of(environment::binary());
        old.terminate();
        assert!(old.wait().success(), "the old node stops in good order");
        let migrated = backend.run(&["migrate", "--principal", "ann"]);
        assert!(!migrated.contains("no entry"), "{migrated}");
        assert!(backend.run(&["migrate"]).starts_with("the schema is up to date"));
        new.start_again();
        let entries = new.client().list("/audit?action=migrate");
        let people: Vec<_> = entries.iter().map(|entry| (&entry["phase"], &entry["principal"])).collect();
        // The earlier binary may know today's schema. Then there is nothing to migrate, and nothing to log.
        let changes = if migrated.starts_with("migrated the schema") { 1 } else { 0 };
        let both = [(&json!("ended"), &json!("ann")), (&json!("begun"), &json!("ann"))];
        assert_eq!(people, both[..2 * changes], "{migrated}");
    }
}

#[test]
fn upgrade_beyond_what_an_old_binary_can_work_with_makes_it_refuse_to_start() {
    let Some(binary) = earlier() else { return };
    let backend = Backend::postgres();
    backend.run(&["migrate"]);
    let Backend::Postgres(database) = &*backend else { panic!("a database of our own") };
    let newer = "insert into everhook.schema_version (version, name, compatible_from) values (99, 'future', 99)";
    execute(&database.url, newer).unwrap();
    let mut old = Server::prepare(&backend, &SETTINGS).of(binary);
    old.spawn();
    assert!(!old.wait().success());
    let log = old.log();
    assert!(log.contains("needs a binary that knows version") && log.contains("upgrade everhook"), "{log}");
}

fn earlier() -> Option<PathBuf> {
    let binary = old_binary();
    if binary.is_none() {
        eprintln!(
            "left out: EVERHOOK_TEST_OLD_BINARY is not set; `cargo xtask test` sets it where git has the history"
        );
    }
    binary
}
