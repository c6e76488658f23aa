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
use prometheus_client::registry::{Registry, Unit};
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
    breakers: Gauge,
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
    pub(crate) queues: QueueGauges,
    egress_paused: Gauge,
    pages: Family<PageLabels, Counter>,
    due_seconds: Gauge<f64, AtomicU64>,
    pool_max: Gauge,
    pool_busy: Gauge,
    pool_waiting: Gauge,
}

impl Metrics {
    pub(crate) fn new(clock: Arc<Clock>) -> Metrics {
        let sizes = || Histogram::new(exponential_buckets(1.0, 2.0, 10));
        let seconds = || Histogram::new(SECONDS);
        let metrics = Metrics {
            clock,
            registry: Mutex::new(Registry::with_prefix("everhook")),
            accepted: Counter::default(),
            over_quota: Family::default(),
            append_size: sizes(),
            append_seconds: seconds(),
            attempts: Family::default(),
            attempt_seconds: seconds(),
            breakers: Gauge::default(),
            breaker_changes: Family::default(),
            deliveries: Family::default(),
            delivery_seconds: Histogram::new(DELIVERY_SECONDS),
            enqueued: Counter::default(),
            job_attempts: Family::default(),
            job_attempt_seconds: seconds(),
            settle_size: sizes(),
            settle_seconds: seconds(),
            schedule_lateness: seconds(),
            lost: Counter::default(),
            reclaimed: Counter::default(),
            leased: Counter::default(),
            lease_seconds: seconds(),
            running: Gauge::default(),
            jobs: Gauge::default(),
            outbox_relayed: Family::default(),
            outbox_set_aside: Family::default(),
            outbox_lag_seconds: seconds(),
            outbox_depth: Family::default(),
            outbox_oldest_seconds: Family::default(),
            outbox_aside: Family::default(),
            held: Gauge::default(),
            pending: Gauge::default(),
            dead: Gauge::default(),
            queues: QueueGauges::default(),
            egress_paused: Gauge::default(),
            pages: Family::default(),
            due_seconds: Gauge::default(),
            pool_max: Gauge::default(),
            pool_busy: Gauge::default(),
            pool_waiting: Gauge::default(),
        };
        metrics.add(|registry| metrics.register(registry));
        metrics
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

    fn register(&self, registry: &mut Registry) {
        registry.register("messages_accepted", "Messages committed", self.accepted.clone());
        registry.register("quota_refusals", "Requests that a quota refused, by limit", self.over_quota.clone());
        registry.register("append_size", "Messages in one append transaction", self.append_size.clone());
        let seconds = |registry: &mut Registry, name: &str, help: &str, histogram: &Histogram| {
            registry.register_with_unit(name, help, Unit::Seconds, histogram.clone());
        };
        seconds(registry, "append", "Time of one append transaction", &self.append_seconds);
        registry.register("attempts", "Ended attempts, by class", self.attempts.clone());
        seconds(registry, "attempt", "Time of one attempt", &self.attempt_seconds);
        registry.register("deliveries_ended", "Ended deliveries, by their end", self.deliveries.clone());
        let delivery = "Time from acceptance, or from the planned time, until a delivery succeeded";
        seconds(registry, "delivery", delivery, &self.delivery_seconds);
        let changes = "Circuit breakers that this node opened, opened again after a failed probe, or closed";
        registry.register("breaker_changes", changes, self.breaker_changes.clone());
        registry.register("jobs_enqueued", "Jobs committed", self.enqueued.clone());
        registry.register("job_attempts", "Ended attempts of jobs, by class", self.job_attempts.clone());
        seconds(registry, "job_attempt", "Time of one attempt of a job", &self.job_attempt_seconds);
        registry.register("settle_size", "Attempts in one settle transaction", self.settle_size.clone());
        seconds(registry, "settle", "Time of one settle transaction", &self.settle_seconds);
        registry.register("settlements_lost", "Results that arrived after the task was taken over", self.lost.clone());
        let late = "Time from the due time of a schedule until its run was started";
        seconds(registry, "schedule_lateness", late, &self.schedule_lateness);
        let reclaimed = "Tasks taken over from crashed or late holders";
        registry.register("tasks_reclaimed", reclaimed, self.reclaimed.clone());
        registry.register("tasks_leased", "Tasks leased by this node", self.leased.clone());
        seconds(registry, "lease", "Time of one lease", &self.lease_seconds);
        registry.register("tasks_running", "Deliveries under way on this node", self.running.clone());
        let jobs = "Jobs leased to this node itself: under way, or about to be";
        registry.register("jobs_running", jobs, self.jobs.clone());
        registry.register(
            "outbox_rows_relayed",
            "Rows that left an outbox, set aside ones too",
            self.outbox_relayed.clone(),
        );
        registry.register("outbox_rows_set_aside", "Rows that could not be relayed", self.outbox_set_aside.clone());
        seconds(registry, "outbox_lag", "Time from a row's insertion until it is relayed", &self.outbox_lag_seconds);
        let depth = "Rows that wait in an outbox, as of the last sample";
        registry.register("outbox_depth", depth, self.outbox_depth.clone());
        let oldest = "Seconds for which the oldest row has waited, as of the last sample";
        registry.register_with_unit("outbox_oldest_age", oldest, Unit::Seconds, self.outbox_oldest_seconds.clone());
        let aside = "Rows set aside in an outbox that wait for an operator, as of the last sample";
        registry.register("outbox_aside", aside, self.outbox_aside.clone());
        let held = "Leases this node holds: tasks under way, and those that ended and are not written yet";
        registry.register("leases_held", held, self.held.clone());
        let capped = |what: &str| format!("{what} in the store, counted every 15 s up to {BACKLOG_COUNTED_MAX}");
        registry.register("tasks_pending", capped("Tasks that wait, due or not,"), self.pending.clone());
        registry.register("tasks_dead", capped("Tasks that wait for an operator"), self.dead.clone());
        let breakers = capped("Endpoints whose circuit breaker is open or recovering");
        registry.register("breakers_open", breakers, self.breakers.clone());
        let oldest = "Seconds for which the oldest due delivery has waited, sampled every 15 s";
        registry.register_with_unit("oldest_due", oldest, Unit::Seconds, self.due_seconds.clone());
        self.queues.register(registry);
        let paused = "1 while egress is paused: work is accepted and nothing is sent";
        registry.register("egress_paused", paused, self.egress_paused.clone());
        let pages =
            "Pages of alerts: sent to a destination, without any destination (unaddressed), or not stored (failed)";
        registry.register("alert_pages", pages, self.pages.clone());
        registry.register("pool_connections_max", "The most store connections", self.pool_max.clone());
        registry.register("pool_connections_busy", "Store connections in use", self.pool_busy.clone());
        registry.register("pool_waiting", "Callers that wait for a store connection", self.pool_waiting.clone());
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
