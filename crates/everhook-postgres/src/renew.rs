//! Renewals, on a connection of their own: no load on the pool can keep a node from saying that it lives.

use everhook_core::id::SessionId;
use everhook_store::lease::Renewed;
use futures_util::future::join;
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
    timeline: Timeline,
}

/// Which history of the database was last written to: another one after a standby took over.
#[derive(Debug, Default, PartialEq, Eq)]
enum Timeline {
    #[default]
    NotAsked,
    Known(String),
    /// Some services do not tell: there a takeover is not noticed.
    NotTold,
}

impl Timeline {
    /// Takes in an answer; says whether it is another one than before.
    fn moves_to(&mut self, answer: Option<String>) -> bool {
        let now = answer.map_or(Timeline::NotTold, Timeline::Known);
        let before = std::mem::replace(self, now);
        matches!((&before, &*self), (Timeline::Known(before), Timeline::Known(now)) if before != now)
    }
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
        let renewal = async {
            match &open.statement {
                Some(statement) => open.client.query(statement, &[&session]).await,
                None => open.client.query_typed(sql::RENEW_SESSION.text, &[(&session, Type::BYTEA)]).await,
            }
        };
        // None where nothing new is known.
        let timeline = async {
            if line.timeline == Timeline::NotTold {
                return None;
            }
            match open.client.query_typed(sql::TIMELINE.text, &[]).await {
                Ok(rows) => Some(rows.first()?.try_get::<_, String>(0).ok()),
                Err(error) => error.as_db_error().map(|_| None),
            }
        };
        // In one round trip; only the first of them has to succeed.
        let (rows, timeline) = within(async {
            let (rows, timeline) = join(renewal, timeline).await;
            Ok((rows?, timeline))
        })
        .await?;
        let moved = timeline.is_some_and(|timeline| line.timeline.moves_to(timeline));
        // Kept only if it worked: whatever went wrong, the next renewal begins with a new connection.
        line.open = Some(open);
        let Some(row) = rows.first() else { return Ok(Renewed::Closed) };
        let at = Reader::new(row, "session").time("lease_until")?;
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
            false => Some(within(client.prepare_typed(sql::RENEW_SESSION.text, sql::RENEW_SESSION.types)).await?),
        };
        Ok(Open { client, statement })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_known_timeline_is_a_move() {
        let mut timeline = Timeline::default();
        let known = |name: &str| Some(name.to_owned());
        assert!(!timeline.moves_to(known("00000001")), "the first one");
        assert!(!timeline.moves_to(known("00000001")));
        assert!(timeline.moves_to(known("00000002")));
        assert!(!timeline.moves_to(known("00000002")), "told once");
        assert!(!timeline.moves_to(None), "not told");
        assert_eq!(timeline, Timeline::NotTold);
    }
}
