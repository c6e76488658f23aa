//! The metrics of a node, for Prometheus.
//!
//! Counters change where the event happens. The backlog is read from the store every `BACKLOG_INTERVAL`, so that a
//! scrape does not query the store. Labels are bounded: they never name a tenant, an application or an endpoint.

pub(crate) mod queues;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everhook_core::lifecycle::EndState;
use everhook_core::limits::BACKLOG_COUNTED_MAX;
use everhook_core::outcome::Class;
use everhook_core::policy::breaker::BreakerStep;
use everhook_core::quota::QuotaKind;
use everhook_core::task::TaskKind;
use everhook_core::time::Timestamp;
use everhook_store::backlog::{Backlog, PoolUse};
use everhook_store::made::Made;
use everhook_store::outbox::OutboxStatus;
use everhook_store::query;
use everhook_store::store::{Reads, Store};
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry, Unit};
use tracing::debug;

use crate::clock::Clock;
use crate::metrics::queues::QueueGauges;

/// The buckets of durations, from 0.1 ms to 30 s, including the values of the published targets.
const SECONDS: [f64; 17] =
    [0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
/// The buckets of times from acceptance to delivery, which include retries: from 1 ms to a day.
const DELIVERY_SECONDS: [f64; 17] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 300.0, 3600.0, 21_600.0, 86_400.0];
/// The interval at which the backlog is counted in the store.
const BACKLOG_INTERVAL: Duration = Duration::from_secs(15);

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AttemptLabels {
    class: String,
}

/// The label of ended deliveries: `succeeded`, `dead` or `cancelled`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndLabels {
    end: &'static str,
}

/// The label of changes of circuit breakers: `opened`, `reopened` or `closed`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BreakerLabels {
    change: &'static str,
}

/// The label of pages of alerts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PageLabels {
    result: &'static str,
}

/// The label of refused requests: the exceeded limit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QuotaLabels {
    quota: &'static str,
}

/// The label of outboxes: their names in the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutboxLabels {
    outbox: String,
}

pub(crate) struct Now {
    /// Running deliveries.
    pub(crate) running: usize,
    /// Jobs that run or are leased ahead.
    pub(crate) jobs: usize,
    /// Ended tasks that are not yet written.
    pub(crate) unsettled: usize,
    pub(crate) pool: Option<PoolUse>,
}

#[derive(Debug)]
pub(crate) struct Metrics {
    clock: Arc<Clock>,
    registry: Mutex<Registry>,
    accepted: Counter,
    over_quota: Family<QuotaLabels, Counter>,
    append_size: Histogram,
    append_seconds: Histogram,
    attempts: Family<AttemptLabels, Counter>,
    attempt_seconds: Histogram,
    breaker_changes: Family<BreakerLabels, Counter>,
    deliveries: Family<EndLabels, Counter>,
    delivery_seconds: Histogram,
    enqueued: Counter,
    job_attempts: Family<AttemptLabels, Counter>,
    job_attempt_seconds: Histogram,
    settle_size: Histogram,
    settle_seconds: Histogram,
    schedule_lateness: Histogram,
    lost: Counter,
    reclaimed: Counter,
    leased: Counter,
    lease_seconds: Histogram,
    running: Gauge,
    jobs: Gauge,
    outbox_relayed: Family<OutboxLabels, Counter>,
    outbox_set_aside: Family<OutboxLabels, Counter>,
    outbox_lag_seconds: Histogram,
    outbox_depth: Family<OutboxLabels, Gauge>,
    outbox_oldest_seconds: Family<OutboxLabels, Gauge<f64, AtomicU64>>,
    outbox_aside: Family<OutboxLabels, Gauge>,
    held: Gauge,
    pending: Gauge,
    dead: Gauge,
    breakers: Gauge,
    due_seconds: Gauge<f64, AtomicU64>,
    pub(crate) queues: QueueGauges,
    egress_paused: Gauge,
    pages: Family<PageLabels, Counter>,
    pool_max: Gauge,
    pool_busy: Gauge,
    pool_waiting: Gauge,
}

impl Metrics {
    pub(crate) fn new(clock: Arc<Clock>) -> Metrics {
        let mut page = Page(Registry::with_prefix("everhook"));
        let capped = |what: &str| format!("{what} in the store, counted every 15 s up to {BACKLOG_COUNTED_MAX}");
        let delivery = "Time from acceptance, or from the planned time, until a delivery succeeded";
        let changes = "Circuit breakers that this node opened, opened again after a failed probe, or closed";
        let late = "Time from the due time of a schedule until its run was started";
        let oldest_row = "Seconds for which the oldest row has waited, as of the last sample";
        let aside = "Rows set aside in an outbox that wait for an operator, as of the last sample";
        let held = "Leases this node holds: tasks under way, and those that ended and are not written yet";
        let oldest_due = "Seconds for which the oldest due delivery has waited, sampled every 15 s";
        let pages =
            "Pages of alerts: sent to a destination, without any destination (unaddressed), or not stored (failed)";
        Metrics {
            clock,
            accepted: page.add("messages_accepted", "Messages committed"),
            over_quota: page.add("quota_refusals", "Requests that a quota refused, by limit"),
            append_size: page.sizes("append_size", "Messages in one append transaction"),
            append_seconds: page.seconds("append", "Time of one append transaction"),
            attempts: page.add("attempts", "Ended attempts, by class"),
            attempt_seconds: page.seconds("attempt", "Time of one attempt"),
            deliveries: page.add("deliveries_ended", "Ended deliveries, by their end"),
            delivery_seconds: page.add_seconds("delivery", delivery, Histogram::new(DELIVERY_SECONDS)),
            breaker_changes: page.add("breaker_changes", changes),
            enqueued: page.add("jobs_enqueued", "Jobs committed"),
            job_attempts: page.add("job_attempts", "Ended attempts of jobs, by class"),
            job_attempt_seconds: page.seconds("job_attempt", "Time of one attempt of a job"),
            settle_size: page.sizes("settle_size", "Attempts in one settle transaction"),
            settle_seconds: page.seconds("settle", "Time of one settle transaction"),
            lost: page.add("settlements_lost", "Results that arrived after the task was taken over"),
            schedule_lateness: page.seconds("schedule_lateness", late),
            reclaimed: page.add("tasks_reclaimed", "Tasks taken over from crashed or late holders"),
            leased: page.add("tasks_leased", "Tasks leased by this node"),
            lease_seconds: page.seconds("lease", "Time of one lease"),
            running: page.add("tasks_running", "Deliveries under way on this node"),
            jobs: page.add("jobs_running", "Jobs leased to this node itself: under way, or about to be"),
            outbox_relayed: page.add("outbox_rows_relayed", "Rows that left an outbox, set aside ones too"),
            outbox_set_aside: page.add("outbox_rows_set_aside", "Rows that could not be relayed"),
            outbox_lag_seconds: page.seconds("outbox_lag", "Time from a row's insertion until it is relayed"),
            outbox_depth: page.add("outbox_depth", "Rows that wait in an outbox, as of the last sample"),
            outbox_oldest_seconds: page.add_seconds("outbox_oldest_age", oldest_row, Family::default()),
            outbox_aside: page.add("outbox_aside", aside),
            held: page.add("leases_held", held),
            pending: page.add("tasks_pending", &capped("Tasks that wait, due or not,")),
            dead: page.add("tasks_dead", &capped("Tasks that wait for an operator")),
            breakers: page.add("breakers_open", &capped("Endpoints whose circuit breaker is open or recovering")),
            due_seconds: page.add_seconds("oldest_due", oldest_due, Gauge::default()),
            queues: QueueGauges::new(&mut page),
            egress_paused: page.add("egress_paused", "1 while egress is paused: work is accepted and nothing is sent"),
            pages: page.add("alert_pages", pages),
            pool_max: page.add("pool_connections_max", "The most store connections"),
            pool_busy: page.add("pool_connections_busy", "Store connections in use"),
            pool_waiting: page.add("pool_waiting", "Callers that wait for a store connection"),
            registry: Mutex::new(page.0),
        }
    }

    /// Adds metrics to the page.
    pub(crate) fn add(&self, register: impl FnOnce(&mut Registry)) {
        register(&mut self.registry.lock().expect("registering does not panic"));
    }

    /// Returns the start time for a duration that is observed later.
    pub(crate) fn begin(&self) -> Duration {
        self.clock.elapsed()
    }

    fn since(&self, begun: Duration) -> f64 {
        self.clock.elapsed().saturating_sub(begun).as_secs_f64()
    }

    /// Returns the page in the text format of Prometheus.
    pub(crate) fn render(&self, now: Now) -> String {
        let pool = now.pool.unwrap_or_default();
        self.running.set(gauge(now.running as u64));
        self.jobs.set(gauge(now.jobs as u64));
        self.held.set(gauge((now.running + now.jobs + now.unsettled) as u64));
        self.pool_max.set(gauge(pool.max as u64));
        self.pool_busy.set(gauge(pool.busy as u64));
        self.pool_waiting.set(gauge(pool.waiting as u64));
        let mut page = String::new();
        // Writing to a string does not fail. If it ever did, the page would be incomplete.
        let _ = text::encode(&mut page, &self.registry.lock().expect("registering does not panic"));
        page
    }

    /// Counts the backlog in the store at an interval.
    pub(crate) async fn watch(&self, store: &dyn Store) {
        loop {
            match store.read(query::CountBacklog {}).await {
                Ok(backlog) => self.waits(backlog),
                // Components that need the store log its errors at a higher level.
                Err(error) => debug!(error = &error as &dyn std::error::Error, "could not count the backlog"),
            }
            tokio::time::sleep(BACKLOG_INTERVAL).await;
        }
    }

    fn waits(&self, backlog: Backlog) {
        self.pending.set(gauge(backlog.pending));
        self.dead.set(gauge(backlog.dead));
        self.breakers.set(gauge(backlog.breakers));
        self.due_seconds.set(backlog.due_for.as_secs_f64());
    }

    pub(crate) fn egress(&self, is_paused: bool) {
        self.egress_paused.set(i64::from(is_paused));
    }

    /// Counts a page of an alert that was stored with these messages; none if it could not be stored.
    pub(crate) fn paged(&self, messages: Option<usize>) {
        let (result, count) = match messages {
            Some(0) => ("unaddressed", 1),
            Some(messages) => ("sent", messages as u64),
            None => ("failed", 1),
        };
        self.pages.get_or_create(&PageLabels { result }).inc_by(count);
    }

    /// Counts committed messages and jobs, whether a request, an outbox, a schedule or a batch created them.
    pub(crate) fn made(&self, made: Made) {
        self.accepted.inc_by(made.messages as u64);
        self.enqueued.inc_by(made.jobs as u64);
    }

    pub(crate) fn over_quota(&self, kind: QuotaKind) {
        self.over_quota.get_or_create(&QuotaLabels { quota: kind.as_str() }).inc();
    }

    pub(crate) fn appended(&self, messages: usize, begun: Duration) {
        self.append_size.observe(messages as f64);
        self.append_seconds.observe(self.since(begun));
    }

    pub(crate) fn attempted(&self, kind: TaskKind, class: Class, took: Duration) {
        let (attempts, seconds) = match kind {
            TaskKind::Delivery => (&self.attempts, &self.attempt_seconds),
            TaskKind::Job => (&self.job_attempts, &self.job_attempt_seconds),
        };
        attempts.get_or_create(&AttemptLabels { class: class.to_string() }).inc();
        seconds.observe(took.as_secs_f64());
    }

    /// Counts the rows that left an outbox, with the age of each. `set_aside` of them could not be relayed.
    pub(crate) fn outbox_relayed(&self, name: &str, lags: impl Iterator<Item = Duration>, set_aside: usize) {
        let mut rows = 0;
        for lag in lags {
            self.outbox_lag_seconds.observe(lag.as_secs_f64());
            rows += 1;
        }
        let labels = OutboxLabels { outbox: name.to_owned() };
        self.outbox_relayed.get_or_create(&labels).inc_by(rows);
        self.outbox_set_aside.get_or_create(&labels).inc_by(set_aside as u64);
    }

    pub(crate) fn outbox(&self, name: &str, status: OutboxStatus) {
        let labels = OutboxLabels { outbox: name.to_owned() };
        let count = |rows: u64| i64::try_from(rows).unwrap_or(i64::MAX);
        self.outbox_depth.get_or_create(&labels).set(count(status.depth));
        self.outbox_aside.get_or_create(&labels).set(count(status.set_aside));
        let age = status.oldest_age.unwrap_or_default().as_secs_f64();
        self.outbox_oldest_seconds.get_or_create(&labels).set(age);
    }

    /// Counts the settled attempt of a delivery, if it ended the delivery. `took` is the time since its acceptance.
    pub(crate) fn delivered(&self, end: EndState, took: Option<Duration>) {
        let end = match end {
            EndState::Open => return,
            EndState::Succeeded => "succeeded",
            EndState::Dead => "dead",
            EndState::Cancelled => "cancelled",
        };
        self.deliveries.get_or_create(&EndLabels { end }).inc();
        if let Some(took) = took {
            self.delivery_seconds.observe(took.as_secs_f64());
        }
    }

    /// Counts a written change of a circuit breaker.
    pub(crate) fn breaker(&self, step: BreakerStep) {
        let change = match step {
            BreakerStep::Opened => "opened",
            BreakerStep::Reopened => "reopened",
            BreakerStep::Closed => "closed",
            BreakerStep::Moved => return,
        };
        self.breaker_changes.get_or_create(&BreakerLabels { change }).inc();
    }

    /// Observes how late schedules were.
    pub(crate) fn fired(&self, lateness: &[Duration]) {
        lateness.iter().for_each(|late| self.schedule_lateness.observe(late.as_secs_f64()));
    }

    pub(crate) fn reclaimed(&self, tasks: usize) {
        self.reclaimed.inc_by(tasks as u64);
    }

    pub(crate) fn lost(&self) {
        self.lost.inc();
    }

    pub(crate) fn settled(&self, size: usize, begun: Duration) {
        self.settle_size.observe(size as f64);
        self.settle_seconds.observe(self.since(begun));
    }

    pub(crate) fn leased(&self, tasks: usize, begun: Duration) {
        self.leased.inc_by(tasks as u64);
        self.lease_seconds.observe(self.since(begun));
    }
}

/// The page of a node while its metrics are created.
struct Page(Registry);

impl Page {
    fn add<M: Metric + Clone + Default>(&mut self, name: &str, help: &str) -> M {
        let metric = M::default();
        self.0.register(name, help, metric.clone());
        metric
    }

    fn sizes(&mut self, name: &str, help: &str) -> Histogram {
        let sizes = Histogram::new(exponential_buckets(1.0, 2.0, 10));
        self.0.register(name, help, sizes.clone());
        sizes
    }

    fn seconds(&mut self, name: &str, help: &str) -> Histogram {
        self.add_seconds(name, help, Histogram::new(SECONDS))
    }

    fn add_seconds<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: M) -> M {
        self.0.register_with_unit(name, help, Unit::Seconds, metric.clone());
        metric
    }
}

/// Returns a page on which every metric appears, with examples of labels. The reference of metrics is made from it.
/// `register` adds the metrics of other parts of the process.
pub fn example_page(register: impl FnOnce(&mut Registry)) -> String {
    let metrics = Metrics::new(Arc::new(Clock::new(Timestamp::default())));
    metrics.add(register);
    metrics.attempted(TaskKind::Delivery, Class::Success, Duration::ZERO);
    metrics.attempted(TaskKind::Job, Class::Success, Duration::ZERO);
    metrics.delivered(EndState::Succeeded, Some(Duration::ZERO));
    metrics.breaker(BreakerStep::Opened);
    metrics.over_quota(QuotaKind::MessageRate);
    metrics.outbox_relayed("default", std::iter::empty(), 0);
    metrics.outbox("default", OutboxStatus::default());
    metrics.paged(Some(1));
    metrics.queues.show_example();
    metrics.render(Now { running: 0, jobs: 0, unsettled: 0, pool: None })
}

fn gauge(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_page_has_what_happened() {
        let metrics = Metrics::new(Arc::new(Clock::new(everhook_core::time::Timestamp::default())));
        metrics.appended(4, Duration::ZERO);
        metrics.made(Made { messages: 3, jobs: 6 });
        metrics.attempted(TaskKind::Delivery, Class::Timeout, Duration::from_secs(15));
        metrics.attempted(TaskKind::Job, Class::Panicked, Duration::from_secs(2));
        metrics.leased(7, Duration::ZERO);
        metrics.delivered(EndState::Succeeded, Some(Duration::from_millis(20)));
        metrics.delivered(EndState::Open, None);
        metrics.reclaimed(2);
        metrics.lost();
        metrics.waits(Backlog { pending: 9, dead: 2, due_for: Duration::from_millis(1500), breakers: 3 });
        metrics.breaker(BreakerStep::Closed);
        for page in [Some(2), Some(0), None] {
            metrics.paged(page);
        }
        let page = metrics.render(Now {
            running: 5,
            jobs: 2,
            unsettled: 1,
            pool: Some(PoolUse { max: 8, busy: 3, waiting: 4 }),
        });
        for line in [
            "everhook_messages_accepted_total 3",
            "everhook_append_size_count 1",
            "everhook_attempts_total{class=\"timeout\"} 1",
            "everhook_attempt_seconds_sum 15.0",
            "everhook_tasks_leased_total 7",
            "everhook_settlements_lost_total 1",
            "everhook_deliveries_ended_total{end=\"succeeded\"} 1",
            "everhook_delivery_seconds_count 1",
            "everhook_tasks_reclaimed_total 2",
            "everhook_alert_pages_total{result=\"sent\"} 2",
            "everhook_alert_pages_total{result=\"unaddressed\"} 1",
            "everhook_alert_pages_total{result=\"failed\"} 1",
            "everhook_tasks_running 5",
            "everhook_jobs_running 2",
            "everhook_jobs_enqueued_total 6",
            "everhook_job_attempts_total{class=\"panicked\"} 1",
            "everhook_leases_held 8",
            "everhook_tasks_pending 9",
            "everhook_tasks_dead 2",
            "everhook_breakers_open 3",
            "everhook_breaker_changes_total{change=\"closed\"} 1",
            "everhook_oldest_due_seconds 1.5",
            "everhook_pool_connections_max 8",
            "everhook_pool_connections_busy 3",
            "everhook_pool_waiting 4",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} is not in {page}");
        }
    }
}
