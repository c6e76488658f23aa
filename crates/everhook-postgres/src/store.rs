//! The store itself: opening, closing, and running a transaction again where that helps.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, QueueMode, RecyclingMethod, Runtime};
use everhook_core::time::Timestamp;
use everhook_store::cache::{EndpointCache, TargetCache};
use everhook_store::error::StoreError;
use everhook_store::ids::Ids;
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
use crate::tx::{Database, Now, within};
use crate::wakeup::Wakeups;

/// How long to wait for a connection of the pool.
const POOL_WAIT: Duration = Duration::from_secs(3);
/// How often one transaction is run when others are in its way.
const RUNS_MAX: usize = 5;

/// Where the PostgreSQL is and how it is spoken to.
#[derive(Clone)]
pub struct PostgresConfig {
    /// `postgres://…`, perhaps of a pooler.
    pub url: String,
    /// The server itself where `url` is a pooler's: for renewals, which no queue may delay, and for wake-ups.
    pub direct_url: Option<String>,
    /// Connections at most, besides one for renewals and two for wake-ups.
    pub pool_size: usize,
    /// Behind a transaction pooler: no named statements.
    pub pooler: bool,
}

impl fmt::Debug for PostgresConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // URLs hold passwords.
        let PostgresConfig { pool_size, pooler, .. } = self;
        f.debug_struct("PostgresConfig").field("pool_size", pool_size).field("pooler", pooler).finish_non_exhaustive()
    }
}

/// The store of nodes that share one PostgreSQL.
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
    /// None where there is only a pooler, which has no line between its clients.
    pub(crate) wakeups: Option<Arc<Wakeups>>,
}

impl PostgresStore {
    /// Connects, and checks that the schema is known and that the server keeps what it confirms. Does not migrate.
    pub async fn connect(config: PostgresConfig, ids: Arc<Ids>) -> Result<PostgresStore, PostgresOpenError> {
        let route = if config.pooler { Route::Pooler } else { Route::Direct };
        let settings = settings(&config.url, route)?;
        let connector = Connector::new(&settings)?;
        let (direct, to_direct) = match &config.direct_url {
            Some(url) => {
                let direct = self::settings(url, Route::Direct)?;
                let connector = Connector::new(&direct)?;
                (direct, connector)
            }
            None => (settings.clone(), connector.clone()),
        };
        check_server(&settings, &connector).await?;
        let pool = pool(settings.clone(), connector, config.pool_size)?;
        let only_pooler = config.pooler && config.direct_url.is_none();
        let wakeups = (!only_pooler).then(|| Arc::new(Wakeups::new(direct.clone(), to_direct.clone(), &ids)));
        let store = PostgresStore {
            database: Database { pool, pooler: config.pooler },
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
        Ok(store)
    }

    /// Makes the partitions of this week and the next ones. To be called every now and then; a missing one is also made
    /// when a message needs it.
    pub async fn ensure_partitions(&self) -> Result<(), StoreError> {
        let now = Store::now(self).await?;
        let weeks = Week::current(now);
        partition::ensure(&self.database, &weeks).await.map_err(|fault| fault.into_store_error(Op::Maintain))
    }

    /// The outbox in the store's own database.
    pub fn outbox(&self) -> PostgresOutbox {
        PostgresOutbox { database: self.database.clone() }
    }

    /// Closes every connection; calls that come later fail.
    pub async fn close(&self) {
        self.database.pool.close();
        self.renewals.close().await;
        if let Some(wakeups) = &self.wakeups {
            wakeups.close().await;
        }
    }

    /// Runs a transaction until it succeeds, fails for good, or was in others' way too often. `weeks` are those whose
    /// partitions it may find missing.
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
                    // What a transaction appends besides has an id of now.
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
    // The driver of a connection notices when it ends; asking each time would cost a round trip.
    let config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    Pool::builder(Manager::from_connect(settings, connector, config))
        .max_size(size.max(1))
        // The one that was used last has its statements prepared, and its server process its memory warm.
        .queue_mode(QueueMode::Lifo)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(POOL_WAIT))
        .create_timeout(Some(wait))
        .recycle_timeout(Some(CONNECT_WAIT))
        .build()
        .map_err(|source| PostgresOpenError::Connect { address: at, source: Box::new(source) })
}

/// Refuses a schema that this binary does not know, and a server that would lose what it confirmed.
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
        self.database.read(Now {}).await?.ok_or(Fault::Contended("the clock gave no answer"))
    }
}
