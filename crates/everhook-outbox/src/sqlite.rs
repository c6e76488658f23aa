//! Events in a `rusqlite` transaction, in your own file. Everhook relays the file if its configuration names it:
//!
//! ```toml
//! [[outbox]]
//! name = "shop"
//! sqlite = "/var/lib/shop/shop.db"
//! ```

use rusqlite::{Connection, Error, params};

use crate::{Event, schema};

const SEND: &str = "insert into everhook_outbox (environment, application, event_type, payload, event_id, channels, tags, \
    deliver_at, once_key, once_phase) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";

/// Creates the outbox in the file, if it is missing. WAL mode is not required, but lets Everhook read without blocking
/// your writes.
pub fn install(connection: &Connection) -> Result<(), Error> {
    connection.execute_batch(schema::SQLITE)
}

/// Sends an event when the transaction commits. Returns the number of its row. Pass the transaction that the event
/// belongs to.
pub fn send(transaction: &Connection, event: &Event<'_>) -> Result<i64, Error> {
    let list = |texts: &[&str]| (!texts.is_empty()).then(|| serde_json::json!(texts).to_string());
    let mut statement = transaction.prepare_cached(SEND)?;
    statement.insert(params![
        event.environment,
        event.application,
        event.event_type,
        event.payload,
        event.event_id,
        list(event.channels),
        list(event.tags),
        event.deliver_at_us,
        event.once_key,
        event.once_phase,
    ])
}
