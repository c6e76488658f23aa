//! Counts of traffic: each node replaces its own rows, and a read returns the rows of all nodes.

use everhook_core::id::{EnvironmentId, Id};
use everhook_core::scope::Scope;
use everhook_core::time::Timestamp;
use everhook_core::traffic::{Span, Traffic, TrafficRow};
use everhook_store::query;
use everhook_store::retention::{Prunable, Prune};

use crate::conformance::fixture::{Fixture, PLENTY};

fn at(secs: i64) -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000 + secs * 1000)
}

fn row(environment: EnvironmentId, span: Span, start: i64, source: Id, accepted: u64) -> TrafficRow {
    let mut counts = Traffic::default();
    counts.accepted = accepted;
    TrafficRow { environment, span, start: at(start), source, counts }
}

/// Returns the starts and counts of the rows since a time.
async fn list(fx: &Fixture, environment: EnvironmentId, span: Span, since: i64) -> Vec<(i64, u64)> {
    let ask = query::Traffic { scope: Scope::of(environment), span, since: at(since) };
    let rows = fx.read(ask).await;
    assert!(rows.is_sorted_by_key(|row| std::cmp::Reverse(row.start)), "newest first: {rows:?}");
    let mut rows: Vec<_> =
        rows.iter().map(|row| (row.start.as_secs() - at(0).as_secs(), row.counts.accepted)).collect();
    rows.sort_unstable();
    rows
}

pub(super) async fn a_node_replaces_its_own_counts_only(fx: &Fixture) {
    let (one, two) = (fx.id(), fx.id());
    let first = vec![
        row(fx.here, Span::Minute, 0, one, 3),
        row(fx.here, Span::Minute, 0, two, 5),
        row(fx.here, Span::Minute, 60, one, 1),
        row(fx.here, Span::Hour, 0, one, 4),
        row(fx.there, Span::Minute, 0, one, 9),
    ];
    for _ in 0..2 {
        fx.store.put_traffic(first.clone()).await.unwrap();
        assert_eq!(list(fx, fx.here, Span::Minute, 0).await, [(0, 3), (0, 5), (60, 1)], "a write may be repeated");
    }
    fx.store.put_traffic(vec![row(fx.here, Span::Minute, 0, one, 7)]).await.unwrap();
    assert_eq!(list(fx, fx.here, Span::Minute, 0).await, [(0, 5), (0, 7), (60, 1)]);
    assert_eq!(list(fx, fx.here, Span::Minute, 1).await, [(60, 1)]);
    assert_eq!(list(fx, fx.here, Span::Hour, 0).await, [(0, 4)]);
    assert_eq!(list(fx, fx.here, Span::Quarter, 0).await, []);
    assert_eq!(list(fx, fx.there, Span::Minute, 0).await, [(0, 9)]);
    fx.store.put_traffic(Vec::new()).await.unwrap();
}

pub(super) async fn minutes_are_forgotten_before_hours(fx: &Fixture) {
    let source = fx.id();
    let rows = Span::ALL.into_iter().flat_map(|span| [0, 7200].map(|start| row(fx.here, span, start, source, 1)));
    fx.store.put_traffic(rows.collect()).await.unwrap();
    let prune = async |what, before, limit| fx.other.prune(Prune { what, before: at(before), limit }).await.unwrap();
    assert_eq!(prune(Prunable::TrafficMinutes, 0, PLENTY).await, 0);
    assert_eq!(prune(Prunable::TrafficMinutes, 1, 1).await, 1, "in slices");
    assert_eq!(prune(Prunable::TrafficMinutes, 1, PLENTY).await, 1);
    for span in [Span::Minute, Span::Quarter] {
        assert_eq!(list(fx, fx.here, span, 0).await, [(7200, 1)]);
    }
    assert_eq!(list(fx, fx.here, Span::Hour, 0).await, [(0, 1), (7200, 1)]);
    assert_eq!(prune(Prunable::TrafficHours, 7200, PLENTY).await, 1);
    assert_eq!(list(fx, fx.here, Span::Hour, 0).await, [(7200, 1)]);
}
