//! Builds a world from a seed, runs it, heals it and checks it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering as AtomicOrdering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::Duration;

use everhook_core::endpoint::Endpoint;
use everhook_core::id::{EndpointId, Id, JobId};
use everhook_core::outcome::Class;
use everhook_core::policy::limit::LaneLimits;
use everhook_core::policy::{BreakerSettings, OnDead, Ordering, RateLimit, Settings, Switch};
use everhook_core::scope::Scope;
use everhook_core::time::{Timestamp, micros};
use everhook_store::catalog::{Order, Slice};
use everhook_store::ids::Ids;
use everhook_store::job::JobFilter;
use everhook_store::query;
use everhook_store::store::{Reads, Resources};
use everhook_testkit::mem::{MemStore, TaskPlace};
use everhook_testkit::rng::Rng;

use crate::check::jobs::JobEvidence;
use crate::check::{self, Evidence};
use crate::client::{self, APPLICATION, ENVIRONMENT, Sent};
use crate::gate::{Health, Watched};
use crate::job::{self, Fate, Run};
use crate::network::Receipt;
use crate::node::Node;
use crate::trace::Trace;
use crate::witness::Witness;
use crate::{crowd, nemesis, operator, producer, remote};

const EPOCH: Timestamp = Timestamp::from_millis(1_750_000_000_000);
/// The virtual time within which all tasks must end after healing. Retry schedules, holds and leases are far shorter.
const HEAL_DEADLINE: Duration = Duration::from_secs(600);
/// Workers outside the nodes.
const REMOTE_WORKERS: usize = 2;
/// Messages and jobs start at random times within this span.
pub(crate) const BUSY: Duration = Duration::from_secs(40);

/// Rate limits that the messages of a world exceed.
const RATES: [RateLimit; 3] =
    [RateLimit { count: 1, seconds: 1 }, RateLimit { count: 3, seconds: 2 }, RateLimit { count: 5, seconds: 1 }];

/// A circuit breaker that opens after a few failures, and stays open for seconds.
const BREAKER: BreakerSettings =
    BreakerSettings { failure_percent: 50, min_attempts: 3, window_seconds: 10, open_seconds: 2, max_open_seconds: 8 };

/// The parameters of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The seed that determines all random choices.
    pub seed: u64,
    pub faults: bool,
    pub messages: usize,
    pub jobs: usize,
    /// Hanging endpoints of another application, at most 100. A world with any has no faults.
    pub crowd: usize,
    /// Whether to print every event.
    pub print: bool,
}

/// The result of a simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// A hash of all events in order, and their number.
    pub fingerprint: (u64, usize),
    /// Messages that were acknowledged to clients.
    pub acknowledged: usize,
    /// Deliveries that receivers took.
    pub delivered: usize,
    /// Deliveries that a receiver took more than once.
    pub duplicated: usize,
    /// Jobs that were acknowledged to clients.
    pub jobs: usize,
    pub runs: usize,
    /// Announcement messages of batches.
    pub announced: usize,
    /// Descriptions of broken promises; empty if the world is correct.
    pub violations: Vec<String>,
}

/// The state that all parts of a world share.
pub(crate) struct Shared {
    pub(crate) rng: Rng,
    pub(crate) trace: Trace,
    pub(crate) store: Arc<MemStore>,
    pub(crate) endpoints: usize,
    /// The rate limit of each endpoint.
    limits: Vec<LaneLimits>,
    pub(crate) faults: bool,
    /// The number of hanging endpoints of another application.
    pub(crate) crowd: usize,
    crowd_hangs: AtomicBool,
    /// The planned behaviour of each job, by number.
    pub(crate) fates: Vec<Fate>,
    /// Whether one message and one job crash every node that takes them.
    pub(crate) poisoned: bool,
    witness: Mutex<Witness>,
    enabled: Mutex<Vec<bool>>,
    throttling: AtomicBool,
    /// The difference in microseconds between the database's clock and virtual time.
    skew_us: Arc<AtomicI64>,
    /// The times at which the clock was set forward.
    jumps: Mutex<Vec<Duration>>,
    receipts: Mutex<Vec<Receipt>>,
    runs: Mutex<Vec<Run>>,
    /// Jobs that an operator tried to change.
    steered: Mutex<BTreeSet<JobId>>,
    stalled: Watched<bool>,
    normal_odds: (usize, usize),
    store_odds: AtomicUsize,
    network_odds: AtomicUsize,
}

impl Shared {
    /// Records a receipt and returns its number for `answered`.
    pub(crate) fn receive(&self, receipt: Receipt) -> usize {
        let mut receipts = self.receipts.lock().expect("one thread");
        receipts.push(receipt);
        receipts.len() - 1
    }

    pub(crate) fn answered(&self, number: usize) {
        self.receipts.lock().expect("one thread")[number].ended = Some(self.trace.elapsed());
    }

    /// Records a call of a handler and returns its number for `end_run`.
    pub(crate) fn begin_run(&self, run: Run) -> usize {
        let mut runs = self.runs.lock().expect("one thread");
        runs.push(run);
        runs.len() - 1
    }

    pub(crate) fn end_run(&self, number: usize, said: Class) {
        let run = &mut self.runs.lock().expect("one thread")[number];
        (run.said, run.ended) = (Some(said), Some(self.trace.elapsed()));
    }

    /// Counts how often the handlers of a job have snoozed it.
    pub(crate) fn snoozed(&self, job: JobId) -> usize {
        let snoozed = |run: &&Run| run.job == job && run.said == Some(Class::Snoozed);
        self.runs.lock().expect("one thread").iter().filter(snoozed).count()
    }

    /// Records that an operator tries to change these jobs.
    pub(crate) fn steer(&self, jobs: &[JobId]) {
        self.steered.lock().expect("one thread").extend(jobs);
    }

    pub(crate) fn is_steered(&self, job: JobId) -> bool {
        self.steered.lock().expect("one thread").contains(&job)
    }

    pub(crate) fn witness(&self) -> MutexGuard<'_, Witness> {
        self.witness.lock().expect("one thread")
    }

    /// Returns the numbers of the enabled endpoints.
    pub(crate) fn enabled(&self) -> Vec<usize> {
        let enabled = self.enabled.lock().expect("one thread");
        enabled.iter().enumerate().filter(|(_, enabled)| **enabled).map(|(number, _)| number).collect()
    }

    pub(crate) fn set_enabled(&self, number: usize, enabled: bool) {
        self.enabled.lock().expect("one thread")[number] = enabled;
        match enabled {
            true => self.store.enable_endpoint(ENVIRONMENT, endpoint_id(number)),
            false => self.store.disable_endpoint(ENVIRONMENT, endpoint_id(number)),
        }
    }

    pub(crate) fn crowd_hangs(&self) -> bool {
        self.crowd_hangs.load(AtomicOrdering::Relaxed)
    }

    pub(crate) fn is_throttling(&self) -> bool {
        self.throttling.load(AtomicOrdering::Relaxed)
    }

    pub(crate) fn set_throttling(&self, throttling: bool) {
        self.throttling.store(throttling, AtomicOrdering::Relaxed);
    }

    /// Sets the database's clock forward or back.
    pub(crate) fn jump(&self, span: Duration, forward: bool) {
        if forward {
            self.jumps.lock().expect("one thread").push(self.trace.elapsed());
        }
        self.skew_us.fetch_add(if forward { micros(span) } else { -micros(span) }, AtomicOrdering::Relaxed);
    }

    /// Returns `n` if one store call in `n` fails; zero means none.
    pub(crate) fn store_fault_odds(&self) -> usize {
        self.store_odds.load(AtomicOrdering::Relaxed)
    }

    /// Returns `n` if one request in `n` fails; zero means none.
    pub(crate) fn network_fault_odds(&self) -> usize {
        self.network_odds.load(AtomicOrdering::Relaxed)
    }

    pub(crate) fn set_odds(&self, store: usize, network: usize) {
        self.store_odds.store(store, AtomicOrdering::Relaxed);
        self.network_odds.store(network, AtomicOrdering::Relaxed);
    }

    pub(crate) fn set_odds_to_normal(&self) {
        self.set_odds(self.normal_odds.0, self.normal_odds.1);
    }

    pub(crate) fn set_stalled(&self, stalled: bool) {
        self.stalled.set(stalled);
    }

    /// Waits until the database responds.
    pub(crate) async fn stall(&self) {
        self.stalled.wait_for(|stalled| !stalled).await;
    }
}

#[derive(Clone, Default)]
pub(crate) struct Nodes(Arc<RwLock<Vec<Arc<Node>>>>);

impl Nodes {
    pub(crate) fn len(&self) -> usize {
        self.0.read().expect("one thread").len()
    }

    pub(crate) fn get(&self, at: usize) -> Arc<Node> {
        Arc::clone(&self.0.read().expect("one thread")[at])
    }

    pub(crate) fn put(&self, at: usize, node: Node) {
        self.0.write().expect("one thread")[at] = Arc::new(node);
    }

    pub(crate) fn pick(&self, rng: &Rng) -> Arc<Node> {
        self.get(rng.below(self.len()))
    }

    fn push(&self, node: Node) {
        self.0.write().expect("one thread").push(Arc::new(node));
    }
}

/// Runs one world to its end.
pub fn run(plan: Plan) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime without I/O").block_on(live(plan))
}

async fn live(plan: Plan) -> Outcome {
    let shared = Arc::new(build(plan));
    for queue in job::configured() {
        shared.store.replace(Scope::of(ENVIRONMENT), queue.clone()).await.expect("a store in memory");
    }
    let nodes = Nodes::default();
    for node in 0..1 + shared.rng.below(3) {
        nodes.push(Node::start(&shared, node).await);
    }
    // Remote workers are separate processes: they keep running while the nodes are healed.
    let mut workers = tokio::task::JoinSet::new();
    for number in 0..REMOTE_WORKERS {
        workers.spawn(remote::work(Arc::clone(&shared), nodes.clone(), number));
    }
    if plan.crowd > 0 {
        crowd::send(&shared, &nodes).await;
    }
    let (sent, asked) = {
        let clients =
            async { tokio::join!(send_all(&shared, &nodes, plan.messages), producer::enqueue_all(&shared, &nodes)) };
        let rage = async {
            match plan.faults {
                true => nemesis::rage(Arc::clone(&shared), nodes.clone()).await,
                false => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            told = clients => told,
            () = rage => unreachable!("the nemesis never tires"),
            () = operator::operate(Arc::clone(&shared), nodes.clone()) => unreachable!("nor does the operator"),
        }
    };
    heal(&shared, &nodes).await;
    let quiet = tokio::time::timeout(HEAL_DEADLINE, quiet(&shared, &nodes)).await.is_ok();
    workers.abort_all();
    let everything = JobFilter::all(Slice { after: None, order: Order::Ascending, limit: usize::MAX });
    let records = shared
        .store
        .read(query::Jobs { scope: Scope::of(ENVIRONMENT), filter: everything.clone() })
        .await
        .expect("a store in memory")
        .rows;
    let evidence = Evidence {
        tables: &shared.store.dump(),
        sent: &sent,
        receipts: &shared.receipts.lock().expect("one thread").clone(),
        promised: &shared.witness().promised.clone(),
        jobs: JobEvidence {
            fates: &shared.fates,
            asked: &asked,
            records: &records,
            runs: &shared.runs.lock().expect("one thread").clone(),
            steered: &shared.steered.lock().expect("one thread").clone(),
        },
        endpoints: shared.endpoints,
        limits: &shared.limits,
        jumps: &shared.jumps.lock().expect("one thread").clone(),
        faults: plan.faults,
        crowd: plan.crowd,
    };
    let mut outcome = check::check(&evidence);
    outcome.violations.append(&mut shared.witness().violations);
    if !quiet {
        outcome.violations.push("stuck: tasks are still open long after everything was healed".to_owned());
    }
    outcome.fingerprint = shared.trace.fingerprint();
    outcome
}

fn build(plan: Plan) -> Shared {
    let rng = Rng::new(plan.seed);
    let trace = Trace::new(plan.print);
    #[expect(clippy::disallowed_methods, reason = "virtual time")]
    let started = tokio::time::Instant::now();
    let skew_us = Arc::new(AtomicI64::new(0));
    let skew = Arc::clone(&skew_us);
    let clock = Arc::new(move || {
        Timestamp::from_micros(EPOCH.plus(started.elapsed()).as_micros() + skew.load(AtomicOrdering::Relaxed))
    });
    let store = Arc::new(MemStore::new(Ids::seeded(rng.next()), clock));
    store.put_application(ENVIRONMENT, APPLICATION);
    let endpoints = 1 + rng.below(3);
    let rate = |_| rng.once_in(3).then(|| *rng.pick(&RATES));
    let rates: Vec<Option<RateLimit>> = (0..endpoints).map(rate).collect();
    // Sources of their own, so that worlds of known seeds stay as they were apart from these limits.
    let (more, third) = (Rng::new(!plan.seed), Rng::new(plan.seed.rotate_left(32)));
    let limit = |rate: Option<RateLimit>| LaneLimits {
        rate,
        concurrency: more.once_in(4).then(|| *more.pick(&[1, 2, 5])),
        order: more.once_in(3).then_some(OnDead::Skip),
        is_keyed: false,
        breaker: third.once_in(3).then_some(BREAKER),
        recovering: None,
    };
    let mut limits: Vec<LaneLimits> = rates.into_iter().map(limit).collect();
    for limits in &mut limits {
        limits.is_keyed = limits.order.is_none() && more.once_in(3);
    }
    if plan.crowd > 0 {
        // Only the crowd can delay a delivery.
        limits.fill(LaneLimits::default());
        store.put_application(ENVIRONMENT, crowd::NEIGHBOUR);
    }
    for (number, limits) in limits.iter().enumerate() {
        store.put_endpoint(ENVIRONMENT, endpoint(number, *limits));
    }
    for number in crowd::FIRST..crowd::FIRST + plan.crowd {
        let hanging = endpoint(number, LaneLimits::default());
        store.put_endpoint(ENVIRONMENT, Endpoint { application: crowd::NEIGHBOUR, ..hanging });
    }
    let odds = if plan.faults { (*rng.pick(&[0, 20, 100]), *rng.pick(&[0, 3, 10])) } else { (0, 0) };
    let poisoned = plan.faults && rng.once_in(4);
    let fates = Fate::draw(&rng, plan.jobs, poisoned);
    Shared {
        rng,
        trace,
        store,
        endpoints,
        limits,
        faults: plan.faults,
        crowd: plan.crowd,
        crowd_hangs: AtomicBool::new(true),
        fates,
        poisoned,
        witness: Mutex::default(),
        enabled: Mutex::new(vec![true; endpoints]),
        throttling: AtomicBool::new(false),
        skew_us,
        jumps: Mutex::default(),
        receipts: Mutex::default(),
        runs: Mutex::default(),
        steered: Mutex::default(),
        stalled: Watched::new(false),
        normal_odds: odds,
        store_odds: AtomicUsize::new(odds.0),
        network_odds: AtomicUsize::new(odds.1),
    }
}

fn endpoint_id(number: usize) -> EndpointId {
    let mut id = [0; 20];
    id[19] = u8::try_from(number + 1).expect("few endpoints");
    EndpointId(Id::from_bytes(id))
}

fn endpoint(number: usize, limits: LaneLimits) -> Endpoint {
    let policy = limits.is_any().then(|| {
        let (rate, concurrency) = (limits.rate.map(Switch::On), limits.concurrency.map(Switch::On));
        let by_key = limits.is_keyed.then(|| Ordering::Key("/k".to_owned()));
        let ordering = limits.order.map(|_| Ordering::Endpoint).or(by_key).map(Switch::On);
        let breaker = limits.breaker.map(Switch::On);
        Arc::new(Settings { rate, concurrency, ordering, on_dead: limits.order, breaker, ..Settings::default() })
    });
    let url = format!("http://receiver/{number}");
    Endpoint { policy, revision: 1, ..Endpoint::new(endpoint_id(number), APPLICATION, url, EPOCH) }
}

async fn send_all(shared: &Arc<Shared>, nodes: &Nodes, messages: usize) -> Vec<Sent> {
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..messages {
        let (shared, nodes) = (Arc::clone(shared), nodes.clone());
        clients.spawn(async move {
            tokio::time::sleep(shared.rng.between(Duration::ZERO, BUSY)).await;
            client::send(shared, nodes, number).await
        });
    }
    clients.join_all().await
}

/// Ends all faults and replaces dead nodes.
async fn heal(shared: &Arc<Shared>, nodes: &Nodes) {
    shared.trace.event(format_args!("everything heals"));
    shared.set_odds(0, 0);
    shared.set_stalled(false);
    shared.set_throttling(false);
    shared.crowd_hangs.store(false, AtomicOrdering::Relaxed);
    (0..shared.endpoints).for_each(|endpoint| shared.set_enabled(endpoint, true));
    for at in 0..nodes.len() {
        nodes.get(at).gate.set(Health::Alive);
        let stopped = nodes.get(at).engine.ready().is_err() && nodes.get(at).gate.health() == Health::Alive;
        if nodes.get(at).gate.health() == Health::Dead || stopped {
            nodes.get(at).gate.set(Health::Dead);
            nodes.put(at, Node::start(shared, at).await);
        }
    }
}

/// Waits until no task is pending or leased. Nodes that a poison message crashes meanwhile are restarted.
async fn quiet(shared: &Arc<Shared>, nodes: &Nodes) {
    while shared.store.look(|tables| tables.tasks.values().any(|row| row.place != TaskPlace::Dead)) {
        nemesis::revive(shared, nodes).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
