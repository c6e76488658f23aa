//! Makes the first transactions as fast as later ones: opens connections and plans the hot statements on them at start.
//!
//! Connections that the pool opens later plan their statements at first use.

use everhook_store::sql::statement::{Statement, TextOf};
use everhook_store::store::Op;
use futures_util::future::try_join_all;
use tracing::warn;

use crate::DIALECT;
use crate::feed::{NextLane, NextReady};
use crate::lease::{
    ClearLaneWaiting, FindMessage, LeaseTask, MarkLaneEmpty, MoveLaneToBack, NextDue, RecomputeLaneDue,
};
use crate::optimistic_append::AppendDirect;
use crate::settle::{SettleGone, SettleKept};
use crate::store::PostgresStore;

/// Enough for accepting, leasing and settling at the same time, and for some background work.
const CONNECTIONS: usize = 6;

/// The statements of accepting, leasing and settling.
const HOT: [TextOf; 12] = [
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
    /// Opens connections and plans the hot statements; a server calls it before it is ready.
    ///
    /// Does nothing behind a pooler, where no statement is planned ahead. If it fails, the first transactions are
    /// slower.
    pub async fn preplan(&self) {
        let database = &self.database;
        if database.pooler {
            return;
        }
        let connections = CONNECTIONS.min(database.pool.status().max_size);
        // All at once, so that none gets the connection of another.
        let plan = async |_| database.tx().await?.plan(HOT.iter().map(|text| text(DIALECT))).await;
        if let Err(fault) = try_join_all((0..connections).map(plan)).await {
            let error = fault.into_store_error(Op::PlanStatements);
            warn!(error = &error as &dyn std::error::Error, "could not open {connections} connections ahead: {error}");
        }
    }
}
