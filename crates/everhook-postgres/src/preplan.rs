//! Makes the first transactions as fast as the later ones: connections are opened, and what runs all the time is planned on them, before
//! anyone waits for it. Connections that the pool opens later plan their statements as they meet them.

use everhook_store::sql::statement::{Statement, Text};
use everhook_store::store::Op;
use futures_util::future::try_join_all;
use tracing::warn;

use crate::feed::{NextLane, NextReady};
use crate::lease::{
    ClearLaneWaiting, FindMessage, LeaseTask, MarkLaneEmpty, MoveLaneToBack, NextDue, RecomputeLaneDue,
};
use crate::optimistic_append::AppendDirect;
use crate::settle::{SettleGone, SettleKept};
use crate::store::PostgresStore;

/// As many as are busy when all of that is done at once, with some for what a node looks after besides.
const CONNECTIONS: usize = 6;

/// What accepting, leasing and settling send.
const HOT: [fn() -> &'static Text; 12] = [
    AppendDirect::text,
    NextLane::text,
    NextReady::text,
    LeaseTask::text,
    NextDue::text,
    MarkLaneEmpty::text,
    RecomputeLaneDue::text,
    MoveLaneToBack::text,
    ClearLaneWaiting::text,
    FindMessage::text,
    SettleGone::text,
    SettleKept::text,
];

impl PostgresStore {
    /// Opens connections and has them plan; for a server, before it is ready. Does nothing behind a pooler, where nothing is planned ahead.
    /// Where it cannot, those who come first wait instead.
    pub async fn preplan(&self) {
        let database = &self.database;
        if database.pooler {
            return;
        }
        let connections = CONNECTIONS.min(database.pool.status().max_size);
        // At once, so that none of them gets the connection of another.
        let plan = async |_| database.tx().await?.plan(HOT.iter().map(|text| text())).await;
        if let Err(fault) = try_join_all((0..connections).map(plan)).await {
            let error = fault.into_store_error(Op::PlanStatements);
            warn!(error = &error as &dyn std::error::Error, "could not open {connections} connections ahead: {error}");
        }
    }
}
