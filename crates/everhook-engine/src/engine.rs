//! The engine as a whole: started with a store and a sender, stopped by draining.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use everhook_core::dispatch::DispatchConfig;
use everhook_core::id::Id;
use everhook_core::retry::RetryPolicy;
use everhook_core::role::Role;
use everhook_core::time::Timestamp;
use everhook_store::catalog::Catalog;
use everhook_store::error::StoreError;
use everhook_store::ids::Ids;
use everhook_store::lease::LeaseStore;
use everhook_store::lease::NewMessage;
use everhook_store::uids::Uids;
use futures_util::FutureExt;
use http::HeaderValue;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};

use crate::accept::{Accept, AcceptError, Accepted, Acceptor, Queue};
use crate::clock::Clock;
use crate::delivery::Deliverer;
use crate::dispatcher::{Dispatcher, Room};
use crate::entropy::Entropy;
use crate::metrics::{Metrics, Now};
use crate::relay::{Relay, RelaySource};
use crate::session::{NodeName, Sessions};
use crate::settle::Settler;
use crate::sweeper::Sweeper;
use crate::transport::Transport;
use crate::wakeup::Wakeups;

/// How often partitions and the like are looked after.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(3600);
/// How long the last settlements may take after the sends were interrupted.
const FLUSH_DEADLINE: Duration = Duration::from_secs(5);

/// The engine's settings.
#[derive(Clone, Debug)]
pub struct EngineConfig {
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
}

/// What an engine stands on. The server and the simulator differ in nothing else.
pub struct Parts {
    /// Where everything is kept.
    pub store: Arc<dyn LeaseStore>,
    /// How requests leave.
    pub transport: Arc<dyn Transport>,
    /// Shared with the store.
    pub ids: Arc<Ids>,
    /// Jitter.
    pub entropy: Entropy,
}

/// A running engine.
pub struct Engine {
    role: Role,
    store: Arc<dyn LeaseStore>,
    ids: Arc<Ids>,
    clock: Arc<Clock>,
    sessions: Arc<Sessions>,
    acceptor: Arc<Acceptor>,
    dispatcher: Arc<Dispatcher>,
    room: Arc<Room>,
    wakeups: Arc<Wakeups>,
    metrics: Arc<Metrics>,
    deliveries: TaskTracker,
    /// The loops that begin deliveries.
    intake: TaskTracker,
    loops: TaskTracker,
    /// Stops taking work.
    stop: CancellationToken,
    /// Stops the heartbeat and the writers, last of all.
    halt: CancellationToken,
    interrupt: CancellationToken,
}

impl Engine {
    /// Starts every loop. The first session is open when this returns.
    pub async fn start(parts: Parts, config: EngineConfig) -> Result<Engine, StoreError> {
        let Parts { store, transport, ids, entropy } = parts;
        let clock = Arc::new(Clock::new(store.now().await?));
        let user_agent = HeaderValue::try_from(format!("Everhook/{}", config.name.version));
        let user_agent = user_agent.unwrap_or(HeaderValue::from_static("Everhook"));
        let (name, role) = (config.name.clone(), config.role);
        let sessions = Sessions::new(store.clone(), ids.clone(), clock.clone(), name, role, config.lease);
        let sessions = Arc::new(sessions);
        sessions.step().await;
        let dispatch =
            DispatchConfig { poll_interval: apart(config.dispatch.poll_interval, &entropy), ..config.dispatch };
        let room = Arc::new(Room::new(dispatch));
        let retry = config.retry.clone();
        let metrics = Arc::new(Metrics::new(clock.clone()));
        let settler =
            Settler::new(store.clone(), ids.clone(), entropy, clock.clone(), retry, room.clone(), metrics.clone());
        let settler = Arc::new(settler);
        let hints = store.hints().filter(|_| config.wakeups);
        let wakeups = Arc::new(Wakeups::new(room.clone(), clock.clone(), hints));
        let (deliveries, interrupt) = (TaskTracker::new(), CancellationToken::new());
        let deliverer = Arc::new(Deliverer {
            transport,
            sessions: sessions.clone(),
            settler: settler.clone(),
            clock: clock.clone(),
            user_agent,
            interrupt: interrupt.clone(),
        });
        let dispatcher = Arc::new(Dispatcher {
            store: store.clone(),
            sessions: sessions.clone(),
            deliverer: deliverer.clone(),
            room: room.clone(),
            clock: clock.clone(),
            metrics: metrics.clone(),
            deliveries: deliveries.clone(),
        });
        let acceptor = Arc::new(Acceptor {
            store: store.clone(),
            sessions: sessions.clone(),
            deliverer,
            room: room.clone(),
            wakeups: wakeups.clone(),
            metrics: metrics.clone(),
            role,
            deliveries: deliveries.clone(),
            queue: Queue::default(),
            last_tasks: Default::default(),
        });
        let sweeper = Sweeper {
            store: store.clone(),
            sessions: sessions.clone(),
            settler: settler.clone(),
            clock: clock.clone(),
            interval: (config.lease / 8).clamp(Duration::from_millis(50), Duration::from_secs(1)),
        };
        let (stop, halt) = (CancellationToken::new(), CancellationToken::new());
        let (intake, loops) = (TaskTracker::new(), TaskTracker::new());
        let engine = Engine {
            role,
            store,
            ids,
            clock,
            sessions,
            acceptor,
            dispatcher,
            room,
            wakeups,
            metrics,
            deliveries,
            intake,
            loops,
            stop,
            halt,
            interrupt,
        };
        engine.spawn_loops(settler, sweeper);
        Ok(engine)
    }

    fn spawn_loops(&self, settler: Arc<Settler>, sweeper: Sweeper) {
        // Every node has a session, also one that never holds anything: it shows that the node lives and that the store
        // answers, and it brings the store's time.
        let (sessions, halt) = (Arc::clone(&self.sessions), self.halt.clone());
        self.loops.spawn(vital(async move {
            sessions.run(halt).await;
        }));
        let (store, stop) = (Arc::clone(&self.store), self.stop.clone());
        self.loops.spawn(vital(async move {
            stop.run_until_cancelled(maintain(store)).await;
        }));
        let (metrics, store, stop) = (Arc::clone(&self.metrics), Arc::clone(&self.store), self.stop.clone());
        self.loops.spawn(async move {
            stop.run_until_cancelled(metrics.watch(&*store)).await;
        });
        let (wakeups, stop) = (Arc::clone(&self.wakeups), self.stop.clone());
        self.loops.spawn(vital(async move {
            stop.run_until_cancelled(wakeups.speak()).await;
        }));
        if self.role.accepts() {
            let (acceptor, stop, halt) = (Arc::clone(&self.acceptor), self.stop.clone(), self.halt.clone());
            self.intake.spawn(vital(async move {
                halt.run_until_cancelled(acceptor.run(&stop)).await;
            }));
        }
        if self.role.delivers() {
            self.spawn_deliveries(settler, sweeper);
        }
    }

    fn spawn_deliveries(&self, settler: Arc<Settler>, sweeper: Sweeper) {
        let halt = self.halt.clone();
        self.loops.spawn(vital(async move {
            halt.run_until_cancelled(settler.run()).await;
        }));
        let (dispatcher, stop, halt) = (Arc::clone(&self.dispatcher), self.stop.clone(), self.halt.clone());
        self.intake.spawn(vital(async move {
            halt.run_until_cancelled(dispatcher.run(stop)).await;
        }));
        let stop = self.stop.clone();
        self.loops.spawn(vital(async move {
            sweeper.run(stop).await;
        }));
        let (wakeups, stop) = (Arc::clone(&self.wakeups), self.stop.clone());
        self.loops.spawn(vital(async move {
            stop.run_until_cancelled(wakeups.listen()).await;
        }));
    }

    /// Relays what is in these outboxes, until the engine is drained. A node that does not accept leaves them to the others.
    pub fn relay(&self, catalog: &Arc<dyn Catalog>, sources: Vec<RelaySource>) {
        for source in sources.into_iter().filter(|_| self.role.accepts()) {
            let relay = Relay {
                source,
                catalog: Arc::clone(catalog),
                acceptor: Arc::clone(&self.acceptor),
                ids: Arc::clone(&self.ids),
                clock: Arc::clone(&self.clock),
                metrics: Arc::clone(&self.metrics),
                uids: Uids::default(),
                environments: Mutex::default(),
            };
            let (stop, halt) = (self.stop.clone(), self.halt.clone());
            self.intake.spawn(vital(async move {
                halt.run_until_cancelled(relay.run(stop)).await;
            }));
        }
    }

    /// Stops: takes no more work, lets what runs finish within `grace`, interrupts the rest, hands everything back.
    pub async fn drain(&self, grace: Duration) {
        info!(running = self.room.running(), "stopping: waiting up to {} s for deliveries", grace.as_secs());
        self.dispatcher.drain();
        self.stop.cancel();
        self.intake.close();
        self.deliveries.close();
        let finished = async {
            // What an append or a lease under way brings is ours, and is delivered and settled like the rest.
            self.intake.wait().await;
            self.deliveries.wait().await;
        };
        if tokio::time::timeout(grace, finished).await.is_err() {
            warn!(running = self.room.running(), "grace period is over: interrupting deliveries");
            self.interrupt.cancel();
        }
        if tokio::time::timeout(FLUSH_DEADLINE, self.settled()).await.is_err() {
            warn!(running = self.room.running(), "could not settle everything: the rest is reclaimed later");
        }
        // What a store that hangs still has of ours is found by others, because the session is closed.
        self.halt.cancel();
        self.loops.close();
        self.loops.wait().await;
        self.intake.wait().await;
        if tokio::time::timeout(FLUSH_DEADLINE, self.sessions.close_all()).await.is_err() {
            warn!("could not close the session: it expires by itself");
        }
        let _ = tokio::time::timeout(FLUSH_DEADLINE, self.wakeups.part()).await;
    }

    async fn settled(&self) {
        const STEP: Duration = Duration::from_millis(10);
        while self.room.running() > 0 {
            tokio::time::sleep(STEP).await;
        }
        self.dispatcher.deliverer.settler.settled().await;
    }
}

#[async_trait]
impl Accept for Engine {
    async fn accept(&self, message: NewMessage) -> Result<Accepted, AcceptError> {
        self.acceptor.accept(message).await
    }

    fn hint(&self) {
        self.wakeups.hint();
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn new_id(&self) -> Id {
        self.ids.next(self.clock.now())
    }

    fn metrics(&self) -> String {
        self.metrics.render(Now {
            running: self.room.running(),
            unsettled: self.dispatcher.deliverer.settler.unsettled(),
            pool: self.store.pool_use(),
        })
    }

    fn ready(&self) -> Result<(), String> {
        if self.stop.is_cancelled() {
            return Err("the node is stopping".to_owned());
        }
        match self.sessions.current() {
            Some(_) => Ok(()),
            None => Err("the node has no renewed session: the store is unavailable or slow".to_owned()),
        }
    }
}

/// A tenth more or less, so that nodes that were started together do not look for work together.
fn apart(interval: Duration, entropy: &Entropy) -> Duration {
    interval - interval / 10 + entropy.jitter().share_of(interval / 5)
}

/// A loop without which the node does not do its work. If it panics the process ends at once: others take over what it holds,
/// instead of waiting for a node that heartbeats and does nothing.
async fn vital(work: impl Future<Output = ()>) {
    if AssertUnwindSafe(work).catch_unwind().await.is_err() {
        error!("a loop of the engine panicked: ending the process, so that others take over");
        std::process::abort();
    }
}

async fn maintain(store: Arc<dyn LeaseStore>) {
    loop {
        if let Err(error) = store.maintain().await {
            warn!(error = &error as &dyn std::error::Error, "maintenance failed, trying again later");
        }
        tokio::time::sleep(MAINTENANCE_INTERVAL).await;
    }
}
