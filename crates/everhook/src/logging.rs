//! Logs on stderr, as text for people or JSON for programs.
//!
//! A separate thread writes the lines (`queue`), so that a slow reader of stderr never blocks the server. Lines that do
//! not fit into the queue are dropped and counted. Each log statement has a limit (`limit`): a receiver that fails a
//! thousand times per second must not displace everything else. An orderly exit writes all queued lines.

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

/// The logs of the process. Dropping them writes the queued lines.
pub(crate) struct Logs {
    _writer: Writer,
    pub(crate) counters: Counters,
}

/// Lines that were not written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    dropped: Counter,
    limited: Counter,
}

/// Installs the logger of the process, once.
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
    Ok(Logs { _writer: writer, counters: Counters { dropped, limited } })
}

impl Counters {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let dropped = "Log lines dropped because stderr was not read fast enough";
        registry.register("log_lines_dropped", dropped, self.dropped.clone());
        let limited = "Log lines suppressed because one log statement exceeded its limit";
        registry.register("log_lines_limited", limited, self.limited.clone());
    }
}

/// Logs how many lines were dropped or suppressed.
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
                "suppressed {lines} log lines of {target}:{line}: the limit is {LINES_MAX} in {seconds} s"
            );
        }
    }
}
