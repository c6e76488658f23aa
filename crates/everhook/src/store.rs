//! Opens and migrates the configured store.

use std::sync::Arc;

use everhook_core::seal::NeededKey;
use everhook_postgres::{PostgresConfig, PostgresStore};
use everhook_sqlite::{OpenAs, SealSource, SqliteStore};
use everhook_store::ids::Ids;
use everhook_store::outbox::Outbox;
use everhook_store::query;
use everhook_store::seal::{Rotated, Seal};
use everhook_store::store::{Reads, Store};
use tracing::warn;

use crate::cli::print;
use crate::config::{Config, StoreConfig, redact_url};
use crate::operator::{LoggedChange, Operator, not_in_log};

/// An open store, and the id generator that the node shares with it.
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) ids: Arc<Ids>,
    backend: Backend,
}

enum Backend {
    Sqlite(Arc<SqliteStore>),
    Postgres(Arc<PostgresStore>),
}

impl Opened {
    pub(crate) async fn close(&self) {
        match &self.backend {
            Backend::Sqlite(store) => store.close(),
            Backend::Postgres(store) => store.close().await,
        }
    }
}

impl Opened {
    /// The keys that the store needs. Empty: secrets are plain text.
    pub(crate) async fn needed_keys(&self) -> anyhow::Result<Vec<NeededKey>> {
        Ok(match &self.backend {
            Backend::Sqlite(store) => store.needed_keys().await?,
            Backend::Postgres(store) => store.needed_keys().await?,
        })
    }

    /// Seals every secret with the first key.
    pub(crate) async fn rotate_secrets(&self) -> anyhow::Result<Rotated> {
        Ok(match &self.backend {
            Backend::Sqlite(store) => store.rotate_secrets().await?,
            Backend::Postgres(store) => store.rotate_secrets().await?,
        })
    }

    /// The outbox in the store's own database, if it has one.
    pub(crate) fn outbox(&self) -> Option<Arc<dyn Outbox>> {
        match &self.backend {
            Backend::Sqlite(_) => None,
            Backend::Postgres(store) => Some(Arc::new(store.outbox())),
        }
    }
}

pub(crate) async fn open_server(config: &Config) -> anyhow::Result<Opened> {
    open(config, OpenAs::Server).await
}

/// Opens the store for a command that may run beside a server. Never creates or migrates it.
pub(crate) async fn open_beside(config: &Config) -> anyhow::Result<Opened> {
    open(config, OpenAs::Beside).await
}

/// Opens the store to log a command that has changed the whole of it.
async fn open_to_log(config: &Config) -> anyhow::Result<Opened> {
    match &config.store {
        StoreConfig::Sqlite { .. } => open_beside(config).await,
        StoreConfig::Postgres { url, .. } => open_postgres_to_log(&url.0).await,
    }
}

/// The same for a PostgreSQL database that no setting names. The URL may be a pooler's.
pub(crate) async fn open_postgres_to_log(url: &str) -> anyhow::Result<Opened> {
    let (ids, url, seal) = (Arc::new(Ids::from_system()), url.to_owned(), Seal::default());
    let postgres = PostgresConfig { url, direct_url: None, pool_size: 2, pooler: true, tenant_role: None, seal };
    let store = Arc::new(PostgresStore::connect_to_log(postgres, Arc::clone(&ids)).await?);
    Ok(Opened { store: store.clone(), ids, backend: Backend::Postgres(store) })
}

async fn open(config: &Config, open_as: OpenAs) -> anyhow::Result<Opened> {
    let ids = Arc::new(Ids::from_system());
    match &config.store {
        StoreConfig::Sqlite { folder } => {
            let store = Arc::new(SqliteStore::open_sealed(folder, open_as, Arc::clone(&ids), &config.secrets)?);
            Ok(Opened { store: store.clone(), ids, backend: Backend::Sqlite(store) })
        }
        StoreConfig::Postgres { url, direct_url, pool_size, pooler, tenant_role } => {
            if config.auto_migrate && open_as == OpenAs::Server {
                everhook_postgres::migrate(&direct_url.as_ref().unwrap_or(url).0).await?;
            }
            let (url, direct_url) = (url.0.clone(), direct_url.clone().map(|url| url.0));
            let seal = match &config.secrets {
                SealSource::Folder => Seal::default(),
                SealSource::File(file) => Seal::from_file(file)?,
                SealSource::Ring(ring) => Seal::of(ring.clone()),
            };
            let (pool_size, pooler) = (*pool_size, *pooler);
            // Commands beside a server read whatever they change.
            let tenant_role = tenant_role.clone().filter(|_| open_as == OpenAs::Server);
            let postgres = PostgresConfig { url, direct_url, pool_size, pooler, tenant_role, seal };
            let store = Arc::new(PostgresStore::connect(postgres, Arc::clone(&ids)).await?);
            if open_as == OpenAs::Server {
                warn_if_plain(&store.needed_keys().await?, &config.secrets);
                store.preplan().await;
            }
            Ok(Opened { store: store.clone(), ids, backend: Backend::Postgres(store) })
        }
    }
}

/// Warns the operator that readers of the database can read the secrets.
fn warn_if_plain(needed: &[NeededKey], source: &SealSource) {
    match (needed, source) {
        ([], SealSource::Folder) => {
            warn!("secrets are stored as plain text: set `secrets_key_file` on every replica, see docs/secrets.md");
        }
        ([], _) => warn!(
            "secrets are stored as plain text: run `everhook secrets rotate` once every replica has the keys of this one"
        ),
        _ => {}
    }
}

/// The place of the data, without secrets.
pub(crate) fn place(config: &Config) -> String {
    match &config.store {
        StoreConfig::Sqlite { folder } => {
            std::path::absolute(folder).unwrap_or_else(|_| folder.clone()).display().to_string()
        }
        StoreConfig::Postgres { url, .. } => redact_url(&url.0),
    }
}

/// Migrates the schema and prints the result.
pub(crate) async fn migrate(config: &Config, operator: Operator) -> anyhow::Result<()> {
    let (from, to, applied) = match &config.store {
        StoreConfig::Sqlite { folder } => {
            let report = everhook_sqlite::migrate(folder)?;
            (report.from, report.to, report.applied)
        }
        StoreConfig::Postgres { url, direct_url, .. } => {
            let report = everhook_postgres::migrate(&direct_url.as_ref().unwrap_or(url).0).await?;
            (i64::from(report.from), i64::from(report.to), report.applied)
        }
    };
    let mut text = describe(&place(config), from, to, &applied);
    if !applied.is_empty()
        && let Err(error) = log_migration(config, operator, (from, to)).await
    {
        text += &not_in_log(&error);
    }
    print(&text)
}

/// Logs a migration in the migrated store. A new store has no environment whose log could hold an entry.
async fn log_migration(config: &Config, operator: Operator, (from, to): (i64, i64)) -> anyhow::Result<()> {
    let opened = open_to_log(config).await?;
    if opened.store.read(query::Environments {}).await?.is_empty() {
        opened.close().await;
        return Ok(());
    }
    let reason = Some(format!("schema version {from} to {to}"));
    let change = LoggedChange { action: "migrate", object: "/store".to_owned(), reason, ..LoggedChange::default() };
    operator.log_done(&opened, change).await
}

fn describe(place: &str, from: i64, to: i64, applied: &[&str]) -> String {
    if applied.is_empty() {
        return format!("the schema is up to date: version {to} ({place})\n");
    }
    format!("migrated the schema from version {from} to {to}: {} ({place})\n", applied.join(", "))
}
