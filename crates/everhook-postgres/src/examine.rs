//! Facts about a PostgreSQL database, for `everhook doctor`. Changes nothing.

use everhook_core::time::Timestamp;
use tokio_postgres::Client;

use crate::connection::{Connector, Route, address, settings};
use crate::error::PostgresOpenError;
use crate::migrate::{self, SCHEMA_VERSION};

const FACTS: &str = "select (extract(epoch from pg_catalog.clock_timestamp()) * 1000000)::bigint, \
    pg_catalog.current_setting('server_version'), pg_catalog.current_setting('server_version_num')::int4, \
    pg_catalog.current_setting('fsync') = 'on', pg_catalog.current_setting('full_page_writes') = 'on', \
    pg_catalog.current_setting('synchronous_commit'), pg_catalog.current_setting('synchronous_standby_names'), \
    pg_catalog.current_setting('max_connections')::int4, \
    (select count(*) from pg_catalog.pg_stat_activity where backend_type = 'client backend')::int4, \
    pg_catalog.pg_is_in_recovery()";

/// A database as it is.
#[derive(Clone, Debug)]
pub struct PostgresFacts {
    /// Hosts and ports, without secrets.
    pub address: String,
    pub now: Timestamp,
    pub version: String,
    pub version_number: i32,
    pub fsync: bool,
    pub full_page_writes: bool,
    pub synchronous_commit: String,
    /// Empty without a synchronous standby.
    pub synchronous_standby_names: String,
    pub connections_max: i32,
    pub connections_used: i32,
    pub is_standby: bool,
    /// The versions of the schema in the database, 0 for none, and in this binary.
    pub schema: (i32, i32),
    /// The reason why this binary cannot use the schema.
    pub refused: Option<String>,
}

/// Reads the facts, or the reason why no server could use the database.
pub async fn examine(url: &str) -> Result<PostgresFacts, PostgresOpenError> {
    let config = settings(url, Route::Pooler)?;
    let address = address(&config);
    let client = Connector::new(url, &config)?.open_now(&config).await?;
    read(&client, &address).await.map_err(|source| PostgresOpenError::Statement {
        address,
        what: "read the settings",
        source: Box::new(source),
    })
}

async fn read(client: &Client, address: &str) -> Result<PostgresFacts, tokio_postgres::Error> {
    let rows = client.query_typed(FACTS, &[]).await?;
    let row = rows.first().expect("a statement without a table returns one row");
    let found = migrate::read_version(client).await?;
    let refused = migrate::check_known(address, &found).err().map(|error| error.to_string());
    Ok(PostgresFacts {
        address: address.to_owned(),
        now: Timestamp::from_micros(row.try_get(0)?),
        version: row.try_get(1)?,
        version_number: row.try_get(2)?,
        fsync: row.try_get(3)?,
        full_page_writes: row.try_get(4)?,
        synchronous_commit: row.try_get(5)?,
        synchronous_standby_names: row.try_get(6)?,
        connections_max: row.try_get(7)?,
        connections_used: row.try_get(8)?,
        is_standby: row.try_get(9)?,
        schema: (found.version, SCHEMA_VERSION),
        refused,
    })
}
