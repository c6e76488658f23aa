//! How much one place of the code may log.
//!
//! Lines per attempt and per request have no bound of their own. Each place that logs may log `LINES_MAX` lines in `PERIOD`; the
//! rest is left out, counted, and reported in one line. Debug and trace lines are not limited: someone asked for all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;
use tracing::callsite::Identifier;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::logging::queue::now;

/// Lines that one place may log in one period.
pub(super) const LINES_MAX: u64 = 200;
/// How long a period is.
pub(super) const PERIOD: Duration = Duration::from_secs(10);

/// Leaves out lines of places that log too much.
#[derive(Clone, Debug)]
pub(super) struct Limit {
    started: Instant,
    places: Arc<Mutex<Places>>,
    limited: Counter,
}

/// Each place of the code that has logged.
type Places = HashMap<Identifier, (&'static Metadata<'static>, Spent)>;

/// What one place of the code has logged.
#[derive(Debug, Default)]
struct Spent {
    /// When the period began.
    begun: Duration,
    /// Lines in this period.
    lines: u64,
    /// Lines left out and not reported.
    left_out: u64,
}

impl Default for Limit {
    fn default() -> Limit {
        Limit { started: now(), places: Arc::default(), limited: Counter::default() }
    }
}

impl Limit {
    /// The count of lines that were left out.
    pub(super) fn limited(&self) -> Counter {
        self.limited.clone()
    }

    /// The places that left lines out, with how many, once their period is over.
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
    /// Whether one more line may be logged.
    fn take(&mut self, now: Duration) -> bool {
        if now.saturating_sub(self.begun) >= PERIOD {
            (self.begun, self.lines) = (now, 0);
        }
        self.lines += 1;
        let may = self.lines <= LINES_MAX;
        self.left_out += u64::from(!may);
        may
    }

    /// How many lines were left out, if the period is over and there are any.
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
        // The period may have ended in between, on a slow machine.
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
