//! Logs: text for people or JSON for machines, to stderr.

use anyhow::Context;
use tracing_subscriber::EnvFilter;

use crate::config::{Config, LogFormat};

/// At debug level the database client logs the values of statements: payloads and secrets, which no log may hold.
const NEVER: &str = "tokio_postgres=info";

/// Sets the process's logger up, once.
pub(crate) fn init(config: &Config) -> anyhow::Result<()> {
    let filter = EnvFilter::builder()
        .parse(&config.log_level)
        .with_context(|| format!("bad log_level {:?}: use error, warn, info, debug or trace", config.log_level))?;
    let filter = filter.add_directive(NEVER.parse().expect("a test starts the logger"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match config.log_format {
        LogFormat::Text => builder.with_ansi(false).init(),
        LogFormat::Json => builder.json().flatten_event(true).with_current_span(false).init(),
    }
    Ok(())
}
