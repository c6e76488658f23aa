//! The store itself: opening, closing, and retrying transactions.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, QueueMode, RecyclingMethod, Runtime};
use everhook_core::time::Timestamp;
use everhook_store::cache::{EndpointCache, TargetCache};
use everhook_store::error::StoreError;
use everhook_store::ids::Ids;
use everhook_store::seal::Seal;
use everhook_store::shares::SearchShares;
use everhook_store::store::{Op, Store};
use tokio_postgres::Config;

use crate::connection::{CONNECT_WAIT, Connector, Route, address, settings};
use crate::error::{Fault, PostgresOpenError, Remedy, refused_to_role};
use crate::hosts::connect_wait;
use crate::lease_sizing::LeaseSizings;
use crate::migrate;
use crate::optimistic_append::Speculations;
use crate::outbox::PostgresOutbox;
use crate::partition::{self, Week};
use crate::renew::Renewals;
use crate::retention::{DropPause, KeyCursor};
use crate::scan_cursor::ScanCursors;
use crate::tenant;
use crate::tx::{Database, within};
use crate::wakeup::Wakeups;

/// The most time to wait for a connection of the pool.
const POOL_WAIT: Duration = Duration::from_secs(3);
/// The most runs of one transaction that conflicts with others.
const RUNS_MAX: usize = 5;

/// The address of the server, and the way to reach it.
#[derive(Clone)]
pub struct PostgresConfig {
    /// `postgres://…`, possibly of a pooler.
    pub url: String,
    /// The URL of the server itself if `url` is a pooler's: for renewals, which no queue may delay, and for wake-ups.
    pub direct_url: Option<String>,
    /// The size of the pool, without one connection for renewals and two for wake-ups.
    pub pool_size: usize,
    /// Whether `url` is a transaction pooler's: then no statement is named.
    pub pooler: bool,
    /// The role of reads that belong to one environment. Policies of the tables limit it to that environment.
    pub tenant_role: Option<String>,
    /// The keys of secrets, the same on every replica.
    pub seal: Seal,
}

impl fmt::Debug for PostgresConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // URLs are left out, because they contain passwords.
        let PostgresConfig { pool_size, pooler, .. } = self;
        f.debug_struct("PostgresConfig").field("pool_size", pool_size).field("pooler", pooler).finish_non_exhaustive()
    }
}

/// The store of nodes that share one PostgreSQL server.
pub struct PostgresStore {
    pub(crate) database: Database,
    pub(crate) renewals: Renewals,
    pub(crate) cache: EndpointCache,
    pub(crate) targets: TargetCache,
    pub(crate) ids: Arc<Ids>,
    pub(crate) speculations: Speculations,
    pub(crate) scan_cursors: ScanCursors,
    pub(crate) sizing: LeaseSizings,
    pub(crate) key_cursor: KeyCursor,
    pub(crate) drop_pause: DropPause,
    pub(crate) shares: SearchShares,
    /// None if there is only a pooler, which passes on no notifications.
    pub(crate) wakeups: Option<Arc<Wakeups>>,
}

impl PostgresStore {
    /// Connects, and checks that the schema is known and that the server keeps confirmed writes. Does not migrate.
    pub async fn connect(config: PostgresConfig, ids: Arc<Ids>) -> Result<PostgresStore, PostgresOpenError> {
        let (store, address) = PostgresStore::open(config, ids).await?;
        store.start_sealing(&address).await?;
        Ok(store)
    }

    /// Connects without a check of the keys of secrets, for a command that only writes to the audit log. The role that
    /// migrates the schema may lack these keys.
    pub async fn connect_to_log(config: PostgresConfig, ids: Arc<Ids>) -> Result<PostgresStore, PostgresOpenError> {
        PostgresStore::open(config, ids).await.map(|(store, _)| store)
    }

    /// Returns the store with the address of its server.
    async fn open(config: PostgresConfig, ids: Arc<Ids>) -> Result<(PostgresStore, String), PostgresOpenError> {
        let route = if config.pooler { Route::Pooler } else { Route::Direct };
        let settings = settings(&config.url, route)?;
        let connector = Connector::new(&config.url, &settings)?;
        let (direct, to_direct) = match &config.direct_url {
            Some(url) => {
                let direct = self::settings(url, Route::Direct)?;
                let connector = Connector::new(url, &direct)?;
                (direct, connector)
            }
            None => (settings.clone(), connector.clone()),
        };
        check_server(&settings, &connector).await?;
        let tenants = match &config.tenant_role {
            Some(role) => {
                let settings = tenant::settings(&settings, role);
                tenant::check(&settings, &connector, role).await?;
                Some(pool(settings, connector.clone(), config.pool_size)?)
            }
            None => None,
        };
        let pool = pool(settings.clone(), connector, config.pool_size)?;
        let only_pooler = config.pooler && config.direct_url.is_none();
        let wakeups = (!only_pooler).then(|| Arc::new(Wakeups::new(direct.clone(), to_direct.clone(), &ids)));
        let store = PostgresStore {
            database: Database { pool, tenants, pooler: config.pooler, seal: config.seal },
            renewals: Renewals::new(direct, to_direct, only_pooler),
            wakeups,
            cache: EndpointCache::default(),
            targets: TargetCache::default(),
            ids,
            speculations: Speculations::default(),
            scan_cursors: ScanCursors::default(),
            sizing: LeaseSizings::default(),
            key_cursor: KeyCursor::default(),
            drop_pause: DropPause::default(),
            shares: SearchShares::of(config.pool_size),
        };
        store.ensure_partitions().await.map_err(|source| match refused_to_role(&source) {
            true => PostgresOpenError::NotGranted { address: address(&settings), source: Box::new(source) },
            false => {
                let (address, what) = (address(&settings), "create partitions");
                PostgresOpenError::Statement { address, what, source: Box::new(source) }
            }
        })?;
        Ok((store, address(&settings)))
    }

    /// Creates the partitions of this week and the next ones. Called regularly; a write also creates a missing
    /// partition.
    pub async fn ensure_partitions(&self) -> Result<(), StoreError> {
        let now = Store::now(self).await?;
        let weeks = Week::current(now);
        partition::ensure(&self.database, &weeks).await.map_err(|fault| fault.into_store_error(Op::Maintain))
    }

    /// Returns the outbox in the store's own database.
    pub fn outbox(&self) -> PostgresOutbox {
        PostgresOutbox { database: self.database.clone() }
    }

    /// Closes every connection; later calls fail.
    pub async fn close(&self) {
        self.database.pool.close();
        self.database.tenants.iter().for_each(Pool::close);
        self.renewals.close().await;
        if let Some(wakeups) = &self.wakeups {
            wakeups.close().await;
        }
    }

    /// Runs a transaction until it succeeds, fails for good, or conflicts too often. `weeks` are those whose partitions
    /// it may find missing.
    pub(crate) async fn run<T, F, R>(&self, op: Op, weeks: impl Fn() -> Vec<Week>, run: F) -> Result<T, StoreError>
    where
        F: Fn() -> R,
        R: Future<Output = Result<T, Fault>> + Send,
    {
        let mut runs = 1;
        loop {
            let fault = match run().await {
                Ok(done) => return Ok(done),
                Err(fault) => fault,
            };
            match fault.remedy() {
                Remedy::Repeat if runs < RUNS_MAX => {}
                Remedy::AddPartition if runs < RUNS_MAX => {
                    // Announcements and runs of schedules have ids of the current week.
                    let mut weeks = weeks();
                    weeks.extend(Week::current(Store::now(self).await?));
                    weeks.sort_unstable();
                    weeks.dedup();
                    partition::ensure(&self.database, &weeks).await.map_err(|fault| fault.into_store_error(op))?;
                }
                _ => return Err(fault.into_store_error(op)),
            }
            runs += 1;
        }
    }

    /// Runs a transaction that writes to no partitioned table.
    pub(crate) async fn run_plain<T, F, R>(&self, op: Op, run: F) -> Result<T, StoreError>
    where
        F: Fn() -> R,
        R: Future<Output = Result<T, Fault>> + Send,
    {
        self.run(op, Vec::new, run).await
    }
}

pub(crate) fn pool(settings: Config, connector: Connector, size: usize) -> Result<Pool, PostgresOpenError> {
    let (at, wait) = (address(&settings), connect_wait(&settings));
    // The driver notices when a connection ends; a check on each use would cost a round trip.
    let config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    Pool::builder(Manager::from_connect(settings, connector, config))
        .max_size(size.max(1))
        // The connection used last has its statements prepared, and the memory of its server process is warm.
        .queue_mode(QueueMode::Lifo)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(POOL_WAIT))
        .create_timeout(Some(wait))
        .recycle_timeout(Some(CONNECT_WAIT))
        .build()
        .map_err(|source| PostgresOpenError::Connect { address: at, source: Box::new(source) })
}

/// Refuses an unknown schema, and a server that could lose confirmed writes.
async fn check_server(settings: &Config, connector: &Connector) -> Result<(), PostgresOpenError> {
    let at = address(settings);
    let client = connector.open_now(settings).await?;
    let failed = |source: Fault| PostgresOpenError::Statement {
        address: at.clone(),
        what: "read its settings",
        source: Box::new(source),
    };
    let unsafe_settings = "select name from pg_settings \
        where name in ('fsync', 'full_page_writes', 'synchronous_commit') and setting = 'off'";
    let rows = within(client.query_typed(unsafe_settings, &[])).await.map_err(failed)?;
    if let Some(row) = rows.first() {
        let setting = row.try_get(0).map_err(Fault::Statement).map_err(failed)?;
        return Err(PostgresOpenError::UnsafeSetting { address: at, setting });
    }
    let found = within(migrate::read_version(&client)).await.map_err(failed)?;
    migrate::check(&at, &found)
}

impl PostgresStore {
    pub(crate) async fn read_clock(&self) -> Result<Timestamp, Fault> {
        self.database.now().await
    }
}
