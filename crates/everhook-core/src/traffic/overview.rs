//! The traffic of an environment over a range of time, in steps for a chart. Folds the stored spans of all nodes.

use std::time::Duration;

use crate::name::named_as;
use crate::time::Timestamp;
use crate::traffic::{Span, Traffic, TrafficRow};

/// The range of an overview, up to now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    QuarterHour,
    Hour,
    SixHours,
    Day,
    Week,
}

impl Range {
    /// The stored spans that it is made of.
    pub const fn span(self) -> Span {
        match self {
            Range::QuarterHour | Range::Hour | Range::SixHours => Span::Minute,
            Range::Day => Span::Quarter,
            Range::Week => Span::Hour,
        }
    }

    /// The length of a step: a multiple of the span.
    pub const fn step(self) -> Duration {
        Duration::from_secs(match self {
            Range::QuarterHour | Range::Hour => 60,
            Range::SixHours => 300,
            Range::Day => 900,
            Range::Week => 3600,
        })
    }

    pub const fn steps(self) -> usize {
        match self {
            Range::QuarterHour => 15,
            Range::Hour => 60,
            Range::SixHours => 72,
            Range::Day => 96,
            Range::Week => 168,
        }
    }

    /// The start of the first step. The last step contains `now`.
    pub fn since(self, now: Timestamp) -> Timestamp {
        let step = self.step().as_secs().cast_signed();
        let last = now.as_secs().div_euclid(step) * step;
        Timestamp::from_millis((last - step * (self.steps() as i64 - 1)) * 1000)
    }
}

named_as!(Range, BadRange { QuarterHour = "15m", Hour = "1h", SixHours = "6h", Day = "24h", Week = "7d" });

/// Error of a text that names no range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be 15m, 1h, 6h, 24h or 7d")]
pub struct BadRange;

/// The traffic of an environment in a range.
#[derive(Clone, Debug, PartialEq)]
pub struct Overview {
    /// Each step with its start, oldest first.
    pub steps: Vec<(Timestamp, Traffic)>,
    pub total: Traffic,
}

impl Overview {
    /// Folds stored rows. Rows outside of the range are ignored.
    pub fn fold(range: Range, now: Timestamp, rows: &[TrafficRow]) -> Overview {
        let since = range.since(now);
        let starts = (0..range.steps()).map(|step| since.plus(range.step() * step as u32));
        let mut steps: Vec<_> = starts.map(|start| (start, Traffic::default())).collect();
        let mut total = Traffic::default();
        for row in rows.iter().filter(|row| row.start >= since && row.span == range.span()) {
            let at = row.start.since(since).as_secs() / range.step().as_secs();
            if let Some((_, step)) = usize::try_from(at).ok().and_then(|at| steps.get_mut(at)) {
                step.merge(&row.counts);
                total.merge(&row.counts);
            }
        }
        Overview { steps, total }
    }

    /// The share of attempts that succeeded; none without attempts.
    pub fn success_rate(&self) -> Option<f64> {
        let attempts = self.total.delivered + self.total.failed();
        (attempts > 0).then(|| self.total.delivered as f64 / attempts as f64)
    }
}

/// The share of attempts in these rows that failed; none without attempts.
pub fn failure_rate(rows: &[TrafficRow]) -> Option<f64> {
    let failed: u64 = rows.iter().map(|row| row.counts.failed()).sum();
    let attempts = failed + rows.iter().map(|row| row.counts.delivered).sum::<u64>();
    (attempts > 0).then(|| failed as f64 / attempts as f64)
}

/// The time over which [`delivered_per_minute`] averages.
pub const RATE_WINDOW: Duration = Duration::from_secs(5 * 60);

/// The deliveries per minute, averaged over the latest minutes in `rows`.
pub fn delivered_per_minute(now: Timestamp, rows: &[TrafficRow]) -> f64 {
    let since = Span::Minute.start(now.minus(RATE_WINDOW)).plus(Duration::from_secs(60));
    let latest = rows.iter().filter(|row| row.span == Span::Minute && row.start >= since);
    let delivered: u64 = latest.map(|row| row.counts.delivered).sum();
    delivered as f64 * 60.0 / now.since(since).as_secs_f64().max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{EnvironmentId, Id};

    /// 2027-01-15 08:07:30 UTC
    const NOW: Timestamp = Timestamp::from_millis(1_800_000_450_000);

    fn row(range: Range, ago: i64, delivered: u64) -> TrafficRow {
        let at = Timestamp::from_millis(NOW.as_millis() - ago * 1000);
        let (span, environment, source) = (range.span(), EnvironmentId(1), Id::MIN);
        let counts = Traffic { delivered, ..Traffic::default() };
        TrafficRow { environment, span, start: span.start(at), source, counts }
    }

    #[test]
    fn the_last_step_contains_now_and_the_first_is_a_range_ago() {
        for range in Range::ALL {
            let overview = Overview::fold(range, NOW, &[]);
            let (first, last) = (overview.steps[0].0, overview.steps[range.steps() - 1].0);
            assert!(last <= NOW && NOW.since(last) < range.step(), "{range}");
            assert_eq!(first, range.since(NOW));
            assert_eq!(last.since(first), range.step() * (range.steps() as u32 - 1));
            assert_eq!(first.as_secs() % range.span().secs(), 0, "{range} starts with a span");
            assert_eq!(range.to_string().parse(), Ok(range));
        }
        assert_eq!("2h".parse::<Range>(), Err(BadRange));
    }

    #[test]
    fn rows_of_all_nodes_are_added_to_their_step() {
        let range = Range::SixHours;
        let hour = row(Range::Week, 0, 1000);
        let rows =
            [row(range, 0, 1), row(range, 0, 2), row(range, 120, 4), row(range, 3600, 8), row(range, 7 * 3600, 16)];
        let overview = Overview::fold(range, NOW, &[rows.as_slice(), &[hour]].concat());
        let steps: Vec<_> =
            overview.steps.iter().map(|(_, step)| step.delivered).enumerate().filter(|(_, n)| *n > 0).collect();
        assert_eq!(steps, [(59, 8), (71, 7)], "two minutes before 08:07 are in the same five minutes");
        assert_eq!((overview.total.delivered, overview.success_rate()), (15, Some(1.0)));
        assert_eq!(Overview::fold(range, NOW, &[]).success_rate(), None);
    }

    #[test]
    fn the_rate_covers_the_latest_minutes() {
        let rows =
            [row(Range::Hour, 0, 30), row(Range::Hour, 60, 60), row(Range::Hour, 240, 180), row(Range::Hour, 300, 999)];
        assert_eq!(delivered_per_minute(NOW, &rows), 60.0, "270 in 4.5 minutes");
        assert_eq!(delivered_per_minute(NOW, &[]), 0.0);
    }
}
