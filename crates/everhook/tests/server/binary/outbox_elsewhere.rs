//! Outboxes outside the store's own database: in another PostgreSQL database, and in a SQLite file.

use std::path::Path;
use std::sync::Arc;

use everhook_outbox::Event;
use everhook_testkit::receiver::Receiver;
use everhook_testkit::wait::until_true;

use crate::binary::client::Application;
use crate::binary::outbox::{acme, check_crash_before_delete, messages};
use crate::binary::postgres::{Cluster, Database, Session};
use crate::binary::server::{Backend, Server};

fn install(database: &Database) {
    Backend::sqlite().run(&["outbox", "install", "--database", &database.url]);
    // Repeated, as by a deployment.
    Backend::sqlite().run(&["outbox", "install", "--database", &database.url]);
}

fn settings(name: &str, key: &str, value: &str) -> String {
    format!("[[outbox]]\nname = \"{name}\"\n{key} = \"{value}\"\n")
}

fn start(backend: &Arc<Backend>, file: String) -> (Server, Application, Receiver) {
    let server = Server::start_with_file(backend, &[], file);
    let (application, receiver) = acme(&server);
    (server, application, receiver)
}

fn numbers(application: &Application) -> Vec<i64> {
    messages(application).iter().map(|message| message["payload"]["number"].as_i64().unwrap()).collect()
}

#[test]
fn the_rows_of_another_database_are_relayed_in_order_and_bad_ones_are_set_aside() {
    let shop = Database::create();
    install(&shop);
    // The embedded store is independent of the shop's PostgreSQL.
    let (server, application, receiver) = start(&Backend::sqlite(), settings("shop", "database", &shop.url));
    let session = Session::connect(&shop.url);
    session.run(
        "begin;
        select everhook.send('acme', 'order.paid', '{\"number\": 0}');
        rollback;
        begin;
        select everhook.send('acme', 'order.paid', jsonb_build_object('number', number)) from generate_series(1, 700) as number;
        select everhook.send('nobody', 'order.paid', '{\"number\": 701}');
        select everhook.send('acme', 'order.paid', '{\"number\": 702}', environment => 'elsewhere');
        commit",
    );
    until_true("the outbox is empty", || session.column("select id from everhook.outbox").is_empty());
    assert_eq!(numbers(&application), (1..=700).collect::<Vec<_>>());
    receiver.wait_for("/", 700);
    assert_eq!(
        session.column("select error from everhook.outbox_aside order by id"),
        ["there is no application \"nobody\"", "there is no environment \"elsewhere\" that this outbox may send to"]
    );
    server.wait_for_log("of the outbox shop aside");
}

#[test]
fn an_outbox_is_not_installed_into_everhooks_own_database() {
    let backend = Backend::postgres();
    let _server = Server::start(&backend, &[]);
    let Backend::Postgres(database) = &*backend else { unreachable!("it was made so") };
    let refused = backend.try_run(&["outbox", "install", "--database", &database.url]);
    let complaint = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && complaint.contains("is Everhook's own"), "{complaint}");
}

#[test]
fn a_crash_between_append_and_delete_elsewhere_makes_no_second_message() {
    let shop = Database::create();
    install(&shop);
    let (mut server, application, receiver) = start(&Backend::postgres(), settings("shop", "database", &shop.url));
    check_crash_before_delete(&mut server, &application, &receiver, &shop.url);
}

#[test]
fn replicas_that_relay_the_same_database_make_each_row_one_message() {
    const ROWS: i64 = 1200;
    let shop = Database::create();
    install(&shop);
    let (server, application, receiver) = start(&Backend::postgres(), settings("shop", "database", &shop.url));
    let mut others = [server.another(), server.another()];
    others.iter_mut().for_each(Server::start_again);
    let session = Session::connect(&shop.url);
    for first in (1..=ROWS).step_by(100) {
        let last = first + 99;
        session.run(&format!(
            "select everhook.send('acme', 'order.paid', jsonb_build_object('number', number)) from generate_series({first}, {last}) as number"
        ));
    }
    until_true("the outbox is empty", || session.column("select id from everhook.outbox").is_empty());
    assert_eq!(numbers(&application), (1..=ROWS).collect::<Vec<_>>());
    receiver.wait("each of them", |seen| seen.len() >= ROWS as usize);
    assert_eq!(receiver.count(), ROWS as usize);
}

#[test]
fn a_crash_of_the_source_database_costs_patience_only() {
    let Some(mut cluster) = Cluster::start() else { return };
    let shop = Database::create_in(&cluster.url);
    install(&shop);
    let (server, application, receiver) = start(&Backend::postgres(), settings("shop", "database", &shop.url));
    let session = Session::connect(&shop.url);
    session.run("select everhook.send('acme', 'order.paid', '{\"number\": 1}')");
    receiver.wait_for("/", 1);
    cluster.stop();
    until_true("the server notices", || server.log().contains("could not read the outbox shop"));
    // Other messages are delivered meanwhile.
    application.send(&serde_json::json!({ "number": 2 }));
    cluster.start_again();
    Session::connect(&shop.url).run("select everhook.send('acme', 'order.paid', '{\"number\": 3}')");
    receiver.wait_for("/", 3);
    assert_eq!(numbers(&application), [1, 2, 3]);
    until_true("the server says so", || server.log().contains("the outbox shop is relayed again"));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the connection ends with its client")]
fn the_library_sends_in_a_transaction_of_tokio_postgres() {
    let shop = Database::create();
    let (_server, application, receiver) = start(&Backend::sqlite(), settings("shop", "database", &shop.url));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let (mut client, connection) = tokio_postgres::connect(&shop.url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        everhook_outbox::postgres::install(&client).await.unwrap();
        client.batch_execute("create table orders (id int primary key)").await.unwrap();
        for (number, commits) in [(1, false), (2, true)] {
            let transaction = client.transaction().await.unwrap();
            transaction.execute("insert into orders values ($1)", &[&number]).await.unwrap();
            let (payload, event_id) = (format!("{{\"number\": {number}}}"), format!("order-{number}"));
            let plain = Event::new("acme", "order.paid", &payload);
            let event =
                Event { tags: &["blue", "large"], event_id: Some(&event_id), environment: Some("default"), ..plain };
            everhook_outbox::postgres::send(&transaction, &event).await.unwrap();
            if commits {
                transaction.commit().await.unwrap();
            } else {
                transaction.rollback().await.unwrap();
            }
        }
    });
    receiver.wait_for("/", 1);
    let messages = messages(&application);
    assert_eq!(numbers(&application), [2]);
    assert_eq!(messages[0]["tags"], serde_json::json!(["blue", "large"]));
    assert_eq!(messages[0]["eventId"], "order-2");
}

/// A file with an outbox and a table of its own.
fn till(folder: &Path) -> (String, rusqlite::Connection) {
    let file = folder.join("till.db");
    let connection = rusqlite::Connection::open(&file).unwrap();
    connection.execute_batch("pragma journal_mode = wal; create table sale (id integer primary key)").unwrap();
    everhook_outbox::sqlite::install(&connection).unwrap();
    (file.to_str().unwrap().to_owned(), connection)
}

#[test]
fn the_library_sends_in_a_transaction_of_rusqlite() {
    let folder = tempfile::tempdir().unwrap();
    let (file, mut connection) = till(folder.path());
    let (mut server, application, receiver) = start(&Backend::sqlite(), settings("till", "sqlite", &file));
    let mut sell = |from: i64, to: i64, commits: bool| {
        let transaction = connection.transaction().unwrap();
        for number in from..=to {
            transaction.execute("insert into sale (id) values (?1)", [number]).unwrap();
            let payload = format!("{{ \"number\": {number} }}");
            let event = Event { channels: &["till"], ..Event::new("acme", "sale.made", &payload) };
            everhook_outbox::sqlite::send(&transaction, &event).unwrap();
        }
        if commits { transaction.commit().unwrap() } else { transaction.rollback().unwrap() }
    };
    sell(1, 600, true);
    sell(601, 602, false);
    sell(603, 604, true);
    receiver.wait_for("/", 602);
    let expected: Vec<i64> = (1..=600).chain([603, 604]).collect();
    assert_eq!(numbers(&application), expected);
    assert!(receiver.seen("/").iter().any(|seen| seen.body == b"{ \"number\": 1 }"));
    // Rows inserted while no relay runs wait for the next one.
    server.kill();
    sell(605, 605, true);
    server.start_again();
    // Messages that were under way at the kill arrive again, so that a number of requests proves nothing.
    until_true("the row is a message", || numbers(&application).last() == Some(&605));
    receiver.wait("the last row", |seen| seen.iter().any(|seen| seen.body == b"{ \"number\": 605 }"));
}

#[test]
fn rows_of_a_file_are_set_aside_seen_and_retried_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let (file, connection) = till(folder.path());
    let (backend, settings) = (Backend::sqlite(), settings("till", "sqlite", &file));
    let (server, application, receiver) = start(&backend, settings);
    everhook_outbox::sqlite::send(&connection, &Event::new("acme", "sale.made", "nonsense")).unwrap();
    everhook_outbox::sqlite::send(&connection, &Event::new("acme", "sale.made", "{\"number\": 1}")).unwrap();
    receiver.wait_for("/", 1);
    let client = server.client_with(backend.run(&["key", "create", "--admin"]).trim());
    let row = everhook_testkit::wait::until("the row is aside", || {
        client.get("/outbox/till/aside").expect(200)["data"].as_array().unwrap().first().cloned()
    });
    assert_eq!(row["error"], "payload must be a JSON object");
    let path = format!("/outbox/till/aside/{}", row["id"]);
    client.patch(&path, &serde_json::json!({ "payload": "{\"number\": 2}" })).expect(204);
    client.post(&format!("{path}/retry"), &serde_json::json!({})).expect(202);
    receiver.wait_for("/", 2);
    assert_eq!(numbers(&application), [1, 2]);
    assert_eq!(client.get("/outbox").expect(200)["data"][0]["name"], "till");
    client.delete(&path).expect(404);
}
