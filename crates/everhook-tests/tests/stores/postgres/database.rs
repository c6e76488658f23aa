//! A separate database for every test, on the server that `EVERHOOK_TEST_DATABASE` names. It is dropped at the end.

use std::sync::Arc;

use everhook_core::id::Id;
use everhook_core::seal::{SEAL_KEY_BYTES, SealKey, SealRing};
use everhook_core::time::Timestamp;
use everhook_postgres::{PostgresConfig, PostgresStore, migrate};
use everhook_store::ids::Ids;
use everhook_store::seal::Seal;
use tokio_postgres::{Client, NoTls};

/// The key of secrets in all tests, so that nodes share it.
pub(crate) const SEAL_KEY: [u8; SEAL_KEY_BYTES] = [7; SEAL_KEY_BYTES];

/// A database, empty or with the schema.
pub(crate) struct Database {
    name: String,
    url: String,
}

impl Database {
    /// Creates a database without a schema.
    pub(crate) async fn empty() -> Database {
        let (name, server) = (format!("everhook_test_{}", random()), server());
        let create = format!("create database {name} template template0");
        let created = connect(&server).await.batch_execute(&create).await;
        created.expect("the user of EVERHOOK_TEST_DATABASE may create databases");
        let url = with_database(&server, &name);
        Database { name, url }
    }

    /// Creates a database with the schema.
    pub(crate) async fn migrated() -> Database {
        let database = Database::empty().await;
        migrate(&database.url).await.unwrap();
        database
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Opens the store of a node.
    pub(crate) async fn store(&self) -> PostgresStore {
        self.store_with(|_| {}).await
    }

    /// Opens the store of a node with a changed configuration.
    pub(crate) async fn store_with(&self, change: impl FnOnce(&mut PostgresConfig)) -> PostgresStore {
        let (url, seal) = (self.url.clone(), Seal::of(SealRing::new(SealKey::new(SEAL_KEY))));
        let mut config = PostgresConfig { url, direct_url: None, pool_size: 4, pooler: false, tenant_role: None, seal };
        change(&mut config);
        PostgresStore::connect(config, Arc::new(Ids::from_system())).await.unwrap()
    }

    /// Opens a plain connection.
    pub(crate) async fn client(&self) -> Client {
        connect(&self.url).await
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let drop_it = format!("drop database if exists {} with (force)", self.name);
        let server = server();
        // `drop` cannot be async, but a thread with its own runtime may block.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { connect(&server).await.batch_execute(&drop_it).await.unwrap() });
        });
        drop(dropped.join());
    }
}

#[expect(clippy::disallowed_methods, reason = "the one setting of these tests")]
fn server() -> String {
    std::env::var("EVERHOOK_TEST_DATABASE")
        .expect("EVERHOOK_TEST_DATABASE is not set: run `cargo xtask test`, which starts a PostgreSQL")
}

#[expect(clippy::disallowed_methods, reason = "it ends with its client")]
async fn connect(url: &str) -> Client {
    let (client, connection) =
        tokio_postgres::connect(url, NoTls).await.expect("the server of EVERHOOK_TEST_DATABASE answers");
    tokio::spawn(connection);
    client
}

fn with_database(server: &str, name: &str) -> String {
    let (head, options) = server.split_once('?').map_or((server, None), |(head, options)| (head, Some(options)));
    let base = head.rsplit_once('/').map_or(head, |(base, _)| base);
    match options {
        Some(options) => format!("{base}/{name}?{options}"),
        None => format!("{base}/{name}"),
    }
}

pub(crate) fn random() -> String {
    let id: Id = Ids::from_system().next(Timestamp::default());
    id.as_bytes()[8..].iter().map(|byte| format!("{byte:02x}")).collect()
}
