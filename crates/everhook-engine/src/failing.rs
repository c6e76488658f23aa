//! Watches endpoints with nothing but failures: marks them, warns their operator, and disables them in the end.
//!
//! The core decides (`core::failing`). A step is a change of the endpoint with compare-and-set, so that replicas take
//! it once, and its operational event is written in the same transaction. Steps are hints: a lost one is taken at the
//! next failure. Called by deliveries.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use everhook_core::endpoint::{Endpoint, EndpointState};
use everhook_core::failing::{self, Failure, Memory};
use everhook_core::id::{ApplicationId, EndpointId, EnvironmentId};
use everhook_core::outcome::Class;
use everhook_core::scope::{AppScope, Scope};
use everhook_core::time::Timestamp;
use everhook_store::catalog::{Locator, Replaced};
use everhook_store::error::StoreError;
use everhook_store::query;
use everhook_store::store::Reads;
use tokio::sync::mpsc;
use tracing::warn;

use crate::node::Node;

/// Steps that wait to be taken. Further ones are dropped, and asked for again at the next failure.
const STEPS_MAX: usize = 1_000;
/// Concurrent changes of one endpoint after which a step is given up.
const TRIES_MAX: usize = 5;

/// The failing endpoints of this node, and the steps to take.
pub(crate) struct FailingEndpoints {
    memory: Mutex<Memory>,
    /// Whether the memory has any endpoint. Successes of healthy nodes take no lock.
    any: AtomicBool,
    steps: mpsc::Sender<Change>,
    waiting: tokio::sync::Mutex<mpsc::Receiver<Change>>,
}

struct Change {
    environment: EnvironmentId,
    application: ApplicationId,
    endpoint: EndpointId,
    /// The failure that asks for the next step; none after a success.
    failure: Option<Failure>,
}

impl Default for FailingEndpoints {
    fn default() -> FailingEndpoints {
        let (steps, waiting) = mpsc::channel(STEPS_MAX);
        FailingEndpoints {
            memory: Mutex::default(),
            any: AtomicBool::new(false),
            steps,
            waiting: tokio::sync::Mutex::new(waiting),
        }
    }
}

impl FailingEndpoints {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().expect("nothing panics while it holds this lock")
    }

    fn succeeded(&self, environment: EnvironmentId, endpoint: &Endpoint) {
        if self.any.load(Ordering::Relaxed) {
            let mut memory = self.memory();
            memory.succeeded(environment, endpoint.id);
            self.any.store(!memory.is_empty(), Ordering::Relaxed);
        }
        if endpoint.failing.is_some() {
            self.ask(environment, endpoint, None);
        }
    }

    fn ask(&self, environment: EnvironmentId, endpoint: &Endpoint, failure: Option<Failure>) {
        let (application, endpoint) = (endpoint.application, endpoint.id);
        let _ = self.steps.try_send(Change { environment, application, endpoint, failure });
    }
}

impl Node {
    /// Notes the end of an attempt.
    pub(crate) fn watch_endpoint(&self, environment: EnvironmentId, endpoint: &Endpoint, class: Class, at: Timestamp) {
        if class == Class::Success {
            return self.failing.succeeded(environment, endpoint);
        }
        if !failing::counts(class) {
            return;
        }
        let outer = self.policies.of(environment);
        let Some(disable_after) = endpoint.levels(outer.as_deref()).disable_after() else { return };
        let failure = self.failing.memory().failed(environment, endpoint, at, disable_after);
        self.failing.any.store(true, Ordering::Relaxed);
        if failure.is_some() {
            self.failing.ask(environment, endpoint, failure);
        }
    }

    /// Takes steps until it is dropped.
    pub(crate) async fn take_steps(&self) {
        let mut waiting = self.failing.waiting.lock().await;
        while let Some(change) = waiting.recv().await {
            if let Err(error) = self.take_step(&change).await {
                let error = &error as &dyn std::error::Error;
                warn!(error, endpoint.id = %change.endpoint, "could not change failing endpoint {}", change.endpoint);
            }
        }
    }

    async fn take_step(&self, change: &Change) -> Result<(), StoreError> {
        let Change { environment, application, endpoint: id, failure } = *change;
        let (scope, locator) = (AppScope::of(environment, application), Locator::Id(id));
        for _ in 0..TRIES_MAX {
            let Some(found) = self.store.read(query::FindEndpoint { scope, locator: locator.clone() }).await? else {
                return Ok(());
            };
            let changed = match failure {
                Some(failure) => failure.change(found),
                None => failing::recovered(found),
            };
            let Some(endpoint) = changed else { return Ok(()) };
            let (is_disabled, mark) = (endpoint.state != EndpointState::Enabled, endpoint.failing);
            match self.replace(Scope::of(environment), endpoint).await? {
                Replaced::Stale => {}
                Replaced::Done(_) => {
                    if let (true, Some(mark)) = (is_disabled, mark) {
                        warn!(endpoint.id = %id, "disabled endpoint {id}: all attempts failed since {}", mark.since);
                    }
                    return Ok(());
                }
                Replaced::Repeated | Replaced::Taken | Replaced::KeyReused => return Ok(()),
            }
        }
        Ok(())
    }
}
