//! The depth and the age of queues, sampled in the store.
//!
//! Queues of the same name in several environments are one series: a label that names tenants would be unbounded.
//! Samples stop at a bound of queues and environments, so that their cost does not grow with the number of tenants.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use everhook_core::name::Name;
use everhook_core::scope::Scope;
use everhook_store::catalog::{Order, Slice};
use everhook_store::error::StoreError;
use everhook_store::query;
use everhook_store::queue::QueueStats;
use everhook_store::store::{Reads, Store};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use tracing::debug;

use crate::metrics::{Page, gauge};

/// The interval of samples. Each counts the jobs of every sampled queue.
const INTERVAL: Duration = Duration::from_secs(60);
/// The most queues of a sample.
const QUEUES_MAX: usize = 50;
/// The environments whose queues a sample reads, oldest first.
const ENVIRONMENTS_MAX: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabels {
    queue: String,
}

/// The jobs of all queues with one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Depth {
    pending: u64,
    dead: u64,
    oldest_due: Duration,
}

impl Depth {
    fn add(&mut self, stats: &QueueStats) {
        self.pending += stats.pending;
        self.dead += stats.dead;
        self.oldest_due = self.oldest_due.max(stats.oldest_due.unwrap_or_default());
    }
}

#[derive(Debug)]
pub(crate) struct QueueGauges {
    pending: Family<QueueLabels, Gauge>,
    dead: Family<QueueLabels, Gauge>,
    oldest_due: Family<QueueLabels, Gauge<f64, AtomicU64>>,
}

impl QueueGauges {
    pub(super) fn new(page: &mut Page) -> QueueGauges {
        let sampled = |what: &str| format!("{what}, by queue; every 60 s, for at most {QUEUES_MAX} queues");
        let oldest = sampled("Seconds for which the oldest due job has waited");
        QueueGauges {
            pending: page.add("queue_pending", &sampled("Jobs that wait, due or not")),
            dead: page.add("queue_dead", &sampled("Jobs that wait for an operator")),
            oldest_due: page.add_seconds("queue_oldest_due", &oldest, Family::default()),
        }
    }

    /// Samples the queues at an interval.
    pub(crate) async fn watch(&self, store: &dyn Store) {
        let mut shown = BTreeMap::new();
        loop {
            match sample(store).await {
                Ok(found) => {
                    self.show(&shown, &found);
                    shown = found;
                }
                // Components that need the store log its errors at a higher level.
                Err(error) => debug!(error = &error as &dyn std::error::Error, "could not sample the queues"),
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    fn show(&self, before: &BTreeMap<Name, Depth>, found: &BTreeMap<Name, Depth>) {
        let labels = |name: &Name| QueueLabels { queue: name.to_string() };
        for gone in before.keys().filter(|name| !found.contains_key(*name)).map(labels) {
            self.pending.remove(&gone);
            self.dead.remove(&gone);
            self.oldest_due.remove(&gone);
        }
        for (name, depth) in found {
            let labels = labels(name);
            self.pending.get_or_create(&labels).set(gauge(depth.pending));
            self.dead.get_or_create(&labels).set(gauge(depth.dead));
            self.oldest_due.get_or_create(&labels).set(depth.oldest_due.as_secs_f64());
        }
    }

    /// Shows a queue for the reference of metrics.
    pub(super) fn show_example(&self) {
        let name = "mail".parse().expect("the constant is a name");
        self.show(&BTreeMap::new(), &BTreeMap::from([(name, Depth::default())]));
    }
}

async fn sample(store: &dyn Store) -> Result<BTreeMap<Name, Depth>, StoreError> {
    let mut found: BTreeMap<Name, Depth> = BTreeMap::new();
    let mut left = QUEUES_MAX;
    for environment in store.read(query::Environments {}).await?.iter().take(ENVIRONMENTS_MAX) {
        let scope = Scope::of(environment.id);
        let slice = Slice { after: None, order: Order::Ascending, limit: left };
        for queue in store.read(query::Queues { scope, slice }).await? {
            let stats = store.read(query::CountQueue { scope, name: queue.name.clone() }).await?;
            found.entry(queue.name).or_default().add(&stats);
            left -= 1;
        }
        if left == 0 {
            break;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn queues_of_one_name_are_one_series_and_gone_ones_disappear() {
        let mut page = Page(Registry::default());
        let gauges = QueueGauges::new(&mut page);
        let mut depth = Depth::default();
        for (pending, seconds) in [(3, 5), (4, 2)] {
            let oldest_due = Some(Duration::from_secs(seconds));
            depth.add(&QueueStats { pending, dead: 1, oldest_due, ..QueueStats::default() });
        }
        let name = |text: &str| text.parse::<Name>().unwrap();
        let before = BTreeMap::from([(name("mail"), depth), (name("old"), Depth::default())]);
        gauges.show(&BTreeMap::new(), &before);
        gauges.show(&before, &BTreeMap::from([(name("mail"), depth)]));
        let registry = page.0;
        let mut page = String::new();
        prometheus_client::encoding::text::encode(&mut page, &registry).unwrap();
        let lines: Vec<_> = page.lines().filter(|line| !line.starts_with('#')).collect();
        let want = [
            "queue_pending{queue=\"mail\"} 7",
            "queue_dead{queue=\"mail\"} 2",
            "queue_oldest_due_seconds{queue=\"mail\"} 5.0",
        ];
        assert_eq!(lines, want, "{page}");
    }
}
