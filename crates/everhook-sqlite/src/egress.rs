//! The pause of egress.

use everhook_core::egress::EgressPause;
use everhook_core::time::Timestamp;
use everhook_store::sql::param::StoreClock;
use everhook_store::sql::shared::{EndEgressPause, FindEgressPause, StartEgressPause};
use rusqlite::Connection;

use crate::error::Fault;
use crate::sql::run_plain;
use crate::writer::Tx;

pub(crate) fn find(conn: &Connection) -> Result<Option<EgressPause>, Fault> {
    run_plain(conn, FindEgressPause {})
}

/// Starts a pause with this reason, or ends it.
pub(crate) fn set(tx: &Tx<'_>, reason: Option<&str>) -> Result<(), Fault> {
    match reason {
        Some(reason) => start(tx.conn, reason, tx.now),
        None => run_plain(tx.conn, EndEgressPause {}).map(drop),
    }
}

pub(crate) fn start(conn: &Connection, reason: &str, now: Timestamp) -> Result<(), Fault> {
    run_plain(conn, StartEgressPause { reason, now: StoreClock::At(now) }).map(drop)
}
