//! The outboxes that the server relays: the one in the store's own database, and those of the settings.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use everhook_engine::relay::RelaySource;
use everhook_postgres::PostgresOutbox;
use everhook_sqlite::SqliteOutbox;
use everhook_store::outbox::Outbox;

use crate::config::{Config, OutboxPlace};
use crate::store::Opened;

/// The name of the outbox in the store's own database.
pub(crate) const OWN: &str = "main";
/// How long a row waits at most before someone looks. A look costs one short statement.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Every outbox to relay. None of them has to answer yet.
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
                Arc::new(outbox.with_context(|| format!("bad `database` of the outbox {:?}", wanted.name))?)
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
