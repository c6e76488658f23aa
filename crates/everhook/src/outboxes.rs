//! The outboxes that the server relays: its store's own, and the configured ones.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use everhook_engine::outbox::RelaySource;
use everhook_postgres::PostgresOutbox;
use everhook_sqlite::SqliteOutbox;
use everhook_store::outbox::Outbox;

use crate::config::{Config, OutboxPlace};
use crate::store::Opened;

/// Name of the outbox in the store's own database.
pub(crate) const OWN: &str = "main";
/// Longest wait of a row before it is read. A read costs one short statement.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Returns all outboxes to relay. None of them has to be reachable yet.
pub(crate) fn sources(config: &Config, opened: &Opened) -> anyhow::Result<Vec<RelaySource>> {
    let own = opened.outbox().map(|outbox| RelaySource {
        name: OWN.to_owned(),
        outbox,
        environment: None,
        poll_interval: POLL_INTERVAL,
    });
    let mut sources: Vec<_> = own.into_iter().collect();
    for wanted in &config.outboxes {
        let outbox: Arc<dyn Outbox> = match &wanted.place {
            OutboxPlace::Postgres { url, pooler } => {
                let outbox = PostgresOutbox::in_database(&url.0, *pooler);
                Arc::new(outbox.with_context(|| format!("invalid `database` of `[[outbox]]` {:?}", wanted.name))?)
            }
            OutboxPlace::Sqlite { file } => Arc::new(SqliteOutbox::in_file(file)),
        };
        sources.push(RelaySource {
            name: wanted.name.clone(),
            outbox,
            environment: wanted.environment.clone(),
            poll_interval: wanted.poll_interval,
        });
    }
    Ok(sources)
}
