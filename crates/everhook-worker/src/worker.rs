//! A worker: handlers on an engine that neither delivers nor pushes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use everhook_core::dispatch::DispatchConfig;
use everhook_core::limits::LEASE_JOBS_MAX;
use everhook_core::name::{BadName, Name};
use everhook_core::retry::RetryPolicy;
use everhook_core::role::Role;
use everhook_engine::engine::{Engine, EngineConfig, Parts};
use everhook_engine::entropy::Entropy;
use everhook_engine::jobs::JobsConfig;
use everhook_engine::jobs::handler::{Context, Handler, Handlers};
use everhook_engine::jobs::maintenance::Ages;
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

/// Runs jobs of some queues and kinds in this process.
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

/// Why a worker does not run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is nothing that it could do.
    #[error("a worker needs a handler and a queue: call `register` and `concurrency`")]
    Nothing,
    /// A queue of which nothing may run.
    #[error("the concurrency of queue {0:?} is 0")]
    NoRoom(String),
    /// A queue or kind that cannot be.
    #[error("bad name {name:?}")]
    Name {
        /// Which.
        name: String,
        /// Why.
        #[source]
        source: BadName,
    },
    /// There is no such environment.
    #[error("there is no environment {0:?}")]
    NoEnvironment(String),
    /// The store could not tell.
    #[error("the store failed")]
    Store(#[from] StoreError),
}

/// Stops a worker.
#[derive(Clone, Debug)]
pub struct StopHandle(CancellationToken);

impl StopHandle {
    /// Has the worker take nothing more, finish what runs within its grace period, give back the rest, and return.
    pub fn stop(&self) {
        self.0.cancel();
    }
}

impl Worker {
    /// A worker that takes nothing yet.
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

    /// Takes jobs of this environment; `default` if this is not called.
    #[must_use]
    pub fn environment(self, name: &str) -> Worker {
        Worker { environment: name.to_owned(), ..self }
    }

    /// A name for people.
    #[must_use]
    pub fn name(self, name: &str) -> Worker {
        Worker { name: name.to_owned(), ..self }
    }

    /// Runs jobs of this kind with this function: the payload and a [`Context`] in, something that becomes JSON out.
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

    /// Takes jobs from this queue, and runs so many of them at once.
    #[must_use]
    pub fn concurrency(mut self, queue: &str, jobs: usize) -> Worker {
        self.queues.insert(queue.to_owned(), jobs);
        self
    }

    /// How long the process may be silent before others take over what it holds. A job may run for far longer: that is its own timeout.
    #[must_use]
    pub fn lease(self, lease: Duration) -> Worker {
        Worker { lease, ..self }
    }

    /// How long jobs may go on after a stop before they are interrupted, which uses no attempt.
    #[must_use]
    pub fn grace(self, grace: Duration) -> Worker {
        Worker { grace, ..self }
    }

    /// How many jobs may be leased ahead of those that run. Only as many are as end within a moment: none where jobs are long.
    #[must_use]
    pub fn ahead(self, jobs: usize) -> Worker {
        Worker { ahead: jobs, ..self }
    }

    /// Starts what schedules say from this process, too: where there is no server that does.
    #[must_use]
    pub fn schedules(self) -> Worker {
        Worker { schedules: true, ..self }
    }

    /// What stops it, from anywhere.
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle(self.stop.clone())
    }

    /// Runs until it is stopped; what it held is settled or given back by then.
    pub async fn run(self) -> Result<(), StartError> {
        let (stop, grace) = (self.stop.clone(), self.grace);
        let engine = self.start().await?;
        stop.cancelled().await;
        engine.drain(grace).await;
        Ok(())
    }

    async fn start(self) -> Result<Engine, StartError> {
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
        let config = EngineConfig {
            // Nothing is delivered here.
            dispatch: DispatchConfig { slots: 1, slots_per_lane: 1, poll_interval: POLL_INTERVAL },
            lease: self.lease,
            retry: RetryPolicy::new(Vec::new()).expect("one attempt is a policy"),
            name: NodeName { node: self.name, version: env!("CARGO_PKG_VERSION").to_owned() },
            role: Role::Worker,
            wakeups: true,
            jobs,
            retention: Ages::default(),
        };
        let store = self.store;
        let parts = Parts {
            store: store.inner.clone(),
            transport: None,
            ids: store.ids.clone(),
            entropy: Entropy::from_system(),
        };
        Ok(Engine::start(parts, config).await?)
    }
}

fn named<T>(by_text: BTreeMap<String, T>) -> Result<BTreeMap<Name, T>, StartError> {
    let named = |(name, value): (String, T)| match name.parse() {
        Ok(parsed) => Ok((parsed, value)),
        Err(source) => Err(StartError::Name { name, source }),
    };
    by_text.into_iter().map(named).collect()
}
