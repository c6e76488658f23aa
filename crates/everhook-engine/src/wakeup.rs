//! Wakes the components that can lease new tasks: this node's dispatchers, the remote workers that wait at this node,
//! and the other nodes.
//!
//! Wake-ups are only hints: polling finds the same tasks later. Hints within a short time are sent as one, so that many
//! messages do not cause many wake-ups.

use std::sync::Arc;
use std::time::Duration;

use everhook_core::task::TaskKind;
use everhook_store::error::StoreError;
use everhook_store::hints::Hints;
use everhook_store::made::Made;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tracing::{debug, warn};

use crate::clock::Clock;
use crate::dispatcher::NodeCapacity;
use crate::run::delivery::Delivery;
use crate::run::job::Work;

/// The shortest time between two wake-ups of the other nodes.
const PAUSE: Duration = Duration::from_millis(10);
/// The pause after a failure grows from the first value to the second.
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(100);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(5);

pub(crate) struct Wakeups {
    deliveries: Arc<NodeCapacity<Delivery>>,
    jobs: Arc<NodeCapacity<Work>>,
    /// Wakes remote workers that wait for jobs.
    waiting: Notify,
    clock: Arc<Clock>,
    /// The channel to the other nodes, if the store has one.
    hints: Option<Arc<dyn Hints>>,
    told: Notify,
}

impl Wakeups {
    pub(crate) fn new(
        deliveries: Arc<NodeCapacity<Delivery>>,
        jobs: Arc<NodeCapacity<Work>>,
        clock: Arc<Clock>,
        hints: Option<Arc<dyn Hints>>,
    ) -> Wakeups {
        Wakeups { deliveries, jobs, waiting: Notify::new(), clock, hints, told: Notify::new() }
    }

    /// Reports that deliveries may be due, to this node and soon to the others.
    pub(crate) fn hint_deliveries(&self) {
        self.hint_deliveries_here();
        self.told.notify_one();
    }

    /// Reports that jobs may be due, to this node and soon to the others.
    pub(crate) fn hint_jobs(&self) {
        self.hint_jobs_here();
        self.told.notify_one();
    }

    /// Wakes the dispatchers for newly committed messages and jobs.
    pub(crate) fn hint_made(&self, made: Made) {
        if made.messages > 0 {
            self.hint_deliveries();
        }
        if made.jobs > 0 {
            self.hint_jobs();
        }
    }

    /// Reports that jobs may be due, to this node and the remote workers waiting at it.
    pub(crate) fn hint_jobs_here(&self) {
        self.jobs.hint(self.clock.elapsed());
        self.waiting.notify_waiters();
    }

    /// Reports that a task becomes due after this span. A span of zero means that the task was handed back; another
    /// node may be able to run it, so the others are woken, too.
    pub(crate) fn due_in(&self, kind: TaskKind, span: Duration) {
        let now = self.clock.elapsed();
        match kind {
            TaskKind::Delivery => self.deliveries.due_in(span, now),
            TaskKind::Job => self.jobs.due_in(span, now),
        }
        if span.is_zero() {
            self.told.notify_one();
        }
    }

    /// Returns the next hint about jobs, for a waiting remote worker. Hints after this call are not missed.
    pub(crate) fn next_hint(&self) -> Notified<'_> {
        self.waiting.notified()
    }

    /// Reports that deliveries may be due, to this node.
    pub(crate) fn hint_deliveries_here(&self) {
        self.deliveries.hint(self.clock.elapsed());
    }

    /// Wakes the other nodes after each hint.
    pub(crate) async fn broadcast_loop(&self) {
        let Some(hints) = &self.hints else { return };
        let mut failures = Failures::default();
        loop {
            self.told.notified().await;
            let pause = failures.count("wake the other nodes", hints.notify().await);
            // A failed hint is lost; polling replaces it. The next hint is sent after the pause.
            tokio::time::sleep(pause.max(PAUSE)).await;
        }
    }

    /// Wakes this node's dispatchers after hints from other nodes.
    pub(crate) async fn listen(&self) {
        let Some(hints) = &self.hints else { return };
        let mut failures = Failures::default();
        loop {
            let heard = hints.next().await;
            if heard.is_ok() {
                self.hint_deliveries_here();
                self.hint_jobs_here();
            }
            tokio::time::sleep(failures.count("listen for the other nodes", heard)).await;
        }
    }

    /// Wakes the other nodes at once, so that they lease the tasks that this node has handed back.
    pub(crate) async fn notify_on_shutdown(&self) {
        if let Some(hints) = &self.hints
            && let Err(error) = hints.notify().await
        {
            debug!(error = &error as &dyn std::error::Error, "could not wake the other nodes");
        }
    }
}

/// Logs the first failure in a row, and computes the pause.
#[derive(Default)]
struct Failures {
    pause: Duration,
}

impl Failures {
    fn count(&mut self, what: &str, done: Result<(), StoreError>) -> Duration {
        match done {
            Ok(()) => self.pause = Duration::ZERO,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                if self.pause.is_zero() {
                    warn!(error, "could not {what}: retrying, until then nodes find work by polling");
                } else {
                    debug!(error, "could not {what}: retrying");
                }
                self.pause = (self.pause * 2).clamp(RETRY_PAUSE_MIN, RETRY_PAUSE_MAX);
            }
        }
        self.pause
    }
}
