//! `everhook serve`: wires the crates together, runs until a signal, and stops in order.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use everhook_api::{
    ApiConfig, Budget, ConnectionMetrics, NamedOutbox, Server, ServerTls, Stop, TrustedProxies, listen, ops_router,
    router,
};
use everhook_core::limits::ENDPOINTS_MAX;
use everhook_core::role::Role;
use everhook_engine::config::NodeConfig;
use everhook_engine::entropy::Entropy;
use everhook_engine::node::Node;
use everhook_engine::session::NodeName;
use everhook_sender::egress::Egress;
use everhook_sender::{Deadlines, Sender, SenderConfig};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tracing::{info, warn};

use crate::cli::print;
use crate::config::{Config, StoreConfig};
use crate::doctor;
use crate::environment;
use crate::files;
use crate::first_key::FirstKey;
use crate::logging::Logs;
use crate::otlp::Exporter;
use crate::outboxes;
use crate::process;
use crate::startup_retry::StartupRetry;
use crate::store::{self, Opened};

/// The interval at which changed quotas are read. A change applies on every node within five seconds.
const QUOTA_INTERVAL: Duration = Duration::from_secs(2);
/// How long clients may finish their requests after the deliveries have ended.
const CLIENTS_DEADLINE: Duration = Duration::from_secs(2);
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The receiver of the news that the server is ready.
pub(crate) enum Announce {
    /// Prints the greeting to stdout.
    Print,
    /// Sends the address of the API to another part of this process.
    To(oneshot::Sender<SocketAddr>),
}

fn tell_about_wakeups(config: &Config) {
    if let (true, StoreConfig::Postgres { pooler: true, direct_url: None, .. }) = (config.wakeups, &config.store) {
        info!("no wake-ups between replicas through a pooler, only polling: set `database_direct` to get them");
    }
}

/// Compares the clock of this machine with that of the store, which due times and signatures follow.
async fn tell_about_clocks(opened: &Opened) {
    if let Ok(now) = opened.store.now().await
        && let Some(problem) = doctor::clock_problem(now)
    {
        warn!("{problem}");
    }
}

/// Runs the server until SIGTERM or SIGINT. A second signal exits at once.
pub(crate) async fn serve(mut config: Config, logs: &Logs, announce: Announce) -> anyhow::Result<()> {
    let mut signals = Signals::new()?;
    let files = files::fit(&mut config);
    let startup = StartupRetry::begin(config.database_wait);
    let opened = tokio::select! {
        opened = startup.run(|| store::open_server(&config)) => opened?,
        _ = signals.next() => {
            info!("stopped before the start was complete");
            return Ok(());
        }
    };
    tell_about_wakeups(&config);
    tell_about_clocks(&opened).await;
    let tls = config.tls.clone().map(ServerTls::load).transpose().context("could not read `tls_certificate`")?;
    let outboxes = outboxes::sources(&config, &opened)?;
    // Bound before the first delivery, so that a port in use fails the start.
    let listeners = Listeners::bind(&config).await?;
    let addresses = listeners.addresses()?;
    let egress = Egress { own: addresses.all(), ..config.egress.clone() };
    let node = startup.run(|| start_node(&config, &opened, egress.clone(), files.kept)).await?;
    let exporter = config.otlp.as_ref().map(|otlp| Exporter::start(&node, otlp, VERSION));
    let named = outboxes.iter().map(|source| NamedOutbox { name: source.name.clone(), outbox: source.outbox.clone() });
    let router = router(Arc::clone(&node), api_config(&config, egress, named.collect()));
    node.relay(outboxes);
    let metrics = ConnectionMetrics::default();
    node.add_metrics(|registry| {
        process::register(registry, VERSION);
        logs.counters.register(registry);
        metrics.register(registry);
    });
    let ops_router = ops_router(Arc::clone(&node), VERSION);
    let budget = Budget { connections: files.clients, per_address: config.connections_per_address.min(files.clients) };
    let front = Front { tls, proxies: TrustedProxies(config.trusted_proxies.clone()) };
    let mut served = Served::start(listeners, Routers { api: router, ops: ops_router }, budget, metrics, front);
    let asked = tokio::select! {
        greeting = startup.run(|| greeting(&config, &opened, &node, &addresses)) => {
            announce.tell(&greeting?, addresses.api)?;
            signals.next().await
        }
        asked = signals.next() => asked,
    };
    let delay = stop_delay(&config, asked);
    info!("stopping: the listener closes in {} s; a second signal exits at once", delay.as_secs());
    node.leave();
    served.api_stop.leaving.cancel();
    let orderly = async {
        // Load balancers need time to notice that the node is not ready. Until then the listener accepts requests.
        tokio::time::sleep(delay).await;
        served.api_stop.closing.cancel();
        node.drain(config.grace).await;
        served.end().await;
        if let Some(exporter) = exporter {
            exporter.end().await;
        }
        opened.close().await;
    };
    tokio::select! {
        () = orderly => info!("stopped"),
        _ = signals.next() => {
            warn!("second signal: exiting at once; other nodes, or the next start, take over the tasks in flight");
            std::process::exit(1);
        }
    }
    Ok(())
}

fn api_config(config: &Config, egress: Egress, outboxes: Vec<NamedOutbox>) -> ApiConfig {
    ApiConfig {
        jwt_secret: config.jwt_secret.clone().map(|secret| secret.0),
        public_url: config.public_url.clone(),
        tls: config.tls.is_some(),
        embed_origins: config.embed_origins.clone(),
        cors_origins: config.cors_origins.clone(),
        chat_hosts: config.chat_hosts.clone(),
        default_signature: config.default_signature,
        egress,
        version: VERSION,
        outboxes,
        jobs: config.jobs.enabled,
        schedules: config.jobs.schedules,
        endpoints_max: ENDPOINTS_MAX,
        auth_failures_per_minute: config.auth_failures_per_minute,
        delivery_timeout: config.timeout,
        settings: config.shown.clone(),
    }
}

impl Announce {
    fn tell(self, greeting: &str, address: SocketAddr) -> anyhow::Result<()> {
        match self {
            Announce::Print => print(greeting),
            // The receiver may have ended with an error, which stops this server as well.
            Announce::To(receiver) => {
                let _ = receiver.send(address);
                Ok(())
            }
        }
    }
}

struct Listeners {
    api: TcpListener,
    ops: Option<TcpListener>,
}

impl Listeners {
    async fn bind(config: &Config) -> anyhow::Result<Listeners> {
        let bind = async |address| listen(address).await.with_context(|| format!("could not listen on {address}"));
        let api = bind(config.listen).await?;
        let ops = match config.listen_ops {
            Some(address) => Some(bind(address).await?),
            None => None,
        };
        Ok(Listeners { api, ops })
    }

    fn addresses(&self) -> anyhow::Result<Addresses> {
        let address = |listener: &TcpListener| listener.local_addr().context("could not tell the address listened on");
        Ok(Addresses { api: address(&self.api)?, ops: self.ops.as_ref().map(address).transpose()? })
    }
}

struct Addresses {
    api: SocketAddr,
    ops: Option<SocketAddr>,
}

impl Addresses {
    fn all(&self) -> Vec<SocketAddr> {
        [Some(self.api), self.ops].into_iter().flatten().collect()
    }
}

/// The part of the API's listener that clients or their proxies meet first.
struct Front {
    tls: Option<ServerTls>,
    proxies: TrustedProxies,
}

struct Routers {
    api: Router,
    ops: Router,
}

struct Served {
    api: JoinSet<()>,
    api_stop: Stop,
    ops: JoinSet<()>,
    ops_stop: Stop,
}

impl Served {
    fn start(
        listeners: Listeners,
        routers: Routers,
        budget: Budget,
        metrics: ConnectionMetrics,
        front: Front,
    ) -> Served {
        let Front { tls, proxies } = front;
        let (api_stop, ops_stop) = (Stop::default(), Stop::default());
        let (mut api, mut ops) = (JoinSet::new(), JoinSet::new());
        let (listener, router, stop) = (listeners.api, routers.api, api_stop.clone());
        api.spawn(Server { listener, router, budget, stop, metrics, tls, proxies }.run());
        if let Some(listener) = listeners.ops {
            let (router, stop, metrics) = (routers.ops, ops_stop.clone(), ConnectionMetrics::default());
            ops.spawn(
                Server {
                    listener,
                    router,
                    budget: Budget::ops(),
                    stop,
                    metrics,
                    tls: None,
                    proxies: TrustedProxies::default(),
                }
                .run(),
            );
        }
        Served { api, api_stop, ops, ops_stop }
    }

    /// Waits a little for clients that are still sending; they have had the grace period, too. The ops listener closes
    /// last, so that it reports the state of the node until the end.
    async fn end(&mut self) {
        if tokio::time::timeout(CLIENTS_DEADLINE, self.api.join_next()).await.is_err() {
            warn!("closed connections of clients that had not finished their requests");
        }
        self.ops_stop.closing.cancel();
        let _ = tokio::time::timeout(CLIENTS_DEADLINE, self.ops.join_next()).await;
    }
}

/// How long a stopping node continues to serve. A worker has no clients, and a person who presses Ctrl-C waits for the
/// exit.
fn stop_delay(config: &Config, asked: Asked) -> Duration {
    match asked {
        Asked::Terminate if config.role.accepts() => config.stop_delay,
        Asked::Terminate | Asked::Interrupt => Duration::ZERO,
    }
}

async fn start_node(config: &Config, opened: &Opened, egress: Egress, kept: usize) -> anyhow::Result<Arc<Node>> {
    let (connect, total) = (config.connect_timeout, config.timeout);
    let deadlines = Deadlines { connect, tls: connect, write: total, first_byte: total, total };
    let sender = SenderConfig {
        egress,
        deadlines,
        // Lanes limit each endpoint. A tighter limit per host would let endpoints of one host delay each other.
        connections_per_host: config.dispatch.slots,
        idle_total: kept,
        proxy: config.egress_proxy.clone(),
        ..SenderConfig::default()
    };
    let sender = Arc::new(Sender::new(sender).context("could not start the sender")?);
    let name =
        NodeName { node: format!("{}:{}", environment::host_name(), std::process::id()), version: VERSION.to_owned() };
    let node = NodeConfig {
        dispatch: config.dispatch,
        lease: config.lease,
        retry: config.retry.clone(),
        name,
        role: config.role,
        wakeups: config.wakeups,
        jobs: Some(config.jobs.clone()),
        retention: config.retention,
        public_url: config.public_url.clone(),
        alert_interval: Some(config.alert_interval),
        quota_interval: Some(QUOTA_INTERVAL),
    };
    let (store, ids) = (Arc::clone(&opened.store), Arc::clone(&opened.ids));
    Node::start(store, Some(sender), ids, Entropy::from_system(), node).await.context("could not start the node")
}

/// Returns the addresses, the place of the data, and, for an empty store, the first key with a command to try.
async fn greeting(config: &Config, opened: &Opened, node: &Node, addresses: &Addresses) -> anyhow::Result<String> {
    let address = addresses.api;
    let base = format!("{}://{address}", if config.tls.is_some() { "https" } else { "http" });
    let mut text = format!("Everhook {VERSION} listens on {base}\ndata: {}\n", store::place(config));
    if let Some(ops) = addresses.ops {
        text += &format!("health and metrics: http://{ops}\n");
    }
    if config.role != Role::All {
        text += &format!("role: {}\n", config.role);
    }
    // A worker serves no API, so a key would be useless.
    if config.role.accepts() {
        let first = FirstKey::ensure(config, opened).await?;
        text += &first.greeting(&base);
        // The link is as good as the key, so it is shown where the key is.
        if let FirstKey::New(key) = &first
            && address.ip().is_loopback()
            && let Some(path) = everhook_api::sign_in_path(node, key).await
        {
            text += &format!("\nOpen the dashboard within ten minutes, signed in:\n\n    {base}{path}\n");
        }
    }
    Ok(text)
}

/// The signal that stopped the process.
#[derive(Clone, Copy)]
enum Asked {
    Terminate,
    Interrupt,
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> anyhow::Result<Signals> {
        let listen = |kind| signal(kind).context("could not listen for signals");
        Ok(Signals { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::Terminate,
            _ = self.interrupt.recv() => Asked::Interrupt,
        }
    }
}
