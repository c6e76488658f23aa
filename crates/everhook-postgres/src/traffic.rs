//! Counts of traffic.

use everhook_core::id::{EnvironmentId, Id};
use everhook_core::limits::TRAFFIC_ROWS_MAX;
use everhook_core::time::Timestamp;
use everhook_core::traffic::{Span, Traffic, TrafficRow};
use everhook_store::{columns, statement};

use crate::error::Fault;
use crate::store::PostgresStore;

columns! {
    Counted of CountedRow { environment: EnvironmentId, span: i32, start: i64, source: Id, counts: String }
}

statement! {
    PutTraffic = "put_traffic" { counted: Counted };
    ListTraffic = "list_traffic" { environment: EnvironmentId, span: i32, since: i64, limit: usize }
        -> Vec<(i64, Id, String)>;
    pub(crate) PruneTraffic = "prune_traffic" { span: i32, before: i64, limit: usize };
}

impl PostgresStore {
    pub(crate) async fn put_traffic_once(&self, rows: &[TrafficRow]) -> Result<(), Fault> {
        let mut counted = Counted::default();
        for TrafficRow { environment, span, start, source, counts } in rows {
            let (environment, source, counts) = (*environment, *source, counts.to_json());
            counted.push(CountedRow { environment, span: secs(*span), start: start.as_secs(), source, counts });
        }
        self.database.write(PutTraffic { counted }).await.map(drop)
    }

    /// Lists the counts since a time, newest first.
    pub(crate) async fn list_traffic_once(
        &self,
        environment: EnvironmentId,
        span: Span,
        since: Timestamp,
    ) -> Result<Vec<TrafficRow>, Fault> {
        let list = ListTraffic { environment, span: secs(span), since: since.as_secs(), limit: TRAFFIC_ROWS_MAX };
        let read = |(start, source, counts): (i64, Id, String)| {
            let corrupt = Fault::Corrupt { table: "traffic", column: "counts" };
            let (start, counts) = (Timestamp::from_millis(start * 1000), Traffic::from_json(&counts).ok_or(corrupt)?);
            Ok(TrafficRow { environment, span, start, source, counts })
        };
        self.database.read(list).await?.into_iter().map(read).collect()
    }

    pub(crate) async fn prune_traffic(&self, spans: &[Span], before: Timestamp, limit: usize) -> Result<u64, Fault> {
        let mut pruned = 0;
        for span in spans {
            let left = limit.saturating_sub(usize::try_from(pruned).unwrap_or(usize::MAX));
            pruned +=
                self.database.write(PruneTraffic { span: secs(*span), before: before.as_secs(), limit: left }).await?;
        }
        Ok(pruned)
    }
}

/// The length of a span as the store has it.
fn secs(span: Span) -> i32 {
    i32::try_from(span.secs()).unwrap_or(i32::MAX)
}
