//! Counts of traffic.

use everhook_core::id::{EnvironmentId, Id};
use everhook_core::limits::TRAFFIC_ROWS_MAX;
use everhook_core::time::Timestamp;
use everhook_core::traffic::{Span, Traffic, TrafficRow};
use everhook_store::statement;

use crate::connection::Connection;
use crate::error::Fault;
use crate::sql::run;
use crate::writer::Tx;

statement! {
    PutTraffic<'a> = "put_traffic" {
        environment: EnvironmentId, span: i64, start: i64, source: Id, counts: &'a str,
    };
    ListTraffic = "list_traffic" { environment: EnvironmentId, span: i64, since: i64, limit: usize }
        -> Vec<(i64, Id, String)>;
}

pub(crate) fn put(tx: &Tx<'_>, rows: &[TrafficRow]) -> Result<(), Fault> {
    for TrafficRow { environment, span, start, source, counts } in rows {
        let (environment, source, counts) = (*environment, *source, &counts.to_json());
        run(tx.conn, PutTraffic { environment, span: span.secs(), start: start.as_secs(), source, counts })?;
    }
    Ok(())
}

/// Lists the counts since a time, newest first.
pub(crate) fn list(
    conn: &Connection,
    environment: EnvironmentId,
    span: Span,
    since: Timestamp,
) -> Result<Vec<TrafficRow>, Fault> {
    let list = ListTraffic { environment, span: span.secs(), since: since.as_secs(), limit: TRAFFIC_ROWS_MAX };
    let read = |(start, source, counts): (i64, Id, String)| {
        let corrupt = Fault::Corrupt { table: "traffic", column: "counts" };
        let (start, counts) = (Timestamp::from_millis(start * 1000), Traffic::from_json(&counts).ok_or(corrupt)?);
        Ok(TrafficRow { environment, span, start, source, counts })
    };
    run(conn, list)?.into_iter().map(read).collect()
}
