//! A node: the context that all components share.
//!
//! `Node::start` needs a store and, on a server, a transport; `Node::drain` stops the node. Each component owns its
//! state and refers to the node for the rest. Callers such as the API use the methods in `changes`; new work enters
//! through `intake`.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use everhook_core::background::{BACKGROUND_QUEUE, BackgroundKind};
use everhook_core::dispatch::{Dispatch, DispatchConfig};
use everhook_core::exchange::Exchange;
use everhook_core::id::{EnvironmentId, Id, SERVER_ENVIRONMENT};
use everhook_core::limits::SETTLE_STALL_MAX;
use everhook_core::outcome::{Class, Reply, SendFailure};
use everhook_core::retry::RetryPolicy;
use everhook_core::role::Role;
use everhook_core::time::Timestamp;
use everhook_core::traffic::Traffic;
use everhook_sender::Request;
use everhook_store::error::StoreError;
use everhook_store::ids::Ids;
use everhook_store::store::{Op, Store};
use futures_util::FutureExt;
use http::HeaderValue;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};

use crate::activity::{Activity, ActivityWatch};
use crate::background::{self, BackgroundWorker};
use crate::breaker::Breakers;
use crate::clock::Clock;
use crate::config::{JobsConfig, NodeConfig};
use crate::counts::EndedCounts;
use crate::dispatcher::{self, NodeCapacity};
use crate::egress::EgressGate;
use crate::entropy::Entropy;
use crate::failing::FailingEndpoints;
use crate::intake::accept::{MessageBatches, Messages};
use crate::intake::coalescer::Coalescer;
use crate::intake::enqueue::Jobs;
use crate::metrics::{Metrics, Now};
use crate::outbox::{Relay, RelaySource};
use crate::policies::Policies;
use crate::quotas::Quotas;
use crate::remote::Asking;
use crate::retention::{self, Ages, MAINTENANCE_QUEUE, PRUNE_KIND, Pruner, name};
use crate::run::delivery::{Deliverer, Delivery};
use crate::run::direct::DirectMessages;
use crate::run::handler::{Handled, Handler, Handlers};
use crate::run::job::{Runner, Work};
use crate::run::oauth::OauthTokens;
use crate::run::source::{JobSource, PushQueues};
use crate::schedules;
use crate::session::Sessions;
use crate::settle::Settler;
use crate::sweep::Sweeper;
use crate::trace::Tracer;
use crate::traffic::TrafficCounts;
use crate::transport::Transport;
use crate::wakeup::Wakeups;

/// Deliveries that a node may lease beyond its slots, for endpoints that respond fast.
const DELIVERIES_AHEAD_MAX: usize = 500;
/// Deliveries leased ahead in one call. A small step keeps a lane with a backlog from occupying the store.
const DELIVERIES_AHEAD_STEP: usize = 50;
/// The interval of store maintenance, such as creating partitions.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(3600);
/// Time limit for the last settlements after running tasks were interrupted.
const FLUSH_DEADLINE: Duration = Duration::from_secs(5);

pub struct Node {
    pub(crate) config: NodeConfig,
    /// True on a server: it sends requests and maintains the store. False for a worker inside a customer's process.
    pub(crate) is_server: bool,
    pub(crate) delivers: bool,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) user_agent: HeaderValue,
    pub(crate) ids: Arc<Ids>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) entropy: Entropy,
    pub(crate) sessions: Sessions,
    pub(crate) metrics: Metrics,
    pub(crate) counts: EndedCounts,
    pub(crate) traffic: TrafficCounts,
    pub(crate) activity: Activity,
    pub(crate) wakeups: Wakeups,
    pub(crate) deliveries: Arc<NodeCapacity<Delivery>>,
    pub(crate) jobs: Arc<NodeCapacity<Work>>,
    pub(crate) accepting: Coalescer<Messages>,
    pub(crate) accepting_large: Coalescer<Messages>,
    pub(crate) batching: Coalescer<MessageBatches>,
    pub(crate) enqueueing: Coalescer<Jobs>,
    pub(crate) settler: Settler,
    pub(crate) policies: Policies,
    pub(crate) quotas: Quotas,
    pub(crate) tracer: OnceLock<Tracer>,
    pub(crate) oauth: OauthTokens,
    pub(crate) direct: DirectMessages,
    pub(crate) failing: FailingEndpoints,
    pub(crate) breakers: Breakers,
    /// Jobs that handlers of this process are running.
    pub(crate) handled: Handled,
    pub(crate) push_queues: PushQueues,
    pub(crate) egress: EgressGate,
    /// Remote workers with a lease call in progress on this node.
    pub(crate) asking: Asking,
    /// Tracks running deliveries and jobs.
    pub(crate) running: TaskTracker,
    /// Tracks the loops that bring new work.
    intake: TaskTracker,
    loops: TaskTracker,
    /// True after a stop was announced. The node still takes work until it drains.
    leaving: AtomicBool,
    /// Cancelled when the node stops taking work.
    pub(crate) stop: CancellationToken,
    /// Cancelled last in a drain: ends the heartbeat and the writers.
    halt: CancellationToken,
    /// Cancelled when the grace period of a drain is over.
    pub(crate) interrupt: CancellationToken,
}

impl Node {
    /// Starts all loops; the node has tried to open its first session when this returns. Without a transport the node
    /// neither delivers nor pushes, and only runs jobs of its handlers. The server and the simulator differ only in the
    /// arguments.
    pub async fn start(
        store: Arc<dyn Store>,
        transport: Option<Arc<dyn Transport>>,
        ids: Arc<Ids>,
        entropy: Entropy,
        config: NodeConfig,
    ) -> Result<Arc<Node>, StoreError> {
        let clock = Arc::new(Clock::new(store.now().await?));
        let config = with_own_handlers(config, transport.is_some(), &store, &clock);
        let node = Arc::new(Node::new(store, transport, ids, entropy, clock, config));
        if node.is_server {
            // Before the first lease: a restored copy must not send anything.
            node.look_at_egress().await?;
        }
        if node.delivers {
            // Before the first lease, too: paused environments must not be sent anything.
            node.read_policies().await?;
        }
        node.sessions.step().await;
        if node.quota_interval().is_some() {
            // Before the first message.
            node.read_quotas().await?;
        }
        node.spawn_loops();
        Ok(node)
    }

    fn new(
        store: Arc<dyn Store>,
        transport: Option<Arc<dyn Transport>>,
        ids: Arc<Ids>,
        entropy: Entropy,
        clock: Arc<Clock>,
        config: NodeConfig,
    ) -> Node {
        let is_server = transport.is_some();
        let poll_interval = with_jitter(config.dispatch.poll_interval, &entropy);
        let deliveries = Dispatch::new(DispatchConfig { poll_interval, ..config.dispatch })
            .leasing_ahead(DELIVERIES_AHEAD_MAX)
            .in_steps(DELIVERIES_AHEAD_STEP)
            .with_fairness();
        let deliveries = Arc::new(NodeCapacity::new(deliveries));
        let jobs = config
            .jobs
            .as_ref()
            .map_or_else(|| JobsConfig::default().dispatch(poll_interval), |jobs| jobs.dispatch(poll_interval));
        let jobs = Arc::new(NodeCapacity::new(jobs));
        let hints = store.hints().filter(|_| config.wakeups);
        let user_agent = HeaderValue::try_from(format!("Everhook/{}", config.name.version));
        Node {
            is_server,
            delivers: config.role.delivers() && is_server,
            transport: transport.unwrap_or_else(|| Arc::new(Nowhere)),
            user_agent: user_agent.unwrap_or(HeaderValue::from_static("Everhook")),
            sessions: Sessions::new(
                store.clone(),
                ids.clone(),
                clock.clone(),
                config.name.clone(),
                config.role,
                config.lease,
            ),
            metrics: Metrics::new(clock.clone()),
            counts: EndedCounts::default(),
            traffic: TrafficCounts::default(),
            activity: Activity::default(),
            wakeups: Wakeups::new(deliveries.clone(), jobs.clone(), clock.clone(), hints),
            deliveries,
            jobs,
            accepting: Coalescer::new(Messages::small()),
            accepting_large: Coalescer::new(Messages::large()),
            batching: Coalescer::new(MessageBatches),
            enqueueing: Coalescer::new(Jobs),
            settler: Settler::default(),
            policies: Policies::default(),
            quotas: Quotas::default(),
            tracer: OnceLock::new(),
            oauth: OauthTokens::default(),
            direct: DirectMessages::default(),
            failing: FailingEndpoints::default(),
            breakers: Breakers::default(),
            handled: Handled::default(),
            push_queues: PushQueues::default(),
            egress: EgressGate::default(),
            asking: Asking::default(),
            running: TaskTracker::new(),
            intake: TaskTracker::new(),
            loops: TaskTracker::new(),
            leaving: AtomicBool::new(false),
            stop: CancellationToken::new(),
            halt: CancellationToken::new(),
            interrupt: CancellationToken::new(),
            config,
            store,
            ids,
            clock,
            entropy,
        }
    }

    fn spawn_loops(self: &Arc<Self>) {
        // Every node has a session, even if it never leases. The session shows that the node is alive and the store
        // responds, and its renewals bring the store's time.
        self.spawn(|node| async move { node.sessions.run(node.halt.clone()).await });
        // Every node settles, because a remote worker may send its reports to any node.
        self.spawn_loop(&self.halt, |node| async move { node.settler.run(&node).await });
        self.spawn_loop(&self.stop, |node| async move { maintain(&*node.store).await });
        self.spawn_loop(&self.stop, |node| async move { node.metrics.watch(&*node.store).await });
        self.spawn_loop(&self.stop, |node| async move { node.wakeups.broadcast_loop().await });
        if self.is_server {
            self.spawn_loop(&self.stop, |node| async move { node.watch_egress().await });
            self.spawn(|node| async move { node.traffic.run(&node, node.halt.clone()).await });
        }
        // Other nodes need no wake-ups: they neither deliver nor have waiting workers.
        if self.config.role.delivers() || self.has_jobs() {
            self.spawn_loop(&self.stop, |node| async move { node.wakeups.listen().await });
        }
        if let Some(interval) = self.config.alert_interval.filter(|_| self.is_server && self.config.role.accepts()) {
            self.spawn_loop(&self.stop, |node| async move { node.watch_alerts(interval).await });
        }
        if let Some(interval) = self.quota_interval() {
            self.spawn_loop(&self.stop, |node| async move { node.watch_quotas(interval).await });
            self.spawn_loop(&self.stop, |node| async move { node.watch_stored(interval).await });
        }
        if self.config.role.accepts() {
            self.spawn_intake(|node| async move { node.accepting.run(&node).await });
            self.spawn_intake(|node| async move { node.accepting_large.run(&node).await });
            self.spawn_intake(|node| async move { node.batching.run(&node).await });
        }
        if self.delivers {
            self.spawn_loop(&self.halt, |node| async move { node.watch_policies().await });
            self.spawn_loop(&self.halt, |node| async move { node.take_steps().await });
            self.spawn_intake(|node| async move { dispatcher::run(&node, Deliverer::new(&node)).await });
        }
        if self.config.role.delivers() {
            self.spawn(|node| async move { Sweeper { node }.run().await });
        }
        if let Some(config) = &self.config.jobs {
            self.spawn_job_loops(config);
        }
    }

    fn spawn_job_loops(self: &Arc<Self>, config: &JobsConfig) {
        if self.is_server && !(config.enabled && config.schedules) {
            self.spawn_loop(&self.stop, |node| async move {
                Pruner::new(&node.store, &node.clock, node.config.retention).run_by_timer().await
            });
        }
        if !config.enabled {
            return;
        }
        self.spawn_intake(|node| async move { node.enqueueing.run(&node).await });
        if self.is_server {
            self.spawn_loop(&self.stop, |node| async move { node.metrics.queues.watch(&*node.store).await });
        }
        self.spawn(|node| async move { node.counts.run(&*node.store, node.halt.clone()).await });
        if config.schedules {
            self.spawn_loop(&self.stop, |node| async move { schedules::run(&node).await });
        }
        if config.schedules && self.is_server {
            self.spawn_loop(&self.stop, |node| async move { retention::create_schedules(&node).await });
        }
        if self.config.role.delivers() {
            self.spawn_intake(|node| async move { dispatcher::run(&node, JobSource::new(&node)).await });
            // This loop also runs during a drain, so that the remaining jobs can still be cancelled.
            self.spawn_loop(&self.halt, |node| async move { Runner::new(&node).watch().await });
        }
    }
}

/// Loops of the node and its shutdown.
impl Node {
    /// Runs a loop that returns by itself when the node stops or halts.
    fn spawn<F>(self: &Arc<Self>, work: impl FnOnce(Arc<Node>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.loops.spawn(abort_on_panic(work(Arc::clone(self))));
    }

    /// Runs a loop until `end` is cancelled.
    fn spawn_loop<F>(self: &Arc<Self>, end: &CancellationToken, work: impl FnOnce(Arc<Node>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.loops.spawn(abort_on_panic(until(end.clone(), work(Arc::clone(self)))));
    }

    /// Runs a loop that brings new work. A drain waits for these loops first, because work that they are committing or
    /// leasing belongs to this node. The loop returns by itself after a stop; the halt ends it otherwise.
    fn spawn_intake<F>(self: &Arc<Self>, work: impl FnOnce(Arc<Node>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.intake.spawn(abort_on_panic(until(self.halt.clone(), work(Arc::clone(self)))));
    }

    /// Relays the rows of these outboxes until the node drains. A node whose role does not accept messages does
    /// nothing.
    pub fn relay(self: &Arc<Self>, sources: Vec<RelaySource>) {
        for source in sources.into_iter().filter(|_| self.config.role.accepts()) {
            self.spawn_intake(|node| async move { Relay::new(node, source).run().await });
        }
    }

    /// Announces a stop: the node reports itself as not ready, so that load balancers choose other nodes. It keeps
    /// working until it drains.
    pub fn leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
    }

    /// Stops the node in this order: take no new work, wait up to `grace` for running tasks, interrupt the rest, write
    /// the last settlements, and close the sessions.
    pub async fn drain(self: &Arc<Self>, grace: Duration) {
        info!(running = self.leased(), "stopping: waiting up to {} s for running tasks", grace.as_secs());
        // Tasks that wait for a slot have not started. Handing them back now lets other nodes run them at once.
        dispatcher::drain(self, &Deliverer::new(self));
        dispatcher::drain(self, &Runner::new(self));
        self.stop.cancel();
        self.intake.close();
        self.running.close();
        let finished = async {
            // An append or lease in progress may still bring tasks that belong to this node. They run and settle like
            // the others, so the drain waits for the intake before it waits for running tasks.
            self.intake.wait().await;
            self.running.wait().await;
        };
        if tokio::time::timeout(grace, finished).await.is_err() {
            warn!(running = self.leased(), "grace period is over: interrupting running tasks");
            self.interrupt.cancel();
        }
        if tokio::time::timeout(FLUSH_DEADLINE, self.settled()).await.is_err() {
            warn!(running = self.leased(), "could not settle all tasks in time: other nodes reclaim the rest");
        }
        // The heartbeat ends only here, so that no other node takes over a task while its settlement is being written.
        // A write that still hangs is abandoned. Closing the session then lets other nodes reclaim its tasks at once.
        self.halt.cancel();
        self.loops.close();
        self.loops.wait().await;
        self.intake.wait().await;
        if tokio::time::timeout(FLUSH_DEADLINE, self.sessions.close_all()).await.is_err() {
            warn!("could not close the session in time: it expires after its lease");
        }
        let _ = tokio::time::timeout(FLUSH_DEADLINE, self.wakeups.notify_on_shutdown()).await;
    }

    async fn settled(&self) {
        const STEP: Duration = Duration::from_millis(10);
        while self.leased() > 0 {
            tokio::time::sleep(STEP).await;
        }
        self.settler.settled().await;
    }

    fn leased(&self) -> usize {
        self.deliveries.leased() + self.jobs.leased()
    }
}

/// Information about the node for its callers.
impl Node {
    pub fn role(&self) -> Role {
        self.config.role
    }

    /// The retry policy of deliveries without settings.
    pub fn retry_policy(&self) -> &RetryPolicy {
        &self.config.retry
    }

    /// The store's time, as estimated by this node.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The time since the node started.
    pub fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    pub fn new_id(&self) -> Id {
        self.ids.next(self.clock.now())
    }

    /// The traffic of an environment on this node that is not yet written to the store.
    pub fn fresh_traffic(&self, environment: EnvironmentId) -> Traffic {
        self.traffic.fresh(environment)
    }

    /// Watches an environment for changes on this node.
    pub fn watch(&self, environment: EnvironmentId) -> ActivityWatch {
        self.activity.watch(environment)
    }

    /// The node's metrics in the text format of Prometheus.
    pub fn metrics(&self) -> String {
        self.metrics.render(Now {
            running: self.deliveries.leased(),
            jobs: self.jobs.leased(),
            unsettled: self.settler.unsettled(),
            pool: self.store.pool_use(),
        })
    }

    /// Adds metrics of other parts of the process to the metrics page.
    pub fn add_metrics(&self, register: impl FnOnce(&mut Registry)) {
        self.metrics.add(register);
    }

    /// Returns an error with the reason if the node cannot do its work.
    pub fn ready(&self) -> Result<(), String> {
        if self.leaving.load(Ordering::Relaxed) || self.stop.is_cancelled() {
            return Err("stopping: the node closes its listener soon".to_owned());
        }
        if let Some(why) = self.store.broken() {
            return Err(why);
        }
        if self.sessions.current().is_none() {
            return Err("the node has no renewed session: the store is unavailable or slow".to_owned());
        }
        let stalled = self.settler.stalled(self.clock.elapsed());
        if stalled > SETTLE_STALL_MAX {
            let seconds = stalled.as_secs();
            return Err(format!("no attempt could be settled for {seconds} s although some have ended: see the log"));
        }
        Ok(())
    }

    /// The interval at which quotas are read; none on a node that accepts nothing.
    pub(crate) fn quota_interval(&self) -> Option<Duration> {
        self.config.quota_interval.filter(|_| self.config.role.accepts())
    }

    pub(crate) fn has_jobs(&self) -> bool {
        self.config.jobs.as_ref().is_some_and(|jobs| jobs.enabled)
    }

    /// Fails if jobs are disabled on this node.
    pub(crate) fn check_jobs(&self, op: Op) -> Result<(), StoreError> {
        let refused = || StoreError::Refused { op, source: "jobs are disabled on this node".into() };
        self.has_jobs().then_some(()).ok_or_else(refused)
    }
}

/// The transport of a worker node, which sends no requests.
struct Nowhere;

#[async_trait]
impl Transport for Nowhere {
    async fn send(&self, _: Request, _: &mut Exchange) -> Result<Reply, SendFailure> {
        Err(SendFailure::new(Class::Internal, "a worker node sends no requests".to_owned()))
    }
}

/// Adds the handlers of the server's own jobs to a server that has no other handlers.
fn with_own_handlers(
    mut config: NodeConfig,
    is_server: bool,
    store: &Arc<dyn Store>,
    clock: &Arc<Clock>,
) -> NodeConfig {
    let retention = config.retention;
    let own = || Arc::new(own_handlers(store, clock, retention));
    if let Some(jobs) = config.jobs.as_mut().filter(|_| is_server) {
        jobs.handlers.get_or_insert_with(own);
    }
    config
}

/// The handlers of the server's own jobs: pruning, and background tasks.
fn own_handlers(store: &Arc<dyn Store>, clock: &Arc<Clock>, retention: Ages) -> Handlers {
    let pruner = Arc::new(Pruner::new(store, clock, retention)) as Arc<dyn Handler>;
    let worker = Arc::new(BackgroundWorker::new(store, clock)) as Arc<dyn Handler>;
    let background = BackgroundKind::ALL.map(|kind| (name(kind.as_str()), Arc::clone(&worker)));
    Handlers {
        environment: SERVER_ENVIRONMENT,
        queues: BTreeMap::from([(name(MAINTENANCE_QUEUE), 1), (name(BACKGROUND_QUEUE), background::SLOTS)]),
        kinds: background.into_iter().chain([(name(PRUNE_KIND), pruner)]).collect(),
    }
}

/// Changes an interval by up to a tenth, so that nodes started together do not poll together.
fn with_jitter(interval: Duration, entropy: &Entropy) -> Duration {
    interval - interval / 10 + entropy.jitter().share_of(interval / 5)
}

async fn until(end: CancellationToken, work: impl Future<Output = ()>) {
    end.run_until_cancelled(work).await;
}

/// Runs a loop that the node cannot work without. A panic ends the process: other nodes then take over its tasks.
/// Otherwise the node would keep its leases alive without working on them.
async fn abort_on_panic(work: impl Future<Output = ()>) {
    if AssertUnwindSafe(work).catch_unwind().await.is_err() {
        error!("a loop of the engine panicked: aborting the process so that other nodes take over its tasks");
        std::process::abort();
    }
}

async fn maintain(store: &dyn Store) {
    loop {
        if let Err(error) = store.maintain().await {
            warn!(error = &error as &dyn std::error::Error, "store maintenance failed: retrying in an hour");
        }
        tokio::time::sleep(MAINTENANCE_INTERVAL).await;
    }
}
