//! Counts ended attempts per queue and writes the counts to the store every few seconds. The API shows them as the
//! throughput of a queue.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use everhook_core::id::EnvironmentId;
use everhook_core::name::Name;
use everhook_store::queue::QueueCount;
use everhook_store::store::Store;
use tokio_util::sync::CancellationToken;
use tracing::debug;

/// The interval between two writes.
const INTERVAL: Duration = Duration::from_secs(5);

/// Attempts that ended since the last write.
#[derive(Debug, Default)]
pub(crate) struct EndedCounts(Mutex<BTreeMap<EnvironmentId, BTreeMap<Name, u64>>>);

impl EndedCounts {
    pub(crate) fn ended(&self, environment: EnvironmentId, queue: &Name) {
        let mut counts = self.lock();
        let queues = counts.entry(environment).or_default();
        match queues.get_mut(queue) {
            Some(count) => *count += 1,
            None => drop(queues.insert(queue.clone(), 1)),
        }
    }

    /// Writes the counts until `stop` is cancelled, and then the remaining ones.
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
        // The counts are only statistics: after an error they are dropped.
        let queues = counts.len();
        if let Err(error) = store.add_counts(counts).await {
            debug!(error = &error as &dyn std::error::Error, "could not write the counts of {queues} queues");
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<EnvironmentId, BTreeMap<Name, u64>>> {
        self.0.lock().expect("nothing panics while it holds this lock")
    }
}
