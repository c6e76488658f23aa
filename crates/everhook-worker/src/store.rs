//! Opens the store of workers and clients.

use std::sync::Arc;

use everhook_core::id::{DEFAULT_ORG, EnvironmentId};
use everhook_store::error::StoreError;
use everhook_store::ids::Ids;
use everhook_store::query;
#[cfg(feature = "postgres")]
use everhook_store::seal::Seal;
use everhook_store::store::{self, Reads};

/// The environment of workers and clients that name none.
pub(crate) const DEFAULT_ENVIRONMENT: &str = "default";
/// Connections to PostgreSQL per process.
#[cfg(feature = "postgres")]
const POOL: usize = 12;

/// An open Everhook store. Clones share it.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<dyn store::Store>,
    pub(crate) ids: Arc<Ids>,
    #[cfg(feature = "postgres")]
    pub(crate) postgres: Option<Arc<everhook_postgres::PostgresStore>>,
}

/// The store could not be opened; the source says why.
#[derive(Debug, thiserror::Error)]
#[error("could not open the store")]
pub struct OpenError(#[source] Box<dyn std::error::Error + Send + Sync>);

impl Store {
    /// Connects to the PostgreSQL database of an Everhook server. The server migrates the schema.
    #[cfg(feature = "postgres")]
    pub async fn postgres(url: &str) -> Result<Store, OpenError> {
        Store::connect(url, Seal::default()).await
    }

    /// Connects to a database whose secrets are sealed. `key_file` is a copy of the server's `secrets_key_file`.
    #[cfg(feature = "postgres")]
    pub async fn postgres_sealed(url: &str, key_file: &std::path::Path) -> Result<Store, OpenError> {
        Store::connect(url, Seal::from_file(key_file).map_err(|error| OpenError(error.into()))?).await
    }

    #[cfg(feature = "postgres")]
    async fn connect(url: &str, seal: Seal) -> Result<Store, OpenError> {
        use everhook_postgres::{PostgresConfig, PostgresStore};
        let ids = Arc::new(Ids::from_system());
        let config = PostgresConfig {
            url: url.to_owned(),
            direct_url: None,
            pool_size: POOL,
            pooler: false,
            tenant_role: None,
            seal,
        };
        let store = PostgresStore::connect(config, Arc::clone(&ids)).await.map_err(|error| OpenError(error.into()))?;
        let store = Arc::new(store);
        Ok(Store { inner: Arc::clone(&store) as Arc<dyn store::Store>, ids, postgres: Some(store) })
    }

    /// Opens the embedded store in `folder`, and creates it if it is missing. The store belongs to this process: no
    /// server may use it at the same time.
    #[cfg(feature = "sqlite")]
    pub fn sqlite(folder: &std::path::Path) -> Result<Store, OpenError> {
        use everhook_sqlite::{OpenAs, SqliteStore};
        let ids = Arc::new(Ids::from_system());
        let store = SqliteStore::open(folder, OpenAs::Server, Arc::clone(&ids));
        let inner = Arc::new(store.map_err(|error| OpenError(error.into()))?);
        Ok(Store {
            inner,
            ids,
            #[cfg(feature = "postgres")]
            postgres: None,
        })
    }

    /// Finds an environment by name. Creates the default one if no server has.
    pub(crate) async fn environment(&self, name: &str) -> Result<Option<EnvironmentId>, StoreError> {
        if name == DEFAULT_ENVIRONMENT {
            let org = DEFAULT_ORG.parse().expect("the constant is an id");
            return Ok(Some(self.inner.ensure_environment(org, name.to_owned()).await?.id));
        }
        let all = self.inner.read(query::Environments {}).await?;
        Ok(all.into_iter().find(|environment| environment.name == name).map(|environment| environment.id))
    }
}
