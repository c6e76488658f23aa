//! Several hosts in one URL: every connection of a node finds the host that accepts writes.

use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};

use everhook_core::lifecycle::NextRow;
use everhook_postgres::migrate;
use everhook_store::lease::Renewed;
use everhook_store::store::Store;

use crate::postgres::database::Database;
use crate::postgres::stage::Stage;

/// The URL with another host before its own.
fn after(first: &str, url: &str) -> String {
    let (head, tail) = url.split_once('@').expect("the URL of the tests names a user");
    let (host, rest) = tail.split_once('/').expect("the URL of the tests names a database");
    let host = if host.contains(':') { host.to_owned() } else { format!("{host}:5432") };
    let mark = if rest.contains('?') { '&' } else { '?' };
    format!("{head}@{first},{host}/{rest}{mark}target_session_attrs=read-write")
}

async fn works_at(url: &str, database: &Database) {
    migrate(url).await.unwrap();
    let stage = Stage::new(database.store_with(|config| config.url = url.to_owned()).await).await;
    stage.append(vec![stage.message(Vec::new())]).await.unwrap();
    let tasks = stage.lease(1).await.unwrap();
    stage.end(&tasks[0], NextRow::Gone).await;
    assert!(matches!(stage.store.renew_session(stage.session).await.unwrap(), Renewed::Open(_)));
    let hints = stage.store.hints().unwrap();
    hints.next().await.unwrap();
    hints.notify().await.unwrap();
}

#[tokio::test]
async fn a_host_that_refuses_is_passed_over() {
    let database = Database::empty().await;
    works_at(&after("127.0.0.1:1", database.url()), &database).await;
}

#[tokio::test]
async fn a_host_that_does_not_speak_is_passed_over() {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = silent.local_addr().unwrap().to_string();
    // Accepts every connection, reads the data and never answers.
    std::thread::spawn(move || {
        let mut open = Vec::new();
        while let Ok((mut connection, _)) = silent.accept() {
            open.push(std::thread::spawn(move || connection.read_to_end(&mut Vec::new())));
        }
    });
    let database = Database::empty().await;
    works_at(&after(&address, database.url()), &database).await;
}

#[tokio::test]
async fn a_host_that_cannot_be_written_to_will_not_do() {
    let database = Database::migrated().await;
    let read_only = "do $$ begin execute \
        format('alter database %I set default_transaction_read_only = on', current_database()); end $$";
    database.client().await.batch_execute(read_only).await.unwrap();
    let error = migrate(&after("127.0.0.1:1", database.url())).await.unwrap_err();
    assert!(format!("{error:?}").contains("does not allow writes"), "{error:?}");
}
