//! A node: the context that every component shares, started with a store and a sender, stopped by draining.
//!
//! Components own their state and refer to the node for the rest. `changes` is the door for the node's callers, `intake`
//! the way in for new work.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use everhook_core::dispatch::{Dispatch, DispatchConfig};
use everhook_core::id::Id;
use everhook_core::limits::SETTLE_STALL_MAX;
use everhook_core::outcome::{Class, Reply, SendFailure};
use everhook_core::role::Role;
use everhook_core::time::Timestamp;
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

use crate::clock::Clock;
use crate::config::{JobsConfig, NodeConfig};
use crate::counts::EndedCounts;
use crate::dispatcher::{self, NodeCapacity};
use crate::entropy::Entropy;
use crate::intake::accept::Messages;
use crate::intake::coalescer::Coalescer;
use crate::intake::enqueue::Jobs;
use crate::metrics::{Metrics, Now};
use crate::outbox::{Relay, RelaySource};
use crate::remote::Asking;
use crate::retention::{self, Pruner};
use crate::run::delivery::{Deliverer, Delivery};
use crate::run::handler::Handled;
use crate::run::job::{Runner, Work};
use crate::run::source::{JobSource, PushQueues};
use crate::schedules;
use crate::session::Sessions;
use crate::settle::Settler;
use crate::sweep::Sweeper;
use crate::transport::Transport;
use crate::wakeup::Wakeups;

/// Deliveries that are leased beyond the slots, to targets that answer fast.
const DELIVERIES_AHEAD_MAX: usize = 500;
/// How many of them one lease brings: a lane with a backlog must not keep the store busy.
const DELIVERIES_AHEAD_STEP: usize = 50;
/// How often partitions and the like are looked after.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(3600);
/// How long the last settlements may take after the sends were interrupted.
const FLUSH_DEADLINE: Duration = Duration::from_secs(5);

/// A running node.
pub struct Node {
    pub(crate) config: NodeConfig,
    /// Requests leave this node, and it looks after the store: a server, and no worker in a customer's process.
    pub(crate) is_server: bool,
    /// Whether this node delivers messages.
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
    pub(crate) wakeups: Wakeups,
    /// The dispatch machine of deliveries.
    pub(crate) deliveries: Arc<NodeCapacity<Delivery>>,
    /// The dispatch machine of jobs.
    pub(crate) jobs: Arc<NodeCapacity<Work>>,
    pub(crate) accepting: Coalescer<Messages>,
    pub(crate) enqueueing: Coalescer<Jobs>,
    pub(crate) settler: Settler,
    /// Jobs that handlers of this process run now.
    pub(crate) handled: Handled,
    pub(crate) push_queues: PushQueues,
    /// Remote workers with a lease call under way here.
    pub(crate) asking: Asking,
    /// Deliveries and jobs under way.
    pub(crate) running: TaskTracker,
    /// The loops that begin them.
    intake: TaskTracker,
    loops: TaskTracker,
    /// A stop was announced; work is taken as before.
    leaving: AtomicBool,
    /// Stops taking work.
    pub(crate) stop: CancellationToken,
    /// Stops the heartbeat and the writers, last of all.
    halt: CancellationToken,
    /// Fires when the grace period of a stop is over.
    pub(crate) interrupt: CancellationToken,
}

impl Node {
    /// Starts every loop. The first session is open when this returns. Without a transport the node neither delivers
    /// nor pushes, and runs the jobs of its handlers only. The server and the simulator differ in nothing but the
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
        node.sessions.step().await;
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
            .in_steps(DELIVERIES_AHEAD_STEP);
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
            wakeups: Wakeups::new(deliveries.clone(), jobs.clone(), clock.clone(), hints),
            deliveries,
            jobs,
            accepting: Coalescer::new(Messages::default()),
            enqueueing: Coalescer::new(Jobs),
            settler: Settler::default(),
            handled: Handled::default(),
            push_queues: PushQueues::default(),
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
        // Every node has a session, also one that never holds anything: it shows that the node lives and that the store
        // answers, and it brings the store's time.
        self.spawn(|node| async move { node.sessions.run(node.halt.clone()).await });
        // And every node settles: remote workers speak to any of them.
        self.spawn_loop(&self.halt, |node| async move { node.settler.run(&node).await });
        self.spawn_loop(&self.stop, |node| async move { maintain(&*node.store).await });
        self.spawn_loop(&self.stop, |node| async move { node.metrics.watch(&*node.store).await });
        self.spawn_loop(&self.stop, |node| async move { node.wakeups.broadcast_loop().await });
        // A node that neither delivers nor has workers waiting has nothing to be woken for.
        if self.config.role.delivers() || self.has_jobs() {
            self.spawn_loop(&self.stop, |node| async move { node.wakeups.listen().await });
        }
        if self.config.role.accepts() {
            self.spawn_intake(|node| async move { node.accepting.run(&node).await });
        }
        if self.delivers {
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
        self.spawn(|node| async move { node.counts.run(&*node.store, node.halt.clone()).await });
        if config.schedules {
            self.spawn_loop(&self.stop, |node| async move { schedules::run(&node).await });
        }
        if config.schedules && self.is_server {
            self.spawn_loop(&self.stop, |node| async move { retention::create_schedules(&node).await });
        }
        if self.config.role.delivers() {
            self.spawn_intake(|node| async move { dispatcher::run(&node, JobSource::new(&node)).await });
            // Also while the node stops: jobs that run then can still be cancelled.
            self.spawn_loop(&self.halt, |node| async move { Runner::new(&node).watch().await });
        }
    }
}

/// Tasks of the node itself.
impl Node {
    /// Runs a loop that ends by itself when the node stops or halts.
    fn spawn<F>(self: &Arc<Self>, work: impl FnOnce(Arc<Node>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.loops.spawn(abort_on_panic(work(Arc::clone(self))));
    }

    /// Runs a loop until `end`.
    fn spawn_loop<F>(self: &Arc<Self>, end: &CancellationToken, work: impl FnOnce(Arc<Node>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.loops.spawn(abort_on_panic(until(end.clone(), work(Arc::clone(self)))));
    }

    /// Runs a loop that brings new work. A stop waits for it first; it ends by itself then, or by the halt.
    fn spawn_intake<F>(self: &Arc<Self>, work: impl FnOnce(Arc<Node>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.intake.spawn(abort_on_panic(until(self.halt.clone(), work(Arc::clone(self)))));
    }

    /// Relays the rows of these outboxes, until the node is drained. A node that does not accept leaves them to the
    /// others.
    pub fn relay(self: &Arc<Self>, sources: Vec<RelaySource>) {
        for source in sources.into_iter().filter(|_| self.config.role.accepts()) {
            self.spawn_intake(|node| async move { Relay::new(node, source).run().await });
        }
    }

    /// Announces a stop: the node is not ready from now on, so that clients with a choice go elsewhere. It works on until
    /// it is drained.
    pub fn leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
    }

    /// Stops: takes no more work, lets running tasks finish within `grace`, interrupts the rest, hands everything back.
    pub async fn drain(self: &Arc<Self>, grace: Duration) {
        info!(running = self.leased(), "stopping: waiting up to {} s for running tasks", grace.as_secs());
        dispatcher::drain(self, &Deliverer::new(self));
        dispatcher::drain(self, &Runner::new(self));
        self.stop.cancel();
        self.intake.close();
        self.running.close();
        let finished = async {
            // The tasks of an append or a lease under way are this node's, and are run and settled like the rest.
            self.intake.wait().await;
            self.running.wait().await;
        };
        if tokio::time::timeout(grace, finished).await.is_err() {
            warn!(running = self.leased(), "grace period is over: interrupting running tasks");
            self.interrupt.cancel();
        }
        if tokio::time::timeout(FLUSH_DEADLINE, self.settled()).await.is_err() {
            warn!(running = self.leased(), "could not settle everything: the rest is reclaimed later");
        }
        // Writes that hang in the store are found by others, because the session is closed.
        self.halt.cancel();
        self.loops.close();
        self.loops.wait().await;
        self.intake.wait().await;
        if tokio::time::timeout(FLUSH_DEADLINE, self.sessions.close_all()).await.is_err() {
            warn!("could not close the session: it expires by itself");
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

/// Facts about the node, for its callers.
impl Node {
    /// The node's part in the whole.
    pub fn role(&self) -> Role {
        self.config.role
    }

    /// The store's time as the node knows it.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The next id.
    pub fn new_id(&self) -> Id {
        self.ids.next(self.clock.now())
    }

    /// The node's counters, as Prometheus reads them.
    pub fn metrics(&self) -> String {
        self.metrics.render(Now {
            running: self.deliveries.leased(),
            jobs: self.jobs.leased(),
            unsettled: self.settler.unsettled(),
            pool: self.store.pool_use(),
        })
    }

    /// Puts counters of other parts of the process on the metrics page.
    pub fn add_metrics(&self, register: impl FnOnce(&mut Registry)) {
        self.metrics.add(register);
    }

    /// Whether the node can do its work; if not, why.
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

    /// Whether jobs are enabled.
    pub(crate) fn has_jobs(&self) -> bool {
        self.config.jobs.as_ref().is_some_and(|jobs| jobs.enabled)
    }

    /// Refuses an operation on jobs where they are disabled.
    pub(crate) fn check_jobs(&self, op: Op) -> Result<(), StoreError> {
        let refused = || StoreError::Refused { op, source: "jobs are disabled on this node".into() };
        self.has_jobs().then_some(()).ok_or_else(refused)
    }
}

/// The transport of a node from which no request leaves.
struct Nowhere;

#[async_trait]
impl Transport for Nowhere {
    async fn send(&self, _: Request) -> Result<Reply, SendFailure> {
        Err(SendFailure::new(Class::Internal, "this worker sends no requests".to_owned()))
    }
}

/// A server without handlers of its own runs the jobs that prune.
fn with_own_handlers(
    mut config: NodeConfig,
    is_server: bool,
    store: &Arc<dyn Store>,
    clock: &Arc<Clock>,
) -> NodeConfig {
    let retention = config.retention;
    let own = || Arc::new(Arc::new(Pruner::new(store, clock, retention)).into_handlers());
    if let Some(jobs) = config.jobs.as_mut().filter(|_| is_server) {
        jobs.handlers.get_or_insert_with(own);
    }
    config
}

/// A tenth more or less, so that nodes that were started together do not look for work together.
fn with_jitter(interval: Duration, entropy: &Entropy) -> Duration {
    interval - interval / 10 + entropy.jitter().share_of(interval / 5)
}

async fn until(end: CancellationToken, work: impl Future<Output = ()>) {
    end.run_until_cancelled(work).await;
}

/// A loop without which the node does not do its work. If it panics the process ends at once: others take over its
/// tasks, instead of waiting for a node that heartbeats and does nothing.
async fn abort_on_panic(work: impl Future<Output = ()>) {
    if AssertUnwindSafe(work).catch_unwind().await.is_err() {
        error!("a loop of the engine panicked: ending the process, so that others take over");
        std::process::abort();
    }
}

async fn maintain(store: &dyn Store) {
    loop {
        if let Err(error) = store.maintain().await {
            warn!(error = &error as &dyn std::error::Error, "maintenance failed, trying again later");
        }
        tokio::time::sleep(MAINTENANCE_INTERVAL).await;
    }
}
