//! Counts the traffic of this node in memory, and writes it to the store every few seconds.
//!
//! Intake and settling count one group at a time, after its commit. A crash loses the counts since the last write,
//! which are only statistics. Operational events and announcements of batches are not counted as accepted.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use everhook_core::id::EnvironmentId;
use everhook_core::limits::TRAFFIC_ROWS_WRITTEN_MAX;
use everhook_core::task::Task;
use everhook_core::traffic::ledger::Ledger;
use everhook_core::traffic::{AttemptEnd, Traffic};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::node::Node;

/// The interval between two writes.
const INTERVAL: Duration = Duration::from_secs(5);
/// The longest time that the last write of a stopping node may take.
const LAST_WRITE_DEADLINE: Duration = Duration::from_secs(2);

type Counts = BTreeMap<EnvironmentId, Traffic>;

/// Counts since the last write, by environment.
#[derive(Debug, Default)]
pub(crate) struct TrafficCounts(Mutex<Counts>);

impl TrafficCounts {
    /// Counts accepted messages by their environments.
    pub(crate) fn accepted(&self, environments: impl Iterator<Item = EnvironmentId>) {
        let mut counts = self.lock();
        for environment in environments {
            counts.entry(environment).or_default().accepted += 1;
        }
    }

    /// Counts settled attempts of deliveries.
    pub(crate) fn attempted<'t>(&self, ended: impl Iterator<Item = (&'t Task, AttemptEnd)>) {
        let mut counts = self.lock();
        for (task, end) in ended {
            counts.entry(task.key.environment).or_default().attempted(task, end);
        }
    }

    /// The counts of an environment since the last write.
    pub(crate) fn fresh(&self, environment: EnvironmentId) -> Traffic {
        self.lock().get(&environment).cloned().unwrap_or_default()
    }

    /// Writes the counts until `stop` is cancelled, and then the remaining ones.
    pub(crate) async fn run(&self, node: &Node, stop: CancellationToken) {
        let mut ledger = Ledger::new(node.new_id());
        while stop.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_some() {
            self.write(node, &mut ledger).await;
        }
        let _ = tokio::time::timeout(LAST_WRITE_DEADLINE, self.write(node, &mut ledger)).await;
    }

    async fn write(&self, node: &Node, ledger: &mut Ledger) {
        let fresh = std::mem::take(&mut *self.lock());
        let now = node.clock.now();
        ledger.fold(&fresh, now);
        let rows = ledger.unwritten();
        for slice in rows.chunks(TRAFFIC_ROWS_WRITTEN_MAX) {
            if let Err(error) = node.store.put_traffic(slice.to_vec()).await {
                // The ledger keeps the rows for the next write.
                let rows = rows.len();
                debug!(error = &error as &dyn std::error::Error, "could not write {rows} rows of traffic");
                return;
            }
        }
        ledger.written(now);
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().expect("nothing panics while it holds this lock")
    }
}
