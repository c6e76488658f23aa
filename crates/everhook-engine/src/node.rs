//! A node as a whole: started with a store and a sender, stopped by draining. `changes` is the door for its callers.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use everhook_core::dispatch::{Dispatch, DispatchConfig};
use everhook_core::id::Id;
use everhook_core::limits::SETTLE_STALL_MAX;
use everhook_core::outcome::{Reply, SendFailure};
use everhook_core::retry::RetryPolicy;
use everhook_core::role::Role;
use everhook_core::time::Timestamp;
use everhook_sender::Request;
use everhook_store::error::StoreError;
use everhook_store::ids::Ids;
use everhook_store::store::{Op, Store};
use everhook_store::uids::Uids;
use futures_util::FutureExt;
use http::HeaderValue;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};

use crate::accept::Acceptor;
use crate::clock::Clock;
use crate::delivery::{Deliverer, Deliveries, Delivery};
use crate::dispatcher::{Dispatcher, NodeCapacity};
use crate::entropy::Entropy;
use crate::group::GroupQueue;
use crate::jobs::counts::EndedCounts;
use crate::jobs::maintenance::{Ages, Pruner};
use crate::jobs::runner::Work;
use crate::jobs::subsystem::{JobSubsystem, JobSubsystemParts, JobsConfig, NodeDuties};
use crate::metrics::{Metrics, Now};
use crate::outbound::{Outbound, internal};
use crate::relay::{Relay, RelaySource};
use crate::session::{NodeName, Sessions};
use crate::settle::{Settler, SettlerParts};
use crate::sweeper::Sweeper;
use crate::transport::Transport;
use crate::wakeup::{NodeCapacities, Wakeups};

/// Deliveries that are leased beyond the slots, to targets that answer fast.
const DELIVERIES_AHEAD_MAX: usize = 500;
/// How many of them one lease brings: a lane with a backlog must not keep the store busy.
const DELIVERIES_AHEAD_STEP: usize = 50;
/// How often partitions and the like are looked after.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(3600);
/// How long the last settlements may take after the sends were interrupted.
const FLUSH_DEADLINE: Duration = Duration::from_secs(5);

/// The engine's settings.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Slots and polling.
    pub dispatch: DispatchConfig,
    /// How long a node may be silent before others take over.
    pub lease: Duration,
    /// When failed deliveries are tried again.
    pub retry: RetryPolicy,
    /// This node.
    pub name: NodeName,
    /// What it does.
    pub role: Role,
    /// Whether nodes wake each other; without, work is found by polling.
    pub wakeups: bool,
    /// Jobs. None: this engine neither runs jobs nor prunes.
    pub jobs: Option<JobsConfig>,
    /// How long things are kept.
    pub retention: Ages,
}

/// What an engine stands on. The server and the simulator differ in nothing else.
pub struct Parts {
    /// Where everything is kept.
    pub store: Arc<dyn Store>,
    /// How requests leave. None do without: such an engine neither delivers nor pushes, and runs the jobs of its handlers only.
    pub transport: Option<Arc<dyn Transport>>,
    /// Shared with the store.
    pub ids: Arc<Ids>,
    /// Jitter.
    pub entropy: Entropy,
}

/// A running engine.
pub struct Node {
    role: Role,
    /// Whether this node delivers.
    delivers: bool,
    pub(crate) store: Arc<dyn Store>,
    ids: Arc<Ids>,
    clock: Arc<Clock>,
    sessions: Arc<Sessions>,
    settler: Arc<Settler>,
    pub(crate) acceptor: Arc<Acceptor>,
    dispatcher: Arc<Dispatcher<Deliveries>>,
    pub(crate) jobs: Option<Arc<JobSubsystem>>,
    deliveries_capacity: Arc<NodeCapacity<Delivery>>,
    jobs_capacity: Arc<NodeCapacity<Work>>,
    pub(crate) wakeups: Arc<Wakeups>,
    pub(crate) metrics: Arc<Metrics>,
    /// Deliveries and jobs under way.
    running: TaskTracker,
    /// The loops that begin them.
    intake: TaskTracker,
    loops: TaskTracker,
    /// A stop was announced; work is taken as before.
    leaving: AtomicBool,
    /// Stops taking work.
    stop: CancellationToken,
    /// Stops the heartbeat and the writers, last of all.
    halt: CancellationToken,
    interrupt: CancellationToken,
}

impl Node {
    /// Starts every loop. The first session is open when this returns.
    pub async fn start(parts: Parts, config: NodeConfig) -> Result<Arc<Node>, StoreError> {
        let clock = Arc::new(Clock::new(parts.store.now().await?));
        let (store, ids) = (parts.store.clone(), parts.ids.clone());
        let (name, role) = (config.name.clone(), config.role);
        let sessions = Sessions::new(store, ids, clock.clone(), name, role, config.lease);
        let sessions = Arc::new(sessions);
        sessions.step().await;
        let sweep_interval = (config.lease / 8).clamp(Duration::from_millis(50), Duration::from_secs(1));
        let engine = Node::assemble(parts, config, clock, sessions);
        let sweeper = Sweeper {
            store: engine.store.clone(),
            sessions: engine.sessions.clone(),
            settler: engine.settler.clone(),
            clock: engine.clock.clone(),
            interval: sweep_interval,
            jobs: engine.jobs.as_ref().is_some_and(|jobs| jobs.is_enabled()),
        };
        engine.spawn_loops(sweeper);
        Ok(Arc::new(engine))
    }

    fn assemble(parts: Parts, config: NodeConfig, clock: Arc<Clock>, sessions: Arc<Sessions>) -> Node {
        let Parts { store, transport, ids, entropy } = parts;
        let role = config.role;
        let (has_jobs, mut jobs_config) = (config.jobs.is_some(), config.jobs.unwrap_or_default());
        let delivers = role.delivers() && transport.is_some();
        let duties = NodeDuties { runs_jobs: role.delivers(), is_server: transport.is_some() };
        let pruner = Arc::new(Pruner { store: store.clone(), clock: clock.clone(), ages: config.retention });
        if duties.is_server && jobs_config.handlers.is_none() {
            jobs_config.handlers = Some(Arc::new(Arc::clone(&pruner).into_handlers()));
        }
        let poll_interval = with_jitter(config.dispatch.poll_interval, &entropy);
        let dispatch = Dispatch::new(DispatchConfig { poll_interval, ..config.dispatch });
        let deliveries_capacity =
            Arc::new(NodeCapacity::new(dispatch.leasing_ahead(DELIVERIES_AHEAD_MAX).in_steps(DELIVERIES_AHEAD_STEP)));
        let jobs_capacity = Arc::new(NodeCapacity::new(jobs_config.dispatch(poll_interval)));
        let (metrics, counts) = (Arc::new(Metrics::new(clock.clone())), Arc::new(EndedCounts::default()));
        let hints = store.hints().filter(|_| config.wakeups);
        let capacities = NodeCapacities { deliveries: deliveries_capacity.clone(), jobs: jobs_capacity.clone() };
        let wakeups = Arc::new(Wakeups::new(capacities, clock.clone(), hints));
        let settler = Arc::new(Settler::new(SettlerParts {
            store: store.clone(),
            ids: ids.clone(),
            entropy,
            clock: clock.clone(),
            policy: config.retry,
            wakeups: wakeups.clone(),
            metrics: metrics.clone(),
            counts: counts.clone(),
        }));
        let (running, interrupt, stop) = (TaskTracker::new(), CancellationToken::new(), CancellationToken::new());
        let user_agent = HeaderValue::try_from(format!("Everhook/{}", config.name.version));
        let outbound = Arc::new(Outbound {
            transport: transport.unwrap_or_else(|| Arc::new(Nowhere)),
            store: store.clone(),
            clock: clock.clone(),
            user_agent: user_agent.unwrap_or(HeaderValue::from_static("Everhook")),
            interrupt: interrupt.clone(),
        });
        let deliverer = Arc::new(Deliverer {
            outbound: outbound.clone(),
            sessions: sessions.clone(),
            settler: settler.clone(),
            clock: clock.clone(),
            capacity: deliveries_capacity.clone(),
            running: running.clone(),
        });
        let source = Deliveries { store: store.clone(), deliverer: deliverer.clone() };
        let dispatcher = Arc::new(Dispatcher {
            source: Arc::new(source),
            sessions: sessions.clone(),
            clock: clock.clone(),
            metrics: metrics.clone(),
        });
        let acceptor = Arc::new(Acceptor {
            store: store.clone(),
            sessions: sessions.clone(),
            deliverer,
            capacity: deliveries_capacity.clone(),
            wakeups: wakeups.clone(),
            metrics: metrics.clone(),
            delivers,
            queue: GroupQueue::default(),
            last_tasks: Default::default(),
        });
        let jobs = has_jobs.then(|| {
            Arc::new(JobSubsystem::new(JobSubsystemParts {
                store: store.clone(),
                ids: ids.clone(),
                clock: clock.clone(),
                sessions: sessions.clone(),
                settler: settler.clone(),
                wakeups: wakeups.clone(),
                metrics: metrics.clone(),
                counts,
                capacity: jobs_capacity.clone(),
                outbound,
                running: running.clone(),
                stop: stop.clone(),
                config: jobs_config,
                pruner,
                lease_time: config.lease,
                duties,
            }))
        });
        let (intake, loops, halt) = (TaskTracker::new(), TaskTracker::new(), CancellationToken::new());
        Node {
            role,
            delivers,
            store,
            ids,
            clock,
            sessions,
            settler,
            acceptor,
            dispatcher,
            jobs,
            deliveries_capacity,
            jobs_capacity,
            wakeups,
            metrics,
            running,
            intake,
            loops,
            leaving: AtomicBool::new(false),
            stop,
            halt,
            interrupt,
        }
    }

    fn spawn_loops(&self, sweeper: Sweeper) {
        // Every node has a session, also one that never holds anything: it shows that the node lives and that the store
        // answers, and it brings the store's time.
        let (sessions, halt) = (Arc::clone(&self.sessions), self.halt.clone());
        self.loops.spawn(abort_on_panic(async move {
            sessions.run(halt).await;
        }));
        // And every node settles: what remote workers say comes to any of them.
        let (settler, halt) = (Arc::clone(&self.settler), self.halt.clone());
        self.loops.spawn(abort_on_panic(async move {
            halt.run_until_cancelled(settler.run()).await;
        }));
        let (store, stop) = (Arc::clone(&self.store), self.stop.clone());
        self.loops.spawn(abort_on_panic(async move {
            stop.run_until_cancelled(maintain(store)).await;
        }));
        let (metrics, store, stop) = (Arc::clone(&self.metrics), Arc::clone(&self.store), self.stop.clone());
        self.loops.spawn(async move {
            stop.run_until_cancelled(metrics.watch(&*store)).await;
        });
        let (wakeups, stop) = (Arc::clone(&self.wakeups), self.stop.clone());
        self.loops.spawn(abort_on_panic(async move {
            stop.run_until_cancelled(wakeups.broadcast_loop()).await;
        }));
        // Whoever neither delivers nor has workers waiting has nothing to be woken for.
        if self.role.delivers() || self.jobs(Op::Lease).is_ok() {
            let (wakeups, stop) = (Arc::clone(&self.wakeups), self.stop.clone());
            self.loops.spawn(abort_on_panic(async move {
                stop.run_until_cancelled(wakeups.listen()).await;
            }));
        }
        if self.role.accepts() {
            let (acceptor, stop, halt) = (Arc::clone(&self.acceptor), self.stop.clone(), self.halt.clone());
            self.intake.spawn(abort_on_panic(async move {
                halt.run_until_cancelled(acceptor.run(&stop)).await;
            }));
        }
        if self.delivers {
            let (dispatcher, stop, halt) = (Arc::clone(&self.dispatcher), self.stop.clone(), self.halt.clone());
            self.intake.spawn(abort_on_panic(async move {
                halt.run_until_cancelled(dispatcher.run(stop)).await;
            }));
        }
        if self.role.delivers() {
            let stop = self.stop.clone();
            self.loops.spawn(abort_on_panic(async move {
                sweeper.run(stop).await;
            }));
        }
        if let Some(jobs) = &self.jobs {
            jobs.spawn(&self.intake, &self.loops, &self.halt);
        }
    }

    /// Relays what is in these outboxes, until the engine is drained. A node that does not accept leaves them to the others.
    pub fn relay(&self, sources: Vec<RelaySource>) {
        for source in sources.into_iter().filter(|_| self.role.accepts()) {
            let relay = Relay {
                source,
                store: Arc::clone(&self.store),
                acceptor: Arc::clone(&self.acceptor),
                ids: Arc::clone(&self.ids),
                clock: Arc::clone(&self.clock),
                metrics: Arc::clone(&self.metrics),
                uids: Uids::default(),
                environments: Mutex::default(),
            };
            let (stop, halt) = (self.stop.clone(), self.halt.clone());
            self.intake.spawn(abort_on_panic(async move {
                halt.run_until_cancelled(relay.run(stop)).await;
            }));
        }
    }

    /// Puts counters of other parts of the process on the metrics page.
    pub fn add_metrics(&self, register: impl FnOnce(&mut Registry)) {
        self.metrics.add(register);
    }

    /// Announces a stop: the node is not ready from now on, so that clients with a choice go elsewhere. It works on until
    /// it is drained.
    pub fn leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
    }

    /// Stops: takes no more work, lets what runs finish within `grace`, interrupts the rest, hands everything back.
    pub async fn drain(&self, grace: Duration) {
        info!(running = self.running(), "stopping: waiting up to {} s for what runs", grace.as_secs());
        self.dispatcher.drain();
        if let Some(jobs) = &self.jobs {
            jobs.drain();
        }
        self.stop.cancel();
        self.intake.close();
        self.running.close();
        let finished = async {
            // What an append or a lease under way brings is ours, and is delivered and settled like the rest.
            self.intake.wait().await;
            self.running.wait().await;
        };
        if tokio::time::timeout(grace, finished).await.is_err() {
            warn!(running = self.running(), "grace period is over: interrupting what runs");
            self.interrupt.cancel();
        }
        if tokio::time::timeout(FLUSH_DEADLINE, self.settled()).await.is_err() {
            warn!(running = self.running(), "could not settle everything: the rest is reclaimed later");
        }
        // What a store that hangs still has of ours is found by others, because the session is closed.
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
        while self.running() > 0 {
            tokio::time::sleep(STEP).await;
        }
        self.settler.settled().await;
    }

    fn running(&self) -> usize {
        self.deliveries_capacity.leased() + self.jobs_capacity.leased()
    }

    /// The part that serves `op`, where jobs are enabled.
    pub(crate) fn jobs(&self, op: Op) -> Result<&JobSubsystem, StoreError> {
        let jobs = self.jobs.as_deref().filter(|jobs| jobs.is_enabled());
        jobs.ok_or_else(|| StoreError::Refused { op, source: "jobs are disabled on this node".into() })
    }
}

/// What a node knows, for those who ask.
impl Node {
    /// What this node does.
    pub fn role(&self) -> Role {
        self.role
    }

    /// The store's time as the node knows it.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The next id.
    pub fn new_id(&self) -> Id {
        self.ids.next(self.clock.now())
    }

    /// What the node does, in numbers, as Prometheus reads it.
    pub fn metrics(&self) -> String {
        self.metrics.render(Now {
            running: self.deliveries_capacity.leased(),
            jobs: self.jobs_capacity.leased(),
            unsettled: self.settler.unsettled(),
            pool: self.store.pool_use(),
        })
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
        let stalled = self.settler.stalled();
        if stalled > SETTLE_STALL_MAX {
            let seconds = stalled.as_secs();
            return Err(format!("no attempt could be settled for {seconds} s although some have ended: see the log"));
        }
        Ok(())
    }
}

/// The transport of an engine from which nothing leaves.
struct Nowhere;

#[async_trait]
impl Transport for Nowhere {
    async fn send(&self, _: Request) -> Result<Reply, SendFailure> {
        Err(internal("this worker sends no requests".to_owned()))
    }
}

/// A tenth more or less, so that nodes that were started together do not look for work together.
fn with_jitter(interval: Duration, entropy: &Entropy) -> Duration {
    interval - interval / 10 + entropy.jitter().share_of(interval / 5)
}

/// A loop without which the node does not do its work. If it panics the process ends at once: others take over what it holds,
/// instead of waiting for a node that heartbeats and does nothing.
pub(crate) async fn abort_on_panic(work: impl Future<Output = ()>) {
    if AssertUnwindSafe(work).catch_unwind().await.is_err() {
        error!("a loop of the engine panicked: ending the process, so that others take over");
        std::process::abort();
    }
}

async fn maintain(store: Arc<dyn Store>) {
    loop {
        if let Err(error) = store.maintain().await {
            warn!(error = &error as &dyn std::error::Error, "maintenance failed, trying again later");
        }
        tokio::time::sleep(MAINTENANCE_INTERVAL).await;
    }
}
