//! Counts of traffic.

use everhook_core::id::EnvironmentId;
use everhook_core::limits::TRAFFIC_ROWS_MAX;
use everhook_core::time::Timestamp;
use everhook_core::traffic::{Span, TrafficRow};

use crate::mem::MemStore;

impl MemStore {
    pub(super) fn put_traffic_now(&self, rows: Vec<TrafficRow>) {
        let (mut tables, _) = self.lock();
        for row in rows {
            tables.traffic.insert((row.environment, row.span, row.start, row.source), row.counts);
        }
    }

    pub(super) fn list_traffic(&self, environment: EnvironmentId, span: Span, since: Timestamp) -> Vec<TrafficRow> {
        let (tables, _) = self.lock();
        let wanted =
            tables.traffic.iter().rev().filter(|(key, _)| (key.0, key.1) == (environment, span) && key.2 >= since);
        let row = |(key, counts): (&(EnvironmentId, Span, Timestamp, everhook_core::id::Id), &_)| TrafficRow {
            environment: key.0,
            span: key.1,
            start: key.2,
            source: key.3,
            counts: Clone::clone(counts),
        };
        wanted.map(row).take(TRAFFIC_ROWS_MAX).collect()
    }
}
