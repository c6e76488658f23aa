//! Wakes whoever can do the work there may be: this node's dispatchers and the remote workers that wait at it, and the other nodes
//! of the store.
//!
//! Hints only: nothing waits for them alone. What is told within a moment goes out as one, so that a flood of messages is not
//! a flood of wake-ups.

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
use crate::delivery::Delivery;
use crate::dispatcher::NodeCapacity;
use crate::jobs::runner::Work;

/// Other nodes are woken at most once in this time.
const PAUSE: Duration = Duration::from_millis(10);
/// After a failure, the pause grows from the first to the second.
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(100);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(5);

/// The node's room for either kind of work.
pub(crate) struct NodeCapacities {
    pub(crate) deliveries: Arc<NodeCapacity<Delivery>>,
    pub(crate) jobs: Arc<NodeCapacity<Work>>,
}

/// Tells of work, and hears of it.
pub(crate) struct Wakeups {
    deliveries: Arc<NodeCapacity<Delivery>>,
    jobs: Arc<NodeCapacity<Work>>,
    /// Remote workers that wait for jobs.
    waiting: Notify,
    clock: Arc<Clock>,
    /// The line to the other nodes, if there is one.
    hints: Option<Arc<dyn Hints>>,
    told: Notify,
}

impl Wakeups {
    pub(crate) fn new(capacities: NodeCapacities, clock: Arc<Clock>, hints: Option<Arc<dyn Hints>>) -> Wakeups {
        let NodeCapacities { deliveries, jobs } = capacities;
        Wakeups { deliveries, jobs, waiting: Notify::new(), clock, hints, told: Notify::new() }
    }

    /// Deliveries may be due: this node looks for them, and soon the others do.
    pub(crate) fn hint_deliveries(&self) {
        self.hint_deliveries_here();
        self.told.notify_one();
    }

    /// Jobs may be due: this node looks for them, and soon the others do.
    pub(crate) fn hint_jobs(&self) {
        self.hint_jobs_here();
        self.told.notify_one();
    }

    /// Wakes the machines that committed work is for.
    pub(crate) fn hint_made(&self, made: Made) {
        if made.messages > 0 {
            self.hint_deliveries();
        }
        if made.jobs > 0 {
            self.hint_jobs();
        }
    }

    /// There may be jobs for this node and whoever waits at it.
    pub(crate) fn hint_jobs_here(&self) {
        self.jobs.hint(self.clock.elapsed());
        self.waiting.notify_waiters();
    }

    /// There will be work after this span. What is due at once was handed back, and may be for another node.
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

    /// The next hint of jobs, for a remote worker that waits. Hints count from this call on.
    pub(crate) fn next_hint(&self) -> Notified<'_> {
        self.waiting.notified()
    }

    fn hint_deliveries_here(&self) {
        self.deliveries.hint(self.clock.elapsed());
    }

    /// Wakes the other nodes whenever there was a hint.
    pub(crate) async fn broadcast_loop(&self) {
        let Some(hints) = &self.hints else { return };
        let mut failures = Failures::default();
        loop {
            self.told.notified().await;
            let pause = failures.count("wake the other nodes", hints.notify().await);
            // A hint that failed is as good as lost; the next one that is told goes out after the pause.
            tokio::time::sleep(pause.max(PAUSE)).await;
        }
    }

    /// Looks for work here whenever another node told of some.
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

    /// Wakes the other nodes now: what this one hands back is theirs.
    pub(crate) async fn notify_on_shutdown(&self) {
        if let Some(hints) = &self.hints
            && let Err(error) = hints.notify().await
        {
            debug!(error = &error as &dyn std::error::Error, "could not wake the other nodes");
        }
    }
}

/// Logs the first failure of a row, and says how long to pause.
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
                    warn!(error, "could not {what}, trying again: until then work is found by polling");
                } else {
                    debug!(error, "could not {what}, trying again");
                }
                self.pause = (self.pause * 2).clamp(RETRY_PAUSE_MIN, RETRY_PAUSE_MAX);
            }
        }
        self.pause
    }
}
