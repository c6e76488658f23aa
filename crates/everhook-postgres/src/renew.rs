//! Renewals of sessions on a connection of their own, so that a busy pool cannot delay them.

use everhook_core::id::SessionId;
use everhook_core::time::Timestamp;
use everhook_store::catalog::Order;
use everhook_store::lease::Renewed;
use everhook_store::seal::Seal;
use everhook_store::sql::answer::ReturnedRows as _;
use everhook_store::sql::statement::Statement as _;
use everhook_store::statement;
use futures_util::future::join;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_postgres::{Client, Config};

use crate::DIALECT;
use crate::connection::Connector;
use crate::error::Fault;
use crate::hosts::connect_wait;
use crate::session::RenewSession;
use crate::tx::{Prepared, send, within};
use crate::value::types;

statement! {
    ReadTimeline = ("timeline", "select substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8)") {}
        -> Option<String>;
}

/// The connection for renewals. It is opened at first use, and again after it broke.
pub(crate) struct Renewals {
    config: Config,
    connector: Connector,
    pooler: bool,
    line: Mutex<RenewalLine>,
}

#[derive(Default)]
struct RenewalLine {
    open: Option<Open>,
    timeline: Timeline,
}

/// The timeline of the database at the last renewal. It changes when a standby takes over.
#[derive(Debug, Default, PartialEq, Eq)]
enum Timeline {
    #[default]
    NotAsked,
    Known(String),
    /// Some services hide the timeline: there a takeover is not noticed.
    NotTold,
}

impl Timeline {
    /// Stores the new timeline; returns whether it differs from the previous one.
    fn moves_to(&mut self, answer: Option<String>) -> bool {
        let now = answer.map_or(Timeline::NotTold, Timeline::Known);
        let before = std::mem::replace(self, now);
        matches!((&before, &*self), (Timeline::Known(before), Timeline::Known(now)) if before != now)
    }
}

struct Open {
    client: Client,
    /// Unnamed behind a pooler.
    prepared: Prepared,
}

impl Renewals {
    pub(crate) fn new(config: Config, connector: Connector, pooler: bool) -> Renewals {
        Renewals { config, connector, pooler, line: Mutex::default() }
    }

    /// Extends a session. A renewal whose reply is lost only lasts longer than the node believes, so it counts as a
    /// failure, not as in doubt.
    pub(crate) async fn renew(&self, session: SessionId) -> Result<Renewed, Fault> {
        // One at a time: renewals share a connection, and a second one would wait for the same server.
        let mut line = self.line.lock().await;
        let open = match line.open.take().filter(|open| !open.client.is_closed()) {
            Some(open) => open,
            None => self.connect().await?,
        };
        let renew = RenewSession { id: session }.call();
        let renewal = send(&open.client, &open.prepared, &renew, Seal::NONE);
        // None if the timeline is unknown.
        let timeline = async {
            if line.timeline == Timeline::NotTold {
                return None;
            }
            match send(&open.client, &Prepared::Unnamed, &ReadTimeline {}.call(), Seal::NONE).await {
                Ok(reply) => Some(reply.read::<Option<String>>().ok().flatten()),
                Err(error) => error.as_db_error().map(|_| None),
            }
        };
        // One round trip; only the renewal must succeed.
        let (renewed, timeline) = within(async {
            let (renewed, timeline) = join(renewal, timeline).await;
            Ok((renewed?, timeline))
        })
        .await?;
        let moved = timeline.is_some_and(|timeline| line.timeline.moves_to(timeline));
        // The connection is kept only after a success: after any failure, the next renewal opens a new one.
        line.open = Some(open);
        let Some(at) = renewed.read::<Option<Timestamp>>()? else { return Ok(Renewed::Closed) };
        Ok(if moved { Renewed::Moved(at) } else { Renewed::Open(at) })
    }

    pub(crate) async fn close(&self) {
        self.line.lock().await.open.take();
    }

    async fn connect(&self) -> Result<Open, Fault> {
        let opening = self.connector.open(&self.config);
        let (client, _driver) =
            timeout(connect_wait(&self.config), opening).await.map_err(|_| Fault::Slow)?.map_err(Fault::Statement)?;
        let text = RenewSession::text(DIALECT);
        let prepared = match self.pooler {
            true => Prepared::Unnamed,
            false => {
                let (sql, types) = (text.sql(Order::Ascending), types(text));
                Prepared::Named(within(client.prepare_typed(sql, &types)).await?)
            }
        };
        Ok(Open { client, prepared })
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
