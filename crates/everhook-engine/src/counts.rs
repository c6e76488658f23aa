//! How many attempts ended on each queue, told to the store every few seconds: what queues show as their throughput.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use everhook_core::id::EnvironmentId;
use everhook_core::name::Name;
use everhook_store::queue::QueueCount;
use everhook_store::store::Store;
use tokio_util::sync::CancellationToken;
use tracing::debug;

/// How often the store is told.
const INTERVAL: Duration = Duration::from_secs(5);

/// Attempts that ended since the store was last told.
#[derive(Debug, Default)]
pub(crate) struct EndedCounts(Mutex<BTreeMap<EnvironmentId, BTreeMap<Name, u64>>>);

impl EndedCounts {
    /// One more.
    pub(crate) fn ended(&self, environment: EnvironmentId, queue: &Name) {
        let mut counts = self.lock();
        let queues = counts.entry(environment).or_default();
        match queues.get_mut(queue) {
            Some(count) => *count += 1,
            None => drop(queues.insert(queue.clone(), 1)),
        }
    }

    /// Tells the store until `stop`, and then what is left.
    pub(crate) async fn run(&self, store: &dyn Store, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_some() {
            self.tell(store).await;
        }
        self.tell(store).await;
    }

    async fn tell(&self, store: &dyn Store) {
        let counts = std::mem::take(&mut *self.lock());
        let counts = counts.into_iter().flat_map(|(environment, queues)| {
            queues.into_iter().map(move |(name, ended)| QueueCount { environment, name, ended })
        });
        let counts = counts.collect::<Vec<_>>();
        if counts.is_empty() {
            return;
        }
        // A statistic: what could not be told is forgotten.
        let queues = counts.len();
        if let Err(error) = store.add_counts(counts).await {
            debug!(error = &error as &dyn std::error::Error, "could not count what ended on {queues} queues");
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<EnvironmentId, BTreeMap<Name, u64>>> {
        self.0.lock().expect("nothing panics while it holds this lock")
    }
}
