//! Opens connections: deadlines, planner settings, TLS, and the task that drives each connection.
//!
//! A commit whose wait for the synchronous standby was cancelled must not count as confirmed. The server reports this
//! in a warning just before it reports success. The driver then closes the connection instead of passing the success
//! on. The commit ends like every commit whose reply was lost: in doubt.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::Connect;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::config::Host;
use tokio_postgres::error::{DbError, SqlState};
use tokio_postgres::tls::TlsStream;
use tokio_postgres::{AsyncMessage, Client, Config, Error, Notification, Socket};
use tracing::{debug, warn};

use crate::error::PostgresOpenError;
use crate::hosts::{Hosts, connect_wait, want_primary};
use crate::tls::{self, MakeTls};
use crate::url::{UrlParts, parse_url};

/// The most time that opening a connection may take with one host.
pub(crate) const CONNECT_WAIT: Duration = Duration::from_secs(3);
/// A silent peer ends a connection after about this time. No other deadline applies to a commit.
const DEAD_PEER_WAIT: Duration = Duration::from_secs(10);

/// Settings that fix the plan of each statement: it is planned once. By default the server would plan most hot
/// statements on each run, because it expects arrays to be longer than they are.
const PLANNER: &str = "-c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c jit=off \
                       -c plan_cache_mode=force_generic_plan -c default_transaction_isolation=read\\ committed \
                       -c idle_in_transaction_session_timeout=5s";
/// Begins a transaction behind a pooler, where a connection has no settings of its own. A node that loses power or
/// network does not close its connection, and the server would keep its locks for hours. No lease or append could then
/// use the lanes that the node had locked.
pub(crate) const BEGIN_POOLED: &str =
    "begin isolation level read committed; set local idle_in_transaction_session_timeout = '5s'";
/// Begins a transaction on a connection that has this time limit already.
pub(crate) const BEGIN: &str = "begin isolation level read committed";

/// The route to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// The connection carries settings.
    Direct,
    /// A pooler is in between, which accepts no settings.
    Pooler,
}

/// Returns the settings of a connection to `url`.
pub(crate) fn settings(url: &str, route: Route) -> Result<Config, PostgresOpenError> {
    let UrlParts { mut config, .. } = parse_url(url)?;
    if config.get_application_name().is_none() {
        config.application_name("everhook");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_WAIT);
    }
    want_primary(&mut config);
    config.tcp_user_timeout(DEAD_PEER_WAIT);
    config.keepalives_idle(DEAD_PEER_WAIT / 2);
    config.keepalives_interval(Duration::from_secs(2));
    config.keepalives_retries(3);
    if route == Route::Direct {
        let options = config.get_options().map_or(PLANNER.to_owned(), |given| format!("{PLANNER} {given}"));
        config.options(options);
    }
    Ok(config)
}

/// Returns hosts and ports for messages, without secrets.
pub(crate) fn address(config: &Config) -> String {
    let ports = config.get_ports();
    let one = |(index, host): (usize, &Host)| {
        let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
        match host {
            Host::Tcp(host) => format!("{host}:{port}"),
            #[cfg(unix)]
            Host::Unix(path) => format!("{}:{port}", path.display()),
        }
    };
    let all: Vec<_> = config.get_hosts().iter().enumerate().map(one).collect();
    if all.is_empty() { "localhost".to_owned() } else { all.join(",") }
}

/// Opens connections for the pool, and for users with a connection of their own.
#[derive(Clone)]
pub(crate) struct Connector {
    tls: MakeTls,
    /// Shared by clones: each starts with the host that worked last.
    hosts: Arc<Hosts>,
}

impl Connector {
    /// Reads the root certificates that `url` names.
    pub(crate) fn new(url: &str, config: &Config) -> Result<Connector, PostgresOpenError> {
        let roots = parse_url(url)?.roots.map(|path| tls::read_roots(&path)).transpose()?;
        let tls = MakeTls::new(config.get_ssl_mode(), roots)
            .map_err(|source| PostgresOpenError::Connect { address: address(config), source: Box::new(source) })?;
        Ok(Connector { tls, hosts: Arc::default() })
    }

    pub(crate) async fn open(&self, config: &Config) -> Result<(Client, JoinHandle<()>), Error> {
        self.open_listening(config, |_| {}).await
    }

    /// Opens a connection that passes on notifications of other connections.
    pub(crate) async fn open_listening(
        &self,
        config: &Config,
        hear: impl FnMut(Notification) + Send + 'static,
    ) -> Result<(Client, JoinHandle<()>), Error> {
        let (client, connection) = self.hosts.connect(config, &self.tls).await?;
        #[expect(clippy::disallowed_methods, reason = "it ends with its client, whose owner aborts it")]
        let driver = tokio::spawn(drive(connection, hear));
        Ok((client, driver))
    }

    /// Opens a connection within the connect deadline.
    pub(crate) async fn open_now(&self, config: &Config) -> Result<Client, PostgresOpenError> {
        let opened = timeout(connect_wait(config), self.open(config)).await;
        let failed = |source| PostgresOpenError::Connect { address: address(config), source };
        match opened {
            Ok(Ok((client, _driver))) => Ok(client),
            Ok(Err(error)) => Err(failed(Box::new(error))),
            Err(late) => Err(failed(Box::new(late))),
        }
    }
}

impl Connect for Connector {
    fn connect(
        &self,
        config: &Config,
    ) -> Pin<Box<dyn Future<Output = Result<(Client, JoinHandle<()>), Error>> + Send + '_>> {
        let config = config.clone();
        Box::pin(async move { self.open(&config).await })
    }
}

/// Moves bytes until the connection ends, or until the server reports that a commit did not wait for the standby.
async fn drive<T: TlsStream + Unpin>(
    mut connection: tokio_postgres::Connection<Socket, T>,
    mut hear: impl FnMut(Notification),
) {
    loop {
        match poll_fn(|context| connection.poll_message(context)).await {
            Some(Ok(AsyncMessage::Notice(notice))) if is_cancelled_standby_wait(&notice) => {
                warn!("a commit did not wait for the synchronous standby; it is treated as in doubt");
                return;
            }
            Some(Ok(AsyncMessage::Notice(notice))) => {
                debug!(postgres.severity = notice.severity(), "notice from postgres: {}", notice.message());
            }
            Some(Ok(AsyncMessage::Notification(notification))) => hear(notification),
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                debug!(error = &error as &dyn std::error::Error, "a connection to postgres ended");
                return;
            }
            None => return,
        }
    }
}

/// The text may be translated, the name of the routine is not.
fn is_cancelled_standby_wait(notice: &DbError) -> bool {
    notice.code() == &SqlState::WARNING
        && (notice.routine() == Some("SyncRepWaitForLSN") || notice.message().contains("synchronous replication"))
}
