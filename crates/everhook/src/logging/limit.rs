//! A limit for each log statement.
//!
//! Lines per attempt and per request are otherwise unbounded. Each log statement may write `LINES_MAX` lines per
//! `PERIOD`; further lines are suppressed, counted, and reported in one line. Debug and trace lines are not limited: an
//! operator asked for all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;
use tracing::callsite::Identifier;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::logging::queue::now;

/// Lines per log statement and period.
pub(super) const LINES_MAX: u64 = 200;
pub(super) const PERIOD: Duration = Duration::from_secs(10);

/// Suppresses lines of log statements that exceed their limit.
#[derive(Clone, Debug)]
pub(super) struct Limit {
    started: Instant,
    places: Arc<Mutex<Places>>,
    limited: Counter,
}

type Places = HashMap<Identifier, (&'static Metadata<'static>, Spent)>;

#[derive(Debug, Default)]
struct Spent {
    begun: Duration,
    /// Lines in the current period.
    lines: u64,
    /// Suppressed lines that have not been reported.
    left_out: u64,
}

impl Default for Limit {
    fn default() -> Limit {
        Limit { started: now(), places: Arc::default(), limited: Counter::default() }
    }
}

impl Limit {
    pub(super) fn limited(&self) -> Counter {
        self.limited.clone()
    }

    /// Returns the log statements with suppressed lines and their numbers, once their period is over.
    pub(super) fn left_out(&self, now: Duration) -> Vec<(&'static Metadata<'static>, u64)> {
        let mut places = self.lock();
        let places = places.values_mut().filter_map(|(place, spent)| Some((*place, spent.report(now)?)));
        places.collect()
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().expect("nothing panics while it holds this lock")
    }
}

impl Spent {
    /// Counts a line. Returns whether it may be logged.
    fn take(&mut self, now: Duration) -> bool {
        if now.saturating_sub(self.begun) >= PERIOD {
            (self.begun, self.lines) = (now, 0);
        }
        self.lines += 1;
        let may = self.lines <= LINES_MAX;
        self.left_out += u64::from(!may);
        may
    }

    /// Returns the number of suppressed lines, if the period is over and there are any.
    fn report(&mut self, now: Duration) -> Option<u64> {
        let is_due = self.left_out > 0 && now.saturating_sub(self.begun) >= PERIOD;
        is_due.then(|| std::mem::take(&mut self.left_out))
    }
}

impl<S: Subscriber> Layer<S> for Limit {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        if *metadata.level() > Level::INFO {
            return true;
        }
        let now = now().duration_since(self.started);
        let may = self.lock().entry(metadata.callsite()).or_insert((metadata, Spent::default())).1.take(now);
        if !may {
            self.limited.inc();
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use tracing::{debug, warn};
    use tracing_subscriber::filter::LevelFilter;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[test]
    fn a_place_gets_its_lines_back_with_the_next_period() {
        let mut spent = Spent::default();
        let mut taken = |at: Duration, lines: u64| (0..lines).filter(|_| spent.take(at)).count() as u64;
        assert_eq!(taken(Duration::ZERO, LINES_MAX + 5), LINES_MAX);
        assert_eq!(taken(PERIOD - Duration::from_millis(1), 5), 0);
        assert_eq!(taken(PERIOD, LINES_MAX * 2), LINES_MAX);
        assert_eq!(spent.report(PERIOD), None, "more may follow in this period");
        assert_eq!(spent.report(PERIOD * 2), Some(5 + 5 + LINES_MAX));
        assert_eq!(spent.report(PERIOD * 3), None);
    }

    #[test]
    fn a_place_that_logs_too_much_leaves_room_for_the_others() {
        let limit = Limit::default();
        let format = tracing_subscriber::fmt::layer().with_writer(io::sink);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let watch = Watch(Arc::clone(&seen));
        let subscriber =
            tracing_subscriber::registry().with(LevelFilter::DEBUG).with(format).with(watch).with(limit.clone());
        let loud = 10 * LINES_MAX;
        tracing::subscriber::with_default(subscriber, || {
            for _ in 0..loud {
                warn!("attempt failed");
                debug!("all of it");
            }
            warn!("something else");
        });
        let count = |level: Level| seen.lock().unwrap().iter().filter(|seen| **seen == level).count() as u64;
        // On a slow machine the period may end in between.
        assert!(count(Level::WARN) > LINES_MAX && count(Level::WARN) < loud, "{}", count(Level::WARN));
        assert_eq!(count(Level::DEBUG), loud);
        let left_out = loud + 1 - count(Level::WARN);
        assert_eq!(limit.limited().get(), left_out);
        let told = limit.left_out(Duration::from_secs(3600));
        let told = told.iter().map(|(place, lines)| (place.target(), *lines)).collect::<Vec<_>>();
        assert_eq!(told, [(module_path!(), left_out)]);
        assert!(limit.left_out(Duration::from_secs(7200)).is_empty(), "it is told once");
    }

    struct Watch(Arc<Mutex<Vec<Level>>>);

    impl<S: Subscriber> Layer<S> for Watch {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            self.0.lock().unwrap().push(*event.metadata().level());
        }
    }
}
