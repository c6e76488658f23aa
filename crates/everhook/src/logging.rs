//! Logs: text for people or JSON for machines, to stderr.
//!
//! Lines are handed to a thread that writes them (`queue`): nothing ever waits for whoever reads stderr. What does not fit is
//! dropped and counted. One place of the code may log only so much (`limit`), so that a receiver that fails a thousand times a
//! second does not push everything else out of the log. Queued lines are written before the process ends in good order.

mod levels;
mod limit;
mod queue;

use std::time::Duration;

use anyhow::Context;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use tracing::warn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use crate::config::{Config, LogFormat};
use crate::logging::limit::{LINES_MAX, Limit, PERIOD};
use crate::logging::queue::{Lines, Report, Writer};
use crate::plain::PlainLog;

pub(crate) use crate::logging::levels::filter;

/// The process's logs. Dropping them writes what is queued.
pub(crate) struct Logs {
    _writer: Writer,
    dropped: Counter,
    limited: Counter,
}

/// Sets the process's logger up, once.
pub(crate) fn init(config: &Config) -> anyhow::Result<Logs> {
    let limit = Limit::default();
    let (dropped, limited) = (Counter::default(), limit.limited());
    let lines = Lines::new(dropped.clone());
    let format = fmt::layer().with_writer(PlainLog(lines.clone()));
    let format = match config.log_format {
        LogFormat::Text => format.with_ansi(false).boxed(),
        LogFormat::Json => format.json().flatten_event(true).with_current_span(false).boxed(),
    };
    let subscriber = tracing_subscriber::registry().with(config.log_filter.clone()).with(format).with(limit.clone());
    subscriber.try_init().context("could not start the logger")?;
    let writer = lines.write_to(std::io::stderr(), Reporter { limit })?;
    Ok(Logs { _writer: writer, dropped, limited })
}

impl Logs {
    /// Adds the counters to a metrics page.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let dropped = "Log lines dropped because stderr was not read fast enough";
        registry.register("log_lines_dropped", dropped, self.dropped.clone());
        let limited = "Log lines left out because one place of the code logged too many";
        registry.register("log_lines_limited", limited, self.limited.clone());
    }
}

/// Logs what was not logged.
struct Reporter {
    limit: Limit,
}

impl Report for Reporter {
    fn dropped(&self, lines: u64) {
        warn!(log.lines = lines, "{lines} log lines dropped: stderr was not read fast enough");
    }

    fn now_and_then(&self, now: Duration) {
        for (place, lines) in self.limit.left_out(now) {
            let (target, line) = (place.target(), place.line().unwrap_or_default());
            let seconds = PERIOD.as_secs();
            warn!(
                log.lines = lines,
                log.target = target,
                "left out {lines} log lines of {target}:{line}: it logs at most {LINES_MAX} in {seconds} s"
            );
        }
    }
}
