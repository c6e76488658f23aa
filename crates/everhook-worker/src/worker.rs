//! Workers: handlers on an engine that neither delivers messages nor pushes jobs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use everhook_core::dispatch::DispatchConfig;
use everhook_core::limits::LEASE_JOBS_MAX;
use everhook_core::name::{BadName, Name};
use everhook_core::retry::RetryPolicy;
use everhook_core::role::Role;
use everhook_engine::config::JobsConfig;
use everhook_engine::config::NodeConfig;
use everhook_engine::entropy::Entropy;
use everhook_engine::node::Node;
use everhook_engine::retention::Ages;
use everhook_engine::run::handler::{Context, Handler, Handlers};
use everhook_engine::session::NodeName;
use everhook_store::error::StoreError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::handler::{JobError, Typed};
use crate::store::{DEFAULT_ENVIRONMENT, Store};

const LEASE: Duration = Duration::from_secs(20);
const GRACE: Duration = Duration::from_secs(20);
const AHEAD: usize = 2 * LEASE_JOBS_MAX;
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Runs jobs of chosen queues and kinds in this process.
pub struct Worker {
    store: Store,
    environment: String,
    name: String,
    queues: BTreeMap<String, usize>,
    kinds: BTreeMap<String, Arc<dyn Handler>>,
    lease: Duration,
    grace: Duration,
    ahead: usize,
    schedules: bool,
    stop: CancellationToken,
}

/// Why a worker did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No handler or no queue was given.
    #[error("a worker needs a handler and a queue: call `register` and `concurrency`")]
    Nothing,
    /// The concurrency of a queue is 0.
    #[error("the concurrency of queue {0:?} must be at least 1")]
    NoRoom(String),
    /// A queue or kind is not a valid name.
    #[error("invalid name {name:?}")]
    Name {
        /// The text that is not a name.
        name: String,
        /// The rule that the text breaks.
        #[source]
        source: BadName,
    },
    /// The environment does not exist.
    #[error("environment {0:?} not found")]
    NoEnvironment(String),
    /// The store failed while the worker started.
    #[error("the store could not start the worker")]
    Store(#[from] StoreError),
}

/// Stops a [`Worker`] from another task.
#[derive(Clone, Debug)]
pub struct StopHandle(CancellationToken);

impl StopHandle {
    /// Makes the worker stop leasing, finish running jobs within its grace period, return the others, and end.
    pub fn stop(&self) {
        self.0.cancel();
    }
}

impl Worker {
    /// Returns a worker without queues and handlers.
    pub fn new(store: Store) -> Worker {
        Worker {
            store,
            environment: DEFAULT_ENVIRONMENT.to_owned(),
            name: format!("worker:{}", std::process::id()),
            queues: BTreeMap::new(),
            kinds: BTreeMap::new(),
            lease: LEASE,
            grace: GRACE,
            ahead: AHEAD,
            schedules: false,
            stop: CancellationToken::new(),
        }
    }

    /// Sets the environment; `default` unless called.
    #[must_use]
    pub fn environment(self, name: &str) -> Worker {
        Worker { environment: name.to_owned(), ..self }
    }

    /// Sets the name that lists of nodes show.
    #[must_use]
    pub fn name(self, name: &str) -> Worker {
        Worker { name: name.to_owned(), ..self }
    }

    /// Registers a handler for a kind. It takes the payload and a [`Context`], and returns a result that is serialised
    /// as JSON.
    #[must_use]
    pub fn register<P, F, R, T>(mut self, kind: &str, run: F) -> Worker
    where
        P: DeserializeOwned + Send + 'static,
        F: Fn(P, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<T, JobError>> + Send + 'static,
        T: Serialize + Send + 'static,
    {
        self.kinds.insert(kind.to_owned(), Arc::new(Typed::new(run)));
        self
    }

    /// Leases jobs from this queue and runs up to `jobs` of them at once.
    #[must_use]
    pub fn concurrency(mut self, queue: &str, jobs: usize) -> Worker {
        self.queues.insert(queue.to_owned(), jobs);
        self
    }

    /// Sets the lease: a process silent for this long loses its jobs to others. Jobs may run longer, up to their own
    /// timeout.
    #[must_use]
    pub fn lease(self, lease: Duration) -> Worker {
        Worker { lease, ..self }
    }

    /// Sets how long running jobs may continue after a stop. Then they are interrupted, which uses no attempt.
    #[must_use]
    pub fn grace(self, grace: Duration) -> Worker {
        Worker { grace, ..self }
    }

    /// Sets how many jobs may be leased ahead. Only short jobs are leased ahead, as many as end within a tenth of a
    /// second.
    #[must_use]
    pub fn ahead(self, jobs: usize) -> Worker {
        Worker { ahead: jobs, ..self }
    }

    /// Also fires schedules from this process, for stores without a server.
    #[must_use]
    pub fn schedules(self) -> Worker {
        Worker { schedules: true, ..self }
    }

    /// Returns a handle that stops the worker.
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle(self.stop.clone())
    }

    /// Runs until stopped. Before it returns, every job is settled or returned.
    pub async fn run(self) -> Result<(), StartError> {
        let (stop, grace) = (self.stop.clone(), self.grace);
        let engine = self.start().await?;
        stop.cancelled().await;
        engine.drain(grace).await;
        Ok(())
    }

    async fn start(self) -> Result<Arc<Node>, StartError> {
        if self.kinds.is_empty() || self.queues.is_empty() {
            return Err(StartError::Nothing);
        }
        if let Some((queue, _)) = self.queues.iter().find(|(_, jobs)| **jobs == 0) {
            return Err(StartError::NoRoom(queue.clone()));
        }
        let environment = self.store.environment(&self.environment).await?;
        let environment = environment.ok_or(StartError::NoEnvironment(self.environment))?;
        let slots = self.queues.values().sum();
        let handlers = Handlers { environment, queues: named(self.queues)?, kinds: named(self.kinds)? };
        let jobs = Some(JobsConfig {
            enabled: true,
            schedules: self.schedules,
            slots,
            slots_per_queue: slots,
            ahead: self.ahead,
            handlers: Some(Arc::new(handlers)),
            ..JobsConfig::default()
        });
        let config = NodeConfig {
            // This engine delivers nothing, but the machine requires slots.
            dispatch: DispatchConfig { slots: 1, slots_per_lane: 1, poll_interval: POLL_INTERVAL },
            lease: self.lease,
            retry: RetryPolicy::new(Vec::new()).expect("one attempt is a policy"),
            name: NodeName { node: self.name, version: env!("CARGO_PKG_VERSION").to_owned() },
            role: Role::Worker,
            wakeups: true,
            jobs,
            retention: Ages::default(),
            public_url: None,
            alert_interval: None,
            quota_interval: None,
        };
        let store = self.store;
        let (inner, ids) = (store.inner.clone(), store.ids.clone());
        Ok(Node::start(inner, None, ids, Entropy::from_system(), config).await?)
    }
}

fn named<T>(by_text: BTreeMap<String, T>) -> Result<BTreeMap<Name, T>, StartError> {
    let named = |(name, value): (String, T)| match name.parse() {
        Ok(parsed) => Ok((parsed, value)),
        Err(source) => Err(StartError::Name { name, source }),
    };
    by_text.into_iter().map(named).collect()
}
