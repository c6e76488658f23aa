//! The schema is created once and in order, however many nodes start; a store that does not match it says what to do.

use std::error::Error;
use std::sync::Arc;

use everhook_postgres::{PostgresConfig, PostgresOpenError, PostgresStore, migrate};
use everhook_store::ids::Ids;
use everhook_store::seal::Seal;
use everhook_store::store::Store;

use crate::postgres::database::Database;

async fn open(url: &str) -> Result<PostgresStore, PostgresOpenError> {
    let config = PostgresConfig {
        url: url.to_owned(),
        direct_url: None,
        pool_size: 2,
        pooler: false,
        tenant_role: None,
        seal: Seal::default(),
    };
    PostgresStore::connect(config, Arc::new(Ids::from_system())).await
}

async fn refusal(url: &str) -> String {
    match open(url).await {
        Ok(_) => panic!("the store was opened"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn migrating_again_changes_nothing() {
    let database = Database::empty().await;
    let first = migrate(database.url()).await.unwrap();
    assert_eq!(first.applied, ["0001_catalog", "0002_history", "0003_work", "0004_outbox"]);
    let newest = i32::try_from(first.applied.len()).unwrap();
    assert_eq!((first.from, first.to), (0, newest));
    let second = migrate(database.url()).await.unwrap();
    assert_eq!((second.from, second.to, second.applied.len()), (newest, newest, 0));
    open(database.url()).await.unwrap();
}

#[tokio::test]
async fn two_nodes_may_migrate_at_once() {
    let database = Database::empty().await;
    let (one, other) = tokio::join!(migrate(database.url()), migrate(database.url()));
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_eq!(one.to, other.to);
    assert_eq!(i32::try_from(one.applied.len() + other.applied.len()).unwrap(), one.to);
    open(database.url()).await.unwrap();
}

#[tokio::test]
async fn a_store_without_a_schema_says_how_to_get_one() {
    let database = Database::empty().await;
    let text = refusal(database.url()).await;
    assert!(text.contains("has no Everhook schema") && text.contains("run `everhook migrate`"), "{text}");
}

#[tokio::test]
async fn a_newer_schema_is_refused_only_if_it_says_so() {
    let database = Database::migrated().await;
    let client = database.client().await;
    let add = "insert into everhook.schema_version (version, name, compatible_from) values";
    client.batch_execute(&format!("{add} (100, 'compatible', 3)")).await.unwrap();
    open(database.url()).await.unwrap();
    client.batch_execute(&format!("{add} (101, 'incompatible', 101)")).await.unwrap();
    for text in [refusal(database.url()).await, migrate(database.url()).await.unwrap_err().to_string()] {
        assert!(text.contains("has version 101") && text.contains("upgrade everhook"), "{text}");
    }
}

#[tokio::test]
async fn a_schema_from_before_the_first_release_is_refused() {
    let database = Database::migrated().await;
    let client = database.client().await;
    client.batch_execute("update everhook.schema_version set name = 'history' where version = 2").await.unwrap();
    for text in [refusal(database.url()).await, migrate(database.url()).await.unwrap_err().to_string()] {
        assert!(text.contains("before the first release") && text.contains("\"history\""), "{text}");
    }
}

#[tokio::test]
async fn a_server_that_would_lose_what_it_confirmed_is_refused() {
    let database = Database::migrated().await;
    let client = database.client().await;
    let off =
        "do $$ begin execute format('alter database %I set synchronous_commit = off', current_database()); end $$";
    client.batch_execute(off).await.unwrap();
    let text = refusal(database.url()).await;
    assert!(text.contains("synchronous_commit = off"), "{text}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_without_the_password() {
    let error = open("postgres://user:s3cret@127.0.0.1:1/everhook").await.err().unwrap();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    assert!(text.contains("could not connect to postgres at 127.0.0.1:1"), "{text}");
    assert!(!format!("{text} {error:?}").contains("s3cret"));
}

#[tokio::test]
async fn a_closed_store_fails_at_once() {
    let database = Database::migrated().await;
    let store = database.store().await;
    store.close().await;
    assert!(store.now().await.is_err());
}
