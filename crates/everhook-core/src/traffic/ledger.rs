//! The spans that one node is counting: fresh counts go in, rows for the store come out.
//!
//! A row always has all counts of its span, and replaces the row that the node wrote before. A write that failed, or
//! may have failed, is therefore simply repeated with the next one.

use std::collections::BTreeMap;

use crate::id::{EnvironmentId, Id};
use crate::limits::TRAFFIC_UNWRITTEN_MAX;
use crate::time::Timestamp;
use crate::traffic::{Span, Traffic, TrafficRow};

#[derive(Debug)]
pub struct Ledger {
    source: Id,
    spans: BTreeMap<(EnvironmentId, Span, Timestamp), Entry>,
}

#[derive(Debug, Default)]
struct Entry {
    counts: Traffic,
    is_written: bool,
}

impl Ledger {
    /// Returns an empty ledger. `source` is never used again.
    pub fn new(source: Id) -> Ledger {
        Ledger { source, spans: BTreeMap::new() }
    }

    /// Adds fresh counts to the spans that contain `now`. Spans that could not be written for too long are dropped.
    pub fn fold(&mut self, fresh: &BTreeMap<EnvironmentId, Traffic>, now: Timestamp) {
        for (environment, counts) in fresh {
            for span in Span::ALL {
                let entry = self.spans.entry((*environment, span, span.start(now))).or_default();
                entry.counts.merge(counts);
                entry.is_written = false;
            }
        }
        let oldest = now.minus(TRAFFIC_UNWRITTEN_MAX);
        self.spans.retain(|(_, span, start), _| *start >= span.start(oldest));
    }

    /// Returns the rows to write.
    pub fn unwritten(&self) -> Vec<TrafficRow> {
        let unwritten = self.spans.iter().filter(|(_, entry)| !entry.is_written);
        let row = |((environment, span, start), entry): (&(EnvironmentId, Span, Timestamp), &Entry)| TrafficRow {
            environment: *environment,
            span: *span,
            start: *start,
            source: self.source,
            counts: entry.counts.clone(),
        };
        unwritten.map(row).collect()
    }

    /// Marks all rows as written, and forgets the spans that have ended.
    pub fn written(&mut self, now: Timestamp) {
        self.spans.retain(|(_, span, start), entry| {
            entry.is_written = true;
            *start == span.start(now)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: EnvironmentId = EnvironmentId(1);
    const THERE: EnvironmentId = EnvironmentId(2);

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000 + secs * 1000)
    }

    fn accepted(environment: EnvironmentId, accepted: u64) -> BTreeMap<EnvironmentId, Traffic> {
        BTreeMap::from([(environment, Traffic { accepted, ..Traffic::default() })])
    }

    #[track_caller]
    fn check(ledger: &Ledger, want: &[(EnvironmentId, i64, i64, u64)]) {
        let rows = ledger.unwritten();
        let short = |row: &TrafficRow| {
            let secs = row.start.as_secs() - at(0).as_secs();
            (row.environment, row.span.secs(), secs, row.counts.accepted)
        };
        assert_eq!(rows.iter().map(short).collect::<Vec<_>>(), want);
    }

    #[test]
    fn a_row_has_all_counts_of_its_span() {
        let mut ledger = Ledger::new(Id::MIN);
        check(&ledger, &[]);
        ledger.fold(&accepted(HERE, 2), at(30));
        check(&ledger, &[(HERE, 60, 0, 2), (HERE, 900, 0, 2), (HERE, 3600, 0, 2)]);
        ledger.written(at(31));
        check(&ledger, &[]);
        ledger.fold(&accepted(HERE, 3), at(45));
        check(&ledger, &[(HERE, 60, 0, 5), (HERE, 900, 0, 5), (HERE, 3600, 0, 5)]);
        ledger.written(at(46));
        ledger.fold(&accepted(THERE, 1), at(50));
        check(&ledger, &[(THERE, 60, 0, 1), (THERE, 900, 0, 1), (THERE, 3600, 0, 1)]);
    }

    #[test]
    fn a_failed_write_is_repeated_with_the_next_one() {
        let mut ledger = Ledger::new(Id::MIN);
        ledger.fold(&accepted(HERE, 2), at(58));
        ledger.fold(&accepted(HERE, 3), at(63));
        check(&ledger, &[(HERE, 60, 0, 2), (HERE, 60, 60, 3), (HERE, 900, 0, 5), (HERE, 3600, 0, 5)]);
        ledger.written(at(63));
        ledger.fold(&accepted(HERE, 1), at(68));
        check(&ledger, &[(HERE, 60, 60, 4), (HERE, 900, 0, 6), (HERE, 3600, 0, 6)]);
    }

    #[test]
    fn memory_is_bounded_while_nothing_can_be_written() {
        let mut ledger = Ledger::new(Id::MIN);
        for minute in 0..10_000 {
            ledger.fold(&accepted(HERE, 1), at(minute * 60));
        }
        assert!(ledger.unwritten().len() < 100);
    }
}
