//! A separate database for every test, on the server that `EVERHOOK_TEST_DATABASE` names. It is dropped at the end.

use std::fs;
use std::hash::{DefaultHasher, Hasher};
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

/// How the name of a database begins that tests copy.
const TEMPLATE: &str = "everhook_schema_";

/// A database, empty or with the schema.
pub(crate) struct Database {
    name: String,
    url: String,
}

impl Database {
    /// Creates a database without a schema.
    pub(crate) async fn empty() -> Database {
        Database::copy_of("template0").await
    }

    async fn copy_of(template: &str) -> Database {
        let (name, server) = (format!("everhook_test_{}", random()), server());
        let create = format!("create database {name} template {template}");
        let created = connect(&server).await.batch_execute(&create).await;
        created.expect("the user of EVERHOOK_TEST_DATABASE may create databases");
        let url = with_database(&server, &name);
        Database { name, url }
    }

    /// Creates a database with the schema.
    pub(crate) async fn migrated() -> Database {
        Database::copy_of(&template().await).await
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

/// Returns the name of a database with the current schema. The first test makes it and the others copy it, so that the
/// migrations run once. Partitions go by weeks, so the database is made anew each day.
async fn template() -> String {
    let client = connect(&server()).await;
    // Ends with the connection.
    client.batch_execute("select pg_advisory_lock(1702259047)").await.unwrap();
    let is_there = "select exists (select from pg_database where datname = $1)";
    let today = client.query_one("select to_char(now(), 'YYYYMMDD')", &[]).await.unwrap().get::<_, String>(0);
    let name = format!("{TEMPLATE}{today}_{:016x}", hash_of_migrations());
    if !client.query_one(is_there, &[&name]).await.unwrap().get::<_, bool>(0) {
        let older = format!("select datname::text from pg_database where datname like '{TEMPLATE}%'");
        for row in client.query(&older, &[]).await.unwrap() {
            let older: String = row.get(0);
            client.batch_execute(&format!("drop database {older}")).await.unwrap();
        }
        let new = Database::empty().await;
        migrate(&new.url).await.unwrap();
        client.batch_execute(&format!("alter database {} rename to {name}", new.name)).await.unwrap();
    }
    name
}

fn hash_of_migrations() -> u64 {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../everhook-postgres/migrations");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        hasher.write(&fs::read(file).unwrap());
    }
    hasher.finish()
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
