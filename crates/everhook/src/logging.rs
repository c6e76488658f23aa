//! Logs: text for people or JSON for machines, to stderr.
//!
//! Lines are handed to a thread that writes them, so that a slow terminal or pipe delays no delivery; none is dropped, and
//! what is queued is written before the process ends in good order.

use anyhow::Context;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;

use crate::config::{Config, LogFormat};

/// At debug level the database client logs the values of statements: payloads and secrets, which no log may hold.
const NEVER: &str = "tokio_postgres=info";

/// Sets the process's logger up, once. Dropping the guard writes what is queued.
pub(crate) fn init(config: &Config) -> anyhow::Result<WorkerGuard> {
    let filter = EnvFilter::builder()
        .parse(&config.log_level)
        .with_context(|| format!("bad log_level {:?}: use error, warn, info, debug or trace", config.log_level))?;
    let filter = filter.add_directive(NEVER.parse().expect("a test starts the logger"));
    let (writer, guard) = NonBlockingBuilder::default().lossy(false).finish(std::io::stderr());
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    match config.log_format {
        LogFormat::Text => builder.with_ansi(false).init(),
        LogFormat::Json => builder.json().flatten_event(true).with_current_span(false).init(),
    }
    Ok(guard)
}
