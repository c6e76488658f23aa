//! Opens connections: deadlines, planner settings, TLS, and the task that drives each of them.
//!
//! Refuses to let a commit pass whose wait for the synchronous standby was cancelled. The server says so in a warning just
//! before it reports success; the driver then closes the connection instead of passing the success on, so that the commit
//! ends like every other one whose reply was lost: in doubt.

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
use crate::tls::MakeTls;

/// How long a connection may take to open, where there is one host.
pub(crate) const CONNECT_WAIT: Duration = Duration::from_secs(3);
/// Unanswered bytes and silence end a connection after about this; nothing else bounds a commit.
const DEAD_PEER_WAIT: Duration = Duration::from_secs(10);

/// Where the statements of the store do not differ from one run to the next, their plans must not either: each is planned once. Left to
/// itself, the server plans most of the hot ones whenever they run, because it expects arrays to be longer than they are.
const PLANNER: &str = "-c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c jit=off \
                       -c plan_cache_mode=force_generic_plan -c default_transaction_isolation=read\\ committed \
                       -c idle_in_transaction_session_timeout=5s";
/// How a transaction begins behind a pooler. A node that vanishes within one (no power, no network) hangs up on nobody, and
/// the server would keep its locks for hours: nothing of the lanes it was leasing from could be leased, or added to them.
pub(crate) const BEGIN_POOLED: &str =
    "begin isolation level read committed; set local idle_in_transaction_session_timeout = '5s'";
/// How it begins where the connection has the same limit.
pub(crate) const BEGIN: &str = "begin isolation level read committed";

/// How the server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Settings can be given with the connection.
    Direct,
    /// A pooler is in between, which takes no settings.
    Pooler,
}

/// The settings of a connection to `url`.
pub(crate) fn settings(url: &str, route: Route) -> Result<Config, PostgresOpenError> {
    let mut config: Config = url.parse().map_err(PostgresOpenError::BadUrl)?;
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

/// Hosts and ports, for people; no secrets.
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

/// Opens connections for the pool, and those that others have for themselves.
#[derive(Clone)]
pub(crate) struct Connector {
    tls: MakeTls,
    /// Shared by clones: where one of them got through the others begin.
    hosts: Arc<Hosts>,
}

impl Connector {
    pub(crate) fn new(config: &Config) -> Result<Connector, PostgresOpenError> {
        let tls = MakeTls::new(config.get_ssl_mode())
            .map_err(|source| PostgresOpenError::Connect { address: address(config), source: Box::new(source) })?;
        Ok(Connector { tls, hosts: Arc::default() })
    }

    pub(crate) async fn open(&self, config: &Config) -> Result<(Client, JoinHandle<()>), Error> {
        self.open_listening(config, |_| {}).await
    }

    /// Opens a connection that passes on what other connections notify of.
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

    /// Opens a connection, or says why not, within the time that one may take.
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

/// Moves bytes until the connection ends, or until the server says that it did not wait for the standby.
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
                debug!(postgres.severity = notice.severity(), "postgres says: {}", notice.message());
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

/// The text may be translated; the routine that speaks is not.
fn is_cancelled_standby_wait(notice: &DbError) -> bool {
    notice.code() == &SqlState::WARNING
        && (notice.routine() == Some("SyncRepWaitForLSN") || notice.message().contains("synchronous replication"))
}
