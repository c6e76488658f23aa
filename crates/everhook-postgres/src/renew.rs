//! Renewals, on a connection of their own: no load on the pool can keep a node from saying that it lives.

use everhook_core::id::SessionId;
use everhook_store::lease::Renewed;
use everhook_store::mutant;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Config, Statement};

use crate::connection::Connector;
use crate::error::Fault;
use crate::hosts::connect_wait;
use crate::rows::Reader;
use crate::sql;
use crate::statement::within;

/// The connection for renewals; it is opened when it is needed and again when it broke.
pub(crate) struct Renewals {
    config: Config,
    connector: Connector,
    pooler: bool,
    line: Mutex<Line>,
}

#[derive(Default)]
struct Line {
    open: Option<Open>,
    /// Which history of the database the last renewal was written to.
    timeline: Option<String>,
}

struct Open {
    client: Client,
    /// None behind a pooler.
    statement: Option<Statement>,
}

impl Renewals {
    pub(crate) fn new(config: Config, connector: Connector, pooler: bool) -> Renewals {
        Renewals { config, connector, pooler, line: Mutex::default() }
    }

    /// Extends a session. A renewal that was written without our knowing only lasts longer than we believe, so that a lost
    /// reply is no doubt but a failure.
    pub(crate) async fn renew(&self, session: SessionId) -> Result<Renewed, Fault> {
        // One at a time: they share a connection, and a second one would only wait for the same server.
        let mut line = self.line.lock().await;
        let open = match line.open.take().filter(|open| !open.client.is_closed()) {
            Some(open) => open,
            None => self.connect().await?,
        };
        let session: &[u8] = session.as_bytes();
        let rows = match &open.statement {
            Some(statement) => within(open.client.query(statement, &[&session])).await?,
            None => within(open.client.query_typed(sql::RENEW_SESSION.text, &[(&session, Type::BYTEA)])).await?,
        };
        // Kept only if it worked: whatever went wrong, the next renewal begins with a new connection.
        line.open = Some(open);
        let Some(row) = rows.first() else { return Ok(Renewed::Closed) };
        let mut row = Reader::new(row, "session");
        let (at, timeline) = (row.time("lease_until")?, row.get("timeline")?);
        let moved = line.timeline.replace(timeline).is_some_and(|before| Some(before) != line.timeline);
        Ok(if moved { Renewed::Moved(at) } else { Renewed::Open(at) })
    }

    pub(crate) async fn close(&self) {
        self.line.lock().await.open.take();
    }

    async fn connect(&self) -> Result<Open, Fault> {
        let opening = self.connector.open(&self.config);
        let (client, _driver) =
            timeout(connect_wait(&self.config), opening).await.map_err(|_| Fault::Slow)?.map_err(Fault::Statement)?;
        let statement = match self.pooler {
            true => None,
            false => Some(
                within(client.prepare_typed(&mutant::sql(sql::RENEW_SESSION.text), sql::RENEW_SESSION.types)).await?,
            ),
        };
        Ok(Open { client, statement })
    }
}
