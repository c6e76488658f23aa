//! Events in a `tokio-postgres` transaction.

use tokio_postgres::types::Type;
use tokio_postgres::{Error, GenericClient};

use crate::{Event, schema};

const SEND: &str = "select everhook.send($1, $2, $3, event_id => $4, channels => $5, tags => $6, \
    deliver_at => to_timestamp($7::bigint / 1000000.0), once_key => $8, once_phase => $9)";
const SEND_TO: &str = "select everhook.send($1, $2, $3, event_id => $4, channels => $5, tags => $6, \
    deliver_at => to_timestamp($7::bigint / 1000000.0), once_key => $8, once_phase => $9, environment => $10)";

/// Creates the outbox, if it is missing, in a database that is not Everhook's own. The user must be allowed to create
/// schemas.
pub async fn install(client: &impl GenericClient) -> Result<(), Error> {
    client.batch_execute(schema::POSTGRES).await
}

/// Sends an event when the transaction commits. Returns the number of its row. Pass the transaction that the event
/// belongs to.
///
/// The statement, and with it the transaction, fails if the event can never be sent: it is too large, its type is not a
/// valid name, or, in Everhook's own database, its application does not exist.
pub async fn send(transaction: &impl GenericClient, event: &Event<'_>) -> Result<i64, Error> {
    let list =
        |texts: &[&str]| (!texts.is_empty()).then(|| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
    let (channels, tags) = (list(event.channels), list(event.tags));
    let mut values: Vec<(&(dyn tokio_postgres::types::ToSql + Sync), Type)> = vec![
        (&event.application, Type::TEXT),
        (&event.event_type, Type::TEXT),
        (&event.payload, Type::TEXT),
        (&event.event_id, Type::TEXT),
        (&channels, Type::TEXT_ARRAY),
        (&tags, Type::TEXT_ARRAY),
        (&event.deliver_at_us, Type::INT8),
        (&event.once_key, Type::TEXT),
        (&event.once_phase, Type::INT8),
    ];
    // Without the argument, the function uses its default environment.
    let statement = if event.environment.is_some() { SEND_TO } else { SEND };
    if event.environment.is_some() {
        values.push((&event.environment, Type::TEXT));
    }
    let rows = transaction.query_typed(statement, &values).await?;
    rows.first().map_or(Ok(0), |row| row.try_get(0))
}
